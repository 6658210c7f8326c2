package throttle

import (
	"fmt"
	"time"
)

// control is what a person asks of a working Core beyond its profile: to leave a share of the
// limits to others, to send no more than so much, or nothing for a while.
type control struct {
	reserve   float64 // share of every limit that own requests leave alone
	most      int     // own requests within sent.length; 0 is no bound
	sent      window  // own requests by the moment of sending, while most is set
	last      time.Time
	onHold    bool
	heldSince time.Time
	holds     int // that have ended
}

// MaxReserve is the largest share that can be reserved for others.
const MaxReserve = 0.95

// The bounds of a maximum: how many requests, and in what time.
const (
	maxMost    = 1_000_000
	minMostPer = time.Second
	maxMostPer = 24 * time.Hour
)

// SetReserve leaves a share of every limit, from 0 to [MaxReserve], to others, whether they
// use it or not: own requests in the window of a bucket stay at the rest of its limit. What
// the profile allows besides stays as it is. 0 ends it.
func (e *Core) SetReserve(wall time.Time, share float64) error {
	if !(share >= 0 && share <= MaxReserve) {
		return fmt.Errorf("throttle: reserve must be from 0 %% to %.0f %%", 100*MaxReserve)
	}
	e.tick(wall)
	e.control.reserve = share
	return nil
}

// SetMax bounds own requests of all lanes together, readings included, to n in any stretch
// of time of length per; n = 0 ends it. What was sent before the call does not count. A
// reading that must come before anything may be sent is made beyond the bound, but counts.
func (e *Core) SetMax(wall time.Time, n int, per time.Duration) error {
	now := e.tick(wall)
	c := &e.control
	switch {
	case n == 0:
		c.most, c.sent = 0, window{}
		return nil
	case n < 1 || n > maxMost || per < minMostPer || per > maxMostPer:
		return fmt.Errorf("throttle: max must be from 1 to %d requests in 1 s to 24 h", maxMost)
	}
	c.sent.resize(now, per)
	c.most = n
	return nil
}

// Hold stops or goes on: while on hold nothing is sent, not even a reading. It is not a pause
// of the budget, and not time that the limits have held requests.
func (e *Core) Hold(wall time.Time, on bool) {
	now := e.tick(wall)
	c := &e.control
	switch {
	case on && !c.onHold:
		c.heldSince = now
	case !on && c.onHold:
		c.holds++
		if e.started && now.Sub(c.heldSince) > gapLimit {
			e.distrust("nothing was sent for " + now.Sub(c.heldSince).Round(time.Second).String())
		}
	}
	c.onHold = on
}

// Stood returns what has stopped the requests so far: for how long waiting ones could not be
// sent at any pace, because of a pause, a block or a machine that slept, and how many times
// [Core.Hold] has ended, whose time does not count.
func (e *Core) Stood(wall time.Time) (closed time.Duration, holds int) {
	e.tick(wall)
	return e.spent + e.slept, e.control.holds
}

// note counts a request that is being sent.
func (c *control) note(now time.Time) {
	if c.most > 0 {
		c.sent.add(now, 1)
	}
	c.last = now
}

// unsent takes a request back that never left.
func (c *control) unsent(now, at time.Time) {
	if c.most > 0 {
		c.sent.remove(now, at)
	}
}

// next returns when the maximum allows another request of whatever lane.
func (c *control) next(now time.Time) (at time.Time, space time.Duration) {
	if c.most == 0 {
		return now, 0
	}
	ahead := c.sent.length / 3
	r := evenly(float64(c.sent.at(now)), float64(c.sent.leaving(now, ahead)), float64(c.most), c.sent.length, ahead)
	if r.full {
		return now.Add(c.sent.length / slots), 0
	}
	if at = c.last.Add(r.space); at.Before(now) {
		at = now
	}
	return at, r.space
}

// reserved returns what the reserve leaves for own requests to a bucket, with those of peers:
// it is for strangers.
func (e *Core) reserved(b *bucket, now time.Time) room {
	if e.control.reserve == 0 {
		return room{}
	}
	ahead := e.window / 3
	r := evenly(float64(e.ours(b, now)), float64(e.leaving(b, now, ahead)), e.share(b), e.window, ahead)
	if r.full {
		return room{until: now.Add(e.window / slots)}
	}
	return r
}

// share returns how many own requests the reserve leaves room for in a bucket.
func (e *Core) share(b *bucket) float64 {
	return max(1, (1-e.control.reserve)*float64(b.limit))
}

// evenly spaces requests so that a window which holds n of at most top of them, of which some
// are leaving soon, is full that time from now and not before.
func evenly(n, leaving, top float64, window, ahead time.Duration) room {
	if n+1 > top {
		return room{full: true}
	}
	even := top / window.Seconds()
	pace := min(max((top-n+leaving)/ahead.Seconds(), 0.1*even), 3*even)
	return room{space: time.Duration(float64(time.Second) / pace)}
}

// bounded returns what the reserve makes of what a pacing says of its rate.
func (e *Core) bounded(b *bucket, rate, fill float64) (perSecond, filled float64) {
	if e.control.reserve == 0 {
		return rate, fill
	}
	top := e.share(b)
	return min(rate, top/e.window.Seconds()), min(fill, top)
}

// timeLeft returns how long the maximum makes n requests of all lanes take.
func (c *control) timeLeft(now time.Time, n int) time.Duration {
	if c.most == 0 || n == 0 {
		return 0
	}
	per, most := c.sent.length, float64(c.most)
	return need(float64(n), most/per.Seconds(), most, float64(c.sent.at(now)), fastest, per, func(t time.Duration) int {
		return c.sent.leaving(now, t)
	})
}

// SetReserve is [Core.SetReserve] of a working Limiter; waiting requests feel it at once.
func (l *Limiter) SetReserve(share float64) error {
	return l.change(func(now time.Time) error { return l.core.SetReserve(now, share) })
}

// SetMax is [Core.SetMax] of a working Limiter; waiting requests feel it at once.
func (l *Limiter) SetMax(n int, per time.Duration) error {
	return l.change(func(now time.Time) error { return l.core.SetMax(now, n, per) })
}

// Hold is [Core.Hold] of a working Limiter. Requests that have been let through already are
// not called back.
func (l *Limiter) Hold(on bool) {
	_ = l.change(func(now time.Time) error { l.core.Hold(now, on); return nil })
}

// Stood is [Core.Stood] of a working Limiter.
func (l *Limiter) Stood() (closed time.Duration, holds int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Stood(l.clock())
}

// Expect is [Core.Expect] of a working Limiter; waiting requests feel it at once.
func (l *Limiter) Expect(lane string, remaining int) {
	_ = l.change(func(time.Time) error { l.core.Expect(lane, remaining); return nil })
}

// TimeLeft is [Core.TimeLeft] of a working Limiter.
func (l *Limiter) TimeLeft() (left time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.TimeLeft(l.clock())
}

// change does something to the core and lets it decide anew.
func (l *Limiter) change(do func(now time.Time) error) error {
	l.mu.Lock()
	err := do(l.clock())
	if err == nil {
		l.advance()
	}
	l.mu.Unlock()
	l.deliver()
	return err
}
