package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// drain sends what is pending until nothing is, or until something stops the run or
// the targets must be read again, and the requests in flight are settled. One goroutine
// decides; waiters bring permits and workers bring results.
func (r *run) drain(ctx, store context.Context, names []string) error {
	r.lanes = map[string]*lane{}
	for _, name := range names {
		r.laneOf(name)
	}
	if err := r.survey(store); err != nil {
		return err
	}
	r.tell()
	waitCtx, endWaits := context.WithCancel(ctx)
	defer r.finishWaits(endWaits)

	var grace <-chan time.Time
	stopping, abort := ctx.Done(), r.Abort.Done()
	for {
		now := time.Now()
		r.noteStandstill()
		if r.halt != "" || r.mustLook() {
			endWaits()
			if r.busy == 0 {
				return nil
			}
		} else {
			if ctx.Err() == nil {
				if err := r.launch(store, now); err != nil {
					return err
				}
				r.ask(waitCtx, now)
			}
			if r.drained() {
				return nil
			}
		}
		timer := time.NewTimer(r.wake(now))
		idle := r.busy == 0 && r.waiting == 0 // all that is left has been put off
		down := r.breaker.failures > 0
		slept := time.Now()
		select {
		case g := <-r.grants:
			r.granted(ctx, g)
		case res := <-r.results:
			if err := r.record(store, res, time.Now()); err != nil {
				return r.settleInFlight(err)
			}
		case <-timer.C:
		case <-stopping:
			stopping = nil
			r.stop(ctx)
			t := time.NewTimer(r.Grace)
			defer t.Stop()
			grace = t.C
		case <-abort:
			abort = nil
			r.stopAs(checkpoint.RunAborted, errAborted)
			r.halt, r.haltErr = checkpoint.RunAborted, errAborted
			r.cutOff(errAborted)
		case <-grace:
			r.cutOff(errStopped)
		}
		timer.Stop()
		if idle {
			r.waited(time.Since(slept), down)
		}
	}
}

// waited counts time in which there was nothing to do but wait for the next try.
func (r *run) waited(d time.Duration, down bool) {
	r.sum.Waited += d
	if down {
		r.sum.Down += d
	}
}

// laneOf returns the lane of a name, made when it is new.
func (r *run) laneOf(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		l = &lane{name: name}
		r.lanes[name] = l
	}
	return l
}

// drained tells whether nothing is pending, waiting or in flight.
func (r *run) drained() bool {
	if r.busy > 0 || r.waiting > 0 || len(r.ready) > 0 {
		return false
	}
	for _, l := range r.lanes {
		if !l.empty {
			return false
		}
	}
	return true
}

// wake is how long the loop may sleep when neither a permit nor a result comes.
func (r *run) wake(now time.Time) time.Duration {
	const idle = time.Hour
	d := idle
	if r.halt != "" {
		return d
	}
	if ok, at := r.breaker.admits(now); !ok && !at.IsZero() {
		d = min(d, at.Sub(now))
	}
	for _, l := range r.lanes {
		if !l.empty && !l.waiting && l.next.After(now) {
			d = min(d, l.next.Sub(now))
		}
	}
	return d
}

// mayFail tells whether one more request in flight keeps within the errors that
// the guard allows, even if all of them fail.
func (r *run) mayFail() bool {
	return r.limit < 0 || r.busy+len(r.ready)+r.waiting == 0 || r.errors+r.busy+len(r.ready)+r.waiting <= r.limit
}

// ask sends a waiter to the limiter for every lane that has something due.
func (r *run) ask(ctx context.Context, now time.Time) {
	for _, l := range r.lanes {
		if l.waiting || l.empty || l.next.After(now) {
			continue
		}
		if r.busy+len(r.ready) >= r.Workers || !r.mayFail() {
			return
		}
		if ok, _ := r.breaker.admits(now); !ok {
			return
		}
		probe := r.breaker.open()
		if probe {
			r.breaker.probing = true
		}
		l.waiting = true
		r.waiting++
		r.waiters.Go(func() {
			permit, err := r.Limiter.Wait(ctx, l.name)
			r.grants <- grant{lane: l, permit: permit, err: err, probe: probe}
		})
	}
}

