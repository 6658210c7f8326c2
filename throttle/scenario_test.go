package throttle

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a scenario in virtual time with a started limiter on a server model.
func bubble(t *testing.T, s *server, cfg Config, f func(t *testing.T, l *Limiter)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, s, cfg)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, l)
	})
}

// events collects the kinds of events with their times since the first.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (ev *events) add(e Event) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.all = append(ev.all, e)
}

func (ev *events) of(kind string) (out []Event) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	for _, e := range ev.all {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// peak returns the most times within any window.
func peak(times []time.Time, window time.Duration) int {
	best, from := 0, 0
	for i, t := range times {
		for t.Sub(times[from]) >= window {
			from++
		}
		best = max(best, i-from+1)
	}
	return best
}

func TestCase_D10_SeparateLimits(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			s := newServer(1)
			bubble(t, s, Config{Profile: p}, func(t *testing.T, l *Limiter) {
				var udf, warranty time.Duration
				var wg sync.WaitGroup
				wg.Go(func() { udf, _ = pool(l, s, "device-udf-set", 300, 8) })
				wg.Go(func() { warranty, _ = pool(l, s, "device-warranty-create", 300, 8) })
				wg.Wait()
				t.Logf("UDF %v, warranty %v, at most %d of 100 in a window, 429s %d", udf, warranty, s.peak["device-warranty-create"], s.n429)
				if s.n429 > 0 || s.peak["device-warranty-create"] > 100 {
					t.Errorf("%d × 429, %d warranty writes in a window", s.n429, s.peak["device-warranty-create"])
				}
				if p.Name == "aggressive" && udf > time.Minute {
					t.Errorf("the UDF writes took %v, want at most a minute", udf)
				}
				if warranty < 2*time.Minute {
					t.Errorf("300 writes at 100 a minute in %v", warranty)
				}
			})
		})
	}
}

