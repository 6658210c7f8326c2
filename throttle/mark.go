package throttle

import "time"

// slow takes in that the server holds answers back, which it does above its cut-off: more
// must be in the fullest bucket than is known.
func (p model) slow(e *Core, t *track, now time.Time) {
	b := t.bucket
	for _, other := range e.bucketsOf(t) {
		if other.inFlight > 0 && p.use(e, other, now) > p.use(e, b, now) {
			b = other
		}
	}
	p.raise(e, b, now, e.cutOff)
}

// raise takes in that a bucket is used up to a share of its limit at least.
func (p model) raise(e *Core, b *bucket, now time.Time, share float64) {
	own := float64(e.mine(b, now))
	b.crowd.raise(now, share*float64(b.limit)-own, e.window)
	b.alone, b.calm = false, time.Time{}
	b.start.over = true
	b.reach = own
	b.pacedAt = time.Time{}
}

// The hold after a 429.
const (
	leastHold   = 5 * time.Second
	longestHold = 40 * time.Second
)

// hold takes in that the server has refused a request: the bucket is full. It stays closed
// until so much has left it that it must be below the cut-off again.
func (p model) hold(e *Core, b *bucket, now time.Time) (wait, longest time.Duration) {
	p.raise(e, b, now, 1)
	for wait = leastHold; wait < longestHold; wait += time.Second {
		stays := float64(e.mine(b, now)-e.leaving(b, now, wait)) + b.crowd.left(now.Add(wait), e.window)
		if stays < e.cutOff*float64(b.limit) {
			break
		}
	}
	return wait, longestHold
}
