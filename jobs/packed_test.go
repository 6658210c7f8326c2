package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyText is short or long, and of any signs.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringN(120, 300, -1))
}

// Rows come back as they were added, in their order and in any other, from one block
// and from many.
func TestCellStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := strings.Repeat("0123456789abcdef", rapid.IntRange(0, 2000).Draw(t, "length"))
		rows := rapid.SliceOfN(rapid.SliceOfN(anyText(), 0, 5), 1, 20).Draw(t, "rows")
		var s cellStore
		for i := range rows {
			if i%3 == 1 {
				rows[i] = append(rows[i], long)
			}
			s.add(rows[i])
		}
		order := rapid.SliceOf(rapid.IntRange(1, len(rows))).Draw(t, "order")
		for number := range rows {
			order = append(order, number+1)
		}
		for _, number := range order {
			if got := s.of(number); !slices.Equal(got, rows[number-1]) {
				t.Fatalf("row %d is %q, want %q", number, got, rows[number-1])
			}
		}
	})
}

// What is kept is a part of the text, and stays as it is when more is added.
func TestCellStoreIsCompressed(t *testing.T) {
	const rows = 20_000
	row := func(i int) []string {
		return []string{fmt.Sprintf("%08x-1111-4111-8111-1111111111a1", i), fmt.Sprintf("WS-%06d", i), "Büro, 3. Stock", ""}
	}
	var s cellStore
	text := 0
	for i := range rows {
		s.add(row(i))
		text += len(strings.Join(row(i), ","))
		if i%1000 == 0 && !slices.Equal(s.of(1), row(0)) {
			t.Fatalf("after %d rows the first is %q", i+1, s.of(1))
		}
	}
	kept := cap(s.open.body)
	for _, b := range s.blocks {
		kept += cap(b.body)
	}
	if kept*3 > text {
		t.Errorf("%d bytes are kept of %d", kept, text)
	}
	for i := range rows {
		if got := s.of(i + 1); !slices.Equal(got, row(i)) {
			t.Fatalf("row %d is %q", i+1, got)
		}
	}
}

func TestPackedWants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) want {
			return want{anyText().Draw(t, "value"), rapid.Uint16().Draw(t, "setting"), rapid.Bool().Draw(t, "clear")}
		}), 0, 5).Draw(t, "wants")
		packed := packedWants(packWants(nil, wants))
		if got := slices.Collect(packed.all()); !slices.Equal(got, wants) {
			t.Fatalf("%v, want %v", got, wants)
		}
		for _, w := range wants {
			if got, ok := packed.of(w.setting); !ok || got.setting != w.setting {
				t.Fatalf("setting %d is %v", w.setting, got)
			}
		}
	})
}

func TestPackedOld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) oldValue {
			if rapid.Bool().Draw(t, "unknown") {
				return oldValue{}
			}
			return oldValue{text: anyText().Draw(t, "text"), known: true}
		}), 0, 8).Draw(t, "values")
		packed := packOld(values, &texts{})
		for i, want := range append(values, oldValue{}) {
			if got := packed.of(uint16(i)); got != want { //nolint:gosec // a few
				t.Fatalf("value %d is %v, want %v", i, got, want)
			}
		}
	})
}

// Texts stay what they were when others are kept beside them, and equal ones are one.
func TestTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(anyText()).Draw(t, "texts")
		list = append(list, strings.Repeat("x", 2*textsSize))
		var kept texts
		var once interned
		got, same := make([]string, len(list)), make([]string, len(list))
		buf := []byte{}
		for i, s := range list {
			buf = append(buf[:0], s...)
			got[i], same[i] = kept.keep(buf), once.one(string(buf))
		}
		if !slices.Equal(got, list) || !slices.Equal(same, list) {
			t.Fatalf("%q and %q, want %q", got, same, list)
		}
	})
}