// granted takes what a waiter brought.
func (r *run) granted(ctx context.Context, g grant) {
	g.lane.waiting = false
	r.waiting--
	var spent *throttle.ExhaustedError
	switch {
	case g.err == nil && (r.halt != "" || r.mustLook() || r.breaker.open() && !g.probe):
		g.permit.Cancel()
	case g.err == nil:
		r.ready = append(r.ready, g)
	case errors.As(g.err, &spent):
		r.stopAs(checkpoint.RunThrottled, g.err)
	case ctx.Err() != nil:
		r.stop(ctx)
	case r.halt == "" && !r.mustLook():
		r.stopAs(checkpoint.RunInternal, fmt.Errorf("wait for the limit of %s: %w", g.lane.name, g.err))
	}
}

// finishWaits ends all waiters and gives back what they bring.
func (r *run) finishWaits(end context.CancelFunc) {
	end()
	for ; r.waiting > 0; r.waiting-- {
		g := <-r.grants
		g.lane.waiting = false
		if g.permit != nil {
			g.permit.Cancel()
		}
	}
	for _, g := range r.ready {
		g.permit.Cancel()
	}
	r.ready = nil
	r.waiters.Wait()
}

// settleInFlight waits for the workers after the checkpoint failed; their
// outcomes cannot be recorded, so what they did is settled by Recover.
func (r *run) settleInFlight(err error) error {
	r.cutOff(errStopped)
	for ; r.busy > 0; r.busy-- {
		<-r.results
	}
	r.workers.Wait()
	return err
}

// launch claims an item for every permit that is at hand and starts a worker.
func (r *run) launch(store context.Context, now time.Time) error {
	for len(r.ready) > 0 && r.busy < r.Workers {
		g := r.ready[0]
		r.ready = r.ready[1:]
		claim, ok, next, err := r.Store.Claim(store, r.RunID, g.lane.name, now)
		if !claim.More {
			g.lane.next, g.lane.empty = next, next.IsZero()
		}
		if err != nil || !ok {
			g.permit.Cancel()
			r.breaker.probing = false
			if err != nil {
				return r.settleInFlight(err)
			}
			continue
		}
		r.busy++
		r.forecast.claimed(g.lane.name)
		r.workers.Go(func() { r.results <- r.serve(store, g, claim) })
	}
	return nil
}

// record takes the result of a worker into the books of the loop.
func (r *run) record(store context.Context, res result, now time.Time) error {
	r.busy--
	if res.err != nil {
		return res.err
	}
	v := res.verdict
	switch res.state {
	case checkpoint.StateDone:
		r.counts.Done++
	case checkpoint.StateFailed:
		r.counts.Failed++
	case checkpoint.StateSkipped:
		r.counts.Skipped++
	case checkpoint.StateInDoubt:
		r.counts.InDoubt++
	default:
		r.wakeLane(res.lane.name, res.again)
	}
	known := r.counts.Items
	if len(res.wakes) > 0 {
		// Most pages name one that is there already, so the store has to tell.
		c, err := r.Store.Counts(store, r.RunID)
		if err != nil {
			return err
		}
		r.counts.Items = c.Items
	}
	r.forecast.settle(res, r.counts.Items-known)
	for _, name := range res.wakes {
		r.wakeLane(name, time.Time{})
	}
	r.tell() // before it is observed
	if v.action == actRetry {
		r.sum.Retries++
	}
	r.health(res, now)
	r.stoodUntil(v)
	r.guard(store, res)
	switch {
	case v.halt != "":
		r.stopAs(v.halt, res.cause)
	case v.status == http.StatusUnauthorized && r.denied[res.key]:
		// The client has logged in since, and others may be served: it is this
		// request that is not allowed.
		r.stopAs(checkpoint.RunAuth, res.cause)
	case v.status == http.StatusUnauthorized:
		r.denied[res.key] = true
	}
	_, hold := r.breaker.admits(now)
	r.observe(hold, r.breaker.why)
	return nil
}

// wakeLane lets a lane be asked for again at t.
func (r *run) wakeLane(name string, t time.Time) {
	if r.ReadOnly && name != throttle.Read {
		return
	}
	l := r.laneOf(name)
	if l.empty || t.Before(l.next) {
		l.next = t
	}
	l.empty = false
}

