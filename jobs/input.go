package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// ClearWord empties the field when it is the whole of a cell.
const ClearWord = "(clear)"

// MaxUDFLength is the number of UTF-16 units that a user-defined field holds.
// The service's description is silent; a module for the same API documents 255.
const MaxUDFLength = 255

// warrantyDate is the one field of an update that is a day. It is cleared by
// null, where all others are cleared by an empty text.
const warrantyDate = "warrantyDate"

// OpenInput opens the rows of an update job and checks the whole file. Its error
// is Errors with every fault of the file, and then also with the faults of single
// rows, so that all can be mended at once. A file whose only faults are those of
// rows is good: the plan holds these rows back. The rows of a selection are not
// known before the account is read; its table has headings only.
func OpenInput(job *Job) (*Table, error) {
	if job.Update.Rows.From != nil {
		return openSelection(job.Update, &selectionSource{})
	}
	if job.Update.Rows.once {
		return &Table{Line: 1, Rows: 1, Encoding: "none", rows: job.Update.Rows, source: once{}}, nil
	}
	table, err := OpenTable(job.Update.Rows, job.Update.columns())
	if err != nil {
		return nil, job.Update.Rows.blame(err)
	}
	err = table.Check()
	var faults Errors
	if errors.As(err, &faults) {
		err = append(faults, rowFaults(job.Update, table)...).err()
	}
	if err != nil {
		return nil, err
	}
	return table, nil
}

// openSelection opens the rows that are selected from a list of the account.
func openSelection(spec *UpdateSpec, s *selectionSource) (*Table, error) {
	t := &Table{rows: spec.Rows, source: s}
	if err := t.source.open(t, spec.columns()); err != nil {
		return nil, err
	}
	return t, nil
}

// blame places the faults of a file as a whole where the job names the file.
func (r Rows) blame(err error) error {
	var faults Errors
	if !errors.As(err, &faults) {
		return err
	}
	for i, f := range faults {
		at, known := r.keys[r.kind()]
		if known && f.Pos == (Pos{File: r.File()}) {
			moved := *f
			moved.Pos, moved.Message = at, r.File()+": "+f.Message
			faults[i] = &moved
		}
	}
	return faults
}

// kind is the key that names the input.
func (r Rows) kind() string {
	switch {
	case r.XLSX != "":
		return "xlsx"
	case r.JSONL != "":
		return "jsonl"
	case r.From != nil:
		return "from"
	}
	return "csv"
}

// used is a column in messages, with the place where the job names it.
func (r Rows) used(column string) string {
	if at, known := r.uses[column]; known {
		return fmt.Sprintf("%s (%s)", column, at)
	}
	return column
}

// once is the input of a call that has none: one row without columns.
type once struct{}

func (once) open(*Table, []string) error { return nil }

func (once) scan(_ *Table, do func(sourceRow) bool) error {
	do(sourceRow{Record: Record{Line: 1, Cells: []string{}}})
	return nil
}

// placed is a template of a job and where it stands.
type placed struct {
	value Template
	pos   Pos
}

// templates are all templates of the job.
func (u *UpdateSpec) templates() []placed {
	list := make([]placed, 0, len(u.Match)+len(u.Set))
	for _, m := range u.Match {
		list = append(list, placed{m.Value, m.Pos})
	}
	for _, s := range u.Set {
		list = append(list, placed{s.Value, s.Pos})
	}
	if u.Call != nil {
		list = append(list, u.Call.templates()...)
	}
	return list
}

