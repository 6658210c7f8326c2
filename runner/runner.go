package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// Work decides what a run requests; the runner decides when. [jobs.ExportWork],
// [jobs.UpdateWork], [jobs.UndoWork] and [jobs.CheckWork] are the works there are.
type Work interface {
	// Start returns the first stage of a fresh run and its items.
	Start() (stage string, items []jobs.Item)
	// Follow returns the items that a good answer adds. An error means that the
	// answer cannot be used, and is treated like a broken answer.
	Follow(it jobs.Item, body []byte) ([]jobs.Item, error)
	// Settle says what comes when no item of the stage is left to send.
	Settle(ctx context.Context, stage string, a jobs.Answers) (jobs.Step, error)
}

// rechecker is a work that looks again before it goes on after a pause.
type rechecker interface {
	// Recheck returns the stage to go back to when a run is taken up in a stage,
	// with the writes that are left on hold; "" to go on where it stopped.
	Recheck(stage string) string
}

// Caller sends one request. [rmm.Client] is one.
type Caller interface {
	Do(ctx context.Context, req rmm.Request) (rmm.Response, error)
}

// Config is what Run needs. Store, RunID, Work, Caller and Limiter are required.
type Config struct {
	Store   *checkpoint.Store
	RunID   string // a run that exists in Store; its lock is held by the caller
	Work    Work
	Caller  Caller
	Limiter *throttle.Limiter

	// Login, if set, is called once before the first request, so that a refused
	// login is known before anything else happens.
	Login func(context.Context) error
	// Abort, if set, cuts off requests in flight when it ends: the second Ctrl-C.
	Abort context.Context
	// Observe, if set, is called after every change, from one goroutine at a time.
	Observe func(Progress)
	// KeepGoing reads on after a page that could not be read, and leaves it to the
	// work to judge what there is at the end.
	KeepGoing bool
	// ReadOnly leaves writes alone that are pending.
	ReadOnly bool
	// MaxErrors, if set, gives the number of failed writes that the run may have,
	// from the number of writes that it plans. One more stops it.
	MaxErrors func(writes int) int

	// Memory is the id of what the job remembers, from which items that were born
	// recalled take their answers; 0 for nothing. They are sent if it is gone.
	Memory int64

	Workers int           // requests in flight at most, 1 to 64; 0 means 8
	Grace   time.Duration // how long a stop waits for requests in flight; 0 means 30 s
	GiveUp  time.Duration // how long the service may stay down before the run stops; 0 means 10 min

	Host string // for the record of the run
	PID  int
}

// Summary is how a call of Run ended.
type Summary struct {
	// State is the state that the run is in as far as requests go: RunOK,
	// RunPartial, RunInDoubt, RunPlanned, or why it stopped. The caller publishes
	// files and then ends the run in the store.
	State checkpoint.RunState
	Err   error // why it stopped early; nil when the work is finished
	Stage string

	Counts  checkpoint.Counts
	Retries int           // requests repeated after a fault, in this call
	Held    time.Duration // how long the throttle held the run back, in this call
	Waited  time.Duration // how long it had nothing to do but wait for the next try, in this call
	Down    time.Duration // of that because the service was down; else single items were refused for the time being
	Notes   []string      // what a person should know: lists that were read again
	Plan    map[jobs.RowClass]int
}

// Progress is a moment of a run.
type Progress struct {
	Stage     string
	Items     int // known so far; lists add their pages as they are read
	Settled   int
	Failed    int
	InFlight  int
	HoldUntil time.Time // the service is down: nothing is sent before; zero otherwise
	HoldCause string    // what the last request met, while HoldUntil is set

	// TimeLeft is how long the requests of the run will take from now on, at the pace that the
	// limits allow, if LeftKnown: not while a list has not told its length, or what comes next
	// hangs on answers.
	TimeLeft  time.Duration
	LeftKnown bool
}

var (
	errStopped = errors.New("the run was stopped")
	errAborted = errors.New("the run was aborted")
)

