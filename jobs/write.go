package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// write is one request of a stored plan, with what its rows say of the target
// and what a look has shown of it.
type write struct {
	item    string // key of the item
	req     rmm.Request
	op      *operation
	listed  bool   // op is of the table; false for a free call
	ok      bool   // it was acknowledged
	doubt   bool   // its answer was lost
	unsure  bool   // it may have been carried out by a request whose answer was lost
	class   string // of its failure; "" for none
	reason  string // why it is as it is
	settled time.Time
	changes []Change        // of all its rows, each field once
	before  json.RawMessage // what of the target the request or an undo needs; nil for nothing
	target  aTarget         // of its first row
	match   []MatchKey      // by which its row names the target
	to      MatchKey        // by which its row names the site that the device moves to
	unsent  bool            // it had nothing to be written when the plan was made
	planned bool            // a row of the plan asks for it
	by      string          // key by which it is looked for, where it is not that of the request
	live    view

	judge *judge // says whether it may be sent still; nil where it is not asked
}

// view is what a look has shown of the target of a write.
type view struct {
	seen    bool            // what would show it could be read
	there   bool            // it is there
	id      string          // of a target that was found by its name
	old     []oldValue      // by change of the write
	element json.RawMessage // the fields that a whole write or an undo repeats
	site    string          // name of the site of a device

	alias      string   // other name that it seems to have by now, of what an undo has not found
	rivals     []string // others that have by now what the row names, too
	why, class string   // why nothing may be sent to it any more, if it was judged
}

// newWrite is the write of a stored item.
func newWrite(ans Answer) *write {
	w := &write{
		item: ans.Key, req: ans.Request, ok: ans.OK, doubt: ans.Doubt, unsure: !ans.OK && (ans.Unsure || ans.Doubt),
		class: ans.Class, reason: ans.Reason, settled: ans.Settled,
	}
	w.op, w.listed = known(ans.Request.Op)
	return w
}

// loadWrites reads the stored writes that are chosen, and what the rows of the
// plan say of them, in the order of their first rows.
func loadWrites(ctx context.Context, a Answers, choose func(Answer) bool) ([]*write, error) {
	return loadPlanned(ctx, a, func(ans Answer) *write {
		if ans.Request.Op == "" || !choose(ans) {
			return nil
		}
		return newWrite(ans)
	})
}

// loadPlanned makes writes of stored items, and adds what the rows of the plan say of
// them, in the order of their first rows.
func loadPlanned(ctx context.Context, a Answers, made func(Answer) *write) ([]*write, error) {
	byKey := map[string]*write{}
	for ans, err := range a.Answers(ctx, applyPrefix) {
		if err != nil {
			return nil, err
		}
		if w := made(ans); w != nil {
			byKey[ans.Key] = w
		}
	}
	writes := make([]*write, 0, len(byKey))
	for row, err := range a.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		w := byKey[row.ItemKey]
		if w == nil {
			continue
		}
		if !w.planned {
			writes, w.planned = append(writes, w), true
			d := row.Detail
			w.target, w.before = aTarget{d.Line, d.Hostname, d.Site, d.UID}, d.Before
			for _, m := range d.Match {
				if m.To {
					w.to = m
				} else {
					w.match = append(w.match, m)
				}
			}
		}
		for _, c := range row.Detail.Changes {
			if !slices.ContainsFunc(w.changes, func(have Change) bool { return have.Field == c.Field }) {
				w.changes = append(w.changes, c)
			}
		}
	}
	return writes, nil
}

// shown tells whether a look can show the target: what a quick job or a free call
// does is in no list, and muting has no effect. The device of a quick job can be
// looked at before it is made.
func (w *write) shown(prefix string) bool {
	return w.listed && w.op.effect != mutes && (w.op.effect != starts || strings.HasPrefix(prefix, checkPrefix))
}

// list is the list that shows the target; not for proxies.
func (w *write) list(prefix string) list {
	if w.op.on == aSiteVariable {
		return variablesOf(prefix, w.req.Path["siteUid"])
	}
	return wholeList(prefix, subjects[w.op.on].list)
}

// key tells the target apart in its list: by id, and what is to be made by name.
func (w *write) key() string {
	if w.by != "" {
		return w.by
	}
	if w.op.effect == creates {
		return "name " + w.op.keyText("name", gjson.GetBytes(w.req.Body, "name").String())
	}
	return "id " + w.req.Path[[...]string{
		aDevice: "deviceUid", aSite: "siteUid", aSiteVariable: "variableId", anAccountVariable: "variableId", anAlert: "alertUid",
	}[w.op.on]]
}

// see takes from an element what is asked of the target.
func (w *write) see(element json.RawMessage) {
	set := make([]Setting, len(w.changes))
	for i, c := range w.changes {
		set[i].Field = c.Field
	}
	w.live.there, w.live.id = true, keyOf(subjects[w.op.on].uid, element)
	w.live.old = oldValues(*w.op, set, element)
	if w.op.keeps() || w.op.effect == creates {
		w.live.element = keep(*w.op, element)
	}
	if w.op.effect == moves || w.op.on == aDevice && w.judge != nil && !w.judge.named { // of an undo
		w.live.site = keyOf("siteName", element)
	}
	if w.judge != nil {
		w.judge.target(w, element)
	}
}

