package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// retryVerb does what has failed in a run once more, in the same run.
func retryVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	failed := f.Bool("failed", false, "what has failed; so without any of these flags")
	classes := f.StringSlice("class", nil, "of what has failed only this: transient, data, or an error class such as service")
	inDoubt := f.Bool("in-doubt", false, "also what is in doubt, which may then happen twice")
	yes := f.Bool("yes", false, "agree to send writes in doubt again that must not happen twice")
	rest := f.Bool("not-attempted", false, "also what the run has never come to")
	guards := f.maxErrors()
	limit := f.maxDuration()
	accept := f.acceptAccount()
	runs, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	what := checkpoint.Again{Failed: *failed || len(*classes) > 0 || !*inDoubt, InDoubt: *inDoubt, Except: []string{jobs.ClassDrifted, jobs.ClassStale, checkpoint.ClassGivenUp}}
	if len(*classes) > 0 {
		if what.Classes, err = errorClasses(*classes); err != nil {
			return err
		}
		what.Except = nil
	}
	rec, err := a.findRun(ctx, runs[0])
	if err != nil {
		return err
	}
	return a.executeStored(ctx, rec, options{yes: *yes, maxDuration: limit.d, guards: guards, acceptsAccount: *accept}, func(ctx context.Context, s *session) error {
		if err := s.retryable(ctx, what); err != nil {
			return err
		}
		left, err := s.notAttempted(ctx)
		if err != nil {
			return err
		}
		switch {
		case *rest:
			err = s.st.store.Unpark(ctx, s.rec.ID)
		case left > 0 && unfinished(s.rec.State):
			err = s.refuseRest(left)
		case left > 0: // a guard has stopped the run before these
			left, err = 0, s.st.store.Park(ctx, s.rec.ID, throttle.Read)
		}
		if err != nil {
			return err
		}
		// Who names them has seen that they were edited.
		s.overDrift = slices.Contains(what.Classes, jobs.ClassDrifted)
		return s.again(ctx, what, left)
	})
}

// errorClasses are the classes that words of the command line stand for.
func errorClasses(words []string) ([]string, error) {
	var classes []string
	known := append(runner.ErrorClasses(), jobs.ClassDrifted, jobs.ClassStale, jobs.ClassNotApplied, string(jobs.ClassProtected), checkpoint.ClassGivenUp)
	for _, word := range words {
		switch {
		case word == "transient":
			classes = append(classes, runner.TransientClasses()...)
		case word == "data":
			classes = append(classes, runner.DataClasses()...)
		case slices.Contains(known, word):
			classes = append(classes, word)
		default:
			return nil, usagef("there is no error class %q", word).withHint("known: transient, data, %s", strings.Join(known, ", "))
		}
	}
	return classes, nil
}

// retryable refuses a run in which nothing can be tried again.
func (s *session) retryable(ctx context.Context, what checkpoint.Again) error {
	rec := s.rec
	switch {
	case rec.State == checkpoint.RunSuperseded:
		return s.instead(ctx, s.st, rec, usagef("run %s was superseded by a newer one", rec.ID))
	case stoppedPlan(rec):
		return s.appliable()
	case rec.Stage == jobs.StagePlan:
		return usagef("run %s has sent nothing yet: it is a plan", rec.ID).withHint("carry it out: %s", s.nextCommand("apply", rec.ID))
	case waits(rec):
		return s.refuseWaiting(rec)
	}
	risky, err := s.unsafeAgain(ctx, rec, what)
	if err != nil {
		return err
	}
	return s.agreeTwice(ctx, risky)
}

// notAttempted counts the writes of the run that it was about to send when it
// stopped. Those that wait for the end of a trial are not among them.
func (s *session) notAttempted(ctx context.Context) (n int, err error) {
	if s.rec.Kind == kindExport {
		return 0, nil
	}
	lanes, err := s.st.store.Pending(ctx, s.rec.ID, "")
	for _, l := range lanes {
		if l.Lane == throttle.Read {
			continue
		}
		n += l.Items
		if s.rec.Stage != jobs.StageCanary && s.rec.Stage != jobs.StageTried {
			n += l.Held
		}
	}
	return n, err
}

// refuseRest refuses to send what was never attempted by the way.
func (s *session) refuseRest(left int) error {
	return usagef("run %s has stopped before %s, which a retry would send as well", s.rec.ID, count(int64(left), "write")).
		withHint("to go on with these first: %s", s.nextCommand("resume", s.rec.ID))
}

// unsafeAgain are the writes that would be tried again and must not happen twice,
// though nobody knows for certain that they did not happen.
func (s *session) unsafeAgain(ctx context.Context, rec checkpoint.Run, what checkpoint.Again) ([]checkpoint.Item, error) {
	items, err := s.st.store.Failures(ctx, rec.ID, 0)
	return slices.DeleteFunc(items, func(it checkpoint.Item) bool {
		doubted := what.InDoubt && it.State == checkpoint.StateInDoubt ||
			slices.Contains(what.Classes, checkpoint.ClassGivenUp) && it.Class == checkpoint.ClassGivenUp
		return !doubted || !unsafe(it)
	}), err
}

// unsafeInDoubt counts the writes in doubt that must not happen twice.
func (s *session) unsafeInDoubt(ctx context.Context, rec checkpoint.Run) (int, error) {
	items, err := s.st.store.Failures(ctx, rec.ID, 0)
	n := 0
	for _, it := range items {
		if it.State == checkpoint.StateInDoubt && unsafe(it) {
			n++
		}
	}
	return n, err
}

// unsafe tells whether a write must not happen twice.
func unsafe(it checkpoint.Item) bool {
	var req rmm.Request
	if json.Unmarshal(it.Payload, &req) != nil {
		return true
	}
	op, err := req.Operation()
	return err != nil || op.Class == rmm.ClassUnsafe
}

// again makes items pending again and takes the run back to the stage that sends
// them.
func (s *session) again(ctx context.Context, what checkpoint.Again, left int) error {
	if _, err := s.st.store.Recover(ctx, s.rec.ID, s.now()); err != nil {
		return err
	}
	n, err := s.st.store.Retry(ctx, s.rec.ID, what)
	if err != nil {
		return err
	}
	if n == 0 && left == 0 && !unfinished(s.rec.State) {
		return usagef("nothing of run %s can be tried again", s.rec.ID).withHint("what became of it: %s", s.nextCommand("show", s.rec.ID))
	}
	// What is sent again is also read back again.
	back := map[string]string{
		jobs.StageVerify: jobs.StageApply, jobs.StageTried: jobs.StageCanary,
		jobs.StageResumed: jobs.StageApply, jobs.StageRetrial: jobs.StageCanary, // from where all is compared anew
	}[s.rec.Stage]
	if back != "" {
		if err := s.st.store.Advance(ctx, s.rec.ID, s.now(), s.rec.Stage, back, checkpoint.Change{}); err != nil {
			return err
		}
	}
	text := count(int64(n), "item") + " tried again"
	if left > 0 {
		text += " and " + count(int64(left), "write") + " sent for the first time"
	}
	text += " by " + s.whoAmI()
	s.say("run %s: %s", s.rec.ID, text)
	return s.st.store.AddEvent(ctx, s.rec.ID, s.now(), "retry", text)
}
