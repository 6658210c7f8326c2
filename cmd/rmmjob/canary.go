package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// stateWaiting is shown for a run whose first writes are done and whose rest waits
// for a decision.
const stateWaiting = "canary_wait"

// waits tells whether a run is in that state, also where its process died or lost
// the service before it could say so.
func waits(rec checkpoint.Run) bool {
	return unfinished(rec.State) && rec.Stage == jobs.StageWait
}

// canaryFlags are the flags of the verbs that can try out the first writes.
type canaryFlags struct {
	n      int
	values *bool
}

func (f *flags) canary() *canaryFlags {
	c := &canaryFlags{}
	f.Var((*countFlag)(&c.n), "canary", "send only so many writes, read them back, and wait for a decision about the rest")
	c.values = f.Bool("show-values", false, "show field values, which may be secrets")
	return c
}

// countFlag is a number that is not negative.
type countFlag int

func (c *countFlag) String() string { return strconv.Itoa(int(*c)) }
func (c *countFlag) Type() string   { return "number" }
func (c *countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 on", text)
	}
	*c = countFlag(n)
	return nil
}

// openGate lets the rest of the plan follow the writes that were tried out.
func (s *session) openGate(ctx context.Context) error {
	s.about.Canary = 0
	return s.keepSettings(ctx)
}

// tryMore has so many further writes tried out, if this command line asks for it: the
// rest waits again after them.
func (s *session) tryMore(ctx context.Context) error {
	if s.canary > 0 {
		tried, err := jobs.Tried(ctx, runner.AnswersOf(s.st.store, s.rec.ID))
		if err != nil {
			return err
		}
		s.about.Canary = tried + s.canary
	}
	return s.keepSettings(ctx)
}

// sendsRest shows what was tried out and asks whether the rest is to follow.
func (s *session) sendsRest(ctx context.Context, sum runner.Summary) bool {
	if err := s.printTrials(ctx, s.stderr); err != nil {
		return false
	}
	return s.askYes(ctx, strings.Join(sum.Notes, "\n")+"\nsend the rest?")
}

// printTrials shows old, new and read-back value of each field that was tried out.
func (s *session) printTrials(ctx context.Context, w io.Writer) error {
	trials, err := jobs.Trials(ctx, runner.AnswersOf(s.st.store, s.rec.ID))
	if err != nil || len(trials) == 0 {
		return err
	}
	thing := s.job.Update.Thing()
	named := func(line, name, site string, rest ...string) []string {
		if thing == "site" { // it is the target itself
			return append([]string{line, name}, rest...)
		}
		return append([]string{line, name, site}, rest...)
	}
	t := newTable(named("line", thing, "site", "field", "old", "new", "live", "")...)
	view := &planView{Values: s.showValues}
	for _, trial := range trials {
		shown := func(value string) string {
			return view.value(jobs.Change{Open: trial.Open, Secret: trial.Secret}, value)
		}
		old, to, live := shown(trial.Old), shown(trial.New), shown(trial.Live)
		switch {
		case trial.OldUnknown:
			old = "(unknown)"
		case trial.Old == "":
			old = "(empty)"
		}
		if trial.New == "" {
			to = "(cleared)"
		}
		verdict := "as sent"
		switch {
		case !trial.Read:
			live, verdict = "(not read)", "not read back yet"
		case !trial.Seen:
			live, verdict = "(not told)", "cannot be read back"
		case trial.Live == "":
			live = "(empty)"
		}
		if trial.Seen && !trial.OK {
			verdict = "NOT AS SENT"
		}
		t.add(named(fmt.Sprint(trial.Line), trial.Name, trial.Site, trial.Field, old, to, live, verdict)...)
	}
	t.write(w)
	fmt.Fprintln(w)
	return nil
}

// trialInfo is one field that was tried out, for machines. Values are there only
// when they were asked for.
type trialInfo struct {
	Line  int     `json:"line"`
	Name  string  `json:"name"`
	Field string  `json:"field"`
	Seen  bool    `json:"read_back"`
	OK    bool    `json:"as_sent"`
	Old   *string `json:"old"`
	New   *string `json:"new"`
	Live  *string `json:"live"`
}

// setTrials puts what was tried out into the JSON result.
func (s *session) setTrials(ctx context.Context) error {
	trials, err := jobs.Trials(ctx, runner.AnswersOf(s.st.store, s.rec.ID))
	if err != nil {
		return err
	}
	list := make([]trialInfo, len(trials))
	for i, t := range trials {
		list[i] = trialInfo{Line: t.Line, Name: t.Name, Field: t.Field, Seen: t.Seen, OK: t.OK}
		if s.showValues && !t.Secret {
			list[i].Old, list[i].New, list[i].Live = &t.Old, &t.New, &t.Live
		}
	}
	s.result.set("canary", list)
	return nil
}

// refuseWaiting refuses to go on with a run whose rest waits for a decision.
func (a *app) refuseWaiting(last checkpoint.Run) error {
	a.result.Run, a.result.Job, a.result.State, a.result.Next = last.ID, last.JobName, stateWaiting, a.nextCommand("apply", last.ID)
	e := fail(exitCanary, "run %s of job %s has tried out its first writes, and the rest waits for a decision", last.ID, last.JobName).
		withHint("send the rest: %s", a.nextCommand("apply", last.ID)).
		withHint("take the first ones back: %s", a.nextCommand("undo", last.ID))
	if last.Kind == kindUpdate {
		e = e.withHint("begin anew: %s", a.nextCommand("run", "--new", last.JobPath))
	}
	return e
}