// keeps tells whether the present fields of the target matter beyond those that
// change: they are lost by the request.
func (op operation) keeps() bool { return op.whole || op.effect == removes }

// image is the fields of a target that are kept of it, for the request or to
// make it again.
func (op operation) image() []rmm.Field {
	name := op.request(true)
	if op.effect == removes {
		name = strings.Replace(name, "-delete", "-create", 1)
	}
	def, _ := rmm.Lookup(name)
	return def.Body
}

// standing is how the target stands, as far as a write is concerned.
type standing int

const (
	unseen    standing = iota // nobody can tell
	asBefore                  // as it was when the plan was made
	asWritten                 // as the write leaves it
	inPart                    // some fields as the write leaves them, the others as before
	edited                    // neither
	gone                      // it is not there any more
)

// stands compares the target with the plan. The reason names the field that is
// neither as before nor as written, or one that is as before where others are as written.
func (w *write) stands() (standing, string) {
	v := w.live
	if !v.seen {
		return unseen, ""
	}
	switch w.op.effect {
	case starts:
		if !v.there {
			return gone, ""
		}
		return unseen, "" // a job is nothing that could be compared
	case removes:
		if !v.there {
			return asWritten, ""
		}
		if field := w.otherField(nil); field != "" {
			return edited, field
		}
		return asBefore, ""
	case resolves:
		if v.there {
			return asBefore, ""
		}
		return asWritten, ""
	case creates:
		if !v.there {
			return asBefore, ""
		}
		told := asWritten
		for i, c := range w.changes {
			switch old := v.old[i]; {
			case c.Field == "name":
			case !old.known:
				told = unseen
			case old.text != c.wanted():
				return edited, c.Field
			}
		}
		return told, ""
	}
	switch {
	case !v.there && w.op.proxy:
		if len(w.before) <= len("{}") {
			return asBefore, ""
		}
		return edited, "proxy"
	case !v.there:
		return gone, ""
	}
	written, some, before, blind := true, false, "", 0
	var changing []string
	for i, c := range w.changes {
		old, now := v.old[i], c.wanted()
		changing = append(changing, c.Field)
		same := old.known && (old.text == now || asExported(old.text, now))
		if !old.known && (c.Unknown || c.Made || c.Clear) {
			blind++ // cannot be compared, as little as when the plan was made
			continue
		}
		written, some = written && same, some || same && (c.Unknown || old.text != c.was())
		if !same && before == "" {
			before = c.Field
		}
		if !same && (old.known == c.Unknown || old.text != c.was()) {
			return edited, c.Field
		}
	}
	switch field := w.otherField(changing); {
	case field != "" && (!written || blind > 0):
		return edited, field
	case written && blind > 0:
		return unseen, "" // what can be read is as written, but nobody knows about the rest
	case written:
		return asWritten, ""
	case some:
		return inPart, before
	}
	return asBefore, ""
}

// otherField names a field beside those that change that is not what it was, and
// that the write would undo or lose; "" for none.
func (w *write) otherField(changing []string) string {
	if !w.op.keeps() || len(w.before) == 0 {
		return ""
	}
	field := ""
	gjson.ParseBytes(w.before).ForEach(func(name, was gjson.Result) bool {
		now := gjson.GetBytes(w.live.element, name.String())
		if !slices.Contains(changing, name.String()) && now.Exists() && now.Raw != was.Raw {
			field = name.String()
		}
		return field == ""
	})
	return field
}

// wanted is the value that a change gives its field, in the form in which the
// account tells it, and was the one before.
func (c Change) wanted() string { return cmp.Or(c.NewUID, c.New) }
func (c Change) was() string    { return cmp.Or(c.OldUID, c.Old) }

// real tells whether a change of a row alters its field.
func (c Change) real() bool { return c.Unknown || c.was() != c.wanted() }

// whyNot says why a target that is not as it should be cannot be taken for it.
func (w *write) whyNot(s standing, field, since string) string {
	if s == gone {
		return fmt.Sprintf("the %s is not listed any more", w.op.thing())
	}
	return fmt.Sprintf("%s was edited %s", field, since)
}

// mergeBody is the body of a request that loses what it leaves out: the given
// values, and the present ones of all other fields. It names a field that is
// neither given nor shown and may not be lost.
func mergeBody(op operation, present json.RawMessage, given map[string]json.RawMessage) (body json.RawMessage, lacks string) {
	b := bytes.NewBufferString("{")
	def, _ := rmm.Lookup(op.name)
	for _, f := range def.Body {
		raw := given[f.Name]
		if raw == nil {
			if shown := gjson.GetBytes(present, f.Name); shown.Exists() {
				raw = json.RawMessage(shown.Raw)
			}
		}
		if raw == nil {
			if op.on == aSite && !op.proxy {
				return nil, f.Name
			}
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:%s", f.Name, raw)
	}
	b.WriteByte('}')
	return b.Bytes(), ""
}
