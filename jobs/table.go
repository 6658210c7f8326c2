package jobs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rmmjob/internal/spell"
)

const (
	maxListed = 1000 // faults of one file that are listed one by one
	headBytes = 4096 // what is looked at to tell the kind of a file
)

// Table is an input file whose header has been found. It holds no rows and no open file: each pass opens the file anew,
// and ends with an error if the file is another than the one that was opened first. A Table is for one goroutine.
type Table struct {
	Headers   []string // as in the file, trimmed of blanks; empty for columns without a name
	Encoding  string   // how the file is encoded, for the report
	Delimiter string   // comma, semicolon, tab, pipe or the sign itself, for the report
	Ignored   []string // columns that the job does not use; those whose name begins with _ are not mentioned
	Hash      string   // SHA-256 of the file's bytes in hex
	Line      int      // where the header is; 0 if the file is empty
	Rows      int      // data rows; known after Check or a full pass over Records
	Blank     int      // rows of nothing but blanks, which are skipped; known like Rows

	rows      Rows
	mark      int   // bytes of the byte order mark
	codec     codec // of the contents behind the mark
	delimiter byte
	mapped    []bool // by column: the job uses it
}

// Record is a row of an input file. Its cells are the text of the file, never trimmed and never changed; there are as many
// as the file has headers.
type Record struct {
	Number int // counts the data rows from 1, without blank ones
	Line   int // physical line where the row starts
	Cells  []string

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

// OpenTable finds out how the file is encoded and delimited, and where its header and the columns in want are. Header and
// want agree if they differ only in case, blanks and underscores. The error is [Errors]; a column that is missing or
// there twice, a workbook and a file that is not there are among its reasons.
func OpenTable(rows Rows, want []string) (*Table, error) {
	t := &Table{rows: rows}
	head, err := t.identify()
	if err != nil {
		return nil, err
	}
	if err := t.recognise(head); err != nil {
		return nil, err
	}
	if len(head) == 0 {
		if !rows.AllowEmpty {
			return nil, t.noRows("no data rows: the file is empty")
		}
		return t, nil
	}
	if err := t.header(want); err != nil {
		return nil, err
	}
	return t, nil
}

// identify hashes the file and returns its first bytes.
func (t *Table) identify() ([]byte, error) {
	f, err := openFile(t.rows.CSV, "input file")
	if err != nil {
		return nil, err
	}
	defer closeRead(f)
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	sum := sha256.New()
	sum.Write(head[:n])
	switch {
	case err == nil:
		_, err = io.Copy(sum, f)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a short file
		err = nil
	}
	if err != nil {
		return nil, unreadable(t.rows.CSV, "input file", err)
	}
	t.Hash = hex.EncodeToString(sum.Sum(nil))
	return head[:n], nil
}

// refuse reports a fault of the file as a whole.
func (t *Table) refuse(hint, format string, args ...any) error {
	return Errors{{Pos: Pos{File: t.rows.CSV}, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

func (t *Table) noRows(message string) error {
	return Errors{{Pos: Pos{File: t.rows.CSV, Line: max(t.Line, 1), Column: 1}, Message: message, Hint: "if that is no fault set allow_empty: true"}}
}

// recognise tells the encoding by the first bytes and the job. Where the two disagree it does not guess.
func (t *Table) recognise(head []byte) error {
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")) {
		return t.refuse("", "this is an Excel workbook, save as CSV UTF-8")
	}
	name, mark := detectUnicode(head)
	found, ok := encodingOf(name)
	if !ok {
		return t.refuse("save it as CSV UTF-8", "the file is encoded in %s", strings.ToUpper(name))
	}
	if declared := t.rows.Encoding; declared != "" {
		c, ok := encodingOf(declared)
		switch {
		case !ok:
			return t.refuse(suggestion(declared, Encodings()), "unknown encoding %q", clip(declared, 40))
		case mark > 0 && c.name != found.name && spell.Fold(declared) != "utf16":
			return t.refuse("remove the encoding from the job", "the file begins with the byte order mark of %s, but the job says %s", found.name, declared)
		case mark == 0:
			found = c
		}
	}
	t.mark, t.codec, t.Encoding = mark, found, found.name
	if mark > 0 {
		t.Encoding += " with byte order mark"
	}
	return nil
}

// pass is one reading of the file from its start.
type pass struct {
	*recordScanner
	f    *os.File
	hash hash.Hash
}

// open starts a pass with the delimiter given and moves it to the header line. If the file names a delimiter itself, in a
// line sep=; as Excel understands it, that one is returned.
func (t *Table) open(delimiter byte) (p *pass, named byte, err error) {
	f, err := openFile(t.rows.CSV, "input file")
	if err != nil {
		return nil, 0, err
	}
	sum := sha256.New()
	raw := io.TeeReader(f, sum)
	if _, err := io.CopyN(io.Discard, raw, int64(t.mark)); err != nil {
		closeRead(f)
		return nil, 0, unreadable(t.rows.CSV, "input file", err)
	}
	p = &pass{newRecordScanner(t.codec.reader(raw), t.rows.CSV, delimiter), f, sum}
	if t.codec.decoder != nil {
		p.converted = t.codec.name
	}
	for range t.rows.SkipLines {
		p.skipLine()
	}
	if m := sepLine.FindStringSubmatch(p.peekLine()); m != nil {
		named = m[1][0]
		p.skipLine()
	}
	if strings.HasPrefix(p.peekLine(), "#TYPE ") { // of Export-Csv in Windows PowerShell
		p.skipLine()
	}
	return p, named, nil
}

// sepLine is a line that tells Excel the delimiter.
var sepLine = regexp.MustCompile(`^(?i:"?sep=([!-~\t])"?)[ ,;\t]*$`)

// unchanged ends a full pass: what was read must be what was opened.
func (p *pass) unchanged(t *Table) error {
	if err := p.readErr(); err != nil {
		return unreadable(t.rows.CSV, "input file", err)
	}
	if hex.EncodeToString(p.hash.Sum(nil)) != t.Hash {
		return t.refuse("start again when nothing writes to it", "the file changed while it was read")
	}
	return nil
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

// heading is a line taken as the header with one delimiter.
type heading struct {
	delimiter byte
	line      int
	names     []string
	cells     []rawCell
	faults    Errors
	found     int // of the columns wanted
}

// header finds the delimiter and the header, and reports what is wrong with the header.
func (t *Table) header(want []string) error {
	var best heading
	candidates := []byte{',', ';', '\t', '|'}
	if d := t.rows.Delimiter; d > 0 && d < utf8.RuneSelf {
		candidates = []byte{byte(d)}
	} else if d != 0 {
		return t.refuse("", "the delimiter %q is not one sign of ASCII", d)
	} else if p, named, err := t.open(','); err != nil {
		return err
	} else {
		closeRead(p.f)
		if named != 0 {
			candidates = []byte{named}
		}
	}
	for i, delimiter := range candidates {
		h, err := t.headingWith(delimiter, want, 0)
		if err != nil {
			return err
		}
		// More of the wanted columns win, then a line without faults, then more columns of any name.
		better := cmp.Or(cmp.Compare(h.found, best.found), cmp.Compare(len(best.faults), len(h.faults)), cmp.Compare(len(h.names), len(best.names)))
		// A file that is blank with one delimiter has no header with any other either.
		if i == 0 || better > 0 && best.line > 0 || h.line == 0 && best.found == 0 {
			best = h
		}
	}
	t.delimiter, t.Line, t.Headers, t.Delimiter = best.delimiter, best.line, best.names, delimiterName(best.delimiter)
	if best.line == 0 {
		if t.rows.AllowEmpty {
			return nil
		}
		return t.noRows("no data rows: there is no header")
	}
	faults := best.faults
	if missing := t.missing(want, best); missing != nil {
		faults = append(faults, missing)
	}
	faults = append(faults, t.mapColumns(want, best)...)
	return faults.err()
}

// headingWith reads the first line that is not blank, or the first one below the line after, as a header.
func (t *Table) headingWith(delimiter byte, want []string, after int) (heading, error) {
	p, _, err := t.open(delimiter)
	if err != nil {
		return heading{}, err
	}
	defer closeRead(p.f)
	h := heading{delimiter: delimiter}
	for p.next() {
		if p.rec.line <= after || p.rec.blank() {
			continue
		}
		h.line, h.cells, h.faults = p.rec.line, slices.Clone(p.rec.cells), p.rec.faults
		keys := make(map[string]bool)
		for _, c := range p.rec.cells {
			name := trimBlank(string(p.rec.text[c.from:c.to]))
			h.names = append(h.names, name)
			keys[columnKey(name)] = true
		}
		for _, name := range want {
			if keys[columnKey(name)] {
				h.found++
			}
		}
		return h, nil
	}
	if err := p.readErr(); err != nil {
		return heading{}, unreadable(t.rows.CSV, "input file", err)
	}
	return h, nil
}

// blank tells whether a record has nothing but blanks.
func (r *rawRecord) blank() bool {
	return len(bytes.TrimFunc(r.text, isBlank)) == 0 && len(r.faults) == 0
}

// missing reports the wanted columns that the header lacks, or nil.
func (t *Table) missing(want []string, h heading) *Error {
	var lost []string
	hint := ""
	for _, name := range want {
		if t.Index(name) >= 0 {
			continue
		}
		lost = append(lost, name)
		if near := spell.Nearest(name, h.names); near != "" && hint == "" {
			hint = fmt.Sprintf("is it the column %q?", near)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if line := t.lowerHeader(want, h); line > 0 {
		hint = fmt.Sprintf("the header seems to be in line %d: set skip_lines: %d", line, line-1)
	} else if h.found == 0 && hint == "" {
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
		Pos:     Pos{t.rows.CSV, h.line, 1},
		Message: fmt.Sprintf("expected %s %s not found in line %d, which has %s", column, strings.Join(lost, ", "), h.line, strings.Join(shown, ", ")),
		Hint:    hint,
	}
}

// lowerHeader looks for a line below that has all the columns wanted, as in reports with a title. It returns 0 if there is
// none near.
func (t *Table) lowerHeader(want []string, h heading) int {
	for line, tries := h.line, 0; tries < 20; tries++ {
		lower, err := t.headingWith(h.delimiter, want, line)
		if err != nil || lower.line == 0 {
			return 0
		}
		if lower.found == len(want) {
			return lower.line
		}
		line = lower.line
	}
	return 0
}

// mapColumns marks the columns that the job uses, and lists the others. A column that is used must be there once.
func (t *Table) mapColumns(want []string, h heading) Errors {
	t.mapped = make([]bool, len(t.Headers))
	wanted := make(map[string]bool)
	for _, name := range want {
		wanted[columnKey(name)] = true
	}
	var faults Errors
	first := make(map[string]int)
	for i, name := range t.Headers {
		key := columnKey(name)
		switch at, twice := first[key]; {
		case wanted[key] && twice:
			faults = append(faults, &Error{
				Pos:     Pos{t.rows.CSV, h.cells[i].line, h.cells[i].col},
				Message: fmt.Sprintf("duplicate column %s (columns %d and %d)", t.Headers[at], at+1, i+1),
				Hint:    "rename one of them",
			})
		case wanted[key]:
			t.mapped[i] = true
			first[key] = i
		case name != "" && !strings.HasPrefix(name, "_"):
			t.Ignored = append(t.Ignored, name)
		}
	}
	return faults
}

// delimiterName names a delimiter for people.
func delimiterName(c byte) string {
	for _, name := range []string{"comma", "semicolon", "tab", "pipe"} {
		if delimiters[name] == rune(c) {
			return name
		}
	}
	return string(rune(c))
}

// Index finds a column by its name, spelt as OpenTable allows. It returns -1 if there is none.
func (t *Table) Index(name string) int {
	key := columnKey(name)
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
	p, _, err := t.open(t.delimiter)
	if err != nil {
		return err
	}
	defer closeRead(p.f)
	for p.next() && p.rec.blank() { // to behind the header
	}
	rows, blank := 0, 0
	for p.next() {
		if p.rec.blank() {
			blank++
			continue
		}
		rows++
		r, faults, science := t.record(&p.rec)
		r.Number = rows
		if !do(r, faults, science) {
			return nil
		}
	}
	t.Rows, t.Blank = rows, blank
	if p.dead {
		return nil
	}
	return p.unchanged(t)
}

// record makes a Record of a raw one and looks for its faults.
func (t *Table) record(raw *rawRecord) (Record, Errors, []Pos) {
	text := string(raw.text)
	width := len(t.Headers)
	r := Record{Line: raw.line, Cells: make([]string, width), file: t.rows.CSV, cells: slices.Clone(raw.cells)}
	faults := raw.faults
	var science []Pos
	fault := func(i int, hint, format string, args ...any) {
		faults = append(faults, &Error{Pos: r.Pos(i), Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	extra := false
	for i, c := range raw.cells {
		cell := text[c.from:c.to]
		switch {
		case i >= width:
			extra = extra || trimBlank(cell) != ""
			continue
		case t.mapped[i] && scientific(cell):
			science = append(science, r.Pos(i))
		case t.mapped[i] && raw.damaged && strings.ContainsRune(cell, utf8.RuneError):
			fault(i, "take the value from its source again", "the value holds U+FFFD: an earlier conversion destroyed a character")
		case t.Headers[i] == "" && trimBlank(cell) != "":
			fault(i, "has a value before it a delimiter of its own that needs quotes?", "a value in column %d, which has no name", i+1)
		}
		r.Cells[i] = cell
	}
	short := len(raw.cells) < width && slices.ContainsFunc(t.Headers[len(raw.cells):], func(h string) bool { return h != "" })
	// A quote that is out of place moves the cells; to count them as well would be a second message about one fault.
	if (extra || short) && len(raw.faults) == 0 {
		fault(-1, "put values that hold the delimiter in quotes", "the row has %d cells, the header has %d", len(raw.cells), width)
	}
	return r, faults, science
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
