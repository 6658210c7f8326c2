package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// Writes of the class verify leave something that can be looked up: a name that
// is there, a variable that is gone. One whose answer was lost is looked up before
// it is sent again. A round of looks counts for the writes that were in doubt
// before it was read, so that an old answer never decides about a write that was
// sent again after it.
const maxRounds = 3 // then a write stays in doubt

// lost chooses the writes in doubt that can be looked up.
func lost(ans Answer) bool { return ans.Doubt && classOf(ans.Request) == rmm.ClassVerify }

// doubts looks up the writes in doubt; settled tells that there is nothing that a
// further look would tell, and the step is what comes then.
func (p applier) doubts(ctx context.Context, stage string, a Answers) (step Step, settled bool, err error) {
	writes, err := loadWrites(ctx, a, lost)
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
		note := spell.Count(len(writes), "write whose answer was lost stays", "writes whose answers were lost stay") +
			" in doubt: what was looked up did not tell"
		return Step{Done: true, Note: note}, true, nil
	}
	return Step{
		Stage: stage, Items: newLook(lookupPrefix, last.number+1, slices.Values(newer)).items(p.set.pageSize()),
		Note: spell.Count(len(newer), "write whose answer was lost is", "writes whose answers were lost are") + " looked up", Decisions: last.superseded(),
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
	done, others := 0, 0
	for _, w := range writes {
		d, known := w.settleDoubt()
		if !known {
			continue
		}
		switch d.Fate {
		case FateDone:
			done++
		case FateFailed:
			others++
		}
		step.Decisions = append(step.Decisions, d)
	}
	step.Stage = stage
	step.Note = fmt.Sprintf("of %s lost: %d carried out, %d to be sent again",
		spell.Count(len(step.Decisions), "write whose answer was", "writes whose answers were"), done, len(step.Decisions)-done-others)
	if others > 0 {
		step.Note += fmt.Sprintf(", %d that found something else there", others)
	}
	return step, false, nil
}

// settleDoubt decides about a write whose answer was lost by what a look has shown;
// false where that does not tell.
func (w *write) settleDoubt() (d Decision, known bool) {
	d.Key = w.item
	switch s, field := w.outcome(); s {
	case asBefore:
		d.Fate = FateAgain
	case asWritten:
		d.Fate, d.Reason = FateDone, foundLost
	case edited:
		d.Fate, d.Class, d.Reason = FateFailed, ClassDrifted, w.whyNot(s, field, "since the plan was made")
		if w.op.effect == creates {
			d.Class = string(ClassConflict)
			d.Reason = fmt.Sprintf("the answer was lost, and there is a %s of this name with another %s than was sent: somebody else has made or edited it", w.op.thing(), field)
		}
	default:
		return d, false
	}
	return d, true
}

// outcome tells what became of a write whose answer was lost. That something of its
// name is there does not show that this write has made it.
func (w *write) outcome() (standing, string) {
	switch {
	case classOf(w.req) != rmm.ClassVerify:
		return unseen, ""
	case w.op.effect == creates && w.live.seen && w.live.there:
		return w.compareMade()
	}
	return w.stands()
}

// compareMade compares what is there with all that was sent. Texts that were not sent
// are empty in what the write has made.
func (w *write) compareMade() (standing, string) {
	def, _ := rmm.Lookup(w.req.Op)
	told := asWritten
	for _, f := range def.Body {
		sent, shown := gjson.GetBytes(w.req.Body, f.Name), gjson.GetBytes(w.live.element, f.Name)
		switch {
		case sent.Exists() && !shown.Exists():
			told = unseen // masked, say
		case !shown.Exists() || !sent.Exists() && f.Type != rmm.TypeString:
		case sent.String() != shown.String():
			return edited, f.Name
		}
	}
	return told, ""
}
