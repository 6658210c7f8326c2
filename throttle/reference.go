package throttle

import (
	"math"
	"time"
)

// reference is the pacing of the profiles aggressive, medium and cautious: a delay that
// grows with the utilisation.
type reference struct{ Profile }

func (p reference) room(e *Core, b *bucket, now time.Time) room {
	u := e.utilisation(b, now)
	// The share at which requests pause stays above zero even if the server should report
	// a very low cut-off, or nothing would ever be sent.
	if u >= p.pausesAt(e)-1e-9 {
		return room{full: true}
	}
	// No separate calibration floor is needed: the stored utilisation holds until the
	// next calibration, and with it the delay that it gives.
	if u < p.Onset {
		return room{}
	}
	return room{space: time.Duration(u * p.multiplier(e, b))}
}

func (p reference) pausesAt(e *Core) float64 { return max(e.cutOff-p.SafetyOverhead, 0.05) }

func (p reference) multiplier(e *Core, b *bucket) float64 {
	d := float64(p.DelayMultiplier)
	if b.op {
		d *= max(1, float64(e.write.limit)/float64(b.limit))
	}
	return d
}

func (p reference) use(e *Core, b *bucket, now time.Time) float64 { return e.utilisation(b, now) }

func (p reference) slow(*Core, *track, time.Time) {}

func (p reference) hold(e *Core, _ *bucket, _ time.Time) (wait, longest time.Duration) {
	return e.cfg.RateLimitWait, max(maxLimitWait, e.cfg.RateLimitWait)
}

func (p reference) ramp(e *Core) time.Duration { return e.window }

// drift returns how far the local utilisation is from what the server reported last.
func (t *track) drift(e *Core, now time.Time) float64 {
	return math.Abs(float64(t.reported-e.local(t.bucket, now))) / float64(t.limit)
}

// load returns the delay that a track has now, the highest over its buckets, and whether
// all of them are below the onset.
func (p reference) load(e *Core, t *track, now time.Time) (delay time.Duration, quiet bool) {
	quiet = true
	for _, b := range e.bucketsOf(t) {
		r := p.room(e, b, now)
		delay = max(delay, r.space)
		quiet = quiet && !r.full && r.space == 0
	}
	return delay, quiet
}

func (p reference) confidence(e *Core, t *track, now time.Time) float64 {
	return min(1, float64(e.mine(t.bucket, now))/float64(p.ConfidenceCount))
}

func (p reference) due(e *Core, t *track, now time.Time) (time.Time, reason) {
	confidence := p.confidence(e, t, now)
	delay, quiet := p.load(e, t, now)
	factor := 1.0
	if !quiet {
		// The readings themselves count as drift here. That is what makes the interval of a
		// track at work ten delays, one request in eleven, as in the model of the profiles.
		drift := t.drift(e, now)
		if t == e.read {
			drift += float64(e.readings.at(now)) / float64(t.limit)
		}
		factor = 1 / (1 + drift/p.DriftThreshold*p.DriftScaling)
	}
	base := p.CalibrationBase
	for range t.stable / p.StabilityThreshold {
		if base = min(2*base, p.CalibrationMax); base == p.CalibrationMax {
			break
		}
	}
	interval := max(p.CalibrationMin, time.Duration(float64(base)*confidence*factor), 10*delay)
	if e.failed > 0 {
		// Longer each time, because a reading that hangs may hold a lone worker.
		interval = max(interval, min(p.CalibrationBase<<min(e.failed, 10), maxRetryWait))
		return t.tried.Add(interval), reason{text: "the last reading failed"}
	}
	needed := 0
	switch {
	case confidence < 1:
		needed = max(10, p.ConfidenceCount/5)
	case quiet:
		needed = max(10, p.ConfidenceCount*2/5)
	}
	if at := t.tried.Add(interval); needed == 0 || t.since < needed || !now.Before(at) {
		return at, reason{every: interval}
	}
	return now, reason{text: "enough own requests have been sent"}
}

func (p reference) learn(e *Core, t *track, now time.Time, _ bool) {
	if _, quiet := p.load(e, t, now); quiet && t.drift(e, now) < p.DriftThreshold && p.confidence(e, t, now) == 1 {
		t.stable++
	} else {
		t.stable = 0
	}
}

func (p reference) rate(e *Core, b *bucket, now time.Time) (perSecond, fill float64) {
	// Where the delay comes to rest: own requests at one per delay, and those of others,
	// make up the utilisation that the delay follows from.
	limit, window := float64(b.limit), e.window.Seconds()
	x := float64(b.others) / limit
	u := (x + math.Sqrt(x*x+4*window*float64(time.Second)/(limit*p.multiplier(e, b)))) / 2
	u = min(max(u, p.Onset), p.pausesAt(e))
	own := max(0, u-x) * limit
	return own / window, own
}
