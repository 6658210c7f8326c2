package main

import (
	"errors"
	"time"

	"rmmjob/throttle"
)

// engine is the gate of the product: the arithmetic of throttle.Limiter in virtual time.
type engine struct {
	c     *client
	core  *throttle.Core
	wake  time.Time
	dirty bool // an answer has come since the last Step
}

// profile returns the gate of a profile.
func profile(p throttle.Profile) func(*client) gate {
	return func(c *client) gate {
		core, err := throttle.NewCore(throttle.Config{Profile: p, MaxPause: 30 * 24 * time.Hour, Random: c.w.rng.Float64})
		if err != nil {
			panic(err) // a profile of the package that is not valid
		}
		for lane, n := range c.left {
			if n < endless {
				core.Expect(lane, n)
			}
		}
		return &engine{c: c, core: core}
	}
}

func (g *engine) ask(lane string) {
	g.core.Enqueue(g.c.w.now, lane)
	g.pump()
}

func (g *engine) answered(p *passage, status int, latency time.Duration) (bool, time.Duration) {
	v := g.core.Done(g.c.w.now, p.ticket, throttle.Result{Status: status, JSON: status != 403, Latency: latency})
	if n := g.c.left[p.lane]; v.Returned && n < endless {
		g.core.Expect(p.lane, n+g.c.waiting[p.lane]+1)
	}
	g.dirty = true
	return v.Returned, 0
}

func (g *engine) settle() {
	if g.dirty {
		g.pump()
	}
}

// pump lets the core decide and carries it out.
func (g *engine) pump() {
	w := g.c.w
	g.dirty = false
	m := g.core.Step(w.now)
	for _, t := range m.Granted {
		g.c.send(&passage{lane: t.Lane(), ticket: t})
	}
	if len(m.Refused) > 0 {
		g.c.failed = true
	}
	if m.Probe {
		g.probe()
	}
	for _, ev := range g.core.Events() {
		if ev.Kind == throttle.EventLegacy {
			g.c.legacyAt = g.c.writes
		}
	}
	if m.Wake.IsZero() || !g.wake.IsZero() && !g.wake.After(m.Wake) && g.wake.After(w.now) {
		return
	}
	g.wake = m.Wake
	w.at(m.Wake, func() {
		if g.wake.Equal(w.now) {
			g.wake = time.Time{}
			g.pump()
		}
	})
}

// probe makes a reading, which is a request like any other.
func (g *engine) probe() {
	w := g.c.w
	g.c.readings++
	there := w.responseTime()
	w.after(there/2, func() {
		d := w.take(g.c.addr, throttle.Read)
		r, status := w.reading(), statusOf(d)
		w.after(there-there/2+d.Delay, func() {
			g.c.count(status)
			var err error
			if status != 200 {
				err = &throttle.ProbeError{Result: throttle.Result{Status: status, JSON: status == 429}, Err: errors.New("refused")}
			}
			g.core.EndReading(w.now, r, err)
			g.pump()
		})
	})
}
