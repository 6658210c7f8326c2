package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

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

// ClearWord empties the field when it is the whole of a cell.
const ClearWord = "(clear)"

// MaxUDFLength is the number of UTF-16 units that a user-defined field holds.
// The service's description is silent; a module for the same API documents 255.
const MaxUDFLength = 255

// Change is one field of a plan.
type Change struct {
	Field   string `json:"field"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Clear   bool   `json:"clear,omitempty"`
	Unknown bool   `json:"unknown,omitempty"` // the account did not tell the old value
}

// equal tells whether the field has the wanted value already.
func (c Change) equal() bool { return !c.Unknown && c.Old == c.New }

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
	uid, id, hostname, siteName, siteUID string
	old                                  map[string]string // values of the fields that the job sets
	known                                bool              // false: the answer carried no such values
}

// inputRow is one record on its way into the plan.
type inputRow struct {
	number, line int
	cells        []string
	key          string // normalised match key; "" when invalid
	class        RowClass
	reason       string
	fields       []Change // wanted values; Old is filled in when the target is known
	target       *target
}

// target is one device with everything that the rows want of it.
type target struct {
	device
	itemKey string
	rows    []*inputRow
	wanted  []Change
}

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

// columns names every column that the job maps.
func (u *UpdateSpec) columns() []string {
	var names []string
	add := func(t Template) {
		for _, c := range t.Columns() {
			if !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	for _, m := range u.Match {
		add(m.Value)
	}
	for _, s := range u.Set {
		add(s.Value)
	}
	return names
}

// OpenInput opens the rows of an update job and checks the whole file. Its error
// is Errors with every fault of the file.
func OpenInput(job *Job) (*Table, error) {
	table, err := OpenTable(job.Update.Rows, job.Update.columns())
	if err != nil {
		return nil, err
	}
	if err := table.Check(); err != nil {
		return nil, err
	}
	return table, nil
}

// makePlan reads the rows, resolves them against the devices and classifies
// each.
func makePlan(ctx context.Context, job *Job, devices iter.Seq2[Element, error]) (*plan, error) {
	table, err := OpenInput(job)
	if err != nil {
		return nil, err
	}
	p := &plan{job: job, heading: table.Headers, counts: map[RowClass]int{}}
	wanted := map[string][]*device{}
	for rec, err := range table.Records() {
		if err != nil {
			return nil, err
		}
		row := readRow(job, table, rec)
		p.rows = append(p.rows, row)
		if row.class == "" {
			wanted[row.key] = nil
		}
		if len(p.rows)%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err := collect(job, devices, wanted); err != nil {
		return nil, err
	}
	p.resolve(wanted)
	for _, t := range p.targets {
		p.merge(t)
	}
	for _, row := range p.rows {
		p.counts[row.class]++
	}
	return p, nil
}

// readRow builds the key and the wanted values of one record.
func readRow(job *Job, table *Table, rec Record) *inputRow {
	row := &inputRow{number: rec.Number, line: rec.Line, cells: rec.Cells}
	cell := func(column string) string {
		if i := table.Index(column); i >= 0 && i < len(rec.Cells) {
			return rec.Cells[i]
		}
		return ""
	}
	invalid := func(format string, args ...any) *inputRow {
		row.class, row.reason = ClassInvalid, fmt.Sprintf(format, args...)
		return row
	}

	parts := make([]string, len(job.Update.Match))
	for i, m := range job.Update.Match {
		value := trimBlank(m.Value.Expand(cell))
		if value == "" {
			return invalid("empty key: %s comes from %s, which is blank", m.Field, m.Value)
		}
		parts[i] = normalise(value)
	}
	row.key = strings.Join(parts, "\x00")

	for _, s := range job.Update.Set {
		c := Change{Field: s.Field, New: s.Value.Expand(cell)}
		switch {
		case c.New == ClearWord:
			c.New, c.Clear = "", true
		case c.New == "" && job.Update.Empty == "clear":
			c.Clear = true
		case c.New == "":
			continue
		case s.Field == "warrantyDate":
			day, err := parseDay(c.New, job.Update.Rows.DateFormat)
			if err != nil {
				return invalid("%s: %v", s.Field, err)
			}
			c.New = day
		default:
			if n := len(utf16.Encode([]rune(c.New))); n > MaxUDFLength {
				return invalid("%s has %d characters, %d fit", s.Field, n, MaxUDFLength)
			}
		}
		row.fields = append(row.fields, c)
	}
	return row
}

// normalise makes keys comparable: host names and uids are compared without
// regard to case, and blanks around them are no part of them.
func normalise(s string) string { return strings.ToLower(trimBlank(s)) }

// parseDay reads a calendar day as yyyy-mm-dd or in the format that the job
// declares. There is no guess and no time zone in it.
func parseDay(s, format string) (string, error) {
	s = trimBlank(s)
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(time.DateOnly), nil
	}
	if format == "" {
		return "", fmt.Errorf("%q is not a day as yyyy-mm-dd; another order needs rows.date_format", clip(s, 30))
	}
	layout, err := DateLayout(format)
	if err != nil {
		return "", err
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return "", fmt.Errorf("%q is not a day as %s or yyyy-mm-dd", clip(s, 30), format)
	}
	return t.Format(time.DateOnly), nil
}

// collect fills wanted with the devices that have a wanted key.
func collect(job *Job, devices iter.Seq2[Element, error], wanted map[string][]*device) error {
	for el, err := range devices {
		if err != nil {
			return err
		}
		fields := gjson.GetManyBytes(el.JSON, "uid", "id", "hostname", "siteName", "siteUid")
		dev := device{
			uid: text(fields[0]), id: text(fields[1]), hostname: text(fields[2]),
			siteName: text(fields[3]), siteUID: text(fields[4]),
		}
		key, ok := dev.key(job.Update.Match)
		if !ok || dev.uid == "" {
			continue
		}
		found, ok := wanted[key]
		if !ok {
			continue
		}
		dev.read(job.Update.Set, el.JSON)
		wanted[key] = append(found, &dev)
	}
	return nil
}

// key is the match key of a device; false when a part of it is blank, so that a
// device without a name is never met by anything.
func (d *device) key(match []Match) (string, bool) {
	parts := make([]string, len(match))
	for i, m := range match {
		var v string
		switch m.Field {
		case "uid":
			v = d.uid
		case "id":
			v = d.id
		case "hostname":
			v = d.hostname
		case "siteName":
			v = d.siteName
		case "siteUid":
			v = d.siteUID
		}
		if parts[i] = normalise(v); parts[i] == "" {
			return "", false
		}
	}
	return strings.Join(parts, "\x00"), true
}

// read takes the present values of the fields that the job sets.
func (d *device) read(set []Setting, element json.RawMessage) {
	d.old, d.known = make(map[string]string, len(set)), true
	udf := gjson.GetBytes(element, "udf")
	for _, s := range set {
		if s.Field == "warrantyDate" {
			warranty := gjson.GetBytes(element, s.Field)
			day := text(warranty)
			if len(day) > len(time.DateOnly) {
				day = day[:len(time.DateOnly)] // a date with a time of day
			}
			d.old[s.Field], d.known = day, d.known && warranty.Exists()
			continue
		}
		d.old[s.Field], d.known = text(udf.Get(s.Field)), d.known && udf.IsObject()
	}
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
				t = &target{device: *found[0], itemKey: "apply/" + p.job.Update.Operation.Name + "/" + found[0].uid}
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
	values := strings.Split(key, "\x00")
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%s %q", p.job.Update.Match[i].Field, clip(v, 60))
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
// make one request; rows that disagree are all held back.
func (p *plan) merge(t *target) {
	first := map[string]*inputRow{}
	value := map[string]Change{}
	for _, row := range t.rows {
		for i := range row.fields {
			c := &row.fields[i]
			c.Old, c.Unknown = t.old[c.Field], !t.known
			if by, ok := first[c.Field]; ok && value[c.Field].New != c.New {
				reason := fmt.Sprintf("lines %d and %d disagree on %s for device %s", by.line, row.line, c.Field, t.uid)
				for _, r := range t.rows {
					r.class, r.reason = ClassConflict, reason
				}
				return
			} else if !ok {
				first[c.Field], value[c.Field] = row, *c
				t.wanted = append(t.wanted, *c)
			}
		}
	}
	t.wanted = slices.DeleteFunc(t.wanted, Change.equal)
	for _, row := range t.rows {
		row.class = ClassUnchanged
		for _, c := range row.fields {
			switch {
			case c.equal():
			case c.Clear:
				row.class = ClassClear
			case row.class == ClassUnchanged:
				row.class = ClassChange
			}
		}
	}
	if len(t.wanted) > 0 {
		p.writes++
	}
	for _, c := range t.wanted {
		if c.Clear {
			p.clears++
		}
	}
}

// guard refuses a plan that goes further than the job allows. Nothing has been
// written when it speaks.
func (p *plan) guard(job *Job) error {
	held := 0
	for class, n := range p.counts {
		if class.Held() && (class != ClassNotFound || job.Update.OnNotFound != "skip") {
			held += n
		}
	}
	refuse := func(name, format string, args ...any) error {
		return &GuardError{Guard: name, Message: fmt.Sprintf(format, args...) + p.firstReasons()}
	}
	total := len(p.rows)
	g := job.Guard
	switch {
	case job.Update.OnRowFault == "stop" && held > 0:
		return refuse("on_row_fault", "%d of %d rows cannot be applied and on_row_fault is stop; nothing was written", held, total)
	case g.MaxNotFound.Set && !g.MaxNotFound.Allows(p.counts[ClassNotFound], total):
		return refuse("max_not_found", "%d of %d rows have no device, max_not_found is %s; nothing was written", p.counts[ClassNotFound], total, g.MaxNotFound)
	case !orDefault(g.MaxRejected, 10, 5, total).Allows(held, total):
		return refuse("max_rejected", "%d of %d rows cannot be applied, max_rejected is %s; nothing was written", held, total, orDefault(g.MaxRejected, 10, 5, total))
	case g.MaxChanges.Set && !g.MaxChanges.Allows(p.writes, total):
		return refuse("max_changes", "the plan changes %d devices, max_changes is %s; nothing was written", p.writes, g.MaxChanges)
	case !orDefault(g.MaxClears, 10, 0, total).Allows(p.clears, total):
		return refuse("max_clears", "the plan clears %d fields, max_clears is %s; nothing was written", p.clears, orDefault(g.MaxClears, 10, 0, total))
	}
	return nil
}

// orDefault returns the limit, or where none is set the larger of a number and a
// share of the total.
func orDefault(l Limit, number, percent float64, total int) Limit {
	if l.Set {
		return l
	}
	return Limit{Set: true, Value: max(number, math.Floor(percent*float64(total)/100))}
}

// MaxErrors is the number of failed items that stops a run of total items: the
// job's own, else the larger of 25 and 5 %.
func (j *Job) MaxErrors(total int) int {
	l := orDefault(j.Guard.MaxErrors, 25, 5, total)
	if l.Percent {
		return int(l.Value * float64(total) / 100)
	}
	return int(l.Value)
}

// firstReasons names the first rows that are held back.
func (p *plan) firstReasons() string {
	var b strings.Builder
	n := 0
	for _, row := range p.rows {
		if !row.class.Held() {
			continue
		}
		if n++; n > 5 {
			break
		}
		fmt.Fprintf(&b, "\n  line %d: %s: %s", row.line, row.class, row.reason)
	}
	return b.String()
}

// heldKey is the key of the item that stands for a row held back.
func heldKey(row *inputRow) string { return "row/" + fmt.Sprintf("%09d", row.number) }

// items yields the items of the plan: one for each target in the order of its
// first row, and one for each row held back.
func (p *plan) items() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		done := make(map[*target]bool, len(p.targets))
		for _, row := range p.rows {
			var it Item
			switch {
			case row.class == ClassNotFound && p.job.Update.OnNotFound == "skip":
				it = Item{Key: heldKey(row), Birth: Skipped, Reason: row.reason}
			case row.class.Held():
				it = Item{Key: heldKey(row), Birth: Failed, Class: string(row.class), Reason: row.reason}
			case done[row.target]:
				continue
			default:
				done[row.target] = true
				it = p.write(row.target)
			}
			if !yield(it) {
				return
			}
		}
	}
}

// write is the one request for a target.
func (p *plan) write(t *target) Item {
	if len(t.wanted) == 0 {
		return Item{Key: t.itemKey, Birth: Unchanged}
	}
	return Item{
		Key: t.itemKey,
		Request: rmm.Request{
			Op:   p.job.Update.Operation.Name,
			Path: map[string]string{"deviceUid": t.uid},
			Body: writeBody(t.wanted),
		},
	}
}

// writeBody is the body of a write: UDFs are cleared by an empty text, a
// warranty date only by null.
func writeBody(changes []Change) json.RawMessage {
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(fieldNumber(a.Field), fieldNumber(b.Field)), cmp.Compare(a.Field, b.Field))
	})
	var b strings.Builder
	b.WriteByte('{')
	for i, c := range changes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(c.Field) + ":")
		if c.Clear && c.Field == "warrantyDate" {
			b.WriteString("null")
			continue
		}
		text, _ := json.Marshal(c.New) // a string cannot fail
		b.Write(text)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func fieldNumber(field string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(field, "udf"))
	return n
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
				Detail: RowDetail{Line: row.line, Cells: row.cells, Changes: row.fields, Reason: row.reason},
			}
			if t := row.target; t != nil {
				r.Detail.UID, r.Detail.Hostname, r.Detail.Site = t.uid, t.hostname, t.siteName
				if !row.class.Held() {
					r.ItemKey = t.itemKey
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}
