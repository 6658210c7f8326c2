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
	if moved || next == 0 {
		next = 0.05 * window
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
	// Readings are reads: of a low limit they must not take more than a quarter.
	least := 4 / p.full(e, e.read.bucket)
	t.interval = time.Duration(max(least, min(next, longest)) * float64(time.Second))
	t.next = time.Duration(float64(t.interval) * (0.85 + 0.3*e.jitter()))
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
	return t.tried.Add(t.next), reason{every: t.next}
}

// firstRetry is half of the time from a failed reading to the next; it doubles.
const firstRetry = 3 * time.Second
