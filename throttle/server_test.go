package throttle

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// server is a small model of the account's limits, for use inside a synctest bubble.
type server struct {
	mu      sync.Mutex
	rng     *rand.Rand
	latency float64 // median in seconds
	legacy  bool    // one bucket for everything
	bare    bool    // a legacy account that reports no write fields
	limits  map[string]int
	logs    map[string][]time.Time // arrivals by bucket, those refused included
	blockOn int                    // refusals in a window that block the address; 0 = never
	blocked time.Time
	refused []time.Time

	held     bool          // answers come a second late from 90 % on
	stale    time.Duration // age of the counts of a reading
	probeErr error
	answer   func(lane string, now time.Time) (Result, bool) // overrides the limits

	arrivals []time.Time // everything, probes included
	sent     []time.Time // without probes
	probes   int
	n429     int
	own429   int // of calls
	n403     int
	peak     map[string]int
	inProbe  int
}

func newServer(seed uint64) *server {
	return &server{
		rng: rand.New(rand.NewPCG(seed, 1)), latency: 0.25, blockOn: 30,
		limits: map[string]int{"reads": 600, "writes": 600, "device-udf-set": 600, "device-warranty-create": 100},
		logs:   map[string][]time.Time{}, peak: map[string]int{},
	}
}

func within(log []time.Time, now time.Time, d time.Duration) []time.Time {
	for len(log) > 0 && now.Sub(log[0]) >= d {
		log = log[1:]
	}
	return log
}

func (s *server) count(name string, now time.Time) int {
	s.logs[name] = within(s.logs[name], now, time.Minute+s.stale)
	return len(within(s.logs[name], now, time.Minute))
}

func (s *server) buckets(lane string) []string {
	switch {
	case lane == Read || s.legacy:
		return []string{"reads"}
	case s.limits[lane] > 0:
		return []string{"writes", lane}
	}
	return []string{"writes"}
}

// arrive counts a request and answers it.
func (s *server) arrive(lane string) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.arrivals = append(s.arrivals, now)
	if s.answer != nil {
		if r, ok := s.answer(lane, now); ok {
			return r
		}
	}
	if now.Before(s.blocked) {
		s.n403++
		return Result{Status: 403}
	}
	over := false
	for _, name := range s.buckets(lane) {
		s.logs[name] = append(s.logs[name], now)
		n := s.count(name, now)
		s.peak[name] = max(s.peak[name], n)
		over = over || n > s.limits[name]
	}
	if !over {
		return Result{Status: 200, JSON: true}
	}
	s.n429++
	s.refused = append(within(s.refused, now, time.Minute), now)
	if s.blockOn > 0 && len(s.refused) >= s.blockOn {
		s.blocked = now.Add(5 * time.Minute)
	}
	return Result{Status: 429}
}

// late returns how long the answer to a request that has just arrived is held back.
func (s *server) late(lane string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.buckets(lane) {
		if s.held && 10*s.count(name, time.Now()) >= 9*s.limits[name] {
			return time.Second
		}
	}
	return 0
}

// reported is what a reading says of a bucket.
func (s *server) reported(name string, now time.Time) int {
	if s.stale == 0 {
		return s.count(name, now)
	}
	n := 0
	for _, t := range s.logs[name] {
		if age := now.Sub(t); age >= s.stale && age < s.stale+time.Minute {
			n++
		}
	}
	return n
}

func (s *server) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.latency * math.Exp(0.4*s.rng.NormFloat64()) * float64(time.Second))
}

// call sends one request; what counts is when it arrives, half-way.
func (s *server) call(lane string) Result {
	d := s.delay()
	time.Sleep(d / 2)
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	r := s.arrive(lane)
	if r.Status == 429 {
		s.mu.Lock()
		s.own429++
		s.mu.Unlock()
	}
	time.Sleep(d/2 + s.late(lane))
	return r
}

func (s *server) probe(ctx context.Context) (Reading, error) {
	s.mu.Lock()
	s.probes++
	s.inProbe++
	if s.inProbe > 1 {
		panic("two readings at once")
	}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.inProbe--; s.mu.Unlock() }()
	d := s.delay()
	if err := sleep(ctx, d/2); err != nil {
		return Reading{}, err
	}
	r := s.arrive(Read)
	s.mu.Lock()
	now := time.Now()
	out := Reading{
		Window: time.Minute, CutOff: 0.9, Limit: s.limits["reads"], Count: s.reported("reads", now),
		HasWrite: !s.bare, WriteLimit: s.limits["writes"], WriteCount: s.reported("writes", now), Ops: map[string]OpReading{},
	}
	for name, limit := range s.limits {
		if name != "reads" && name != "writes" && !s.bare {
			out.Ops[name] = OpReading{Limit: limit, Count: s.reported(name, now)}
		}
	}
	if s.bare {
		out.WriteLimit, out.WriteCount = 0, 0
	}
	failing := s.probeErr
	s.mu.Unlock()
	if err := sleep(ctx, d/2); err != nil {
		return Reading{}, err
	}
	if r.Status != 200 {
		return Reading{}, &ProbeError{Result: r, Err: errors.New("refused")}
	}
	return out, failing
}

// others lets other programs send n requests at this moment.
func (s *server) others(lane string, n int) {
	for range n {
		s.arrive(lane)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func named(t testing.TB, name string) Profile {
	t.Helper()
	p, ok := Lookup(name)
	if !ok {
		t.Fatalf("no profile %q", name)
	}
	return p
}

func newLimiter(t testing.TB, s *server, cfg Config) *Limiter {
	t.Helper()
	if cfg.Profile.Name == "" {
		cfg.Profile = named(t, "aggressive")
	}
	if cfg.Probe == nil {
		cfg.Probe = s.probe
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pool lets workers send n requests of a lane each its turn, and returns when all have
// been answered for good, with the time that took.
func pool(l *Limiter, s *server, lane string, n, workers int) (time.Duration, error) {
	start := time.Now()
	var (
		mu    sync.Mutex
		left  = n
		first error
		wg    sync.WaitGroup
	)
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || first != nil {
			return false
		}
		left--
		return true
	}
	for range workers {
		wg.Go(func() {
			for take() {
				p, err := l.Wait(context.Background(), lane)
				if err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
				if p.Done(s.call(lane)).Returned {
					mu.Lock()
					left++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), first
}
