package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
)

// column is a column as the job names it. Without a header and a format it may be the name of a preset.
type column struct {
	spec  output.ColumnSpec
	pos   Pos
	alone bool // all that columns says: the name of a preset, most likely
}

// columns reads the name of a preset or a list of columns.
func (d *decoder) columns(n *yaml.Node) []column {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 {
			d.fault(n, "remove the key for the default", "columns is empty")
		}
	}
	var list []column
	first := make(map[string]int)
	for _, item := range items {
		c, ok := d.column(item)
		if !ok {
			continue
		}
		head := c.spec.Header
		if head == "" {
			head = c.spec.Path
		}
		if line, twice := first[head]; twice {
			d.fault(item, fmt.Sprintf("the first is in line %d", line), "the column %q is there twice", head)
			continue
		}
		first[head] = item.Line
		c.alone = item == n
		list = append(list, c)
	}
	return list
}

// column reads hostname, {lastSeen: rfc3339}, {Tag: udf.udf1} or {Seen: {path: lastSeen, format: excel}}.
func (d *decoder) column(n *yaml.Node) (column, bool) {
	c := column{pos: d.pos(n.Line, n.Column)}
	if n.Kind != yaml.MappingNode {
		s, ok := d.word(n, "a column")
		c.spec.Path = s
		return c, ok
	}
	before := len(d.faults)
	if len(n.Content) != 2 {
		d.fault(n, "begin each with its own dash", "an entry of columns is one column, this has %d", len(n.Content)/2)
		return c, false
	}
	d.pairs(n, "a column", func(key, value *yaml.Node) {
		head, _ := d.word(key, "the header of a column")
		if value.Kind == yaml.MappingNode {
			c.spec.Header = head
			d.columnParts(value, &c.spec)
			return
		}
		word, ok := d.word(value, "a column")
		switch {
		case !ok:
		case slices.Contains(output.Formats(), word) || formatCall.MatchString(word):
			c.spec.Path = head
			d.columnFormat(value, word, &c.spec)
		default:
			c.spec.Header, c.spec.Path = head, word
		}
	})
	return c, len(d.faults) == before
}

// columnParts reads a column that is written out: its path and at most one format, either by the key format or by the
// name of the format with its argument, as in join: ', '.
func (d *decoder) columnParts(n *yaml.Node, spec *output.ColumnSpec) {
	one := func(n *yaml.Node, read func()) {
		if spec.Format != "" {
			d.fault(n, "leave one of them", "a column has one format, not %s and another", spec.Format)
			return
		}
		read()
	}
	fields := []field{
		{"path", need, d.into(&spec.Path, "path")},
		{"format", false, func(n *yaml.Node) {
			one(n, func() {
				if word, ok := d.word(n, "format"); ok {
					d.columnFormat(n, word, spec)
				}
			})
		}},
	}
	for _, name := range []string{output.FormatJoin, output.FormatBytes, output.FormatDate, output.DatesRFC3339, output.DatesExcel} {
		fields = append(fields, field{name, false, func(n *yaml.Node) {
			one(n, func() {
				if argument, ok := d.text(n, name); ok {
					spec.Format = name
					d.formatArgument(n, argument, spec)
				}
			})
		}})
	}
	d.section(n, "a column", fields)
}

// formatCall is a format with its argument: join(', '), excel(Europe/Berlin), bytes(GiB).
var formatCall = regexp.MustCompile(`^([a-z0-9]+)\s*\((.*)\)$`)

// columnFormat reads the name of a format, with its argument in brackets or without.
func (d *decoder) columnFormat(n *yaml.Node, word string, spec *output.ColumnSpec) {
	name, argument := word, ""
	call := formatCall.FindStringSubmatch(word)
	if call != nil {
		name, argument = call[1], strings.TrimSpace(call[2])
		if q := len(argument) - 1; q > 0 && (argument[0] == '\'' || argument[0] == '"') && argument[q] == argument[0] {
			argument = argument[1:q]
		}
	}
	if !slices.Contains(output.Formats(), name) {
		d.fault(n, suggestion(name, output.Formats()), "there is no format %q", clip(name, 40))
		return
	}
	if spec.Format = name; call != nil {
		d.formatArgument(n, argument, spec)
	}
}

// formatArgument reads what a format is told beside its name.
func (d *decoder) formatArgument(n *yaml.Node, text string, spec *output.ColumnSpec) {
	switch spec.Format {
	case output.FormatJoin:
		if text == "" {
			d.fault(n, "for example join: ', '", "join needs a separator")
		}
		spec.Separator = text
	case output.FormatBytes:
		if !slices.Contains(output.Units(), text) {
			d.fault(n, suggestion(text, output.Units()), "there is no unit %q of bytes", clip(text, 40))
		}
		spec.Unit = text
	case output.FormatDate, output.DatesRFC3339, output.DatesExcel:
		zone, err := time.LoadLocation(text)
		if err != nil || text == "" {
			d.fault(n, "names look like Europe/Berlin; Local is that of this machine", "there is no timezone %q", clip(text, 40))
		}
		spec.Zone = zone
	default:
		d.fault(n, "", "the format %s takes no argument", spec.Format)
	}
}

// columnsOf turns the columns of a job into those of its export. A preset has a column for each field of the list that is
// exploded.
func (d *decoder) columnsOf(e *ExportSpec, columns []column) []output.Column {
	resolved := d.resolve(e.Element, e.With, columns)
	if e.Explode.Path != "" && (columns == nil || columns[0].alone) {
		resolved = output.Exploded(e.Element, resolved, e.Explode.Path)
	}
	return resolved
}

// resolve turns the columns of a job into columns of its element. No columns at all mean the preset default.
func (d *decoder) resolve(element string, with []string, columns []column) []output.Column {
	specs := make([]output.ColumnSpec, len(columns))
	for i, c := range columns {
		specs[i] = c.spec
	}
	resolved, err := output.Resolve(element, specs, with...)
	if err == nil {
		return resolved
	}
	// Each by itself, so that all faults are told at once; a heading that is there twice shows only together.
	before := len(d.faults)
	for i := range columns {
		if _, one := output.Resolve(element, specs[i:i+1], with...); one != nil {
			d.columnFault(columns[i], one)
		}
	}
	if fault, ok := errors.AsType[*output.ColumnError](err); ok && len(d.faults) == before {
		d.columnFault(columns[fault.Index], err)
	}
	return nil
}

// columnFault records what is wrong with a column.
func (d *decoder) columnFault(c column, err error) {
	if c.alone {
		hint := "there are default, summary and all; columns are a list: [hostname, siteName]"
		if fault, ok := errors.AsType[*output.ColumnError](err); ok && fault.Suggestion != "" {
			hint = fmt.Sprintf("did you mean the column %q? %s", fault.Suggestion, hint)
		}
		d.faultAt(c.pos.Line, c.pos.Column, hint, "there is no preset %q of columns", clip(c.spec.Path, 40))
		return
	}
	text := err.Error()
	if _, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(text, "column ") {
		text = rest // its place tells more than its number
	}
	d.faultAt(c.pos.Line, c.pos.Column, "", "%s", text)
}
