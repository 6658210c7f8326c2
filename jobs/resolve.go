package jobs

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"rmmjob/internal/rmm"

	"github.com/tidwall/gjson"
)

// target is one object with everything that the rows want of it.
type target struct {
	*object
	request *rmm.Request // of a call, nil otherwise
	differs int          // how many fields are to get another value

	first, last *inputRow // of its rows, which lead from one to the next
}

// add gives the target one more row.
func (t *target) add(row *inputRow) {
	row.target = t
	if t.first == nil {
		t.first = row
	} else {
		t.last.next = row
	}
	t.last = row
}

// changes are the wants of the rows that differ from the present values, each field
// once and in the order of the job, which has so many settings.
func (t *target) changes(settings int) []want {
	changes, asked := make([]want, 0, t.differs), make([]bool, settings)
	for row := range t.rows() {
		for w := range row.wants.all() {
			if !asked[w.setting] && !t.has(w) {
				changes = append(changes, w)
			}
			asked[w.setting] = true
		}
	}
	slices.SortFunc(changes, func(a, b want) int { return cmp.Compare(a.setting, b.setting) })
	return changes
}

// rows yields the rows of the target in the order of the input.
func (t *target) rows() iter.Seq[*inputRow] {
	return func(yield func(*inputRow) bool) {
		for row := t.first; row != nil && yield(row); row = row.next {
		}
	}
}

// placeRows finds the sites that the rows name: the one that a variable belongs
// to becomes the first part of the key, the one that a device moves to the wanted
// value.
func (p *plan) placeRows(listed map[string]bool) {
	if p.op.on != aSiteVariable && p.op.effect != moves {
		return
	}
	var kept texts
	for row := range p.eachRow() {
		if row.verdict != nil {
			continue
		}
		if p.op.effect == moves {
			w, _ := row.wants.of(0)
			uid, fault := p.sites.find(p.job.Update.Set[0].Field, w.value)
			if fault != "" {
				// Not of the class not_found, which a job may skip: it is the device that may be missing.
				row.judge(ClassInvalid, fault)
			}
			w.value = uid
			row.wants = packedWants(kept.keep(packWants(nil, []want{w})))
			if why := p.job.Guard.protects(siteTraits(p.sites.name[uid], uid)); why != "" && fault == "" {
				row.judge(ClassProtected, "the site to move to is "+why)
			}
			continue
		}
		field, parts := p.job.Update.Match[0].Field, splitKey(row.key, 2)
		found := p.sites.all(field, parts[0])
		uid, fault := p.sites.find(field, parts[0])
		if fault != "" {
			_, fault = p.sites.find(field, p.written(row)[0])
		}
		switch {
		case len(found) > 1:
			row.judge(ClassAmbiguous, fault)
		case fault != "":
			row.judge(ClassNotFound, fault)
		case !listed[uid]:
			row.judge(ClassInvalid, "the service does not list the variables of the site (it refuses to for on-demand sites)")
		default:
			row.key = joinKey([]string{uid, parts[1]})
		}
	}
}

// resolve finds the target of every row that has a key.
func (p *plan) resolve(wanted map[string][]*object) {
	for row := range p.eachRow() {
		if row.verdict != nil {
			continue
		}
		found := wanted[row.key]
		switch {
		case len(found) == 0 && p.op.effect == ensures && !p.gives(row, "value"):
			row.judge(ClassInvalid, "the variable is not there, and its value is blank: "+ClearWord+" makes it an empty one")
			continue
		case len(found) == 0 && (p.op.effect == creates || p.op.effect == ensures):
			found = []*object{p.absent(row)}
			wanted[row.key] = found
		case len(found) == 0:
			row.judge(ClassNotFound, "no "+p.op.thing()+" has "+p.describeKey(row))
			continue
		case len(found) > 1 && p.op.effect != creates:
			row.judge(ClassAmbiguous, p.describeAmbiguity(row, found))
			continue
		}
		if reason := p.otherwise(row, found[0]); reason != "" {
			row.judge(ClassConflict, reason)
			continue
		}
		o := found[0]
		if o.target == nil {
			o.target = &target{object: o}
			p.targets = append(p.targets, o.target)
		}
		o.target.add(row)
	}
}

// gives tells whether a row has a value for a field, if only an empty one.
func (p *plan) gives(row *inputRow, field string) bool {
	for w := range row.wants.all() {
		if p.job.Update.Set[w.setting].Field == field {
			return true
		}
	}
	return false
}

// absent stands for a target that is not there: a thing that is to be made.
func (p *plan) absent(row *inputRow) *object {
	o := &object{}
	for w := range row.wants.all() {
		if p.job.Update.Set[w.setting].Field == "name" {
			o.name = w.value
		}
	}
	if p.op.effect == ensures {
		parts := splitKey(row.key, 2)
		o.name = parts[len(parts)-1]
	}
	if p.op.on == aSiteVariable {
		o.site = splitKey(row.key, 2)[0]
		o.siteName = p.sites.name[o.site]
	}
	if p.op.on == aSite || p.op.on == aSiteVariable {
		o.protected = p.job.Guard.protects(o.traits(p.op.on, nil))
	}
	return o
}

