package throttle

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestControlValues(t *testing.T) {
	e := testEngine(t, "adaptive")
	for _, c := range []struct {
		share float64
		ok    bool
	}{{0, true}, {0.4, true}, {0.95, true}, {0.96, false}, {-0.1, false}, {math.NaN(), false}} {
		if err := e.SetReserve(at(1), c.share); (err == nil) != c.ok {
			t.Errorf("reserve %v: %v", c.share, err)
		}
	}
	for _, c := range []struct {
		n   int
		per time.Duration
		ok  bool
	}{
		{300, time.Minute, true},
		{1, time.Second, true},
		{5, 24 * time.Hour, true},
		{0, 0, true},
		{-1, time.Minute, false},
		{10, time.Millisecond, false},
		{10, 25 * time.Hour, false},
		{2_000_000, time.Minute, false},
	} {
		if err := e.SetMax(at(1), c.n, c.per); (err == nil) != c.ok {
			t.Errorf("max %d in %v: %v", c.n, c.per, err)
		}
	}
}

// TestHold holds a run for three hours, which is longer than its pause budget.
func TestHold(t *testing.T) {
	for _, name := range []string{"adaptive", "medium"} {
		t.Run(name, func(t *testing.T) {
			s := newServer(3)
			bubble(t, s, Config{Profile: named(t, name), MaxPause: time.Hour}, func(t *testing.T, l *Limiter) {
				var wg sync.WaitGroup
				var err error
				wg.Go(func() { _, err = pool(l, s, Read, 900, 8) })
				time.Sleep(40 * time.Second)
				held := l.Held()
				l.Hold(true)
				time.Sleep(2 * time.Second) // what was on its way arrives
				before := s.arrived()
				if st := l.Status(); !st.OnHold || st.HeldSince.IsZero() || st.Buckets[0].Reason != "on hold by request" {
					t.Errorf("status on hold: %v since %v, %q", st.OnHold, st.HeldSince, st.Buckets[0].Reason)
				}
				time.Sleep(3 * time.Hour)
				if n := s.arrived() - before; n != 0 {
					t.Errorf("%d requests and readings while on hold", n)
				}
				if st := l.Status(); st.Paused > 0 || l.Held() != held {
					t.Errorf("the hold counts: %v of the pause budget, held %v, before %v", st.Paused, l.Held(), held)
				}
				closed, holds := l.Stood()
				probes := s.readings()
				l.Hold(false)
				if c, h := l.Stood(); c != closed || closed > time.Minute || holds != 0 || h != 1 {
					t.Errorf("stood %v and %v, %d and %d holds", closed, c, holds, h)
				}
				time.Sleep(2 * time.Second)
				if s.readings() == probes {
					t.Error("after the hold nothing was read, although what was known is three hours old")
				}
				if s.arrived()-before < 2 {
					t.Error("it does not go on")
				}
				wg.Wait()
				if err != nil || s.n429 > 0 {
					t.Errorf("%d × 429, %v", s.n429, err)
				}
			})
		})
	}
}

// TestHoldDuringABlock: a hold outlasts a block, whose probe waits for it.
func TestHoldDuringABlock(t *testing.T) {
	s := newServer(4)
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = pool(l, s, Read, 300, 8) })
		time.Sleep(5 * time.Second)
		s.mu.Lock()
		s.blocked = time.Now().Add(4 * time.Minute)
		s.mu.Unlock()
		time.Sleep(5 * time.Second)
		l.Hold(true)
		time.Sleep(2 * time.Second)
		before := s.arrived()
		time.Sleep(20 * time.Minute)
		if n := s.arrived() - before; n != 0 {
			t.Errorf("%d requests while on hold", n)
		}
		l.Hold(false)
		wg.Wait()
		if err != nil {
			t.Error(err)
		}
	})
}

// TestStood: a refusal and a machine that sleeps let nothing through; the pace is no standstill.
func TestStood(t *testing.T) {
	s := newServer(5)
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		var offset atomic.Int64
		l.clock = func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }
		stands := func(what string, want time.Duration) {
			t.Helper()
			before, _ := l.Stood()
			if _, err := pool(l, s, Read, 3, 1); err != nil {
				t.Fatal(err)
			}
			if after, _ := l.Stood(); (after - before).Round(time.Minute) != want {
				t.Errorf("%s: stood for %v, want %v", what, after-before, want)
			}
		}
		stands("at the pace", 0)

		p, err := l.Wait(t.Context(), Read)
		if err != nil {
			t.Fatal(err)
		}
		p.Done(Result{Status: 429, RetryAfter: 15 * time.Minute, HasRetryAfter: true})
		stands("after a refusal", 15*time.Minute)

		if p, err = l.Wait(t.Context(), Read); err != nil {
			t.Fatal(err)
		}
		p.Done(Result{Status: 429, RetryAfter: time.Minute, HasRetryAfter: true})
		time.AfterFunc(15*time.Second, func() { offset.Store(int64(2 * time.Hour)) })
		stands("asleep in a pause", 2*time.Hour)
	})
}

