package jobs

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// This file is about writes that go over something edited since.

// revise adds to a step what changes of writes that go over something edited: the
// plan remembers what was there last, so that an undo brings that back, a request
// gives all fields their values that have others now, and one that repeats fields
// repeats what they are now.
func (p applier) revise(ctx context.Context, a Answers, step *Step, over map[string]*write) error {
	if len(over) == 0 {
		return nil
	}
	for key, w := range over {
		if body, ok := w.bodyNow(); ok {
			req := w.req
			req.Body = body
			if step.Revise == nil {
				step.Revise = map[string]rmm.Request{}
			}
			step.Revise[key] = req
		}
	}
	var rows []Row
	for row, err := range a.Rows(ctx) {
		if err != nil {
			return err
		}
		w := over[row.ItemKey]
		if w == nil {
			continue
		}
		row.Detail.Changes = slices.Clone(row.Detail.Changes)
		for i := range row.Detail.Changes {
			c := &row.Detail.Changes[i]
			w.remember(c)
			if row.Class == ClassUnchanged && c.real() { // it had nothing to be written
				row.Class = ClassChange
			}
			if row.Class == ClassChange && c.real() && c.Clear {
				row.Class = ClassClear
			}
		}
		if len(row.Detail.Before) > 0 || w.op.keeps() {
			row.Detail.Before = w.beforeNow()
		}
		rows = append(rows, row)
	}
	step.Rows = slices.Values(rows)
	return nil
}

// remember gives a change of the plan the value that was read last as its old one.
func (w *write) remember(c *Change) {
	i := slices.IndexFunc(w.changes, func(of Change) bool { return of.Field == c.Field })
	if i < 0 || i >= len(w.live.old) || c.Delete || w.op.effect == creates {
		return
	}
	if !c.Unknown && asExported(c.Old, c.New) {
		c.New = c.Old // which is what is written
	}
	now := w.live.old[i]
	if w.unsure && now.known && now.text == c.wanted() {
		return // an earlier try of this write has given it that
	}
	c.Unknown, c.Made = !now.known, c.Made && !w.live.there
	c.Secret = c.Secret || w.op.conceals(c.Field, c.Unknown)
	if c.NewUID != "" {
		c.OldUID, c.Old = now.text, w.live.site
		return
	}
	c.Old = now.text
}

// beforeNow is what an undo needs of the target by what was read last. What an earlier
// try of the write has left there is not of before.
func (w *write) beforeNow() json.RawMessage {
	switch {
	case !w.live.there:
		return json.RawMessage("{}")
	case !w.unsure || w.op.effect == removes:
		return w.live.element
	}
	own := map[string]bool{} // fields
	for i, c := range w.changes {
		if now := w.live.old[i]; c.real() && now.known && now.text == c.wanted() {
			own[c.Field] = true
		}
	}
	if len(own) > 0 && len(w.before) <= len("{}") {
		return w.before // it was made by the write
	}
	fields := map[string]json.RawMessage{}
	gjson.ParseBytes(w.live.element).ForEach(func(name, now gjson.Result) bool {
		if !own[name.String()] {
			fields[name.String()] = json.RawMessage(now.Raw)
		} else if was := gjson.GetBytes(w.before, name.String()); was.Exists() {
			fields[name.String()] = json.RawMessage(was.Raw)
		}
		return true
	})
	return objectOf(fields)
}

// asWanted tells whether a field was as its rows want it when the plan was made.
func (w *write) asWanted(field string) bool {
	i := slices.IndexFunc(w.changes, func(c Change) bool { return c.Field == field })
	return i >= 0 && (!w.changes[i].real() || asExported(w.changes[i].was(), w.changes[i].wanted()))
}

// bodyNow is the body of a write that goes over what was edited: the fields that are
// not as wanted by now, those too that needed nothing when the plan was made. A write
// that repeats the fields which it does not change repeats their present values. It is
// false for writes whose body stays.
func (w *write) bodyNow() (json.RawMessage, bool) {
	switch {
	case !w.live.there:
		return nil, false
	case w.op.effect == sets && !w.op.whole:
		given := map[string]json.RawMessage{}
		for i, c := range w.changes {
			value := c.wanted()
			if !c.Unknown && asExported(c.was(), value) {
				value = c.was() // as an export writes it, so it is what is meant
			}
			if now := w.live.old[i]; !now.known || now.text != value {
				given[c.Field] = w.op.raw(c.Field, value)
			}
		}
		return objectOf(given), len(given) > 0
	case !w.op.whole:
		return nil, false
	}
	given := map[string]json.RawMessage{}
	for _, c := range w.changes {
		if v := gjson.GetBytes(w.req.Body, c.Field); v.Exists() {
			given[c.Field] = json.RawMessage(v.Raw)
		}
	}
	if v := gjson.GetBytes(w.req.Body, "password"); v.Exists() { // never shown
		given["password"] = json.RawMessage(v.Raw)
	}
	body, lacks := mergeBody(*w.op, w.live.element, given)
	return body, lacks == ""
}
