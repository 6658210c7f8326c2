package runner

import "time"

// The delay before attempt n+1 doubles from one second up to a minute.
const (
	firstDelay = time.Second
	lastDelay  = time.Minute
)

// backoff is the delay after the n-th attempt (from 1) failed. jitter is a random
// number from [0, 1): the delay lies within 20 % of the schedule, so that workers
// that failed together do not come back together.
func backoff(n int, jitter float64) time.Duration {
	d := lastDelay
	if n < 1 {
		n = 1
	}
	if n <= 6 {
		d = firstDelay << (n - 1)
	}
	return time.Duration(float64(d) * (0.8 + 0.4*jitter))
}

// breaker holds all lanes back while the service is down, so that an outage
// costs few requests and no item its attempts.
type breaker struct {
	failures int       // outages in a row, over all items
	openings int       // how often it opened since the last success
	since    time.Time // when the first of the outages came
	openAt   time.Time // nothing is sent before
	probing  bool      // one request is out to see whether the service is back
	why      string    // what the last outage was
}

// trip is the number of outages in a row that open the breaker: more than a
// single unlucky item has, fewer than a pool of workers produces in a blink.
const trip = 4

// open tells whether the breaker holds requests back.
func (b *breaker) open() bool { return b.openings > 0 }

// failed records an outage. Offline, where nothing was reached at all, opens the
// breaker at once. Failures of requests that were out when it opened do not
// lengthen the wait.
func (b *breaker) failed(now time.Time, offline bool, jitter float64) {
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	switch {
	case b.open() && !b.probing:
		return
	case !b.open() && b.failures < trip && !offline:
		return
	}
	b.probing = false
	b.openings++
	b.openAt = now.Add(backoff(b.openings, jitter))
}

// succeeded closes the breaker.
func (b *breaker) succeeded() { *b = breaker{} }

// admits tells whether a request may be sent now, and if not, when to ask again;
// the zero time means that the probe which is out decides.
func (b *breaker) admits(now time.Time) (bool, time.Time) {
	switch {
	case !b.open():
		return true, time.Time{}
	case b.probing:
		return false, time.Time{}
	case now.Before(b.openAt):
		return false, b.openAt
	}
	return true, time.Time{}
}
