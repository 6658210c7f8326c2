package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
)

// repeats refuses to begin the quick jobs of a run anew that has made some: what
// is done cannot be told from what is wanted.
func (s *session) repeats(last checkpoint.Run, changed string) error {
	if s.fresh || s.job.Update == nil || s.job.Update.Operation.Class != rmm.ClassUnsafe || last.Writes == 0 {
		return nil
	}
	return usagef("run %s has sent %s, and %s: a new run would send them again", last.ID, count(last.Writes, s.job.Update.Operation.Name), changed).
		withHint("to go on with its plan: %s", s.nextCommand("resume", last.ID)).
		withHint("to send all of them: %s", s.nextCommand("run", "--new", s.job.Path))
}

// runStamp is the part of a run's id that sorts by time.
func runStamp(t time.Time) string { return t.UTC().Format("20060102-150405") }

// newRunID makes an id that sorts by time, says which job it is and can be typed.
func newRunID(t time.Time, name string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	if len(slug) > 24 {
		slug = slug[:24]
	}
	return runStamp(t) + "-" + strings.Trim(slug, "-") + "-" + strings.ToLower(rand.Text()[:3])
}

// runMark is the short name of a run that the names of its quick jobs carry: the
// time of its id and the random letters.
func runMark(id string) string {
	if len(id) < len("20060102-150405") {
		return id
	}
	return id[:len("20060102-150405")] + id[strings.LastIndexByte(id, '-'):]
}

// choose decides which run this call is about: an unfinished one of the job is
// continued unless the job or its input has changed meanwhile.
func (s *session) choose(ctx context.Context) error {
	inputHash := ""
	if s.input != nil {
		inputHash = s.input.Hash
	}
	last, ok, err := s.lastRun(ctx)
	if err != nil {
		return err
	}
	by, err := s.st.undoneBy(ctx, last.ID)
	if err != nil {
		return err
	}
	if ok && waits(last) && !s.fresh && by == "" {
		return s.refuseWaiting(last)
	}
	if ok && unfinished(last.State) {
		changed := ""
		switch {
		case s.fresh:
			changed = "a new one was asked for"
		case by != "":
			changed = "it was taken back by run " + by
		case last.JobHash != s.job.Hash:
			changed = "the job file has changed"
		case last.InputHash != inputHash:
			changed = "the input file has changed"
		case s.full && !isFull(last):
			changed = "a full run was asked for"
		}
		if changed == "" {
			s.rec = last
			if err := s.takeUp(ctx, last); err != nil {
				return err
			}
			if err := errors.Join(s.takeGuards(), s.keepGuards(ctx), s.tryMore(ctx)); err != nil {
				return err
			}
			s.say("continuing run %s, which was %s", last.ID, lastWord(last))
			return s.checkTargets()
		}
		if err := errors.Join(s.confirmed(), s.repeats(last, changed), s.inherit(last)); err != nil {
			return err
		}
		if !s.planOnly {
			kept := "; what it has done is kept"
			if by != "" {
				kept = ""
			}
			s.say("run %s is closed as superseded: %s%s", last.ID, changed, kept)
			if err := s.st.store.EndRun(ctx, last.ID, s.now(), checkpoint.RunSuperseded, 0, changed); err != nil {
				return err
			}
		}
	}
	if ok && last.State == checkpoint.RunInDoubt && !s.fresh {
		if err := s.refuseInDoubt(ctx, last); err != nil {
			return err
		}
	}
	if err := s.closePlans(ctx); err != nil {
		return err
	}
	if err := s.recollect(ctx); err != nil {
		return err
	}
	if err := s.checkTargets(); err != nil {
		return err
	}
	settings, err := json.Marshal(s.about)
	if err != nil {
		return fmt.Errorf("encode the settings of the run: %w", err)
	}
	kind := kindExport
	if s.job.Update != nil {
		kind = kindUpdate
	}
	s.rec = checkpoint.Run{
		ID: s.id, JobKey: s.jobKey(), JobName: s.job.Name, JobPath: s.job.Path, Kind: kind,
		Account: s.conn.name, JobHash: s.job.Hash, InputHash: inputHash, Settings: settings, Created: s.began,
	}
	return s.st.store.CreateRun(ctx, s.rec)
}

