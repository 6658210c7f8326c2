package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Template is a text with places for the cells of a row: '{AssetTag}' stands for the cell of the column AssetTag,
// '{{' and '}}' for the braces themselves, and all else for itself. It can do nothing but insert text, so a job file
// from elsewhere cannot run code. The zero Template is the empty text.
type Template struct {
	source string
	parts  []part
}

// part is a piece of literal text or, when column is set, the place of a cell.
type part struct {
	text   string
	column bool
}

// ParseTemplate reads a template. Column names are trimmed of blanks and otherwise kept as written; whether a file has
// such a column is checked when the file is opened. The error says which brace is wrong.
func ParseTemplate(s string) (Template, error) {
	t := Template{source: s}
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		doubled := i+1 < len(s) && s[i+1] == c
		switch {
		case c != '{' && c != '}':
			text.WriteByte(c)
		case doubled:
			text.WriteByte(c)
			i++
		case c == '}':
			return Template{}, errors.New("a '}' without its '{': a brace of the text itself is written twice, '}}'")
		default:
			name, _, closed := strings.Cut(s[i+1:], "}")
			if !closed || strings.Contains(name, "{") {
				return Template{}, fmt.Errorf("the '{' before %q is not closed: a brace of the text itself is written twice, '{{'", clip(name, 40))
			}
			if trimBlank(name) == "" {
				return Template{}, errors.New("'{}' names no column")
			}
			if text.Len() > 0 {
				t.parts = append(t.parts, part{text: text.String()})
				text.Reset()
			}
			t.parts = append(t.parts, part{text: trimBlank(name), column: true})
			i += len(name) + 1
		}
	}
	if text.Len() > 0 {
		t.parts = append(t.parts, part{text: text.String()})
	}
	return t, nil
}

// String returns the template as it was written.
func (t Template) String() string { return t.source }

// Columns names the columns the template needs, each once, in the order of their first use.
func (t Template) Columns() []string {
	var names []string
	for _, p := range t.parts {
		if p.column && !slices.Contains(names, p.text) {
			names = append(names, p.text)
		}
	}
	return names
}

// Expand builds the text for one row. It asks cell for the value of each column and inserts that value unchanged: braces
// in a cell are text.
func (t Template) Expand(cell func(column string) string) string {
	if len(t.parts) == 1 && t.parts[0].column {
		return cell(t.parts[0].text)
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.column {
			b.WriteString(cell(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}
