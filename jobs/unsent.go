package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rmmjob/internal/rmm"
)

// This file is about targets that had nothing to be written when the plan was made.
// They are looked at again with those that have, and are never written: what they
// would need is in no plan.

// loadUnsent loads the targets of a plan that had nothing to be written, as far as
// lists show them that are read for writes or that one read has for all.
func loadUnsent(ctx context.Context, a Answers, writes []*write) ([]*write, error) {
	unsent, err := loadPlanned(ctx, a, func(ans Answer) *write {
		if ans.Request.Op != "" || ans.OK || ans.Class != "" {
			return nil
		}
		op := operationOf(OperationOfItem(ans.Key))
		w := &write{item: ans.Key, req: rmm.Request{Op: op.request(true)}, settled: ans.Settled, unsent: true}
		if w.op, w.listed = known(w.req.Op); !w.listed || w.op.proxy || !w.op.hasSet() || w.op.effect == starts {
			return nil
		}
		return w
	})
	lists := map[string]bool{}
	for _, w := range writes {
		if w.listed && w.op.on == aSiteVariable {
			lists[w.req.Path["siteUid"]] = true
		}
	}
	return slices.DeleteFunc(unsent, func(w *write) bool {
		w.by = "id " + w.target.uid
		if w.op.effect == moves && len(w.changes) > 0 {
			w.req.Path = map[string]string{"siteUid": w.changes[0].NewUID}
		}
		if w.op.on == aSiteVariable {
			rest := strings.TrimPrefix(w.item, applyPrefix+OperationOfItem(w.item)+"/")
			site, _, _ := strings.Cut(rest, "/")
			w.req.Path = map[string]string{"siteUid": site}
			return w.target.uid == "" || !lists[site]
		}
		if slices.ContainsFunc(w.match, func(m MatchKey) bool { return m.Field == byMAC || m.Field == bySerial }) {
			w.match = nil // what would show it is read for writes only
		}
		return w.target.uid == ""
	}), err
}

// noLongerSo decides about a target that had nothing to be written: it has failed
// where it would need something now.
func (w *write) noLongerSo() Decision {
	held := func(reason string) Decision {
		return Decision{Key: w.item, Fate: FateFailed, Class: ClassStale, Reason: reason}
	}
	switch {
	case !w.live.seen:
		return Decision{}
	case !w.live.there:
		return held(w.whyNot(gone, "", ""))
	case w.live.class == ClassStale:
		return held(w.live.why)
	}
	for i, c := range w.changes {
		if now := w.live.old[i]; now.known && !c.Unknown && now.text != c.was() {
			return held(fmt.Sprintf("%s was edited since the plan was made, which has nothing to write here: make a new plan", c.Field))
		}
	}
	return Decision{}
}
