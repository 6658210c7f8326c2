package throttle

import "time"

// slots is how finely a window is divided: 100 ms of a 60 s window.
const slots = 600

// window counts requests, each of which leaves again one window length after it entered.
// It keeps a count for each slot and not the requests, so its size never changes. A
// request may stay up to one slot too long, never too short: the count is an upper bound.
//
// It is written for times that never go back; the Core sees to that.
type window struct {
	length time.Duration
	head   int64 // number of the newest slot, counted from the epoch
	count  [slots + 1]int32
	total  int
}

func (w *window) slot(now time.Time) int64 {
	return now.UnixNano() / int64(w.length/slots)
}

// at returns how many requests are inside the window now.
func (w *window) at(now time.Time) int {
	cur := w.slot(now)
	switch gone := cur - w.head; {
	case gone <= 0:
	case gone > slots:
		w.clear()
		w.head = cur
	default:
		for w.head < cur {
			w.head++
			i := w.head % (slots + 1)
			w.total -= int(w.count[i])
			w.count[i] = 0
		}
	}
	return w.total
}

// add enters n requests now.
func (w *window) add(now time.Time, n int) {
	w.at(now)
	w.count[w.head%(slots+1)] += int32(n)
	w.total += n
}

// spread enters n requests as if they had come evenly over the window that ends now.
func (w *window) spread(now time.Time, n int) {
	w.at(now)
	for i := range int64(n) {
		w.count[(w.head-i*slots/int64(n))%(slots+1)]++
	}
	w.total += n
}

func (w *window) clear() {
	w.count = [slots + 1]int32{}
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
