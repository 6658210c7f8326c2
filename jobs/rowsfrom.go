package jobs

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// Selection is a list of the account whose elements are the rows of an update. The columns are the fields of an element,
// by the names that exports have for them.
type Selection struct {
	From   rmm.Operation // a list that stands alone
	Filter url.Values    // query of the first request
	Where  *Where        // chooses among the elements; nil for all
	Pos    Pos
}

// rowsPrefix begins the keys of the list that rows are selected from, unless that list is read anyway.
const rowsPrefix = "rows/"

// selectable tells whether rows can be selected from a list.
func selectable(op rmm.Operation) bool {
	return exportable(op) && op.Paging != rmm.PagingNone && len(op.PathParams()) == 0
}

// selects tells whether the rows are selected from a list.
func (r Rows) selects(list string) bool {
	return r.From != nil && list != "" && r.From.From.Name == list
}

// selection reads where rows are selected from.
func (d *decoder) selection(rows, from *yaml.Node) *Selection {
	s := &Selection{From: d.from(from), Pos: d.pos(from.Line, from.Column)}
	if s.From.Name != "" && !selectable(s.From) {
		d.fault(from, "", "%q is no list of the whole account, and rows are selected from one", s.From.Name)
		return s
	}
	if s.From.Name == "" {
		return s
	}
	if filter := valueOf(rows, "filter"); filter != nil {
		s.Filter = d.filter(filter, s.From)
	}
	if where := valueOf(rows, "where"); where != nil {
		element, _ := output.ElementOf(s.From.Name)
		s.Where = d.condition(where, &ExportSpec{Element: element})
	}
	return s
}

// selected checks the columns that an update takes from its selection, and gives the update its usual match: the key of
// what is selected.
func (d *decoder) selected(u *UpdateSpec, op operation) {
	from := u.Rows.From
	if from.From.Name == "" {
		return
	}
	if about := subjects[op.on]; len(u.Match) == 0 && about.list == from.From.Name && len(op.matchFields()) > 0 {
		key, err := ParseTemplate("{" + about.uid + "}")
		if err == nil {
			u.Match = []Match{{Field: about.uid, Value: key, Pos: from.Pos}}
		}
	}
	var columns []column
	for _, t := range u.templates() {
		for _, name := range t.value.Columns() {
			columns = append(columns, column{spec: output.ColumnSpec{Path: name}, pos: t.pos})
		}
	}
	seen := map[string]bool{}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		twice := seen[c.spec.Path]
		seen[c.spec.Path] = true
		return twice
	})
	element, _ := output.ElementOf(from.From.Name)
	for _, c := range columns {
		// Not the words of an export: there are no formats here that could be chosen.
		if _, err := output.Resolve(element, []output.ColumnSpec{c.spec}); err != nil {
			d.faultAt(c.pos.Line, c.pos.Column, d.fieldHint(from.From.Name, err), "there is no field %q in %s, which the rows are from", clip(c.spec.Path, 60), from.From.Name)
		}
	}
}

// fieldHint says which field may be meant.
func (d *decoder) fieldHint(list string, err error) string {
	if fault, ok := err.(*output.ColumnError); ok && fault.Suggestion != "" { //nolint:errorlint // Resolve returns it bare
		return "did you mean " + strconv.Quote(fault.Suggestion) + "?"
	}
	return "rmmjob catalogue " + list + " lists the fields"
}

// selectionSource gives the elements of a list as rows. Without answers, before the list is read, it has none.
type selectionSource struct {
	ctx     context.Context //nolint:containedctx // of the pass that it is made for
	answers Answers
	prefix  string
	now     time.Time // for the dates of the condition
	columns []output.Column
}

// open implements source. The headings are what tells elements apart, and the columns that the job uses.
func (s *selectionSource) open(t *Table, want []string) error {
	from := t.rows.From.From
	h := heading{line: 1}
	names := []string{from.Key}
	for _, about := range subjects {
		if about.list == from.Name {
			names = []string{about.uid, about.name, about.site}
		}
	}
	for _, name := range append(names, want...) {
		if name == "" || slices.ContainsFunc(h.names, func(have string) bool { return columnKey(have) == columnKey(name) }) {
			continue
		}
		element, _ := output.ElementOf(from.Name)
		c, err := output.Resolve(element, []output.ColumnSpec{{Path: name}})
		if err != nil {
			return Errors{{Pos: t.rows.From.Pos, Message: fmt.Sprintf("rows from %s: %v", from.Name, err)}}
		}
		s.columns = append(s.columns, c...)
		h.names = append(h.names, name)
		h.cells = append(h.cells, rawCell{line: 1, col: len(h.names)})
	}
	t.Encoding, t.Delimiter = "the account", from.Name
	return t.take(h, want, func() int { return 0 })
}

// scan implements source.
func (s *selectionSource) scan(t *Table, do func(sourceRow) bool) error {
	if s.answers == nil {
		return nil
	}
	line, wanted := 0, t.rows.From.Where.all(s.now)
	for el, err := range elements(s.ctx, s.answers, s.prefix) {
		if err != nil {
			return err
		}
		record, err := output.ParseRecord(el.JSON)
		if err != nil {
			return err
		}
		if wanted != nil {
			if yes, err := wanted(record); err != nil {
				return err
			} else if !yes {
				continue
			}
		}
		line++
		row := sourceRow{Record: Record{Line: line, Cells: make([]string, len(t.Headers)), file: t.place()}}
		for i, c := range s.columns {
			row.Cells[i] = c.Cell(record, output.Style{}).Text
		}
		if !do(row) {
			return nil
		}
	}
	return nil
}
