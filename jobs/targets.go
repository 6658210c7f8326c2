package jobs

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// object is what the plan needs of one target.
type object struct {
	uid, name string
	site      string // uid of the site that a variable belongs to
	siteName  string // of the site that a device or a variable belongs to
	old       packedOld
	present   []byte  // the fields that the request must keep, as JSON; nil if there are none
	target    *target // that it is for the rows; nil until a row has found it
	protected string  // by which selector of the guard; "" if by none
	settled   bool    // there is nothing to do, whatever the rows want
	why       string  // of a target that is settled, where it does not go without saying
	bare      bool    // a site without the proxy that is to be set
}

// oldValue is the present value of a field.
type oldValue struct {
	text  string
	known bool // false: the account did not tell it
}

// has tells whether the object has the wanted value already.
func (o *object) has(w want) bool {
	old := o.old.of(w.setting)
	return o.settled || old.known && (old.text == w.value || asExported(old.text, w.value))
}

// sources is what a plan is made from beside the rows of the input.
type sources struct {
	targets    iter.Seq2[Element, error]
	sites      *siteIndex                 // for rows that name a site
	listed     map[string]bool            // sites whose variables could be listed
	settings   map[string]json.RawMessage // of sites, by uid
	components components                 // that quick jobs run
	keys       map[string][]string        // of devices by uid, where the list of devices does not tell them
}

// collect fills wanted with the objects that have a wanted key, and counts all
// objects. No wanted key has a blank part, so a device without a name is never met
// by anything.
func collect(job *Job, src sources, wanted map[string][]*object, fit *selectorFit) (seen int, err error) {
	spec := job.Update
	op := operationOf(spec.Operation.Name)
	about := subjects[op.on]
	fields := make([]string, len(spec.Match), len(spec.Match)+1)
	for i, m := range spec.Match {
		fields[i] = m.Field
	}
	if op.effect == creates {
		fields = append(fields, "name")
	}
	beside := -1 // the field of the match that the list does not tell
	if name := spec.besideList(); name != "" {
		beside = slices.Index(fields, name)
	}
	parts := make([]string, len(fields))
	var kept texts
	var siteNames interned
	for el, err := range src.targets {
		if err != nil {
			return seen, err
		}
		if el.Path["alertUid"] == "" { // one that was read by itself is none of the open ones
			seen++
		}
		for i, field := range fields {
			if op.on == aSiteVariable && i == 0 {
				parts[i] = el.Path["siteUid"]
				continue
			}
			parts[i] = op.keyText(field, keyOf(field, el.JSON))
		}
		uid := keyOf(about.uid, el.JSON)
		if uid == "" {
			continue
		}
		switch op.on {
		case aDevice:
			fit.see(deviceTraits(op.on, el.JSON))
		case aSite:
			fit.seeSite(keyOf(about.name, el.JSON), uid)
		}
		var o *object
		for _, key := range keysOf(parts, beside, src.keys[uid]) {
			found, ok := wanted[key]
			if !ok {
				continue
			}
			if o == nil {
				o = &object{uid: kept.keep([]byte(uid)), name: kept.keep([]byte(keyOf(about.name, el.JSON))), siteName: siteNames.one(keyOf(about.site, el.JSON))}
				if op.on == aSiteVariable {
					o.site = el.Path["siteUid"]
					o.siteName = src.sites.name[o.site]
				}
				fill(o, op, spec.Set, el.JSON, src.settings[uid], &kept)
				o.protected = job.Guard.protects(o.traits(op.on, el.JSON))
			}
			wanted[key] = append(found, o)
		}
	}
	return seen, nil
}

// keysOf are the keys of an object: one, or one for each of the values that a part
// has which the list does not tell.
func keysOf(parts []string, beside int, values []string) []string {
	if beside < 0 {
		return []string{joinKey(parts)}
	}
	keys := make([]string, len(values))
	for i, v := range values {
		parts[beside] = v
		keys[i] = joinKey(parts)
	}
	return keys
}

// traits are what the selectors of a guard are compared with.
func (o *object) traits(on subject, element json.RawMessage) traits {
	switch on {
	case aSite:
		return siteTraits(o.name, o.uid)
	case aSiteVariable, anAccountVariable:
		return siteTraits(o.siteName, o.site)
	}
	return deviceTraits(on, element)
}

// fill takes the present values of an object from its element, and those of a
// proxy from the settings of its site.
func fill(o *object, op operation, set []Setting, element, settings json.RawMessage, kept *texts) {
	switch {
	case op.proxy:
		proxy := gjson.GetBytes(settings, "proxySettings")
		none := proxy.Type == gjson.Null && proxy.Exists()
		if o.settled, o.bare = none && op.effect == removes, none; o.settled {
			o.why = "the site has no proxy"
		}
		element = json.RawMessage(proxy.Raw)
		if proxy.Type != gjson.JSON {
			element = json.RawMessage("{}")
		}
	case op.effect == creates:
		if o.settled = true; hidden("value", element) {
			o.why = "there is a variable of this name; its value is masked, so it cannot be compared"
		}
	case op.effect == resolves && gjson.GetBytes(element, "resolved").Bool():
		o.settled, o.why = true, "the alert is resolved already"
	}
	old := oldValues(op, set, element)
	for i := range old {
		old[i].known = old[i].known || o.bare
	}
	o.old = packOld(old, kept)
	if op.keeps() {
		o.present = keep(op, element)
	}
}

// keep is the fields of an element that a request must repeat so that they are
// not lost. A field that nobody can read is not among them.
func keep(op operation, element json.RawMessage) []byte {
	b := []byte{'{'}
	for _, f := range op.image() {
		v := gjson.GetBytes(element, f.Name)
		if !v.Exists() || hidden(f.Name, element) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, f.Name), ':')
		b = append(b, v.Raw...)
	}
	return append(b, '}')
}

// hidden tells whether the service shows something else than the value of a
// field: a password is never shown, nor the value of a masked variable.
func hidden(field string, element json.RawMessage) bool {
	return field == "password" || field == "value" && gjson.GetBytes(element, "masked").Bool()
}

// oldValues are the present values of the fields that the job sets. They are
// copied: a text that is cut out of an answer would hold all of it in memory.
func oldValues(op operation, set []Setting, element json.RawMessage) []oldValue {
	old := make([]oldValue, len(set))
	if op.effect == starts {
		return old // nothing is there before
	}
	from := gjson.ParseBytes(element)
	if op.name == updatable[0].name {
		from = from.Get("udf")
	}
	for i, s := range set {
		field := s.Field
		if op.effect == moves {
			field = "siteUid"
		}
		v := from.Get(field)
		old[i] = oldValue{text: strings.Clone(text(v)), known: v.Exists() && !hidden(field, element)}
		switch {
		case !old[i].known:
			old[i].text = ""
		case v.IsBool():
			old[i].text = strconv.FormatBool(v.Bool())
		case s.Field == warrantyDate && old[i].text != "":
			// A time of day may follow; anything else is no day that could be compared or restored.
			day, err := time.Parse(time.DateOnly, old[i].text[:min(len(old[i].text), len(time.DateOnly))])
			old[i] = oldValue{text: day.Format(time.DateOnly), known: err == nil}
			if err != nil {
				old[i].text = ""
			}
		}
	}
	return old
}
