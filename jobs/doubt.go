package jobs

import (
	"context"
	"fmt"
	"slices"

	"rmmjob/internal/rmm"
)

// Writes of the class verify leave something that can be looked up: a name that
// is there, a variable that is gone. One whose answer was lost is looked up before
// it is sent again. A round of looks counts for the writes that were in doubt
// before it was read, so that an old answer never decides about a write that was
// sent again after it.
const maxRounds = 3 // then a write stays in doubt

// lost chooses the writes in doubt that can be looked up.
func lost(ans Answer) bool { return ans.Doubt && classOf(ans.Request) == rmm.ClassVerify }

// inDoubt loads the writes in doubt that are chosen. What the plan says of them is
// not needed.
func inDoubt(ctx context.Context, a Answers, choose func(Answer) bool) ([]*write, error) {
	var writes []*write
	for ans, err := range a.Answers(ctx, applyPrefix) {
		if err != nil {
			return nil, err
		}
		if ans.Doubt && choose(ans) {
			writes = append(writes, newWrite(ans))
		}
	}
	return writes, nil
}

// doubts looks up the writes in doubt; settled tells that there is nothing that a
// further look would tell, and the step is what comes then.
func (p applier) doubts(ctx context.Context, stage string, a Answers) (step Step, settled bool, err error) {
	writes, err := inDoubt(ctx, a, lost)
	if err != nil || len(writes) == 0 {
		return Step{Done: true}, true, err
	}
	last, err := lastRound(ctx, a, lookupPrefix)
	if err != nil {
		return Step{}, false, err
	}
	var older, newer []*write
	for _, w := range writes {
		if last.number > 0 && w.settled.Before(last.began) {
			older = append(older, w)
		} else {
			newer = append(newer, w)
		}
	}
	if len(older) > 0 {
		step, again, err := p.decide(ctx, stage, a, last.number, older)
		if err != nil || again || len(step.Decisions) > 0 {
			return step, false, err
		}
	}
	if len(newer) == 0 || last.number >= maxRounds {
		note := fmt.Sprintf("%d writes whose answers were lost stay in doubt: what was looked up did not tell", len(writes))
		return Step{Done: true, Note: note}, true, nil
	}
	return Step{
		Stage: stage, Items: newLook(lookupPrefix, last.number+1, slices.Values(newer)).items(p.set.pageSize()),
		Note: fmt.Sprintf("%d writes whose answers were lost are looked up", len(newer)),
	}, false, nil
}

// decide says what became of writes by a round that was read after they were
// lost. A list that cannot be read whole decides nothing.
func (p applier) decide(ctx context.Context, stage string, a Answers, n int, writes []*write) (Step, bool, error) {
	l := newLook(lookupPrefix, n, slices.Values(writes))
	step, again, err := l.settle(ctx, stage, a, p.set.pageSize())
	if _, incomplete := err.(*IncompleteError); incomplete { //nolint:errorlint // settleLists returns it bare
		return Step{}, false, nil
	}
	if err != nil || again {
		return step, again, err
	}
	if err := l.show(ctx, a, writes); err != nil {
		return Step{}, false, err
	}
	done := 0
	for _, w := range writes {
		d := Decision{Key: w.item, Fate: FateAgain}
		switch carried, known := w.carriedOut(); {
		case !known:
			continue
		case carried:
			d.Fate, d.Reason = FateDone, "found: it was carried out, though its answer was lost"
			done++
		}
		step.Decisions = append(step.Decisions, d)
	}
	step.Stage = stage
	step.Note = fmt.Sprintf("of %d writes whose answers were lost %d were carried out and %d are sent again", len(step.Decisions), done, len(step.Decisions)-done)
	return step, false, nil
}

// carriedOut tells whether a write that can be looked up was carried out, as far
// as the look shows it.
func (w *write) carriedOut() (carried, known bool) {
	switch w.op.effect {
	case creates:
		return w.live.there, w.live.seen
	case removes, resolves:
		return !w.live.there, w.live.seen
	}
	return false, false
}
