package jobs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a timezone is known or not whatever the machine has installed

	"gopkg.in/yaml.v3"
)

// endings are the file name endings that tell a format.
var endings = map[string]string{".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

// later are formats that people know from elsewhere, by ending and by name.
var later = []string{"xlsx", "xls", "parquet", "sqlite", "db", "json", "xml", "html"}

// targets reads the outputs: a list, or a single one.
func (d *decoder) targets(n *yaml.Node) []Target {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
		if len(items) == 0 {
			d.fault(n, "name a file", "to is empty")
		}
	}
	var targets []Target
	first := make(map[string]int)
	for _, item := range items {
		t, ok := d.target(item)
		if !ok {
			continue
		}
		if line, twice := first[t.Path]; twice {
			d.fault(item, fmt.Sprintf("the first is in line %d", line), "this output is there twice")
		}
		first[t.Path] = item.Line
		targets = append(targets, t)
	}
	return targets
}

// target reads one output: a path, or a mapping with options.
func (d *decoder) target(n *yaml.Node) (Target, bool) {
	before := len(d.faults)
	t := Target{
		Delimiter: ',', EOL: "crlf", Dates: "rfc3339", Timezone: "UTC", Formulas: "keep", Newlines: "keep",
		Pos: d.pos(n.Line, n.Column),
	}
	where := n
	readPath := func(n *yaml.Node) {
		where = n
		if n.Value == "-" {
			t.Path = "-"
			return
		}
		t.Path = d.path(n, "the path of an output")
	}
	if n.Kind != yaml.MappingNode {
		readPath(n)
	} else {
		d.section(n, "an output", []field{
			{"path", need, readPath},
			{"format", false, func(n *yaml.Node) { t.Format = d.format(n) }},
			{"bom", false, d.flag(&t.BOM, "bom")},
			{"delimiter", false, func(n *yaml.Node) { t.Delimiter = d.delimiter(n) }},
			{"eol", false, d.choice(&t.EOL, "eol", "crlf", "lf")},
			{"dates", false, d.choice(&t.Dates, "dates", "rfc3339", "excel", "ms")},
			{"timezone", false, func(n *yaml.Node) { d.timezone(n, &t) }},
			{"formulas", false, d.choice(&t.Formulas, "formulas", "keep", "guard")},
			{"newlines", false, d.choice(&t.Newlines, "newlines", "keep", "space", "escape")},
			{"publish", false, d.publish},
		})
	}
	if t.Path != "" && child(n, "format") == nil {
		t.Format = d.formatOf(where, t.Path)
	}
	if t.Format == "jsonl" && n.Kind == yaml.MappingNode {
		for _, name := range []string{"bom", "delimiter", "eol", "formulas", "newlines"} {
			if key := child(n, name); key != nil {
				d.fault(key, "remove it", "%q has no effect on jsonl", name)
			}
		}
	}
	return t, len(d.faults) == before
}

// publish reads how a finished output takes the place of the old one. There is one way so far, so it is only checked.
func (d *decoder) publish(n *yaml.Node) {
	way := ""
	if n.Value == "inplace" {
		d.fault(n, "write replace or remove the key", "publish: inplace is not available in this version of rmmjob")
		return
	}
	d.choice(&way, "publish", "replace")(n)
}

// format reads the name of an output format.
func (d *decoder) format(n *yaml.Node) string {
	s, ok := d.word(n, "format")
	switch {
	case !ok || s == "csv" || s == "jsonl":
		return s
	case slices.Contains(later, s):
		d.fault(n, "write csv or jsonl", "the format %q is not available in this version of rmmjob", s)
	default:
		d.fault(n, suggestion(s, []string{"csv", "jsonl"}), "format must be csv or jsonl, not %q", clip(s, 40))
	}
	return ""
}

// formatOf tells the format of an output by the ending of its name.
func (d *decoder) formatOf(n *yaml.Node, path string) string {
	if path == "-" {
		return "csv"
	}
	ending := strings.ToLower(filepath.Ext(path))
	switch format := endings[ending]; {
	case format != "":
		return format
	case slices.Contains(later, strings.TrimPrefix(ending, ".")):
		d.fault(n, "write .csv or .jsonl", "%s files are not available in this version of rmmjob", ending)
	case ending == "":
		d.fault(n, "end it with .csv or .jsonl, or add format: csv", "the output has no ending that tells its format")
	default:
		d.fault(n, "end it with .csv or .jsonl, or add format: csv", "the ending %s tells no format", clip(ending, 20))
	}
	return ""
}

// delimiters are the names of delimiters that are hard to write or to see.
var delimiters = map[string]rune{"comma": ',', "semicolon": ';', "tab": '\t', "pipe": '|', `\t`: '\t'}

// delimiter reads the character between cells.
func (d *decoder) delimiter(n *yaml.Node) rune {
	s, ok := d.text(n, "delimiter")
	if !ok {
		return 0
	}
	if r, named := delimiters[s]; named {
		return r
	}
	if len(s) == 1 && (s == "\t" || strings.ContainsAny(s, "!#$%&*+,-./:;<=>?@^_|~")) {
		return rune(s[0])
	}
	d.fault(n, "comma, semicolon, tab and pipe are names for the usual ones", "delimiter must be one sign, not %q", clip(s, 40))
	return 0
}

func (d *decoder) timezone(n *yaml.Node, t *Target) {
	s, ok := d.word(n, "timezone")
	if !ok {
		return
	}
	if _, err := time.LoadLocation(s); err != nil {
		d.fault(n, "names look like Europe/Berlin; Local is that of this machine", "there is no timezone %q", clip(s, 40))
		return
	}
	t.Timezone = s
}
