package jobs

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// body is the fields of the operation's body.
func (p *plan) body() []rmm.Field {
	known, _ := rmm.Lookup(p.op.request(true))
	return known.Body
}

// heldKey is the key of the item that stands for a row held back.
func heldKey(row *inputRow) string { return rowKey(int(row.number)) }

// items yields the items of the plan: one for each target in the order of its
// first row, and one for each row held back.
func (p *plan) items() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for row := range p.eachRow() {
			var it Item
			switch {
			case row.class() == ClassNotFound && p.job.Update.OnNotFound == "skip":
				it = Item{Key: heldKey(row), Birth: Skipped, Reason: row.reason()}
			case row.class().Held():
				it = Item{Key: heldKey(row), Birth: Failed, Class: string(row.class()), Reason: row.reason()}
			case row != row.target.first:
				continue // has the item of the first row
			default:
				it = p.write(row.target)
			}
			if !yield(it) {
				return
			}
		}
	}
}

// itemKey is the key of the item of a target.
func (p *plan) itemKey(t *target) string {
	key := applyPrefix + p.job.Update.Operation.Name + "/"
	if t.request != nil {
		return key + fmt.Sprintf("%09d", t.first.number)
	}
	if t.site != "" {
		key += t.site + "/"
	}
	if p.op.effect == creates || p.op.effect == ensures {
		return key + url.PathEscape(p.op.keyText("name", t.name))
	}
	return key + t.uid
}

// write is the one request for a target.
func (p *plan) write(t *target) Item {
	switch {
	case t.request != nil:
		return Item{Key: p.itemKey(t), Request: *t.request}
	case !p.due(t):
		return Item{Key: p.itemKey(t), Birth: Unchanged, Reason: t.why}
	}
	changes := t.changes(len(p.job.Update.Set))
	req := rmm.Request{Op: p.op.request(t.uid != ""), Path: p.path(t, changes)}
	switch {
	case p.op.effect == starts:
		req.Body = p.jobBody(changes)
	case p.op.effect == ensures && t.uid == "":
		req.Body = append(append([]byte(`{"name":`), quoted(t.name)...), append([]byte{','}, p.writeBody(changes)[1:]...)...)
	case p.op.whole:
		req.Body = p.wholeBody(t, changes)
	case p.op.hasSet() && p.op.effect != moves:
		req.Body = p.writeBody(changes)
	}
	return Item{Key: p.itemKey(t), Request: req}
}

// path is the parameters of the path of the request for a target.
func (p *plan) path(t *target, changes []want) map[string]string {
	path := map[string]string{}
	switch p.op.on {
	case aDevice:
		path["deviceUid"] = t.uid
		if p.op.effect == moves {
			path["siteUid"] = changes[0].value
		}
	case aSite:
		path["siteUid"] = t.uid
	case aSiteVariable:
		path["siteUid"], path["variableId"] = t.site, t.uid
	case anAccountVariable:
		path["variableId"] = t.uid
	case anAlert:
		path["alertUid"] = t.uid
	}
	if p.op.effect == creates || p.op.effect == ensures && t.uid == "" {
		delete(path, "variableId")
		if p.op.on == aSite {
			delete(path, "siteUid")
		}
	}
	if len(path) == 0 {
		return nil
	}
	return path
}

// writeBody is the body of a write that has the changed fields only, in the order
// of the job.
func (p *plan) writeBody(changes []want) json.RawMessage {
	b := []byte{'{'}
	for i, w := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.appendField(b, w)
	}
	return append(b, '}')
}

// appendField writes a field with its wanted value: most are cleared by an empty
// text, a warranty date only by null.
func (p *plan) appendField(b []byte, w want) []byte {
	field := p.job.Update.Set[w.setting].Field
	b = append(strconv.AppendQuote(b, field), ':')
	switch t := p.op.field(field).Type; {
	case w.clear && t == rmm.TypeNullDate:
		return append(b, "null"...)
	case t == rmm.TypeBool || t == rmm.TypeInt:
		return append(b, w.value...)
	}
	return append(b, quoted(w.value)...)
}

// quoted is a text as JSON.
func quoted(s string) []byte {
	b, _ := json.Marshal(s) // a string cannot fail
	return b
}

// wholeBody is the body of a write that loses what it leaves out: the wanted
// values, and the present ones of all other fields.
func (p *plan) wholeBody(t *target, changes []want) json.RawMessage {
	b := []byte{'{'}
	for _, f := range p.body() {
		i := slices.IndexFunc(changes, func(w want) bool { return p.job.Update.Set[w.setting].Field == f.Name })
		shown := gjson.GetBytes(t.present, f.Name)
		if i < 0 && !shown.Exists() {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if i >= 0 {
			b = p.appendField(b, changes[i])
			continue
		}
		b = append(strconv.AppendQuote(b, f.Name), ':')
		b = append(b, shown.Raw...)
	}
	return append(b, '}')
}

// jobBody is the body of a quick job. Its name carries the mark of the run, by
// which a job whose answer was lost can be found in the activity log.
func (p *plan) jobBody(changes []want) json.RawMessage {
	var name, uid string
	variables := []byte{'['}
	for _, w := range changes {
		switch field := p.job.Update.Set[w.setting].Field; field {
		case jobNameField:
			name = w.value
		case componentField:
			uid = w.value
			if known := p.components.of(uid); known != nil {
				uid = known.uid
			}
		default:
			if len(variables) > 1 {
				variables = append(variables, ',')
			}
			variables = append(variables, `{"name":`...)
			variables = append(variables, quoted(strings.TrimPrefix(field, variableOfJob))...)
			variables = append(variables, `,"value":`...)
			variables = append(append(variables, quoted(w.value)...), '}')
		}
	}
	if p.mark != "" {
		name += " [rmm:" + p.mark + "]"
	}
	return fmt.Appendf(nil, `{"jobName":%s,"jobComponent":{"componentUid":%s,"variables":%s]}}`, quoted(name), quoted(uid), variables)
}
