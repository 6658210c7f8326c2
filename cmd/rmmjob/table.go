package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is plain text in aligned columns. Cells are cleaned, so a device name
// cannot move the cursor.
type table struct {
	rows [][]string
}

func newTable(head ...string) *table {
	t := &table{}
	if len(head) > 0 {
		t.rows = append(t.rows, head)
	}
	return t
}

func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = clean(c)
	}
	t.rows = append(t.rows, row)
}

// write prints the table, two blanks between columns and none at line ends.
func (t *table) write(w io.Writer) { t.writeIndented(w, "") }

func (t *table) writeIndented(w io.Writer, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := indent
		for i, c := range row {
			line += c
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	fmt.Fprint(w, b.String())
}
