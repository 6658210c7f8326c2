package runner

import (
	"testing"
	"time"
)

func TestBackoffSchedule(t *testing.T) {
	seconds := []float64{1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60}
	for i, s := range seconds {
		n := i + 1
		for _, jitter := range []float64{0, 0.25, 0.5, 0.999} {
			want := time.Duration(s * (0.8 + 0.4*jitter) * float64(time.Second))
			if got := backoff(n, jitter); got < want-time.Microsecond || got > want+time.Microsecond {
				t.Errorf("backoff(%d, %v) = %s, want %s", n, jitter, got, want)
			}
		}
	}
	for _, n := range []int{-5, 0} {
		if got := backoff(n, 0.5); got != time.Second {
			t.Errorf("backoff(%d) = %s, want 1s", n, got)
		}
	}
	for _, n := range []int{63, 64, 65, 1 << 40} {
		if got := backoff(n, 0.5); got != time.Minute {
			t.Errorf("backoff(%d) = %s, want 1m", n, got)
		}
	}
	// The ten attempts of an item last about four minutes.
	var all time.Duration
	for n := 1; n < attempts(verdict{class: classService}); n++ {
		all += backoff(n, 0.5)
	}
	if all < 4*time.Minute || all > 5*time.Minute {
		t.Errorf("the attempts of an item last %s", all)
	}
}

// TestBreaker walks one breaker through a schedule: what happens at a second,
// and what it admits after that. Jitter 0.5 makes every delay exact.
func TestBreaker(t *testing.T) {
	const (
		ok      = "ok"      // an answer
		down    = "down"    // an outage
		offline = "offline" // nothing was reached
		probe   = "probe"   // one request is let out
		wait    = "wait"    // nothing happens
	)
	type step struct {
		at     float64 // seconds
		event  string
		admits bool
		next   float64 // when to ask again; -1 for no time
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"closed", []step{{0, wait, true, -1}, {1, ok, true, -1}}},
		{"three are chance", []step{{0, down, true, -1}, {0, down, true, -1}, {0, down, true, -1}, {1, ok, true, -1}, {1, down, true, -1}}},
		{"the fourth opens", []step{
			{0, down, true, -1},
			{0, down, true, -1},
			{0, down, true, -1},
			{0, down, false, 1},
			{0.5, wait, false, 1},
			{1, wait, true, -1},
		}},
		{"stragglers do not lengthen it", []step{
			{0, down, true, -1},
			{0, down, true, -1},
			{0, down, true, -1},
			{0, down, false, 1},
			{0.2, down, false, 1},
			{0.4, offline, false, 1},
		}},
		{"one probe at a time, growing waits", []step{
			{0, offline, false, 1},
			{1, probe, false, -1},
			{1.5, down, false, 3.5},
			{3.5, probe, false, -1},
			{3.5, down, false, 7.5},
			{7.5, probe, false, -1},
			{8, ok, true, -1},
			{9, down, true, -1}, // as new
		}},
		{"offline, then errors", []step{
			{0, offline, false, 1},
			{1, probe, false, -1},
			{1, down, false, 3},
			{3, probe, false, -1},
			{3, down, false, 7},
			{7, probe, false, -1},
			{7, down, false, 15},
		}},
		{"errors, then offline", []step{
			{0, down, true, -1}, {0, offline, false, 1}, {1, probe, false, -1}, {1, offline, false, 3},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t0 := time.Date(2025, 3, 6, 1, 0, 0, 0, time.UTC)
			at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
			var b breaker
			for i, s := range tt.steps {
				switch s.event {
				case ok:
					b.succeeded()
				case down, offline:
					b.failed(at(s.at), s.event == offline, 0.5)
				case probe:
					if admits, _ := b.admits(at(s.at)); !admits {
						t.Fatalf("step %d: no probe is let out", i)
					}
					b.probing = true
				}
				admits, next := b.admits(at(s.at))
				wantNext := time.Time{}
				if s.next >= 0 {
					wantNext = at(s.next)
				}
				if admits != s.admits || !next.Equal(wantNext) {
					t.Fatalf("step %d: admits %v, next %s; want %v, %s", i, admits, next.Sub(t0), s.admits, wantNext.Sub(t0))
				}
			}
		})
	}
}

// since is the first outage of a row, whatever follows.
func TestBreakerSince(t *testing.T) {
	t0 := time.Date(2025, 3, 6, 1, 0, 0, 0, time.UTC)
	var b breaker
	for i := range 6 {
		b.failed(t0.Add(time.Duration(i)*time.Second), false, 0)
	}
	if !b.since.Equal(t0) {
		t.Errorf("since %s", b.since)
	}
	b.succeeded()
	b.failed(t0.Add(time.Hour), true, 0)
	if !b.since.Equal(t0.Add(time.Hour)) {
		t.Errorf("since %s after a success", b.since)
	}
}
