package main

import (
	"encoding/json"
	"fmt"

	"rmmjob/jobs"
)

// What a plan says in the place of a new value.
const (
	willBeCleared = "WILL BE CLEARED"
	willBeDeleted = "WILL BE DELETED"
)

// valueState tells what a plan knows and shows of a value.
type valueState string

const (
	valueShown   valueState = "value"
	valueHidden  valueState = "hidden"  // there is one, which the plan does not show
	valueEmpty   valueState = "empty"   // the field is there and has none
	valueAbsent  valueState = "absent"  // there is no such thing yet
	valueUnknown valueState = "unknown" // the account does not tell it
	valueCleared valueState = "cleared" // of a new one: the field is emptied
	valueDeleted valueState = "deleted" // of a new one: the whole thing goes
)

// planValue is an old or a new value of a field.
type planValue struct {
	state valueState
	text  string // of the states value and hidden
}

// newPlanValue is a value that there is, hidden unless it is to be shown.
func newPlanValue(text string, shown bool) planValue {
	switch {
	case text == "":
		return planValue{state: valueEmpty}
	case shown:
		return planValue{valueShown, text}
	}
	return planValue{valueHidden, text}
}

// plain is the value as programs read it: nothing unless it is shown.
func (p planValue) plain() (text string, shown bool) {
	if p.state != valueShown {
		return "", false
	}
	return p.text, true
}

// Words is the value as people read it.
func (p planValue) Words() string {
	switch p.state {
	case valueShown:
		return fmt.Sprintf("%q", p.text)
	case valueHidden:
		return "[" + count(int64(len([]rune(p.text))), "character") + "]"
	case valueCleared:
		return willBeCleared
	case valueDeleted:
		return willBeDeleted
	case valueAbsent:
		return ""
	}
	return "(" + string(p.state) + ")"
}

// planChange is one field of a row of a plan.
type planChange struct {
	Field    string
	Old, New planValue
	open     bool // no secret, and a word of its own: people need no quotes

	oldUID, newUID string // of what the values name; "" where they name nothing
}

// newPlanChange is a change as the plan shows it; false where nothing changes.
func newPlanChange(c jobs.Change, values bool) (planChange, bool) {
	shown := values && !c.Secret || c.Open
	p := planChange{Field: c.Field, Old: newPlanValue(c.Old, shown), New: newPlanValue(c.New, shown), open: c.Open, oldUID: c.OldUID, newUID: c.NewUID}
	switch {
	case c.Delete:
		p.Old, p.New = planValue{state: valueUnknown}, planValue{state: valueDeleted}
		return p, true
	case !c.Unknown && c.Old == c.New:
		return p, false
	case c.Clear && !c.Made:
		p.New = planValue{state: valueCleared}
	}
	switch {
	case c.Made:
		p.Old = planValue{state: valueAbsent}
	case c.Unknown:
		p.Old = planValue{state: valueUnknown}
	}
	return p, true
}

// Cleared and Deleted tell of what is lost.
func (p planChange) Cleared() bool { return p.New.state == valueCleared }
func (p planChange) Deleted() bool { return p.New.state == valueDeleted }

// OldWords is the old value for people; "" where there is none to tell.
func (p planChange) OldWords() string {
	if p.Deleted() {
		return ""
	}
	return p.in(p.Old)
}

// NewWords is the new value for people.
func (p planChange) NewWords() string { return p.in(p.New) }

func (p planChange) in(v planValue) string {
	if text, shown := v.plain(); shown && p.open {
		return text
	}
	return v.Words()
}

// MarshalJSON writes values as they are, and null for those that are not shown or
// not there.
func (p planChange) MarshalJSON() ([]byte, error) {
	orNull := func(v planValue) *string {
		if text, shown := v.plain(); shown {
			return &text
		}
		return nil
	}
	return json.Marshal(struct {
		Field    string     `json:"field"`
		Old      *string    `json:"old"`
		New      *string    `json:"new"`
		OldState valueState `json:"old_state"`
		NewState valueState `json:"new_state"`
		OldUID   string     `json:"old_uid,omitempty"`
		NewUID   string     `json:"new_uid,omitempty"`
		Cleared  bool       `json:"cleared"`
		Deleted  bool       `json:"deleted"`
	}{p.Field, orNull(p.Old), orNull(p.New), p.Old.state, p.New.state, p.oldUID, p.newUID, p.Cleared(), p.Deleted()})
}
