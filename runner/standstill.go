package runner

import (
	"context"
	"time"
)

// longStandstill is how long a run may stand still, without a person having asked for it,
// before what is known of the targets of its writes is too old.
const longStandstill = 10 * time.Minute

// standstill tells whether a run has stood still: because a person has held it, for
// however short a time, or because the limits, the service or a machine that slept have
// let nothing through for long.
type standstill struct {
	holds  int           // that had ended when the targets were read
	closed time.Duration // in this call, until the last answer
	noted  bool          // nothing has been read again since
}

// standing returns what has stopped the run so far.
func (r *run) standing() standstill {
	closed, holds := r.Limiter.Stood()
	return standstill{holds: holds, closed: closed + r.sum.Down}
}

// noteStandstill takes note of one, before what was waiting meanwhile is sent.
func (r *run) noteStandstill() {
	if r.stood.noted || len(r.ready) == 0 {
		return
	}
	s := r.standing()
	r.stood.noted = s.holds != r.stood.holds || s.closed-r.stood.closed >= longStandstill
}

// stoodUntil takes note of an answer: from here on it is counted anew how long nothing
// gets through. A refusal for the time being is none.
func (r *run) stoodUntil(v verdict) {
	if !v.outage && v.class != classThrottled && v.class != classStopped {
		r.stood.closed = r.standing().closed
	}
}

// back is the stage that looks at the targets of the writes of this one; "" where there
// is none.
func (r *run) back() string {
	work, ok := r.Work.(rechecker)
	if !ok || r.ReadOnly {
		return ""
	}
	return work.Recheck(r.stage)
}

// mustLook tells whether the stage must not go on before the targets of its writes have
// been read again.
func (r *run) mustLook() bool { return r.stood.noted && r.back() != "" }

// lookAgain does between two requests what the next call of Run would do first.
func (r *run) lookAgain(store context.Context) error {
	r.stood = r.standing()
	r.breaker.probing = false // nothing is in flight
	before := r.stage
	if err := r.recheck(store); err != nil || r.stage == before {
		return err
	}
	for name := range r.lanes {
		r.Limiter.Expect(name, 0)
	}
	r.forecast.current = false
	const note = "the run had stood still: the targets of the writes that are left are read again"
	r.sum.Notes = append(r.sum.Notes, note)
	r.observe(time.Time{}, "")
	return r.Store.AddEvent(store, r.RunID, time.Now(), "note", note)
}
