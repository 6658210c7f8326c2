package throttle

import "time"

// push is by how much the programs of an account would fill the window too far if each had
// what it wants; the ceiling holds them back. It is what makes the window full.
const push = 1.7

// paceNow returns the requests a second that a bucket is paced at below the ceiling, this
// process and its peers together.
func (p model) paceNow(e *Core, b *bucket, now time.Time) float64 {
	own, top, full := float64(e.ours(b, now)), p.top(e, b), p.full(e, b)
	if b.alone {
		// So that the window is filled a third of it from now on, whatever leaves it until
		// then.
		ahead := e.window / 3
		stays := own - float64(e.leaving(b, now, ahead)) + b.crowd.left(now.Add(ahead), e.window)
		pace := (top-stays)/ahead.Seconds() - b.crowd.forecast()
		fastest := 3 * full
		switch {
		case !b.start.over:
			fastest = full / 2 // beside the batches
		case pace > full && p.burst(e, b, now, 1, 1) < 1:
			fastest = full
		}
		return min(max(pace, 0.1*full), fastest)
	}
	// With others: towards an own count that falls by half a request with each of theirs.
	// Whoever has more than another sees fewer others than that one does, but not so many
	// fewer that it would want more: equals end at equal counts.
	ahead := e.window / 4
	want := (push*top - b.crowd.expected(now, e.window)) / 2
	pace := (want - own + float64(e.leaving(b, now, ahead))) / ahead.Seconds()
	return max(0.05*full, min(pace, full, 1.2*want/e.window.Seconds()))
}

// hear notices whether there are others. They are gone when for five seconds no more has
// come than doubt, but that counts only while there is room: in a full window everybody is
// silent.
func (p model) hear(e *Core, b *bucket, now time.Time, doubt float64) {
	c := &b.crowd
	if c.news > doubt {
		b.calm = time.Time{}
	} else if b.calm.IsZero() {
		b.calm = c.before
	}
	switch {
	case c.rate > 0.02*p.full(e, b) && b.calm.IsZero():
		b.alone = false
	case c.count == 0 && c.rate == 0:
		b.alone = true
	case !b.alone && !b.calm.IsZero() && c.at.Sub(b.calm) >= e.window/12 &&
		float64(e.ours(b, now))+c.count < p.top(e, b)-0.05*float64(b.limit):
		b.alone = true
		c.rate, c.recent = 0, 0
	}
}
