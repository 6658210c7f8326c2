package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// Since says from when on an export reads a list whose elements have a date, so that a run brings what is new.
type Since struct {
	Last    bool          // from where the last published run ended; if not, every run reads from First on
	First   Moment        // where a run without a predecessor begins; zero: with the oldest element
	Overlap time.Duration // how far a run looks back behind the end of the last one
	Pos     Pos
}

// Moment is an instant, or a time before the start of a run. The zero Moment is before everything.
type Moment struct {
	At  time.Time
	Ago time.Duration
}

// Of gives the instant for a run that starts at start; zero for the zero Moment.
func (m Moment) Of(start time.Time) time.Time {
	if m.Ago > 0 {
		return start.Add(-m.Ago)
	}
	return m.At
}

// dated are the lists that since can narrow: the date of their elements, and whether the service filters by it. Alerts
// have no such filter, so their lists are read whole and narrowed here.
var dated = map[string]struct {
	field  string
	server bool
}{
	"activity-logs":          {"date", true},
	"alerts-resolved":        {"resolvedOn", false},
	"site-alerts-resolved":   {"resolvedOn", false},
	"device-alerts-resolved": {"resolvedOn", false},
	"alerts-open":            {"timestamp", false},
	"site-alerts-open":       {"timestamp", false},
	"device-alerts-open":     {"timestamp", false},
}

// Bookmark is where the published part of a list ends.
type Bookmark struct {
	Newest time.Time `json:"newest"` // date of the newest element that was read; it comes from the service, not from a clock of this machine
	Known  time.Time `json:"known"`  // what was published from here on is in Seen
}

// Seen are the elements near a bookmark that were published, by key, with their dates; the zero time for one without.
type Seen map[string]time.Time

// Window is the part of a list that one run reads. It is settled when the run begins and kept with it: a run that is
// taken up days later still reads what it began with.
type Window struct {
	From   time.Time `json:"from"`   // elements before are left out; zero: none are
	Until  time.Time `json:"until"`  // the start of the run, to the second; zero when the clock of this machine cannot be right
	Start  time.Time `json:"start"`  // the start of the run
	Newest time.Time `json:"newest"` // of the bookmark that it follows; zero without one
}

// clockTolerance is how far two clocks that are right may be apart.
const clockTolerance = time.Minute

// Window settles what a run that starts at start reads. mark is the bookmark of the last published run; its zero value is
// none. behind tells that the clock of this machine is well behind the bookmark. A run that starts before its bookmark has
// no upper end, which loses nothing.
func (s *Since) Window(start time.Time, mark Bookmark) (w Window, behind bool) {
	start = start.UTC()
	w = Window{From: s.First.Of(start).UTC().Truncate(time.Second), Until: start.Truncate(time.Second), Start: start}
	if s.First == (Moment{}) {
		w.From = time.Time{}
	}
	if !s.Last || mark.Newest.IsZero() {
		return w, false
	}
	w.Newest, w.From = mark.Newest, mark.Newest.Add(-s.Overlap).Truncate(time.Second)
	if w.From.Before(mark.Known) {
		// A longer overlap than that of the last run: before Known nobody knows what
		// was published.
		w.From = mark.Known
	}
	if w.Until.Before(mark.Newest) {
		w.Until = time.Time{}
	}
	return w, mark.Newest.Sub(start) > clockTolerance
}

// query is the filter that the window comes to, for a list that the service can filter by date.
func (w Window) query(op rmm.Operation, filter url.Values) url.Values {
	if !dated[op.Name].server {
		return filter
	}
	const layout = "2006-01-02T15:04:05Z"
	q := url.Values{}
	for name, values := range filter {
		q[name] = values
	}
	if !w.From.IsZero() {
		q.Set("from", w.From.UTC().Format(layout))
	}
	if !w.Until.IsZero() {
		q.Set("until", w.Until.UTC().Format(layout))
	}
	return q
}

// dateOf is the date by which an element of a list is new or old; zero when it has none.
func dateOf(op rmm.Operation, element json.RawMessage) time.Time {
	var v any
	switch r := gjson.GetBytes(element, dated[op.Name].field); r.Type {
	case gjson.Number:
		v = json.Number(r.Raw)
	case gjson.String:
		v = r.Str
	default:
		return time.Time{}
	}
	t, _ := output.ParseDate(v)
	return t
}

// seenKey is what an element is remembered by.
func seenKey(op rmm.Operation, element json.RawMessage) string {
	if key := keyOf(op.Key, element); key != "" {
		return key
	}
	id, _ := identify(op, element)
	return fmt.Sprintf("sha256:%x", id[:])
}

// fresh tells whether a run publishes an element: it lies in the window, and was not published with this date or a later
// one. An element without a date is fresh until it was published once.
func (w Window) fresh(op rmm.Operation, element json.RawMessage, seen Seen) bool {
	date := dateOf(op, element)
	if !date.IsZero() && date.Before(w.From) {
		return false
	}
	last, was := seen[seenKey(op, element)]
	return !was || date.After(last)
}

// fresh yields the elements that the run publishes.
func (e *ExportWork) fresh(els iter.Seq2[Element, error]) iter.Seq2[Element, error] {
	w := e.set.Window
	if w == nil {
		return els
	}
	return func(yield func(Element, error) bool) {
		for el, err := range els {
			if err == nil && !w.fresh(e.job.Export.From, el.JSON, e.set.Seen) {
				continue
			}
			if !yield(el, err) || err != nil {
				return
			}
		}
	}
}

// Bookmark returns where the list ends once this run is published, and what the next run must not publish again: the
// elements from one overlap before that end on, whether this run has published them or an earlier one.
//
// Dates after the start of the run do not move the bookmark: one alert from a device whose clock is years ahead would
// hide all others. Such elements are remembered one by one instead.
func (e *ExportWork) Bookmark(ctx context.Context, a Answers) (Bookmark, Seen, error) {
	op, w := e.job.Export.From, e.set.Window
	mark := Bookmark{Newest: w.Newest}
	limit := w.Start
	if limit.Before(w.Newest) {
		limit = w.Newest
	}
	for el, err := range elements(ctx, a, listPrefix) {
		if err != nil {
			return mark, nil, err
		}
		if d := dateOf(op, el.JSON); d.After(mark.Newest) && !d.After(limit) {
			mark.Newest = d
		}
	}
	if mark.Newest.IsZero() || mark.Newest.Before(w.From) {
		mark.Newest = w.From // nothing is there yet; zero when everything was asked for
	}
	if !mark.Newest.IsZero() {
		mark.Known = mark.Newest.Add(-e.job.Export.Since.Overlap)
	}
	if mark.Known.Before(w.From) {
		mark.Known = w.From
	}
	seen := Seen{}
	for key, date := range e.set.Seen {
		if !date.Before(mark.Known) {
			seen[key] = date
		}
	}
	for el, err := range elements(ctx, a, listPrefix) {
		if err != nil {
			return mark, nil, err
		}
		date, key := dateOf(op, el.JSON), seenKey(op, el.JSON)
		if !date.IsZero() && date.Before(mark.Known) {
			continue
		}
		if last, was := seen[key]; !was || date.After(last) {
			seen[key] = date
		}
	}
	return mark, seen, nil
}
