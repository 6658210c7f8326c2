package jobs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"rmmjob/internal/spell"
)

// csvSource reads text with delimiters.
type csvSource struct {
	mark      int   // bytes of the byte order mark
	codec     codec // of the contents behind the mark
	skip      int   // physical lines above the header
	delimiter byte
	own       bool // written by rmmjob
	beyond    int  // index of the column with the cells beyond the heading of a file of its own; -1 for none
}

// open implements source.
func (c *csvSource) open(t *Table, want []string) error {
	head, err := t.head()
	if err != nil {
		return err
	}
	var delimiter rune
	if delimiter, c.own = ownResult(head); c.own {
		// It is read as it was written, whatever the file was whose rows it holds.
		t.rows.Encoding, t.rows.Delimiter, t.rows.SkipLines = "", delimiter, 0
	}
	c.skip = t.rows.SkipLines
	if err := c.recognise(t, head); err != nil {
		return err
	}
	if len(head) == 0 {
		if !t.rows.AllowEmpty {
			return t.noRows("no data rows: the file is empty")
		}
		return nil
	}
	err = c.header(t, want)
	if c.beyond = -1; c.own {
		c.beyond = slices.Index(t.Headers, extraColumn)
	}
	return err
}

// recognise tells the encoding by the first bytes and the job. Where the two disagree it does not guess.
func (c *csvSource) recognise(t *Table, head []byte) error {
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")) {
		return t.refuse("or name it as a workbook: rows: {xlsx: FILE}", "this is an Excel workbook, save as CSV UTF-8")
	}
	name, mark := detectUnicode(head)
	found, ok := encodingOf(name)
	if !ok {
		return t.refuse("save it as CSV UTF-8", "the file is encoded in %s", strings.ToUpper(name))
	}
	if declared := t.rows.Encoding; declared != "" {
		named, ok := encodingOf(declared)
		switch {
		case !ok:
			return t.refuse(suggestion(declared, Encodings()), "unknown encoding %q", clip(declared, 40))
		case mark > 0 && named.name != found.name && spell.Fold(declared) != "utf16":
			return t.refuseKey("encoding", "remove the encoding from the job", "the file begins with the byte order mark of %s, but the job says %s", found.name, declared)
		case mark == 0:
			found = named
		}
	}
	c.mark, c.codec, t.Encoding = mark, found, found.name
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

