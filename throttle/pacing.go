package throttle

import "time"

// pacing is a model of how fast a bucket may be used. The core counts, queues, stops and
// reads the account; a model only answers these questions. Profiles choose the model:
// [reference] or [model].
type pacing interface {
	// room tells when a request that touches b may follow the last one.
	room(e *Core, b *bucket, now time.Time) room
	// use returns the share of b that is in use as far as is known.
	use(e *Core, b *bucket, now time.Time) float64
	// due returns when the next reading for a track is due, and why then.
	due(e *Core, t *track, now time.Time) (at time.Time, why reason)
	// learn takes in a reading that the buckets of the track have already stored. It is
	// the first one, or the first after a gap, if fresh.
	learn(e *Core, t *track, now time.Time, fresh bool)
	// slow takes in that answers to the requests of a track have become slow.
	slow(e *Core, t *track, now time.Time)
	// hold returns for how long a 429 closes b if the server names no time, and up to what
	// that doubles when it comes again.
	hold(e *Core, b *bucket, now time.Time) (wait, longest time.Duration)
	// ramp returns for how long a bucket goes on slowly after a stop.
	ramp(e *Core) time.Duration
	// rate returns how many requests a second b may be expected to let through from now
	// on, and up to how many own requests its window will be filled; 0 if it will not.
	rate(e *Core, b *bucket, now time.Time) (perSecond, fill float64)
}

// room is what a model allows a bucket.
type room struct {
	space time.Duration // the least time between two requests
	until time.Time     // nothing before this
	full  bool          // pause
}

func pacingOf(p Profile) pacing {
	if p.Util > 0 {
		return model{p}
	}
	return reference{p}
}

// reason says why a reading is due.
type reason struct {
	text  string
	every time.Duration // instead of a text
}

func (r reason) String() string {
	if r.every > 0 {
		return "every " + r.every.Round(100*time.Millisecond).String()
	}
	return r.text
}
