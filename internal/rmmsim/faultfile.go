package rmmsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/spell"
)

// ParseFaults reads faults from YAML: a list of entries with match, do and an
// optional name, spelt like the fields of Match and Action. Unknown keys and
// impossible faults are errors of the form file:line: text, all of them
// joined. file is only used in their text.
func ParseFaults(data []byte, file string) ([]Fault, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, yamlError(err, file)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var faults []Fault
	if err := dec.Decode(&faults); err != nil {
		return nil, yamlError(err, file)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: more than one YAML document", file)
	}
	var all []error
	for i, f := range faults {
		if err := f.validate(); err != nil {
			all = append(all, fmt.Errorf("%s:%d: %w", file, doc.Content[0].Content[i].Line, err))
		}
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return faults, nil
}

var (
	yamlLine  = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	yamlField = regexp.MustCompile(`^field (\S+) not found in type rmmsim\.(\S+)$`)
	yamlType  = regexp.MustCompile("^cannot unmarshal (?:!!(?:map|seq)|!!\\S+ `(.*)`) into (\\S+)$")
)

// yamlError puts the errors of the YAML library into the form file:line: text
// and adds the nearest key to an unknown one.
func yamlError(err error, file string) error {
	texts := []string{err.Error()}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		texts = typed.Errors
	}
	all := make([]error, 0, len(texts))
	for _, text := range texts {
		line := "1"
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			line, text = m[1], m[2]
		}
		if m := yamlField.FindStringSubmatch(text); m != nil {
			text = unknownKey(m[1], m[2])
		} else if m := yamlType.FindStringSubmatch(text); m != nil {
			text = wrongType(m[1], m[2])
		}
		all = append(all, fmt.Errorf("%s:%s: %s", file, line, strings.TrimPrefix(text, "yaml: ")))
	}
	return errors.Join(all...)
}

// faultSections are the parts of a fault, by the names of their types.
var faultSections = []struct {
	kind, section string
	of            reflect.Type
}{
	{"Fault", "a fault", reflect.TypeFor[Fault]()}, {"Match", "match", reflect.TypeFor[Match]()}, {"Action", "do", reflect.TypeFor[Action]()},
}

// unknownKey says of a key that the part where it stands does not have it: which part does, or which keys there are.
func unknownKey(key, kind string) string {
	var known []string
	here, elsewhere := kind, ""
	for _, s := range faultSections {
		keys := keysOf(s.of)
		switch {
		case s.kind == kind:
			here, known = s.section, keys
		case slices.Contains(keys, key):
			elsewhere = s.section
		}
	}
	switch near := spell.Nearest(key, known); {
	case elsewhere != "":
		return fmt.Sprintf("%q is a key of %s, not of %s", key, elsewhere, here)
	case near != "":
		return fmt.Sprintf("unknown key %q, did you mean %q?", key, near)
	}
	return fmt.Sprintf("unknown key %q; %s has %s", key, here, strings.Join(known, ", "))
}

// keysOf are the keys of a part of a fault.
func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

// wrongType says of a value that another kind of value is wanted.
func wrongType(value, kind string) string {
	want := map[string]string{
		"[]rmmsim.Fault": "a list of faults: - match: {operation: devices}, and below it do: {status: 500}",
		"rmmsim.Fault":   "a fault: keys match and do", "rmmsim.Match": "keys with values, such as {operation: devices}",
		"rmmsim.Action": "keys with values, such as {status: 500}", "time.Duration": "a time such as 500ms or 30s",
		"int": "a whole number", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false", "string": "a text",
		"map[string]string": "keys with values",
	}[kind]
	if value == "" {
		return "want " + want
	}
	return fmt.Sprintf("want %s, not %q", want, value)
}

// unknownWord is the text of an error about a misspelt word.
func unknownWord(what, word string, known []string) string {
	best := spell.Nearest(word, known)
	if best == "" {
		return fmt.Sprintf("unknown %s %q", what, word)
	}
	return fmt.Sprintf("unknown %s %q, did you mean %q?", what, word, best)
}
