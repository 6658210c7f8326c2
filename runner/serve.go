package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// result is what a worker brings back of one item. The outcome is in the
// checkpoint already, unless err says that it could not be recorded.
type result struct {
	lane    *lane
	key     string
	op      string
	verdict verdict
	state   checkpoint.State
	again   time.Time // a pending item is due again then
	wakes   []string  // lanes of the items added
	heir    string    // key of the item added, if there is just one
	cause   error
	err     error
}

// recordTimeout bounds the recording of an outcome: long enough for a disk that
// stalls, short enough not to hang for ever.
const recordTimeout = 2 * time.Minute

// serve sends one claimed item and records what came of it. A panic fails the
// item and says so; the run goes on.
func (r *run) serve(store context.Context, g grant, claim checkpoint.Claim) (res result) {
	res = result{lane: g.lane, key: claim.Key, op: claim.Op}
	settled := false
	sent := false // it may have been carried out and must not be repeated
	permit := g.permit
	record := func(v verdict, body []byte, children []jobs.Item) {
		settled = true
		res.verdict = v
		res.err = r.finish(store, claim, v, body, children, &res)
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		stack := firstFrames(debug.Stack())
		permit.Cancel() // without effect when the answer was counted
		if settled {
			res.err = fmt.Errorf("panic after item %s was settled: %v (%s)", claim.Key, p, stack)
			return
		}
		v := verdict{action: actFail, class: classBug, reason: fmt.Sprintf("panic: %v (%s)", p, stack)}
		if sent {
			v.action = actDoubt
		}
		record(v, nil, nil)
	}()

	var req rmm.Request
	if err := json.Unmarshal(claim.Payload, &req); err != nil {
		permit.Cancel()
		record(verdict{action: actFail, class: classBug, reason: "the stored request cannot be read: " + err.Error()}, nil, nil)
		return res
	}
	op, err := req.Operation()
	if err != nil {
		permit.Cancel()
		record(verdict{action: actFail, class: classBug, reason: err.Error()}, nil, nil)
		return res
	}
	if replay(op) == checkpoint.ReplayAsk {
		if err := r.Store.MarkSent(store, claim, time.Now()); err != nil {
			permit.Cancel()
			res.err = err
			return res
		}
		sent = true
	}
	resp, err := r.Caller.Do(r.work, req)
	said := permit.Done(ResultOf(resp.Status, err))
	var children []jobs.Item
	if err == nil {
		children, err = r.Work.Follow(jobs.Item{Key: claim.Key, Request: req}, resp.Body)
		if err != nil {
			err = &rmm.Error{Op: req.Op, Kind: rmm.KindProtocol, Status: resp.Status, Message: err.Error(), JSON: true, Sent: true, Err: err}
		}
	}
	res.cause = err
	v := classify(op, err, said.Returned, r.work.Err() != nil)
	if err == nil {
		v.status = resp.Status
	}
	record(v, resp.Body, children)
	return res
}

// ResultOf tells the limiter what came back: the status of a good answer, or what
// the error of the client says.
func ResultOf(status int, err error) throttle.Result {
	var e *rmm.Error
	switch {
	case err == nil:
		return throttle.Result{Status: status, JSON: true}
	case errors.As(err, &e):
		if e.Kind == rmm.KindTransport && e.Sent {
			// It may have reached the server, and then it counts there.
			return throttle.Result{Status: http.StatusGatewayTimeout}
		}
		return throttle.Result{Status: e.Status, JSON: e.JSON, RetryAfter: e.RetryAfter, HasRetryAfter: e.HasRetryAfter}
	}
	return throttle.Result{}
}

// finish records the outcome of an item together with the items it adds.
func (r *run) finish(store context.Context, claim checkpoint.Claim, v verdict, body []byte, children []jobs.Item, res *result) error {
	ctx, cancel := context.WithTimeout(store, recordTimeout)
	defer cancel()
	now := time.Now()
	if v.action == actRetry && claim.Attempts >= attempts(v) {
		v.action = actFail
		v.reason = fmt.Sprintf("%s (after %s)", v.reason, spell.Count(claim.Attempts, "attempt"))
		res.verdict = v
	}
	var o checkpoint.Outcome
	switch v.action {
	case actDone:
		added := make([]checkpoint.NewItem, len(children))
		for i, it := range children {
			added[i] = newItem(it)
			res.wakes = append(res.wakes, added[i].Lane)
		}
		if len(children) == 1 {
			res.heir = children[0].Key
		}
		o, res.state = checkpoint.Done(body).Answered(v.status).With(added...), checkpoint.StateDone
	case actFail:
		o, res.state = checkpoint.Failed(v.class, v.reason, v.status), checkpoint.StateFailed
	case actSkip:
		o, res.state = checkpoint.Skipped(v.reason, v.status), checkpoint.StateSkipped
	case actRetry:
		res.again = now.Add(backoff(claim.Attempts, rand.Float64())) //nolint:gosec // jitter, not a secret
		o, res.state = checkpoint.RetryAt(res.again, v.reason, v.status), checkpoint.StatePending
	case actRelease:
		o, res.state = checkpoint.Released(v.reason), checkpoint.StatePending
	case actDoubt:
		o, res.state = checkpoint.InDoubt(v.class, v.reason, v.status), checkpoint.StateInDoubt
	}
	if v.class == classThrottled {
		o = o.Throttled()
	}
	if v.unsure {
		o = o.Unsure()
	}
	if v.action == actDone {
		if op, _ := rmm.Resolve(claim.Op); op.IsWrite() {
			o = o.Acked(checkpoint.Write)
		} else {
			o = o.Acked(checkpoint.Read)
		}
	}
	return r.Store.Finish(ctx, claim, now, o)
}

// replay says what a crash makes of an item of the operation.
func replay(op rmm.Operation) checkpoint.Replay {
	if op.Class == rmm.ClassRead || op.Class == rmm.ClassIdempotent {
		return checkpoint.ReplayFree
	}
	return checkpoint.ReplayAsk
}

// firstFrames is the top of a stack on one line: enough to find the fault, short
// enough for a table.
func firstFrames(stack []byte) string {
	var frames []string
	for line := range strings.Lines(string(stack)) {
		line = strings.TrimSpace(line)
		if file, _, ok := strings.Cut(line, " +0x"); ok && strings.Contains(file, ".go:") {
			frames = append(frames, file[strings.LastIndexByte(file, '/')+1:])
		}
	}
	const skip, show = 3, 3 // debug.Stack, the recovery and the panic itself
	if len(frames) > skip {
		frames = frames[skip:]
	}
	return strings.Join(frames[:min(show, len(frames))], " < ")
}
