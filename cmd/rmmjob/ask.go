package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"time"

	"rmmjob/checkpoint"
)

// askPatience is how long an asker waits for the run to take a control. A run looks
// every second.
const (
	askPatience = 10 * time.Second
	askEvery    = 50 * time.Millisecond
)

// atWork finds a run that a process is working on. One that nobody works on is a
// usage error that says how to go on.
func (s *state) atWork(ctx context.Context, prefix string) (checkpoint.Run, error) {
	r, err := s.store.FindRun(ctx, prefix)
	if err != nil {
		return r, err
	}
	if s.working(r) {
		return r, nil
	}
	shown := string(r.State)
	if r.State == checkpoint.RunRunning {
		shown = stateCrashed
	}
	e := usagef("run %s is not at work: it is %s", r.ID, stateWord(shown))
	if canResume(shown) {
		e = e.withHint("to go on with it: %s", s.a.nextCommand("resume", r.ID))
	}
	return r, e.withHint("what became of it: %s", s.a.nextCommand("show", r.ID))
}

// working tells whether a process is at work on a run.
func (s *state) working(r checkpoint.Run) bool {
	return r.State == checkpoint.RunRunning && s.isLocked(r.JobKey)
}

// ask leaves a control for a run at work and waits until the run has taken it, and
// returns when that was: what the run tells of itself from then on is of afterwards.
func (s *state) ask(ctx context.Context, r checkpoint.Run, verb string, arg controlArgument) (taken time.Time, err error) {
	arg.By = s.a.whoAmI()
	text, err := json.Marshal(arg)
	if err != nil {
		return time.Time{}, err
	}
	id, err := s.store.PostControl(ctx, r.ID, s.a.now(), verb, string(text))
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		taken, err := s.store.ControlTaken(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			return time.Time{}, err
		case err == nil && !taken.IsZero():
			return taken, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return time.Time{}, fail(exitStopped, "not waited for run %s to take it", r.ID)
			}
			if now, err := s.store.Run(context.WithoutCancel(ctx), r.ID); err == nil && !s.working(now) {
				return time.Time{}, usagef("run %s has ended meanwhile: it is %s", r.ID, stateWord(string(now.State)))
			}
			return time.Time{}, fail(exitLocalIO, "run %s has not answered within %s; it will do as asked when its process goes on", r.ID, askPatience)
		}
	}
}

// whoAmI names the person at work for other people: user and computer.
func (a *app) whoAmI() string {
	name := a.getenv("USER")
	if name == "" {
		name = a.getenv("USERNAME")
	}
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return clean(name + " on " + host)
	}
	return clean(name)
}
