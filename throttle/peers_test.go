package throttle

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// board is what the processes of a machine tell each other; each sees it some time later.
type board struct {
	mu    sync.Mutex
	sends []PeerSend
	seen  map[string]int
}

const boardLag = 200 * time.Millisecond

// seat is the Share of one process.
type seat struct {
	*board
	name string
}

func (s seat) Sent(lane string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends = append(s.sends, PeerSend{s.name, lane, at, 1})
}

func (s seat) Poll(now time.Time) (out []PeerSend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.seen[s.name]
	for ; i < len(s.sends) && now.Sub(s.sends[i].At) >= boardLag; i++ {
		if s.sends[i].Process != s.name {
			out = append(out, s.sends[i])
		}
	}
	s.seen[s.name] = i
	return out
}

// shared lets processes work on one account until their contexts end.
type shared struct {
	t     *testing.T
	s     *server
	board *board
	wg    sync.WaitGroup
	mu    sync.Mutex
	done  map[string][]time.Time
}

func newShared(t *testing.T, seed uint64) *shared {
	s := newServer(seed)
	s.held, s.inProbe = true, -100 // several may read at the same time
	return &shared{t: t, s: s, board: &board{seen: map[string]int{}}, done: map[string][]time.Time{}}
}

func (h *shared) process(ctx context.Context, name string, cfg Config, workers int) *Limiter {
	cfg.Share = seat{h.board, name}
	l := newLimiter(h.t, h.s, cfg)
	for range workers {
		h.wg.Go(func() {
			for {
				p, err := l.Wait(ctx, Read)
				if err != nil {
					return
				}
				p.Done(h.s.call(Read))
				h.mu.Lock()
				h.done[name] = append(h.done[name], time.Now())
				h.mu.Unlock()
			}
		})
	}
	return l
}

// between returns how many requests a process has done in a stretch of time.
func (h *shared) between(name string, from, to time.Time) (n int) {
	for _, at := range h.done[name] {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// Three processes and an outside client: no 429, nearly all that is free is used, and the
// shares are even.
func TestCase_R10_ProcessesShareTheBudget(t *testing.T) {
	for _, profile := range []string{"adaptive", "full", "quick", "medium"} {
		t.Run(profile, func(t *testing.T) {
			if raced && profile != "quick" {
				t.Skip("takes many seconds with the race detector")
			}
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newShared(t, 31)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				begin := time.Now()
				for _, name := range []string{"a", "b", "c"} {
					h.process(ctx, name, Config{Profile: named(t, profile)}, 8)
				}
				stop := outside(ctx, h.s, Read, 2, func(time.Duration) bool { return true }) // a fifth of the limit
				h.wg.Wait()
				stop()
				counts, total, least, most := map[string]int{}, 0, 1<<30, 0
				for _, name := range []string{"a", "b", "c"} {
					n := h.between(name, begin.Add(2*time.Minute), begin.Add(20*time.Minute))
					counts[name], total, least, most = n, total+n, min(least, n), max(most, n)
				}
				util := named(t, profile).Util
				use := float64(total) / 18 / (util*600 - 120)
				t.Logf("%v, %.0f a minute, %d × 429, at most %d of 600", counts, float64(total)/18, h.s.n429, h.s.peak["reads"])
				if h.s.n429 > 0 || float64(most) > 1.5*float64(least) {
					t.Errorf("%d × 429, shares %v", h.s.n429, counts)
				}
				if util > 0 && use < 0.85 {
					t.Errorf("%.2f of what is free is used", use)
				}
			})
		})
	}
}

