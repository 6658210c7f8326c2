package jobs

import (
	"context"
	"iter"
	"slices"
	"time"
)

// RowClass is what the plan makes of one input row.
type RowClass string

// The classes of rows. Rows of the first three are good; the others are held
// back and named, never guessed at.
const (
	ClassChange    RowClass = "change"    // at least one field gets a new value
	ClassClear     RowClass = "clear"     // at least one field is emptied
	ClassUnchanged RowClass = "unchanged" // the target is as wanted already
	ClassNotFound  RowClass = "not_found" // no target has the key
	ClassAmbiguous RowClass = "ambiguous" // several targets have the key
	ClassConflict  RowClass = "conflict"  // another row wants something else for the target
	ClassInvalid   RowClass = "invalid"   // the row itself is wrong: empty key, impossible value
	ClassProtected RowClass = "protected" // the guard of the job keeps the target
	ClassHeading   RowClass = "heading"   // row 0: the heading of the input

	// Of an undo.
	ClassKept         RowClass = "kept"           // edited since, so it is left alone
	ClassIrreversible RowClass = "not_reversible" // nothing can take it back
)

// RowClasses lists the classes of rows in the order in which they are shown.
func RowClasses() []RowClass {
	return []RowClass{ClassChange, ClassClear, ClassUnchanged, ClassNotFound, ClassAmbiguous, ClassConflict, ClassInvalid, ClassProtected, ClassKept, ClassIrreversible}
}

// Held tells whether rows of the class are held back.
func (c RowClass) Held() bool {
	switch c {
	case ClassNotFound, ClassAmbiguous, ClassConflict, ClassInvalid, ClassProtected, ClassKept, ClassIrreversible:
		return true
	}
	return false
}

// plan is the whole plan of an update before it is stored.
type plan struct {
	job        *Job
	op         operation
	mark       string // for the names of quick jobs
	heading    []string
	reader     *rowReader
	sites      *siteIndex // nil where no row names one
	components components // nil where none is run
	rows       []inputRow
	cells      cellStore // of the rows
	targets    []*target // in the order of their first row
	counts     map[RowClass]int
	fleet      int // targets that the account has
	writes     int // targets that must be written
	clears     int // fields that are emptied
	notes      []string
}

// rows opens the input of the update.
func (u *UpdateWork) rows(ctx context.Context, a Answers) (*Table, error) {
	if u.job.Update.Rows.From == nil { // a call without rows has one of its own
		return OpenInput(u.job)
	}
	return openSelection(u.job.Update, &selectionSource{
		ctx: ctx, answers: a, prefix: u.rowsList().id + "/", now: u.set.Now.UTC().Truncate(time.Millisecond),
	})
}

// eachRow reads the rows of a table.
func (u *UpdateWork) eachRow(ctx context.Context, table *Table, do func(Record, inputRow)) error {
	reader := newRowReader(u.job.Update, table)
	for rec, err := range table.Records() {
		if err != nil {
			return err
		}
		row, _ := reader.read(rec)
		do(rec, row)
		if rec.Number%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// eachKey calls do with the key of every row of the input that has no fault.
func (u *UpdateWork) eachKey(ctx context.Context, a Answers, do func(key string)) error {
	table, err := u.rows(ctx, a)
	if err != nil {
		return err
	}
	return u.eachRow(ctx, table, func(_ Record, row inputRow) {
		if row.verdict == nil {
			do(row.key)
		}
	})
}

// readRows takes the rows of a table into the plan.
func (p *plan) readRows(ctx context.Context, u *UpdateWork, table *Table) error {
	p.rows = slices.Grow(p.rows, table.Rows)
	var keys interned
	err := u.eachRow(ctx, table, func(rec Record, row inputRow) {
		row.key = keys.one(row.key)
		p.add(row, rec.Cells)
	})
	p.cells.packing = nil
	return err
}

// add takes one row.
func (p *plan) add(row inputRow, cells []string) {
	p.rows = append(p.rows, row)
	p.cells.add(cells)
}

// makePlan reads the rows, resolves them against the targets and classifies
// each. An input hash that is set is that of the input which is expected.
func (u *UpdateWork) makePlan(ctx context.Context, a Answers, src sources) (*plan, error) {
	job, set := u.job, u.set
	table, err := u.rows(ctx, a)
	if err != nil {
		return nil, err
	}
	if set.InputHash != "" && set.InputHash != table.Hash {
		return nil, table.refuse("run the job again for the new contents", "the file changed since the run was begun")
	}
	p := &plan{
		job: job, op: operationOf(job.Update.Operation.Name), mark: set.Mark, heading: table.Headers,
		reader: newRowReader(job.Update, table), sites: src.sites, components: src.components, counts: map[RowClass]int{},
	}
	if err := p.readRows(ctx, u, table); err != nil {
		return nil, err
	}
	if job.Update.Call != nil {
		p.readCalls()
		p.count()
		return p, nil
	}
	p.placeRows(src.listed)
	if err := p.checkComponents(); err != nil {
		return nil, err
	}
	wanted := map[string][]*object{}
	for row := range p.eachRow() {
		if row.verdict == nil {
			wanted[row.key] = nil
		}
	}
	fit := newSelectorFit(job.Guard)
	if p.fleet, err = collect(job, src, wanted, fit); err != nil {
		return nil, err
	}
	if err = p.checkSelectors(fit); err != nil {
		return nil, err
	}
	p.resolve(wanted)
	first, clashes := make([]*inputRow, len(job.Update.Set)), p.clashes()
	for _, t := range p.targets {
		p.merge(t, first, clashes[t])
	}
	p.noteSystemSites()
	p.count()
	return p, nil
}

// count counts the rows by class.
func (p *plan) count() {
	for row := range p.eachRow() {
		p.counts[row.class()]++
	}
}

// eachRow yields the rows in their order.
func (p *plan) eachRow() iter.Seq[*inputRow] {
	return func(yield func(*inputRow) bool) {
		for i := range p.rows {
			if !yield(&p.rows[i]) {
				return
			}
		}
	}
}
