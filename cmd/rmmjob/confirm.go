package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// hold is why a run stops before the first write.
type hold string

const (
	holdNone hold = ""
	holdPlan hold = "plan" // it was begun as a plan
	holdAsk  hold = "ask"  // it needs an agreement, which nobody has given yet
)

// shownTargets is how many targets are shown before a question.
const shownTargets = 5

// mayAsk tells whether a person can be asked: both ends are a terminal, and the
// result is not for a program.
func (a *app) mayAsk() bool { return a.canAsk && !a.json }

// answer reads what is typed after a question. It is "" after Ctrl-C, and at the end
// of the input.
func (a *app) answer(ctx context.Context) string {
	if a.typed == nil { // one for all questions, which loses nothing that was typed ahead
		a.typed = bufio.NewReader(a.stdin)
	}
	read := make(chan string, 1)
	go func() {
		line, err := a.typed.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		read <- strings.TrimSpace(line)
	}()
	select {
	case line := <-read:
		return line
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return ""
	}
}

// askYes asks a question. Anything but a yes is a no.
func (a *app) askYes(ctx context.Context, question string) bool {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line := strings.ToLower(a.answer(ctx))
	return line == "y" || line == "yes"
}

// askCount says what is about to be done and has the number of it typed. Anything else
// is a no.
func (a *app) askCount(ctx context.Context, deed string, n int) bool {
	fmt.Fprintf(a.stderr, "%s: type %d to go on: ", clean(deed), n)
	line := a.answer(ctx)
	return line == strconv.Itoa(n) || line == number(int64(n))
}

// agreesToPlan shows what the plan of the run is about to do, and asks for the number
// of its requests.
func (s *session) agreesToPlan(ctx context.Context, c jobs.Consent) (bool, error) {
	v, err := s.st.viewPlan(ctx, s.rec, s.showValues)
	if err != nil {
		return false, err
	}
	if err := v.expect(ctx, s.st, s.limiter); err != nil {
		return false, err
	}
	if err := v.printFirst(s.stderr, shownTargets); err != nil {
		return false, err
	}
	deed := "this " + c.String()
	if len(c.Deeds) > 1 {
		deed += ", in " + count(int64(c.Writes), "request")
	}
	if !s.askCount(ctx, deed, c.Writes) {
		return false, nil
	}
	return true, s.st.store.AddEvent(ctx, s.rec.ID, s.now(), "confirm", fmt.Sprintf("%d was typed by %s: %s", c.Writes, s.whoAmI(), deed))
}

// agreeTwice lets writes be sent again that may have been carried out already: with
// --yes, or where a person types their number.
func (s *session) agreeTwice(ctx context.Context, risky []checkpoint.Item) error {
	n := len(risky)
	if n == 0 || s.yes {
		return nil
	}
	if s.mayAsk() {
		shown, err := s.doubtsOf(ctx, risky[:min(n, shownTargets)])
		if err != nil {
			return err
		}
		printDoubts(s.stderr, shown)
		if n > shownTargets {
			fmt.Fprintf(s.stderr, "and %s more\n", number(int64(n-shownTargets)))
		}
		if s.askCount(ctx, "this may do "+count(int64(n), "write")+" a second time", n) {
			return nil
		}
	}
	return usagef("%s may have been carried out and would happen twice", count(int64(n), "write")).
		withHint("look for them first: %s", s.nextCommand("resolve", s.rec.ID, "--check")).
		withHint("or add --yes")
}

// goesOn decides at a stop before the next writes whether they follow: where a plan
// is to be agreed to, and where the first writes were tried out.
func (s *session) goesOn(ctx context.Context, sum runner.Summary) (bool, error) {
	switch {
	case sum.State != checkpoint.RunPlanned:
		return false, nil
	case sum.Stage == jobs.StageWait:
		if !s.mayAsk() || !s.sendsRest(ctx, sum) {
			return false, nil
		}
		return true, s.openGate(ctx)
	case s.about.Hold != holdAsk:
		return false, nil
	}
	c, err := s.consent(ctx)
	if err != nil {
		return false, err
	}
	if c.Writes > 0 {
		if !s.mayAsk() {
			return false, nil
		}
		// Whatever happens while the question stands, it is a plan.
		if err := s.st.store.EndRun(ctx, s.rec.ID, s.now(), checkpoint.RunPlanned, int(exitUsage), ""); err != nil {
			return false, err
		}
		for _, note := range append(s.inputNotes(), sum.Notes...) {
			s.say("note: %s", note)
		}
		if yes, err := s.agreesToPlan(ctx, c); err != nil || !yes {
			return false, err
		}
	}
	s.about.Hold, s.about.Applied = holdNone, true
	return true, s.keepSettings(ctx)
}

// consent is what is to be agreed to before the plan of the run is carried out.
func (s *session) consent(ctx context.Context) (jobs.Consent, error) {
	c, err := jobs.ConsentOf(ctx, runner.AnswersOf(s.st.store, s.rec.ID), jobs.FreeClears)
	if err == nil && s.about.UndoOf == "" { // what a job does it says itself
		c.Why = ""
		if s.needsYes() {
			c.Why = s.job.Update.Confirmation()
		}
	}
	return c, err
}

// unagreed is the end of a run whose plan nobody has agreed to.
func (s *session) unagreed(why string) *exitError {
	s.result.State, s.result.Next = string(checkpoint.RunPlanned), s.nextCommand("apply", s.rec.ID, "--yes")
	return usagef("nothing was sent: the plan of run %s needs a confirmation: %s", s.rec.ID, why).
		withHint("look first: %s", s.nextCommand("show", s.rec.ID, "--plan"))
}