// health feeds the breaker and stops the run when the service stays down.
func (r *run) health(res result, now time.Time) {
	v := res.verdict
	switch {
	case v.class == classStopped || v.class == classBug:
		r.breaker.probing = false // nothing is known
		return
	case !v.outage:
		// Any answer of the service, a refusal too, shows that it is there.
		r.answered = true
		r.breaker.succeeded()
		return
	}
	for _, g := range r.ready {
		g.permit.Cancel() // it would meet the same outage
	}
	r.ready = r.ready[:0]
	r.breaker.why = v.reason
	r.breaker.failed(now, v.offline, rand.Float64()) //nolint:gosec // jitter, not a secret
	if final(res.cause) {
		r.stopAs(checkpoint.RunUnreachable, res.cause)
	}
	if r.breaker.open() && r.breaker.openAt.Sub(r.breaker.since) > r.patience(v) {
		r.stopAs(checkpoint.RunUnreachable, fmt.Errorf("the service has not answered for %s: %s",
			now.Sub(r.breaker.since).Round(time.Second), v.reason))
	}
}

// firstGiveUp is how long a service is tried that has never answered in this
// call: somebody who has mistyped an address should not wait ten minutes.
const firstGiveUp = 30 * time.Second

// patience is how long the service may stay down. An error of the service or of
// the gateway before it shows that the address is right.
func (r *run) patience(v verdict) time.Duration {
	if v.status >= http.StatusInternalServerError || v.status == http.StatusRequestTimeout {
		r.answered = true
	}
	if r.answered {
		return r.GiveUp
	}
	return min(r.GiveUp, firstGiveUp)
}

// sameFailures is the number of distinct items that fail alike, without a good
// one between, which shows that the fault is not of the items.
const sameFailures = 20

// streak counts failures alike.
type streak struct {
	key string
	n   int
}

// guard stops the run when its failures show that going on does harm.
func (r *run) guard(store context.Context, res result) {
	v := res.verdict
	switch v.action {
	case actDone, actSkip:
		r.streak = streak{}
		return
	case actFail:
	default:
		return
	}
	if !jobs.Writes(r.stage) {
		r.unread(res)
		return
	}
	if op, ok := rmm.Lookup(res.op); ok && !op.IsWrite() {
		return // a look-up that failed decides nothing
	}
	r.errors++
	if r.limit >= 0 && r.errors > r.limit {
		r.stopAs(checkpoint.RunGuard, &jobs.GuardError{Guard: "max_errors", Message: fmt.Sprintf(
			"%s failed, max_errors is %d; the last one, %s: %s", spell.Count(r.errors, "write"), r.limit, r.who(store, res.key), v.reason)})
	}
	key := fmt.Sprintf("%s %d %s", v.class, v.status, res.op)
	if r.streak.key != key {
		r.streak = streak{key: key}
	}
	if r.streak.n++; r.streak.n >= sameFailures && !ofTheRow(v) {
		r.stopAs(checkpoint.RunGuard, &jobs.GuardError{Guard: "early_stop", Message: fmt.Sprintf(
			"%s in a row failed alike; the last one, %s: %s", spell.Count(r.streak.n, "write"), r.who(store, res.key), v.reason)})
	}
}

// unread stops the run when a page of a list could not be read for a reason that
// may pass: a list with a hole is of no use, and what is read already is kept
// for the next try. Other failures are for the work to judge.
func (r *run) unread(res result) {
	if r.KeepGoing {
		return
	}
	v := res.verdict
	err := fmt.Errorf("%s cannot be read: %s", res.op, v.reason)
	switch v.class {
	case classPermission:
		r.stopAs(checkpoint.RunAuth, err)
	case classService, classNetwork:
		r.stopAs(checkpoint.RunUnreachable, err)
	case classProtocol:
		if v.outage {
			r.stopAs(checkpoint.RunUnreachable, err)
			return
		}
		// The API answers, but what it says cannot be the list.
		r.stopAs(checkpoint.RunIncomplete, &jobs.IncompleteError{Message: err.Error()})
	}
}

// ofTheRow tells whether a failure can be the fault of the row's own values.
func ofTheRow(v verdict) bool {
	return v.class == classRejected && v.status != 405 || v.class == classBug
}
