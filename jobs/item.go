package jobs

import (
	"context"
	"iter"
	"slices"
	"time"

	"rmmjob/internal/rmm"
)

// Birth is the state in which an item enters a run.
type Birth string

// An item is sent unless it is born settled: an update whose target already has
// the wanted value is Unchanged, a row that must be held back is Failed, and one
// whose target is missing by permission of the job is Skipped.
const (
	Pending   Birth = ""
	Unchanged Birth = "unchanged"
	Skipped   Birth = "skipped"
	Failed    Birth = "failed"

	// Recalled is an item whose answer an earlier run has left; if it is gone by
	// then, the item is sent like a pending one.
	Recalled Birth = "recalled"
)

// Item is one API request of a run, or the settled fate of one input row that
// needs none.
type Item struct {
	Key     string      // unique in the run and the same in every attempt at the job
	Request rmm.Request // empty Op for an item that is born settled
	Birth   Birth
	Class   string // error class of an item that is born Failed: a row class
	Reason  string // why it is born settled; shown to people, free of cell values
	Held    bool   // not to be sent before a step releases it
}

// Answer is what one answered item brought.
type Answer struct {
	Key     string
	Request rmm.Request
	OK      bool   // false: the item failed, was skipped, or is in doubt
	Class   string // error class of an item that failed
	Reason  string // of an answer that is not OK
	HTTP    int    // status of the answer that made it not OK; 0 when there was none
	Body    []byte
	Doubt   bool      // a write that was sent and whose answer was lost
	Unsure  bool      // a request of it was sent whose effect nobody knows; of no meaning where it is OK
	Parked  bool      // it is left out of what is sent
	Settled time.Time // when it came to this; zero while it is under way
}

// Answers gives a work the answers of its run.
type Answers interface {
	// Answers yields the settled items whose key begins with prefix, in the order
	// of their keys. An error ends the sequence.
	Answers(ctx context.Context, prefix string) iter.Seq2[Answer, error]
	// Rows yields the rows of the plan in the order of their numbers, none where
	// there is no plan yet. An error ends the sequence.
	Rows(ctx context.Context) iter.Seq2[Row, error]
}

// Row is what the plan of an update says about one input record. Number 0 is
// the heading of the input.
type Row struct {
	Number  int
	Class   RowClass
	ItemKey string // the item that carries the row's fate
	Detail  RowDetail
}

// Step is what comes after everything of a stage has been sent.
type Step struct {
	Stage string           // the stage that begins; the same one for another walk
	Items iter.Seq[Item]   // nil for none
	Rows  iter.Seq[Row]    // nil for none
	Done  bool             // nothing is left to do
	Hold  bool             // stop here: the stage waits for a decision
	Note  string           // for people: why a further walk is needed, say
	Plan  map[RowClass]int // counts of a new plan, nil otherwise

	// Revise gives requests that are still to be sent another shape, by the keys of
	// their items.
	Revise map[string]rmm.Request
	// Decisions settle writes by what a look at the account has told.
	Decisions []Decision
	// Release lets so many of the held items go, in the order of the plan; a
	// negative number means all of them.
	Release int
	// Guard stops the run once the step is stored: the plan is kept, and nothing
	// of it is sent.
	Guard *GuardError
}

// Fate is what becomes of a write by a decision.
type Fate string

// The fates of writes. Done and Again are for those in doubt: it was carried out,
// or it was not and is to be sent again. Done is also for those that are to be
// sent once more and are found to have been carried out. Unchanged and Failed are
// for those that have not been sent, Failed also for those whose effect is not there.
// Superseded is for reads that failed and are made anew under another key.
const (
	FateDone       Fate = "done"
	FateAgain      Fate = "again"
	FateUnchanged  Fate = "unchanged"
	FateFailed     Fate = "failed"
	FateSuperseded Fate = "superseded"
)

// Decision says what a look at the account means for a write.
type Decision struct {
	Key    string // of the item
	Fate   Fate
	Class  string // of FateFailed and FateSuperseded
	Reason string // free of cell values; required for these two
}

// Error classes of writes that a look or a person has failed.
const (
	ClassDrifted    = "drifted"     // the target was edited since the plan was made
	ClassStale      = "stale"       // the row does not lead to what was planned any more: it needs a new plan
	ClassNotApplied = "not_applied" // acknowledged, and read back it is not there
	ClassGivenUp    = "given_up"    // a person has said that it was not carried out, and is not to be
)

// HeldBack tells whether an error class is that of writes which a look has held back
// before they were sent.
func HeldBack(class string) bool {
	return slices.Contains([]string{ClassDrifted, ClassStale, string(ClassProtected)}, class)
}

// ClassSuperseded is the class of reads that were made anew.
const ClassSuperseded = "superseded"

// IncompleteError says that a list could not be read in a way that proves that
// nothing is missing. Nothing may be published or planned from it.
type IncompleteError struct{ Message string }

func (e *IncompleteError) Error() string { return e.Message }

// GuardError says that a guard stopped the run before harm.
type GuardError struct {
	Guard, Message string

	// Headings and Held are those of the input and its rows that would have been
	// held back, where the guard spoke before anything was sent.
	Headings []string
	Held     []Reject
}

func (e *GuardError) Error() string { return e.Message }
