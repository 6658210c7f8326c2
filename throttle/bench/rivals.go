package main

import (
	"math"
	"time"

	"rmmjob/internal/rmmsim"
)

// rival is a gate with a rate and no knowledge of the account: what programs do today.
// A worker that is refused rests by itself or slows all down, as the rival has it.
type rival struct {
	c      *client
	next   time.Time                      // when the next request may leave
	space  func() time.Duration           // between two requests; nil: none
	on429  func(streak int) time.Duration // rest of the worker that was refused
	onGood func()
	streak int
}

func (g *rival) ask(lane string) {
	w := g.c.w
	at := w.now
	if g.space != nil {
		if g.next.After(at) {
			at = g.next
		}
		g.next = at.Add(g.space())
	}
	w.at(at, func() { g.c.send(&passage{lane: lane}) })
}

func (g *rival) settle() {}

func (g *rival) answered(_ *passage, status int, _ time.Duration) (bool, time.Duration) {
	if status == 200 {
		g.streak = 0
		if g.onGood != nil {
			g.onGood()
		}
		return false, 0
	}
	g.streak++
	return true, g.on429(g.streak)
}

// noLimit sends as fast as it can and waits two minutes after a refusal.
func noLimit(c *client) gate {
	return &rival{c: c, on429: func(int) time.Duration { return 2 * time.Minute }}
}

// backoff waits a random time up to a limit that doubles from one second to one minute.
func backoff(c *client) gate {
	return &rival{c: c, on429: func(streak int) time.Duration {
		limit := math.Min(60, math.Pow(2, float64(streak-1)))
		return time.Duration(c.w.rng.Float64() * limit * float64(time.Second))
	}}
}

// tokenBucket lets ten requests a second through, whatever happens, and waits a second
// after a refusal.
func tokenBucket(c *client) gate {
	return &rival{
		c:     c,
		space: func() time.Duration { return 100 * time.Millisecond },
		on429: func(int) time.Duration { return time.Second },
	}
}

// aimd adds half a request a second to its rate in every good second and halves it after a
// refusal, at most once a second.
func aimd(c *client) gate {
	rate, changed := 5.0, c.w.start
	return &rival{
		c:     c,
		space: func() time.Duration { return time.Duration(float64(time.Second) / rate) },
		on429: func(int) time.Duration {
			if c.w.now.Sub(changed) > time.Second {
				rate, changed = math.Max(0.2, rate/2), c.w.now
			}
			return time.Second
		},
		onGood: func() {
			if c.w.now.Sub(changed) > time.Second {
				rate, changed = rate+0.5, c.w.now
			}
		},
	}
}

// cubic is the manner of the adaptive retry mode of the AWS clients: no limit before the
// first refusal, then a rate that falls to 0.7 of the measured one, comes back quickly
// near to where it was refused, lingers there and goes on.
func cubic(c *client) gate {
	var (
		rate, top float64 // requests a second; no limit while rate is 0
		since     = c.w.start
		measured  float64
		count     int
		counted   = c.w.start
	)
	measure := func() {
		count++
		if d := c.w.now.Sub(counted).Seconds(); d >= 0.5 {
			measured = 0.8*float64(count)/d + 0.2*measured
			count, counted = 0, c.w.now
		}
	}
	grow := func() {
		if rate == 0 {
			return
		}
		t := c.w.now.Sub(since).Seconds()
		rate = math.Max(0.5, math.Min(0.4*math.Pow(t-math.Cbrt(top*0.3/0.4), 3)+top, 2*measured))
	}
	return &rival{
		c: c,
		space: func() time.Duration {
			if rate == 0 {
				return 0
			}
			return time.Duration(float64(time.Second) / rate)
		},
		on429: func(streak int) time.Duration {
			measure()
			if rate == 0 {
				top = measured
			} else {
				top = math.Min(measured, rate)
			}
			rate, since = math.Max(0.5, 0.7*top), c.w.now
			limit := math.Min(20, math.Pow(2, float64(streak-1)))
			return time.Duration(c.w.rng.Float64() * limit * float64(time.Second))
		},
		onGood: func() { measure(); grow() },
	}
}

// oracle knows the windows of the server, what all others will send, and the moment at
// which each of its own requests arrived. It stays just under the share at which the server
// slows down, and leaves others the room that they are going to take.
type oracle struct {
	c       *client
	queue   map[string]int
	flying  map[string]int
	arrived map[string][]time.Time // by bucket
	waking  bool
}

func newOracle(c *client) gate {
	return &oracle{c: c, queue: map[string]int{}, flying: map[string]int{}, arrived: map[string][]time.Time{}}
}

func (g *oracle) ask(lane string) {
	g.queue[lane]++
	g.pump()
}

// pump sends what there is room for, and looks again a little later if something is left.
func (g *oracle) pump() {
	w := g.c.w
	stuck := false
	for _, lane := range g.c.lanes {
		for g.queue[lane] > 0 {
			if w.quota.IsBlocked(w.now, g.c.addr) || !g.room(lane) {
				stuck = true
				break
			}
			g.queue[lane]--
			g.send(lane)
		}
	}
	if stuck && !g.waking {
		g.waking = true
		w.after(20*time.Millisecond, func() { g.waking = false; g.pump() })
	}
}

// room tells whether one more request keeps every bucket of the lane below the cut-off for
// as long as it counts.
func (g *oracle) room(lane string) bool {
	w := g.c.w
	for _, b := range w.buckets(lane) {
		log := g.arrived[b]
		for len(log) > 0 && w.now.Sub(log[0]) >= rmmsim.Span {
			log = log[1:]
		}
		g.arrived[b] = log
		limit := rmmsim.CutOff * float64(w.limits[b])
		own := len(log) + g.flying[b]
		if float64(own+1) >= limit {
			return false
		}
		if w.strange == nil || w.buckets(w.strange.lane)[0] != w.buckets(lane)[0] {
			continue
		}
		i := 0
		for t := w.now; t.Before(w.now.Add(rmmsim.Span)); t = t.Add(3 * time.Second) {
			for i < len(log) && t.Sub(log[i]) >= rmmsim.Span {
				i++
			}
			if float64(own-i+1)+w.strange.within(t) >= limit {
				return false
			}
		}
	}
	return true
}

func (g *oracle) send(lane string) {
	w := g.c.w
	for _, b := range w.buckets(lane) {
		g.flying[b]++
	}
	g.c.waiting[lane]--
	there := w.responseTime()
	w.after(there/2, func() {
		for _, b := range w.buckets(lane) {
			g.flying[b]--
			g.arrived[b] = append(g.arrived[b], w.now)
		}
		status := statusOf(w.take(g.c.addr, lane))
		w.after(there-there/2, func() { g.c.answer(&passage{lane: lane}, status, there) })
	})
}

func (g *oracle) settle() {}

func (g *oracle) answered(_ *passage, status int, _ time.Duration) (bool, time.Duration) {
	return status != 200, 0
}
