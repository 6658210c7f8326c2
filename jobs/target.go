package jobs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a timezone is known or not whatever the machine has installed

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
)

// Target is one output of an export. An option that the file does not name has its zero value, which is the default of
// its format.
type Target struct {
	Path    string // absolute, with placeholders such as {date} as written; "-" for standard output
	Format  string // one of the names of [output.FileFormats] that this build can write
	Style   output.Style
	CSV     output.CSVOptions
	Key     []string // of a SQLite table: columns by path or heading; empty for the key of the list
	Mode    string   // of a SQLite table
	InPlace bool     // the content of the old file is replaced, not the file
	Pos     Pos
}

// Manifest says whether a file is wanted that tells what the outputs hold. The zero Manifest is none.
type Manifest struct {
	Beside bool   // one beside each output
	Path   string // one for all outputs: absolute, with placeholders; empty for none
	Pos    Pos
}

// OutputSpec is what the file of an output is to hold. The key of a SQLite table is that of the list unless the output
// names one; the elements of a list within each have none.
func (e *ExportSpec) OutputSpec(t Target) output.Spec {
	spec := output.Spec{Source: e.From.Name, Columns: e.Columns, Style: t.Style, CSV: t.CSV, Key: t.Key, Mode: t.Mode}
	isKey := func(c output.Column) bool { return c.Path == e.From.Key }
	if t.Format == output.FileSQLite && len(t.Key) == 0 && e.Explode.Path == "" && slices.ContainsFunc(e.Columns, isKey) {
		spec.Key = []string{e.From.Key}
	}
	return spec
}

// fits checks whether each output can hold the columns, and whether there is a file for the manifest.
func (d *decoder) fits(e *ExportSpec) {
	for _, t := range e.To {
		if err := e.OutputSpec(t).Validate(t.Format); err != nil {
			hint := ""
			if t.Format == output.FileSQLite && len(t.Key) == 0 && e.Explode.Path != "" {
				hint = fmt.Sprintf("for example key: [%s, %s.name], which must tell the elements of %s apart", cmp.Or(e.From.Key, "uid"), e.Explode.Path, e.Explode.Path)
			}
			d.faultAt(t.Pos.Line, t.Pos.Column, hint, "%s", err)
		}
	}
	isFile := func(t Target) bool { return t.Path != "-" }
	if m := e.Manifest; (m.Beside || m.Path != "") && len(e.To) > 0 && !slices.ContainsFunc(e.To, isFile) {
		d.faultAt(m.Pos.Line, m.Pos.Column, "remove it", "a manifest is about files, and the only output is standard output")
	}
}

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
	t := Target{Pos: d.pos(n.Line, n.Column)}
	where := n
	readPath := func(n *yaml.Node) {
		where = n
		t.Path = d.outputPath(n, "the path of an output")
	}
	if n.Kind != yaml.MappingNode {
		readPath(n)
	} else {
		way := ""
		d.section(n, "an output", []field{
			{"path", need, readPath},
			{"format", false, func(n *yaml.Node) { t.Format = d.format(n) }},
			{"bom", false, d.flag(&t.CSV.BOM, "bom")},
			{"delimiter", false, func(n *yaml.Node) { t.CSV.Delimiter = d.delimiter(n) }},
			{"eol", false, d.choice(&t.CSV.EOL, "eol", "crlf", "lf")},
			{"dates", false, d.choice(&t.Style.Dates, "dates", output.DatesRFC3339, output.DatesExcel, output.DatesMS)},
			{"timezone", false, func(n *yaml.Node) { t.Style.Location = d.timezone(n) }},
			{"formulas", false, d.choice(&t.Style.Formulas, "formulas", "keep", "guard")},
			{"newlines", false, d.choice(&t.Style.Newlines, "newlines", "keep", "space", "escape")},
			{"publish", false, d.choice(&way, "publish", "replace", "inplace")},
			{"key", false, func(n *yaml.Node) { t.Key = d.words(n, "key") }},
			{"mode", false, d.choice(&t.Mode, "mode", output.ModeMerge, output.ModeReplace)},
		})
		t.InPlace = way == "inplace"
	}
	if t.Path != "" && child(n, "format") == nil {
		t.Format = d.formatOf(where, t.Path)
	}
	d.effect(n, t)
	return t, len(d.faults) == before
}

// outputPath reads the path of a file to be written, which may hold placeholders, or - for standard output.
func (d *decoder) outputPath(n *yaml.Node, name string) string {
	if n.Value == "-" {
		return "-"
	}
	if d.path(n, name) == "" {
		return ""
	}
	if err := output.ValidPath(n.Value); err != nil {
		d.fault(n, "", "%s", err)
		return ""
	}
	// A brace in the name of the job's folder is one.
	path, err := resolvePath(doubleBraces.Replace(d.dir), n.Value)
	if err != nil {
		d.fault(n, "", "%s: %s", name, err)
	}
	return path
}

