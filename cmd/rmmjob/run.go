package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// runVerb runs a job, or continues its unfinished run.
func runVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	fresh := f.Bool("new", false, "start a new run even if one is unfinished")
	full := f.Bool("full", false, "ignore what earlier runs of the job have left (since, reuse, changes) and remember this one")
	yes := f.Bool("yes", false, "agree to an operation that needs it: deletes, proxy changes, moves, quick jobs (asked for at a terminal)")
	partial := f.allowPartial()
	canary := f.canary()
	guards := f.guards()
	limit := f.maxDuration()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	return a.execute(ctx, rest[0], options{
		fresh: *fresh, full: *full, yes: *yes, guards: guards, maxDuration: limit.d, allowPartial: *partial, canary: canary.n, showValues: *canary.values,
	})
}

// resumeVerb continues an unfinished run: the only one, or the one named.
func resumeVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	partial := f.allowPartial()
	guards := f.maxErrors()
	limit := f.maxDuration()
	accept := f.acceptAccount()
	rest, err := f.parse(args, 0, 1)
	if err != nil {
		return err
	}
	rec, err := a.resumable(ctx, rest)
	if err != nil {
		return err
	}
	if done, err := a.resumePaused(ctx, rec); done || err != nil {
		return err
	}
	about, err := settingsOfRun(rec)
	if err != nil {
		return err
	}
	opt := options{maxDuration: limit.d, guards: guards, acceptsAccount: *accept}
	if *partial && rec.Kind != kindExport {
		return usagef("--allow-partial is for exports, and run %s is none", rec.ID)
	}
	if about.byPlan() || jobs.Planned(rec.Stage) {
		return a.executeStored(ctx, rec, opt, resumePlan)
	}
	opt.resume, opt.allowPartial = rec.ID, *partial
	return a.execute(ctx, rec.JobPath, opt)
}

// resumePlan goes on with a run that has its plan: with no other one, whatever its job
// and its input have become. Nobody has agreed to a new one.
func resumePlan(_ context.Context, s *session) error {
	s.say("continuing run %s, which was %s", s.rec.ID, lastWord(s.rec))
	if s.about.Hold != holdPlan {
		s.tellAge()
	}
	return nil
}

// maxDuration adds the flag of a time limit. Zero is none.
func (f *flags) maxDuration() *limitFlag {
	limit := &limitFlag{}
	f.Var(limit, "max-duration", "stop as resumable after this time, such as 4h (default none)")
	return limit
}

// limitFlag is a duration that is not negative.
type limitFlag struct{ d time.Duration }

func (l *limitFlag) String() string {
	if l.d == 0 {
		return ""
	}
	return l.d.String()
}

func (l *limitFlag) Type() string { return "duration" }

func (l *limitFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time such as 90m or 4h", text)
	}
	l.d = d
	return nil
}

// planVerb makes the plan of an update and stops before the first write.
func planVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	detailed := f.Bool("detailed-exitcode", false, "exit 20 when the plan has changes, 0 when it has none")
	values := f.Bool("show-values", false, "show field values, which may be secrets")
	paths := f.planPaths()
	guards := f.guards()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	files, err := a.checkPlanPaths(*paths)
	if err != nil {
		return err
	}
	return a.execute(ctx, rest[0], options{planOnly: true, fresh: true, detailed: *detailed, showValues: *values, planFiles: files, guards: guards})
}

// options are what the verbs run, resume and plan differ in.
type options struct {
	fresh       bool   // never continue a run
	full        bool   // begin without what earlier runs have left
	resume      string // id of the run to continue
	planOnly    bool
	detailed    bool
	showValues  bool
	planFiles   []string // absolute paths that the plan is written to
	guards      *guardFlags
	yes         bool // agrees to what needs a confirmation
	overDrift   bool // writes over what the first look of this session finds edited
	canary      int  // writes to try out before the rest; 0 for none
	maxDuration time.Duration

	acceptsAccount bool // another key than that of the run is one of the same account

	allowPartial bool // an incomplete export is published under another name
}

