package jobs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"rmmjob/internal/spell"
)

// applier settles the stages that follow a plan. It needs nothing but what the
// run has stored, so a plan is carried out as it was shown, whatever became of
// the job file and the input meanwhile.
type applier struct {
	set    Settings
	verify bool  // read back after the writes
	guard  Guard // of the job
	undo   bool  // the plan takes a run back: its rows do not name the targets
}

// begin chooses the stage with which a new plan goes on.
func (p applier) begin(step Step) Step {
	switch {
	case step.Guard != nil:
		step.Stage, step.Hold = StageGuarded, true
		step.Items = held(step.Items)
	case p.set.PlanOnly:
		step.Stage, step.Hold = StagePlan, true
		step.Items = held(step.Items)
	case p.set.Canary > 0:
		step.Stage, step.Items = StageCanary, held(step.Items)
	default:
		step.Stage = StageApply
	}
	return step
}

// held are items that wait to be released.
func held(items iter.Seq[Item]) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for it := range items {
			it.Held = it.Birth == Pending
			if !yield(it) {
				return
			}
		}
	}
}

func (p applier) settle(ctx context.Context, stage string, a Answers) (Step, error) {
	switch stage {
	case StagePlan, StageRetrial:
		if stage == StagePlan && p.set.PlanOnly { // taken up again before it was known to have ended
			return Step{Stage: StagePlan, Hold: true}, nil
		}
		return p.look(ctx, a, checkPrefix, StageCheck, waiting, "")
	case StageGuarded: // taken up again before it was known to have ended
		return Step{}, &GuardError{Guard: "plan", Message: "a guard has stopped the plan; the history of the run tells which"}
	case StageCheck:
		step, again, err := p.check(ctx, stage, a)
		if err != nil || again {
			return step, err
		}
		step.Stage, step.Release = StageApply, -1
		if p.set.Canary > 0 {
			step.Stage, step.Release = StageCanary, 0
		}
		return step, nil
	case StageCanary:
		return p.canary(ctx, a)
	case StageTried:
		return p.tried(ctx, a)
	case StageWait, StageResumed:
		return p.look(ctx, a, checkPrefix, StageRecheck, waiting, "")
	case StageRecheck:
		step, again, err := p.check(ctx, stage, a)
		if err != nil || again {
			return step, err
		}
		step.Stage, step.Release = StageApply, -1
		if more, err := p.triesMore(ctx, a, step.Decisions); err != nil || more {
			step.Stage, step.Release = StageCanary, 0
			return step, err
		}
		return step, nil
	case StageApply:
		step, settled, err := p.doubts(ctx, stage, a)
		if err != nil || !settled || !p.verify {
			return step, err
		}
		next, err := p.look(ctx, a, verifyPrefix, StageVerify, carried, "")
		next.Note = step.Note
		return next, err
	case StageVerify:
		return p.readBack(ctx, a)
	}
	return Step{}, fmt.Errorf("an update has no stage %q", stage)
}

// looked ends what was accepted with the look that it was accepted for: what was found
// then is remembered as what is there.
func (s *Settings) looked(stage string, step Step) {
	if (stage == StageCheck || stage == StageRecheck) && step.Stage != "" {
		s.AcceptDrift = false
	}
}

// recheck is the look that the writes of a stage need after a pause.
func (p applier) recheck(stage string) string {
	switch stage {
	case StageCanary, StageCheck:
		return StageRetrial
	case StageApply, StageRecheck:
		return StageResumed
	}
	return ""
}

// Recheck tells where an update goes on that is taken up after a pause in a stage:
// with another look at what is left to write; "" where it goes on as it stopped.
func (u *UpdateWork) Recheck(stage string) string { return u.apply().recheck(stage) }

// Recheck is that of [UpdateWork.Recheck].
func (u *UndoWork) Recheck(stage string) string { return u.apply().recheck(stage) }

// waiting chooses the writes that are to be sent.
func waiting(ans Answer) bool { return ans.Settled.IsZero() && !ans.Parked }

// carried chooses the writes that were acknowledged.
func carried(ans Answer) bool { return ans.OK }

