package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rmmjob/internal/spell"
)

const (
	maxListed = 1000 // faults of one file that are listed one by one
	headBytes = 4096 // what is looked at to tell the kind of a file
)

// Table is an input whose header has been found. It holds no rows and no open file: each pass opens the file anew, and
// ends with an error if the file is another than the one that was opened first. A Table is for one goroutine.
type Table struct {
	Headers   []string // as in the file, trimmed of blanks; empty for columns without a name
	Encoding  string   // how the file is encoded, or what it is, for the report
	Delimiter string   // of CSV: comma, semicolon, tab, pipe or the sign itself; of a workbook its sheet; for the report
	Ignored   []string // columns that the job does not use; those whose name begins with _ are not mentioned
	Hash      string   // SHA-256 of the file's bytes in hex; empty for a selection of the account
	Line      int      // where the header is; 0 if the file is empty
	Rows      int      // data rows; known after Check or a full pass over Records
	Blank     int      // rows of nothing but blanks, which are skipped; known like Rows
	Hidden    int      // rows that a workbook hides from its reader and that are used all the same; known like Rows

	rows   Rows
	source source
	mapped []bool         // by column: the job uses it
	index  map[string]int // of the columns wanted, by the key of the name that the job has for them
}

// source reads the rows of one kind of input, each time anew.
type source interface {
	// open looks at the file and finds the header, with the columns in want.
	open(t *Table, want []string) error
	// scan calls do with every row behind the header until do returns false.
	scan(t *Table, do func(sourceRow) bool) error
}

// sourceRow is a row as a source has read it.
type sourceRow struct {
	Record
	faults  Errors
	science []Pos // places of values in scientific notation
	blank   bool  // nothing but blanks
	hidden  bool  // by the workbook
}

// Record is a row of an input file. Its cells are the text of the file, never trimmed and never changed; there are as many
// as the file has headers.
type Record struct {
	Number int // counts the data rows from 1, without blank ones
	Line   int // physical line where the row starts
	Cells  []string
	Extra  []string // cells beyond the header; nil unless they hold something

	file  string
	cells []rawCell
}

// Pos is the place where a cell begins, its quote included. For a cell that the row does not have it is the start of the
// row.
func (r Record) Pos(i int) Pos {
	if i < 0 || i >= len(r.cells) {
		return Pos{File: r.file, Line: r.Line, Column: 1}
	}
	return Pos{File: r.file, Line: r.cells[i].line, Column: r.cells[i].col}
}

// OpenTable finds out what the input is and where its header and the columns in want are. Header and want agree if they
// differ only in case, blanks and underscores, or by an alias of the rows. The error is [Errors]; a column that is missing
// or there twice, a file of another kind and a file that is not there are among its reasons.
func OpenTable(rows Rows, want []string) (*Table, error) {
	t := &Table{rows: rows}
	if err := t.identify(); err != nil {
		return nil, err
	}
	if err := t.choose(); err != nil {
		return nil, err
	}
	if err := t.source.open(t, want); err != nil {
		return nil, t.withRows(err, want)
	}
	return t, nil
}

// withRows adds the faults of the rows to those of a heading in which every wanted column was found, if too often, so that
// all can be mended at once.
func (t *Table) withRows(err error, want []string) error {
	var faults, rows Errors
	for _, name := range want {
		if _, found := t.index[columnKey(name)]; !found {
			return err
		}
	}
	if len(want) > 0 && errors.As(err, &faults) && errors.As(t.Check(), &rows) {
		return append(faults, rows...).err()
	}
	return err
}

// choose chooses what reads the file. One that rmmjob has written is CSV, whatever the
// file was whose rows it holds.
func (t *Table) choose() error {
	t.source = &csvSource{}
	if t.rows.CSV != "" {
		return nil
	}
	head, err := t.head()
	if err != nil {
		return err
	}
	_, own := ownResult(head)
	switch {
	case own:
		t.rows.CSV, t.rows.XLSX, t.rows.JSONL = t.rows.File(), "", ""
	case t.rows.XLSX != "":
		t.source = &workbook{}
	case t.rows.JSONL != "":
		t.source = &jsonLines{}
	}
	return nil
}

// identify hashes the file.
func (t *Table) identify() error {
	f, err := openFile(t.rows.File(), "input file")
	if err != nil {
		return err
	}
	defer closeRead(f)
	sum := sha256.New()
	if _, err = io.Copy(sum, f); err != nil {
		return unreadable(t.rows.File(), "input file", err)
	}
	t.Hash = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// head returns the first bytes of the file.
func (t *Table) head() ([]byte, error) {
	f, err := openFile(t.rows.File(), "input file")
	if err != nil {
		return nil, err
	}
	defer closeRead(f)
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // a short file
		return nil, unreadable(t.rows.File(), "input file", err)
	}
	return head[:n], nil
}

