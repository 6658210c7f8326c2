package throttle

import "time"

// plan sets the time of the next reading of a track. After others have moved it comes soon;
// while nothing happens the intervals grow, the more the freer the window is. With others,
// readings are a small part of the own requests. It is jittered, so that several programs
// do not look at the same instant.
func (p model) plan(e *Core, t *track, now time.Time, moved, alone bool, free float64) {
	window := e.window.Seconds()
	if t.began.IsZero() || moved && alone {
		t.began = now
	}
	next := t.interval.Seconds() * 1.5
	if moved {
		next = p.soonest(e).Seconds()
	}
	longest := max(window/3, free*window)
	switch {
	case !alone:
		own := float64(e.mine(t.bucket, now)) / window
		longest = window / 7.5
		if p.over(e, t.bucket, now) {
			// Nothing can be sent anyway.
			next, longest = 1.5*next, 1.5*longest
		}
		next = max(next, 1/(0.03*max(own, p.full(e, t.bucket)/4)))
	case now.Sub(t.began) < e.window*7/6:
		longest = window / 6
	}
	t.interval = max(p.soonest(e), time.Duration(min(next, longest)*float64(time.Second)))
	t.next = time.Duration(float64(t.interval) * (0.85 + 0.3*e.jitter()))
}

// soonest is the least time between two readings. They are reads: of a low limit they must not
// take more than a quarter.
func (p model) soonest(e *Core) time.Duration {
	return max(e.window/20, time.Duration(4/p.full(e, e.read.bucket)*float64(time.Second)))
}

func (p model) due(e *Core, t *track, now time.Time) (time.Time, reason) {
	if e.failed > 0 {
		return t.tried.Add(min(firstRetry<<min(e.failed, 10), maxRetryWait)), reason{text: "the last reading failed"}
	}
	for _, b := range e.bucketsOf(t) {
		// Answered writes, and not only sent ones, tell a legacy account from a modern one.
		if b.start.sent(e.mine(b, now) - e.flying(b)) {
			return now, reason{text: "a batch has been answered"}
		}
	}
	every := t.next
	for _, b := range e.bucketsOf(t) {
		every = min(every, max(p.unseen(e, b, now), p.soonest(e)))
	}
	return t.tried.Add(every), reason{every: every}
}

// loud is the share of a limit up to which strangers are met by readings alone. Faster ones
// are noticed by the slow answers that they bring; to read often enough for them would take
// more than one request in a hundred.
const loud = 0.5

// unseen returns how long strangers need to fill what is free of a bucket, if they come as
// fast as the profile guards against. A reading must not come later than that, because own
// requests in a full window go on evenly, and do not make room.
func (p model) unseen(e *Core, b *bucket, now time.Time) time.Duration {
	rate := min(p.Guard, loud) * float64(b.limit) / e.window.Seconds()
	own := float64(e.ours(b, now))
	if !b.alone || own == 0 || rate == 0 {
		return e.window
	}
	free := float64(b.limit) - own - b.crowd.expected(now, e.window)
	return time.Duration(max(0, free)/rate*float64(time.Second)) - e.age
}

// firstRetry is half of the time from a failed reading to the next; it doubles.
const firstRetry = 3 * time.Second
