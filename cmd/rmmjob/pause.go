package main

import (
	"context"
	"fmt"

	"rmmjob/checkpoint"
)

// pauseVerb lets a working run send nothing until it is told to go on.
func pauseVerb(ctx context.Context, a *app, args []string) error {
	return a.steer(ctx, args, controlPause, statePaused, "paused: nothing is sent until it goes on")
}

// steer asks the run of the command line, which must be at work, to do something,
// and tells that it has taken it.
func (a *app) steer(ctx context.Context, args []string, verb, state, what string) error {
	f := a.newFlags()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // what was written is on the disk
	r, err := st.atWork(ctx, rest[0])
	if err != nil {
		return err
	}
	if _, err := st.ask(ctx, r, verb, controlArgument{}); err != nil {
		return err
	}
	a.asked(r, state, what)
	a.result.Next = a.nextCommand("resume", r.ID)
	return nil
}

// asked tells that a run has taken what was asked of it.
func (a *app) asked(r checkpoint.Run, state, what string) {
	a.result.Run, a.result.Job, a.result.State = r.ID, r.JobName, state
	if !a.json {
		fmt.Fprintf(a.stdout, "run %s is %s\n", clean(r.ID), what)
	}
}

// resumePaused lets a run go on that a process is at work on and that is paused. It
// tells whether it was one.
func (a *app) resumePaused(ctx context.Context, r checkpoint.Run) (bool, error) {
	st, err := a.openState(ctx)
	if err != nil {
		return false, err
	}
	defer st.Close() //nolint:errcheck // what was written is on the disk
	if !st.working(r) {
		return false, nil
	}
	l, err := st.live(ctx, r)
	if err != nil || l == nil || l.PausedBy == nil {
		return false, err
	}
	if _, err := st.ask(ctx, r, controlResume, controlArgument{}); err != nil {
		return true, err
	}
	a.asked(r, string(r.State), "going on; it was paused by "+clean(*l.PausedBy))
	return true, nil
}
