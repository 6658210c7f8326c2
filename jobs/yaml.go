package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"
)

// The hints that several messages share.
const (
	quoteHint = `in double quotes a backslash begins an escape such as \t: use single quotes, or / in paths`
	nullHint  = "give it a value or remove the key"
)

// decoder walks the nodes of a job file and collects the faults. It decodes by hand instead of into structs, because
// the library knows no columns, stops at the first fault of syntax, and reads yes and 010 as true and 8.
type decoder struct {
	file   string // as shown in messages
	dir    string // absolute folder where relative paths begin
	lines  []string
	faults Errors

	warnings Errors
}

// fault records a fault at a node.
func (d *decoder) fault(n *yaml.Node, hint, format string, args ...any) {
	d.faultAt(n.Line, n.Column, hint, format, args...)
}

func (d *decoder) faultAt(line, column int, hint, format string, args ...any) {
	d.faults = append(d.faults, &Error{Pos: d.pos(line, column), Message: fmt.Sprintf(format, args...), Hint: hint})
}

// pos is a place in the file. The library knows none for the empty document, hence the lower bound.
func (d *decoder) pos(line, column int) Pos {
	return Pos{File: d.file, Line: max(line, 1), Column: max(column, 1)}
}

// parse turns the bytes into nodes. It returns nil if there is nothing to go on with; the faults say why.
func (d *decoder) parse(data []byte) *yaml.Node {
	if len(data) > maxJobFile {
		d.faultAt(1, 1, "is it the right file?", "this is no job file: it is larger than 1 MiB")
		return nil
	}
	text, ok := d.text8(data)
	if !ok {
		return nil
	}
	d.lines = linesOf(string(text))
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.faultAt(1, 1, "a job file begins with version: 1", "the file is empty")
		return nil
	case err != nil:
		d.syntax(string(text), err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		d.fault(&next, "one file is one job", "a second document begins here")
	case !errors.Is(err, io.EOF):
		d.syntax(string(text), err)
	}
	root := doc.Content[0]
	d.plain(root)
	return root
}

// text8 gives the contents in UTF-8 without a byte order mark, and refuses characters that no job needs: they come from
// damaged files, and the YAML library does not say where they are.
func (d *decoder) text8(data []byte) ([]byte, bool) {
	text, err := unicodeText(data)
	if err != nil {
		d.faultAt(1, 1, "save it as UTF-8", "%s", err)
		return nil, false
	}
	line, column := 1, 1
	for rest := text; len(rest) > 0; {
		r, size := decodeRune(rest)
		switch {
		case r == invalidRune:
			d.faultAt(line, column, "save the file as UTF-8", "byte 0x%02X is not UTF-8", rest[0])
			return nil, false
		case r == '\n', r == '\r' && !bytes.HasPrefix(rest, []byte("\r\n")):
			line, column = line+1, 0
		case unicode.IsControl(r) && !strings.ContainsRune("\t\r\u0085", r), r == 0xFFFE, r == 0xFFFF:
			d.faultAt(line, column, "delete it", "control character U+%04X", r)
			return nil, false
		}
		column++
		rest = rest[size:]
	}
	return text, true
}

// parserError marks the messages of the library's parser, which counts lines from 0, unlike its scanner.
var parserError = regexp.MustCompile(`^did not find expected (key|',' or|node content|'-' indicator|<document start>)`)

// syntaxHelp translates what the library says about broken YAML into the usual mistake behind it.
var syntaxHelp = []struct{ part, message, hint string }{
	{"escape character", `a backslash in double quotes that begins no known escape`, quoteHint},
	{"hexdecimal number", `a backslash in double quotes that begins no known escape`, quoteHint},
	{"tab character", "a tab in the indentation", "indent with blanks"},
	{"alphabetic or numeric character", "a text cannot begin with this character", "put the text in single quotes"},
	{"cannot start any token", "a text cannot begin with this character", "put the text in single quotes"},
	{"mapping values are not allowed", "a second ': ' in one line", "put a text that holds ': ' in single quotes"},
	{"unexpected end of stream", "a quote that opens here is never closed", ""},
	{"unexpected document indicator", "a quote that opens here is never closed", ""},
	{"could not find expected ':'", "a key without a colon", "a key is followed by a colon and a blank"},
	{"expected key", "this line does not continue what is above it", "check the indentation"},
	{"expected '-' indicator", "this line does not continue the list above it", "check the indentation"},
	{"',' or", "a comma or the closing bracket is missing in what begins here", "a text that begins with { or [ needs single quotes"},
	{"node content", "a value is missing or cannot begin like this", "put the text in single quotes"},
}