// resumable finds the run that resume is about.
func (a *app) resumable(ctx context.Context, args []string) (checkpoint.Run, error) {
	st, err := a.openState(ctx)
	if err != nil {
		return checkpoint.Run{}, err
	}
	defer func() { _ = st.Close() }()
	if len(args) == 1 {
		rec, err := st.store.FindRun(ctx, args[0])
		if err != nil {
			return rec, err
		}
		if err := a.refuseUndone(ctx, st, rec); err != nil {
			return rec, err
		}
		if waits(rec) {
			return rec, a.refuseWaiting(rec)
		}
		if !unfinished(rec.State) {
			return rec, a.instead(ctx, st, rec, usagef("run %s is %s: there is nothing to resume", rec.ID, stateWord(string(rec.State))))
		}
		return rec, nil
	}
	runs, err := st.store.Runs(ctx, 0, "")
	if err != nil {
		return checkpoint.Run{}, err
	}
	undone, err := st.undone(ctx)
	if err != nil {
		return checkpoint.Run{}, err
	}
	var found []checkpoint.Run
	var waiting []checkpoint.Run
	for _, rec := range runs {
		switch {
		case undone[rec.ID] != "": // it does not go on
		case waits(rec):
			waiting = append(waiting, rec)
		case unfinished(rec.State):
			found = append(found, rec)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(waiting) > 0 {
			return checkpoint.Run{}, a.refuseWaiting(waiting[0])
		}
		return checkpoint.Run{}, usagef("no run is unfinished: there is nothing to resume").withHint("all runs: %s", a.nextCommand("runs"))
	}
	e := usagef("%d runs are unfinished: name one", len(found))
	describe := st.describer(ctx)
	for _, rec := range found {
		info, err := describe(rec)
		if err != nil {
			return checkpoint.Run{}, err
		}
		e = e.withHint("%s  (%s, %s)", a.nextCommand("resume", rec.ID), rec.JobName, stateWord(info.State))
	}
	return checkpoint.Run{}, e
}

// instead adds to an error what to do about a run that cannot be resumed. Nothing of it
// leads past a guard or a failed trial.
func (a *app) instead(ctx context.Context, st *state, rec checkpoint.Run, e *exitError) error {
	about, err := settingsOfRun(rec)
	if err != nil {
		return err
	}
	switch {
	case rec.State == checkpoint.RunPlanned && rec.Stage == jobs.StagePlan:
		return e.withHint("to carry its plan out: %s", a.nextCommand("apply", rec.ID))
	case rec.Kind == kindExport:
		return e.withHint("a new run: %s", a.nextCommand("run", rec.JobPath))
	case about.UndoOf != "":
		return e.withHint("a new plan of what is left to take back: %s", a.nextCommand("undo", about.UndoOf))
	case stoppedPlan(rec):
		e = e.withHint("what it would have done: %s", a.nextCommand("show", rec.ID, "--plan"))
	default:
		next, err := a.mending(ctx, st, rec.State, rec.ID, rec.Stage, rec.State == checkpoint.RunInDoubt)
		if err != nil {
			return err
		}
		if next != "" {
			e = e.withHint("what is left of it: %s", next)
		}
		e = e.withHint("what became of it: %s", a.nextCommand("show", rec.ID))
	}
	return e.withHint("a new plan: %s", a.planAgain(rec, about))
}

// planAgain is the command that plans the job of a run again, with the guards that the run
// was given.
func (a *app) planAgain(rec checkpoint.Run, about runSettings) string {
	args := []string{rec.JobPath}
	for _, name := range slices.Sorted(maps.Keys(about.Guards)) {
		args = append(args, "--"+name, about.Guards[name])
	}
	return a.nextCommand("plan", args...)
}

// unfinished tells whether a run in this state can go on. A run that is running
// belongs to a process at work, or to one that died; the lock tells which.
func unfinished(s checkpoint.RunState) bool {
	switch s {
	case checkpoint.RunRunning, checkpoint.RunStopped, checkpoint.RunThrottled, checkpoint.RunAuth,
		checkpoint.RunUnreachable, checkpoint.RunLocalIO, checkpoint.RunAborted, checkpoint.RunInternal:
		return true
	}
	return false
}
