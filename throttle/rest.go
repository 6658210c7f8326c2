package throttle

import (
	"math"
	"time"
)

// Expect tells how many requests of a lane are still to be granted, those that wait
// included; below 0 means that it is not known. Each grant counts one down. It is what lets
// a short job go at once, and what [Core.TimeLeft] goes by.
func (e *Core) Expect(lane string, remaining int) { e.laneOf(lane).left = max(-1, remaining) }

// rest returns how many requests are still to come that touch a bucket, if that is known.
func (e *Core) rest(b *bucket) (n int, known bool) {
	for _, l := range e.order {
		main, op := e.touched(l)
		if main != b && op != b {
			continue
		}
		if l.left < 0 {
			return 0, false
		}
		n += max(l.left, len(l.queue))
	}
	return n, true
}

// TimeLeft returns how long the expected requests will take: for each bucket what it lets
// through from now on, after the stop that holds it; the slowest bucket counts. It is not
// known before the first reading, or while a lane that is in use has not been told about.
func (e *Core) TimeLeft(wall time.Time) (left time.Duration, known bool) {
	now := e.tick(wall)
	if !e.started {
		return 0, false
	}
	all := 0
	for _, l := range e.order {
		all += max(l.left, len(l.queue))
	}
	left = e.control.timeLeft(now, all)
	for _, b := range e.all {
		n, known := e.rest(b)
		if !known {
			return 0, false
		}
		if n == 0 {
			continue
		}
		pause := max(0, b.stop.left(now), e.block.left(now))
		rate, fill := e.pacing.rate(e, b, now.Add(pause))
		rate, fill = e.bounded(b, rate, fill)
		if t := e.trackFor(b); t.pressed < 0.5 && b.flow.n >= 10 && e.flowing(b) < rate {
			rate, fill = e.flowing(b), 0 // the workers are what holds it up
		}
		left = max(left, pause+need(float64(n), rate, fill, float64(e.mine(b, now)), e.hurry(b), e.window, func(t time.Duration) int {
			return e.leaving(b, now, pause+t)
		}))
	}
	return left, true
}

// A window that was filled in a hurry stands still until it empties, and is not filled in the
// same hurry again.
const (
	fastest = 3
	usually = 1.3
)

// hurry returns how many times faster than evenly a bucket is filled where there is room.
func (e *Core) hurry(b *bucket) float64 {
	if b.alone && !b.start.over {
		return fastest
	}
	return usually
}

// need returns how long n requests take at a rate that fills the window to so many, of which
// there are own now; leaving tells how many of these leave within a time. With a fill of 0 the
// rate alone counts. Nothing is sent faster than hurry times the rate.
func need(n, rate, fill, own, hurry float64, window time.Duration, leaving func(time.Duration) int) time.Duration {
	evenly := func(n float64) time.Duration {
		return time.Duration(min(n/max(rate, 1e-6), 4e7) * float64(time.Second))
	}
	if fill <= 0 {
		return evenly(n)
	}
	if n < fill {
		hurry = fastest // a short rest goes as fast as there is room for it
	}
	const steps = 60
	sent, step := 0.0, window/steps
	for i := range steps {
		t := step * time.Duration(i)
		sent = max(sent, min(sent+hurry*rate*step.Seconds(), fill-own+float64(leaving(t+step))))
		if sent >= n {
			return t + step/2
		}
	}
	return window + evenly(n-sent)
}

// flow is the rate of answers over the last minutes, by a clock that stands still while nothing
// may be sent.
type flow struct {
	n    int
	sum  float64
	last time.Duration
}

// flowMemory is how long a flow remembers.
const flowMemory = 4 * time.Minute

func (f *flow) add(now time.Duration) {
	f.sum = f.sum*math.Exp(-float64(now-f.last)/float64(flowMemory)) + 1
	f.last = now
	f.n++
}

func (f *flow) rate(now time.Duration) float64 {
	sum := f.sum * math.Exp(-float64(now-f.last)/float64(flowMemory))
	return sum / flowMemory.Seconds() / max(1e-3, 1-math.Exp(-float64(now)/float64(flowMemory)))
}

// flowing returns the requests a second that have been answered lately.
func (e *Core) flowing(b *bucket) float64 {
	r := b.flow.rate(e.active)
	if e.legacy && b == e.read.bucket {
		r += e.write.flow.rate(e.active)
	}
	return r
}

func (s *stop) left(now time.Time) time.Duration {
	if s.cause == "" {
		return 0
	}
	return s.until.Sub(now)
}

// trackFor returns the track that a bucket belongs to.
func (e *Core) trackFor(b *bucket) *track {
	if b == e.read.bucket {
		return e.read
	}
	return e.write
}
