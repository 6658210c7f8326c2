package jobs

import (
	"context"
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

// want is the value that a row wants of one field.
type want struct {
	value   string // "" where the field is to be cleared
	setting uint16 // index in the Set of the job
	clear   bool
}

// inputRow is one record on its way into the plan. There may be a hundred
// thousand, so what can be made from the target when it is stored is not kept.
type inputRow struct {
	number, line int
	cells        packedCells
	key          string // normalised match key; "" when the row is invalid
	class        RowClass
	reason       string
	wants        []want
	target       *target
}

// plan is the whole plan of an update before it is stored.
type plan struct {
	job     *Job
	op      operation
	mark    string // for the names of quick jobs
	heading []string
	sites   *siteIndex // nil where no row names one
	rows    []*inputRow
	targets []*target // in the order of their first row
	counts  map[RowClass]int
	fleet   int // targets that the account has
	writes  int // targets that must be written
	clears  int // fields that are emptied
	notes   []string
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

// readRows reads the rows of the input.
func (u *UpdateWork) readRows(ctx context.Context, a Answers) (*Table, []*inputRow, error) {
	table, err := u.rows(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	reader := newRowReader(u.job.Update, table)
	var rows []*inputRow
	for rec, err := range table.Records() {
		if err != nil {
			return nil, nil, err
		}
		row, _ := reader.read(rec)
		rows = append(rows, row)
		if len(rows)%1024 == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return table, rows, nil
}

// makePlan reads the rows, resolves them against the targets and classifies
// each. An input hash that is set is that of the input which is expected.
func (u *UpdateWork) makePlan(ctx context.Context, a Answers, src sources) (*plan, error) {
	job, set := u.job, u.set
	table, rows, err := u.readRows(ctx, a)
	if err != nil {
		return nil, err
	}
	if set.InputHash != "" && set.InputHash != table.Hash {
		return nil, table.refuse("run the job again for the new contents", "the file changed since the run was begun")
	}
	p := &plan{
		job: job, op: operationOf(job.Update.Operation.Name), mark: set.Mark, heading: table.Headers, rows: rows,
		sites: src.sites, counts: map[RowClass]int{},
	}
	if job.Update.Call != nil {
		p.readCalls(newRowReader(job.Update, table))
		p.count()
		return p, nil
	}
	p.placeRows(src.listed)
	wanted := map[string][]*object{}
	for _, row := range p.rows {
		if row.class == "" {
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
	first := make([]*inputRow, len(job.Update.Set))
	for _, t := range p.targets {
		p.merge(t, first)
	}
	p.count()
	return p, nil
}

// count counts the rows by class.
func (p *plan) count() {
	for _, row := range p.rows {
		p.counts[row.class]++
	}
}