func TestCase_D10_LegacySharesOneBudget(t *testing.T) {
	s := newServer(2)
	s.legacy, s.bare = true, true
	var ev events
	bubble(t, s, Config{Event: ev.add}, func(t *testing.T, l *Limiter) {
		var wg sync.WaitGroup
		for _, lane := range []string{Read, "device-udf-set", "device-warranty-create"} {
			wg.Go(func() {
				if _, err := pool(l, s, lane, 600, 8); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.n429 > 0 || s.peak["reads"] >= 540 {
			t.Errorf("%d × 429, %d of 600 used", s.n429, s.peak["reads"])
		}
		if n := len(ev.of(EventLegacy)); n != 1 {
			t.Errorf("%d notices, want 1", n)
		}
		st := l.Status()
		if st.Model != "legacy" || len(st.Buckets) != 1 {
			t.Errorf("model %s with %d buckets", st.Model, len(st.Buckets))
		}
	})
}

// The write fields are there, but the server counts everything as reads.
func TestLegacyFoundByItsCounters(t *testing.T) {
	s := newServer(3)
	s.legacy = true
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		if _, err := pool(l, s, "device-udf-set", 20, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := pool(l, s, "device-udf-set", 2000, 8); err != nil {
			t.Fatal(err)
		}
		if m := l.Status().Model; m != "legacy" || s.n429 > 0 {
			t.Errorf("model %s, %d × 429", m, s.n429)
		}
	})
}

func TestCase_N01_NoRetryAfter(t *testing.T) {
	s := newServer(4)
	refused := false
	s.answer = func(lane string, now time.Time) (Result, bool) {
		if len(s.sent) == 3 && !refused {
			refused = true
			return Result{Status: 429}, true
		}
		return Result{}, false
	}
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		if _, err := pool(l, s, Read, 5, 1); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.arrivals, func(a time.Time) bool { return a.Sub(s.sent[2]) > 0 })
		if gap := s.arrivals[i].Sub(s.sent[2]); gap < 2*time.Minute || gap > 125*time.Second {
			t.Errorf("next request after %v, want about 2 min", gap)
		}
		if len(s.sent) != 6 {
			t.Errorf("%d requests, want 5 and one repeated", len(s.sent))
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	forms := []struct {
		name string
		r    Result
		gap  time.Duration // 0: exhausted
	}{
		{"zero", Result{Status: 429, HasRetryAfter: true}, time.Second},
		{"ten seconds", Result{Status: 429, RetryAfter: 10 * time.Second, HasRetryAfter: true}, 10 * time.Second},
		{"more than an hour", Result{Status: 429, RetryAfter: time.Hour + time.Second, HasRetryAfter: true}, 0},
		{"more than is left", Result{Status: 429, RetryAfter: 45 * time.Minute, HasRetryAfter: true}, 0},
		{"absurd", Result{Status: 429, RetryAfter: 1<<63 - 1, HasRetryAfter: true}, 0},
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			s := newServer(5)
			bubble(t, s, Config{MaxPause: 30 * time.Minute}, func(t *testing.T, l *Limiter) {
				p, err := l.Wait(t.Context(), Read)
				if err != nil {
					t.Fatal(err)
				}
				p.Done(f.r)
				start := time.Now()
				p, err = l.Wait(t.Context(), Read)
				took := time.Since(start)
				var ex *ExhaustedError
				if f.gap == 0 {
					if !errors.As(err, &ex) || took > 0 {
						t.Errorf("%v after %v, want an ExhaustedError at once", err, took)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				p.Cancel()
				if took < f.gap || took > f.gap*11/10+2*time.Second {
					t.Errorf("waited %v, want about %v", took, f.gap)
				}
			})
		})
	}
}

// 16 workers, and a server that starts its 60 s anew with every request it refuses.
func TestCase_N03_OneStopForAllWorkers(t *testing.T) {
	s := newServer(6)
	var closed time.Time
	sent := 0
	s.answer = func(lane string, now time.Time) (Result, bool) {
		sent++
		if now.Before(closed) || sent == 100 {
			closed = now.Add(time.Minute)
			s.n429++
			return Result{Status: 429}, true
		}
		return Result{}, false
	}
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		if _, err := pool(l, s, Read, 300, 16); err != nil {
			t.Fatal(err)
		}
		if s.n429 > 17 {
			t.Errorf("%d requests refused, want at most those in flight", s.n429)
		}
		gap, at := time.Duration(0), 0
		for i := 1; i < len(s.arrivals); i++ {
			if d := s.arrivals[i].Sub(s.arrivals[i-1]); d > gap {
				gap, at = d, i
			}
		}
		if gap < time.Minute {
			t.Fatalf("longest silence %v", gap)
		}
		// The probe, the first request after its answer, then spaced ones.
		after := s.arrivals[at:]
		if n := peak(after[:20], time.Second); n > 8 {
			t.Errorf("%d requests in a second after the stop", n)
		}
		if i := slices.Index(s.sent, after[0]); i >= 0 {
			t.Error("a request and not a probe ended the silence")
		}
	})
}

func TestCase_N04_Blocked(t *testing.T) {
	s := newServer(7)
	var from time.Time
	n, during := 0, 0
	s.answer = func(lane string, now time.Time) (Result, bool) {
		n++
		switch {
		case n >= 50 && n < 53:
			return Result{Status: 429}, true
		case n == 53:
			from = now
			return Result{Status: 403}, true
		case !from.IsZero() && now.Sub(from) < 5*time.Minute:
			during++
			return Result{Status: 403}, true
		}
		return Result{}, false
	}
	var ev events
	bubble(t, s, Config{Event: ev.add}, func(t *testing.T, l *Limiter) {
		// One worker, so that nothing is in flight when the block begins.
		if took, err := pool(l, s, Read, 100, 1); err != nil || took > 40*time.Minute {
			t.Fatalf("%v after %v", err, took)
		}
		if during > 0 {
			t.Errorf("%d requests during the block", during)
		}
		blocks := ev.of(EventBlock)
		if len(blocks) != 1 || len(ev.of(EventProbe)) != 1 {
			t.Fatalf("%d blocks and %d probes, want one of each", len(blocks), len(ev.of(EventProbe)))
		}
	})
}