// otherwise says why a variable that a row would make cannot be taken for the one
// that is there; "" when it can. What is masked cannot be compared.
func (p *plan) otherwise(row *inputRow, o *object) string {
	if p.op.effect == ensures && o.uid != "" {
		for w := range row.wants.all() {
			if old := o.old.of(w.setting); p.job.Update.Set[w.setting].Field == "masked" && old.text != w.value {
				return "masked can only be chosen when the variable is made, and this one is there already"
			}
		}
	}
	if p.op.effect != creates || p.op.on == aSite || !o.settled {
		return ""
	}
	for w := range row.wants.all() {
		if old := o.old.of(w.setting); old.known && old.text != w.value {
			return fmt.Sprintf("the variable is there with another %s; the update operation changes it", p.job.Update.Set[w.setting].Field)
		}
	}
	return ""
}

// written are the parts of the key of a row, by the fields of the match, as the row
// has them.
func (p *plan) written(row *inputRow) []string {
	cell := p.reader.cells(Record{Cells: p.cells.of(int(row.number))})
	match := p.job.Update.Match
	parts := make([]string, len(match))
	for i, m := range match {
		parts[i] = trimBlank(m.Value.Expand(cell))
	}
	return parts
}

func (p *plan) describeKey(row *inputRow) string {
	parts := p.written(row)
	for i, v := range parts {
		if p.op.on == aSiteVariable && i == 0 {
			uid := splitKey(row.key, 2)[0]
			parts[i] = fmt.Sprintf("site %q", clip(cmp.Or(p.sites.name[uid], v), 60))
			continue
		}
		parts[i] = fmt.Sprintf("%s %q", p.job.Update.Match[i].Field, clip(v, 60))
	}
	return strings.Join(parts, " and ")
}

func (p *plan) describeAmbiguity(row *inputRow, found []*object) string {
	const show = 5
	names := make([]string, 0, show)
	for _, o := range found[:min(len(found), show)] {
		name := o.uid
		if p.op.on == aDevice {
			name += " (" + o.siteName + ")"
		}
		names = append(names, name)
	}
	if len(found) > show {
		names = append(names, fmt.Sprintf("and %d more", len(found)-show))
	}
	return fmt.Sprintf("%d %ss have %s: %s", len(found), p.op.thing(), p.describeKey(row), strings.Join(names, ", "))
}

// merge brings the rows of one target together. Rows that fill different fields
// make one request; rows that disagree are all held back, as are those with a conflict
// with other targets. It uses first, which has a place for each setting of the job.
func (p *plan) merge(t *target, first []*inputRow, conflict string) {
	clear(first)
	for row := range t.rows() {
		for w := range row.wants.all() {
			by := first[w.setting]
			switch {
			case by == nil:
				first[w.setting] = row
			case by.valueOf(w.setting) != w.value && conflict == "":
				conflict = fmt.Sprintf("lines %d and %d disagree on %s for %s %s",
					by.line, row.line, p.job.Update.Set[w.setting].Field, p.op.thing(), cmp.Or(t.uid, strconv.Quote(clip(t.name, 60))))
			}
		}
	}
	changes := t.changes(len(first))
	t.differs = len(changes)
	lacks := p.unreadable(t, changes)
	for row := range t.rows() {
		switch {
		case conflict != "":
			row.judge(ClassConflict, conflict)
		case lacks != "":
			row.judge(ClassInvalid, lacks)
		case t.protected != "" && p.due(t):
			row.judge(ClassProtected, t.protected)
		default:
			row.judge(p.goodClass(row), t.why)
		}
	}
	if conflict != "" || lacks != "" || t.protected != "" || !p.due(t) {
		return
	}
	p.writes++
	for _, w := range changes {
		if p.empties(t, w) {
			p.clears++
		}
	}
}

// valueOf is the value that the row wants of a field that it sets.
func (r *inputRow) valueOf(setting uint16) string {
	w, _ := r.wants.of(setting)
	return w.value
}

// goodClass is the class of a row that is not held back.
func (p *plan) goodClass(r *inputRow) RowClass {
	class := ClassUnchanged
	if !p.op.hasSet() && p.due(r.target) {
		class = ClassChange
	}
	for w := range r.wants.all() {
		switch {
		case r.target.has(w):
		case p.empties(r.target, w):
			return ClassClear
		default:
			class = ClassChange
		}
	}
	return class
}

// empties tells whether a change takes a value away that is there.
func (p *plan) empties(t *target, w want) bool {
	return w.clear && (p.op.effect == sets || p.op.effect == ensures && t.uid != "")
}

// due tells whether a request is to be sent for a target.
func (p *plan) due(t *target) bool {
	return !t.settled && (!p.op.hasSet() || t.differs > 0)
}

// unreadable says which field a request would lose because neither the job nor
// the account tells its value; "" when none.
func (p *plan) unreadable(t *target, changes []want) string {
	if !p.op.whole || !p.due(t) || p.op.on != aSite {
		return ""
	}
	for _, f := range p.body() {
		set := slices.ContainsFunc(changes, func(w want) bool { return p.job.Update.Set[w.setting].Field == f.Name })
		switch shown := gjson.GetBytes(t.present, f.Name); {
		case !set && slices.Contains(p.op.core, f.Name) && trimBlank(text(shown)) == "":
			return fmt.Sprintf("the proxy would have no %s: neither the row nor the account gives one", f.Name)
		case set || shown.Exists():
		case !p.op.proxy:
			return fmt.Sprintf("the account does not tell %s of the site, which the update would blank: set it in the job", f.Name)
		case f.Name == "password" && text(gjson.GetBytes(t.present, "username")) != "":
			return "the proxy has a user name, and its password cannot be read: set it in the job"
		}
	}
	return ""
}
