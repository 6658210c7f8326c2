package jobs

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Bounds of one record of an input file. A quote that is never closed would otherwise swallow the file into memory.
const (
	maxRecordBytes = 1 << 20
	maxRecordCells = 1 << 14 // as many columns as a worksheet has
)

// recordScanner splits text in UTF-8 into records as RFC 4180 has them. The standard library's reader is not used: it
// takes a lone CR for text, so that a file of an old Excel for Mac is one endless header; it turns CRLF within quotes into
// LF, although a value must stay as it is; it does not tell where the cells of a quoted record begin; and it ends at the
// first fault, when all faults are wanted at once.
//
// A line ends with CR, LF or CRLF, in any mix. Lines and columns count from 1, columns in characters.
type recordScanner struct {
	src       io.Reader
	file      string // for positions
	delimiter byte
	converted string // the encoding that src was converted from, in which case U+FFFD is what could not be converted

	encodingHint string // what to do about bytes that are not UTF-8

	buf        []byte
	start, end int // unread part of buf
	srcErr     error
	line, col  int  // place of the next character
	dead       bool // after a fault that leaves no next record to find
	plain      [256]bool
	quoted     [256]bool

	rec rawRecord
}

// rawRecord is the record that was read last. It is valid until the next one is read.
type rawRecord struct {
	line    int // where it starts
	text    []byte
	cells   []rawCell
	faults  Errors
	damaged bool // a U+FFFD is in the text as it was
	kinds   map[string]bool
}

// rawCell is a cell of a rawRecord: where its text is and where it stands in the file.
type rawCell struct{ from, to, line, col int }

func newRecordScanner(src io.Reader, file string, delimiter byte) *recordScanner {
	s := &recordScanner{src: src, file: file, delimiter: delimiter, buf: make([]byte, 64<<10), line: 1, col: 1}
	for c := range 256 {
		s.quoted[c] = c != 0 && c != '"' && c != '\r' && c != '\n' && c < utf8.RuneSelf
		s.plain[c] = s.quoted[c] && byte(c) != delimiter
	}
	return s
}

// fill makes at least n bytes available, if the source has them. It tells whether it does.
func (s *recordScanner) fill(n int) bool {
	for s.end-s.start < n && s.srcErr == nil {
		if s.start > 0 {
			s.end = copy(s.buf, s.buf[s.start:s.end])
			s.start = 0
		}
		var got int
		got, s.srcErr = s.src.Read(s.buf[s.end:])
		s.end += got
	}
	return s.end-s.start >= n
}

// peek returns the next byte.
func (s *recordScanner) peek() (byte, bool) {
	if s.start < s.end || s.fill(1) {
		return s.buf[s.start], true
	}
	return 0, false
}

// next reads a record. An empty line is a record of one empty cell. At the end, or at a fault after which nothing can be
// told apart, it returns false; readErr tells whether it is the end.
func (s *recordScanner) next() bool {
	s.rec = rawRecord{line: s.line, text: s.rec.text[:0], cells: s.rec.cells[:0]}
	if _, ok := s.peek(); !ok || s.dead {
		return false
	}
	for {
		s.cell()
		if len(s.rec.text) > maxRecordBytes || len(s.rec.cells) >= maxRecordCells {
			s.dead = true
			s.fault(s.rec.line, 1, "a quote may be opened and never closed", "the record that starts here is longer than 1 MiB or %d cells", maxRecordCells)
			return true
		}
		c, ok := s.peek()
		switch {
		case !ok:
			return true
		case c == s.delimiter:
			s.start++
			s.col++
		default:
			s.lineEnd()
			return true
		}
	}
}

// readErr returns what ended the reading, nil for the end of the file.
func (s *recordScanner) readErr() error {
	if errors.Is(s.srcErr, io.EOF) {
		return nil
	}
	return s.srcErr
}

// cell reads up to the delimiter, line end or end of the file that ends a cell.
func (s *recordScanner) cell() {
	cell := rawCell{from: len(s.rec.text), line: s.line, col: s.col}
	if c, ok := s.peek(); ok && c == '"' {
		s.quotedText()
		if c, ok := s.peek(); ok && !s.dead && c != s.delimiter && c != '\r' && c != '\n' {
			s.fault(s.line, s.col, "write a quote within a quoted value twice", "text after a closing quote")
		}
	}
	if !s.dead {
		s.text(&s.plain, func() bool {
			c := s.buf[s.start]
			if c == '\r' || c == '\n' || c == s.delimiter {
				return false
			}
			s.fault(s.line, s.col, "put the value in quotes and write its own quotes twice; no blank may stand before the first", "a quote inside a value without quotes")
			s.take(1)
			return true
		})
	}
	cell.to = len(s.rec.text)
	s.rec.cells = append(s.rec.cells, cell)
}