// carriedPerhaps chooses those too whose answers were lost, which were acknowledged and not
// there, and of which a person has said that they were not carried out.
func carriedPerhaps(ans Answer) bool { return ans.OK || ans.Unsure || ans.Doubt }

// look begins a stage that reads the targets of the chosen writes once more.
func (p applier) look(ctx context.Context, a Answers, prefix, stage string, choose func(Answer) bool, note string) (Step, error) {
	writes, err := p.load(ctx, a, prefix, choose)
	if err != nil {
		return Step{}, err
	}
	last, err := lastRound(ctx, a, prefix)
	if err != nil {
		return Step{}, err
	}
	return Step{
		Stage: stage, Note: note, Items: newLook(prefix, last.number+1, slices.Values(writes)).items(p.set.pageSize()), Decisions: last.superseded(),
	}, nil
}

// load loads the chosen writes, and has those judged that are to be sent. Before and
// after the writes it is looked at what had nothing to be written, too.
func (p applier) load(ctx context.Context, a Answers, prefix string, choose func(Answer) bool) ([]*write, error) {
	writes, err := loadWrites(ctx, a, choose)
	if err == nil && !p.undo && (prefix == checkPrefix || prefix == verifyPrefix) {
		var unsent []*write
		unsent, err = loadUnsent(ctx, a, writes)
		writes = append(writes, unsent...)
	}
	if prefix == checkPrefix {
		j := &judge{guard: p.guard, named: !p.undo}
		for _, w := range writes {
			w.judge = j
		}
	}
	return writes, err
}

// seen loads the chosen writes with what the newest look has shown of their
// targets; again tells that its lists are to be walked once more.
func (p applier) seen(ctx context.Context, a Answers, prefix, stage string, choose func(Answer) bool) (writes []*write, step Step, again bool, err error) {
	if writes, err = p.load(ctx, a, prefix, choose); err != nil {
		return nil, Step{}, false, err
	}
	last, err := lastRound(ctx, a, prefix)
	if err != nil || last.number == 0 {
		return writes, Step{}, false, err
	}
	l := newLook(prefix, last.number, slices.Values(writes))
	if step, again, err = l.settle(ctx, stage, a, p.set.pageSize()); err != nil || again {
		return nil, step, again, err
	}
	return writes, Step{}, false, l.show(ctx, a, writes)
}

// check holds back what has been edited since the plan was made, and what is as
// wanted by now.
func (p applier) check(ctx context.Context, stage string, a Answers) (Step, bool, error) {
	writes, step, again, err := p.seen(ctx, a, checkPrefix, stage, waiting)
	if err != nil || again {
		return step, again, err
	}
	blind, sent := 0, 0
	held := map[string]int{}    // by class
	over := map[string]*write{} // written over what was edited
	for _, w := range writes {
		var d Decision
		switch {
		case w.unsent:
			d = w.noLongerSo()
		default:
			sent++
			d = w.checked(p.set.AcceptDrift)
		}
		switch {
		case d.Fate == FateFailed && w.unsent:
			held["unsent"]++
		case d.Fate == FateFailed:
			held[d.Class]++
		case d.Fate == "" && !w.unsent:
			switch s, _ := w.stands(); s {
			case unseen:
				blind++
			case edited:
				over[w.item] = w
			}
		}
		if d.Fate != "" {
			step.Decisions = append(step.Decisions, d)
		}
	}
	if err := p.revise(ctx, a, &step, over); err != nil {
		return Step{}, false, err
	}
	step.Note = heldNote(held, sent)
	if step.Note == "" && blind > 0 && blind == sent {
		step.Note = "whether the targets were edited since the plan was made cannot be read"
	}
	return step, false, nil
}

