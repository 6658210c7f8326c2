package output

import (
	"slices"
	"strings"
	"time"
)

// Reversal says whether a value that an option of an output has changed on its
// way out can be had back from the file.
type Reversal struct {
	Option, Value string // as in formulas: guard
	Exact         bool   // every value comes back as it was
	Note          string // how, or what is lost
}

// Reversals lists the options and formats that change values, with the truth
// about each. Where a value cannot be had back, Column.Unchanged still tells an
// untouched cell from an edited one, so that an export fed back as an update
// plans nothing.
func Reversals() []Reversal {
	return []Reversal{
		{"bom", "true", true, "a reader takes the mark away; no value is changed"},
		{"delimiter", "any", true, "cells that hold the delimiter are quoted; no value is changed"},
		{"eol", "crlf, lf", true, "line breaks inside cells are not touched"},
		{"formulas", "keep", true, "no value is changed"},
		{"formulas", "guard", true, "one apostrophe in front of what a spreadsheet would evaluate is taken away again; text that looked guarded already has got one more"},
		{"newlines", "keep", true, "no value is changed; a spreadsheet that saves the file may turn CRLF in cells into LF, which is taken for the same"},
		{"newlines", "space", false, "a blank that was a line break cannot be told from any other"},
		{"newlines", "escape", false, `\n and \r become line breaks again; text that held these two characters, as paths do, comes back with breaks`},
		{"dates", DatesRFC3339, false, "the instant to the second; parts of a second and the API's notation are lost"},
		{"dates", DatesExcel, false, "as rfc3339, and of the hour that a clock change repeats the first is taken"},
		{"dates", DatesMS, false, "the instant to the millisecond; the API's notation is lost"},
		{"timezone", "any", true, "rfc3339 has the offset, ms needs none; excel is read in the same zone"},
		{"format", FormatDate, false, "the time of day is lost"},
		{"format", FormatRaw, true, "numbers and text as the API sent them"},
		{"format", FormatJSON, true, "the same JSON value; the order of keys is lost"},
		{"format", FormatCount, false, "the elements are lost"},
		{"format", FormatBytes, false, "the number is rounded to two decimals of its unit"},
		{"format", FormatJoin, false, "elements that hold the separator, empty ones and the kind of a single one are lost"},
	}
}

// Undo gives the text that a cell of text stood for before the style changed
// it. exact is false if other texts end in the same cell. A caller that has the
// live value should ask Column.Unchanged first.
func (s Style) Undo(cell string) (text string, exact bool) {
	exact = true
	if s.Formulas == "guard" {
		cell = Unguard(cell)
	}
	switch s.Newlines {
	case "space":
		exact = !strings.Contains(cell, " ")
	case "escape":
		exact = !strings.Contains(cell, `\n`) && !strings.Contains(cell, `\r`)
		cell = escapeToBreaks.Replace(cell)
	}
	return cell, exact
}

var escapeToBreaks = strings.NewReplacer(`\n`, "\n", `\r`, "\r")

// UndoDate reads a cell that a date was written into, in any notation of
// Style.Dates or as a day, in the style's zone. Of the two instants that the
// notation excel writes alike when clocks are set back, it gives the first. An
// empty cell is the zero time; ok is false for what is no date.
func (s Style) UndoDate(cell string) (t time.Time, ok bool) {
	zone := s.Location
	if zone == nil {
		zone = time.UTC
	}
	cell = strings.TrimSpace(cell)
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04"} {
		t, err := time.ParseInLocation(layout, cell, zone)
		if err != nil {
			continue
		}
		// Go does not say which of two instants it gives.
		for _, back := range []time.Duration{2 * time.Hour, time.Hour, 30 * time.Minute} {
			if earlier := t.Add(-back); earlier.In(zone).Format(layout) == t.Format(layout) {
				return earlier.UTC(), true
			}
		}
		return t.UTC(), true
	}
	i, ok := parseDate(cell)
	if i.day {
		y, m, d := i.t.Date()
		i.t = time.Date(y, m, d, 0, 0, 0, 0, zone).UTC()
	}
	return i.t, ok
}

// Unchanged reports whether a cell of an export, read back as text, still says
// what the record says: whether feeding it back would change nothing. It is
// true for the very text the style writes, whatever that had to leave out; for
// a date also in another notation of the same instant, as far as the notation
// of the column can tell; and for text whose line breaks a spreadsheet has
// rewritten.
func (c Column) Unchanged(cell string, rec Record, s Style) bool {
	written := c.Cell(rec, s)
	s.Location = c.zone(s)
	if cell == written.Text || oneBreak.Replace(cell) == oneBreak.Replace(written.Text) {
		return true
	}
	if written.Kind != KindDate && c.notation(s) != DatesMS {
		return false
	}
	then, ok := s.UndoDate(cell)
	if !ok || then.IsZero() || strings.TrimSpace(cell) == "" {
		return false
	}
	// The notation ms has parts of a second that the others leave out.
	now, ok := s.UndoDate(written.Text)
	return ok && slices.Contains([]time.Time{now, now.Truncate(time.Second)}, then)
}

var oneBreak = strings.NewReplacer("\r\n", "\n", "\r", "\n")
