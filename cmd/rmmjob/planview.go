package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// planView is the plan of a run as it is shown, on the terminal and in files.
type planView struct {
	Run, Job, File, Account, Operation string

	State string // of the run
	Begun bool   // something of it was sent

	Thing    string // what a target is called
	Made     time.Time
	Counts   map[string]int // rows by class, and rows in all
	Requests int            // writes that the plan comes to
	Expected string         // how long they take at the present budget; "" if that is not known
	Clears   int            // fields that will be emptied
	Deletes  int            // things that will be deleted, by one request each
	Deleted  string         // these in words
	Values   bool           // values are shown
	Notes    []string

	rows func() iter.Seq2[checkpoint.Row, error]
	err  error // of the last pass over the rows
}

// planRow is one row of the input in a plan.
type planRow struct {
	Line    int          `json:"line"`
	Class   string       `json:"class"`
	Name    string       `json:"name"`
	Target  string       `json:"target"`
	Site    string       `json:"site"`
	Request string       `json:"request,omitempty"`
	Changes []planChange `json:"changes"`
	Reason  string       `json:"reason,omitempty"`
}

// viewPlan makes the view of a run that has a plan.
func (s *state) viewPlan(ctx context.Context, rec checkpoint.Run, values bool) (*planView, error) {
	counts, err := s.store.RowCounts(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	if len(counts) == 0 {
		return nil, usagef("run %s has no plan: it is an export, or it ended before its plan was made", rec.ID)
	}
	v := &planView{
		Run: rec.ID, Job: rec.JobName, File: rec.JobPath, Account: rec.Account, Thing: "target", Made: rec.Created,
		State: string(rec.State), Begun: rec.Writes > 0, Counts: planCounts(counts), Values: values,
		rows: func() iter.Seq2[checkpoint.Row, error] { return s.store.Rows(ctx, rec.ID) },
	}
	requests, deletes, lost := map[string]bool{}, map[string]bool{}, ""
	for row, err := range v.rows() {
		if err != nil {
			return nil, err
		}
		if v.Operation == "" {
			v.Operation = jobs.OperationOfItem(row.ItemKey)
		}
		class := jobs.RowClass(row.Class)
		if class != jobs.ClassChange && class != jobs.ClassClear {
			continue
		}
		requests[row.ItemKey] = true
		p, err := v.row(row)
		if err != nil {
			return nil, err
		}
		for _, c := range p.Changes {
			if c.Cleared() {
				v.Clears++
			}
			if c.Deleted() {
				deletes[row.ItemKey], lost = true, c.Field
			}
		}
	}
	v.Requests, v.Deletes, v.Deleted = len(requests), len(deletes), deletedWords(len(deletes), lost)
	if v.Operation != "" {
		v.Thing = jobs.Thing(v.Operation)
	}
	return v, nil
}

// deletedWords are things that are deleted: all of a plan are of one kind.
func deletedWords(n int, thing string) string {
	if thing == "proxy" {
		return "the proxy of " + count(int64(n), "site")
	}
	return count(int64(n), thing)
}

// expect asks the limiter how long the writes of the plan take.
func (v *planView) expect(ctx context.Context, st *state, limiter *throttle.Limiter) error {
	pending, err := st.store.Pending(ctx, v.Run, jobs.FirstPageEnding)
	if err != nil {
		return err
	}
	limiter.Expect(throttle.Read, 0)
	for _, p := range pending {
		limiter.Expect(p.Lane, p.Items+p.Held)
	}
	if left, known := limiter.TimeLeft(); known {
		v.Expected = strings.TrimSuffix(leftText(runner.Progress{TimeLeft: left, LeftKnown: true}), " left")
	}
	return nil
}

// row decodes a row and hides its values unless they are to be shown.
func (v *planView) row(row checkpoint.Row) (planRow, error) {
	var d jobs.RowDetail
	if err := json.Unmarshal(row.Payload, &d); err != nil {
		return planRow{}, fmt.Errorf("row %d of the plan: %w", row.Number, err)
	}
	p := planRow{
		Line: d.Line, Class: row.Class, Name: d.Hostname, Target: d.UID, Site: d.Site, Request: d.Request, Reason: d.Reason, Changes: []planChange{},
	}
	if class := jobs.RowClass(row.Class); d.Reason != "" && class != jobs.ClassChange && class != jobs.ClassClear {
		return p, nil
	}
	for _, c := range d.Changes {
		if change, changes := newPlanChange(c, v.Values); changes {
			p.Changes = append(p.Changes, change)
		}
	}
	return p, nil
}

// value is a value as people read it: hidden unless values were asked for.
func (v *planView) value(c jobs.Change, value string) string {
	if c.Open {
		return value
	}
	return newPlanValue(value, v.Values && !c.Secret).Words()
}

// each yields the rows of some classes, all if none is named. An error ends it and
// is kept.
func (v *planView) each(classes ...jobs.RowClass) iter.Seq[planRow] {
	want := map[string]bool{}
	for _, c := range classes {
		want[string(c)] = true
	}
	return func(yield func(planRow) bool) {
		for row, err := range v.rows() {
			if err != nil {
				v.err = err
				return
			}
			if row.Class == string(jobs.ClassHeading) || len(want) > 0 && !want[row.Class] {
				continue
			}
			p, err := v.row(row)
			if err != nil {
				v.err = err
				return
			}
			if !yield(p) {
				return
			}
		}
	}
}

// parts are what is said of a row: its changes, each by itself, or why it is held back.
func (p planRow) parts() []string {
	if p.Reason != "" && len(p.Changes) == 0 {
		return []string{p.Reason}
	}
	parts := make([]string, 0, len(p.Changes)+2)
	if p.Request != "" {
		parts = append(parts, p.Request)
	}
	for _, c := range p.Changes {
		switch {
		case c.OldWords() == "":
			parts = append(parts, c.Field+": "+c.NewWords())
		default:
			parts = append(parts, c.Field+": "+c.OldWords()+" -> "+c.NewWords())
		}
	}
	if p.Reason != "" { // of an undo that leaves some fields alone
		parts = append(parts, p.Reason)
	}
	return parts
}

// sums is what the final object says of the plan.
func (v *planView) sums() map[string]any {
	return map[string]any{"requests": v.Requests, "clears": v.Clears, "deletes": v.Deletes, "expected": v.Expected}
}

// requestLine says what the plan comes to.
func (v *planView) requestLine() string {
	line := count(int64(v.Requests), "request")
	if v.Requests > 0 && v.Expected != "" {
		line += ", " + v.Expected + " at the present budget"
	}
	return line
}
