package throttle

import "time"

// What goes wrong although everything has been reckoned with, because readings are late or
// because there are more programs than the model is made for, shows in slow answers and in
// 429s. Each makes the margin wider, up to a bound, and time makes it narrow again.
const (
	marginOfMark    = 0.005 // of the limit
	marginOfRefusal = 0.02
	widestMargin    = 0.1
	marginLasts     = 15 * time.Minute // until a margin has shrunk to about a third
)

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
	b.margin = min(b.margin+marginOfMark, widestMargin)
}

// raise takes in that a bucket is used up to a share of its limit at least.
func (p model) raise(e *Core, b *bucket, now time.Time, share float64) {
	own := float64(e.ours(b, now))
	b.crowd.raise(now, share*float64(b.limit)-own, e.window)
	b.alone, b.calm = false, time.Time{}
	b.start.over = true
	b.reach = own
	b.pacedAt = time.Time{}
}

// The hold after a 429.
const (
	leastHold   = 5 * time.Second
	longestHold = 35 * time.Second
)

// hold takes in that the server has refused a request: the bucket is full. It stays closed
// until so much has left it that it must be below the cut-off again.
func (p model) hold(e *Core, b *bucket, now time.Time) (wait, longest time.Duration) {
	p.raise(e, b, now, 1)
	if !b.stop.again(now, e.window) { // or else another program is at it
		b.margin = min(b.margin+marginOfRefusal, widestMargin)
	}
	for wait = leastHold; wait < longestHold; wait += time.Second {
		stays := float64(e.ours(b, now)-e.leaving(b, now, wait)) + b.crowd.left(now.Add(wait), e.window)
		if stays < e.cutOff*float64(b.limit) {
			break
		}
	}
	return wait, longestHold
}
