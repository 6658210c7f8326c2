package throttle

import "time"

// The counts of a reading should be those of the moment. If they are older, others are seen
// too late, and own requests of the last seconds look like room that others have left. It
// shows when own requests that have been answered for some time are missing in a count.

// watchAge notices counts that are too low for own requests that the server has answered.
// The highest age counts that has been seen, up to as much as a window remembers.
func (e *Core) watchAge(now time.Time, b *bucket) {
	if e.legacy {
		return // the counts of reads and writes cannot be told apart
	}
	slot := e.window / slots
	d := max(0, now.Sub(e.asked)) + slot
	// Those that may have left the window at the server do not count.
	known := b.own.at(now) - b.own.leaving(now, e.window/20) - b.own.entered(now, d)
	for known > b.reported && d < e.window/6 {
		known -= int(*b.own.of(b.own.head - b.own.in(d, past)))
		d += slot
		e.age = max(e.age, d)
	}
}
