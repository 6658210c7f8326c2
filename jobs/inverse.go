package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// inverse is what takes a write back, or why nothing does.
type inverse struct {
	key     string // of the item
	site    string // in which a device is by now; "" where that is not known
	class   RowClass
	reason  string // where it is not simply a change
	req     rmm.Request
	changes []Change
	whole   bool            // the changes are of the target, whatever the rows asked for
	before  json.RawMessage // for an undo of the undo
	kept    []string        // fields that were edited since
}

func irreversible(format string, args ...any) *inverse {
	return &inverse{class: ClassIrreversible, reason: fmt.Sprintf(format, args...)}
}

func kept(format string, args ...any) *inverse {
	return &inverse{class: ClassKept, reason: fmt.Sprintf(format, args...)}
}

func already(reason string) *inverse { return &inverse{class: ClassUnchanged, reason: reason} }

const editedSince = "edited since: %s is not what the run wrote"

// inverse decides by what a look has shown.
func (w *write) inverse() *inverse {
	switch s, _ := w.stands(); {
	case w.class == ClassGivenUp && w.listed && (s == asWritten || s == inPart):
		return kept("a person has said that it was not carried out: what is there is left alone")
	case w.class == ClassGivenUp:
		return already("a person has said that it was not carried out")
	case w.unsure && w.listed && s == asBefore && w.live.alias == "":
		return already("it is as before: not carried out, or not so any more")
	}
	switch {
	case !w.listed && classOf(w.req) == rmm.ClassRead:
		return already("it has only read")
	case !w.listed:
		return irreversible("what %s has done is not known", w.req.Op)
	case w.op.effect == starts && w.unsure:
		return irreversible("nobody knows whether the quick job was made, and nothing can take it back")
	case w.op.effect == starts:
		return irreversible("a quick job that was made cannot be taken back")
	case w.op.effect == resolves:
		return irreversible("an alert that was resolved cannot be opened again")
	case w.op.effect == mutes:
		return irreversible("%s has no effect", w.op.name)
	case w.op.effect == creates && w.op.on == aSite:
		return irreversible("the API cannot delete a site")
	case !w.live.seen:
		return kept("what is there now cannot be read")
	}
	switch w.op.effect {
	case creates:
		return w.uncreate()
	case removes:
		return w.remake()
	case moves:
		return w.moveBack()
	}
	if w.op.proxy {
		return w.proxyBack()
	}
	return w.restore()
}

// allowed is the inverse, unless the guard keeps what it would write by now.
func (v *inverse) allowed(w *write) *inverse {
	if v.class.Held() || v.class == ClassUnchanged {
		return v
	}
	if w.op.effect == moves {
		to := v.req.Path["siteUid"]
		name, there := w.judge.sites.name[to]
		if !there {
			return irreversible("the site that the device came from is not listed any more")
		}
		if why := w.judge.guard.protects(siteTraits(name, to)); why != "" {
			return &inverse{class: ClassProtected, reason: "the site to move back to is " + why}
		}
	}
	if w.live.class == string(ClassProtected) {
		return &inverse{class: ClassProtected, reason: w.live.why}
	}
	for _, c := range v.changes {
		if !w.op.renames() || c.Field != "name" {
			continue
		}
		if why := w.judge.sites.taken(w.req.Path["siteUid"], c.New); why != "" {
			return kept("%s", why)
		}
	}
	return v
}

