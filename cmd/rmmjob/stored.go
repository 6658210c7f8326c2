package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// settingsOfRun is what a run remembers of its start.
func settingsOfRun(rec checkpoint.Run) (runSettings, error) {
	var about runSettings
	if len(rec.Settings) == 0 {
		return about, nil
	}
	if err := json.Unmarshal(rec.Settings, &about); err != nil {
		return about, fmt.Errorf("settings of run %s: %w", rec.ID, err)
	}
	return about, nil
}

// byPlan tells that the run goes on by what is stored of it, whatever its job file
// and its input have become.
func (r runSettings) byPlan() bool { return r.Applied || r.UndoOf != "" }

// storedJob is the job as it was when the run began.
func storedJob(rec checkpoint.Run, about runSettings) (*jobs.Job, error) {
	if about.Source != nil {
		job, err := jobs.Parse(about.Source, rec.JobPath)
		if err == nil {
			job.Name = rec.JobName
		}
		return job, err
	}
	// A run of an older version, which kept no copy.
	job, err := jobs.Load(rec.JobPath)
	if err == nil && job.Hash != rec.JobHash {
		err = usagef("the job file %s has changed since run %s, which kept no copy of it", rec.JobPath, rec.ID)
	}
	return job, err
}

// findRun finds a run by its id or the beginning of it.
func (a *app) findRun(ctx context.Context, prefix string) (checkpoint.Run, error) {
	st, err := a.openState(ctx)
	if err != nil {
		return checkpoint.Run{}, err
	}
	defer func() { _ = st.Close() }()
	return st.store.FindRun(ctx, prefix)
}

// executeStored carries a run on by what is stored of it. begin, if set, is called
// once the run is locked and may refuse or change it.
func (a *app) executeStored(ctx context.Context, rec checkpoint.Run, opt options, begin func(context.Context, *session) error) error {
	return a.withStored(ctx, rec, opt, func(ctx context.Context, s *session) error {
		if err := s.connect(ctx); err != nil {
			return err
		}
		if err := s.sameAccount(ctx); err != nil {
			return err
		}
		if err := s.refuseUndone(ctx, s.st, s.rec); err != nil {
			return err
		}
		if begin != nil {
			if err := begin(ctx, s); err != nil {
				return err
			}
		}
		if err := errors.Join(s.takeGuards(), s.keepGuards(ctx)); err != nil {
			return err
		}
		if err := s.checkTargets(); err != nil {
			return err
		}
		return s.finish(ctx)
	})
}

// withStored opens the state and locks a run, and those that it has to do with.
func (a *app) withStored(ctx context.Context, rec checkpoint.Run, opt options, do func(context.Context, *session) error) (err error) {
	s := &session{app: a, options: opt, began: a.now(), rec: rec, key: rec.JobKey}
	if s.about, err = settingsOfRun(rec); err != nil {
		return err
	}
	if s.job, err = storedJob(rec, s.about); err != nil {
		return err
	}
	if s.about.UndoOf != "" {
		s.job.Results = "" // the folder is for the results of the job itself
	}
	s.result.Run, s.result.Job = rec.ID, s.job.Name
	if err := s.settings.setJob(s.job.Path, jobSettings(s.job)); err != nil {
		return err
	}
	if s.st, err = s.openState(ctx); err != nil {
		return err
	}
	defer func() { _ = s.st.Close() }()
	unlock, err := s.lockAll(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.locked = s.jobKey()
	// It may have gone on before the lock was had.
	if s.rec, err = s.st.store.Run(ctx, rec.ID); err != nil {
		return err
	}
	if s.about, err = settingsOfRun(s.rec); err != nil {
		return err
	}
	return do(ctx, s)
}

// lockAll locks the run and, for an undo, the job whose changes it takes back.
func (s *session) lockAll(ctx context.Context) (unlock func(), err error) {
	own, err := s.st.lockJob(s.jobKey())
	if err != nil || s.about.UndoOf == "" {
		return own, err
	}
	source, err := s.st.store.Run(ctx, s.about.UndoOf)
	if err != nil {
		return own, nil //nolint:nilerr // it was deleted since: nobody can be at work on it
	}
	also, err := s.st.lockJob(source.JobKey)
	if err != nil {
		own()
		return nil, err
	}
	return func() { also(); own() }, nil
}

// keepSettings stores what the run is to remember from now on.
func (s *session) keepSettings(ctx context.Context) error {
	settings, err := json.Marshal(s.about)
	if err != nil {
		return fmt.Errorf("encode the settings of the run: %w", err)
	}
	return s.st.store.SetSettings(ctx, s.rec.ID, settings)
}

// workSettings are what a work takes from outside its job.
func (s *session) workSettings() jobs.Settings {
	return jobs.Settings{
		PageSize: s.settings.number("page_size"), PlanOnly: s.about.Hold != holdNone, AllowPartial: s.allowPartial, InputHash: s.rec.InputHash, Now: s.rec.Created, Mark: runMark(s.rec.ID),
		Canary: s.about.Canary, AcceptDrift: s.overDrift,
	}
}

// unstopped tells that nothing stopped a run early.
func unstopped(state checkpoint.RunState) bool {
	switch state {
	case checkpoint.RunOK, checkpoint.RunPartial, checkpoint.RunInDoubt:
		return true
	}
	return false
}

// settledState is the state of a run after some of its writes in doubt were
// settled. One that was stopped stays so.
func settledState(rec checkpoint.Run, c checkpoint.Counts) checkpoint.RunState {
	switch {
	case rec.State == checkpoint.RunGuard && (rec.Stage == jobs.StageCanary || rec.Stage == jobs.StageTried) && c.InDoubt == 0:
		return checkpoint.RunStopped // the trial goes on, as far as it may
	case rec.State != checkpoint.RunInDoubt && rec.State != checkpoint.RunPartial && rec.State != checkpoint.RunOK:
		if rec.State == checkpoint.RunRunning {
			return checkpoint.RunAborted // its process died
		}
		return rec.State
	case c.Pending > 0:
		return checkpoint.RunStopped
	case c.InDoubt > 0:
		return checkpoint.RunInDoubt
	case c.Failed > 0:
		return checkpoint.RunPartial
	}
	return checkpoint.RunOK
}
