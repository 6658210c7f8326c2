package output

import (
	"bufio"
	"errors"
	"io"
	"unicode/utf8"
)

// JSONL writes one JSON object per row and line, with the columns as keys in
// their order. Numbers and true or false are bare, empty cells are null, an
// object or a list stays one; dates are text, or a number in the notation ms.
// Lines end with a line feed.
type JSONL struct {
	w    *bufio.Writer
	keys [][]byte // `"name":`, with what stands before it
	line []byte
	// What stands around an object.
	before, after string
	rows          int64
	err           error
}

// NewJSONL starts a file of JSON lines. It has no header, so an empty file is
// one without rows. The error is for an empty list of columns.
func NewJSONL(w io.Writer, headers []string) (*JSONL, error) {
	if len(headers) == 0 {
		return nil, errors.New("a JSON file needs at least one column")
	}
	j := &JSONL{w: bufio.NewWriterSize(w, bufferSize), after: "\n"}
	for i, h := range headers {
		key := []byte{','}
		if i == 0 {
			key[0] = '{'
		}
		j.keys = append(j.keys, append(appendJSONText(key, h), ':'))
	}
	return j, nil
}

// Row writes one row.
func (j *JSONL) Row(row []Value) error {
	if j.err != nil {
		return j.err
	}
	if j.err = checkWidth(row, len(j.keys)); j.err != nil {
		return j.err
	}
	j.line = append(j.line[:0], j.before...)
	for i, v := range row {
		j.line = append(j.line, j.keys[i]...)
		switch {
		case v.Kind == KindNull:
			j.line = append(j.line, "null"...)
		case v.Kind == KindBool, v.Kind == KindObject, v.Kind == KindList,
			(v.Kind == KindInt || v.Kind == KindNumber) && isNumber(v.Text):
			j.line = append(j.line, v.Text...)
		default:
			j.line = appendJSONText(j.line, v.Text)
		}
	}
	j.line = append(j.line, '}')
	j.line = append(j.line, j.after...)
	if _, j.err = j.w.Write(j.line); j.err == nil {
		j.rows++
	}
	return j.err
}

// Rows is the number of rows so far.
func (j *JSONL) Rows() int64 { return j.rows }

// Close writes what is buffered.
func (j *JSONL) Close() error {
	if err := j.w.Flush(); j.err == nil {
		j.err = err
	}
	return j.err
}

// appendJSONText appends s as a JSON string with as few escapes as JSON allows,
// so that < and & stay readable. Bytes that are not UTF-8 become U+FFFD.
func appendJSONText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c == '\n':
				b = append(b, '\\', 'n')
			case c == '\r':
				b = append(b, '\\', 'r')
			case c == '\t':
				b = append(b, '\\', 't')
			case c < ' ' || c == 0x7f:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, r)
		i += size
	}
	return append(b, '"')
}
