package throttle

import (
	"math"
	"time"
)

// crowd is what is known of the requests of everybody else in one bucket. Readings tell
// only how many there are; when they came is inferred: what is new since the last reading
// is taken as having come evenly since then, and leaves the window in the same way.
type crowd struct {
	spans  []stretch
	at     time.Time // of the last reading; zero before the first
	count  float64   // then
	rate   float64   // of new ones, per second, smoothed
	recent float64   // of those between the last two readings
	news   float64   // how many those were
	before time.Time // when the reading before the last was
}

// stretch is n requests that came evenly from a moment to another.
type stretch struct {
	from, to time.Time
	n        float64
}

// maxSpans bounds the memory of a crowd; older spans become one.
const maxSpans = 40

// memory is how long the smoothed rate remembers, in seconds.
const memory = 4.0

// left returns how many of those seen are still in the window at t.
func (c *crowd) left(t time.Time, window time.Duration) float64 {
	edge, n := t.Add(-window), 0.0
	for i := range c.spans {
		s := &c.spans[i]
		switch {
		case !edge.Before(s.to):
		case edge.After(s.from):
			n += s.n * float64(s.to.Sub(edge)) / float64(s.to.Sub(s.from))
		default:
			n += s.n
		}
	}
	return n
}

// forecast returns the rate at which others are taken to go on.
func (c *crowd) forecast() float64 { return max(c.rate, c.recent) }

// expected returns how many are taken to be in the window now.
func (c *crowd) expected(now time.Time, window time.Duration) float64 {
	if c.at.IsZero() {
		return 0
	}
	return c.left(now, window) + c.forecast()*min(now.Sub(c.at), window).Seconds()
}

// observe takes in that x were in the window at a moment. A fresh one replaces all that was
// known.
func (c *crowd) observe(at time.Time, x float64, window time.Duration, fresh bool) {
	if fresh || c.at.IsZero() {
		*c = crowd{spans: c.spans[:0], rate: x / window.Seconds(), recent: x / window.Seconds()}
		c.add(at.Add(-window), at, x)
		c.at, c.before, c.count, c.news = at, at, x, x
		return
	}
	if !at.After(c.at) {
		at = c.at.Add(time.Millisecond)
	}
	left := c.left(at, window)
	dt := at.Sub(c.at).Seconds()
	c.before, c.news = c.at, max(0, x-left)
	c.recent = c.news / max(dt, 0.5)
	c.rate += (1 - math.Exp(-dt/memory)) * (c.recent - c.rate)
	if x < left {
		for i := range c.spans {
			c.spans[i].n *= x / left
		}
	} else {
		c.add(c.at, at, x-left)
	}
	c.at, c.count = at, x
	c.forget(at.Add(-window))
}

// raise takes in, without a reading, that at least x are in the window.
func (c *crowd) raise(now time.Time, x float64, window time.Duration) {
	if now.After(c.at) && x > c.left(now, window) {
		c.observe(now, x, window, false)
	}
}

func (c *crowd) add(from, to time.Time, n float64) {
	if n > 0 {
		c.spans = append(c.spans, stretch{from, to, n})
	}
}

// forget drops what has left the window.
func (c *crowd) forget(edge time.Time) {
	keep := c.spans[:0]
	for _, s := range c.spans {
		if s.to.After(edge) && s.n > 0 {
			keep = append(keep, s)
		}
	}
	if n := len(keep); n > maxSpans {
		// The two oldest become one, which leaves as late as the younger.
		keep[1].n += keep[0].n
		keep = keep[1:]
	}
	c.spans = keep
}
