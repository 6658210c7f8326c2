package throttle

import "time"

// over tells whether one more request would go over what may be in the window: the ceiling
// for all together, and our share of what was free at the last reading.
func (p model) over(e *Core, b *bucket, now time.Time) bool {
	own := float64(e.ours(b, now))
	return own+1 > b.reach && !b.crowd.at.IsZero() ||
		own+1+b.crowd.expected(now, e.window) > p.top(e, b)
}

// growth is how much our requests may grow until the next reading. All programs of an
// account see the same free room at the same moment; if each takes only its share, they do
// not run into the limit together.
func (p model) growth(e *Core, b *bucket, own, x float64) float64 {
	share := 1.0
	if own+x > 0 && !b.alone {
		share = max(own/(own+x), leastShare)
	}
	return 2 + share*max(0, p.top(e, b)-own-x)
}

// leastShare is the share of the free room that a newcomer may take.
const leastShare = 0.1
