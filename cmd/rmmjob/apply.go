package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// oldPlan is the age from which a plan is warned about: much may have changed
// beside what it was compared with.
const oldPlan = 7 * 24 * time.Hour

// applyVerb carries out the plan of a run, and nothing else.
func applyVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	yes := f.Bool("yes", false, "agree to a plan that needs it: deletes, proxy changes, moves, quick jobs, an undo that clears fields")
	drift := f.Bool("accept-drift", false, "also write what was edited since the plan was made")
	canary := f.canary()
	guards := f.maxErrors()
	limit := f.maxDuration()
	accept := f.acceptAccount()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	rec, err := a.findRun(ctx, rest[0])
	if err != nil {
		return err
	}
	opt := options{yes: *yes, maxDuration: limit.d, canary: canary.n, showValues: *canary.values, guards: guards, acceptsAccount: *accept}
	return a.executeStored(ctx, rec, opt, func(ctx context.Context, s *session) error {
		s.overDrift = *drift
		if unfinished(s.rec.State) && s.rec.Stage != "" && s.about.byPlan() && s.about.Hold == holdNone || waits(s.rec) {
			s.say("continuing run %s, which was %s", s.rec.ID, lastWord(s.rec))
			if waits(s.rec) && s.canary == 0 {
				return s.openGate(ctx)
			}
			return s.tryMore(ctx)
		}
		if err := s.appliable(); err != nil {
			return err
		}
		s.tellAge()
		if err := s.agreed(ctx); err != nil {
			return err
		}
		s.about.Hold, s.about.Applied, s.about.Canary = holdNone, true, s.canary
		return s.keepSettings(ctx)
	})
}

// appliable refuses a run whose plan cannot be carried out.
func (s *session) appliable() error {
	switch rec := s.rec; {
	case rec.Stage == jobs.StagePlan && (rec.State == checkpoint.RunPlanned || s.about.Hold != holdNone && unfinished(rec.State)):
		return nil
	case stoppedPlan(rec):
		return fail(exitGuard, "a guard stopped the plan of run %s: %s", rec.ID, cmp.Or(rec.Error, "its history tells which")).
			withHint("if it is right as it is, raise the guard and plan again: %s", s.planAgain(rec, s.about))
	case rec.Kind == kindExport:
		return usagef("run %s is an export, which has no plan", rec.ID)
	case unfinished(rec.State) && s.about.Hold == holdPlan:
		return usagef("the plan of run %s is not finished: it is %s", rec.ID, lastWord(rec)).
			withHint("finish it and look: %s", s.nextCommand("resume", rec.ID))
	case unfinished(rec.State):
		return usagef("run %s has been begun already: it is %s", rec.ID, stateWord(string(rec.State))).withHint("to go on with it: %s", s.nextCommand("resume", rec.ID))
	default:
		return usagef("run %s has no plan that waits: it is %s", rec.ID, stateWord(string(rec.State))).withHint("what became of it: %s", s.nextCommand("show", rec.ID))
	}
}

// stoppedPlan tells whether a guard has stopped the plan of a run before the first write.
func stoppedPlan(rec checkpoint.Run) bool {
	return rec.Stage == jobs.StageGuarded || rec.Stage == jobs.StagePlan && rec.State == checkpoint.RunGuard // as older programs had it
}

// agreed makes sure that a person agrees to a plan that needs it: with --yes, in the
// job, or by the number of its requests where somebody can be asked.
func (s *session) agreed(ctx context.Context) error {
	if s.yes {
		return nil
	}
	c, err := s.consent(ctx)
	if err != nil || c.Why == "" || c.Writes == 0 {
		return err
	}
	if s.mayAsk() {
		if yes, err := s.agreesToPlan(ctx, c); err != nil || yes {
			return err
		}
	}
	return s.unagreed(c.Why)
}

// tellAge tells what a person should know of a plan that was made a while ago.
func (s *session) tellAge() {
	if age := s.now().Sub(s.rec.Created); age > oldPlan {
		s.warn("the plan is %s old; what was edited since is held back, but what has been added is not in it", count(int(age.Hours()/24), "day"))
	}
	if s.about.UndoOf != "" {
		return
	}
	job, err := jobs.Load(s.rec.JobPath)
	switch {
	case err != nil:
		s.warn("the job file %s cannot be read any more; the plan is carried out as it was made", s.rec.JobPath)
		return
	case job.Hash != s.rec.JobHash:
		s.warn("the job file has changed since the plan was made; the plan is carried out as it was made")
		return
	}
	var faults jobs.Errors
	input, err := jobs.OpenInput(job)
	switch {
	case errors.As(err, &faults), err == nil && input != nil && input.Hash != s.rec.InputHash:
		s.warn("the input has changed since the plan was made; the plan is carried out as it was made")
	}
}
