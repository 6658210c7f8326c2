package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
			d.section(value, "a column", []field{
				{"path", need, d.into(&c.spec.Path, "path")},
				{"format", false, d.choice(&c.spec.Format, "format", output.Formats()...)},
			})
			return
		}
		word, ok := d.word(value, "a column")
		switch {
		case !ok:
		case slices.Contains(output.Formats(), word):
			c.spec.Path, c.spec.Format = head, word
		default:
			c.spec.Header, c.spec.Path = head, word
		}
	})
	return c, len(d.faults) == before
}

// resolve turns the columns of a job into columns of its element. No columns at all mean the preset default.
func (d *decoder) resolve(element string, columns []column) []output.Column {
	specs := make([]output.ColumnSpec, len(columns))
	for i, c := range columns {
		specs[i] = c.spec
	}
	resolved, err := output.Resolve(element, specs)
	if err == nil {
		return resolved
	}
	// Each by itself, so that all faults are told at once; a heading that is there twice shows only together.
	before := len(d.faults)
	for i := range columns {
		if _, one := output.Resolve(element, specs[i:i+1]); one != nil {
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
		d.faultAt(c.pos.Line, c.pos.Column, "there are default, summary and all; columns are a list: [hostname, siteName]",
			"there is no preset %q of columns", clip(c.spec.Path, 40))
		return
	}
	text := err.Error()
	if _, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(text, "column ") {
		text = rest // its place tells more than its number
	}
	d.faultAt(c.pos.Line, c.pos.Column, "", "%s", text)
}
