package rmmsim

import (
	"slices"
	"time"
)

// Window counts events over a span of time. It is pure: every method takes
// the time, so that a test or a benchmark can drive it with any clock. Times
// given to Add may come slightly out of order; they are kept sorted.
//
// A rolling window counts an event from its own instant until just before
// that instant plus the span. A fixed window starts with its first event and
// forgets everything at once when the span has passed.
type Window struct {
	span  time.Duration
	keep  time.Duration
	fixed bool
	at    []int64 // nanoseconds of wall time, ascending, from head on
	head  int
}

// NewWindow returns an empty window. keep is how long events outlive the
// span, which lets CountAt look that far back; 0 is enough for Count.
func NewWindow(span, keep time.Duration, fixed bool) *Window {
	return &Window{span: span, keep: keep, fixed: fixed}
}

// Add records one event at now.
func (w *Window) Add(now time.Time) {
	w.forget(now)
	t := now.UnixNano()
	if n := len(w.at); n > w.head && w.at[n-1] > t {
		i, _ := slices.BinarySearch(w.at[w.head:], t+1)
		w.at = slices.Insert(w.at, w.head+i, t)
		return
	}
	w.at = append(w.at, t)
}

// Count is the number of events in the window that ends at now.
func (w *Window) Count(now time.Time) int {
	w.forget(now)
	return w.CountAt(now)
}

// CountAt is what Count gave, or would have given, at an instant not further
// back than the keep of NewWindow. It changes nothing.
func (w *Window) CountAt(at time.Time) int {
	events := w.at[w.head:]
	t := at.UnixNano()
	until, _ := slices.BinarySearch(events, t+1)
	if w.fixed {
		return until - w.fixedStart(events, t)
	}
	from, _ := slices.BinarySearch(events, t-int64(w.span)+1)
	return max(0, until-from)
}

// fixedStart is the index of the event that opened the fixed window that
// holds t, or the number of events up to t if t lies outside any window.
func (w *Window) fixedStart(events []int64, t int64) int {
	i := 0
	for i < len(events) && events[i]+int64(w.span) <= t {
		next, _ := slices.BinarySearch(events, events[i]+int64(w.span))
		i = next
	}
	if i < len(events) && events[i] > t {
		until, _ := slices.BinarySearch(events, t+1)
		return until
	}
	return i
}

// forget drops what no question can reach any more.
func (w *Window) forget(now time.Time) {
	limit := now.Add(-w.span - w.keep).UnixNano()
	if w.fixed {
		// Only whole windows may go: the first event left must open one.
		for w.head < len(w.at) && w.at[w.head]+int64(w.span) <= now.Add(-w.keep).UnixNano() {
			next, _ := slices.BinarySearch(w.at[w.head:], w.at[w.head]+int64(w.span))
			w.head += next
		}
	} else {
		for w.head < len(w.at) && w.at[w.head] <= limit {
			w.head++
		}
	}
	if w.head > 1024 && w.head > len(w.at)/2 {
		w.at = append(w.at[:0], w.at[w.head:]...)
		w.head = 0
	}
}
