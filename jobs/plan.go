package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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

// device is what the plan needs of one device.
type device struct {
	uid, hostname, siteName string
	old                     []oldValue // by setting of the job
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

// target is one device with everything that the rows want of it.
type target struct {
	*device
	rows    []*inputRow
	changes []want // what differs from the present values
}

// has tells whether the device has the wanted value already.
func (d *device) has(w want) bool { return d.old[w.setting].known && d.old[w.setting].text == w.value }

// plan is the whole plan of an update before it is stored.
type plan struct {
	job     *Job
	heading []string
	rows    []*inputRow
	targets []*target // in the order of their first row
	counts  map[RowClass]int
	writes  int // targets that must be written
	clears  int // fields that are emptied
}

// makePlan reads the rows, resolves them against the devices and classifies
// each. A hash that is not empty is that of the input which is expected.
func makePlan(ctx context.Context, job *Job, hash string, devices iter.Seq2[Element, error]) (*plan, error) {
	table, err := OpenInput(job)
	if err != nil {
		return nil, err
	}
	if hash != "" && hash != table.Hash {
		return nil, table.refuse("run the job again for the new contents", "the file changed since the run was begun")
	}
	p := &plan{job: job, heading: table.Headers, counts: map[RowClass]int{}}
	reader := newRowReader(job.Update, table)
	wanted := map[string][]*device{}
	for rec, err := range table.Records() {
		if err != nil {
			return nil, err
		}
		row, _ := reader.read(rec)
		p.rows = append(p.rows, row)
		if row.class == "" {
			wanted[row.key] = nil
		}
		if len(p.rows)%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err := collect(job.Update, devices, wanted); err != nil {
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

// collect fills wanted with the devices that have a wanted key. No wanted key has
// a blank part, so a device without a name is never met by anything.
func collect(spec *UpdateSpec, devices iter.Seq2[Element, error], wanted map[string][]*device) error {
	parts := make([]string, len(spec.Match))
	for el, err := range devices {
		if err != nil {
			return err
		}
		for i, m := range spec.Match {
			parts[i] = normalise(keyOf(m.Field, el.JSON))
		}
		key := joinKey(parts)
		found, ok := wanted[key]
		if !ok {
			continue
		}
		if uid := keyOf("uid", el.JSON); uid != "" {
			wanted[key] = append(found, &device{
				uid: uid, hostname: keyOf("hostname", el.JSON), siteName: keyOf("siteName", el.JSON),
				old: oldValues(spec.Set, el.JSON),
			})
		}
	}
	return nil
}

// oldValues are the present values of the fields that the job sets. They are
// copied: a text that is cut out of an answer would hold all of it in memory.
func oldValues(set []Setting, element json.RawMessage) []oldValue {
	old := make([]oldValue, len(set))
	udf := gjson.GetBytes(element, "udf")
	for i, s := range set {
		v := udf.Get(s.Field)
		if s.Field == warrantyDate {
			v = gjson.GetBytes(element, s.Field)
		}
		old[i] = oldValue{text: strings.Clone(text(v)), known: v.Exists()}
		if s.Field == warrantyDate && old[i].text != "" {
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

// resolve finds the target of every row that has a key.
func (p *plan) resolve(wanted map[string][]*device) {
	byUID := map[string]*target{}
	for _, row := range p.rows {
		if row.class != "" {
			continue
		}
		switch found := wanted[row.key]; len(found) {
		case 0:
			row.class, row.reason = ClassNotFound, "no device has "+p.describeKey(row.key)
		case 1:
			t := byUID[found[0].uid]
			if t == nil {
				t = &target{device: found[0]}
				byUID[t.uid] = t
				p.targets = append(p.targets, t)
			}
			row.target = t
			t.rows = append(t.rows, row)
		default:
			row.class, row.reason = ClassAmbiguous, describeAmbiguity(p.describeKey(row.key), found)
		}
	}
}

func (p *plan) describeKey(key string) string {
	match := p.job.Update.Match
	parts := splitKey(key, len(match))
	for i, v := range parts {
		parts[i] = fmt.Sprintf("%s %q", match[i].Field, clip(v, 60))
	}
	return strings.Join(parts, " and ")
}

func describeAmbiguity(key string, found []*device) string {
	const show = 5
	names := make([]string, 0, show)
	for _, d := range found[:min(len(found), show)] {
		names = append(names, fmt.Sprintf("%s (%s)", d.uid, d.siteName))
	}
	if len(found) > show {
		names = append(names, fmt.Sprintf("and %d more", len(found)-show))
	}
	return fmt.Sprintf("%d devices have %s: %s", len(found), key, strings.Join(names, ", "))
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
				conflict = fmt.Sprintf("lines %d and %d disagree on %s for device %s",
					by.line, row.line, p.job.Update.Set[w.setting].Field, t.uid)
			}
		}
	}
	for _, row := range t.rows {
		row.class = row.goodClass()
		if conflict != "" {
			row.class, row.reason = ClassConflict, conflict
		}
	}
	if conflict != "" || len(t.changes) == 0 {
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
func (r *inputRow) goodClass() RowClass {
	class := ClassUnchanged
	for _, w := range r.wants {
		switch {
		case r.target.has(w):
		case w.clear:
			return ClassClear
		default:
			class = ClassChange
		}
	}
	return class
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
func (p *plan) itemKey(t *target) string { return "apply/" + p.job.Update.Operation.Name + "/" + t.uid }

// write is the one request for a target.
func (p *plan) write(t *target) Item {
	if len(t.changes) == 0 {
		return Item{Key: p.itemKey(t), Birth: Unchanged}
	}
	return Item{
		Key: p.itemKey(t),
		Request: rmm.Request{
			Op:   p.job.Update.Operation.Name,
			Path: map[string]string{"deviceUid": t.uid},
			Body: writeBody(p.job.Update.Set, t.changes),
		},
	}
}

// writeBody is the body of a write, its fields in the order of the job: UDFs are
// cleared by an empty text, a warranty date only by null.
func writeBody(set []Setting, changes []want) json.RawMessage {
	changes = slices.SortedFunc(slices.Values(changes), func(a, b want) int { return cmp.Compare(a.setting, b.setting) })
	b := []byte{'{'}
	for i, w := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		field := set[w.setting].Field
		b = strconv.AppendQuote(b, field)
		b = append(b, ':')
		if w.clear && field == warrantyDate {
			b = append(b, "null"...)
			continue
		}
		text, _ := json.Marshal(w.value) // a string cannot fail
		b = append(b, text...)
	}
	return append(b, '}')
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
				r.Detail.UID, r.Detail.Hostname, r.Detail.Site = t.uid, t.hostname, t.siteName
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
	for _, w := range row.wants {
		c := Change{Field: p.job.Update.Set[w.setting].Field, New: w.value, Clear: w.clear, Unknown: true}
		if row.target != nil {
			old := row.target.old[w.setting]
			c.Old, c.Unknown = old.text, !old.known
		}
		changes = append(changes, c)
	}
	return changes
}