// run is one call of Run. Only the goroutine of Run touches its fields; workers
// and waiters talk to it through the two channels.
type run struct {
	Config
	stage    string
	counts   checkpoint.Counts
	lanes    map[string]*lane
	grants   chan grant
	results  chan result
	waiters  sync.WaitGroup
	workers  sync.WaitGroup
	ready    []grant // permits that arrived while every worker was busy
	busy     int
	waiting  int
	work     context.Context // cancelled to cut requests off
	cutOff   context.CancelCauseFunc
	breaker  breaker
	streak   streak
	denied   map[string]bool // items that were refused with 401
	forecast forecast
	surveyed string // the stage that the forecast is about
	errors   int    // failed writes
	limit    int    // failed writes allowed; negative for no limit
	stood    standstill
	answered bool
	halt     checkpoint.RunState
	haltErr  error
	sum      Summary
}

// lane is the queue of one kind of request.
type lane struct {
	name    string
	waiting bool      // a waiter asks the limiter for a permit
	empty   bool      // nothing is pending
	next    time.Time // nothing is due before
}

// grant is what a waiter brings back.
type grant struct {
	lane   *lane
	permit *throttle.Permit
	err    error
	probe  bool // asked for to see whether the service is back
}

// Run drains the run until its work is done or something stops it. It returns
// an error only where the checkpoint fails; everything else is in the Summary,
// and the run can be taken up again by another call. No goroutine outlives it.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = 8
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 30 * time.Second
	}
	if cfg.GiveUp <= 0 {
		cfg.GiveUp = 10 * time.Minute
	}
	if cfg.Abort == nil {
		cfg.Abort = context.Background()
	}
	r := &run{Config: cfg, limit: -1, denied: map[string]bool{}, grants: make(chan grant), results: make(chan result, cfg.Workers)}
	// The checkpoint is written to the end even after a stop.
	store := context.WithoutCancel(ctx)
	r.work, r.cutOff = context.WithCancelCause(store)
	defer r.cutOff(errStopped)

	r.stood = r.standing()
	held := cfg.Limiter.Held()
	err := r.drive(ctx, store)
	r.sum.Held = cfg.Limiter.Held() - held
	r.sum.Stage = r.stage
	counts, cerr := cfg.Store.Counts(store, cfg.RunID)
	if err = errors.Join(err, cerr); err != nil {
		return r.sum, err
	}
	r.sum.Counts = counts
	r.sum.Err = r.haltErr
	switch {
	case r.halt != "":
		r.sum.State = r.halt
	case counts.InDoubt > 0:
		r.sum.State = checkpoint.RunInDoubt
	case counts.Pending > 0 && !r.ReadOnly: // parked
		r.sum.State = checkpoint.RunGuard
		r.sum.Err = &jobs.GuardError{Guard: "not_attempted", Message: fmt.Sprintf(
			"%s not sent: a guard had stopped the run before", spell.Count(counts.Pending, "write was", "writes were"))}
	case counts.Failed > 0:
		r.sum.State = checkpoint.RunPartial
	default:
		r.sum.State = checkpoint.RunOK
	}
	return r.sum, nil
}