// checked decides about a write that is to be sent, by what the look has shown of its
// target. It decides nothing where the write is to be sent, over what was edited by
// somebody else if that is accepted.
func (w *write) checked(accept bool) Decision {
	held := func(class, reason string) Decision {
		return Decision{Key: w.item, Fate: FateFailed, Class: class, Reason: reason}
	}
	s, field := w.stands()
	switch {
	case w.live.why != "" && s != asWritten:
		return held(w.live.class, w.live.why)
	case s == unseen && w.op.effect == creates && w.live.there:
		return held(ClassStale, "a "+w.op.thing()+" of this name is there by now, and nobody can read its value")
	case s == asWritten && w.unsure:
		return Decision{Key: w.item, Fate: FateDone, Reason: Found + "it was carried out by an earlier try"}
	case s == asWritten:
		return Decision{Key: w.item, Fate: FateUnchanged, Reason: "it is so already"}
	case s == gone:
		return held(ClassStale, w.whyNot(s, field, ""))
	case s == edited && w.op.effect == creates:
		return held(ClassStale, fmt.Sprintf("a %s of this name is there by now, with another %s", w.op.thing(), field))
	case s == edited && w.op.effect == removes && !w.judge.named: // what an undo deletes is what the run has made
		return held(ClassStale, w.whyNot(s, field, "since the plan was made"))
	case s == edited && !accept:
		return held(ClassDrifted, w.whyNot(s, field, "since the plan was made"))
	}
	return Decision{}
}

// heldNote says how many writes are held back and why.
func heldNote(held map[string]int, writes int) string {
	var parts []string
	for _, of := range []struct{ class, why string }{
		{string(ClassProtected), "protected by now"}, {ClassDrifted, "edited since the plan was made"}, {ClassStale, "not what was planned any more"},
	} {
		if n := held[of.class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d: %s", n, of.why))
		}
	}
	note := ""
	switch n := held[string(ClassProtected)] + held[ClassDrifted] + held[ClassStale]; {
	case len(parts) == 1:
		note = fmt.Sprintf("%d of %s held back%s", n, spell.Count(writes, "write is", "writes are"), parts[0][len(strconv.Itoa(n)):])
	case n > 0:
		note = fmt.Sprintf("%d of %s held back; %s", n, spell.Count(writes, "write is", "writes are"), strings.Join(parts, "; "))
	}
	if n := held["unsent"]; n > 0 {
		if note != "" {
			note += "; "
		}
		note += spell.Count(n, "target", "targets") + " that had nothing to be written when the plan was made would need it now, which takes a new plan"
	}
	return note
}

// readBack ends the run: what was acknowledged and is not there has failed.
func (p applier) readBack(ctx context.Context, a Answers) (Step, error) {
	writes, step, again, err := p.seen(ctx, a, verifyPrefix, StageVerify, carried)
	if err != nil || again {
		return step, err
	}
	step.Done = true
	blind, missing, unsent, strayed := 0, 0, 0, 0
	for _, w := range writes {
		if w.unsent {
			unsent++
			if d := w.noLongerSo(); d.Fate != "" {
				strayed++
				step.Decisions = append(step.Decisions, d)
			}
			continue
		}
		switch s, field := w.stands(); s {
		case unseen:
			blind++
		case asWritten:
		default:
			missing++
			step.Decisions = append(step.Decisions, Decision{
				Key: w.item, Fate: FateFailed, Class: ClassNotApplied, Reason: "read back after the write: " + w.notThere(s, field),
			})
		}
	}
	sent := len(writes) - unsent
	step.Note = fmt.Sprintf("%s read back: %s as sent, %s not", spell.Count(sent, "write was", "writes were"),
		spell.Count(sent-missing-blind, "is", "are"), spell.Count(missing, "is", "are"))
	if blind > 0 {
		step.Note += fmt.Sprintf(", %d that cannot be read back", blind)
	}
	if note := heldNote(map[string]int{"unsent": strayed}, 0); note != "" {
		step.Note += "; " + note
	}
	return step, nil
}

// notThere says what of a write is not there.
func (w *write) notThere(s standing, field string) string {
	switch {
	case s == gone:
		return "the " + w.op.thing() + " is not listed any more"
	case w.op.effect == removes && s == asBefore, w.op.effect == resolves:
		return "it is still there"
	case w.op.effect == creates && s == asBefore:
		return "it is not there"
	case s == asBefore:
		return "it is as it was before"
	case s == inPart:
		return field + " is as it was before"
	case w.asWanted(field):
		return field + " is not what the row wants, and was so when it was planned"
	}
	return field + " is not what was sent"
}