// TestReserve leaves a share of the limit alone, alone and on a legacy account, and fills the
// rest.
func TestReserve(t *testing.T) {
	for _, name := range []string{"full", "adaptive", "quick", "aggressive"} {
		for _, legacy := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " legacy"}[legacy], func(t *testing.T) {
				s := newServer(5)
				s.legacy, s.bare = legacy, legacy
				bubble(t, s, Config{Profile: named(t, name)}, func(t *testing.T, l *Limiter) {
					if err := l.SetReserve(0.6); err != nil {
						t.Fatal(err)
					}
					var wg sync.WaitGroup
					var took time.Duration
					for _, lane := range []string{Read, "device-udf-set"} {
						wg.Go(func() {
							d, err := pool(l, s, lane, 720, 8)
							if err != nil {
								t.Error(err)
							}
							took = max(took, d)
						})
					}
					wg.Wait()
					for name, n := range s.peak {
						// What was sent in a window may arrive in a slightly shorter one.
						if n > s.limits[name]*4/10+4 && s.limits[name] == 600 {
							t.Errorf("%d of %d %s in a window, 60 %% are reserved", n, s.limits[name], name)
						}
					}
					want := 720.0 / 240 // windows that the requests fill
					if legacy {
						want *= 2
					}
					if got := took.Minutes(); got > want+0.5 {
						t.Errorf("took %v, want about %v min", took, want)
					}
					if s.n429 > 0 {
						t.Errorf("%d × 429", s.n429)
					}
				})
			})
		}
	}
}

// TestReserveChanges ends and begins while requests wait.
func TestReserveChanges(t *testing.T) {
	s := newServer(6)
	bubble(t, s, Config{Profile: named(t, "full")}, func(t *testing.T, l *Limiter) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := pool(l, s, Read, 3000, 8); err != nil {
				t.Error(err)
			}
		})
		sent := func(d time.Duration) int {
			before := s.arrived() // readings are own requests too
			time.Sleep(d)
			return s.arrived() - before
		}
		time.Sleep(2 * time.Minute)
		if n := sent(time.Minute); n < 500 {
			t.Errorf("%d a minute without a reserve", n)
		}
		if err := l.SetReserve(0.8); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if n := sent(time.Minute); n > 121 || n < 105 {
			t.Errorf("%d a minute with a reserve of 80 %%", n)
		}
		if err := l.SetReserve(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := sent(time.Minute); n < 500 {
			t.Errorf("%d a minute after the reserve", n)
		}
		wg.Wait()
	})
}

// TestMax bounds all lanes and readings together.
func TestMax(t *testing.T) {
	for _, c := range []struct {
		profile string
		n       int
		per     time.Duration
		for_    time.Duration
	}{
		{"full", 300, time.Minute, 10 * time.Minute},
		{"medium", 300, time.Minute, 10 * time.Minute},
		{"adaptive", 2, time.Second, 5 * time.Minute},
		{"adaptive", 600, time.Hour, 3 * time.Hour},
		{"adaptive", 12, time.Minute, 20 * time.Minute},
	} {
		t.Run(c.profile+" "+c.per.String(), func(t *testing.T) {
			t.Parallel()
			s := newServer(7)
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, s, Config{Profile: named(t, c.profile)})
				if err := l.SetMax(c.n, c.per); err != nil {
					t.Fatal(err)
				}
				if err := l.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				ends := time.Now().Add(c.for_)
				var mu sync.Mutex
				var sends []time.Time
				var wg sync.WaitGroup
				for i := range 8 {
					lane := []string{Read, "device-udf-set"}[i%2]
					wg.Go(func() {
						for time.Now().Before(ends) {
							p, err := l.Wait(t.Context(), lane)
							if err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							sends = append(sends, time.Now())
							mu.Unlock()
							p.Done(s.call(lane))
						}
					})
				}
				wg.Wait()
				if n := peak(sends, c.per); n > c.n {
					t.Errorf("%d requests in %v, at most %d are allowed", n, c.per, c.n)
				}
				// Readings count, and are a part of what is sent.
				slices.SortFunc(s.arrivals, time.Time.Compare)
				if n := peak(s.arrivals, c.per); n > c.n+2 { // they arrive unevenly
					t.Errorf("%d requests and readings in %v, at most %d are allowed", n, c.per, c.n)
				}
				all := float64(len(s.arrivals))
				if want := float64(c.n) * float64(c.for_) / float64(c.per); all < 0.93*want {
					t.Errorf("%v of %v possible requests were sent", all, want)
				}
				if s.n429 > 0 {
					t.Errorf("%d × 429", s.n429)
				}
			})
		})
	}
}

