package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rmmjob/internal/spell"
)

// triedOut chooses the writes of the plan that were sent: not those that were held
// back before, nor one that a person has given up.
func triedOut(ans Answer) bool {
	switch {
	case ans.Settled.IsZero():
		return false
	case ans.OK, ans.Doubt:
		return true
	}
	return ans.Class != "" && ans.Class != ClassGivenUp && !HeldBack(ans.Class)
}

// canary sends the first writes of the plan one after the other, so that the first
// that fails or stays in doubt stops the run before another one is sent. After the
// last it reads their targets back.
func (p applier) canary(ctx context.Context, a Answers) (Step, error) {
	step, settled, err := p.doubts(ctx, StageCanary, a)
	if err != nil || !settled {
		return step, err
	}
	writes, err := loadWrites(ctx, a, triedOut)
	if err != nil {
		return Step{}, err
	}
	for i, w := range writes {
		if !w.ok {
			return Step{}, &GuardError{Guard: "canary", Message: fmt.Sprintf("write %d of the first %d %s, and nothing was sent after it: %s: %s",
				i+1, p.set.Canary, w.fate(), w.who(), w.reason)}
		}
	}
	if len(writes) < p.set.Canary {
		left, err := anyWaiting(ctx, a)
		if err != nil {
			return Step{}, err
		}
		if left {
			return Step{Stage: StageCanary, Release: 1, Note: step.Note}, nil
		}
	}
	return p.look(ctx, a, canaryPrefix, StageTried, carried, step.Note)
}

// Tried counts the writes of the plan that were sent so far.
func Tried(ctx context.Context, a Answers) (int, error) {
	writes, err := loadWrites(ctx, a, triedOut)
	return len(writes), err
}

// triesMore tells whether further writes are to be tried out before the rest, once some
// of those that are left are found to have been done.
func (p applier) triesMore(ctx context.Context, a Answers, found []Decision) (bool, error) {
	if p.set.Canary == 0 {
		return false, nil
	}
	tried, err := Tried(ctx, a)
	for _, d := range found {
		if d.Fate == FateDone {
			tried++
		}
	}
	return tried < p.set.Canary, err
}

// anyWaiting tells whether a write of the plan has not been sent.
func anyWaiting(ctx context.Context, a Answers) (bool, error) {
	for ans, err := range a.Answers(ctx, applyPrefix) {
		if err != nil {
			return false, err
		}
		if ans.Request.Op != "" && waiting(ans) {
			return true, nil
		}
	}
	return false, nil
}

// tried stops the run where the first writes are not there, and else waits for
// somebody to say that the rest is to follow.
func (p applier) tried(ctx context.Context, a Answers) (Step, error) {
	writes, step, again, err := p.seen(ctx, a, canaryPrefix, StageTried, carried)
	if err != nil || again {
		return step, err
	}
	for _, w := range writes {
		s, field := w.stands()
		if s == asWritten || s == unseen {
			continue
		}
		reason := "read back after the write: " + w.notThere(s, field)
		step.Decisions = append(step.Decisions, Decision{Key: w.item, Fate: FateFailed, Class: ClassNotApplied, Reason: reason})
		step.Guard = &GuardError{Guard: "canary", Message: fmt.Sprintf(
			"%d of the first %s acknowledged and not there, and nothing else was sent; the last one, %s: %s",
			len(step.Decisions), spell.Count(len(writes), "write is", "writes are"), w.who(), reason)}
	}
	if step.Guard != nil {
		step.Stage = StageTried
		return step, nil //nolint:nilerr // the guard goes with the step
	}
	rest, err := loadWrites(ctx, a, waiting)
	if err != nil {
		return Step{}, err
	}
	if len(rest) == 0 {
		return Step{Stage: StageApply}, nil
	}
	return Step{Stage: StageWait, Hold: true, Note: fmt.Sprintf("%s tried out, %s left",
		spell.Count(len(writes), "write was", "writes were"), spell.Count(len(rest), "is", "are"))}, nil
}

// Trial is one field of a write that was tried out.
type Trial struct {
	Line           int    // of the input
	Name, Site     string // of the target
	Field          string
	Old, New, Live string // values, which may be secrets
	Read           bool   // the account was read after the write
	Seen           bool   // Live was read back; else nobody can tell
	OK             bool   // Live is what was sent
	OldUnknown     bool
	Open           bool // no secret: may be shown to anybody
	Secret         bool // shown to nobody
}

// Trials are the fields that the first writes of a plan have changed, with what
// was read back of them.
func Trials(ctx context.Context, a Answers) ([]Trial, error) {
	writes, err := loadWrites(ctx, a, func(ans Answer) bool { return ans.OK || ans.Class == ClassNotApplied })
	if err != nil {
		return nil, err
	}
	last, err := lastRound(ctx, a, canaryPrefix)
	if err != nil || last.number == 0 {
		return nil, err
	}
	l := newLook(canaryPrefix, last.number, slices.Values(writes))
	_, again, err := l.settle(ctx, StageTried, a, 1)
	_, broken := errors.AsType[*IncompleteError](err)
	read := !again && !broken
	if read && err == nil {
		err = l.show(ctx, a, writes)
	}
	if err != nil && !broken {
		return nil, err
	}
	var trials []Trial
	for _, w := range writes {
		s, _ := w.stands()
		for i, c := range w.changes {
			if !c.real() && w.op.effect == sets {
				continue
			}
			t := Trial{
				Line: w.target.line, Name: w.target.name, Site: w.target.site, Field: c.Field, Old: c.Old, New: c.New,
				OldUnknown: c.Unknown, Open: c.Open, Secret: c.Secret, Read: read, Seen: s != unseen, OK: s == asWritten,
			}
			switch {
			case c.Delete:
				t.New, t.Live, t.Open = "(deleted)", "(deleted)", true
				if w.live.there {
					t.Live = "(there)"
				}
			case w.op.effect == resolves && w.live.seen:
				t.Live, t.Open = fmt.Sprint(!w.live.there), true
			case i < len(w.live.old):
				now := w.live.old[i]
				t.Live, t.Seen, t.OK = now.text, now.known, now.known && now.text == c.wanted()
				if c.NewUID != "" && t.OK {
					t.Live = c.New
				}
			}
			trials = append(trials, t)
		}
	}
	return trials, nil
}
