package throttle

import "time"

// The counts of a reading should be those of the moment. If they are older, others are seen
// too late, and own requests of the last seconds look like room that others have left. It
// shows when own requests that have been answered for some time are missing in a count.

// maxAge is the highest age that is reckoned with: as much as a window remembers.
const maxAge = 10 * time.Second

// watchAge notices counts that are too low for own requests that the server has answered.
func (e *Core) watchAge(now time.Time, b *bucket) {
	if b == e.read.bucket && e.legacy || b.op && e.legacy || b == e.write.bucket && e.legacy {
		return
	}
	slot := e.window / slots
	d := max(0, now.Sub(e.asked)) + slot
	// Those that may have left the window at the server do not count.
	known := b.own.at(now) - b.own.leaving(now, e.window/20) - b.own.entered(now, d)
	for known > b.reported && d < maxAge*e.window/(60*time.Second) {
		known -= int(*b.own.of(b.own.head - b.own.in(d, past)))
		d += slot
		e.age = max(e.age, d)
	}
}
