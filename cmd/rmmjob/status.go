package main

import (
	"context"
	"io"
	"slices"
	"time"

	"rmmjob/checkpoint"
)

// jobStatus is the last run of a job, and its last success.
type jobStatus struct {
	runInfo
	LastSuccess *time.Time `json:"last_success"`
	Overdue     bool       `json:"overdue"`

	plansOnly bool // nothing of it was ever carried out
}

// statusVerb tells the last run of each job, of one job, or of the job of a
// run. With --max-age it answers the question of a monitor: is the last
// success recent enough?
func statusVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	watched := f.Bool("watch", false, "show it every second until nothing is at work")
	maxAge := f.Duration("max-age", 0, "exit 13 when the last success is older, for example 26h")
	rest, err := f.parse(args, 0, 1)
	if err != nil {
		return err
	}
	if *maxAge < 0 {
		return usagef("--max-age must not be negative")
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // only read

	arg := ""
	if len(rest) == 1 {
		arg = rest[0]
	}
	if *watched {
		if err := a.watchStatus(ctx, st, arg); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx) // the user has seen enough; the rest tells how it stands
	}
	list, err := st.lastRuns(ctx, arg)
	if err != nil {
		return err
	}
	judged, overdue := 0, false
	for i := range list {
		j := &list[i]
		if arg == "" && (j.plansOnly || j.UndoOf != nil) {
			continue // a plan that was looked at is no job, and an undo is none that comes again
		}
		judged++
		j.Overdue = *maxAge > 0 && (j.LastSuccess == nil || a.now().Sub(*j.LastSuccess) > *maxAge)
		overdue = overdue || j.Overdue
	}
	overdue = overdue || judged == 0 // what never ran is overdue as well
	if len(list) == 1 {
		j := list[0]
		a.result.Run, a.result.Job, a.result.State, a.result.Counts = j.Run, j.Job, j.State, j.Counts
		if a.result.Next, err = a.goingOn(ctx, st, j.runInfo); err != nil {
			return err
		}
	}
	if a.json {
		a.result.set("jobs", list)
	} else if len(list) > 0 && !*watched {
		a.printStatus(a.stdout, list)
	} else if len(list) == 0 {
		a.say("no runs yet in %s", st.dir)
	}
	if *maxAge > 0 && overdue {
		switch {
		case len(list) == 0 && arg != "":
			return fail(exitOverdue, "%s has never run", arg)
		case judged == 0:
			return fail(exitOverdue, "no job has ever run")
		}
		for _, j := range list {
			if j.Overdue && j.LastSuccess != nil {
				return fail(exitOverdue, "the last success of %s is older than %v", j.Job, *maxAge)
			} else if j.Overdue {
				return fail(exitOverdue, "%s has never succeeded", j.Job)
			}
		}
	}
	return nil
}

// printStatus prints the last run of each job.
func (a *app) printStatus(w io.Writer, list []jobStatus) {
	t := newTable("job", "run", "state", "started", "took", "last success", "counts")
	for _, j := range list {
		t.add(j.Job, j.Run, j.State, clock(j.Started), took(j.duration(a.now())), clock(j.LastSuccess), countLine(j.Counts)+j.leftText())
	}
	t.write(w)
}

// watchStatus shows the status until none of its runs is at work.
func (a *app) watchStatus(ctx context.Context, st *state, arg string) error {
	return a.watch(ctx, func(ctx context.Context, w io.Writer) (bool, error) {
		list, err := st.lastRuns(ctx, arg)
		if err != nil {
			return false, err
		}
		a.printStatus(w, list)
		return !slices.ContainsFunc(list, func(j jobStatus) bool { return j.atWork }), nil
	})
}

// lastRuns returns the last run of each job that arg names: all for "", those
// of a job file (one for each account it ran on), or that of a run's job.
func (s *state) lastRuns(ctx context.Context, arg string) ([]jobStatus, error) {
	runs, err := s.store.Runs(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	want := func(checkpoint.Run) bool { return true }
	switch {
	case arg == "":
	case isJobPath(arg):
		path := absolute(arg)
		want = func(r checkpoint.Run) bool { return r.JobPath == path }
	default:
		one, err := s.store.FindRun(ctx, arg)
		if err != nil {
			return nil, err
		}
		want = func(r checkpoint.Run) bool { return r.ID == one.ID }
	}
	var order []string
	describe := s.describer(ctx)
	byJob := map[string]*jobStatus{}
	success, ran := map[string]time.Time{}, map[string]bool{}
	for _, r := range runs { // newest first
		if !ran[r.JobKey] && r.State != checkpoint.RunPlanned {
			about, err := settingsOfRun(r)
			if err != nil {
				return nil, err
			}
			ran[r.JobKey] = about.Hold != holdPlan
		}
		if r.State == checkpoint.RunOK && success[r.JobKey].IsZero() {
			success[r.JobKey] = r.Finished.UTC()
		}
		if !want(r) || byJob[r.JobKey] != nil {
			continue
		}
		info, err := describe(r)
		if err != nil {
			return nil, err
		}
		order = append(order, r.JobKey)
		byJob[r.JobKey] = &jobStatus{runInfo: info}
	}
	out := make([]jobStatus, 0, len(order))
	for _, key := range order {
		j := byJob[key]
		if t, ok := success[key]; ok {
			j.LastSuccess = &t
		}
		j.plansOnly = !ran[key]
		out = append(out, *j)
	}
	return out, nil
}
