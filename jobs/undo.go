package jobs

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// UndoWork is the work of a run that takes back what another run has changed: it
// reads the targets, plans to restore what was before where the account still has
// what that run wrote, and carries the plan out like any other.
type UndoWork struct {
	source Answers // of the run whose changes are taken back
	set    Settings
	verify bool
	guard  Guard // of the job whose run it is
}

// NewUndoWork returns the work that takes back what a run of a job has changed. The
// source gives the answers of the run and the rows of its plan. Of the job counts what
// it protects, and whether it reads back what was written.
func NewUndoWork(source Answers, set Settings, job *Job) *UndoWork {
	return &UndoWork{source: source, set: set, verify: job.Update.Verify, guard: job.Guard}
}

// Start begins with a look at what there is to take back, which sends nothing.
func (u *UndoWork) Start() (string, []Item) { return StageSource, nil }

// Follow returns the pages that an answer adds; a write adds nothing.
func (u *UndoWork) Follow(it Item, body []byte) ([]Item, error) { return followRead(it, body) }

// Settle reads the targets, makes the plan and carries it out. Its errors are
// those of [UpdateWork.Settle].
func (u *UndoWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	switch stage {
	case StageSource:
		writes, err := u.writes(ctx)
		if err != nil {
			return Step{}, err
		}
		return Step{Stage: StageRead, Items: newLook(undoPrefix, 1, slices.Values(writes)).items(u.set.pageSize())}, nil
	case StageRead:
		return u.plan(ctx, a)
	}
	step, err := u.apply().settle(ctx, stage, a)
	u.set.looked(stage, step)
	return step, err
}

func (u *UndoWork) apply() applier {
	return applier{set: u.set, verify: u.verify, guard: u.guard, undo: true}
}

// writes are what the source has carried out, or may have: what is there now decides. Something that was deleted is looked
// for by its name: it may have been made again.
func (u *UndoWork) writes(ctx context.Context) ([]*write, error) {
	writes, err := loadWrites(ctx, u.source, carriedPerhaps)
	j := &judge{guard: u.guard}
	for _, w := range writes {
		w.judge = j
		if w.op.effect == removes && !w.op.proxy {
			w.by = "name " + w.op.keyText("name", keyOf("name", w.before))
		}
	}
	return writes, err
}

// plan decides for every write of the source what takes it back.
func (u *UndoWork) plan(ctx context.Context, a Answers) (Step, error) {
	writes, err := u.writes(ctx)
	if err != nil {
		return Step{}, err
	}
	l := newLook(undoPrefix, 1, slices.Values(writes))
	if step, again, err := l.settle(ctx, StageRead, a, u.set.pageSize()); err != nil || again {
		return step, err
	}
	if err := l.show(ctx, a, writes); err != nil {
		return Step{}, err
	}
	if err := u.findRenamed(ctx, a, l, writes); err != nil {
		return Step{}, err
	}
	p := &undoPlan{inverses: map[string]*inverse{}}
	for _, w := range writes {
		v := w.inverse().allowed(w)
		_, target, _ := strings.Cut(strings.TrimPrefix(w.item, applyPrefix), "/")
		v.site = w.live.site
		v.key = applyPrefix + cmp.Or(v.req.Op, w.req.Op) + "/" + target
		p.inverses[w.item] = v
		p.order = append(p.order, v)
	}
	rows, err := p.count(u.source.Rows(ctx))
	if err != nil {
		return Step{}, err
	}
	step := Step{Items: p.items(rows), Rows: p.rows(u.source.Rows(ctx)), Plan: p.counts}
	return u.apply().begin(step), nil
}

// undoPlan is the plan of an undo before it is stored.
type undoPlan struct {
	inverses map[string]*inverse // by the item of the source
	order    []*inverse
	counts   map[RowClass]int
}

// row is what the plan says of a row of the source; false for one that changed
// nothing.
func (p *undoPlan) row(r Row) (Row, bool) {
	v := p.inverses[r.ItemKey]
	if r.Class == ClassHeading {
		return r, true
	}
	if v == nil || r.Class != ClassChange && r.Class != ClassClear {
		return r, false
	}
	fields := r.Detail.Changes
	r.Class, r.ItemKey = v.class, v.key
	r.Detail.Reason, r.Detail.Before, r.Detail.Changes, r.Detail.Match = v.reason, v.before, nil, nil
	r.Detail.Site = cmp.Or(v.site, r.Detail.Site)
	if r.Detail.Request != "" && v.req.Op != "" {
		r.Detail.Request = v.req.Op
	}
	for _, c := range v.changes {
		if v.whole || slices.ContainsFunc(fields, func(was Change) bool { return was.Field == c.Field }) {
			r.Detail.Changes = append(r.Detail.Changes, c)
			if c.Clear && r.Class == ClassChange {
				r.Class = ClassClear
			}
		}
	}
	r.Detail.Kept = nil
	for _, field := range v.kept {
		if slices.ContainsFunc(fields, func(was Change) bool { return was.Field == field }) {
			r.Detail.Kept = append(r.Detail.Kept, field)
		}
	}
	switch {
	case r.Class.Held() || len(v.kept) == 0:
	case len(r.Detail.Kept) == 0:
		r.Detail.Reason = "" // it is another row of the target that is kept in part
	case len(r.Detail.Changes) == 0:
		r.Class, r.Detail.Kept = ClassKept, nil
	}
	if r.Class.Held() {
		r.ItemKey = rowKey(r.Number)
	}
	return r, true
}

// heldRow is a row that has no request.
type heldRow struct {
	key    string
	class  RowClass
	reason string
}

// count counts the rows by class and returns those that are held back.
func (p *undoPlan) count(source iter.Seq2[Row, error]) ([]heldRow, error) {
	p.counts = map[RowClass]int{}
	var held []heldRow
	for r, err := range source {
		if err != nil {
			return nil, err
		}
		row, ok := p.row(r)
		if !ok || row.Class == ClassHeading {
			continue
		}
		p.counts[row.Class]++
		if row.Class.Held() {
			held = append(held, heldRow{row.ItemKey, row.Class, row.Detail.Reason})
		}
	}
	return held, nil
}

// rows yields the heading of the source and every row that changed something. The
// source was read before without an error.
func (p *undoPlan) rows(source iter.Seq2[Row, error]) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for r, err := range source {
			if err != nil {
				return
			}
			if row, ok := p.row(r); ok && !yield(row) {
				return
			}
		}
	}
}

// items yields the requests of the plan, and an item for each row, and each field
// of a row, that is left alone.
func (p *undoPlan) items(held []heldRow) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, v := range p.order {
			switch {
			case v.class.Held():
				continue
			case v.class == ClassUnchanged:
				if !yield(Item{Key: v.key, Birth: Unchanged, Reason: v.reason}) {
					return
				}
				continue
			}
			if !yield(Item{Key: v.key, Request: v.req}) {
				return
			}
			if len(v.kept) > 0 && !yield(Item{Key: "kept/" + v.key, Birth: Failed, Class: string(ClassKept), Reason: v.reason}) {
				return
			}
		}
		for _, h := range held {
			if !yield(Item{Key: h.key, Birth: Failed, Class: string(h.class), Reason: h.reason}) {
				return
			}
		}
	}
}

// rowKey is the key of the item that stands for a row held back.
func rowKey(number int) string { return fmt.Sprintf("row/%09d", number) }
