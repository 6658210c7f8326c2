package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"rmmjob/jobs"
)

const (
	// planLines is how many rows a plan shows unless all are asked for.
	planLines = 50

	// How wide the table of a plan gets, in columns: where two changes would go over
	// the first they are told one below the other, and words go on in the next line
	// before the second. A single value is never broken.
	planWidth  = 80
	planBorder = 120
	wordsWidth = 30 // words get that much, however wide the columns before them
)

// planTable shows rows of a plan to people: their columns, and what is said of each.
type planTable struct {
	head  []string
	rows  [][]string
	parts [][]string // of the rows, for the last column
	site  bool       // the site has a column of its own
}

// newPlanTable is a table of targets that are called thing.
func newPlanTable(thing string, head ...string) *planTable {
	t := &planTable{head: append(head, thing), site: thing != "site"}
	if t.site {
		t.head = append(t.head, "site")
	}
	t.head = append(t.head, "change")
	return t
}

func (t *planTable) add(p planRow, cells ...string) {
	cells = append(cells, p.Name)
	if t.site {
		cells = append(cells, p.Site)
	}
	t.rows, t.parts = append(t.rows, cells), append(t.parts, p.parts())
}

func (t *planTable) write(w io.Writer) {
	before := 0 // columns before the last one
	for i, name := range t.head[:len(t.head)-1] {
		width := utf8.RuneCountInString(name)
		for _, row := range t.rows {
			width = max(width, utf8.RuneCountInString(clean(row[i])))
		}
		before += width + 2
	}
	out := newTable(t.head...)
	for i, row := range t.rows {
		for n, line := range foldParts(t.parts[i], before) {
			if n == 1 {
				row = make([]string, len(row))
			}
			out.add(append(row[:len(row):len(row)], line)...)
		}
	}
	out.write(w)
}

// foldParts gives the lines in which what is said of a row stands after so many
// columns: up to two changes in one line if they fit, else each in its own.
func foldParts(parts []string, before int) []string {
	if line := strings.Join(parts, ", "); len(parts) < 3 && before+utf8.RuneCountInString(line) <= planWidth {
		return []string{line}
	}
	var lines []string
	for _, part := range parts {
		lines = append(lines, foldWords(part, max(planBorder-before, wordsWidth))...)
	}
	return lines
}

// foldWords breaks a text between words into lines of a width. A value in quotes
// stays whole.
func foldWords(text string, width int) []string {
	if utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line, quoted := "", false
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case !quoted && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), "  "+word
		default:
			line += " " + word
		}
		if strings.Count(strings.ReplaceAll(word, `\"`, ""), `"`)%2 == 1 {
			quoted = !quoted
		}
	}
	return append(lines, line)
}

// print shows the plan as a table, most rows of it when most is not 0.
func (v *planView) print(w io.Writer, most int) error {
	t := newPlanTable(v.Thing, "line", "class")
	for p := range v.each() {
		if p.Class == string(jobs.ClassUnchanged) {
			continue
		}
		t.add(p, fmt.Sprint(p.Line), p.Class)
		if len(t.rows) == most {
			break
		}
	}
	if v.err != nil {
		return v.err
	}
	shown := len(t.rows)
	if shown > 0 {
		t.write(w)
		fmt.Fprintln(w)
	}
	if left := v.Counts["rows"] - v.Counts[string(jobs.ClassUnchanged)] - shown; left > 0 {
		fmt.Fprintf(w, "and %s more; --verbose shows all\n", count(int64(left), "row"))
	}
	v.printSums(w)
	return nil
}

// printFirst shows the first rows of the plan that change something, and what all of
// them come to.
func (v *planView) printFirst(w io.Writer, most int) error {
	t := newPlanTable(v.Thing, "line")
	for p := range v.each(jobs.ClassChange, jobs.ClassClear) {
		t.add(p, fmt.Sprint(p.Line))
		if len(t.rows) == most {
			break
		}
	}
	if v.err != nil {
		return v.err
	}
	t.write(w)
	if left := v.Counts[string(jobs.ClassChange)] + v.Counts[string(jobs.ClassClear)] - len(t.rows); left > 0 {
		fmt.Fprintf(w, "and %s more\n", count(int64(left), "row"))
	}
	fmt.Fprintln(w)
	v.printSums(w)
	return nil
}

// printSums says what the plan comes to, losses first.
func (v *planView) printSums(w io.Writer) {
	if v.Clears > 0 {
		fmt.Fprintf(w, "%s %s\n", count(int64(v.Clears), "field"), willBeCleared)
	}
	if v.Deletes > 0 {
		fmt.Fprintf(w, "%s %s\n", v.Deleted, willBeDeleted)
	}
	fmt.Fprintf(w, "plan %s: %s: %s\n", v.Run, count(int64(v.Counts["rows"]), "row"), rowWords(v.Counts))
	fmt.Fprintf(w, "it takes %s\n", v.requestLine())
}
