package jobs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// jsonLines reads one JSON object a line. The keys of all objects together are the columns; one that an object lacks, or
// that is null, is an empty cell.
type jsonLines struct{}

// open implements source.
func (j *jsonLines) open(t *Table, want []string) error {
	h := heading{where: "any line"}
	t.Encoding, t.Delimiter = "JSON", "an object a line"
	known := map[string]bool{}
	_, err := j.each(t, func(line int, text []byte) bool {
		if len(bytes.TrimSpace(text)) == 0 {
			return true
		}
		h.line = max(h.line, 1)
		object, fault := parseObject(t, line, text)
		if fault != nil {
			if len(h.faults) < 20 {
				h.faults = append(h.faults, fault)
			}
			return true
		}
		object.ForEach(func(key, _ gjson.Result) bool {
			if !known[key.Str] && len(h.names) < maxRecordCells {
				known[key.Str] = true
				h.names = append(h.names, key.Str)
				h.cells = append(h.cells, rawCell{line: line, col: columnOf(text, key.Index)})
			}
			return true
		})
		return true
	})
	if err != nil {
		return err
	}
	h.count(t, want)
	if h.found == len(want) {
		h.faults = nil // the pass over the rows tells them all
	}
	return t.take(h, want, func() int { return 0 })
}

// each calls do with every line until it returns false, and gives the hash of what was read.
func (j *jsonLines) each(t *Table, do func(line int, text []byte) bool) (hash.Hash, error) {
	head, err := t.head()
	if err != nil {
		return nil, err
	}
	name, mark := detectUnicode(head)
	c, ok := encodingOf(name)
	if !ok {
		return nil, t.refuse("save it as UTF-8", "the file is encoded in %s", strings.ToUpper(name))
	}
	f, err := openFile(t.rows.JSONL, "input file")
	if err != nil {
		return nil, err
	}
	defer closeRead(f)
	sum := sha256.New()
	raw := io.TeeReader(f, sum)
	if _, err := io.CopyN(io.Discard, raw, int64(mark)); err != nil {
		return nil, unreadable(t.rows.JSONL, "input file", err)
	}
	lines := bufio.NewScanner(c.reader(raw))
	lines.Buffer(make([]byte, 64<<10), maxRecordBytes)
	n := 0
	for lines.Scan() {
		n++
		if !do(n, lines.Bytes()) {
			return sum, nil
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, Errors{{Pos: Pos{t.rows.JSONL, n + 1, 1}, Message: "the line is longer than 1 MiB", Hint: "write one object a line"}}
	case err != nil:
		return nil, unreadable(t.rows.JSONL, "input file", err)
	}
	return sum, nil
}

// columnOf counts the characters before a place in a line.
func columnOf(text []byte, at int) int { return utf8.RuneCount(text[:min(at, len(text))]) + 1 }

// parseObject reads a line.
func parseObject(t *Table, line int, text []byte) (gjson.Result, *Error) {
	fault := func(at int, hint, format string, args ...any) (gjson.Result, *Error) {
		return gjson.Result{}, &Error{Pos: Pos{t.rows.JSONL, line, columnOf(text, at)}, Message: fmt.Sprintf(format, args...), Hint: hint}
	}
	if i := invalidUTF8(text); i >= 0 {
		return fault(i, "save the file as UTF-8", "byte 0x%02X is not UTF-8", text[i])
	}
	if !gjson.ValidBytes(text) {
		return fault(0, "write one object a line, without a comma between", "the line is not a JSON object")
	}
	object := gjson.ParseBytes(text)
	if !object.IsObject() {
		return fault(0, "write one object a line", "the line is JSON, but not an object")
	}
	return object, nil
}

// invalidUTF8 finds the first byte that is no UTF-8, or -1.
func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := decodeRune(text[i:])
		if r == invalidRune {
			return i
		}
		i += size
	}
	return -1
}

// scan implements source.
func (j *jsonLines) scan(t *Table, do func(sourceRow) bool) error {
	whole := true
	at := make(map[string]int, len(t.Headers))
	for i, name := range t.Headers {
		at[name] = i
	}
	sum, err := j.each(t, func(line int, text []byte) bool {
		row := sourceRow{blank: true}
		if len(bytes.TrimSpace(text)) > 0 {
			row = j.row(t, at, line, text)
		}
		whole = do(row)
		return whole
	})
	if err != nil || !whole {
		return err
	}
	return t.unchanged(sum)
}

// row makes a row of a line.
func (j *jsonLines) row(t *Table, at map[string]int, line int, text []byte) sourceRow {
	row := sourceRow{Record: Record{Line: line, Cells: make([]string, len(t.Headers)), file: t.rows.JSONL, cells: make([]rawCell, len(t.Headers))}}
	for i := range row.cells {
		row.cells[i] = rawCell{line: line, col: 1}
	}
	object, bad := parseObject(t, line, text)
	if bad != nil {
		row.faults, row.Extra = Errors{bad}, []string{strings.ToValidUTF8(string(text), "\ufffd")}
		return row
	}
	var seen []string
	object.ForEach(func(key, v gjson.Result) bool {
		i, ok := at[key.Str]
		if !ok {
			return true // beyond the largest number of columns
		}
		row.cells[i].col = columnOf(text, v.Index)
		fault := func(hint, format string, args ...any) {
			row.faults = append(row.faults, &Error{Pos: row.Pos(i), Message: fmt.Sprintf(format, args...), Hint: hint})
		}
		if slices.Contains(seen, key.Str) && t.mapped[i] {
			fault("remove one of them", "the key %q is there twice", clip(key.Str, 40))
		}
		seen = append(seen, key.Str)
		switch v.Type {
		case gjson.Null:
		case gjson.String:
			row.Cells[i] = v.Str
		case gjson.JSON:
			row.Cells[i] = v.Raw
			if t.mapped[i] {
				fault("a cell is one text or number", "%q is a list or an object", clip(key.Str, 40))
			}
		default:
			row.Cells[i] = v.Raw
		}
		message, hint := spoilt(row.Cells[i])
		switch cell := row.Cells[i]; {
		case !t.mapped[i]:
		case strings.Contains(cell, "\x00"):
			fault("take it out", "a zero byte")
		case message != "":
			fault(hint, "%s", message)
		case scientific(cell):
			row.science = append(row.science, row.Pos(i))
		case strings.ContainsRune(cell, utf8.RuneError):
			fault("take the value from its source again", "the value holds U+FFFD: an earlier conversion destroyed a character")
		}
		return true
	})
	return row
}
