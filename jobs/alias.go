package jobs

import (
	"context"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// This file is about variables that a run has made and that bear another name by the
// time of its undo. An answer to what made them does not tell their ids, so that they
// can only be known by what they are.

// findRenamed finds, for what the source has made and what is not there by its name any
// more, a variable that is like it and that was not there before the run.
func (u *UndoWork) findRenamed(ctx context.Context, a Answers, l look, writes []*write) error {
	missing := map[string][]*write{} // by list
	made := map[string]bool{}        // lists and names
	for _, w := range writes {
		if !w.op.byName() || w.op.effect != creates {
			continue
		}
		id := w.list("").id
		made[joinKey([]string{id, w.key()})] = true
		if w.live.seen && !w.live.there {
			missing[id] = append(missing[id], w)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	before, err := u.readBefore(ctx)
	if err != nil {
		return err
	}
	for _, of := range l.lists {
		id := of.id[len(l.prefix):]
		if missing[id] == nil || before[id] == nil {
			continue
		}
		for el, err := range elements(ctx, a, of.id+"/") {
			if err != nil {
				return err
			}
			name := "name " + trimBlank(keyOf("name", el.JSON))
			if before[id][keyOf("id", el.JSON)] || made[joinKey([]string{id, name})] {
				continue
			}
			for _, w := range missing[id] {
				if w.like(el.JSON) {
					w.live.alias = keyOf("name", el.JSON)
				}
			}
		}
	}
	return nil
}

// readBefore gives the ids of the variables that the source has read before it made its
// plan, by list. Lists that it has not read are not in it.
func (u *UndoWork) readBefore(ctx context.Context) (map[string]map[string]bool, error) {
	ids := map[string]map[string]bool{}
	for _, prefix := range []string{targetsPrefix, roundPrefix(undoPrefix, 1)} { // of a job, of an undo
		for el, err := range elementsAndLists(ctx, u.source, prefix) {
			if err != nil {
				return nil, err
			}
			id := el.list[len(prefix):]
			if ids[id] == nil {
				ids[id] = map[string]bool{}
			}
			if el.JSON != nil {
				ids[id][keyOf("id", el.JSON)] = true
			}
		}
	}
	return ids, nil
}

// like tells whether a variable has all that a write has made but its name. A masked one
// is like every masked one.
func (w *write) like(variable json.RawMessage) bool {
	masked := gjson.GetBytes(variable, "masked").Bool()
	if masked != gjson.GetBytes(w.req.Body, "masked").Bool() {
		return false
	}
	return masked || keyOf("value", variable) == keyOf("value", w.req.Body)
}