// quotedText reads from an opening quote to behind the closing one.
func (s *recordScanner) quotedText() {
	line, col := s.line, s.col
	s.start++
	s.col++
	closed := false
	s.text(&s.quoted, func() bool {
		switch s.buf[s.start] {
		case '\n', '\r':
			s.rec.text = append(s.rec.text, s.lineEnd()...)
			return true
		}
		if s.fill(2) && s.buf[s.start+1] == '"' {
			s.start++
			s.col++
			s.take(1)
			return true
		}
		s.start++
		s.col++
		closed = true
		return false
	})
	if !closed && !s.dead {
		s.fault(line, col, "", "the quote that opens here is never closed")
	}
}

// text appends characters while they are common ones, and asks special about each quote, delimiter and line end whether
// to go on. It looks after what every text needs: zeros, bytes that are no UTF-8, the bound.
func (s *recordScanner) text(common *[256]bool, special func() bool) {
	for {
		i := s.start
		for i < s.end && common[s.buf[i]] {
			i++
		}
		s.take(i - s.start)
		if len(s.rec.text) > maxRecordBytes {
			s.dead = true
			return
		}
		c, ok := s.peek()
		switch {
		case !ok:
			return
		case common[c]:
		case c == 0:
			s.fault(s.line, s.col, "is the encoding right? set encoding: utf-16le for files with zeros everywhere", "a zero byte")
			s.take(1)
		case c >= utf8.RuneSelf:
			s.rune()
		case !special():
			return
		}
	}
}

// take appends the next n characters, which are one byte each.
func (s *recordScanner) take(n int) {
	s.rec.text = append(s.rec.text, s.buf[s.start:s.start+n]...)
	s.start += n
	s.col += n
}

// rune appends the next character of more than one byte.
func (s *recordScanner) rune() {
	s.fill(utf8.UTFMax)
	r, size := decodeRune(s.buf[s.start:s.end])
	switch {
	case r == invalidRune:
		s.fault(s.line, s.col, s.encodingHint, "byte 0x%02X is not UTF-8", s.buf[s.start])
	case r == utf8.RuneError && s.converted != "":
		s.fault(s.line, s.col, "is the encoding right?", "a byte that does not exist in %s", s.converted)
	case r == utf8.RuneError:
		s.rec.damaged = true
	}
	s.take(size)
	s.col -= size - 1
}

// lineEnd moves behind a line end and returns it.
func (s *recordScanner) lineEnd() string {
	end := "\n"
	if s.buf[s.start] == '\r' {
		end = "\r"
		if s.fill(2) && s.buf[s.start+1] == '\n' {
			end = "\r\n"
		}
	}
	s.start += len(end)
	s.line++
	s.col = 1
	return end
}

// fault records a fault of the current record, the first one of its kind: a record of ten thousand zeros has one.
func (s *recordScanner) fault(line, col int, hint, format string, args ...any) {
	if s.rec.kinds[format] {
		return
	}
	if s.rec.kinds == nil {
		s.rec.kinds = make(map[string]bool)
	}
	s.rec.kinds[format] = true
	s.rec.faults = append(s.rec.faults, &Error{Pos: Pos{s.file, line, col}, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// peekLine returns the line that comes next without its end, or as much of it as fits the buffer, and reads nothing.
func (s *recordScanner) peekLine() string {
	for n := 1; s.fill(n) && n <= 4096; n++ {
		if c := s.buf[s.start+n-1]; c == '\r' || c == '\n' {
			return string(s.buf[s.start : s.start+n-1])
		}
	}
	return string(s.buf[s.start:s.end])
}

// skipLine reads to behind the next line end, whatever the line holds.
func (s *recordScanner) skipLine() {
	for {
		c, ok := s.peek()
		switch {
		case !ok:
			return
		case c == '\r' || c == '\n':
			s.lineEnd()
			return
		}
		s.start++
		s.col++
	}
}