var doubleBraces = strings.NewReplacer("{", "{{", "}", "}}")

// manifest reads true, false or the path of the manifest.
func (d *decoder) manifest(n *yaml.Node) Manifest {
	m := Manifest{Pos: d.pos(n.Line, n.Column)}
	if isSwitch(n) {
		d.flag(&m.Beside, "manifest")(n)
		return m
	}
	if m.Path = d.outputPath(n, "the path of the manifest"); m.Path == "-" {
		d.fault(n, "write true or name a file", "the manifest cannot go to standard output")
	}
	return m
}

// effect refuses options that an output of this format or to standard output does nothing with.
func (d *decoder) effect(n *yaml.Node, t Target) {
	format, known := output.FileFormatNamed(t.Format)
	if !known || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i]; {
		case key.Value == "path" || key.Value == "format":
		case !isTargetOption(key.Value): // unknown, and reported as such
		case !format.Takes(key.Value):
			d.fault(key, "remove it", "%q has no effect on %s", key.Value, format.Name)
		case t.Path == "-" && key.Value == "publish":
			d.fault(key, "remove it", "%q has no effect on standard output", key.Value)
		}
	}
}

// isTargetOption tells whether any format has an option of that name.
func isTargetOption(name string) bool {
	return slices.ContainsFunc(output.FileFormats(), func(f output.FileFormat) bool { return f.Takes(name) })
}

// words reads a list of names, or a single one.
func (d *decoder) words(n *yaml.Node, name string) []string {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var list []string
	for _, item := range items {
		if s, ok := d.word(item, name); ok {
			list = append(list, s)
		}
	}
	if len(items) == 0 {
		d.fault(n, nullHint, "%s is empty", name)
	}
	return list
}

// elsewhere are formats that people know and that no build of this program writes, by name or ending.
var elsewhere = map[string]string{"xls": output.FileXLSX, "ods": output.FileXLSX, "tsv": output.FileCSV, "txt": output.FileCSV, "xml": output.FileJSON, "html": output.FileXLSX}

// formatNames lists the formats that this build writes.
func formatNames() []string {
	var names []string
	for _, f := range output.FileFormats() {
		if f.Unavailable == "" {
			names = append(names, f.Name)
		}
	}
	return names
}

// format reads the name of an output format.
func (d *decoder) format(n *yaml.Node) string {
	s, ok := d.word(n, "format")
	if !ok {
		return ""
	}
	f, known := output.FileFormatNamed(s)
	switch {
	case known && f.Unavailable == "":
		return s
	case known:
		d.fault(n, "", "format %s: %s", f.Name, f.Unavailable)
	case elsewhere[s] != "":
		d.fault(n, "write "+elsewhere[s], "there is no format %q", s)
	default:
		d.fault(n, suggestion(s, formatNames()), "format must be %s, not %q", orList(formatNames()), clip(s, 40))
	}
	return ""
}

// formatOf tells the format of an output by the ending of its name.
func (d *decoder) formatOf(n *yaml.Node, path string) string {
	if path == "-" {
		return output.FileCSV
	}
	f, known := output.FileFormatOf(path)
	ending := strings.ToLower(filepath.Ext(path))
	const way = "end it with .csv, .jsonl, .json, .xlsx or .sqlite, or add format: csv"
	switch other := elsewhere[strings.TrimPrefix(ending, ".")]; {
	case known && f.Unavailable == "":
		return f.Name
	case known:
		d.fault(n, "", "%s files: %s", ending, f.Unavailable)
	case other != "":
		known, _ := output.FileFormatNamed(other)
		d.fault(n, "end it with "+known.Endings[0]+", or add format: csv", "%s files are not written", ending)
	case ending == "":
		d.fault(n, way, "the output has no ending that tells its format")
	default:
		d.fault(n, way, "the ending %s tells no format", clip(ending, 20))
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

// timezone reads the name of a zone; UTC is nil.
func (d *decoder) timezone(n *yaml.Node) *time.Location {
	s, ok := d.word(n, "timezone")
	if !ok {
		return nil
	}
	zone, err := time.LoadLocation(s)
	if err != nil {
		d.fault(n, "names look like Europe/Berlin; Local is that of this machine", "there is no timezone %q", clip(s, 40))
		return nil
	}
	if zone == time.UTC {
		return nil
	}
	return zone
}
