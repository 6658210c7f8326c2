package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// RowClass is what the plan makes of one input row.
type RowClass string

// The classes of rows. Rows of the first three are good; the others are held
// back and named, never guessed at.
const (
	ClassChange    RowClass = "change"    // at least one field gets a new value
	ClassClear     RowClass = "clear"     // at least one field is emptied
	ClassUnchanged RowClass = "unchanged" // the target is as wanted already
	ClassNotFound  RowClass = "not_found" // no target has the key
	ClassAmbiguous RowClass = "ambiguous" // several targets have the key
	ClassConflict  RowClass = "conflict"  // another row wants something else for the target
	ClassInvalid   RowClass = "invalid"   // the row itself is wrong: empty key, impossible value
	ClassHeading   RowClass = "heading"   // row 0: the heading of the input
)

// RowClasses lists the classes of rows in the order in which they are shown.
func RowClasses() []RowClass {
	return []RowClass{ClassChange, ClassClear, ClassUnchanged, ClassNotFound, ClassAmbiguous, ClassConflict, ClassInvalid}
}

// Held tells whether rows of the class are held back.
func (c RowClass) Held() bool {
	switch c {
	case ClassNotFound, ClassAmbiguous, ClassConflict, ClassInvalid:
		return true
	}
	return false
}

// Change is one field of a plan.
type Change struct {
	Field   string `json:"field"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Clear   bool   `json:"clear,omitempty"`
	Delete  bool   `json:"delete,omitempty"`  // the whole thing goes
	Unknown bool   `json:"unknown,omitempty"` // the account did not tell the old value
}

// RowDetail is what the plan stores of one input row. It holds cell values and
// is therefore as secret as the input.
type RowDetail struct {
	Line     int      `json:"line"`
	Cells    []string `json:"cells"`
	UID      string   `json:"uid,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Site     string   `json:"site,omitempty"`
	Changes  []Change `json:"changes,omitempty"` // only what this row asks for
	Reason   string   `json:"reason,omitempty"`
}

// object is what the plan needs of one target.
type object struct {
	uid, name string
	site      string     // uid of the site that a variable belongs to
	siteName  string     // of the site that a device or a variable belongs to
	old       []oldValue // by setting of the job
	present   []byte     // the fields that the request must keep, as JSON; nil if there are none
	settled   bool       // there is nothing to do, whatever the rows want
	why       string     // of a target that is settled, where it does not go without saying
}

// oldValue is the present value of a field.
type oldValue struct {
	text  string
	known bool // false: the account did not tell it
}

// want is the value that a row wants of one field.
type want struct {
	value   string // "" where the field is to be cleared
	setting uint16 // index in the Set of the job
	clear   bool
}

// inputRow is one record on its way into the plan. There may be a hundred
// thousand, so what can be made from the target when it is stored is not kept.
type inputRow struct {
	number, line int
	cells        []string
	key          string // normalised match key; "" when the row is invalid
	class        RowClass
	reason       string
	wants        []want
	target       *target
}

// target is one object with everything that the rows want of it.
type target struct {
	*object
	rows    []*inputRow
	changes []want // what differs from the present values
}

// has tells whether the object has the wanted value already.
func (o *object) has(w want) bool {
	return o.settled || o.old[w.setting].known && o.old[w.setting].text == w.value
}

// plan is the whole plan of an update before it is stored.
type plan struct {
	job     *Job
	op      operation
	mark    string // for the names of quick jobs
	heading []string
	sites   *siteIndex // nil where no row names one
	rows    []*inputRow
	targets []*target // in the order of their first row
	counts  map[RowClass]int
	writes  int // targets that must be written
	clears  int // fields that are emptied
}

// sources is what a plan is made from beside the rows of the input.
type sources struct {
	targets  iter.Seq2[Element, error]
	sites    *siteIndex                 // for rows that name a site
	listed   map[string]bool            // sites whose variables could be listed
	settings map[string]json.RawMessage // of sites, by uid
}

// rows opens the input of the update.
func (u *UpdateWork) rows(ctx context.Context, a Answers) (*Table, error) {
	if u.job.Update.Rows.From == nil {
		return OpenInput(u.job)
	}
	return openSelection(ctx, u.job.Update, a, u.rowsList().id+"/")
}

