package runner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/throttle"
)

// guess is what a run said of its time left.
type guess struct {
	at       time.Time
	p        Progress
	progress float64 // of the requests of its stage
}

// watch keeps what a run says of its time left.
func watch(into *[]guess) func(*Config) {
	return func(cfg *Config) {
		cfg.Observe = func(p Progress) {
			*into = append(*into, guess{time.Now(), p, float64(p.Settled) / float64(max(1, p.Items))})
		}
	}
}

// errorOf is the error of the time left that all but a twentieth of the guesses keep to, as a part
// of the time that was, between two parts of a run of which end was the end. Five seconds more or
// less do not count. The twentieth is for the moments at which a reading is taken in: how requests
// that are just arriving fall around it is a matter of scheduling.
func errorOf(t *testing.T, guesses []guess, stage string, from, to float64, end time.Time) float64 {
	t.Helper()
	var off []float64
	for _, g := range guesses {
		if g.p.Stage != stage || g.progress < from || g.progress > to {
			continue
		}
		if !g.p.LeftKnown {
			t.Errorf("at %.0f %% of %d items the time left is not known", 100*g.progress, g.p.Items)
			return 1
		}
		was := end.Sub(g.at)
		if (g.p.TimeLeft - was).Abs() < 5*time.Second {
			off = append(off, 0)
			continue
		}
		off = append(off, g.p.TimeLeft.Seconds()/was.Seconds()-1)
	}
	if len(off) == 0 {
		t.Errorf("the time left was never told between %.0f and %.0f %%", 100*from, 100*to)
		return 1
	}
	slices.SortFunc(off, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	return off[(len(off)-1)*19/20]
}

// TestTimeLeft compares what a steady run says after its first twentieth with the time that
// it took.
func TestTimeLeft(t *testing.T) {
	n := 2400
	if raced {
		n = 1200
	}
	account := func(n int) rmmsim.Config {
		return rmmsim.Config{Devices: n, Sparse: true, UDFs: 30, Latency: 250 * time.Millisecond, Spread: 0.4}
	}
	for _, c := range []struct {
		name, profile string
		writes        bool
		change        func(*Config)
	}{
		{"reads", "adaptive", false, nil},
		{"reads", "medium", false, nil},
		{"writes", "adaptive", true, nil},
		{"writes", "medium", true, nil},
		{"few workers", "adaptive", false, workers(1)},
		{"reserve", "full", false, func(cfg *Config) { _ = cfg.Limiter.SetReserve(0.6) }},
		{"max", "full", true, func(cfg *Config) { _ = cfg.Limiter.SetMax(200, time.Minute) }},
	} {
		t.Run(c.name+" "+c.profile, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, account(n))
				b.profile = c.profile
				stage := "read"
				if c.writes {
					b.tag(0)
					stage = "apply"
				} else {
					b.export(1, "second_walk: never")
				}
				var guesses []guess
				change := []func(*Config){watch(&guesses)}
				if c.change != nil {
					change = append(change, c.change)
				}
				b.want(b.run(change...), checkpoint.RunOK)
				e := errorOf(t, guesses, stage, 0.05, 1, time.Now())
				t.Logf("%d items in %v, error %+.1f %%", n, time.Since(b.began).Round(time.Second), 100*e)
				if math.Abs(e) > 0.15 {
					t.Errorf("the time left was wrong by %+.0f %%", 100*e)
				}
			})
		})
	}
}

// TestTimeLeftAfterAResume stops a run half-way and goes on with a new limiter.
func TestTimeLeftAfterAResume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 1200, Sparse: true, UDFs: 30, Latency: 250 * time.Millisecond})
		b.profile = "adaptive"
		b.export(1, "second_walk: never")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.want(b.runIn(ctx), checkpoint.RunStopped)
		time.Sleep(5 * time.Minute)
		b.reopen()
		var guesses []guess
		b.want(b.run(watch(&guesses)), checkpoint.RunOK)
		first := guesses[0].progress
		if e := errorOf(t, guesses, "read", first+0.1, 1, time.Now()); math.Abs(e) > 0.15 {
			t.Errorf("the time left was wrong by %+.0f %%", 100*e)
		}
	})
}

