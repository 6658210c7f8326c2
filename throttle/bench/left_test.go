package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"rmmjob/throttle"
)

// TestTimeLeft asks steady runs each second for their time left and compares it with what it
// was, after the first twentieth. Five seconds more or less do not count.
func TestTimeLeft(t *testing.T) {
	seeds := uint64(8)
	if raced || testing.Short() {
		seeds = 3
	}
	for _, who := range contenders() {
		if !slices.Contains([]string{"full", "adaptive", "neighbour", "quick"}, who.name) {
			continue
		}
		for _, n := range []int{1200, 2400} {
			for seed := range seeds {
				if off, at := wrong(seed, n, who); math.Abs(off) > 0.15 {
					t.Errorf("%s, %d requests, seed %d: after %v the time left was wrong by %+.0f %%", who.name, n, seed, at, 100*off)
				}
			}
		}
	}
}

// wrong returns the greatest error of the time left in a run of n reads, and when it was.
func wrong(seed uint64, n int, who contender) (off float64, at time.Duration) {
	w := newWorld(seed, settings{})
	c := w.client("a", 8, map[string]int{throttle.Read: n}, who)
	guesses := map[time.Duration]time.Duration{}
	var ask func()
	ask = func() {
		if left, known := c.gate.(*engine).core.TimeLeft(w.now); known && c.done > n/20 && c.left[throttle.Read] > 0 {
			guesses[w.now.Sub(w.start)] = left
		}
		if w.open > 0 {
			w.after(time.Second, ask)
		}
	}
	w.after(time.Second, ask)
	w.run()
	for said, left := range guesses {
		was := c.finished.Sub(w.start) - said
		if e := left.Seconds()/was.Seconds() - 1; (left-was).Abs() > 5*time.Second && math.Abs(e) > math.Abs(off) {
			off, at = e, said
		}
	}
	return off, at
}