// A block that lasts longer than the first wait: one probe at a time, and longer waits.
func TestBlockProbes(t *testing.T) {
	s := newServer(8)
	start := time.Time{}
	probes := []time.Duration{}
	s.answer = func(lane string, now time.Time) (Result, bool) {
		if start.IsZero() && len(s.sent) == 20 {
			start = now
		}
		if start.IsZero() || now.Sub(start) > 20*time.Minute {
			return Result{}, false
		}
		if d := now.Sub(start); d > 5*time.Second {
			probes = append(probes, d.Round(time.Minute))
		}
		return Result{Status: 403}, true
	}
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		if _, err := pool(l, s, Read, 300, 16); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(probes, []time.Duration{5 * time.Minute, 15 * time.Minute}) {
			t.Errorf("requests while blocked after %v, want 5 and 15 min", probes)
		}
		if st := l.Status(); st.Blocks != 1 || st.Blocked != "" || st.Paused < 35*time.Minute {
			t.Errorf("status: %d blocks, %q, paused %v", st.Blocks, st.Blocked, st.Paused)
		}
	})
}

// The waits grow, they really happen, and their sum is reported.
func TestCase_N06_WaitsHappenAndGrow(t *testing.T) {
	s := newServer(9)
	s.answer = func(lane string, now time.Time) (Result, bool) {
		return Result{Status: 429}, len(s.sent) <= 4 && len(s.sent) > 0 && s.inProbe == 0
	}
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		took, err := pool(l, s, Read, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.sent) != 5 {
			t.Fatalf("%d requests, want 5", len(s.sent))
		}
		var total time.Duration
		for i, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute} {
			gap := s.sent[i+1].Sub(s.sent[i])
			if gap < want || gap > want*103/100+5*time.Second {
				t.Errorf("gap %d is %v, want about %v", i+1, gap, want)
			}
			total += want
		}
		if held := l.Held(); held < total || held > took {
			t.Errorf("held for %v, want at least %v and at most the %v it took", held, total, took)
		}
		if st := l.Status(); st.Paused < total || st.Paused > took || st.Limited != 4 {
			t.Errorf("paused %v, %d × 429", st.Paused, st.Limited)
		}
	})
}

// The wall clock jumps nine hours ahead while the monotonic one stands still, in the
// middle of the work and while others have filled the window.
func TestCase_R15_Sleep(t *testing.T) {
	for name, jump := range map[string]time.Duration{"nine hours ahead": 9 * time.Hour, "nine hours back": -9 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newServer(10)
			var slow atomic.Bool
			probe := func(ctx context.Context) (Reading, error) {
				if slow.Load() {
					time.Sleep(3 * time.Second)
				}
				return s.probe(ctx)
			}
			bubble(t, s, Config{Probe: probe}, func(t *testing.T, l *Limiter) {
				var offset atomic.Int64
				l.clock = func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }
				if _, err := pool(l, s, Read, 450, 8); err != nil {
					t.Fatal(err)
				}
				time.Sleep(61 * time.Second)
				s.others(Read, 420)
				s.mu.Lock()
				probes, sent := s.probes, len(s.sent)
				s.mu.Unlock()
				offset.Store(int64(jump))
				slow.Store(true)
				start := time.Now()
				if took, err := pool(l, s, Read, 400, 32); err != nil || took > 10*time.Minute {
					t.Fatalf("%v after %v", err, took)
				}
				if s.probes == probes {
					t.Error("no calibration after the jump")
				}
				if first := s.sent[sent].Sub(start); first < 3*time.Second {
					t.Errorf("first request %v after the jump, before the reading was there", first)
				}
				if s.n429 > 0 {
					t.Errorf("%d × 429", s.n429)
				}
			})
		})
	}
}

// A clock that is set back while requests wait for the end of a pause.
func TestClockSetBackDoesNotWedge(t *testing.T) {
	s := newServer(11)
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		var offset atomic.Int64
		l.clock = func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }
		p, _ := l.Wait(t.Context(), Read)
		p.Done(Result{Status: 429})
		time.AfterFunc(20*time.Second, func() { offset.Store(int64(-3 * time.Hour)) })
		start := time.Now()
		if _, err := pool(l, s, Read, 1, 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 2*time.Minute || took > 150*time.Second {
			t.Errorf("the pause of 2 min took %v", took)
		}
		if age := l.clock().Sub(l.Status().At); age != 0 {
			t.Errorf("status is %v off the wall clock", age)
		}
	})
}

