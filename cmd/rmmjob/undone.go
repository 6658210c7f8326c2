package main

import (
	"context"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// undone tells which runs were taken back, wholly or in part, by the last undo of each that
// has written something. It is read from the undos, so that it holds however they ended.
func (s *state) undone(ctx context.Context) (map[string]string, error) {
	runs, err := s.store.Runs(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	by := map[string]string{}
	for _, rec := range runs { // newest first
		if rec.Kind != kindUndo {
			continue
		}
		about, err := settingsOfRun(rec)
		if err != nil {
			return nil, err
		}
		if by[about.UndoOf] != "" {
			continue
		}
		wrote, err := s.wrotePerhaps(ctx, rec)
		if err != nil {
			return nil, err
		}
		if wrote {
			by[about.UndoOf] = rec.ID
		}
	}
	return by, nil
}

// undoneBy is the undo that has taken a run back, as undone tells it; "" for none.
func (s *state) undoneBy(ctx context.Context, run string) (string, error) {
	undone, err := s.undone(ctx)
	return undone[run], err
}

// carriesOut tells whether a run has got to carrying its plan out.
func carriesOut(rec checkpoint.Run) bool {
	return jobs.Planned(rec.Stage) && rec.Stage != jobs.StagePlan && !stoppedPlan(rec)
}

// wrotePerhaps tells whether a run has written something, or may have.
func (s *state) wrotePerhaps(ctx context.Context, rec checkpoint.Run) (bool, error) {
	switch {
	case rec.Writes > 0:
		return true, nil
	case !carriesOut(rec):
		return false, nil
	case jobs.Writes(rec.Stage): // those in flight are of a process that died, or is at work
		c, err := s.store.Counts(ctx, rec.ID)
		if err != nil || c.Running > 0 {
			return err == nil, err
		}
	}
	return s.changedSomething(ctx, rec.ID)
}

// refuseUndone refuses to send anything more of a run that was taken back: it would do
// again what was undone.
func (a *app) refuseUndone(ctx context.Context, st *state, rec checkpoint.Run) error {
	by, err := st.undoneBy(ctx, rec.ID)
	if err != nil || by == "" {
		return err
	}
	about, err := settingsOfRun(rec)
	if err != nil {
		return err
	}
	e := usagef("run %s was taken back by run %s: it would do again what was undone", rec.ID, by)
	if about.UndoOf != "" {
		return e.withHint("make a new plan: %s", a.nextCommand("undo", about.UndoOf))
	}
	return e.withHint("make a new plan: %s", a.planAgain(rec, about))
}