// drive goes through the stages.
func (r *run) drive(ctx, store context.Context) error {
	if err := r.begin(store); err != nil {
		return err
	}
	connected := false
	for r.halt == "" {
		if err := r.recall(ctx, store); err != nil || r.halt != "" {
			return err
		}
		names, err := r.Store.Lanes(store, r.RunID)
		if err != nil {
			return err
		}
		if r.ReadOnly {
			names = slices.DeleteFunc(names, func(name string) bool { return name != throttle.Read })
		}
		if len(names) > 0 {
			if !connected {
				if r.connect(ctx); r.halt != "" {
					return nil
				}
				connected = true
			}
			if err := r.drain(ctx, store, names); err != nil || r.halt != "" {
				return err
			}
			if r.mustLook() {
				if err := r.lookAgain(store); err != nil {
					return err
				}
				continue
			}
		}
		done, err := r.settle(ctx, store)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// begin takes the run up: what a crash left running is settled, and a fresh run
// gets its first items.
func (r *run) begin(store context.Context) error {
	now := time.Now()
	if err := r.Store.BeginRun(store, r.RunID, now, r.Host, r.PID); err != nil {
		return err
	}
	if _, err := r.Store.Recover(store, r.RunID, now); err != nil {
		return err
	}
	rec, err := r.Store.Run(store, r.RunID)
	if err != nil {
		return err
	}
	if r.stage = rec.Stage; r.stage != "" {
		if err := r.recheck(store); err != nil {
			return err
		}
		if jobs.Reads(r.stage) {
			// Pages that could not be read get another chance; failed writes are
			// for a person to look at.
			if _, err := r.Store.Retry(store, r.RunID, checkpoint.Again{Failed: true, Lane: throttle.Read}); err != nil {
				return err
			}
		}
		if r.counts, err = r.Store.Counts(store, r.RunID); err != nil {
			return err
		}
		return r.limitErrors(store)
	}
	stage, items := r.Work.Start()
	return r.advance(store, jobs.Step{Stage: stage, Items: func(yield func(jobs.Item) bool) {
		for _, it := range items {
			if !yield(it) {
				return
			}
		}
	}})
}

// recheck takes a run that has writes left back to the look at their targets.
func (r *run) recheck(store context.Context) error {
	back := r.back()
	if back == "" {
		return nil
	}
	lanes, err := r.Store.Pending(store, r.RunID, "")
	if err != nil || !slices.ContainsFunc(lanes, func(l checkpoint.PendingCount) bool { return l.Lane != throttle.Read }) {
		return err
	}
	if err := r.Store.Advance(store, r.RunID, time.Now(), r.stage, back, checkpoint.Change{Hold: true, Spare: throttle.Read}); err != nil {
		return err
	}
	r.stage = back
	return nil
}

// advance stores a step: a new stage in one transaction with all that it adds
// and decides, more of the same stage by and by, since doing that twice does no
// harm. What is released is the last of it.
func (r *run) advance(store context.Context, step jobs.Step) (err error) {
	if step.Stage == r.stage {
		if _, err = r.Store.Settle(store, r.RunID, time.Now(), settled(step.Decisions)); err == nil {
			_, err = r.Store.AddItems(store, r.RunID, time.Now(), newItems(step.Items))
		}
		if err == nil && step.Release != 0 {
			err = r.Store.Release(store, r.RunID, step.Release)
		}
	} else {
		err = r.Store.Advance(store, r.RunID, time.Now(), r.stage, step.Stage, checkpoint.Change{
			Items: newItems(step.Items), Rows: newRows(step.Rows), Settle: slices.Values(settled(step.Decisions)), Release: step.Release,
			Revise: revised(step.Revise),
		})
	}
	if err != nil {
		return err
	}
	r.stage, r.forecast.current = step.Stage, false
	if r.counts, err = r.Store.Counts(store, r.RunID); err != nil {
		return err
	}
	if err := r.limitErrors(store); err != nil {
		return err
	}
	r.observe(time.Time{}, "")
	return nil
}

// limitErrors sets how many writes may fail, and how many did so in earlier
// calls. What was held back was never sent.
func (r *run) limitErrors(store context.Context) error {
	if r.MaxErrors == nil || !jobs.Writes(r.stage) {
		return nil
	}
	rows, err := r.Store.RowCounts(store, r.RunID)
	if err != nil {
		return err
	}
	failures, err := r.Store.FailureCounts(store, r.RunID)
	if err != nil {
		return err
	}
	r.limit = r.MaxErrors(rows[string(jobs.ClassChange)] + rows[string(jobs.ClassClear)])
	r.errors = 0
	for _, f := range failures {
		if f.Lane != "" && f.Lane != throttle.Read && !jobs.HeldBack(f.Class) {
			r.errors += f.Items
		}
	}
	return nil
}

// connect logs in and takes the first reading of the limits.
func (r *run) connect(ctx context.Context) {
	began := time.Now()
	for n := 1; r.Login != nil; n++ {
		err := r.Login(ctx)
		if err == nil {
			r.answered = true
			break
		}
		if ctx.Err() != nil {
			r.stop(ctx)
			return
		}
		v := classify(rmm.Operation{Class: rmm.ClassRead}, err, false, false)
		if v.status == http.StatusForbidden || v.status == http.StatusTooManyRequests {
			// A block or a limit is the limiter's business, whose first reading
			// logs in as well.
			break
		}
		wait := backoff(n, rand.Float64()) //nolint:gosec // jitter, not a secret
		switch {
		case v.halt != "":
			r.stopAs(v.halt, err)
		case !v.outage:
			r.stopAs(checkpoint.RunInternal, err)
		case final(err) || time.Since(began)+wait > r.patience(v):
			r.stopAs(checkpoint.RunUnreachable, err)
		}
		if r.halt != "" {
			return
		}
		before := time.Now()
		r.observe(before.Add(wait), v.reason)
		ok := sleep(ctx, wait)
		r.waited(time.Since(before), true)
		if !ok {
			r.stop(ctx)
			return
		}
	}
	if err := r.Limiter.Start(ctx); err != nil {
		if ctx.Err() != nil {
			r.stop(ctx)
			return
		}
		var spent *throttle.ExhaustedError
		if errors.As(err, &spent) {
			r.stopAs(checkpoint.RunThrottled, err)
			return
		}
		r.stopAs(checkpoint.RunUnreachable, err)
	}
}

// settle asks the work what comes next; true when nothing does.
func (r *run) settle(ctx, store context.Context) (bool, error) {
	step, err := r.Work.Settle(ctx, r.stage, answers{r.Store, r.RunID})
	var incomplete *jobs.IncompleteError
	var guard *jobs.GuardError
	var faults jobs.Errors
	switch {
	case err == nil:
	case errors.As(err, &incomplete):
		r.stopAs(checkpoint.RunIncomplete, err)
		return true, nil
	case errors.As(err, &guard):
		r.stopAs(checkpoint.RunGuard, err)
		return true, nil
	case errors.As(err, &faults):
		r.stopAs(faultState(r.stage), err)
		return true, nil
	case ctx.Err() != nil:
		r.stop(ctx)
		return true, nil //nolint:nilerr // the work was told to stop, and did
	default:
		return true, fmt.Errorf("settle stage %q: %w", r.stage, err)
	}
	if step.Note != "" {
		r.sum.Notes = append(r.sum.Notes, step.Note)
		if err := r.Store.AddEvent(store, r.RunID, time.Now(), "note", step.Note); err != nil {
			return true, err
		}
	}
	if step.Plan != nil {
		r.sum.Plan = step.Plan
	}
	if step.Done {
		_, err := r.Store.Settle(store, r.RunID, time.Now(), settled(step.Decisions))
		return true, err
	}
	if step.Guard != nil {
		if err := r.Store.AddEvent(store, r.RunID, time.Now(), "guard", step.Guard.Message); err != nil {
			return true, err
		}
	}
	if err := r.advance(store, step); err != nil {
		return true, err
	}
	switch {
	case step.Guard != nil:
		r.stopAs(checkpoint.RunGuard, step.Guard)
		return true, nil //nolint:nilerr // the guard stops the run, and is no error of the runner
	case step.Hold:
		r.stopAs(checkpoint.RunPlanned, nil)
		return true, nil
	}
	return false, nil
}

// faultState is the state of a run whose job turns out to be at fault. As long as it has only read it ends for good:
// going on would meet the same fault. A run that may have written can go on once the fault is mended.
func faultState(stage string) checkpoint.RunState {
	switch stage {
	case jobs.StageParents, jobs.StageSource, jobs.StageRead, jobs.StageDetails:
		return checkpoint.RunIncomplete
	}
	return checkpoint.RunStopped
}

// stopAs notes why the run stops, once: the first reason counts.
func (r *run) stopAs(state checkpoint.RunState, err error) {
	if r.halt == "" {
		r.halt, r.haltErr = state, err
	}
}

// stop notes that a person or a time limit stopped the run.
func (r *run) stop(ctx context.Context) {
	if r.Abort.Err() != nil {
		r.stopAs(checkpoint.RunAborted, errAborted)
		return
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) {
		cause = errStopped
	}
	r.stopAs(checkpoint.RunStopped, cause)
}

// observe reports progress: until when nothing is sent, if so, and why.
func (r *run) observe(hold time.Time, cause string) {
	if r.Observe == nil {
		return
	}
	c := r.counts
	left, known := r.timeLeft()
	r.Observe(Progress{
		Stage: r.stage, Items: c.Items, Settled: c.Done + c.Unchanged + c.Skipped + c.Failed + c.InDoubt, Failed: c.Failed,
		InFlight: r.busy, HoldUntil: hold, HoldCause: cause, TimeLeft: left, LeftKnown: known,
	})
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// newItems turns items of the job into rows of the checkpoint.
func newItems(items iter.Seq[jobs.Item]) iter.Seq[checkpoint.NewItem] {
	return func(yield func(checkpoint.NewItem) bool) {
		if items == nil {
			return
		}
		for it := range items {
			if !yield(newItem(it)) {
				return
			}
		}
	}
}