// TestTimeLeftOfManyLists reads one list for each device: their lengths are not known, but
// after some of them their average is.
func TestTimeLeftOfManyLists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 400, UDFs: 30, Software: 60, Latency: 250 * time.Millisecond})
		b.profile = "adaptive"
		b.exportOf("device-software", 30)
		var guesses []guess
		b.want(b.run(watch(&guesses)), checkpoint.RunOK)
		end := time.Now()
		for _, g := range guesses {
			if g.p.Stage == "parents" && g.p.LeftKnown {
				t.Fatalf("before the devices are known: %v left", g.p.TimeLeft)
			}
		}
		// The sum of items grows while lists tell their length.
		var after []guess
		seen := 0
		for _, g := range guesses {
			if g.p.Stage == "read" {
				if seen++; seen > 60 {
					after = append(after, g)
				}
			}
		}
		if e := errorOf(t, after, "read", 0, 1, end); math.Abs(e) > 0.15 {
			t.Errorf("the time left was wrong by %+.0f %%", 100*e)
		}
	})
}

// TestTimeLeftUnknown: lists that do not tell their length, and what comes after a list, are
// not guessed.
func TestTimeLeftUnknown(t *testing.T) {
	for _, c := range []struct {
		list string
		rest []string
		cfg  rmmsim.Config
	}{
		{"activity-logs", []string{"filter: {entities: [device], from: '1999-12-31T00:00:00Z', until: '2000-01-01T00:00:00Z'}"}, rmmsim.Config{Devices: 50}},
		{"alerts-open", nil, rmmsim.Config{Devices: 400}},
		{"devices", []string{"second_walk: never"}, rmmsim.Config{Devices: 300}},
	} {
		t.Run(c.list, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c.cfg.UDFs, c.cfg.Latency = 30, 250*time.Millisecond
				b := newBench(t, c.cfg)
				b.exportOf(c.list, 10, c.rest...)
				var guesses []guess
				b.want(b.run(watch(&guesses)), checkpoint.RunOK)
				known, unknown := 0, 0
				for _, g := range guesses {
					switch {
					case g.p.Settled == g.p.Items:
					case g.p.LeftKnown:
						known++
					default:
						unknown++
					}
				}
				t.Logf("known %d times, not known %d times", known, unknown)
				if c.list == "devices" && (known < 20 || unknown == 0) {
					t.Error("a list with a total is known from its first page on")
				}
				if c.list != "devices" && (known > 0 || unknown < 5) {
					t.Error("a list without a total is not known before its end")
				}
			})
		})
	}
}

// TestHold holds a run; nothing is sent, and it goes on where it was.
func TestHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 600, Sparse: true, UDFs: 30, Latency: 100 * time.Millisecond})
		b.profile, b.pause = "adaptive", time.Minute
		b.export(1, "second_walk: never")
		var l *throttle.Limiter
		go func() {
			time.Sleep(20 * time.Second)
			l.Hold(true)
			time.Sleep(2 * time.Hour)
			l.Hold(false)
		}()
		began := time.Now()
		b.want(b.run(func(cfg *Config) { l = cfg.Limiter }), checkpoint.RunOK)
		if n := b.between(began.Add(22*time.Second), began.Add(2*time.Hour)); n != 0 {
			t.Errorf("%d requests while on hold", n)
		}
		if took := time.Since(began); took > 2*time.Hour+3*time.Minute {
			t.Errorf("the run took %v", took)
		}
	})
}

// TestHoldAndStop stops a run that is on hold.
func TestHoldAndStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 600, Sparse: true, UDFs: 30, Latency: 100 * time.Millisecond})
		b.profile = "adaptive"
		b.export(1, "second_walk: never")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		sum := b.runIn(ctx, func(cfg *Config) {
			go func() { time.Sleep(10 * time.Second); cfg.Limiter.Hold(true) }()
		})
		b.want(sum, checkpoint.RunStopped)
		if took := time.Since(b.began); took > 30*time.Minute+time.Second {
			t.Errorf("the stop took %v", took-30*time.Minute)
		}
	})
}
