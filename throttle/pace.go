package throttle

import "time"

// push is by how much the programs of an account would fill the window too far if each had
// what it wants; the ceiling holds them back. It is what makes the window full.
const push = 1.7

// paceNow returns the requests a second that a bucket is paced at below the ceiling.
func (p model) paceNow(e *Core, b *bucket, now time.Time) float64 {
	own, top, full := float64(e.mine(b, now)), p.top(e, b), p.full(e, b)
	if b.alone {
		// So that the window is filled a third of it from now on, whatever leaves it until
		// then.
		ahead := e.window / 3
		stays := own - float64(e.leaving(b, now, ahead)) + b.crowd.left(now.Add(ahead), e.window)
		pace := (top-stays)/ahead.Seconds() - b.crowd.forecast()
		return min(max(pace, 0.1*full), 3*full)
	}
	// With others: towards an own count that falls by half a request with each of theirs.
	// Whoever has more than another sees fewer others than that one does, but not so many
	// fewer that it would want more: equals end at equal counts.
	ahead := e.window / 4
	want := (push*top - b.crowd.expected(now, e.window)) / 2
	pace := (want - own + float64(e.leaving(b, now, ahead))) / ahead.Seconds()
	return max(0.05*full, min(pace, full, 1.2*want/e.window.Seconds()))
}

// hear notices whether there are others.
func (p model) hear(e *Core, b *bucket, now time.Time, x float64) {
	full := p.full(e, b)
	switch {
	case b.crowd.rate > 0.02*full:
		b.alone, b.calm = false, time.Time{}
	case b.alone:
	case b.crowd.count == 0 && b.calm.IsZero() && x == 0:
		b.alone = true
	case b.calm.IsZero():
		b.calm = now
	case now.Sub(b.calm) >= e.window/12 && float64(e.mine(b, now))+x < p.top(e, b)-0.05*float64(b.limit):
		// Silence counts only while there is room: in a full window everybody is silent.
		b.alone = true
	}
}
