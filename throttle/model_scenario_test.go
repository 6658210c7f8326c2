package throttle

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// outside lets others use a lane at a rate until the returned function is called, which
// waits for their end.
func outside(ctx context.Context, s *server, lane string, perSecond int, on func(since time.Duration) bool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() {
		for sleep(ctx, time.Second/time.Duration(perSecond)) == nil {
			if on(time.Since(start)) {
				s.others(lane, 1)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// Six hours at the edge, with others that come and go and answers that slow down.
func TestModelSixHoursWithOthers(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("six virtual hours take some seconds, and many with the race detector")
	}
	s := newServer(21)
	s.held = true
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		stop := outside(t.Context(), s, Read, 4, func(since time.Duration) bool {
			return since%(40*time.Minute) > 20*time.Minute // 40 % for twenty minutes, then none
		})
		const n = 134_000 // what there is room for: 510 a minute without others, 270 with them
		took, err := pool(l, s, Read, n, 8)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d reads in %v, %d × 429, at most %d of 600, one calibration per %.0f requests", n, took, s.n429, s.peak["reads"], float64(n)/float64(s.probes))
		if took > 6*time.Hour {
			t.Errorf("took %v, want at most 6 h", took)
		}
		if s.own429 > 1 || s.n403 > 0 {
			t.Errorf("%d × 429 of ours, %d × 403", s.own429, s.n403)
		}
		if share := float64(s.probes) / n; share > 0.03 {
			t.Errorf("%.1f %% of the requests are calibrations", 100*share)
		}
	})
}

// Another program floods the account for five minutes: the model tries now and then, and is
// back within a minute of its end.
func TestModelFlood(t *testing.T) {
	s := newServer(22)
	s.blockOn, s.held = 0, true
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		begin := time.Now()
		stop := outside(t.Context(), s, Read, 15, func(since time.Duration) bool {
			return since > 2*time.Minute && since < 7*time.Minute
		})
		_, err := pool(l, s, Read, 3000, 8)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, p := range l.Status().Timeline {
			refused += p.Limited
		}
		if refused > 15 {
			t.Errorf("%d requests refused, want at most 15", refused)
		}
		end := begin.Add(7 * time.Minute)
		for _, at := range s.sent {
			if at.After(end) {
				if back := at.Sub(end); back > time.Minute {
					t.Errorf("back after %v", back)
				}
				return
			}
		}
		t.Error("nothing was sent after the flood")
	})
}

// A block of the address: silence, one probe, and on.
func TestModelBlock(t *testing.T) {
	s := newServer(23)
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		var from time.Time
		time.AfterFunc(2*time.Minute, func() {
			s.mu.Lock()
			from = time.Now()
			s.blocked = from.Add(5 * time.Minute)
			s.mu.Unlock()
		})
		took, err := pool(l, s, Read, 3000, 8)
		if err != nil {
			t.Fatal(err)
		}
		if s.n403 > 8 || s.n429 > 0 {
			t.Errorf("%d requests while blocked, %d × 429", s.n403, s.n429)
		}
		if want := 670 * time.Second; took > want {
			t.Errorf("3,000 reads with a block of 5 min took %v, want at most %v", took, want)
		}
		if st := l.Status(); st.Blocks != 1 || st.Blocked != "" {
			t.Errorf("%d blocks, now %q", st.Blocks, st.Blocked)
		}
	})
}

// A legacy account that reports write fields is found by its counters, within 20 writes.
func TestModelFindsLegacy(t *testing.T) {
	s := newServer(24)
	s.legacy = true
	found := -1
	cfg := Config{Profile: named(t, "adaptive"), Event: func(ev Event) {
		if ev.Kind == EventLegacy {
			s.mu.Lock()
			found = len(s.sent)
			s.mu.Unlock()
		}
	}}
	bubble(t, s, cfg, func(t *testing.T, l *Limiter) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := pool(l, s, "device-udf-set", 1500, 4); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if _, err := pool(l, s, Read, 500, 4); err != nil {
			t.Error(err)
		}
		if found < 0 || found > 20 {
			t.Errorf("found after %d writes, want at most 20", found)
		}
		if s.n429 > 0 || s.peak["reads"] >= 540 {
			t.Errorf("%d × 429, %d of 600", s.n429, s.peak["reads"])
		}
	})
}

