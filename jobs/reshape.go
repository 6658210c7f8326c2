package jobs

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Shape is how the rows of a finished export are to be written, in the words of a command line.
type Shape struct {
	To      []string // at least one: a path, or an output as in a job file: {path: x.csv, bom: true}
	Format  string   // of outputs that do not name theirs; empty: by the ending
	Columns string   // hostname,siteName or the name of a preset, or a list as in a job file; empty: those of the job
	Dir     string   // absolute folder where relative paths begin
}

// Reshape returns the export job with other outputs, and with other columns if the shape names some. The manifest of the
// job is not taken over. Faults name the flag in place of the file.
func (j *Job) Reshape(s Shape) (*Job, error) {
	if j.Export == nil {
		return nil, Errors{{Pos: Pos{File: j.Path}, Message: "this job is no export"}}
	}
	to := &decoder{file: "--to", dir: s.Dir}
	outputs := &yaml.Node{Kind: yaml.SequenceNode, Line: 1, Column: 1}
	for _, text := range s.To {
		if n := to.argument(text, "{"); n != nil {
			outputs.Content = append(outputs.Content, withFormat(n, s.Format))
		}
	}
	export := *j.Export
	export.To, export.Manifest = to.targets(outputs), Manifest{}
	columns := &decoder{file: "--columns", dir: s.Dir}
	if s.Columns != "" {
		if n := columns.argument(s.Columns, "["); n != nil {
			export.Columns = columns.columnsOf(&export, columns.columns(commas(n)))
		}
	}
	if err := append(to.faults, columns.faults...).err(); err != nil {
		return nil, err
	}
	to.fits(&export)
	if err := to.faults.err(); err != nil {
		return nil, err
	}
	job := *j
	job.Export = &export
	return &job, nil
}

// argument is a word of the command line as a node: YAML if it begins with the given bracket, else a text. It is nil after a
// fault.
func (d *decoder) argument(text, bracket string) *yaml.Node {
	if strings.HasPrefix(strings.TrimSpace(text), bracket) {
		return d.parse([]byte(text))
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: 1, Column: 1}
}

// withFormat adds a format to an output that does not name one.
func withFormat(n *yaml.Node, format string) *yaml.Node {
	if format == "" || child(n, "format") != nil {
		return n
	}
	text := func(s string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Line: n.Line, Column: n.Column}
	}
	entry := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{text("format"), text(format)}}
	if n.Kind == yaml.MappingNode {
		entry.Content = append(entry.Content, n.Content...)
	} else {
		entry.Content = append(entry.Content, text("path"), n)
	}
	return entry
}

// commas splits a text at its commas.
func commas(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.ScalarNode {
		return n
	}
	column := 1
	parts := &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column}
	for part := range strings.SplitSeq(n.Value, ",") {
		indent := len(part) - len(strings.TrimLeft(part, " "))
		parts.Content = append(parts.Content, &yaml.Node{
			Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(part), Line: 1, Column: column + indent,
		})
		column += len([]rune(part)) + 1
	}
	if len(parts.Content) == 1 {
		return parts.Content[0] // the name of a preset, most likely
	}
	return parts
}
