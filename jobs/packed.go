package jobs

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// texts keeps many short texts in few large ones: by themselves a hundred thousand of
// them would take half as much again, and as many objects to look after. The zero
// texts is empty.
type texts struct{ current strings.Builder }

// textsSize is how long the large texts are.
const textsSize = 64 << 10

// keep returns a copy of a text.
func (t *texts) keep(s []byte) string {
	if t.current.Cap()-t.current.Len() < len(s) {
		t.current = strings.Builder{}
		t.current.Grow(max(textsSize, len(s)))
	}
	from := t.current.Len()
	t.current.Write(s)
	return t.current.String()[from:]
}

// interned keeps one copy of each of the texts that it is given.
type interned struct {
	kept  texts
	known map[string]string
}

// one returns the copy of a text.
func (n *interned) one(s string) string {
	if s == "" {
		return ""
	}
	known, ok := n.known[s]
	if !ok {
		if n.known == nil {
			n.known = map[string]string{}
		}
		known = n.kept.keep([]byte(s))
		n.known[known] = known
	}
	return known
}

// appendText appends a text behind its length, and cutText takes one from the front.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func cutText(s string) (text, rest string) {
	n, size := uvarint(s)
	end := size + int(n) //nolint:gosec // the length of a text in memory
	return s[size:end], s[end:]
}

// uvarint is binary.Uvarint of a text.
func uvarint(s string) (n uint64, size int) {
	for shift := 0; size < len(s); shift += 7 {
		b := s[size]
		size++
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			break
		}
	}
	return n, size
}

// cellStore keeps the cells of all rows of an input. They are needed once more when
// the plan is stored, row by row; until then they lie in compressed blocks, which take
// a fourth of the text. The zero cellStore is empty.
type cellStore struct {
	blocks  []cellBlock
	open    cellBlock // the block that rows are added to; not compressed
	rows    int
	packing *flate.Writer // nil until it is needed
	reading cellReader
}

// cellBlock is the cells of some rows, one after the other.
type cellBlock struct {
	first int    // number of the first row
	size  int    // of the text
	body  []byte // the text, compressed or not
}

const cellBlockSize = 64 << 10 // of its text; the row that reaches it is the last of a block

// add takes the cells of the next row. Rows are numbered from 1.
func (s *cellStore) add(cells []string) {
	s.rows++
	if len(s.open.body) == 0 {
		s.open.first = s.rows
	}
	s.open.body = binary.AppendUvarint(s.open.body, uint64(len(cells)))
	for _, c := range cells {
		s.open.body = appendText(s.open.body, c)
	}
	if s.open.size = len(s.open.body); s.open.size >= cellBlockSize {
		s.blocks = append(s.blocks, cellBlock{s.open.first, s.open.size, s.compress(s.open.body)})
		s.open.body = s.open.body[:0]
	}
}

func (s *cellStore) compress(text []byte) []byte {
	if s.packing == nil {
		s.packing, _ = flate.NewWriter(nil, flate.BestSpeed) // there is such a level
	}
	var out bytes.Buffer
	s.packing.Reset(&out)
	_, err := s.packing.Write(text)
	if err = errors.Join(err, s.packing.Close()); err != nil {
		panic(fmt.Sprintf("compress in memory: %v", err))
	}
	return bytes.Clone(out.Bytes())
}

// of returns the cells of a row. It is fast for rows that are asked for in their order.
func (s *cellStore) of(number int) []string {
	if number != s.reading.next || s.reading.rest == "" {
		s.seek(number)
	}
	return s.reading.row()
}

// seek moves to a row.
func (s *cellStore) seek(number int) {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > number }) - 1
	if number >= s.open.first && len(s.open.body) > 0 {
		s.reading = cellReader{s.open.first, string(s.open.body)}
	} else {
		s.reading = cellReader{s.blocks[i].first, s.blocks[i].text()}
	}
	for s.reading.next < number {
		s.reading.row()
	}
}

// text is the text of a compressed block.
func (b cellBlock) text() string {
	var out strings.Builder
	out.Grow(b.size)
	if _, err := io.Copy(&out, flate.NewReader(bytes.NewReader(b.body))); err != nil {
		panic(fmt.Sprintf("take what was compressed in memory: %v", err))
	}
	return out.String()
}

// cellReader reads the rows of a block.
type cellReader struct {
	next int // number of the next row
	rest string
}

// row returns the cells of the next row, which share the text of the block.
func (r *cellReader) row() []string {
	n, size := uvarint(r.rest)
	r.next, r.rest = r.next+1, r.rest[size:]
	cells := make([]string, n)
	for i := range cells {
		cells[i], r.rest = cutText(r.rest)
	}
	return cells
}