// columns names every column that the job maps.
func (u *UpdateSpec) columns() []string {
	var names []string
	for _, t := range u.templates() {
		for _, c := range t.value.Columns() {
			if !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	return names
}

// uses tells where the job names each column first.
func (u *UpdateSpec) uses() map[string]Pos {
	uses := map[string]Pos{}
	for _, t := range u.templates() {
		for _, c := range t.value.Columns() {
			if _, known := uses[c]; !known {
				uses[c] = t.pos
			}
		}
	}
	return uses
}

// uidForm is the form of the uids of devices as far as anybody has seen. It is
// not documented, so another form is a fault only beside others: alone it makes a
// row that finds no device.
var uidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// rowFaults lists what is wrong with single rows, as far as it can be told without
// the account. Rows that the file's own faults have damaged are left out.
func rowFaults(spec *UpdateSpec, table *Table) Errors {
	reader := newRowReader(spec, table)
	var faults Errors
	// An error of this pass is one of the pass before, which reported it.
	_ = table.each(func(rec Record, damaged Errors, _ []Pos) bool {
		if len(damaged) > 0 {
			return true
		}
		faults = append(faults, reader.faults(rec)...)
		if len(faults) >= maxListed {
			last := faults[maxListed-1]
			faults = append(faults[:maxListed], &Error{Pos: last.Pos, Message: "the rows after this one may have faults, too"})
			return false
		}
		return true
	})
	return faults
}

// faults lists what is wrong with a row, as far as it can be told without the
// account.
func (r *rowReader) faults(rec Record) Errors {
	_, found := r.read(rec)
	for _, m := range r.spec.Match {
		if uid := trimBlank(m.Value.Expand(r.cells(rec))); m.Field == "uid" && r.op.on == aDevice && uid != "" && !uidForm.MatchString(uid) {
			found = append(found, rowFault{r.first(m.Value), fmt.Sprintf("%q is not the uid of a device", clip(uid, 40))})
		}
	}
	var faults Errors
	for _, f := range found {
		faults = append(faults, &Error{Pos: rec.Pos(f.column), Message: f.message})
	}
	return faults
}

// rowReader turns the records of an input into rows of a plan.
type rowReader struct {
	spec   *UpdateSpec
	op     operation
	index  map[string]int // of each column that a template names
	wants  []want         // of the row at hand
	packed []byte         // its wants
	kept   texts          // of the rows that were read
}

func newRowReader(spec *UpdateSpec, table *Table) *rowReader {
	r := &rowReader{spec: spec, op: operationOf(spec.Operation.Name), index: map[string]int{}}
	for _, name := range spec.columns() {
		r.index[name] = table.Index(name)
	}
	return r
}

// rowFault is what is wrong with a row by itself.
type rowFault struct {
	column  int // index of the cell; -1 for the row as a whole
	message string
}

// cells gives the cells of a record to a template.
func (r *rowReader) cells(rec Record) func(column string) string {
	return func(column string) string { return rec.Cells[r.index[column]] }
}

// first is the index of the first column that a template names.
func (r *rowReader) first(t Template) int {
	if names := t.Columns(); len(names) > 0 {
		return r.index[names[0]]
	}
	return -1
}

// read builds the key and the wanted values of one record, and finds its faults.
// A row with a fault is of the class invalid.
func (r *rowReader) read(rec Record) (inputRow, []rowFault) {
	row := inputRow{number: int32(rec.Number), line: int32(rec.Line)} //nolint:gosec // a file of so many lines has far more bytes than are read
	cell := r.cells(rec)
	var faults []rowFault
	fault := func(t Template, format string, args ...any) {
		faults = append(faults, rowFault{r.first(t), fmt.Sprintf(format, args...)})
	}
	faultAt := func(column, format string, args ...any) {
		faults = append(faults, rowFault{r.index[column], fmt.Sprintf(format, args...)})
	}

	parts := make([]string, len(r.spec.Match), len(r.spec.Match)+1)
	for i, m := range r.spec.Match {
		if parts[i] = r.op.keyText(m.Field, m.Value.Expand(cell)); parts[i] == "" {
			fault(m.Value, "empty key: %s comes from %s, which is blank", m.Field, m.Value)
		} else if column := m.Value.emptying(cell); column != "" {
			faultAt(column, "%s comes from %s, and {%s} is %q: a key cannot be emptied", m.Field, m.Value, column, clip(cell(column), 20))
		} else if blank := m.Value.holes(cell); len(blank) > 0 {
			faultAt(blank[0], "incomplete key: %s comes from %s, and %s is blank", m.Field, m.Value, braced(blank))
		} else if why := macFault(parts[i]); m.Field == byMAC && why != "" {
			fault(m.Value, "%s", why)
		}
	}

	r.wants = r.wants[:0]
	for i, s := range r.spec.Set {
		value, column, hole := r.spec.fill(s.Value, cell)
		if hole != "" {
			faultAt(column, "%s: %s", s.Field, hole)
			continue
		}
		w, asked, why := r.spec.want(r.op, s, value)
		switch {
		case why != "":
			fault(s.Value, "%s", why)
			continue
		case !asked:
			continue
		}
		w.setting = uint16(i) //nolint:gosec // a job has a few hundred settings at most
		if r.op.effect == creates && s.Field == "name" {
			parts = append(parts, r.op.keyText("name", w.value))
		}
		r.wants = append(r.wants, w)
	}
	row.key = joinKey(parts)
	if len(faults) > 0 {
		messages := make([]string, len(faults))
		for i, f := range faults {
			messages[i] = f.message
		}
		row.judge(ClassInvalid, strings.Join(messages, "; "))
		row.key = ""
		return row, faults
	}
	r.packed = packWants(r.packed[:0], r.wants)
	row.wants = packedWants(r.kept.keep(r.packed))
	return row, nil
}

// want is what a setting asks for where its template comes to value, or why it cannot
// be asked for. Nothing is asked for by an empty value that leaves the field alone.
func (u *UpdateSpec) want(op operation, s Setting, value string) (w want, asked bool, fault string) {
	if trimBlank(value) == "" {
		value = ""
	}
	switch {
	case nearlyClears(value):
		return w, false, fmt.Sprintf("%s is %q: to empty the field write %s, for something else remove the brackets", s.Field, clip(value, 20), ClearWord)
	case value == ClearWord || value == "" && u.Empty == "clear":
		if !op.clearable(s.Field) {
			return w, false, s.Field + " cannot be cleared"
		}
		return want{clear: true}, true, ""
	case value == "":
		if op.effect != sets && op.mustHave(s.Field) || op.effect == moves {
			return w, false, fmt.Sprintf("%s comes from %s, which is blank", s.Field, s.Value)
		}
		return w, false, ""
	}
	value, err := op.checkValue(s.Field, value, u.Rows.DateFormat)
	switch {
	case err == nil:
		return want{value: value}, true, ""
	case s.Field == warrantyDate || op.name != updatable[0].name:
		return w, false, fmt.Sprintf("%s: %v", s.Field, err)
	}
	return w, false, fmt.Sprintf("%s has %v", s.Field, err)
}

// nearlyClears tells whether a value is the word that clears but for case, blanks or
// the kind of brackets. It is hardly meant for the field.
func nearlyClears(value string) bool {
	if value == ClearWord {
		return false
	}
	const brackets = "()[]{}<>（）"
	text := strings.ToLower(trimBlank(value))
	inner := strings.TrimFunc(text, func(r rune) bool { return isBlank(r) || strings.ContainsRune(brackets, r) })
	return (inner == "clear" || inner == "cleared") && strings.ContainsAny(text, brackets)
}

// utf16Len is the number of UTF-16 units of a text.
func utf16Len(s string) int {
	n := 0
	for _, c := range s {
		n += utf16.RuneLen(c)
	}
	return n
}

// normalise makes keys comparable: host names and uids are compared without
// regard to case, and blanks around them are no part of them.
func normalise(s string) string { return strings.ToLower(trimBlank(s)) }

// keyText makes a key comparable. The names of variables are told apart by case, as
// the scripts that read them do.
func (op operation) keyText(field, s string) string {
	if field == "name" && op.on != aSite {
		return trimBlank(s)
	}
	if field == byMAC {
		return macKey(s)
	}
	return normalise(s)
}

// joinKey makes one key of its parts, and splitKey n parts of a key.
func joinKey(parts []string) string { return strings.Join(parts, "\x00") }

func splitKey(key string, n int) []string { return strings.SplitN(key, "\x00", n) }

// midnight is the time of day that databases and spreadsheets put behind a day that
// has none.
var midnight = regexp.MustCompile(`(?i)(T00:00(:00(\.0+)?)?Z?| +(0?0:00(:00(\.0+)?)?|12:00(:00)? ?AM))$`)

// The years in which a warranty may end: what is outside of them is a mistake of an
// export, such as the first or the last day that a database knows.
const firstWarranty, lastWarranty = 1990, 2100

// warrantyDay reads the last day of a warranty.
func warrantyDay(s, format string) (string, error) {
	day, err := parseDay(s, format)
	if err != nil {
		return "", err
	}
	if year, err := strconv.Atoi(day[:4]); err != nil || year < firstWarranty || year > lastWarranty {
		return "", fmt.Errorf("%s is no day on which a warranty ends: the years %d to %d are taken", day, firstWarranty, lastWarranty)
	}
	return day, nil
}

// parseDay reads a calendar day as yyyy-mm-dd or in the format that the job
// declares. There is no guess and no time zone in it.
func parseDay(s, format string) (string, error) {
	s = midnight.ReplaceAllString(trimBlank(s), "")
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
