package jobs

import (
	"fmt"
	"strings"
)

// A text that is made of a cell and something else, or of several cells, has a hole
// where a cell is blank, and the word that empties a field means nothing in the middle
// of it. Neither may be written over what is there.

// mixed tells whether a cell is only a part of the text.
func (t Template) mixed() bool { return len(t.parts) > 1 && len(t.Columns()) > 0 }

// holes are the columns of the template whose cells are blank.
func (t Template) holes(cell func(column string) string) []string {
	var blank []string
	for _, column := range t.Columns() {
		if trimBlank(cell(column)) == "" {
			blank = append(blank, column)
		}
	}
	return blank
}

// emptying is the first column of the template whose cell is the word that empties a
// field, or nearly so; "" for none.
func (t Template) emptying(cell func(column string) string) string {
	for _, column := range t.Columns() {
		if v := cell(column); v == ClearWord || nearlyClears(v) {
			return column
		}
	}
	return ""
}

// word says what is wrong where the word that empties a field is in the text or comes
// of it, and names the column; "" where it is not.
func (t Template) word(cell func(column string) string) (column, fault string) {
	if column := t.emptying(cell); column != "" {
		return column, fmt.Sprintf("{%s} is %q within %q: the word empties a field only where it is the whole of it", column, clip(cell(column), 20), t)
	}
	if t.Expand(cell) == ClearWord {
		return t.Columns()[0], fmt.Sprintf("%q comes to %s, which would empty the field", t, ClearWord)
	}
	return "", ""
}

// fill is what a setting comes to for a row: "" where the field is to be treated as by
// a blank cell. A fault comes with the column that it is about.
func (u *UpdateSpec) fill(t Template, cell func(column string) string) (value, column, fault string) {
	if !t.mixed() {
		return t.Expand(cell), "", ""
	}
	if column, fault := t.word(cell); fault != "" {
		return "", column, fault
	}
	switch blank := t.holes(cell); {
	case len(blank) == 0:
		return t.Expand(cell), "", ""
	case u.Empty == "clear" && len(blank) < len(t.Columns()):
		return "", blank[0], fmt.Sprintf("%s is blank and the rest of %q is not: empty: clear does not tell whether the field is to be emptied", braced(blank), t)
	}
	return "", "", ""
}

// braced are columns as a template names them.
func braced(columns []string) string { return "{" + strings.Join(columns, "}, {") + "}" }
