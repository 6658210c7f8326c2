package jobs

import (
	"encoding/binary"
	"strings"
)

// packedCells are the cells of a row in one text, each behind its length: of a
// hundred thousand rows the headers of single texts would take more than the texts.
type packedCells string

// pack returns the cells of a row in one text.
func pack(cells []string) packedCells {
	var b strings.Builder
	var length [binary.MaxVarintLen64]byte
	for _, c := range cells {
		b.Write(length[:binary.PutUvarint(length[:], uint64(len(c)))])
		b.WriteString(c)
	}
	return packedCells(strings.Clone(b.String()))
}

// cells returns the cells, which share the text. Into is used if it is long enough.
func (p packedCells) cells(into []string) []string {
	into = into[:0]
	for rest := string(p); rest != ""; {
		n, size := uvarint(rest)
		into = append(into, rest[size:size+n])
		rest = rest[size+n:]
	}
	return into
}

// uvarint is binary.Uvarint of a text.
func uvarint(s string) (n, size int) {
	for shift := 0; size < len(s); shift += 7 {
		b := s[size]
		size++
		if n |= int(b&0x7f) << shift; b < 0x80 {
			break
		}
	}
	return n, size
}
