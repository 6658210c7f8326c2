package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// The kinds of runs.
const (
	kindExport = "export"
	kindUpdate = "update"
	kindUndo   = "undo"
)

// undoVerb plans to take back what a run has changed, and does so with --yes.
func undoVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	yes := f.Bool("yes", false, "carry the plan out at once")
	values := f.Bool("show-values", false, "show field values, which may be secrets")
	limit := f.maxDuration()
	accept := f.acceptAccount()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	source, err := a.findRun(ctx, rest[0])
	if err != nil {
		return err
	}
	return a.undo(ctx, source, options{yes: *yes, planOnly: !*yes, showValues: *values, maxDuration: limit.d, acceptsAccount: *accept})
}

// undo makes the run that takes back another, or goes on with it. It is a run of its
// own, known by the run that it takes back, so that it is never taken for a run of
// the job.
func (a *app) undo(ctx context.Context, source checkpoint.Run, opt options) (err error) {
	s := &session{app: a, options: opt, began: a.now()}
	from, err := settingsOfRun(source)
	if err != nil {
		return err
	}
	if s.job, err = storedJob(source, from); err != nil {
		return err
	}
	if source.Kind == kindExport {
		return usagef("run %s is an export, which has changed nothing", source.ID)
	}
	s.job.Name, s.job.Results = "undo of "+source.JobName, ""
	s.about = runSettings{Source: s.job.Source, UndoOf: source.ID}
	if s.planOnly {
		s.about.Hold = holdPlan
	}
	s.result.Job, s.id = s.job.Name, newRunID(s.began, "undo-"+source.JobName)
	if err := s.settings.setJob(s.job.Path, jobSettings(s.job)); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer func() { _ = s.st.Close() }()
	s.key = "undo " + source.ID + "\n" + s.conn.id
	unlock, err := s.lockAll(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.rec, s.locked = source, source.JobKey
	if err := s.sameAccount(ctx); err != nil {
		return err
	}
	if err := s.chooseUndo(ctx, source); err != nil {
		return err
	}
	return s.finish(ctx)
}

// chooseUndo goes on with an unfinished undo of the run, or begins one.
func (s *session) chooseUndo(ctx context.Context, source checkpoint.Run) error {
	rows, err := s.st.store.RowCounts(ctx, source.ID)
	if err != nil {
		return err
	}
	if len(rows) == 0 || source.Stage == jobs.StagePlan || stoppedPlan(source) {
		return usagef("run %s has changed nothing", source.ID).withHint("what became of it: %s", s.nextCommand("show", source.ID))
	}
	// Of a run whose process died: its lock is held.
	if _, err := s.st.store.Recover(ctx, source.ID, s.now()); err != nil {
		return err
	}
	changed, err := s.st.changedSomething(ctx, source.ID)
	if err != nil {
		return err
	}
	if !changed {
		return usagef("run %s has changed nothing", source.ID).withHint("what became of it: %s", s.nextCommand("show", source.ID))
	}
	if unfinished(source.State) {
		s.warn("run %s is not finished: what it has done so far is taken back, and once that is done the run is closed", source.ID)
	}
	last, ok, err := s.lastRun(ctx)
	if err != nil {
		return err
	}
	if ok && unfinished(last.State) && !s.planOnly {
		by, err := s.st.undoneBy(ctx, last.ID)
		if err != nil {
			return err
		}
		if by == "" {
			s.say("continuing run %s, which was %s", last.ID, lastWord(last))
			s.rec = last
			return s.takeUp(ctx, last)
		}
	}
	if err := s.closePlans(ctx); err != nil {
		return err
	}
	settings, err := json.Marshal(s.about)
	if err != nil {
		return fmt.Errorf("encode the settings of the run: %w", err)
	}
	s.rec = checkpoint.Run{
		ID: s.id, JobKey: s.key, JobName: s.job.Name, JobPath: source.JobPath, Kind: kindUndo,
		Account: s.conn.name, Settings: settings, Created: s.began,
	}
	return s.st.store.CreateRun(ctx, s.rec)
}

// closeTakenBack closes the run that an undo has taken back, if it could go on: it would
// do again what was just undone. One with writes in doubt that must not happen twice
// stays, since the next run of the job has to know of them, and so does one of which nothing
// could be taken back.
func (s *session) closeTakenBack(ctx context.Context) error {
	if s.about.UndoOf == "" || s.rec.Writes == 0 || s.rec.State != checkpoint.RunOK && s.rec.State != checkpoint.RunPartial {
		return nil
	}
	source, err := s.st.store.Run(ctx, s.about.UndoOf)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil // it was deleted since
	}
	if err != nil || !unfinished(source.State) && source.State != checkpoint.RunInDoubt {
		return err
	}
	if n, err := s.unsafeInDoubt(ctx, source); err != nil || n > 0 {
		return err
	}
	s.say("run %s is closed: what it had done was taken back, and it does not go on", source.ID)
	return s.st.store.EndRun(ctx, source.ID, s.now(), checkpoint.RunSuperseded, 0, "taken back by run "+s.rec.ID)
}

