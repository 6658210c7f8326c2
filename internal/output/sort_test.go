package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSortKeyOrder(t *testing.T) {
	// In order; the values of one line are different and neighbours.
	ordered := []string{
		`null`,
		`-1e50`, // no plain number: behind the numbers, see below
		`-12345678901234567890`, `-100`, `-99.5`, `-99`, `-0.5`, `-0.25`, `0`, `0.001`, `0.01`, `0.1`, `1`, `1.5`, `2`, `9`, `10`, `1.1E1`, `99`,
		`9007199254740992`, `9007199254740993`, `12345678901234567890`,
		`false`, `true`,
		`""`, `"\u0000"`, `"\u0000\u0000"`, `"\u0000a"`, `"\u0001"`, `"-"`, `"A"`, `"a"`, `"A\u0000"`, `"aa"`, `"AB"`, `"b"`, `"Ä"`, `"ä"`, `"東京"`,
	}
	ordered = slices.Delete(ordered, 1, 2)
	var last []byte
	for _, in := range ordered {
		rec := parse(t, `{"v":`+in+`}`)
		key := SortKey(rec, Ascending("v"))
		if bytes.Compare(last, key) >= 0 {
			t.Errorf("%s does not come after the value before it", in)
		}
		last = key
	}
	for _, same := range [][2]string{{`1`, `1.0`}, {`1500`, `1.5E3`}, {`0`, `-0.0`}} {
		a, b := SortKey(parse(t, `{"v":`+same[0]+`}`), Ascending("v")), SortKey(parse(t, `{"v":`+same[1]+`}`), Ascending("v"))
		if !bytes.Equal(a, b) {
			t.Errorf("%s and %s are ordered differently", same[0], same[1])
		}
	}
	if SortKey(Record{"v": json.Number("1e99")}, Ascending("v")) == nil {
		t.Error("a huge number has no key")
	}
}

func TestSortKeyOfSeveralPaths(t *testing.T) {
	paths := Ascending(DefaultSort("devices")...)
	var names []string
	keys := map[string][]byte{}
	for _, in := range []string{
		`{"uid":"0"}`,
		`{"siteName":"Depot","hostname":"ws-2","uid":"1"}`,
		`{"siteName":"depot","hostname":"WS-1","uid":"3"}`,
		`{"siteName":"depot","hostname":"WS-1","uid":"4"}`,
		`{"siteName":"Depot North","hostname":"A","uid":"2"}`,
	} {
		rec := parse(t, in)
		names = append(names, rec.Text("uid"))
		keys[rec.Text("uid")] = SortKey(rec, paths)
	}
	slices.SortFunc(names, func(a, b string) int { return bytes.Compare(keys[a], keys[b]) })
	if got := strings.Join(names, ""); got != "01342" {
		t.Errorf("order = %s", got)
	}
}

// sorted reads everything a sorter gives.
func sorted(s *Sorter) (rows [][]Value, err error) {
	for row, err := range s.Rows() {
		if err != nil {
			return rows, err
		}
		rows = append(rows, slices.Clone(row))
	}
	return rows, nil
}

func TestSorterEqualsSortStable(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			key []byte
			row []Value
		}
		n := rapid.IntRange(0, 60).Draw(t, "rows")
		items := make([]item, n)
		s := NewSorter(dir, 0)
		s.budget = rapid.SampledFrom([]int{0, 1, 100, 500, 2000, 1 << 20}).Draw(t, "budget")
		defer s.Close()
		for i := range items {
			key := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 3).Draw(t, "key")
			row := []Value{{KindInt, fmt.Sprint(i)}, {}, {KindText, rapid.String().Draw(t, "text")}}
			items[i] = item{key, row}
			buf, reused := slices.Clone(key), slices.Clone(row)
			if err := s.Add(buf, reused); err != nil {
				t.Fatal(err)
			}
			for j := range buf {
				buf[j] = 99 // the sorter must not keep what it was given
			}
			clear(reused)
		}
		slices.SortStableFunc(items, func(a, b item) int { return bytes.Compare(a.key, b.key) })
		for range 2 { // a second reading gives the same
			got, err := sorted(s)
			if err != nil || len(got) != n {
				t.Fatalf("%d rows of %d, %v", len(got), n, err)
			}
			for i := range got {
				if !slices.Equal(got[i], items[i].row) {
					t.Fatalf("row %d = %v, want %v", i, got[i], items[i].row)
				}
			}
		}
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestSorterUse(t *testing.T) {
	s := NewSorter(t.TempDir(), 0)
	if s.budget != minBudget {
		t.Errorf("budget = %d", s.budget)
	}
	if err := s.Add([]byte("k"), textRow("v")); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Rows() {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if err := s.Add([]byte("k"), textRow("late")); err == nil {
		t.Error("a row is accepted after reading began")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := s.Add([]byte("k"), textRow("v")); err == nil {
		t.Error("a closed sorter takes rows")
	}
	if _, err := sorted(s); err == nil {
		t.Error("a closed sorter gives rows")
	}
}

func TestSorterReportsTheDisk(t *testing.T) {
	s := NewSorter(t.TempDir()+"/missing", 0)
	s.budget = 1
	err := errors.Join(s.Add(nil, textRow("a")), s.Add(nil, textRow("b")))
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Add = %v", err)
	}
	if _, err := sorted(s); err == nil {
		t.Error("rows are given although some are lost")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}

	cut := NewSorter(t.TempDir(), 0)
	cut.budget = 1
	defer cut.Close()
	for _, text := range []string{"a", "b", "c", "d"} {
		if err := cut.Add([]byte(text), textRow(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cut.file.Truncate(cut.runs[2].end - 1); err != nil {
		t.Fatal(err)
	}
	if rows, err := sorted(cut); err == nil {
		t.Errorf("a cut file gave %d rows and no error", len(rows))
	}
}

// TestCase_O17_FlatMemory sorts far more than the budget and looks at the heap.
func TestCase_O17_FlatMemory(t *testing.T) {
	const rows, budget = 100_000, 16 << 20
	dir := t.TempDir()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := NewSorter(dir, budget)
	defer s.Close()
	random := rand.New(rand.NewPCG(1, 2))
	row := make([]Value, 60)
	for i := range row {
		row[i] = Value{KindText, strings.Repeat("x", 12)}
	}
	var peak uint64
	for i := range rows {
		key := fmt.Appendf(nil, "%08d", random.IntN(rows/2))
		row[0].Text = string(key)
		if err := s.Add(key, row); err != nil {
			t.Fatal(err)
		}
		if i%20_000 == 0 {
			peak = max(peak, heap())
		}
	}
	if len(s.runs) < 3 {
		t.Fatalf("only %d runs were spilled", len(s.runs))
	}
	n, last := 0, ""
	for row, err := range s.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		if row[0].Text < last || len(row) != 60 {
			t.Fatalf("row %d is out of order or cut: %s after %s", n, row[0].Text, last)
		}
		last = row[0].Text
		if n++; n%20_000 == 0 {
			peak = max(peak, heap())
		}
	}
	if n != rows {
		t.Fatalf("%d rows came out", n)
	}
	if used := peak - before; peak > before && used > 2*budget {
		t.Errorf("%d MiB of heap for a budget of %d MiB", used>>20, budget>>20)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}