// restore gives the fields of a target their old values, those that still have
// what was written.
func (w *write) restore() *inverse {
	if !w.live.there {
		return kept("the %s is not listed any more", w.op.thing())
	}
	v := &inverse{class: ClassChange, before: w.live.element}
	given := map[string]json.RawMessage{}
	unknown := ""
	for i, c := range w.changes {
		now := w.live.old[i]
		switch {
		case !c.real():
		case c.Unknown:
			unknown = c.Field
		case now.known && now.text == c.was():
			// It is back already.
		case !now.known || now.text != c.wanted():
			v.kept = append(v.kept, c.Field)
		default:
			given[c.Field] = w.op.raw(c.Field, c.was())
			v.changes = append(v.changes, Change{Field: c.Field, Old: c.New, New: c.Old, Clear: c.Old == "" && w.op.clearable(c.Field), Secret: c.Secret})
		}
	}
	switch {
	case unknown != "":
		return irreversible("the account did not tell %s before it was changed", unknown)
	case len(given) == 0 && len(v.kept) > 0:
		return kept(editedSince, strings.Join(v.kept, ", "))
	case len(given) == 0:
		return already("it is as before already")
	case w.renamed(w.live.element):
		return kept(editedSince, "name")
	case len(v.kept) > 0:
		v.reason = fmt.Sprintf("kept, edited since: %s", strings.Join(v.kept, ", "))
	}
	v.req = rmm.Request{Op: w.req.Op, Path: w.req.Path}
	if !w.op.whole {
		v.req.Body = objectOf(given)
		return v
	}
	body, lacks := mergeBody(*w.op, w.live.element, given)
	if lacks != "" {
		return irreversible("the account does not tell %s, which the request would blank", lacks)
	}
	v.req.Body = body
	return v
}

// moveBack moves a device to the site that it came from.
func (w *write) moveBack() *inverse {
	switch {
	case !w.live.there:
		return kept("the device is not listed any more")
	case len(w.changes) != 1 || w.changes[0].OldUID == "" || w.changes[0].NewUID == "":
		return irreversible("the site that the device came from is not known")
	}
	c, now := w.changes[0], w.live.old[0]
	switch now.text {
	case c.OldUID:
		return already("the device is back already")
	case c.NewUID:
	default:
		return kept("edited since: the device was moved on")
	}
	path := maps.Clone(w.req.Path)
	path["siteUid"] = c.OldUID
	return &inverse{
		class: ClassChange, req: rmm.Request{Op: w.req.Op, Path: path},
		changes: []Change{{Field: c.Field, Old: c.New, New: c.Old, OldUID: c.NewUID, NewUID: c.OldUID, Open: true}},
	}
}

// uncreate deletes a variable that was made, if it is still as it was made.
func (w *write) uncreate() *inverse {
	switch {
	case !w.live.there && w.live.alias != "":
		return kept("edited since: the variable is not listed by its name any more, but as %q, it seems, which was made since and is like it", w.live.alias)
	case !w.live.there:
		return already("the variable is gone already")
	}
	for i, c := range w.changes {
		switch now := w.live.old[i]; {
		case c.Field != "value":
		case !now.known:
			return kept("its value is masked, so nobody can tell whether it was edited since")
		case now.text != c.wanted():
			return kept(editedSince, "value")
		}
	}
	path := map[string]string{"variableId": w.live.id}
	if site := w.req.Path["siteUid"]; site != "" {
		path["siteUid"] = site
	}
	return &inverse{
		class: ClassChange, req: rmm.Request{Op: strings.Replace(w.op.name, "-create", "-delete", 1), Path: path},
		changes: []Change{{Field: "variable", Delete: true, Unknown: true}}, whole: true, before: w.live.element,
	}
}

