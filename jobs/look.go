package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// A look reads the present state of the targets of some writes: each list once,
// whatever the number of writes, and the settings of a site for its proxy. Looks
// are items of the run like any other, and come in rounds, so that an old answer
// never decides about something that happened after it.
const (
	lookupPrefix = "lookup/" // for writes whose answers were lost
	checkPrefix  = "check/"  // before a plan is applied
	canaryPrefix = "canary/" // after the first writes of a plan
	verifyPrefix = "verify/" // after all of them
	undoPrefix   = "undo/"   // before an undo is planned
)

// look is one round of reads.
type look struct {
	prefix   string
	lists    []list
	settings []Item
	beside   string   // what of devices is read beside their list; "" for nothing
	writes   []*write // that it is for, where something is
	judge    *judge   // of the writes; nil for none
}

// roundPrefix begins the keys of a round, which counts from 1.
func roundPrefix(prefix string, n int) string { return fmt.Sprintf("%s%02d/", prefix, n) }

// round is the newest round of looks of one kind.
type round struct {
	number int       // 0 when there is none
	began  time.Time // its first answer came then
	failed []string  // keys of what could not be read in this round and those before
}

// lastRound finds the newest round.
func lastRound(ctx context.Context, a Answers, prefix string) (round, error) {
	var r round
	for ans, err := range a.Answers(ctx, prefix) {
		if err != nil {
			return r, err
		}
		if !ans.OK && ans.Class != "" {
			r.failed = append(r.failed, ans.Key)
		}
		n := 0
		if _, err := fmt.Sscanf(strings.TrimPrefix(ans.Key, prefix), "%d/", &n); err != nil || n < r.number {
			continue
		}
		if n > r.number || ans.Settled.Before(r.began) {
			r.number, r.began = n, ans.Settled
		}
	}
	return r, nil
}

// superseded are the decisions on what could not be read in a round and those before,
// once a new one begins: the run is no worse for it.
func (r round) superseded() []Decision {
	var decisions []Decision
	for _, key := range r.failed {
		decisions = append(decisions, Decision{Key: key, Fate: FateSuperseded, Class: ClassSuperseded, Reason: "read anew later"})
	}
	return decisions
}

// newLook is the round of reads that shows the targets of writes.
func newLook(prefix string, n int, writes iter.Seq[*write]) look {
	l := look{prefix: roundPrefix(prefix, n)}
	seen := map[string]bool{}
	add := func(of list) {
		if !seen[of.id] {
			seen[of.id] = true
			l.lists = append(l.lists, of)
		}
	}
	for w := range writes {
		if !w.shown(prefix) {
			continue
		}
		if w.judge != nil {
			l.judge = w.judge
			beside := w.beside()
			if w.ofSite() || beside == byMAC {
				add(wholeList(l.prefix, "sites"))
			}
			if beside != "" {
				l.beside, l.writes = beside, append(l.writes, w)
			}
		}
		switch {
		case w.op.proxy:
			it := settingsOf(l.prefix+"settings/", w.req.Path["siteUid"])
			if !seen[it.Key] {
				seen[it.Key] = true
				l.settings = append(l.settings, it)
			}
		default:
			add(w.list(l.prefix))
		}
	}
	return l
}

// empty tells that there is nothing to read.
func (l look) empty() bool { return len(l.lists)+len(l.settings) == 0 }

// items are the first requests of the look.
func (l look) items(pageSize int) iter.Seq[Item] {
	all := slices.Clone(l.settings)
	for _, of := range l.lists {
		all = append(all, of.first(1, pageSize))
	}
	return slices.Values(all)
}

// settle judges the lists of the look; again tells that some are to be walked
// once more, or that what they name is to be read.
func (l look) settle(ctx context.Context, stage string, a Answers, pageSize int) (step Step, again bool, err error) {
	if step, again, err = settleReads(ctx, stage, a, l.lists, pageSize); err != nil || again {
		return step, again, err
	}
	switch l.beside {
	case byMAC:
		lists, err := l.interfaces(ctx, a)
		if err != nil {
			return Step{}, false, err
		}
		return settleReads(ctx, stage, a, lists, pageSize)
	case bySerial:
		items, err := l.audits(ctx, a)
		return Step{Stage: stage, Items: slices.Values(items)}, len(items) > 0, err
	}
	return Step{}, false, nil
}

// interfaces are the lists of the network interfaces of the sites that the rows of
// the writes may mean.
func (l look) interfaces(ctx context.Context, a Answers) ([]list, error) {
	sites, err := indexSites(elements(ctx, a, l.prefix+"sites/"))
	if err != nil {
		return nil, err
	}
	field, values := "", map[string]bool(nil)
	for _, w := range l.writes {
		for _, m := range w.match {
			if m.Field == l.beside {
				continue
			}
			if field = m.Field; values == nil {
				values = map[string]bool{}
			}
			values[m.Key] = true
		}
	}
	return interfacesOf(l.prefix, sites, field, values), nil
}