// unchanged ends a full pass: what was read must be what was opened.
func (t *Table) unchanged(read hash.Hash) error {
	if hex.EncodeToString(read.Sum(nil)) != t.Hash {
		return t.refuse("start again when nothing writes to it", "the file changed while it was read")
	}
	return nil
}

// refuse reports a fault of the file as a whole.
func (t *Table) refuse(hint, format string, args ...any) error {
	return Errors{{Pos: Pos{File: t.rows.File()}, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

// refuseKey reports a value of the job that does not fit the file.
func (t *Table) refuseKey(key, hint, format string, args ...any) error {
	at, known := t.rows.keys[key]
	if !known {
		return t.refuse(hint, format, args...)
	}
	return Errors{{Pos: at, Message: t.rows.File() + ": " + fmt.Sprintf(format, args...), Hint: hint}}
}

func (t *Table) noRows(message string) error {
	return Errors{{Pos: Pos{File: t.place(), Line: max(t.Line, 1), Column: 1}, Message: message, Hint: "if that is no fault set allow_empty: true"}}
}

// place is the file in messages, with the sheet of a workbook.
func (t *Table) place() string {
	if t.rows.XLSX != "" && t.Delimiter != "" {
		return t.rows.XLSX + "!" + t.Delimiter
	}
	return t.rows.File()
}

// columnKey is what is compared of a column name: without blanks, underscores and case. An underscore in front stays,
// because it marks the columns that results add.
func columnKey(name string) string {
	name = trimBlank(name)
	front := ""
	if strings.HasPrefix(name, "_") {
		front = "_"
	}
	return front + strings.Map(func(r rune) rune {
		if r == '_' || isBlank(r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// heading is a line taken as the header.
type heading struct {
	delimiter byte // of CSV
	line      int
	names     []string
	cells     []rawCell
	faults    Errors
	found     int    // of the columns wanted
	where     string // for people; empty: the line
}

// count sets found.
func (h *heading) count(t *Table, want []string) {
	for _, name := range want {
		if slices.ContainsFunc(h.names, t.names(name)) {
			h.found++
		}
	}
}

// names returns what tells whether a heading stands for a column that the job names: by this name or an alias of it.
func (t *Table) names(column string) func(heading string) bool {
	keys := []string{columnKey(column)}
	for _, other := range t.rows.Aliases[column] {
		keys = append(keys, columnKey(other))
	}
	return func(heading string) bool { return slices.Contains(keys, columnKey(heading)) }
}

// take makes a heading that is good enough the header of the table, and reports what is wrong with it. Lower looks for a
// better one further down.
func (t *Table) take(h heading, want []string, lower func() int) error {
	t.Line, t.Headers = h.line, h.names
	if h.line == 0 {
		if t.rows.AllowEmpty {
			return nil
		}
		return t.noRows("no data rows: there is no header")
	}
	faults := h.faults
	if missing := t.missing(want, h, lower); missing != nil {
		faults = append(faults, missing)
	}
	return append(faults, t.mapColumns(want, h)...).err()
}

// missing reports the wanted columns that the header lacks, or nil.
func (t *Table) missing(want []string, h heading, lower func() int) *Error {
	var lost []string
	hint := ""
	for _, name := range want {
		if slices.ContainsFunc(h.names, t.names(name)) {
			continue
		}
		lost = append(lost, t.rows.used(name))
		if near := spell.Nearest(name, h.names); near != "" && hint == "" {
			hint = fmt.Sprintf("is it the column %q?", near)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if line := lower(); line > 0 {
		hint = fmt.Sprintf("the header seems to be in line %d: set skip_lines: %d", line, line-1)
	} else if h.found == 0 && hint == "" && h.where == "" {
		hint = "if the header is further down set skip_lines"
	}
	shown := make([]string, 0, len(h.names))
	for _, name := range h.names[:min(len(h.names), 30)] {
		shown = append(shown, strconv.Quote(clip(name, 40)))
	}
	if len(h.names) > len(shown) {
		shown = append(shown, "…")
	}
	column := "column"
	if len(lost) > 1 {
		column = "columns"
	}
	return &Error{
		Pos: Pos{t.place(), h.line, 1},
		Message: fmt.Sprintf("expected %s %s not found in %s, which has %s", column, strings.Join(lost, ", "),
			cmp.Or(h.where, fmt.Sprintf("line %d", h.line)), cmp.Or(strings.Join(shown, ", "), "none")),
		Hint: hint,
	}
}

// mapColumns marks the columns that the job uses, and lists the others. A column that is used must be there once.
func (t *Table) mapColumns(want []string, h heading) Errors {
	t.mapped, t.index = make([]bool, len(t.Headers)), make(map[string]int)
	var faults Errors
	for _, name := range want {
		stands, first := t.names(name), -1
		for i, heading := range t.Headers {
			if !stands(heading) {
				continue
			}
			t.mapped[i] = true
			if first < 0 {
				first = i
				continue
			}
			message := fmt.Sprintf("duplicate column %s (columns %d and %d)", t.Headers[first], first+1, i+1)
			switch {
			case columnKey(heading) != columnKey(t.Headers[first]):
				message = fmt.Sprintf("the columns %s and %s (%d and %d) both stand for %s", t.Headers[first], heading, first+1, i+1, name)
			case t.rows.JSONL != "":
				message = fmt.Sprintf("duplicate column %s: the key is written %q here and %q elsewhere", t.Headers[first], heading, t.Headers[first])
			}
			faults = append(faults, &Error{Pos: Pos{t.place(), h.cells[i].line, h.cells[i].col}, Message: message, Hint: "rename one of them"})
		}
		if first >= 0 {
			t.index[columnKey(name)] = first
		}
	}
	for i, name := range t.Headers {
		if !t.mapped[i] && t.rows.From == nil && name != "" && !strings.HasPrefix(name, "_") {
			t.Ignored = append(t.Ignored, name)
		}
	}
	return faults
}

// Index finds a column by its name, spelt as OpenTable allows. It returns -1 if there is none.
func (t *Table) Index(name string) int {
	key := columnKey(name)
	if i, ok := t.index[key]; ok {
		return i
	}
	return slices.IndexFunc(t.Headers, func(h string) bool { return key != "" && columnKey(h) == key })
}

// Records reads the rows in their order. A row with a fault of the file comes together with its [Errors], and reading can
// go on after it; what Check has passed has none. Blank rows are left out.
func (t *Table) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := t.each(func(r Record, faults Errors, science []Pos) bool {
			for _, pos := range science {
				faults = append(faults, &Error{Pos: pos, Message: "the value looks like Excel scientific notation", Hint: scienceHint})
			}
			return yield(r, faults.err())
		})
		if err != nil {
			yield(Record{}, err)
		}
	}
}

const scienceHint = "the digits are lost: export again and keep the column as text"

// each reads the rows. It calls do with each one, its faults, and the places of values in scientific notation, until do
// returns false.
func (t *Table) each(do func(Record, Errors, []Pos) bool) error {
	if t.Line == 0 {
		return nil
	}
	rows, blank, hidden, whole := 0, 0, 0, true
	err := t.source.scan(t, func(r sourceRow) bool {
		if r.blank {
			blank++
			return true
		}
		rows++
		if r.hidden {
			hidden++
		}
		r.Number = rows
		whole = do(r.Record, r.faults, r.science)
		return whole
	})
	if err == nil && whole {
		t.Rows, t.Blank, t.Hidden = rows, blank, hidden
	}
	return err
}

// scientificNumber is how spreadsheets write numbers of more digits than they show: 3.56938E+14, or 1,23E+11.
var scientificNumber = regexp.MustCompile(`^[+-]?[0-9]([.,][0-9]+)?[eE][+-][0-9]{2,3}$`)

func scientific(cell string) bool {
	if !strings.ContainsAny(cell, "eE") || len(cell) > 64 {
		return false
	}
	return scientificNumber.MatchString(trimBlank(cell))
}

// Check reads the whole file and returns every fault of it at once as [Errors], in the order of the lines: quotes, numbers
// of cells, bytes that cannot be decoded, zeros, values in scientific notation, no rows at all. After a thousand it only
// counts.
func (t *Table) Check() error {
	var faults Errors
	var science []Pos
	values, more := 0, 0
	err := t.each(func(_ Record, found Errors, places []Pos) bool {
		for _, f := range found {
			if len(faults) < maxListed {
				faults = append(faults, f)
			} else {
				more++
			}
		}
		for _, pos := range places {
			values++
			if len(science) < maxListed && (len(science) == 0 || science[len(science)-1].Line != pos.Line) {
				science = append(science, pos)
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if more > 0 {
		last := faults[len(faults)-1]
		faults = append(faults, &Error{Pos: last.Pos, Message: fmt.Sprintf("%d more faults follow", more)})
	}
	if values > 0 {
		faults = append(faults, scienceFault(values, science))
	}
	if t.Rows == 0 && !t.rows.AllowEmpty && len(faults) == 0 {
		return t.noRows("no data rows")
	}
	return faults.err()
}

// scienceFault reports all values in scientific notation in one line.
func scienceFault(values int, places []Pos) *Error {
	var lines []string
	for _, pos := range places[:min(len(places), 50)] {
		lines = append(lines, strconv.Itoa(pos.Line))
	}
	if len(places) > len(lines) {
		lines = append(lines, "…")
	}
	message := "1 value looks like Excel scientific notation: line "
	if values > 1 {
		message = fmt.Sprintf("%d values look like Excel scientific notation: lines ", values)
	}
	return &Error{Pos: places[0], Message: message + strings.Join(lines, ", "), Hint: scienceHint}
}