// remake makes again what was deleted: a variable, or the proxy of a site.
func (w *write) remake() *inverse {
	thing := w.op.thing()
	if w.op.proxy {
		thing = "proxy"
	}
	switch {
	case len(w.before) == 0:
		return irreversible("what the %s was is not known", thing)
	case w.live.there && (w.op.proxy || gjson.GetBytes(w.before, "value").Exists()) && w.otherField(nil) == "":
		return already("it is there again already")
	case w.live.there:
		return kept("edited since: there is a %s again", thing)
	case w.op.proxy && keyOf("username", w.before) != "":
		return irreversible("the password of the proxy cannot be read")
	case !w.op.proxy && !gjson.GetBytes(w.before, "value").Exists():
		return irreversible("the value of the variable was masked")
	}
	v := &inverse{class: ClassChange, req: rmm.Request{Op: strings.Replace(w.op.name, "-delete", "-create", 1)}, whole: true}
	if site := w.req.Path["siteUid"]; site != "" {
		v.req.Path = map[string]string{"siteUid": site}
	}
	if w.op.proxy {
		v.before = json.RawMessage("{}")
	}
	given := map[string]json.RawMessage{}
	gjson.ParseBytes(w.before).ForEach(func(name, was gjson.Result) bool {
		if was.Type != gjson.Null {
			given[name.String()] = json.RawMessage(was.Raw)
			v.changes = append(v.changes, Change{Field: name.String(), New: was.String(), Unknown: w.op.proxy})
		}
		return true
	})
	v.req.Body = objectOf(given)
	return v
}

// proxyBack gives a site the proxy back that it had, or takes away the one that it
// had not.
func (w *write) proxyBack() *inverse {
	had := len(w.before) > len("{}")
	if !w.live.there {
		if !had {
			return already("the site has no proxy already")
		}
		return kept("edited since: the proxy was removed")
	}
	if had && keyOf("username", w.before) == "" && w.strange(nil) == "" {
		return already("it is as before already")
	}
	for i, c := range w.changes {
		if now := w.live.old[i]; now.known && now.text != c.wanted() {
			return kept(editedSince, c.Field)
		}
	}
	if field := w.strange(w.changes); field != "" {
		return kept(editedSince, field)
	}
	path := map[string]string{"siteUid": w.req.Path["siteUid"]}
	if !had {
		return &inverse{
			class: ClassChange, req: rmm.Request{Op: "site-proxy-delete", Path: path},
			changes: []Change{{Field: "proxy", Delete: true, Unknown: true}}, whole: true, before: w.live.element,
		}
	}
	if keyOf("username", w.before) != "" {
		return irreversible("the password of the proxy before cannot be read")
	}
	v := &inverse{class: ClassChange, before: w.live.element}
	given := map[string]json.RawMessage{}
	gjson.ParseBytes(w.before).ForEach(func(name, was gjson.Result) bool {
		if was.Type != gjson.Null {
			given[name.String()] = json.RawMessage(was.Raw)
		}
		return true
	})
	for _, c := range w.changes {
		if c.real() && !hidden(c.Field, nil) {
			v.changes = append(v.changes, Change{Field: c.Field, Old: c.New, New: c.Old, Clear: c.Old == "" && w.op.clearable(c.Field)})
		}
	}
	v.req = rmm.Request{Op: w.op.name, Path: path, Body: objectOf(given)}
	return v
}

// strange names a field of a target that is taken back as a whole, beside those of some
// changes, that is not as it was before: it would be lost; "" for none.
func (w *write) strange(but []Change) string {
	for _, f := range w.op.image() {
		changed := slices.ContainsFunc(but, func(c Change) bool { return c.Field == f.Name })
		was, now := gjson.GetBytes(w.before, f.Name).String(), gjson.GetBytes(w.live.element, f.Name).String()
		if f.Name == "type" && was == "" {
			continue // the service may have chosen one
		}
		if !changed && !hidden(f.Name, nil) && was != now {
			return f.Name
		}
	}
	return ""
}

// raw is a value of a field as JSON, as the operation takes it; an empty date is
// null.
func (op operation) raw(field, value string) json.RawMessage {
	switch t := op.field(field).Type; {
	case t == rmm.TypeNullDate && value == "":
		return json.RawMessage("null")
	case t == rmm.TypeBool || t == rmm.TypeInt:
		return json.RawMessage(value)
	}
	return quoted(value)
}

// objectOf is a JSON object with its fields in the order of their names.
func objectOf(fields map[string]json.RawMessage) json.RawMessage {
	b, _ := json.Marshal(fields) // of texts and of what was JSON before
	return b
}
