package output

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// snapshotOf is rows in the order of their first cell.
func snapshotOf(rows ...[]string) iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		var reused []Value
		for _, r := range rows {
			reused = reused[:0]
			for _, text := range r {
				reused = append(reused, Value{KindText, text})
			}
			if !yield(reused, nil) {
				return
			}
		}
	}
}

func TestDiff(t *testing.T) {
	old := [][]string{{"a", "1", "x"}, {"b", "2", "x"}, {"c", "3", "x"}, {"e", "5", "x"}}
	now := [][]string{{"", "?", "?"}, {"b", "2", "y"}, {"c", "4", "x"}, {"d", "0", "x"}, {"e", "0", "x"}, {"e", "5", "x"}}
	for _, tt := range []struct {
		name  string
		cells []int
		want  []string
	}{
		{"all cells", []int{-1, 1, 2}, []string{"removed a", "changed b [2]", "changed c [1]", "added d"}},
		{"a volatile one", []int{-1, 1, -1}, []string{"removed a", "changed c [1]", "added d"}},
		{"columns in another order", []int{-1, 2, 1}, []string{"removed a", "changed b [1 2]", "changed c [1 2]", "added d", "changed e [1 2]"}},
		{"a column that was not there", []int{-1, 1, 7}, []string{"removed a", "changed b [2]", "changed c [1 2]", "added d", "changed e [2]"}},
	} {
		twins := 0
		var got []string
		for c, err := range Diff(snapshotOf(old...), snapshotOf(now...), tt.cells, &twins) {
			if err != nil {
				t.Fatal(err)
			}
			switch c.Kind {
			case Added:
				got = append(got, "added "+c.New[0].Text)
			case Removed:
				got = append(got, "removed "+c.Old[0].Text)
			default:
				got = append(got, fmt.Sprintf("changed %s %v", c.New[0].Text, c.Cells))
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if twins != 1 {
			t.Errorf("%s: %d twins", tt.name, twins)
		}
	}
}

func TestDiffErrors(t *testing.T) {
	broken := errors.New("broken")
	bad := func(yield func([]Value, error) bool) { yield(nil, broken) }
	unordered := snapshotOf([]string{"b"}, []string{"a"})
	for name, seq := range map[string]iter.Seq2[Change, error]{
		"old":   Diff(bad, snapshotOf([]string{"a"}), nil, nil),
		"new":   Diff(snapshotOf([]string{"a"}), bad, nil, nil),
		"order": Diff(snapshotOf(), unordered, nil, nil),
	} {
		var last error
		for _, err := range seq {
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Whatever the rows, applying the changes to the old ones gives the new ones, and
// a snapshot comes back as it was.
func TestDiffReplay(t *testing.T) {
	table := rapid.MapOf(rapid.StringN(1, 3, -1), rapid.SliceOfN(rapid.StringN(0, 3, -1), 3, 3))
	rapid.Check(t, func(t *rapid.T) {
		rowsOf := func(m map[string][]string) iter.Seq2[[]Value, error] {
			var rows [][]string
			for _, key := range slices.Sorted(maps.Keys(m)) {
				rows = append(rows, append([]string{key}, m[key]...))
			}
			return DecodeRows(EncodeRows(snapshotOf(rows...)))
		}
		old, now := table.Draw(t, "old"), table.Draw(t, "now")
		replayed := maps.Clone(old)
		for c, err := range Diff(rowsOf(old), rowsOf(now), []int{-1, 1, 2, 3}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			switch c.Kind {
			case Removed:
				delete(replayed, c.Old[0].Text)
			case Added:
				replayed[c.New[0].Text] = []string{c.New[1].Text, c.New[2].Text, c.New[3].Text}
			case Changed:
				row := slices.Clone(replayed[c.New[0].Text])
				for _, i := range c.Cells {
					row[i-1] = c.New[i].Text
				}
				replayed[c.New[0].Text] = row
			}
		}
		if !maps.EqualFunc(replayed, now, slices.Equal) {
			t.Fatalf("replayed %q, want %q", replayed, now)
		}
	})
}

// FuzzDecodeRows: a damaged block is an error, never a panic, and what is read can
// be written again.
func FuzzDecodeRows(f *testing.F) {
	for block, err := range EncodeRows(snapshotOf([]string{"a", "1"}, []string{"b", ""})) {
		if err != nil {
			f.Fatal(err)
		}
		f.Add(block)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, block []byte) {
		one := func(yield func([]byte, error) bool) { yield(block, nil) }
		var rows [][]Value
		for row, err := range DecodeRows(one) {
			if err != nil {
				return
			}
			rows = append(rows, row)
		}
		n := 0
		for row, err := range DecodeRows(EncodeRows(func(yield func([]Value, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		})) {
			if err != nil || !slices.Equal(row, rows[n]) {
				t.Fatalf("row %d: %v, want %v, %v", n, row, rows[n], err)
			}
			n++
		}
		if n != len(rows) {
			t.Fatalf("%d rows, want %d", n, len(rows))
		}
	})
}

// Comparing holds a row or two, not the snapshots: 200,000 rows on each side are
// read from a sequence that makes them as they are asked for.
func TestDiffMemory(t *testing.T) {
	rows := func(changed int) iter.Seq2[[]Value, error] {
		return func(yield func([]Value, error) bool) {
			row := make([]Value, 20)
			for i := range 200_000 {
				row[0] = Value{KindText, fmt.Sprintf("%08d", i)}
				for k := 1; k < len(row); k++ {
					row[k] = Value{KindText, "always the same text of a cell"}
				}
				if i%changed == 0 {
					row[7] = Value{KindText, "another one"}
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	cells := make([]int, 20)
	for i := range cells {
		cells[i] = i
	}
	var before, peak runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for _, err := range Diff(DecodeRows(EncodeRows(rows(1000))), DecodeRows(EncodeRows(rows(500))), cells, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 100 {
			runtime.GC()
			runtime.ReadMemStats(&peak)
		}
	}
	if n != 200 {
		t.Errorf("%d changes, want 200", n)
	}
	if grown := int64(peak.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d KiB are held in the middle", grown>>10)
	}
}
