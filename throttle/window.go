package throttle

import "time"

// slots is how finely a window is divided: 100 ms of a 60 s window. past more are kept
// of what has left it, so that it is known what the count was a short time ago.
const (
	slots = 600
	past  = 100
	kept  = slots + 1 + past
)

// window counts requests, each of which leaves again one window length after it entered.
// It keeps a count for each slot and not the requests, so its size never changes. A
// request may stay up to one slot too long, never too short: the count is an upper bound.
//
// It is written for times that never go back; Core sees to that.
type window struct {
	length time.Duration
	head   int64 // number of the newest slot, counted from the epoch
	count  [kept]int32
	total  int // of the newest slots+1 slots
}

func (w *window) slot(now time.Time) int64 {
	return now.UnixNano() / int64(w.length/slots)
}

// of returns the count of a slot that is not older than those kept.
func (w *window) of(slot int64) *int32 { return &w.count[uint64(slot+kept)%kept] }

// at returns how many requests are inside the window now.
func (w *window) at(now time.Time) int {
	cur := w.slot(now)
	if cur-w.head > kept {
		w.clear()
		w.head = cur
	}
	for w.head < cur {
		w.head++
		w.total -= int(*w.of(w.head - slots - 1))
		*w.of(w.head) = 0
	}
	return w.total
}

// add enters n requests now.
func (w *window) add(now time.Time, n int) {
	w.at(now)
	*w.of(w.head) += int32(n)
	w.total += n
}

// enter enters n requests as of a moment, which may have passed: they leave a window after it.
func (w *window) enter(now, at time.Time, n int) {
	w.at(now)
	if slot := min(w.slot(at), w.head); slot >= w.head-slots {
		*w.of(slot) += int32(n)
		w.total += n
	}
}

// remove takes one back that entered at a moment, if it is still inside.
func (w *window) remove(now, entered time.Time) {
	w.at(now)
	if slot := w.slot(entered); slot >= w.head-slots && slot <= w.head && *w.of(slot) > 0 {
		*w.of(slot)--
		w.total--
	}
}

// spread enters n requests as if they had come evenly over the window that ends now.
func (w *window) spread(now time.Time, n int) {
	w.at(now)
	for i := range int64(n) {
		*w.of(w.head - i*slots/int64(n))++
	}
	w.total += n
}

func (w *window) clear() {
	w.count = [kept]int32{}
	w.total = 0
}

// resize changes the length. What is inside counts as if it had just come, because its
// real age is no longer known and must not be overstated.
func (w *window) resize(now time.Time, length time.Duration) {
	if w.length == length {
		return
	}
	n := 0
	if w.length > 0 {
		n = w.at(now)
	}
	*w = window{length: length}
	w.add(now, n)
}

// in returns the whole slots that d has, at most limit.
func (w *window) in(d time.Duration, limit int64) int64 {
	return min(max(0, int64(d/(w.length/slots))), limit)
}

// leaving returns how many of the requests inside leave within d from now.
func (w *window) leaving(now time.Time, d time.Duration) (n int) {
	w.at(now)
	for i := range w.in(d, slots+1) {
		n += int(*w.of(w.head - slots + i))
	}
	return n
}

// steps is how finely schedule divides a window.
const steps = 60

// schedule adds how many leave within each part of the time until all have left, added up.
func (w *window) schedule(now time.Time, gone *[steps + 1]int) {
	if w.at(now) == 0 {
		return
	}
	sum := 0
	for part := range steps {
		for i := range slots / steps {
			sum += int(*w.of(w.head - slots + int64(part*(slots/steps)+i)))
		}
		gone[part+1] += sum
	}
}

// ago returns what at returned d earlier, which may be a sixth of the window at most.
func (w *window) ago(now time.Time, d time.Duration) int {
	n := w.at(now)
	for i := range w.in(d, past) {
		n += int(*w.of(w.head - slots - 1 - i)) - int(*w.of(w.head - i))
	}
	return n
}

// entered returns how many have entered within the last d.
func (w *window) entered(now time.Time, d time.Duration) (n int) {
	w.at(now)
	for i := range w.in(d, slots+1) {
		n += int(*w.of(w.head - i))
	}
	return n
}

// gone returns how many have left within the last d, which may be a sixth of the window at most.
func (w *window) gone(now time.Time, d time.Duration) (n int) {
	w.at(now)
	for i := range w.in(d, past) {
		n += int(*w.of(w.head - slots - 1 - i))
	}
	return n
}
