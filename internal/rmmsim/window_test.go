package rmmsim

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func TestWindow(t *testing.T) {
	type look struct {
		at   float64
		want int
	}
	for _, tt := range []struct {
		name  string
		fixed bool
		add   []float64
		looks []look
	}{
		{"empty", false, nil, []look{{0, 0}}},
		{"an event counts at its own instant", false, []float64{1}, []look{{0.999, 0}, {1, 1}}},
		{"and until just before 60 s later", false, []float64{1}, []look{{60.999, 1}, {61, 0}}},
		{"a rolling window falls as it rose", false, []float64{0, 10, 20}, []look{{20, 3}, {60, 2}, {70, 1}, {79, 1}, {80, 0}}},
		{"events out of order", false, []float64{5, 1, 3}, []look{{2, 1}, {4, 2}, {5, 3}, {61, 2}, {63, 1}}},
		{"a fixed window stays up, then drops to nothing", true, []float64{0, 10, 59}, []look{{59, 3}, {59.9, 3}, {60, 0}}},
		{"the next fixed window starts with its first event", true, []float64{0, 59, 70, 80}, []look{{60, 0}, {69, 0}, {70, 1}, {129, 2}, {130, 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWindow(time.Minute, time.Hour, tt.fixed)
			for _, s := range tt.add {
				w.Add(at(s))
			}
			for _, l := range tt.looks {
				if got := w.CountAt(at(l.at)); got != l.want {
					t.Errorf("CountAt(%v s) = %d, want %d", l.at, got, l.want)
				}
			}
		})
	}
}

// A window is nothing but the events of the last span; the queue inside must
// not show, however often it is shortened.
func TestWindowIsTheLastSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWindow(time.Minute, 0, false)
		var all []time.Time
		now := t0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
			for range rapid.IntRange(0, 9).Draw(t, "events") {
				w.Add(now)
				all = append(all, now)
			}
			want := 0
			for _, e := range all {
				if now.Sub(e) < time.Minute {
					want++
				}
			}
			if got := w.Count(now); got != want {
				t.Fatalf("Count at %v = %d, want %d", now.Sub(t0), got, want)
			}
		}
	})
}