// syntax reports an error of the YAML library at the place the user has to look at.
func (d *decoder) syntax(text string, err error) {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(said, "line "); ok {
		if number, after, ok := strings.Cut(rest, ": "); ok {
			line, _ = strconv.Atoi(number)
			said = after
		}
		if parserError.MatchString(said) {
			line++
		}
	}
	lines := linesOf(text)
	line = min(max(line, 1), len(lines))
	if d.quotes(lines, line, said) {
		return
	}
	if name, ok := strings.CutPrefix(said, "unknown anchor '"); ok { // the library does not say where
		name, _, _ = strings.Cut(name, "'")
		if i := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "*"+name) }); i >= 0 {
			column := 1 + len([]rune(lines[i][:strings.Index(lines[i], "*"+name)]))
			d.faultAt(i+1, column, "put a text that begins with * in single quotes", "%q refers to an anchor that does not exist", "*"+name)
			return
		}
	}
	message, hint := "this is not YAML: "+said, ""
	for _, help := range syntaxHelp {
		if strings.Contains(said, help.part) {
			message, hint = help.message, help.hint
			break
		}
	}
	for n := line; n <= len(lines) && strings.Contains(said, "tab character"); n++ { // it may be in a line below
		if strings.Contains(indentation(lines[n-1]), "\t") {
			line = n
			break
		}
	}
	indent := indentation(lines[line-1])
	at := len(indent)
	if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
		at, message, hint = tab, "a tab in the indentation", "indent with blanks"
	} else if hint == quoteHint {
		at = max(badEscape(lines[line-1]), 0)
	}
	d.faultAt(line, 1+len([]rune(lines[line-1][:at])), hint, "%s", message)
}

// afterQuote matches a quoted value of a line with what follows it and has no business there.
var afterQuote = regexp.MustCompile(`(?:^\s*|[:,[{]\s*|-\s+)(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*([^\s,\]}:#].*)`)

// nextKey matches what is no rest of a value but the next key, after a comma that is missing.
var nextKey = regexp.MustCompile(`^[A-Za-z_.-]+:(\s|$)`)

// quotes reports a text in quotes that holds such quotes itself, which ends it too early. It tells whether that is what the
// library speaks of: it names the line where the mapping around begins.
func (d *decoder) quotes(lines []string, line int, said string) bool {
	switch {
	case strings.Contains(said, "expected key"), strings.Contains(said, "expected '-' indicator"):
		// The first line with which the library finds the same fault.
		line = 1 + sort.Search(len(lines)-1, func(i int) bool {
			err := yaml.Unmarshal([]byte(strings.Join(lines[:i+1], "\n")+"\n"), new(yaml.Node))
			return err != nil && strings.HasSuffix(err.Error(), said)
		})
	case !strings.Contains(said, "',' or"):
		return false
	}
	at := afterQuote.FindStringSubmatchIndex(lines[line-1])
	if at == nil || nextKey.MatchString(lines[line-1][at[2]:]) {
		return false
	}
	key, _, _ := strings.Cut(strings.TrimLeft(lines[line-1], " -{"), ":")
	hint := "put the whole text in single quotes"
	switch quote := strings.TrimRight(lines[line-1][:at[2]], " "); {
	case strings.HasSuffix(quote, "'"):
		hint = "within single quotes, write each single quote twice"
	case key == "where":
		hint = `put the whole condition in single quotes: where: 'siteName == "Contoso"'`
	}
	d.faultAt(line, 1+len([]rune(lines[line-1][:at[2]])), hint, "text after the quote that ends the value")
	return true
}

// breaks are all that ends a line for the YAML library, which counts them.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// linesOf takes a text apart where its lines end.
func linesOf(text string) []string {
	return strings.Split(breaks.Replace(text), "\n")
}