// start begins a pass with the delimiter given and moves it to the header line. If the file names a delimiter itself, in a
// line sep=; as Excel understands it, that one is returned.
func (c *csvSource) start(t *Table, delimiter byte) (p *pass, named byte, err error) {
	f, err := openFile(t.rows.CSV, "input file")
	if err != nil {
		return nil, 0, err
	}
	sum := sha256.New()
	raw := io.TeeReader(f, sum)
	if _, err := io.CopyN(io.Discard, raw, int64(c.mark)); err != nil {
		closeRead(f)
		return nil, 0, unreadable(t.rows.CSV, "input file", err)
	}
	p = &pass{newRecordScanner(c.codec.reader(raw), t.rows.CSV, delimiter), f, sum}
	if c.codec.decoder != nil {
		p.converted = c.codec.name
	}
	if p.encodingHint = "save the file as CSV UTF-8, or name its encoding, for example encoding: windows-1252"; c.own {
		p.encodingHint = "save the file as CSV UTF-8: result files and rejected.csv are read as they were written"
	}
	for range c.skip {
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

// header finds the delimiter and the header, and reports what is wrong with the header.
func (c *csvSource) header(t *Table, want []string) error {
	var best heading
	candidates := []byte{',', ';', '\t', '|'}
	if d := t.rows.Delimiter; d > 0 && d < utf8.RuneSelf {
		candidates = []byte{byte(d)}
	} else if d != 0 {
		return t.refuse("", "the delimiter %q is not one sign of ASCII", d)
	} else if p, named, err := c.start(t, ','); err != nil {
		return err
	} else {
		closeRead(p.f)
		if named != 0 {
			candidates = []byte{named}
		}
	}
	for i, delimiter := range candidates {
		h, err := c.headingWith(t, delimiter, want, 0)
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
	c.delimiter, t.Delimiter = best.delimiter, delimiterName(best.delimiter)
	return t.take(best, want, func() int {
		return lowerHeader(best.line, want, func(line int) (heading, error) { return c.headingWith(t, best.delimiter, want, line) })
	})
}

// headingWith reads the first line that is not blank, or the first one below the line after, as a header.
func (c *csvSource) headingWith(t *Table, delimiter byte, want []string, after int) (heading, error) {
	p, _, err := c.start(t, delimiter)
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
		for _, cell := range p.rec.cells {
			h.names = append(h.names, trimBlank(string(p.rec.text[cell.from:cell.to])))
		}
		h.count(t, want)
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

// lowerHeader looks for a line below another that has all the columns wanted, as in reports with a title; below reads the
// next heading after a line. It returns 0 if there is none near.
func lowerHeader(line int, want []string, below func(line int) (heading, error)) int {
	for range 20 {
		lower, err := below(line)
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

// delimiterName names a delimiter for people.
func delimiterName(c byte) string {
	for _, name := range []string{"comma", "semicolon", "tab", "pipe"} {
		if delimiters[name] == rune(c) {
			return name
		}
	}
	return string(rune(c))
}

// scan implements source.
func (c *csvSource) scan(t *Table, do func(sourceRow) bool) error {
	p, _, err := c.start(t, c.delimiter)
	if err != nil {
		return err
	}
	defer closeRead(p.f)
	for p.next() && p.rec.blank() { // to behind the header
	}
	for p.next() {
		row := sourceRow{blank: true}
		if !p.rec.blank() {
			row = t.record(&p.rec)
			c.keepBeyond(&row)
		}
		if !do(row) {
			return nil
		}
	}
	if p.dead {
		return nil
	}
	if err := p.readErr(); err != nil {
		return unreadable(t.rows.CSV, "input file", err)
	}
	return t.unchanged(p.hash)
}

// record makes a Record of a raw one and looks for its faults.
func (t *Table) record(raw *rawRecord) sourceRow {
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
		if i < width && t.mapped[i] {
			cell = unformula(cell)
			if message, hint := spoilt(cell); message != "" {
				fault(i, hint, "%s", message)
			}
		}
		switch {
		case i >= width:
			extra = extra || trimBlank(cell) != ""
			r.Extra = append(r.Extra, cell)
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
	if !extra {
		r.Extra = nil
	}
	return sourceRow{Record: r, faults: faults, science: science}
}

// extraColumn is where a file of rejected rows has the cells beyond the heading.
const extraColumn = "_extra"

// keepBeyond refuses a row of a file of rejected rows while cells beyond the heading
// are left in it: they would be lost.
func (c *csvSource) keepBeyond(row *sourceRow) {
	if c.beyond < 0 || trimBlank(row.Cells[c.beyond]) == "" {
		return
	}
	row.Extra = append(row.Extra, row.Cells[c.beyond])
	row.faults = append(row.faults, &Error{
		Pos: row.Pos(c.beyond), Message: "what stands in " + extraColumn + " was beyond the heading and belongs to no column",
		Hint: "put it where it belongs, and empty " + extraColumn,
	})
}

// ownResult tells whether a file begins with the heading of a result or reject file of
// rmmjob, and its delimiter, which a spreadsheet may have changed.
func ownResult(head []byte) (delimiter rune, own bool) {
	line, _, _ := strings.Cut(string(head), "\n")
	for _, delimiter := range ",;\t" {
		names := strings.Split(strings.TrimRight(line, "\r"), string(delimiter))
		if slices.Contains(names, "_reason") && (slices.Contains(names, "_row") || slices.Contains(names, "_line")) {
			return delimiter, true
		}
	}
	return 0, false
}
