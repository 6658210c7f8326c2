package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// judge says which targets must not be written any more, by what a look has shown:
// those that the guard protects by now, and those to which their rows do not lead
// any more.
type judge struct {
	guard Guard
	named bool // the rows name the targets; those of an undo do not

	sites *siteIndex          // nil where no site matters
	keys  map[string][]string // of devices by uid, where the list of devices does not tell them
	match []MatchKey          // of one row: all rows of a plan have the same fields
	byRow map[string][]*write // by what their rows name them by
}

// MatchKey is what a row names its target by.
type MatchKey struct {
	Field string `json:"field"`
	Key   string `json:"key"`          // in the form in which keys are compared
	To    bool   `json:"to,omitempty"` // names the site that a device moves to
}

// matchKeys are the parts of the key of a row that can be compared again before its
// target is written. A uid is none: what it names does not change.
func (p *plan) matchKeys(row *inputRow) []MatchKey {
	about, match, t := subjects[p.op.on], p.job.Update.Match, row.target
	if row.key == "" || t.uid == "" && p.op.on != aSiteVariable {
		return nil
	}
	var keys []MatchKey
	switch p.op.on {
	case aDevice, aSite:
		parts := splitKey(row.key, len(match))
		for i, m := range match {
			if m.Field != about.uid && i < len(parts) {
				keys = append(keys, MatchKey{Field: m.Field, Key: parts[i]})
			}
		}
	case aSiteVariable:
		// The key has the uid of the site instead of its name.
		if m := match[0]; siteField(m.Field) == "name" {
			keys = append(keys, MatchKey{Field: m.Field, Key: normalise(p.sites.name[t.site])})
		}
	}
	if to := p.job.Update.Set; p.op.effect == moves && siteField(to[0].Field) == "name" {
		keys = append(keys, MatchKey{Field: to[0].Field, Key: normalise(p.sites.name[row.valueOf(0)]), To: true})
	}
	return keys
}

// byName tells whether the name of a target is its key, whatever its id is.
func (op operation) byName() bool { return op.on == aSiteVariable || op.on == anAccountVariable }

// renamed tells whether an element with the id of the target has another name than the
// plan has seen, where the name is the key.
func (w *write) renamed(element json.RawMessage) bool {
	was := keyOf("name", w.before)
	return w.op.byName() && was != "" && keyOf("name", element) != was
}

// ofSite tells whether a write has to do with a site beside its target: what belongs
// to it, or the one that a device moves to.
func (w *write) ofSite() bool { return w.listed && (w.op.ofSites() || w.op.effect == moves) }

// beside is the field by which rows name devices and which the list of devices does
// not tell; "" where there is none.
func (w *write) beside() string {
	if w.judge == nil || !w.judge.named || w.op.on != aDevice {
		return ""
	}
	for _, m := range w.match {
		if m.Field == byMAC || m.Field == bySerial {
			return m.Field
		}
	}
	return ""
}

// learn takes what is read beside the targets, before they are judged.
func (j *judge) learn(ctx context.Context, a Answers, l look, writes []*write) (err error) {
	j.sites, j.keys, j.byRow = nil, nil, map[string][]*write{}
	if slices.ContainsFunc(writes, func(w *write) bool { return w.ofSite() || w.newName() != "" }) {
		if j.sites, err = indexSites(elements(ctx, a, l.prefix+"sites/")); err != nil {
			return err
		}
	}
	if l.beside != "" {
		if j.keys, err = keysBeside(ctx, a, l.beside, l.prefix); err != nil {
			return err
		}
	}
	for _, w := range writes {
		if j.named && !w.op.ofSites() && w.tellsApart() {
			parts := make([]string, len(w.match))
			for i, m := range w.match {
				parts[i] = m.Key
			}
			key := joinKey(parts)
			j.match = w.match
			j.byRow[key] = append(j.byRow[key], w)
		}
	}
	return nil
}

// tellsApart tells whether the row of a write names more than the site of its target.
func (w *write) tellsApart() bool {
	return slices.ContainsFunc(w.match, func(m MatchKey) bool { return !strings.HasPrefix(m.Field, "site") })
}

// meet notes of an element of the list of targets the rows that lead to it, though it
// is not what they were planned for.
func (j *judge) meet(op operation, element json.RawMessage) {
	if len(j.byRow) == 0 {
		return
	}
	beside, parts := -1, make([]string, len(j.match))
	for i, m := range j.match {
		if m.Field == byMAC || m.Field == bySerial {
			beside = i
			continue
		}
		parts[i] = op.keyText(m.Field, keyOf(m.Field, element))
	}
	uid := keyOf(subjects[op.on].uid, element)
	for _, key := range keysOf(parts, beside, j.keys[uid]) {
		for _, w := range j.byRow[key] {
			if w.key() != "id "+uid {
				w.live.rivals = append(w.live.rivals, placeOf(op, uid, element))
				w.live.hold(ClassStale, w.describeRivals())
			}
		}
	}
}