// The clock jumps nine hours in the middle: no burst, the account is read first.
func TestModelAfterASleep(t *testing.T) {
	for name, jump := range map[string]time.Duration{"ahead": 9 * time.Hour, "back": -9 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newServer(25)
			bubble(t, s, Config{Profile: named(t, "quick")}, func(t *testing.T, l *Limiter) {
				var offset atomic.Int64
				l.clock = func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }
				if _, err := pool(l, s, Read, 450, 8); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				s.others(Read, 90)
				s.mu.Lock()
				probes, sent := s.probes, len(s.sent)
				s.mu.Unlock()
				offset.Store(int64(jump))
				if took, err := pool(l, s, Read, 600, 32); err != nil || took > 5*time.Minute {
					t.Fatalf("%v after %v", err, took)
				}
				if s.probes == probes || s.n429 > 0 {
					t.Errorf("%d readings after the jump, %d × 429", s.probes-probes, s.n429)
				}
				if got := peak(s.arrivals[sent:], time.Minute); got > 540 {
					t.Errorf("%d within a minute after the jump", got)
				}
			})
		})
	}
}

// Counts that are three seconds old: that is noticed and reckoned with.
func TestModelOnOldCounts(t *testing.T) {
	s := newServer(26)
	s.held, s.stale = true, 3*time.Second
	bubble(t, s, Config{Profile: named(t, "full")}, func(t *testing.T, l *Limiter) {
		stop := outside(t.Context(), s, Read, 5, func(since time.Duration) bool { return since > 5*time.Minute })
		_, err := pool(l, s, Read, 4000, 8)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		age := l.core.age
		l.mu.Unlock()
		if age < 2500*time.Millisecond || age > 3500*time.Millisecond {
			t.Errorf("counts taken for %v old, want 3 s", age)
		}
		if s.own429 > 0 {
			t.Errorf("%d × 429", s.own429)
		}
	})
}

// Two limiters on one account end at equal shares without a 429.
func TestModelTwoSessions(t *testing.T) {
	s := newServer(27)
	s.held, s.inProbe = true, -1 // both may read at the same time
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
		defer cancel()
		var done [2]int
		var wg sync.WaitGroup
		for i := range done {
			l := newLimiter(t, s, Config{Profile: named(t, "adaptive")})
			var mu sync.Mutex
			for range 8 {
				wg.Go(func() {
					for {
						p, err := l.Wait(ctx, Read)
						if err != nil {
							return
						}
						p.Done(s.call(Read))
						mu.Lock()
						done[i]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if ratio := float64(done[0]) / float64(done[1]); ratio < 0.85 || ratio > 1.18 {
			t.Errorf("shares %v", done)
		}
		if s.n429 > 0 || done[0]+done[1] < 15*60*7 {
			t.Errorf("%d × 429, %d in all", s.n429, done[0]+done[1])
		}
	})
}

// Waiting at the ceiling obeys the context, and who leaves does not hold up the others.
func TestModelObeysItsContext(t *testing.T) {
	s := newServer(28)
	bubble(t, s, Config{Profile: named(t, "adaptive")}, func(t *testing.T, l *Limiter) {
		s.others(Read, 560)
		time.Sleep(31 * time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var gone atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := l.Wait(ctx, Read); errors.Is(err, context.DeadlineExceeded) {
					gone.Add(1)
				}
			})
		}
		wg.Wait()
		if gone.Load() != 20 || time.Since(start) > 3*time.Second+time.Millisecond {
			t.Errorf("%d of 20 gave up, after %v", gone.Load(), time.Since(start))
		}
		if _, err := pool(l, s, Read, 10, 2); err != nil || time.Since(start) > 2*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestModelMemoryIsFlat(t *testing.T) {
	e, _ := modelOf(t, "adaptive")
	flatOverADay(t, e, func(s int, now time.Time) {
		e.answer(now, ok200, e.send(now, Read, 2)...)
		e.answer(now, ok200, e.send(now, "device-udf-set", 2)...)
		if s%7 == 0 {
			e.readNow(now, modern(e.read.mine(now)+s%300))
			e.Events()
		}
	})
}

// One decision of the model with 10,000 requests in the window.
func BenchmarkModelDecision(b *testing.B) {
	for _, peers := range []int{0, 3} {
		b.Run(strconv.Itoa(peers)+" peers", func(b *testing.B) { benchDecision(b, peers) })
	}
}

func benchDecision(b *testing.B, peers int) {
	e, _ := modelOf(b, "adaptive")
	r := modern(0)
	r.Limit, r.WriteLimit = 15_000, 15_000
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"} {
		r.Ops[name] = OpReading{Limit: 15_000}
	}
	e.readNow(at(0), r)
	for i := range 10_000 {
		now := at(float64(i) * 0.006)
		e.answer(now, ok200, e.send(now, Read, 1)...)
	}
	now := at(60)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(6 * time.Millisecond)
		for i := range peers {
			e.Hear(now, []PeerSend{{"peer-" + strconv.Itoa(i), Read, now, 1}})
		}
		e.Enqueue(now, Read)
		out := e.Step(now)
		if out.Probe {
			r.Count = e.mine(e.read.bucket, now) + 1000
			e.endReading(now, r, nil, false)
			out.Granted = append(out.Granted, e.Step(now).Granted...)
		}
		for _, t := range out.Granted {
			e.Done(now, t, ok200)
		}
	}
}
