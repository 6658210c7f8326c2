package main

import (
	"context"
	"slices"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// goingOn is the command that goes on with a run as it is shown; "" where nothing is
// open, or where nothing but a person can tell what is right.
func (a *app) goingOn(ctx context.Context, st *state, r runInfo) (string, error) {
	state := checkpoint.RunState(r.State)
	switch {
	case r.UndoneBy != nil:
		return "", nil
	case r.State == stateWaiting, state == checkpoint.RunPlanned && r.Stage == jobs.StagePlan:
		return a.nextCommand("apply", r.Run), nil
	case canResume(r.State):
		return a.nextCommand("resume", r.Run), nil
	case state == checkpoint.RunInDoubt:
		return a.nextCommand("resolve", r.Run), nil
	case r.Kind == kindExport:
		return "", nil
	}
	return a.mending(ctx, st, state, r.Run, r.Stage, r.Counts.InDoubt > 0)
}

// mending is the command that takes up what an update has left: a look into what is in
// doubt, or another try of what may pass by now. After a guard has stopped the run in
// the middle of its writes, that is for a person to decide.
func (a *app) mending(ctx context.Context, st *state, state checkpoint.RunState, run, stage string, doubt bool) (string, error) {
	trial := state == checkpoint.RunGuard && (stage == jobs.StageCanary || stage == jobs.StageTried)
	switch {
	case state != checkpoint.RunPartial && state != checkpoint.RunInDoubt && state != checkpoint.RunGuard:
		return "", nil
	case doubt:
		return a.nextCommand("resolve", run), nil
	case state == checkpoint.RunGuard && !trial:
		return "", nil
	}
	left, err := st.failedWrites(ctx, run)
	if err != nil || left.passing == 0 {
		return "", err
	}
	return a.nextCommand("retry", run), nil
}

// failedWrites counts the writes of a run that failed: those whose targets were edited,
// those that only a new plan can bring on, and those that another try may get through.
type failedWrites struct{ drifted, stale, passing int }

func (s *state) failedWrites(ctx context.Context, run string) (left failedWrites, err error) {
	failures, err := s.store.FailureCounts(ctx, run)
	for _, f := range failures {
		switch {
		case f.Class == jobs.ClassStale: // those with nothing to send, too
			left.stale += f.Items
		case f.Lane == "" || f.Lane == throttle.Read: // never was a write
		case f.Class == jobs.ClassDrifted:
			left.drifted += f.Items
		case slices.Contains(runner.TransientClasses(), f.Class), slices.Contains(runner.DataClasses(), f.Class), f.Class == jobs.ClassNotApplied:
			left.passing += f.Items
		}
	}
	return left, err
}

// proposeNext tells what can be done about a run that has ended with failures: the next
// command, and hints at what else there is.
func (s *session) proposeNext(ctx context.Context, state checkpoint.RunState, stage string, c checkpoint.Counts) (hints []string, err error) {
	if s.job.Update == nil || stage == jobs.StagePlan {
		return nil, nil
	}
	if s.result.Next, err = s.mending(ctx, s.st, state, s.rec.ID, stage, c.InDoubt > 0); err != nil {
		return nil, err
	}
	left, err := s.st.failedWrites(ctx, s.rec.ID)
	if err != nil {
		return nil, err
	}
	if left.drifted > 0 {
		hints = append(hints, count(left.drifted, "target was", "targets were")+" edited since the plan was made; to write over what is there now: "+
			s.nextCommand("retry", s.rec.ID, "--class", jobs.ClassDrifted))
	}
	if left.stale > 0 {
		anew := s.nextCommand("plan", s.rec.JobPath)
		if s.about.UndoOf != "" {
			anew = s.nextCommand("undo", s.about.UndoOf)
		}
		hints = append(hints, count(left.stale, "target is", "targets are")+" not what was planned any more; make a new plan for what is there now: "+anew)
	}
	if state != checkpoint.RunGuard {
		return hints, nil
	}
	if (stage == jobs.StageApply || stage == jobs.StageVerify) && c.Pending > 0 {
		rest := "to send the rest: "
		if left.passing > 0 {
			hints = append(hints, "to try nothing but what failed again: "+s.nextCommand("retry", s.rec.ID))
			rest = "to try what failed again and send the rest as well: "
		}
		hints = append(hints, rest+s.nextCommand("retry", s.rec.ID, "--not-attempted"))
	}
	if s.rec.Writes > 0 && s.about.UndoOf == "" {
		hints = append(hints, "to take back what was done: "+s.nextCommand("undo", s.rec.ID))
	}
	return hints, nil
}

// lines joins hints.
func lines(hints ...string) string {
	return strings.Join(slices.DeleteFunc(hints, func(h string) bool { return h == "" }), "\n")
}