// Others use part of the account, on and off.
func TestLoadFromOthers(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			s := newServer(12)
			bubble(t, s, Config{Profile: p}, func(t *testing.T, l *Limiter) {
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					for on := true; ; on = !on {
						for range 120 {
							if sleep(ctx, time.Second) != nil {
								return
							}
							if on {
								s.others(Read, 4) // 40 %
							}
						}
					}
				})
				took, err := pool(l, s, Read, 3000, 8)
				stop()
				wg.Wait()
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("3,000 reads in %v, %d × 429 of ours, %d in all, at most %d of 600", took, s.own429, s.n429, s.peak["reads"])
				if s.own429 > 0 {
					t.Errorf("%d × 429", s.own429)
				}
			})
		})
	}
}

// The window is already 80 % full of others at the start.
func TestFullWindowAtTheStart(t *testing.T) {
	s := newServer(13)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s.others(Read, 480)
		l := newLimiter(t, s, Config{})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := pool(l, s, Read, 500, 16); err != nil {
			t.Fatal(err)
		}
		if s.n429 > 0 || s.peak["reads"] > 540 {
			t.Errorf("%d × 429, at most %d of 600", s.n429, s.peak["reads"])
		}
	})
}

// Another program floods the account for five minutes.
func TestFlood(t *testing.T) {
	s := newServer(14)
	s.blockOn = 0
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mine atomic.Int64
		wg.Go(func() {
			if sleep(ctx, 2*time.Minute) != nil {
				return
			}
			for range 300 {
				s.others(Read, 30)
				if sleep(ctx, time.Second) != nil {
					return
				}
			}
		})
		wg.Go(func() {
			defer stop()
			worker := func() {
				p, err := l.Wait(ctx, Read)
				if err != nil {
					t.Error(err)
					return
				}
				r := s.call(Read)
				if r.Status == 429 {
					mine.Add(1)
				}
				p.Done(r)
			}
			var ws sync.WaitGroup
			for range 8 {
				ws.Go(func() {
					for range 300 {
						worker()
					}
				})
			}
			ws.Wait()
		})
		wg.Wait()
		t.Logf("%d own requests refused", mine.Load())
		if mine.Load() > 15 {
			t.Errorf("%d own requests refused, want at most 15", mine.Load())
		}
	})
}

// A pause of the reads never holds the writes, and the other way round.
func TestPausesAreSeparate(t *testing.T) {
	for _, c := range [][2]string{{Read, "device-udf-set"}, {"device-udf-set", Read}, {"device-warranty-create", "device-udf-set"}} {
		t.Run(c[0]+" paused", func(t *testing.T) {
			s := newServer(15)
			bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
				if c[0] == "device-warranty-create" {
					s.others(c[0], 99) // so that the operation is the fuller bucket
					time.Sleep(31 * time.Second)
				}
				p, err := l.Wait(t.Context(), c[0])
				if err == nil {
					p.Done(Result{Status: 429})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := l.Wait(ctx, c[0]); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the paused lane: %v, want the deadline", err)
				}
				if took, err := pool(l, s, c[1], 200, 8); err != nil || took > time.Minute {
					t.Errorf("the other lane: %v after %v", err, took)
				}
			})
		})
	}
}

// Writes that pause at the cut-off while the reads are rate limited come back without a
// reading, because a reading is a read.
func TestWritesReopenWhileReadsAreSilent(t *testing.T) {
	s := newServer(16)
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		s.others("device-udf-set", 520)
		time.Sleep(31 * time.Second)
		if _, err := pool(l, s, Read, 1, 1); err != nil {
			t.Fatal(err)
		}
		if l.Status().Buckets[1].Utilisation < 0.86 {
			t.Fatal("the writes are not full")
		}
		p, _ := l.Wait(t.Context(), Read)
		p.Done(Result{Status: 429, RetryAfter: 30 * time.Minute, HasRetryAfter: true})
		probes := s.probes
		took, err := pool(l, s, "device-udf-set", 5, 1)
		if err != nil || took > 3*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if s.probes != probes {
			t.Error("a reading was sent into the silence")
		}
	})
}