// readRows reads the rows of the input.
func (u *UpdateWork) readRows(ctx context.Context, a Answers) (*Table, []*inputRow, error) {
	table, err := u.rows(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	reader := newRowReader(u.job.Update, table)
	var rows []*inputRow
	for rec, err := range table.Records() {
		if err != nil {
			return nil, nil, err
		}
		row, _ := reader.read(rec)
		rows = append(rows, row)
		if len(rows)%1024 == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return table, rows, nil
}

// makePlan reads the rows, resolves them against the targets and classifies
// each. An input hash that is set is that of the input which is expected.
func (u *UpdateWork) makePlan(ctx context.Context, a Answers, src sources) (*plan, error) {
	job, set := u.job, u.set
	table, rows, err := u.readRows(ctx, a)
	if err != nil {
		return nil, err
	}
	if set.InputHash != "" && set.InputHash != table.Hash {
		return nil, table.refuse("run the job again for the new contents", "the file changed since the run was begun")
	}
	p := &plan{
		job: job, op: operationOf(job.Update.Operation.Name), mark: set.Mark, heading: table.Headers, rows: rows,
		sites: src.sites, counts: map[RowClass]int{},
	}
	p.placeRows(src.listed)
	wanted := map[string][]*object{}
	for _, row := range p.rows {
		if row.class == "" {
			wanted[row.key] = nil
		}
	}
	if err := collect(job.Update, src, wanted); err != nil {
		return nil, err
	}
	p.resolve(wanted)
	first := make([]*inputRow, len(job.Update.Set))
	for _, t := range p.targets {
		p.merge(t, first)
	}
	for _, row := range p.rows {
		p.counts[row.class]++
	}
	return p, nil
}

// collect fills wanted with the objects that have a wanted key. No wanted key has
// a blank part, so a device without a name is never met by anything.
func collect(spec *UpdateSpec, src sources, wanted map[string][]*object) error {
	op := operationOf(spec.Operation.Name)
	about := subjects[op.on]
	fields := make([]string, len(spec.Match), len(spec.Match)+1)
	for i, m := range spec.Match {
		fields[i] = m.Field
	}
	if op.effect == creates {
		fields = append(fields, "name")
	}
	parts := make([]string, len(fields))
	for el, err := range src.targets {
		if err != nil {
			return err
		}
		for i, field := range fields {
			if op.on == aSiteVariable && i == 0 {
				parts[i] = el.Path["siteUid"]
				continue
			}
			parts[i] = op.keyText(field, keyOf(field, el.JSON))
		}
		key := joinKey(parts)
		found, ok := wanted[key]
		uid := keyOf(about.uid, el.JSON)
		if !ok || uid == "" {
			continue
		}
		o := &object{uid: uid, name: keyOf(about.name, el.JSON), siteName: keyOf(about.site, el.JSON)}
		if op.on == aSiteVariable {
			o.site = el.Path["siteUid"]
			o.siteName = src.sites.name[o.site]
		}
		fill(o, op, spec.Set, el.JSON, src.settings[uid])
		wanted[key] = append(found, o)
	}
	return nil
}

// fill takes the present values of an object from its element, and those of a
// proxy from the settings of its site.
func fill(o *object, op operation, set []Setting, element, settings json.RawMessage) {
	switch {
	case op.proxy:
		proxy := gjson.GetBytes(settings, "proxySettings")
		o.settled = op.effect == removes && proxy.Type == gjson.Null && proxy.Exists()
		if o.settled {
			o.why = "the site has no proxy"
		}
		element = json.RawMessage(proxy.Raw)
		if proxy.Type != gjson.JSON {
			element = json.RawMessage("{}")
		}
	case op.effect == creates:
		o.settled = true
	}
	o.old = oldValues(op, set, element)
	if op.whole {
		o.present = keep(op, element)
	}
}

// keep is the fields of an element that a request must repeat so that they are
// not lost. A field that nobody can read is not among them.
func keep(op operation, element json.RawMessage) []byte {
	b := []byte{'{'}
	known, _ := rmm.Lookup(op.name)
	for _, f := range known.Body {
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

// placeRows finds the sites that the rows name: the one that a variable belongs
// to becomes the first part of the key, the one that a device moves to the wanted
// value.
func (p *plan) placeRows(listed map[string]bool) {
	if p.op.on != aSiteVariable && p.op.effect != moves {
		return
	}
	for _, row := range p.rows {
		if row.class != "" {
			continue
		}
		if p.op.effect == moves {
			w := &row.wants[0]
			uid, fault := p.sites.find(p.job.Update.Set[0].Field, w.value)
			if fault != "" {
				// Not of the class not_found, which a job may skip: it is the device that may be missing.
				row.class, row.reason = ClassInvalid, fault
			}
			w.value = uid
			continue
		}
		field, parts := p.job.Update.Match[0].Field, splitKey(row.key, 2)
		found := p.sites.all(field, parts[0])
		uid, fault := p.sites.find(field, parts[0])
		switch {
		case len(found) > 1:
			row.class, row.reason = ClassAmbiguous, fault
		case fault != "":
			row.class, row.reason = ClassNotFound, fault
		case !listed[uid]:
			row.class, row.reason = ClassInvalid, "the service does not list the variables of the site (it refuses to for on-demand sites)"
		default:
			row.key = joinKey([]string{uid, parts[1]})
		}
	}
}

// resolve finds the target of every row that has a key.
func (p *plan) resolve(wanted map[string][]*object) {
	of := map[*object]*target{}
	for _, row := range p.rows {
		if row.class != "" {
			continue
		}
		found := wanted[row.key]
		switch {
		case len(found) == 0 && p.op.effect == creates,
			len(found) == 0 && p.op.effect == resolves:
			found = []*object{p.absent(row)}
			wanted[row.key] = found
		case len(found) == 0:
			row.class, row.reason = ClassNotFound, "no "+p.op.thing()+" has "+p.describeKey(row.key)
			continue
		case len(found) > 1 && p.op.effect != creates:
			row.class, row.reason = ClassAmbiguous, p.describeAmbiguity(row.key, found)
			continue
		}
		if reason := p.otherwise(row, found[0]); reason != "" {
			row.class, row.reason = ClassConflict, reason
			continue
		}
		t := of[found[0]]
		if t == nil {
			t = &target{object: found[0]}
			of[found[0]] = t
			p.targets = append(p.targets, t)
		}
		row.target = t
		t.rows = append(t.rows, row)
	}
}

// absent stands for a target that is not there: a thing that is to be made, or an
// alert that is not open.
func (p *plan) absent(row *inputRow) *object {
	o := &object{old: make([]oldValue, len(p.job.Update.Set))}
	if p.op.effect == resolves {
		o.uid, o.settled, o.why = row.key, true, "no open alert has this uid: it is resolved already, or not of this account"
		return o
	}
	for _, w := range row.wants {
		if p.job.Update.Set[w.setting].Field == "name" {
			o.name = w.value
		}
	}
	if p.op.on == aSiteVariable {
		o.site = splitKey(row.key, 2)[0]
		o.siteName = p.sites.name[o.site]
	}
	return o
}

// otherwise says why a variable that a row would make cannot be taken for the one
// that is there; "" when it can. What is masked cannot be compared.
func (p *plan) otherwise(row *inputRow, o *object) string {
	if p.op.effect != creates || p.op.on == aSite || !o.settled {
		return ""
	}
	for _, w := range row.wants {
		if old := o.old[w.setting]; old.known && old.text != w.value {
			return fmt.Sprintf("the variable is there with another %s; the update operation changes it", p.job.Update.Set[w.setting].Field)
		}
	}
	return ""
}

func (p *plan) describeKey(key string) string {
	match := p.job.Update.Match
	parts := splitKey(key, len(match))
	for i, v := range parts {
		if p.op.on == aSiteVariable && i == 0 {
			v = cmp.Or(p.sites.name[v], v)
			parts[i] = fmt.Sprintf("site %q", clip(v, 60))
			continue
		}
		parts[i] = fmt.Sprintf("%s %q", match[i].Field, clip(v, 60))
	}
	return strings.Join(parts, " and ")
}

func (p *plan) describeAmbiguity(key string, found []*object) string {
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
	return fmt.Sprintf("%d %ss have %s: %s", len(found), p.op.thing(), p.describeKey(key), strings.Join(names, ", "))
}

// merge brings the rows of one target together. Rows that fill different fields
// make one request; rows that disagree are all held back. It uses first, which
// has a place for each setting of the job.
func (p *plan) merge(t *target, first []*inputRow) {
	clear(first)
	conflict := ""
	for _, row := range t.rows {
		for _, w := range row.wants {
			by := first[w.setting]
			switch {
			case by == nil:
				first[w.setting] = row
				if !t.has(w) {
					t.changes = append(t.changes, w)
				}
			case by.valueOf(w.setting) != w.value && conflict == "":
				conflict = fmt.Sprintf("lines %d and %d disagree on %s for %s %s",
					by.line, row.line, p.job.Update.Set[w.setting].Field, p.op.thing(), cmp.Or(t.uid, strconv.Quote(clip(t.name, 60))))
			}
		}
	}
	lacks := p.unreadable(t)
	for _, row := range t.rows {
		switch row.class, row.reason = p.goodClass(row), t.why; {
		case conflict != "":
			row.class, row.reason = ClassConflict, conflict
		case lacks != "":
			row.class, row.reason = ClassInvalid, lacks
		}
	}
	if conflict != "" || lacks != "" || !p.due(t) {
		return
	}
	p.writes++
	for _, w := range t.changes {
		if w.clear {
			p.clears++
		}
	}
}

// valueOf is the value that the row wants of a field that it sets.
func (r *inputRow) valueOf(setting uint16) string {
	return r.wants[slices.IndexFunc(r.wants, func(w want) bool { return w.setting == setting })].value
}

// goodClass is the class of a row that is not held back.
func (p *plan) goodClass(r *inputRow) RowClass {
	class := ClassUnchanged
	if !p.op.hasSet() && p.due(r.target) {
		class = ClassChange
	}
	for _, w := range r.wants {
		switch {
		case r.target.has(w):
		case w.clear && p.op.effect == sets:
			return ClassClear
		default:
			class = ClassChange
		}
	}
	return class
}

// due tells whether a request is to be sent for a target.
func (p *plan) due(t *target) bool {
	return !t.settled && (!p.op.hasSet() || len(t.changes) > 0)
}

// unreadable says which field a request would lose because neither the job nor
// the account tells its value; "" when none.
func (p *plan) unreadable(t *target) string {
	if !p.op.whole || !p.due(t) || p.op.on != aSite {
		return ""
	}
	for _, f := range p.body() {
		set := slices.ContainsFunc(t.changes, func(w want) bool { return p.job.Update.Set[w.setting].Field == f.Name })
		switch shown := gjson.GetBytes(t.present, f.Name); {
		case set || shown.Exists():
		case !p.op.proxy:
			return fmt.Sprintf("the account does not tell %s of the site, which the update would blank: set it in the job", f.Name)
		case f.Name == "password" && text(gjson.GetBytes(t.present, "username")) != "":
			return "the proxy has a user name, and its password cannot be read: set it in the job"
		}
	}
	return ""
}

// body is the fields of the operation's body.
func (p *plan) body() []rmm.Field {
	known, _ := rmm.Lookup(p.op.name)
	return known.Body
}

// heldKey is the key of the item that stands for a row held back.
func heldKey(row *inputRow) string { return fmt.Sprintf("row/%09d", row.number) }

// items yields the items of the plan: one for each target in the order of its
// first row, and one for each row held back.
func (p *plan) items() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, row := range p.rows {
			var it Item
			switch {
			case row.class == ClassNotFound && p.job.Update.OnNotFound == "skip":
				it = Item{Key: heldKey(row), Birth: Skipped, Reason: row.reason}
			case row.class.Held():
				it = Item{Key: heldKey(row), Birth: Failed, Class: string(row.class), Reason: row.reason}
			case row != row.target.rows[0]:
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
	key := "apply/" + p.job.Update.Operation.Name + "/"
	if t.site != "" {
		key += t.site + "/"
	}
	if p.op.effect == creates {
		return key + url.PathEscape(p.op.keyText("name", t.name))
	}
	return key + t.uid
}

// write is the one request for a target.
func (p *plan) write(t *target) Item {
	if !p.due(t) {
		return Item{Key: p.itemKey(t), Birth: Unchanged, Reason: t.why}
	}
	req := rmm.Request{Op: p.job.Update.Operation.Name, Path: p.path(t)}
	slices.SortFunc(t.changes, func(a, b want) int { return cmp.Compare(a.setting, b.setting) })
	switch {
	case p.op.effect == starts:
		req.Body = p.jobBody(t)
	case p.op.whole:
		req.Body = p.wholeBody(t)
	case p.op.hasSet() && p.op.effect != moves:
		req.Body = p.writeBody(t.changes)
	}
	return Item{Key: p.itemKey(t), Request: req}
}

// path is the parameters of the path of the request for a target.
func (p *plan) path(t *target) map[string]string {
	path := map[string]string{}
	switch p.op.on {
	case aDevice:
		path["deviceUid"] = t.uid
		if p.op.effect == moves {
			path["siteUid"] = t.changes[0].value
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
	if p.op.effect == creates {
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
func (p *plan) wholeBody(t *target) json.RawMessage {
	b := []byte{'{'}
	for _, f := range p.body() {
		i := slices.IndexFunc(t.changes, func(w want) bool { return p.job.Update.Set[w.setting].Field == f.Name })
		shown := gjson.GetBytes(t.present, f.Name)
		if i < 0 && !shown.Exists() {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if i >= 0 {
			b = p.appendField(b, t.changes[i])
			continue
		}
		b = append(strconv.AppendQuote(b, f.Name), ':')
		b = append(b, shown.Raw...)
	}
	return append(b, '}')
}

// jobBody is the body of a quick job. Its name carries the mark of the run, by
// which a job whose answer was lost can be found in the activity log.
func (p *plan) jobBody(t *target) json.RawMessage {
	var name, component string
	variables := []byte{'['}
	for _, w := range t.changes {
		switch field := p.job.Update.Set[w.setting].Field; field {
		case "jobName":
			name = w.value
		case "componentUid":
			component = w.value
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
	return fmt.Appendf(nil, `{"jobName":%s,"jobComponent":{"componentUid":%s,"variables":%s]}}`, quoted(name), quoted(component), variables)
}

// planRows yields the heading and then every row.
func (p *plan) planRows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if !yield(Row{Class: ClassHeading, Detail: RowDetail{Cells: p.heading}}) {
			return
		}
		for _, row := range p.rows {
			r := Row{
				Number: row.number, Class: row.class, ItemKey: heldKey(row),
				Detail: RowDetail{Line: row.line, Cells: row.cells, Reason: row.reason, Changes: p.changes(row)},
			}
			if t := row.target; t != nil {
				r.Detail.UID, r.Detail.Hostname, r.Detail.Site = t.uid, t.name, t.siteName
				if !row.class.Held() {
					r.ItemKey = p.itemKey(t)
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

// changes are what a row asks for, beside what was before.
func (p *plan) changes(row *inputRow) []Change {
	changes := make([]Change, 0, len(row.wants))
	if t := row.target; !p.op.hasSet() && t != nil && p.due(t) {
		switch p.op.effect {
		case removes:
			thing := p.op.thing()
			if p.op.proxy {
				thing = "proxy"
			}
			changes = append(changes, Change{Field: thing, Delete: true, Unknown: true})
		case resolves:
			changes = append(changes, Change{Field: "resolved", Old: "false", New: "true"})
		}
		return changes
	}
	for _, w := range row.wants {
		c := Change{Field: p.job.Update.Set[w.setting].Field, New: w.value, Clear: w.clear, Unknown: true}
		if t := row.target; t != nil {
			old := t.old[w.setting]
			c.Old, c.Unknown = old.text, !old.known
			switch p.op.effect {
			case creates, starts:
				c.Unknown = t.settled && c.Unknown // where nothing is, there is nothing to be told
			case moves:
				c.Field, c.Old, c.New = "siteName", t.siteName, p.sites.name[w.value]
			}
		}
		changes = append(changes, c)
	}
	return changes
}
