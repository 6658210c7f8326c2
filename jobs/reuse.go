package jobs

import (
	"context"
	"iter"
	"slices"

	"rmmjob/internal/rmm"
)

// What an audit has found of a device stays the same until its next audit, whose time the device lists tell. So the
// answer of an earlier run can stand for the question, and only devices that were audited since are asked.

// audited are the reads whose answers change with an audit only.
var audited = []string{"device-audit", "device-software", "printer-audit", "esxi-audit"}

// readsAudits tells whether an export reads answers that could be reused.
func (e *ExportSpec) readsAudits() bool {
	if slices.Contains(audited, e.From.Name) {
		return true
	}
	return slices.ContainsFunc(e.With, func(detail string) bool {
		op, ok := detailOp(baseElement(e.Element), detail, "device")
		return ok && slices.Contains(audited, op.Name)
	})
}

// Topic names what a request asks for, if its answer may be reused by later runs; "" otherwise.
func Topic(req rmm.Request) string {
	if uid := req.Path["deviceUid"]; uid != "" && slices.Contains(audited, req.Op) {
		return req.Op + "/" + uid
	}
	return ""
}

// Remembered is an answer that an earlier run has left.
type Remembered struct {
	Stamp   string // the device's lastAuditDate at the time; empty for a device that was never audited
	Refused bool   // the service had no such list or audit of the device
}

// holds tells whether the answer still stands for a device whose lastAuditDate is now stamp. A device without a date was
// never audited, so all that it can have left is a refusal.
func (r Remembered) holds(stamp string) bool {
	return r.Stamp == stamp && (stamp != "" || r.Refused)
}

// Kept is an answer that a later run may reuse.
type Kept struct {
	Topic string
	Stamp string
	Keys  []string // the items of its pages, in their order
	Known bool     // an earlier run has left the same
}

// recalled is the walk of lists that come from memory: their walks are those of an earlier run, which have been judged.
const recalled = 0

// recall makes an item of what is remembered, if that still holds; else it returns the item as it is.
func (e *ExportWork) recall(it Item, stamp string) Item {
	r, known := e.set.Remembered[Topic(it.Request)]
	if !known || !r.holds(stamp) {
		return it
	}
	it.Birth = Recalled
	if id, _, page, err := parseWalkKey(it.Key); err == nil {
		it.Key = walkKey(id, recalled, page)
	}
	return it
}

// PageKey is the key of a further page, from 1 on, of the list whose first page has the key first.
func PageKey(first string, page int) string {
	id, walk, _, err := parseWalkKey(first)
	if err != nil {
		return first // an answer without pages
	}
	return walkKey(id, walk, page)
}

// auditField of a device moves with every audit.
const auditField = "lastAuditDate"

// auditStamp is what tells that a device was audited since.
func auditStamp(device []byte) string { return keyOf(auditField, device) }

// Kept yields the answers of a finished run that later runs may reuse: those of each device that it has read.
func (e *ExportWork) Kept(ctx context.Context, a Answers) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		for l, err := range e.reusable(ctx, a) {
			var k Kept
			if err == nil {
				k, err = e.keep(ctx, a, l.list, l.stamp)
			}
			if err == nil && k.Keys == nil && !k.Known {
				continue
			}
			if !yield(k, err) || err != nil {
				return
			}
		}
	}
}

// stamped is a list of a device, or a single answer, with the time of its last audit.
type stamped struct {
	list
	stamp string
}

// reusable yields what the run has read of each device that an audit alone can change.
func (e *ExportWork) reusable(ctx context.Context, a Answers) iter.Seq2[stamped, error] {
	return func(yield func(stamped, error) bool) {
		if slices.Contains(audited, e.job.Export.From.Name) && len(e.parentLists()) > 0 {
			for p, err := range e.parents(ctx, a) {
				if err == nil && p.reason != "" {
					continue
				}
				if !yield(stamped{e.listOf(map[string]string{e.reach.param: p.fills}), p.stamp}, err) || err != nil {
					return
				}
			}
			return
		}
		owners, err := e.owners(ctx, a)
		if err != nil {
			yield(stamped{}, err)
			return
		}
		for _, o := range owners {
			for _, detail := range e.job.Export.With {
				it := e.detailItem(baseElement(e.job.Export.Element), o, detail)
				if Topic(it.Request) == "" {
					continue
				}
				if !yield(stamped{e.detailList(o.detailID(detail), it.Request), o.stamp}, nil) {
					return
				}
			}
		}
	}
}

// keep says where the answers of one list are.
func (e *ExportWork) keep(ctx context.Context, a Answers, l list, stamp string) (Kept, error) {
	k := Kept{Topic: Topic(rmm.Request{Op: l.op.Name, Path: l.path}), Stamp: stamp}
	if r, known := e.set.Remembered[k.Topic]; known && r.holds(stamp) {
		k.Known = true
		return k, nil
	}
	newest := ""
	for ans, err := range a.Answers(ctx, l.id+"/") {
		if err != nil {
			return k, err
		}
		walk, _, _ := cutLast(ans.Key)
		if newest == "" {
			newest = walk
		}
		if walk != newest {
			break // an older walk
		}
		k.Keys = append(k.Keys, ans.Key)
	}
	return k, nil
}
