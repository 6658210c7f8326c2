package output

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
)

// Snapshots keep rows from one run to the next: what Rows of a Sorter gave, in
// the same order, as blocks of bytes that compress well. The first cell of a
// row is its identity; see Diff.

// snapshotBlock is the size from which a block is full.
const snapshotBlock = 128 << 10

// errSnapshot is the fault of a block that no EncodeRows has made.
var errSnapshot = errors.New("read a snapshot: a block is damaged")

// EncodeRows packs rows into blocks of bytes. An error of rows is passed on.
func EncodeRows(rows iter.Seq2[[]Value, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var block []byte
		for row, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			block = binary.AppendUvarint(block, uint64(len(row)))
			for _, v := range row {
				block = append(block, byte(v.Kind))
				block = binary.AppendUvarint(block, uint64(len(v.Text)))
				block = append(block, v.Text...)
			}
			if len(block) >= snapshotBlock {
				if !yield(block, nil) {
					return
				}
				block = nil // the reader may keep it
			}
		}
		if len(block) > 0 {
			yield(block, nil)
		}
	}
}

// DecodeRows is the inverse of EncodeRows. Each row is a slice of its own; its
// texts share the memory of their block.
func DecodeRows(blocks iter.Seq2[[]byte, error]) iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		for block, err := range blocks {
			if err != nil {
				yield(nil, err)
				return
			}
			for rest := string(block); rest != ""; {
				var row []Value
				if row, rest, err = decodeSnapshotRow(rest); err != nil {
					yield(nil, err)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

func decodeSnapshotRow(s string) (row []Value, rest string, err error) {
	cells, s, err := snapshotLength(s)
	if err != nil {
		return nil, "", err
	}
	row = make([]Value, 0, cells)
	for range cells {
		if s == "" || int(s[0]) >= len(kindNames) {
			return nil, "", errSnapshot
		}
		kind := Kind(s[0])
		var size int
		if size, s, err = snapshotLength(s[1:]); err != nil {
			return nil, "", err
		}
		row = append(row, Value{kind, s[:size]})
		s = s[size:]
	}
	return row, s, nil
}

// snapshotLength reads a number that is at most as large as what follows it.
func snapshotLength(s string) (n int, rest string, err error) {
	head := s[:min(len(s), binary.MaxVarintLen64)]
	v, size := binary.Uvarint([]byte(head))
	if size <= 0 || v > uint64(len(s)-size) {
		return 0, "", errSnapshot
	}
	return int(v), s[size:], nil //nolint:gosec // bounded by the length of a string
}

// ChangeKind says what became of a row.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Changed ChangeKind = "changed"
	Removed ChangeKind = "removed"
)

// Change is what became of one row. The rows are valid until the next one.
type Change struct {
	Kind     ChangeKind
	Old, New []Value // nil for a row that was not there
	Cells    []int   // of a changed row: the cells of New that differ
}

// Diff compares the rows of two snapshots, which are in ascending order of their
// first cell, the identity of a row. cells[i] is the cell of an old row that the
// cell i of a new one is compared with; below 0 it is not compared. Rows without
// an identity are passed over. Of rows with the same identity the last counts;
// twins, if not nil, counts the others of the new rows.
//
// It holds one row of each side and is the same whatever the size of both. An
// error of either side ends it.
func Diff(old, now iter.Seq2[[]Value, error], cells []int, twins *int) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		nextOld, stopOld := iter.Pull2(lastOfEach(old, nil))
		defer stopOld()
		nextNew, stopNew := iter.Pull2(lastOfEach(now, twins))
		defer stopNew()
		o, oerr, haveOld := nextOld()
		n, nerr, haveNew := nextNew()
		for haveOld || haveNew {
			if err := errors.Join(oerr, nerr); err != nil {
				yield(Change{}, err)
				return
			}
			var c Change
			takeOld, takeNew := haveOld, haveNew
			switch {
			case !haveNew || haveOld && o[0].Text < n[0].Text:
				c, takeNew = Change{Kind: Removed, Old: o}, false
			case !haveOld || n[0].Text < o[0].Text:
				c, takeOld = Change{Kind: Added, New: n}, false
			default:
				if different := differ(o, n, cells); different != nil {
					c = Change{Changed, o, n, different}
				}
			}
			if c.Kind != "" && !yield(c, nil) {
				return
			}
			if takeOld {
				o, oerr, haveOld = nextOld()
			}
			if takeNew {
				n, nerr, haveNew = nextNew()
			}
		}
	}
}

// differ lists the cells in which two rows differ.
func differ(old, now []Value, cells []int) (different []int) {
	for i, at := range cells {
		if at < 0 || i >= len(now) {
			continue
		}
		var before Value
		if at < len(old) {
			before = old[at]
		}
		if before.Text != now[i].Text {
			different = append(different, i)
		}
	}
	return different
}

// lastOfEach passes on the last row of each identity, and drops those without.
// It copies what it holds back, because a row may be reused. Rows that are not
// in order are an error: comparing them would give nonsense.
func lastOfEach(rows iter.Seq2[[]Value, error], twins *int) iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		var held []Value
		for row, err := range rows {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case len(row) == 0 || row[0].Text == "":
				continue
			case held == nil:
			case held[0].Text == row[0].Text:
				if twins != nil {
					*twins++
				}
			case held[0].Text > row[0].Text:
				yield(nil, fmt.Errorf("compare snapshots: the rows are not in order"))
				return
			case !yield(held, nil):
				return
			}
			held = append(make([]Value, 0, len(row)), row...)
		}
		if held != nil {
			yield(held, nil)
		}
	}
}
