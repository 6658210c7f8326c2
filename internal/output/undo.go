package output

import (
	"slices"
	"strings"
	"time"
)

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
