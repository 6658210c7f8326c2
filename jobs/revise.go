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
// plan remembers what was there last, so that an undo brings that back, and a request
// that repeats fields repeats what they are now.
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
			w.remember(&row.Detail.Changes[i])
		}
		if len(row.Detail.Before) > 0 || w.op.keeps() {
			row.Detail.Before = w.live.element
			if !w.live.there {
				row.Detail.Before = json.RawMessage("{}")
			}
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
	c.Unknown, c.Made = !now.known, c.Made && !w.live.there
	c.Secret = c.Secret || w.op.conceals(c.Field, c.Unknown)
	if c.NewUID != "" {
		c.OldUID, c.Old = now.text, w.live.site
		return
	}
	c.Old = now.text
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