// setUndo tells of an undo what became of the rows that its run had changed.
func (s *session) setUndo(ctx context.Context) error {
	if s.about.UndoOf == "" {
		return nil
	}
	count := map[string]int{"reversed": 0, "unchanged": 0, "kept": 0, "partly_kept": 0, "not_reversible": 0, "protected": 0, "not_done": 0}
	for row, err := range s.st.store.Rows(ctx, s.rec.ID) {
		if err != nil {
			return err
		}
		switch class := jobs.RowClass(row.Class); {
		case class == jobs.ClassHeading:
		case class.Held(), class == jobs.ClassUnchanged:
			count[row.Class]++
		case row.ItemState == checkpoint.StateDone:
			count["reversed"]++
			if partlyKept(row) {
				count["partly_kept"]++
			}
		case row.ItemState == checkpoint.StateUnchanged:
			count["unchanged"]++
		case row.ItemErrorClass == jobs.ClassDrifted, row.ItemErrorClass == jobs.ClassStale: // edited since the undo was planned
			count["kept"]++
		case row.ItemErrorClass == string(jobs.ClassProtected):
			count["protected"]++
		default:
			count["not_done"]++
			if row.ItemState == checkpoint.StatePending && partlyKept(row) { // it is planned
				count["partly_kept"]++
			}
		}
	}
	s.result.set("undo_of", s.about.UndoOf)
	s.result.set("undo", count)
	s.undone = count
	return nil
}

// changedSomething tells whether one of the rows of a run was carried out, or was sent
// without an answer.
func (s *state) changedSomething(ctx context.Context, run string) (bool, error) {
	for row, err := range s.store.Rows(ctx, run) {
		if err != nil {
			return false, err
		}
		if class := jobs.RowClass(row.Class); carriedPerhaps(row) && (class == jobs.ClassChange || class == jobs.ClassClear) {
			return true, nil
		}
	}
	return false, nil
}

// carriedPerhaps tells whether a row was carried out, or may have been.
func carriedPerhaps(row checkpoint.Row) bool {
	return row.ItemState == checkpoint.StateDone || row.ItemState == checkpoint.StateInDoubt || row.ItemUnsure
}

// partlyKept tells whether an undo has left some of the fields of a row alone.
func partlyKept(row checkpoint.Row) bool {
	var d jobs.RowDetail
	return json.Unmarshal(row.Payload, &d) == nil && len(d.Kept) > 0
}

// undoHeadline is how an undo ended that could not take everything back. It counts
// rows; failed is the number of requests that failed, for an end that no row tells.
func (s *session) undoHeadline(failed int) string {
	var parts []string
	for _, p := range []struct{ class, word string }{
		{"kept", "kept"}, {"partly_kept", "kept in part"}, {"protected", "protected"}, {"not_reversible", "not reversible"}, {"not_done", "failed"},
	} {
		if n := s.undone[p.class]; n > 0 {
			parts = append(parts, number(int64(n))+" "+p.word)
		}
	}
	if len(parts) == 0 {
		parts = []string{number(int64(failed)) + " failed"}
	}
	return "done, but " + strings.Join(parts, ", ")
}