// audits are the reads of the audits of the targets that were not made yet.
func (l look) audits(ctx context.Context, a Answers) ([]Item, error) {
	wanted := map[string]bool{}
	for _, w := range l.writes {
		wanted[w.key()] = true
	}
	read := map[string]bool{}
	for ans, err := range a.Answers(ctx, l.prefix+auditsPrefix) {
		if err != nil {
			return nil, err
		}
		read[ans.Key] = true
	}
	var items []Item
	for el, err := range elements(ctx, a, l.prefix+"devices/") {
		if err != nil {
			return nil, err
		}
		it, ok := auditOf(l.prefix, el.JSON)
		if ok && wanted["id "+it.Request.Path["deviceUid"]] && !read[it.Key] {
			items = append(items, it)
		}
	}
	return items, nil
}

// show fills in the views of writes from what the look has read.
func (l look) show(ctx context.Context, a Answers, writes []*write) error {
	if l.judge != nil {
		if err := l.judge.learn(ctx, a, l, writes); err != nil {
			return err
		}
	}
	byList, byKey := map[string][]*write{}, map[string][]*write{}
	settings := map[string][]*write{}
	for _, w := range writes {
		w.live = view{}
		switch {
		case !w.shown(l.prefix):
		case w.op.proxy:
			settings[w.req.Path["siteUid"]] = append(settings[w.req.Path["siteUid"]], w)
		default:
			id := w.list(l.prefix).id
			byList[id] = append(byList[id], w)
			key := joinKey([]string{id, w.key()})
			byKey[key] = append(byKey[key], w)
		}
	}
	for _, of := range l.lists {
		if of.optional {
			listed, err := listedSites(ctx, a, of.id+"/")
			if err != nil {
				return err
			}
			if !listed[of.path["siteUid"]] {
				continue
			}
		}
		for _, w := range byList[of.id] {
			w.live.seen = true
		}
		for el, err := range elements(ctx, a, of.id+"/") {
			if err != nil {
				return err
			}
			for _, key := range elementKeys(of.op.Name, el.JSON) {
				for _, w := range byKey[joinKey([]string{of.id, key})] {
					w.see(el.JSON)
				}
			}
			if targets := byList[of.id]; l.judge != nil && len(targets) > 0 {
				l.judge.meet(*targets[0].op, el.JSON)
			}
		}
	}
	if len(settings) > 0 {
		if err := l.showSettings(ctx, a, settings); err != nil {
			return err
		}
	}
	if l.judge != nil {
		for _, w := range writes {
			switch {
			case w.ofSite():
				l.judge.site(w)
			case w.newName() != "":
				l.judge.name(w)
			}
		}
	}
	return nil
}

// showSettings fills in the views of writes from the settings of their sites.
func (l look) showSettings(ctx context.Context, a Answers, settings map[string][]*write) error {
	for ans, err := range a.Answers(ctx, l.prefix+"settings/") {
		if err != nil {
			return err
		}
		proxy := gjson.GetBytes(ans.Body, "proxySettings")
		for _, w := range settings[ans.Request.Path["siteUid"]] {
			if w.live.seen = ans.OK && proxy.Exists(); w.live.seen && proxy.Type == gjson.JSON {
				w.see(json.RawMessage(proxy.Raw))
			}
		}
	}
	return nil
}

// elementKeys are the keys by which writes know an element of a list; see
// write.key.
func elementKeys(list string, element json.RawMessage) []string {
	var keys []string
	for on, about := range subjects {
		if about.list != list {
			continue
		}
		keys = append(keys, "id "+keyOf(about.uid, element))
		if about.name == "name" {
			keys = append(keys, "name "+operation{on: subject(on)}.keyText("name", keyOf("name", element)))
		}
	}
	return keys
}

// settleReads judges lists; again tells that some are to be walked once more.
func settleReads(ctx context.Context, stage string, a Answers, lists []list, pageSize int) (step Step, again bool, err error) {
	found, err := settleLists(ctx, a, func(yield func(list, error) bool) {
		for _, l := range lists {
			if !yield(l, nil) {
				return
			}
		}
	}, pageSize)
	if err != nil || len(found.again) == 0 {
		return Step{}, false, err
	}
	return Step{Stage: stage, Items: slices.Values(found.again), Note: found.why}, true, nil
}

// known finds an operation that an update can send; false for free calls and
// whatever else is not in the table.
func known(name string) (*operation, bool) {
	i := slices.IndexFunc(updatable, func(op operation) bool { return op.name == name })
	if i < 0 {
		return &operation{}, false
	}
	return &updatable[i], true
}

// classOf is the class of the operation of a request; unsafe where it is not
// known.
func classOf(req rmm.Request) rmm.Class {
	op, err := req.Operation()
	if err != nil {
		return rmm.ClassUnsafe
	}
	return op.Class
}