// TestMaxUnsent: what was let through and never sent is no part of the maximum.
func TestMaxUnsent(t *testing.T) {
	e := testEngine(t, "adaptive")
	if err := e.SetMax(at(1), 2, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		end  func(now time.Time, t *Ticket)
		want int
	}{
		{e.Cancel, 0},
		{func(now time.Time, t *Ticket) { e.Done(now, t, Result{}) }, 0},
		{func(now time.Time, t *Ticket) { e.Done(now, t, Result{Status: 200, JSON: true}) }, 1},
		{func(now time.Time, t *Ticket) { e.Done(now.Add(2*time.Minute), t, Result{}) }, 0},
	} {
		ticket := e.send(at(2), "device-udf-set", 1)[0]
		c.end(at(3), ticket)
		if n := e.control.sent.at(at(3)); n != c.want {
			t.Errorf("%d requests count, want %d", n, c.want)
		}
	}
}

// TestTimeLeft compares the time left at several moments after the first twentieth with the
// time that was.
func TestTimeLeft(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile string
		lane    string
		n       int
		workers int
		latency float64
		control func(l *Limiter) error
	}{
		{"reads", "adaptive", Read, 6000, 8, 0.25, nil},
		{"reads", "full", Read, 6000, 32, 0.25, nil},
		{"reads", "medium", Read, 3000, 8, 0.25, nil},
		{"reads", "cautious", Read, 3000, 8, 0.25, nil},
		{"writes", "adaptive", "device-udf-set", 6000, 8, 0.25, nil},
		{"writes", "medium", "device-udf-set", 3000, 8, 0.25, nil},
		{"narrow writes", "adaptive", "device-warranty-create", 1000, 8, 0.25, nil},
		{"narrow writes", "medium", "device-warranty-create", 1000, 8, 0.25, nil},
		{"few workers", "adaptive", Read, 2000, 1, 0.5, nil},
		{"reserve", "adaptive", Read, 3000, 8, 0.25, func(l *Limiter) error { return l.SetReserve(0.5) }},
		{"max", "adaptive", Read, 3000, 8, 0.25, func(l *Limiter) error { return l.SetMax(150, time.Minute) }},
	} {
		t.Run(c.name+" "+c.profile, func(t *testing.T) {
			s := newServer(8)
			s.latency = c.latency
			bubble(t, s, Config{Profile: named(t, c.profile)}, func(t *testing.T, l *Limiter) {
				if c.control != nil {
					if err := c.control(l); err != nil {
						t.Fatal(err)
					}
				}
				type guess struct {
					at   time.Time
					left time.Duration
					done int
				}
				var guesses []guess
				l.Expect(c.lane, c.n)
				ended := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					defer close(ended)
					if _, err := pool(l, s, c.lane, c.n, c.workers); err != nil {
						t.Error(err)
					}
				})
				for running := true; running; {
					select {
					case <-ended:
						running = false
					case <-time.After(5 * time.Second):
						if done := s.calls(); done >= c.n/20 && done < c.n*95/100 {
							left, known := l.TimeLeft()
							if !known {
								t.Fatalf("unknown after %d requests", done)
							}
							guesses = append(guesses, guess{time.Now(), left, done})
						}
					}
				}
				end, worst := time.Now(), 0.0
				for _, g := range guesses {
					was := end.Sub(g.at)
					err := g.left.Seconds()/was.Seconds() - 1
					if math.Abs(err) > math.Abs(worst) {
						worst = err
					}
					if math.Abs(err) > 0.15 && math.Abs((g.left-was).Seconds()) > 5 {
						t.Errorf("after %d of %d: %v left, it took %v (%+.0f %%)", g.done, c.n, g.left, was, 100*err)
					}
				}
				t.Logf("%d looks, the worst error %+.1f %%", len(guesses), 100*worst)
			})
		})
	}
}

// A request that waits for its turn in the pace goes at once when it turns out to be the last.
func TestExpectWakesWhoWaits(t *testing.T) {
	bubble(t, newServer(45), Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		for range firstBatch { // what goes without pace
			if _, err := l.Wait(t.Context(), Read); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		var waited atomic.Int64
		waited.Store(-1)
		go func() {
			if _, err := l.Wait(t.Context(), Read); err == nil {
				waited.Store(int64(time.Since(begin)))
			}
		}()
		synctest.Wait()
		if waited.Load() >= 0 {
			t.Fatal("the request beyond the batch was not paced")
		}
		l.Expect(Read, 1)
		synctest.Wait()
		if waited.Load() != 0 {
			t.Errorf("it went after %v, want at once", time.Duration(waited.Load()))
		}
	})
}

// arrived, readings and calls are how much of each the server has seen, while requests go on.
func (s *server) arrived() int  { s.mu.Lock(); defer s.mu.Unlock(); return len(s.arrivals) }
func (s *server) readings() int { s.mu.Lock(); defer s.mu.Unlock(); return s.probes }
func (s *server) calls() int    { s.mu.Lock(); defer s.mu.Unlock(); return len(s.sent) }
