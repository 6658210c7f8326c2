package throttle

import "time"

// heed is by how much own requests weigh more than those of others in the pace of a program
// that is not alone. It is what makes equals meet at equal shares.
const heed = 0.35

// paceNow returns the requests a second that a bucket is paced at below the ceiling.
func (p model) paceNow(e *Core, b *bucket, now time.Time) float64 {
	full := p.full(e, b)
	if !b.alone {
		others := max(b.crowd.rate, (b.crowd.rate+b.crowd.count/e.window.Seconds())/2)
		return min(max((full*(1+heed/2)-others)/(1+heed), 0.05*full), full)
	}
	// Alone: so that the window is filled a third of it from now on, whatever leaves it
	// until then.
	ahead := e.window / 3
	stays := float64(e.mine(b, now)-e.leaving(b, now, ahead)) + b.crowd.left(now.Add(ahead), e.window)
	pace := (p.top(e, b)-stays)/ahead.Seconds() - b.crowd.forecast()
	return min(max(pace, 0.1*full), 3*full)
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