// placeOf names an element of a list by its uid, and its site where it has one.
func placeOf(op operation, uid string, element json.RawMessage) string {
	if site := keyOf("siteName", element); op.on == aDevice && site != "" {
		return uid + " (" + site + ")"
	}
	return uid
}

// describeRivals says that others have by now what the row of a write names, too.
func (w *write) describeRivals() string {
	keys := make([]string, len(w.match))
	for i, m := range w.match {
		keys[i] = fmt.Sprintf("%s %q", m.Field, clip(m.Key, 60))
	}
	_, uid, _ := strings.Cut(w.key(), " ")
	if w.op.on == aDevice && w.target.site != "" {
		uid += " (" + w.target.site + ")"
	}
	all := append([]string{uid}, w.live.rivals[:min(len(w.live.rivals), 4)]...)
	return fmt.Sprintf("%d %ss have %s by now: %s", len(w.live.rivals)+1, w.op.thing(), strings.Join(keys, " and "), strings.Join(all, ", "))
}

// target judges a target by its element.
func (j *judge) target(w *write, element json.RawMessage) {
	if why := j.guard.protects(traitsOf(w, element)); why != "" {
		w.live.hold(string(ClassProtected), why)
		return
	}
	if w.renamed(element) {
		w.live.hold(ClassStale, "name was edited since the plan was made: the variable is not what the row names any more")
		return
	}
	if !j.named || w.op.ofSites() {
		return
	}
	for _, m := range w.match {
		has := w.op.keyText(m.Field, keyOf(m.Field, element)) == m.Key
		if m.Field == w.beside() {
			has = slices.Contains(j.keys[keyOf(subjects[w.op.on].uid, element)], m.Key)
		}
		if !has {
			w.live.hold(ClassStale, fmt.Sprintf("%s was edited since the plan was made: the %s is not what the row names any more", m.Field, w.op.thing()))
			return
		}
	}
}

// name judges a write by the name that it gives a site.
func (j *judge) name(w *write) {
	if why := j.sites.taken(w.req.Path["siteUid"], w.newName()); why != "" {
		w.live.hold(ClassStale, why)
	}
}

// site judges a write by the site that it has to do with.
func (j *judge) site(w *write) {
	uid, thing, keys := w.req.Path["siteUid"], "the site", w.match
	if w.op.effect == moves {
		thing, keys = "the site to move to", nil
		if w.to.Field != "" {
			keys = []MatchKey{w.to}
		}
	}
	name, there := j.sites.name[uid]
	if !there {
		w.live.hold(ClassStale, thing+" is not listed any more")
		return
	}
	if why := j.guard.protects(siteTraits(name, uid)); why != "" {
		if w.op.effect == moves {
			why = thing + " is " + why
		}
		w.live.hold(string(ClassProtected), why)
		return
	}
	if !j.named {
		return
	}
	for _, m := range keys {
		found := j.sites.all(m.Field, m.Key)
		switch {
		case !slices.Contains(found, uid):
			w.live.hold(ClassStale, fmt.Sprintf("%s was edited since the plan was made: %s is not what the row names any more", m.Field, thing))
		case len(found) > 1:
			w.live.hold(ClassStale, fmt.Sprintf("%d sites have %s %q by now: %s", len(found), m.Field, clip(m.Key, 60), strings.Join(found[:min(len(found), 5)], ", ")))
		}
	}
}

// hold says why nothing may be sent, and the class of that. What is protected stays
// so, whatever else there is.
func (v *view) hold(class, why string) {
	if v.class != string(ClassProtected) {
		v.class, v.why = class, why
	}
}

// traitsOf are what the list of the targets tells for selectors. Of what belongs to a
// site it tells nothing.
func traitsOf(w *write, element json.RawMessage) traits {
	switch {
	case w.op.on == aDevice || w.op.on == anAlert:
		return deviceTraits(w.op.on, element)
	case w.op.on == aSite && !w.op.proxy:
		return siteTraits(keyOf("name", element), keyOf("uid", element))
	}
	return func(string) []string { return nil }
}

// keysBeside gives the keys of devices that the list of devices does not tell, by uid.
func keysBeside(ctx context.Context, a Answers, field, prefix string) (map[string][]string, error) {
	keys := map[string][]string{}
	add := func(uid, key string) {
		if key != "" && !slices.Contains(keys[uid], key) {
			keys[uid] = append(keys[uid], key)
		}
	}
	if field == byMAC {
		for el, err := range elements(ctx, a, prefix+nicsPrefix) {
			if err != nil {
				return nil, err
			}
			uid := keyOf("uid", el.JSON)
			for _, nic := range gjson.GetBytes(el.JSON, "nics").Array() {
				add(uid, macKey(text(nic.Get("macAddress"))))
			}
		}
		return keys, nil
	}
	for ans, err := range a.Answers(ctx, prefix+auditsPrefix) {
		if err != nil {
			return nil, err
		}
		for _, audit := range audits {
			if ans.OK && audit.op == ans.Request.Op {
				add(ans.Request.Path["deviceUid"], normalise(keyOf(audit.path, ans.Body)))
			}
		}
	}
	return keys, nil
}
