package rmmsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
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
	yamlField = regexp.MustCompile(`^field (\S+) not found in type \S+$`)
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
			text = unknownWord("key", m[1], faultKeys())
		}
		all = append(all, fmt.Errorf("%s:%s: %s", file, line, strings.TrimPrefix(text, "yaml: ")))
	}
	return errors.Join(all...)
}

// faultKeys are all keys of a fault file.
func faultKeys() (keys []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[Fault](), reflect.TypeFor[Match](), reflect.TypeFor[Action]()} {
		for i := range t.NumField() {
			if key := t.Field(i).Tag.Get("yaml"); key != "-" {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// unknownWord is the text of an error about a misspelt word.
func unknownWord(what, word string, known []string) string {
	best := spell.Nearest(word, known)
	if best == "" {
		return fmt.Sprintf("unknown %s %q", what, word)
	}
	return fmt.Sprintf("unknown %s %q, did you mean %q?", what, word, best)
}