// A process that dies leaves its share to the others; one that joins a full window late gets
// its own. Nobody meets a 429.
func TestProcessesThatDieAndJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newShared(t, 32)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		short, kill := context.WithTimeout(ctx, 6*time.Minute)
		defer kill()
		cfg := Config{Profile: named(t, "adaptive")}
		h.process(ctx, "a", cfg, 8)
		h.process(short, "killed", cfg, 8)
		time.Sleep(12 * time.Minute)
		h.process(ctx, "late", cfg, 8)
		h.wg.Wait()
		count := func(name string, from, to int) int {
			return h.between(name, begin.Add(time.Duration(from)*time.Minute), begin.Add(time.Duration(to)*time.Minute)) / (to - from)
		}
		together, alone, after := count("a", 2, 6), count("a", 7, 12), count("a", 14, 20)
		late := count("late", 14, 20)
		t.Logf("a minute: %d of two, %d alone, then %d and %d; at most %d of 600", together, alone, after, late, h.s.peak["reads"])
		if h.s.n429 > 0 {
			t.Errorf("%d × 429", h.s.n429)
		}
		if together > 300 || together < 200 || alone < 460 || 2*after > 3*late || 2*late > 3*after {
			t.Error("the shares are not even, or not given back")
		}
		if first := h.done["late"][0]; first.Sub(begin) > 12*time.Minute+20*time.Second {
			t.Errorf("the late one began after %v", first.Sub(begin))
		}
	})
}

// What a peer leaves of its share is used by the others.
func TestPeerThatNeedsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newShared(t, 33)
		h.s.latency = 0.25
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
		defer cancel()
		begin := time.Now()
		h.process(ctx, "busy", Config{Profile: named(t, "adaptive")}, 8)
		slow := newLimiter(t, h.s, Config{Profile: named(t, "adaptive"), Share: seat{h.board, "slow"}})
		h.wg.Go(func() {
			for sleep(ctx, time.Second) == nil {
				p, err := slow.Wait(ctx, Read)
				if err != nil {
					return
				}
				p.Done(h.s.call(Read))
			}
		})
		h.wg.Wait()
		if n := h.between("busy", begin.Add(2*time.Minute), begin.Add(12*time.Minute)) / 10; n < 400 || h.s.n429 > 0 {
			t.Errorf("%d a minute beside a peer that sends 50, %d × 429", n, h.s.n429)
		}
	})
}

// What is heard before the first reading is counted where it belongs, and leaves the window.
func TestHear(t *testing.T) {
	e, _ := modelOf(t, "adaptive")
	e.Hear(at(0), []PeerSend{
		{"b", Read, at(-30), 40}, {"b", "device-udf-set", at(-20), 10}, {"b", Read, at(-90), 500}, {"b", "unknown-op", at(-1), 3}, {"b", Read, at(50), 7},
	})
	e.readNow(at(1), modern(47))
	udf := e.byName["device-udf-set"]
	if r, w, op := e.ours(e.read.bucket, at(1)), e.ours(e.write.bucket, at(1)), e.ours(udf, at(1)); r != 48 || w != 13 || op != 10 {
		t.Errorf("reads %d, writes %d, of the operation %d; want 48, 13, 10", r, w, op)
	}
	if !e.read.alone || e.read.crowd.count != 0 {
		t.Errorf("peers are taken for strangers: %v of them", e.read.crowd.count)
	}
	if n, _ := e.company(e.read.bucket, at(2)); n != 1 {
		t.Errorf("%d peers, want 1", n)
	}
	if n := e.ours(e.read.bucket, at(75)); n != 0 {
		t.Errorf("%d are left after a window", n)
	}
	if n, _ := e.company(e.read.bucket, at(75)); n != 0 {
		t.Error("a dead peer is company")
	}
	for i := range 1000 {
		e.Hear(at(80), []PeerSend{{fmt.Sprint(i), Read, at(80), 1}})
	}
	if n := len(e.read.peers.last); n > maxPeers {
		t.Errorf("%d processes are kept", n)
	}
}

// A virtual day with peers that come and go leaves nothing behind.
func TestPeersMemoryIsFlat(t *testing.T) {
	e, _ := modelOf(t, "adaptive")
	flatOverADay(t, e, func(s int, now time.Time) {
		e.answer(now, ok200, e.send(now, Read, 2)...)
		e.Hear(now, []PeerSend{{fmt.Sprint("p", s/100), Read, now, 3}, {"q", "device-udf-set", now, 1}})
		if s%7 == 0 {
			e.readNow(now, modern(e.ours(e.read.bucket, now)))
			e.Events()
		}
	})
}
