package main

import (
	"context"
	"slices"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// goingOn is the command that goes on with a run in a state; "" where nothing is open.
func (a *app) goingOn(run, state string) string {
	switch {
	case state == stateWaiting:
		return a.nextCommand("apply", run)
	case canResume(state):
		return a.nextCommand("resume", run)
	case state == string(checkpoint.RunInDoubt):
		return a.nextCommand("resolve", run)
	}
	return ""
}

// proposeNext tells what can be done about a run that has ended with failures: look
// into what is in doubt, write over what was edited, or send once more what may pass
// by then.
func (s *session) proposeNext(ctx context.Context, state checkpoint.RunState) error {
	if s.job.Update == nil {
		return nil
	}
	if state == checkpoint.RunInDoubt {
		s.result.Next = s.nextCommand("resolve", s.rec.ID)
		return nil
	}
	failures, err := s.st.store.FailureCounts(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	drifted, passing := 0, 0
	for _, f := range failures {
		switch {
		case f.Lane == "" || f.Lane == throttle.Read: // never was a write
		case f.Class == jobs.ClassDrifted:
			drifted += f.Items
		case slices.Contains(runner.TransientClasses(), f.Class), slices.Contains(runner.DataClasses(), f.Class), f.Class == jobs.ClassNotApplied:
			passing += f.Items
		}
	}
	if passing > 0 {
		s.result.Next = s.nextCommand("retry", s.rec.ID)
	}
	if drifted > 0 {
		s.hint("%s were edited since the plan was made; to write over what is there now: %s",
			count(int64(drifted), "target"), s.nextCommand("retry", s.rec.ID, "--class", jobs.ClassDrifted))
	}
	return nil
}
