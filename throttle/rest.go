package throttle

import "time"

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
	for _, b := range e.all {
		n, known := e.rest(b)
		if !known {
			return 0, false
		}
		if n == 0 {
			continue
		}
		pause := max(0, b.stop.left(now), e.block.left(now))
		rate, atOnce := e.pacing.rate(e, b, now.Add(pause))
		if t := e.trackFor(b); t.pressed < 0.5 && now.Sub(e.since) > e.window {
			// The workers are what holds it up.
			rate = min(rate, float64(e.mine(b, now)+1)/e.window.Seconds())
		}
		need := time.Duration(max(0, float64(n)-atOnce) / max(rate, 1e-6) * float64(time.Second))
		left = max(left, pause+min(need, 10_000*time.Hour))
	}
	return left, true
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
