package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// stateCrashed is shown for a run that says it is running while nobody holds
// its lock: the process died.
const stateCrashed = "crashed"

// statePaused is shown for a run at work that a person has paused.
const statePaused = "paused"

// runInfo is one run as runs, show and status tell it.
type runInfo struct {
	Run      string     `json:"run"`
	Job      string     `json:"job"`
	JobPath  string     `json:"job_path"`
	Account  string     `json:"account"`
	Kind     string     `json:"kind"`
	State    string     `json:"state"`
	Stage    string     `json:"stage"`
	ExitCode int        `json:"exit_code"`
	Created  time.Time  `json:"created"`
	Started  *time.Time `json:"started"`
	Finished *time.Time `json:"finished"`
	Resumes  int        `json:"resumes"`
	Error    *string    `json:"error"`
	UndoOf   *string    `json:"undo_of"`   // the run that it takes back; null otherwise
	UndoneBy *string    `json:"undone_by"` // the run that took it back, wholly or in part; null otherwise
	Counts   counts     `json:"counts"`

	// Of a run at work, as it last told; null otherwise.
	SecondsLeft *float64 `json:"seconds_left"`
	PausedBy    *string  `json:"paused_by"`

	jobKey string
	atWork bool
	live   *liveStatus
}

// describer returns what gathers all that the checkpoint and the lock know about a run.
// What undos have taken back is read once for all the runs that it is asked about.
func (s *state) describer(ctx context.Context) func(checkpoint.Run) (runInfo, error) {
	undone := sync.OnceValues(func() (map[string]string, error) { return s.undone(ctx) })
	return func(r checkpoint.Run) (runInfo, error) { return s.describe(ctx, r, undone) }
}

// describeRun gathers what is known about one run.
func (s *state) describeRun(ctx context.Context, r checkpoint.Run) (runInfo, error) {
	return s.describer(ctx)(r)
}

func (s *state) describe(ctx context.Context, r checkpoint.Run, undone func() (map[string]string, error)) (runInfo, error) {
	c, err := s.store.Counts(ctx, r.ID)
	if err != nil {
		return runInfo{}, err
	}
	reused, err := s.store.Recalled(ctx, r.ID)
	if err != nil {
		return runInfo{}, err
	}
	info := runInfo{
		Run: r.ID, Job: r.JobName, JobPath: r.JobPath, Account: r.Account, Kind: r.Kind, State: string(r.State),
		Stage: r.Stage, ExitCode: r.ExitCode, Created: r.Created.UTC(), Resumes: r.Resumes, Counts: runCounts(r, c), jobKey: r.JobKey,
	}
	info.Counts.Reused = int64(reused)
	if info.Counts.Found, err = s.found(ctx, r); err != nil {
		return runInfo{}, err
	}
	if info.Counts.Unanswered, err = s.unanswered(ctx, r, c); err != nil {
		return runInfo{}, err
	}
	if r.Error != "" {
		info.Error = &r.Error
	}
	about, err := settingsOfRun(r)
	if err != nil {
		return runInfo{}, err
	}
	info.UndoOf = textOrNil(about.UndoOf)
	if r.Kind != kindExport && carriesOut(r) {
		by, err := undone()
		if err != nil {
			return runInfo{}, err
		}
		info.UndoneBy = textOrNil(by[r.ID])
	}
	if !r.Started.IsZero() {
		t := r.Started.UTC()
		info.Started = &t
	}
	if !r.Finished.IsZero() {
		t := r.Finished.UTC()
		info.Finished = &t
	}
	if waits(r) {
		info.State = stateWaiting
	}
	if r.State != checkpoint.RunRunning {
		return info, nil
	}
	if info.atWork = s.isLocked(r.JobKey); !info.atWork {
		info.State = stateCrashed
		return info, nil
	}
	if info.live, err = s.live(ctx, r); err != nil || info.live == nil {
		return info, err
	}
	info.SecondsLeft, info.PausedBy = info.live.SecondsLeft, info.live.PausedBy
	if info.PausedBy != nil {
		info.State = statePaused
	}
	return info, nil
}

// found counts the writes of a run that nobody acknowledged and that were found to have
// been carried out.
func (s *state) found(ctx context.Context, r checkpoint.Run) (int64, error) {
	if r.Kind == kindExport {
		return 0, nil
	}
	n, err := s.store.DoneFor(ctx, r.ID, jobs.Found)
	return int64(n), err
}

// leftText is what a run at work says of its time left and of who has paused it, for
// the end of a line.
func (r runInfo) leftText() string {
	if r.live == nil {
		return ""
	}
	text := ", " + r.live.left()
	if r.PausedBy != nil {
		text += ", paused by " + *r.PausedBy
	}
	return text
}

// runCounts puts together what the run and its items say. An item in the
// hands of a worker is still to be done.
func runCounts(r checkpoint.Run, c checkpoint.Counts) counts {
	return counts{
		Items: int64(c.Items), Done: int64(c.Done), Unchanged: int64(c.Unchanged), Skipped: int64(c.Skipped),
		Failed: int64(c.Failed), InDoubt: int64(c.InDoubt), Pending: int64(c.Pending + c.Running),
		Reads: r.Reads, Writes: r.Writes, Throttled429: r.Throttled,
	}
}

// unanswered counts the writes of a run that are to be sent again because their answers
// were lost. Of a run whose process died those in flight are among them.
func (s *state) unanswered(ctx context.Context, r checkpoint.Run, c checkpoint.Counts) (n int64, err error) {
	if c.Pending+c.Running == 0 || r.Kind == kindExport {
		return 0, nil
	}
	if jobs.Writes(r.Stage) && c.Running > 0 && !s.working(r) {
		n = int64(c.Running)
	}
	lanes, err := s.store.Pending(ctx, r.ID, "")
	for _, l := range lanes {
		if l.Lane != throttle.Read {
			n += int64(l.Unsure)
		}
	}
	return n, err
}

// isLocked tells whether a process is at work on a job.
func (s *state) isLocked(jobKey string) bool {
	lock := flock.New(s.lockPath(jobKey)+".lock", flock.SetPermissions(0o600))
	got, err := lock.TryRLock()
	_ = lock.Close()
	return err == nil && !got
}

// canResume tells whether rmmjob resume goes on with a run shown in that state.
func canResume(state string) bool {
	return state == stateCrashed || state == statePaused || state == stateWaiting || state != string(checkpoint.RunRunning) && unfinished(checkpoint.RunState(state))
}

// duration is how long the run has taken so far, from its first start to its
// last end.
func (r runInfo) duration(now time.Time) time.Duration {
	switch {
	case r.Started == nil:
		return 0
	case r.Finished != nil:
		return r.Finished.Sub(*r.Started)
	case r.State == stateCrashed:
		return 0 // nobody knows when
	}
	return now.Sub(*r.Started)
}

// clock shows a moment in local time, "-" for none.
func clock(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// took shows a duration in whole seconds, "-" for none.
func took(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return d.Round(time.Second).String()
}

// isJobPath tells an argument that names a job file from one that names a run.
func isJobPath(arg string) bool {
	ext := strings.ToLower(filepath.Ext(arg))
	return ext == ".yaml" || ext == ".yml" || strings.ContainsAny(arg, `/\`)
}