func TestBudgetIsSpent(t *testing.T) {
	s := newServer(17)
	s.answer = func(lane string, now time.Time) (Result, bool) {
		return Result{Status: 429}, s.inProbe == 0
	}
	var ev events
	bubble(t, s, Config{MaxPause: 20 * time.Minute, Event: ev.add}, func(t *testing.T, l *Limiter) {
		took, err := pool(l, s, Read, 100, 8)
		var ex *ExhaustedError
		if !errors.As(err, &ex) {
			t.Fatalf("%v after %v, want an ExhaustedError", err, took)
		}
		t.Log(err)
		if took < 14*time.Minute || took > 21*time.Minute {
			t.Errorf("ended after %v", took)
		}
		if ex.Spent > ex.Max || ex.Lane != "reads" {
			t.Errorf("%+v", *ex)
		}
		if n := len(ev.of(EventWarning)); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

// The first reading fails: defaults and a warning, and the work gets done.
func TestStartFallsBack(t *testing.T) {
	s := newServer(18)
	s.probeErr = errors.New("no route to host")
	var ev events
	bubble(t, s, Config{Event: ev.add}, func(t *testing.T, l *Limiter) {
		if n := len(ev.of(EventWarning)); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		st := l.Status()
		if st.CutOff != 0.9 || st.Window != time.Minute || st.Buckets[0].Limit != 600 || st.Buckets[1].Limit != 600 {
			t.Errorf("%+v", st)
		}
		took, err := pool(l, s, Read, 1000, 8)
		if err != nil || s.n429 > 0 {
			t.Errorf("%v, %d × 429", err, s.n429)
		}
		if most := int(took/(5*time.Second)) + 2; s.probes > most {
			t.Errorf("%d failing readings in %v", s.probes, took)
		}
	})
}

func TestStartObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(19)
		l := newLimiter(t, s, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		// Nothing is lost: the first Wait reads.
		if _, err := pool(l, s, Read, 10, 2); err != nil || s.probes < 2 {
			t.Errorf("%v, %d probes", err, s.probes)
		}
	})
}

// Waiting ends with its context, at once, in whatever state the gate is, and a reading
// that only the waiter waited for ends with it.
func TestWaitObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) (Reading, error) {
			<-ctx.Done()
			return Reading{}, ctx.Err()
		}
		l := newLimiter(t, nil, Config{Probe: hang})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			_, err := l.Wait(ctx, Read)
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("%v after %v", err, took)
			}
			cancel()
			synctest.Wait()
			if n := runtime.NumGoroutine(); n > 50 {
				t.Fatalf("%d goroutines", n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Wait(ctx, Read); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
		// A reading that hangs ends by itself, and the work goes on without it.
		start := time.Now()
		p, err := l.Wait(t.Context(), Read)
		if err != nil || time.Since(start) != probeTimeout {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		p.Cancel()
	})
}

// A merely due calibration that hangs does not hold the workers.
func TestDueReadingHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(20)
		first := true
		l := newLimiter(t, s, Config{Probe: func(ctx context.Context) (Reading, error) {
			if first {
				first = false
				return s.probe(ctx)
			}
			<-ctx.Done()
			return Reading{}, ctx.Err()
		}})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, err := pool(l, s, Read, 250, 8); err != nil || took > 45*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Hundreds of waiters come and go; nothing leaks, nobody is overtaken, the gate works on.
func TestCancellationStorm(t *testing.T) {
	s := newServer(21)
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		if _, err := pool(l, s, Read, 350, 8); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*100*time.Millisecond)
				defer cancel()
				p, err := l.Wait(ctx, []string{Read, "device-udf-set", "device-warranty-create"}[i%3])
				if err != nil {
					return
				}
				if i%2 == 0 {
					p.Cancel()
					return
				}
				p.Done(Result{})
				p.Cancel()
			})
		}
		wg.Wait()
		st := l.Status()
		if st.Waiting != 0 || st.InFlight != 0 {
			t.Errorf("%d waiting, %d in flight", st.Waiting, st.InFlight)
		}
		if own := st.Buckets[1].Own; own != 0 {
			t.Errorf("%d own writes, but none was sent", own)
		}
		if took, err := pool(l, s, Read, 50, 8); err != nil || took > 2*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A cancelled permit gives its slot back: the next request need not wait for another.
func TestCancelGivesTheSlotBack(t *testing.T) {
	s := newServer(22)
	bubble(t, s, Config{Profile: named(t, "cautious")}, func(t *testing.T, l *Limiter) {
		s.others(Read, 400)
		time.Sleep(40 * time.Second)
		if _, err := pool(l, s, Read, 3, 1); err != nil {
			t.Fatal(err)
		}
		p, err := l.Wait(t.Context(), Read)
		if err != nil {
			t.Fatal(err)
		}
		p.Cancel()
		start := time.Now()
		p, err = l.Wait(t.Context(), Read)
		if took := time.Since(start); err != nil || took > 300*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		p.Cancel()
	})
}

