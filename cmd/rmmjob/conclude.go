package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// conclude publishes what is finished, ends the run in the checkpoint and fills
// in the result.
func (s *session) conclude(sum runner.Summary, err error) error {
	ctx := context.Background()
	if err != nil {
		// The checkpoint failed. What was recorded stays; the run can go on.
		code, hint := causeOf(err, s.stop)
		s.result.State = string(stateOf(code))
		s.result.Next = s.resumeCommand()
		_ = s.st.store.EndRun(ctx, s.rec.ID, s.now(), stateOf(code), int(code), err.Error())
		return &exitError{code: code, err: err, hint: hint}
	}
	state, cause := sum.State, sum.Err
	if s.job.Export != nil {
		state, cause = s.publish(ctx, &sum)
	}
	if s.checking != nil && unstopped(state) {
		state = settledState(s.rec, sum.Counts)
	}
	if s.job.Update != nil {
		if rerr := errors.Join(s.writeResults(ctx), s.writeAnswers(ctx)); rerr != nil && cause == nil {
			state, cause = checkpoint.RunLocalIO, rerr
		}
	}
	if guard, ok := errors.AsType[*jobs.GuardError](cause); ok && len(guard.Held) > 0 {
		if rerr := s.saveRejects(s.st, guard.Headings, slices.Values(guard.Held)); rerr != nil {
			state, cause = checkpoint.RunLocalIO, rerr
		}
	}
	code, hint := codeOf(state), ""
	text := ""
	waiting := state == checkpoint.RunPlanned && sum.Stage == jobs.StageWait
	if waiting {
		state, code, text = checkpoint.RunStopped, exitCanary, "the first writes are as wanted; the rest waits for a decision"
	}
	if state == checkpoint.RunPlanned && s.about.Hold == holdAsk {
		cause = s.unagreed(s.job.Update.Confirmation())
	}
	if cause != nil {
		text = cause.Error()
		if c, h := classify(cause, s.stop); c == exitUsage && (state == checkpoint.RunPlanned || state == checkpoint.RunStopped || state == checkpoint.RunIncomplete) {
			code, hint = c, h
		} else {
			hint = h
		}
	}
	if guard, ok := errors.AsType[*jobs.GuardError](cause); ok && guard.Headings != nil {
		hint = "to look at the plan: " + s.nextCommand("show", s.rec.ID, "--plan")
	}
	if code == exitIncomplete && s.job.Export != nil {
		hint = s.partialHint()
	}
	if err := s.st.store.EndRun(ctx, s.rec.ID, s.now(), state, int(code), text); err != nil {
		return err
	}
	rec, err := s.st.store.Run(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	s.rec = rec
	if err := s.closeTakenBack(ctx); err != nil {
		return err
	}
	s.result.State, s.result.Code = string(state), code
	switch {
	case waiting:
		s.result.State, s.result.Next = stateWaiting, s.nextCommand("apply", rec.ID)
	case unfinished(state):
		s.result.Next = s.resumeCommand()
	default:
		hints, err := s.proposeNext(ctx, state, sum.Stage, sum.Counts)
		if err != nil {
			return err
		}
		hint = lines(append([]string{hint}, hints...)...)
	}
	if err := s.report(ctx, sum); err != nil {
		return err
	}
	if state == checkpoint.RunPlanned && s.about.Hold == holdPlan {
		if s.detailed && sum.Plan[jobs.ClassChange]+sum.Plan[jobs.ClassClear] > 0 {
			s.result.Code = exitChanges
		}
		return nil
	}
	if cause != nil {
		return &exitError{code: code, err: cause, hint: hint}
	}
	for line := range strings.SplitSeq(hint, "\n") {
		if line != "" {
			s.hint("%s", line)
		}
	}
	return nil
}

// stateCodes ties the states of runs to exit codes.
var stateCodes = map[checkpoint.RunState]exitCode{
	checkpoint.RunOK: exitOK, checkpoint.RunPlanned: exitOK, checkpoint.RunSuperseded: exitOK,
	checkpoint.RunPartial: exitPartial, checkpoint.RunInDoubt: exitInDoubt, checkpoint.RunGuard: exitGuard,
	checkpoint.RunThrottled: exitThrottled, checkpoint.RunAuth: exitAuth, checkpoint.RunStopped: exitStopped,
	checkpoint.RunUnreachable: exitUnreachable, checkpoint.RunLocalIO: exitLocalIO,
	checkpoint.RunIncomplete: exitIncomplete, checkpoint.RunAborted: exitAborted,
	checkpoint.RunInternal: exitInternal, checkpoint.RunRunning: exitInternal,
}

// codeOf is the exit code of a run in this state.
func codeOf(s checkpoint.RunState) exitCode { return stateCodes[s] }

// stateOf is the state of a run that ended with this code for a reason outside
// the run itself.
func stateOf(code exitCode) checkpoint.RunState {
	for s, c := range stateCodes {
		if c == code && unfinished(s) && s != checkpoint.RunRunning {
			return s
		}
	}
	return checkpoint.RunInternal
}