// takeUp takes over what an unfinished run remembers. One that was to stop before its
// first write stops there still, unless this call has an agreement or needs none.
func (s *session) takeUp(ctx context.Context, last checkpoint.Run) error {
	now := s.about.Hold
	var err error
	if s.about, err = settingsOfRun(last); err != nil || s.resume != "" || s.about.Hold == now || s.about.Hold == holdNone {
		return err
	}
	s.about.Hold = now
	return s.keepSettings(ctx)
}

// inherit lets a run that is begun in the place of another keep what was asked of that
// one on the command line: guards, first writes to try out, and that it is a plan. What
// this command line says wins.
func (s *session) inherit(last checkpoint.Run) error {
	about, err := settingsOfRun(last)
	if err != nil || s.fresh || s.job.Update == nil {
		return err
	}
	if s.resume != "" && about.Hold == holdPlan {
		s.about.Hold, s.about.PlanFiles = holdPlan, about.PlanFiles
	}
	var kept []string
	if s.about.Canary == 0 && about.Canary > 0 {
		s.about.Canary = about.Canary
		kept = append(kept, fmt.Sprintf("--canary %d", about.Canary))
	}
	given := s.about.Guards
	for _, name := range slices.Sorted(maps.Keys(about.Guards)) {
		if _, now := given[name]; !now {
			kept = append(kept, "--"+name+" "+about.Guards[name])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	s.say("the new run keeps what was asked of run %s: %s", last.ID, strings.Join(kept, " "))
	if s.about.Guards = maps.Clone(about.Guards); len(given) > 0 && s.about.Guards != nil {
		maps.Copy(s.about.Guards, given)
	}
	return s.takeGuards()
}

// closePlans closes the plans of the job that were cut off before they were made: another
// one takes their place, and nothing of them was sent.
func (s *session) closePlans(ctx context.Context) error {
	runs, err := s.st.store.Runs(ctx, 0, s.jobKey())
	if err != nil {
		return err
	}
	for _, rec := range runs {
		if !unfinished(rec.State) {
			continue
		}
		about, err := settingsOfRun(rec)
		if err != nil {
			return err
		}
		if about.Hold != holdPlan {
			continue
		}
		const why = "a newer one takes its place"
		if rec.ID != s.resume { // of which it was said before
			s.say("plan %s is closed as superseded: %s", rec.ID, why)
		}
		if err := s.st.store.EndRun(ctx, rec.ID, s.now(), checkpoint.RunSuperseded, 0, why); err != nil {
			return err
		}
	}
	return nil
}

// lastRun is the newest run of the job that is more than a plan.
func (s *session) lastRun(ctx context.Context) (checkpoint.Run, bool, error) {
	if s.resume != "" {
		var err error
		if s.rec, err = s.st.store.Run(ctx, s.resume); err == nil {
			err = s.sameAccount(ctx)
		}
		return s.rec, true, err
	}
	if err := s.takeOverUnclaimed(ctx); err != nil {
		return checkpoint.Run{}, false, err
	}
	runs, err := s.st.store.Runs(ctx, 0, s.jobKey())
	if err != nil {
		return checkpoint.Run{}, false, err
	}
	for _, rec := range runs {
		if rec.State == checkpoint.RunPlanned || rec.State == checkpoint.RunSuperseded {
			continue
		}
		about, err := settingsOfRun(rec)
		if err != nil {
			return rec, false, err
		}
		if about.Hold != holdPlan {
			return rec, true, nil
		}
	}
	return checkpoint.Run{}, false, nil
}

// lastWord is how a run ended, for the sentence about continuing it.
func lastWord(rec checkpoint.Run) string {
	if rec.State == checkpoint.RunRunning {
		return "cut off"
	}
	return stateWord(string(rec.State))
}

// refuseInDoubt refuses a new run while the last one has writes that nobody
// knows the fate of and that must not happen twice.
func (s *session) refuseInDoubt(ctx context.Context, last checkpoint.Run) error {
	n, err := s.unsafeInDoubt(ctx, last)
	if err != nil || n == 0 {
		return err
	}
	s.result.Run, s.result.State = last.ID, string(last.State)
	return fail(exitInDoubt, "run %s has %s unknown and that must not be repeated blindly", last.ID, count(n, "write whose fate is", "writes whose fate is")).
		withHint("look at them: %s", s.nextCommand("resolve", last.ID)).
		withHint("look for them in the account: %s", s.nextCommand("resolve", last.ID, "--check")).
		withHint("start all the same: %s", s.nextCommand("run", "--new", s.job.Path))
}