func TestSetProfileWakesTheWaiters(t *testing.T) {
	s := newServer(23)
	slowest, err := Custom("cautious", map[string]float64{"delay_multiplier_ms": 60000})
	if err != nil {
		t.Fatal(err)
	}
	var ev events
	bubble(t, s, Config{Profile: slowest, Event: ev.add}, func(t *testing.T, l *Limiter) {
		s.others(Read, 200)
		time.Sleep(40 * time.Second)
		p, _ := l.Wait(t.Context(), Read)
		p.Done(Result{Status: 200})
		time.AfterFunc(time.Second, func() {
			if err := l.SetProfile(named(t, "aggressive")); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		p, err := l.Wait(t.Context(), Read)
		if took := time.Since(start); err != nil || took < time.Second || took > 2*time.Second {
			t.Errorf("%v after %v, want right after the change", err, took)
		}
		p.Cancel()
		if len(ev.of(EventWarning)) != 1 {
			t.Error("a custom profile is not announced")
		}
		if err := l.SetProfile(Profile{}); err == nil {
			t.Error("an empty profile was accepted")
		}
	})
}

// The callback may use the Limiter.
func TestEventMayCallBack(t *testing.T) {
	s := newServer(24)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l *Limiter
		calls := 0
		l = newLimiter(t, s, Config{Event: func(ev Event) {
			calls++
			if l.Status().At.Before(ev.At) {
				t.Errorf("%s is in the future", ev.Kind)
			}
			l.Held()
			if calls == 2 {
				if err := l.SetProfile(named(t, "medium")); err != nil {
					t.Error(err)
				}
			}
		}})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := pool(l, s, Read, 100, 4); err != nil {
			t.Fatal(err)
		}
		if calls == 0 {
			t.Error("no event")
		}
	})
}

func TestStatus(t *testing.T) {
	s := newServer(25)
	bubble(t, s, Config{}, func(t *testing.T, l *Limiter) {
		s.others(Read, 100)
		if _, err := pool(l, s, Read, 350, 8); err != nil {
			t.Fatal(err)
		}
		st := l.Status()
		names := []string{}
		for _, b := range st.Buckets {
			names = append(names, b.Name)
		}
		if want := []string{"reads", "writes", "device-udf-set", "device-warranty-create"}; !slices.Equal(names, want) {
			t.Errorf("buckets %v", names)
		}
		r := st.Buckets[0]
		if r.Limit != 600 || r.Own < 350 || r.Others < 95 || r.Others > 105 || r.Delay < 200*time.Millisecond || r.Reason == "" || r.Why == "" || r.NextCalibration.IsZero() {
			t.Errorf("reads: %+v", r)
		}
		sum := 0
		for _, p := range st.Timeline {
			sum += p.Reads
		}
		if sum != 350 || st.Profile != "aggressive" || st.Model != "modern" || st.Held == 0 {
			t.Errorf("%d reads in the time line, %+v", sum, st)
		}
	})
}

// flatOverADay has an engine work for a virtual day, a step each second, and compares the
// memory after the first hour with that at the end.
func flatOverADay(t *testing.T, e *Core, step func(s int, now time.Time)) {
	t.Helper()
	if testing.Short() || raced {
		t.Skip("a virtual day takes some seconds")
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	e.readNow(at(0), modern(0))
	var before uint64
	for s := range 24 * 3600 {
		step(s, at(float64(s)))
		if s == 3600 {
			before = heap()
		}
	}
	if after := heap(); after > before+200_000 {
		t.Errorf("the heap grew from %d to %d bytes within 23 h", before, after)
	}
	runtime.KeepAlive(e)
}

// A whole day at work does not grow the memory.
func TestMemoryIsFlat(t *testing.T) {
	e := testEngine(t, "aggressive")
	flatOverADay(t, e, func(s int, now time.Time) {
		e.answer(now, ok200, e.send(now, Read, 1)...)
		e.answer(now, ok200, e.send(now, "device-udf-set", 1)...)
		if s%10 == 0 {
			e.readNow(now, modern(e.read.mine(now)))
			e.events = nil
		}
	})
}