// indentation is the blank beginning of a line.
func indentation(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// escape matches the escapes that YAML knows in double quotes.
var escape = regexp.MustCompile(`^\\([0abt\tnvfre "/\\N_LP]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

// badEscape finds the first backslash within double quotes that begins no escape, or -1.
func badEscape(line string) int {
	for i := strings.IndexByte(line, '"'); i >= 0 && i < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		known := escape.FindString(line[i:])
		if known == "" {
			return i
		}
		i += len(known) - 1
	}
	return -1
}

// plain refuses the parts of YAML that a job does not need and that make a file say something else than it seems to:
// anchors, merge keys, tags, keys that are not text.
func (d *decoder) plain(n *yaml.Node) {
	if n.Anchor != "" {
		d.fault(n, "write the value where it is used; a text that begins with & needs single quotes", "anchors are not used in job files: &%s", n.Anchor)
	}
	if n.Kind == yaml.AliasNode {
		d.fault(n, "write the value out; a text that begins with * needs single quotes", "anchors are not used in job files: *%s", n.Value)
		return
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.fault(n, "remove it; a text that begins with ! needs single quotes", "tags are not used in job files: %s", n.Tag)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case c.Tag == "!!merge":
				d.fault(c, "write the keys out", "merge keys are not used in job files")
			case c.Kind == yaml.MappingNode || c.Kind == yaml.SequenceNode:
				d.fault(c, "a text that begins with { or [ needs single quotes", "a key must be a plain word")
				continue
			}
		}
		d.plain(c)
	}
}

// field is a key of a section: its name, whether it must be there, and what reads its value. A field that nothing reads
// is part of the language that this version does not know yet.
type field struct {
	name string
	need bool
	read func(*yaml.Node)
}

// section reads a mapping with a fixed set of keys. The name of the section is for messages.
func (d *decoder) section(n *yaml.Node, name string, fields []field) {
	seen := make(map[string]bool)
	var known []string
	for _, f := range fields {
		if f.read != nil {
			known = append(known, f.name)
		}
	}
	ok := d.pairs(n, name, func(key, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		switch {
		case i < 0 && looksSecret(key.Value):
			d.fault(key, "set DATTO_API_KEY and DATTO_API_SECRET in the environment, or use a credentials file", "secrets do not belong in a job file: %q", clip(key.Value, 40))
		case i < 0:
			d.fault(key, suggestion(key.Value, known), "unknown key %q in %s", clip(key.Value, 40), name)
		case fields[i].read == nil:
			d.fault(key, "", "%q is not available in this version of rmmjob", key.Value)
		case isNull(value):
			seen[key.Value] = true
			d.fault(key, nullHint, "%q has no value", key.Value)
		default:
			seen[key.Value] = true
			fields[i].read(value)
		}
	})
	for _, f := range fields {
		if ok && f.need && !seen[f.name] {
			d.fault(n, "", "%s lacks the key %q", name, f.name)
		}
	}
}

// pairs goes through a mapping, and tells whether it is one. It reports keys that come twice and skips them.
func (d *decoder) pairs(n *yaml.Node, name string, each func(key, value *yaml.Node)) bool {
	if n.Kind == yaml.AliasNode {
		return false // reported already
	}
	if n.Kind != yaml.MappingNode {
		hint := ""
		if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, ":") {
			hint = "a colon is followed by a blank"
		}
		d.fault(n, hint, "%s must be a mapping of keys to values, not %s", name, kind(n))
		return false
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			continue // reported already
		}
		if line, twice := first[key.Value]; twice {
			d.fault(key, fmt.Sprintf("the first is in line %d", line), "the key %q is there twice", clip(key.Value, 40))
			continue
		}
		first[key.Value] = key.Line
		if value.Kind != yaml.AliasNode {
			each(key, value)
		}
	}
	return true
}

// isNull tells a missing value from an empty text in quotes.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// kind names what a node is, for messages.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	case n.Style == 0 && (n.Tag == "!!int" || n.Tag == "!!float"):
		return clip(n.Value, 40)
	}
	return "the text " + strconv.Quote(clip(n.Value, 40))
}

// text reads a scalar as it is written, whatever YAML takes it for: 007 stays 007 and yes stays yes.
func (d *decoder) text(n *yaml.Node, name string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "", false
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) == 2 && isNull(n.Content[1]):
		d.fault(n, fmt.Sprintf("put it in quotes: '{%s}'", n.Content[0].Value), "%s must be a text: without quotes the braces are a mapping", name)
		return "", false
	case n.Kind != yaml.ScalarNode:
		d.fault(n, "", "%s must be a text, not %s", name, kind(n))
		return "", false
	case isNull(n):
		d.fault(n, nullHint, "%s has no value", name)
		return "", false
	}
	return n.Value, true
}

// word reads a text that is a name: one line, not empty.
func (d *decoder) word(n *yaml.Node, name string) (string, bool) {
	s, ok := d.text(n, name)
	switch {
	case !ok:
		return "", false
	case trimBlank(s) == "":
		d.fault(n, nullHint, "%s is empty", name)
		return "", false
	case strings.ContainsFunc(s, unicode.IsControl):
		d.fault(n, "", "%s holds a control character or a line break", name)
		return "", false
	}
	return s, true
}

// into makes a reader of words that keeps the value in p.
func (d *decoder) into(p *string, name string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if s, ok := d.word(n, name); ok {
			*p = s
		}
	}
}

// path reads a file path and makes it absolute. It returns "" after a fault.
func (d *decoder) path(n *yaml.Node, name string) string {
	s, ok := d.text(n, name)
	switch {
	case !ok:
		return ""
	case strings.TrimSpace(s) == "":
		d.fault(n, nullHint, "%s is empty", name)
		return ""
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		d.fault(n, quoteHint, "%s holds %s", name, controlName(s[i]))
		return ""
	}
	abs, err := resolvePath(d.dir, s)
	if err != nil {
		d.fault(n, "", "%s: %s", name, err)
		return ""
	}
	return abs
}

// controlName names a control character for people.
func controlName(c byte) string {
	switch c {
	case '\t':
		return "a tab"
	case '\r', '\n':
		return "a line break"
	}
	return fmt.Sprintf("the control character 0x%02X", c)
}

// choice makes a reader of one of several words.
func (d *decoder) choice(p *string, name string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		s, ok := d.text(n, name)
		switch {
		case !ok:
		case slices.Contains(words, s):
			*p = s
		default:
			d.fault(n, suggestion(s, words), "%s must be %s, not %q", name, orList(words), clip(s, 40))
		}
	}
}

// flag makes a reader of true and false. The yes and on of older YAML are refused: what they mean depends on the reader.
func (d *decoder) flag(p *bool, name string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch {
		case n.Kind == yaml.ScalarNode && n.Tag == "!!bool":
			*p = strings.EqualFold(n.Value, "true")
		case isSwitch(n):
			d.fault(n, "write "+switches[strings.ToLower(n.Value)], "%s must be true or false, not %q", name, n.Value)
		default:
			d.fault(n, "", "%s must be true or false, not %s", name, kind(n))
		}
	}
}

// switches are the words that people write for true and false.
var switches = map[string]string{"yes": "true", "on": "true", "y": "true", "true": "true", "no": "false", "off": "false", "n": "false", "false": "false"}

// isSwitch tells whether a node is true or false, or is taken for one of them.
func isSwitch(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && switches[strings.ToLower(n.Value)] != ""
}

// digits is how whole numbers are written. 010 is refused: YAML takes it for 8, people for 10.
var digits = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// number makes a reader of whole numbers from least to most.
func (d *decoder) number(p *int, name string, least, most int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.Style == 0 && digits.MatchString(n.Value) {
			if v, err := strconv.Atoi(n.Value); err == nil && v >= least && v <= most {
				*p = v
				return
			}
		} else if n.Kind == yaml.ScalarNode {
			if v, err := strconv.Atoi(n.Value); err == nil && v >= least && v <= most {
				hint = fmt.Sprintf("write %d", v)
			}
		}
		d.fault(n, hint, "%s must be a whole number from %d to %d, not %s", name, least, most, kind(n))
	}
}

// decimal is how numbers with a fraction are written.
var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// fraction reads a number of at least 0.
func (d *decoder) fraction(n *yaml.Node, name string) (float64, bool) {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && decimal.MatchString(n.Value) {
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(v, 0) {
			return v, true
		}
	}
	d.fault(n, "", "%s must be a number such as 0.5, not %s", name, kind(n))
	return 0, false
}

// limit makes a reader of a number or a share such as 2%.
func (d *decoder) limit(p *Limit, name string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		l, err := ParseLimit(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || n.Style != 0 && !l.Percent {
			d.fault(n, "", "%s must be a whole number or a percentage such as '2%%', not %s", name, kind(n))
			return
		}
		*p = l
	}
}

// ParseLimit reads a limit as it is written in a job file or on the command line: a
// whole number, or a percentage such as 2% of at most 100.
func ParseLimit(text string) (Limit, error) {
	s, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || percent && (!decimal.MatchString(s) || v > 100) || !percent && (!digits.MatchString(s) || v > math.MaxInt32) {
		return Limit{}, fmt.Errorf("%q is neither a whole number nor a percentage such as 2%%", clip(text, 40))
	}
	return Limit{Set: true, Percent: percent, Value: v}, nil
}

// maxDuration bounds the durations of a job. A week is longer than any wait makes sense.
const maxDuration = 7 * 24 * time.Hour

// duration makes a reader of a time span such as 90s or 1h30m.
func (d *decoder) duration(p *time.Duration, name string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := time.ParseDuration(n.Value)
		switch {
		case n.Kind != yaml.ScalarNode || err != nil && !digits.MatchString(n.Value):
			d.fault(n, "", "%s must be a time span such as 90s, 15m or 2h, not %s", name, kind(n))
		case digits.MatchString(n.Value):
			d.fault(n, "for seconds write "+n.Value+"s", "%s lacks a unit", name)
		case v <= 0 || v > maxDuration:
			d.fault(n, "", "%s must be more than 0 and at most 168h, not %q", name, n.Value)
		default:
			*p = v
		}
	}
}

// template reads a text with places for cells.
func (d *decoder) template(n *yaml.Node, name string) (Template, bool) {
	s, ok := d.text(n, name)
	if !ok {
		return Template{}, false
	}
	if strings.ContainsRune(s, 0) {
		d.fault(n, quoteHint, "%s holds the control character 0x00", name)
		return Template{}, false
	}
	t, err := ParseTemplate(s)
	if err != nil {
		d.fault(n, "", "%s: %s", name, err)
	}
	return t, err == nil
}
