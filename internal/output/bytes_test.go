package output

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		in, unit, want string
		kind           Kind
	}{
		{`0`, "", "0 B", KindText},
		{`1023`, "", "1023 B", KindText},
		{`1536`, "", "1.5 KiB", KindText},
		{`17179869184`, "", "16 GiB", KindText},
		{`"255481351168"`, "", "237.94 GiB", KindText},
		{`-2048`, "", "-2 KiB", KindText},
		{`1e18`, "", "888.18 PiB", KindText},
		{`255481351168`, "GiB", "237.94", KindNumber},
		{`255481351168`, "GB", "255.48", KindNumber},
		{`17179869184`, "MiB", "16384", KindInt},
		{`5`, "B", "5", KindInt},
		{`0`, "TB", "0", KindInt},
		{`[1024, null, 2048]`, "", "1 KiB; 2 KiB", KindText},
		{`[]`, "", "", KindNull},
		{`"unknown"`, "GiB", "unknown", KindText},
		{`null`, "GiB", "", KindNull},
		{`{"size":1}`, "", `{"size":1}`, KindObject},
	} {
		c := Column{Header: "n", Path: "n", Format: FormatBytes, Kind: KindInt, Argument: Argument{Unit: tt.unit}}
		got := c.Cell(parse(t, `{"n":`+tt.in+`}`), Style{})
		if got != (Value{tt.kind, tt.want}) {
			t.Errorf("%s in %q = %+v, want %q", tt.in, tt.unit, got, tt.want)
		}
	}
	for _, unit := range Units() {
		if unitSize(unit) < 1 {
			t.Errorf("the unit %s has no size", unit)
		}
	}
	if unitSize("GiB") != 1<<30 || unitSize("GB") != 1e9 || unitSize("parsec") != 0 {
		t.Error("a unit has the wrong size")
	}
}

func TestCount(t *testing.T) {
	for in, want := range map[string]Value{
		`[]`: {KindInt, "0"}, `[1,null]`: {KindInt, "2"}, `"one"`: {KindInt, "1"}, `null`: {},
	} {
		if got := (Column{Path: "n", Format: FormatCount, Kind: KindList}).Cell(parse(t, `{"n":`+in+`}`), Style{}); got != want {
			t.Errorf("%s = %+v", in, got)
		}
	}
}

func TestOrder(t *testing.T) {
	// In ascending order, without the last two, which stand for the same instant.
	values := []string{`null`, `"2025-03-06T00:00:00Z"`, `1741219201000`, `"2025-03-07T01:00:00+01:00"`, `1741305600000`}
	for _, descending := range []bool{false, true} {
		order := []Order{{Path: "v", Kind: KindDate, Descending: descending}}
		for i := range values[:4] {
			a, b := SortKey(parse(t, `{"v":`+values[i]+`}`), order), SortKey(parse(t, `{"v":`+values[i+1]+`}`), order)
			want := -1
			switch {
			case i == 3:
				want = 0
			case descending:
				want = 1
			}
			if got := slices.Compare(a, b); got != want {
				t.Errorf("descending %v: %s before %s: %d, want %d", descending, values[i], values[i+1], got, want)
			}
		}
	}
	// What comes after a descending path is not turned over, and a text that
	// begins another is still told from it.
	order := []Order{{Path: "a", Descending: true}, {Path: "b"}}
	var keys [][]byte
	for _, raw := range []string{`{"a":"xy","b":1}`, `{"a":"xy","b":2}`, `{"a":"x","b":9}`, `{"a":"x","b":10}`, `{"a":7,"b":0}`, `{"b":3}`} {
		keys = append(keys, SortKey(parse(t, raw), order))
	}
	if !slices.IsSortedFunc(keys, slices.Compare[[]byte]) {
		t.Errorf("keys %q", keys)
	}
}

func TestFormatArguments(t *testing.T) {
	zone := mustZone(t, "Europe/Berlin")
	rec := parse(t, `{"tags":["a","b"],"at":1741219200000}`)
	join := Column{Path: "tags", Format: FormatJoin, Kind: KindList, Argument: Argument{Separator: " | "}}
	if got := join.Cell(rec, Style{}).Text; got != "a | b" {
		t.Errorf("join %q", got)
	}
	for format, want := range map[string]string{"": "2025-03-06T01:00:00+01:00", DatesExcel: "2025-03-06 01:00:00", DatesMS: "1741219200000"} {
		c := Column{Header: "at", Path: "at", Format: format, Kind: KindDate, Argument: Argument{Zone: zone}}
		// The zone of the column goes before that of the output.
		cell := c.Cell(rec, Style{Location: mustZone(t, "Asia/Tokyo")})
		if cell.Text != want || !c.Unchanged(cell.Text, rec, Style{Location: mustZone(t, "Asia/Tokyo")}) {
			t.Errorf("%s: %q", format, cell.Text)
		}
		if head := Headers([]Column{c}, Style{})[0]; (format == DatesExcel) != (head == "at (Europe/Berlin)") {
			t.Errorf("%s: header %q", format, head)
		}
	}
}

func TestExploded(t *testing.T) {
	columns, err := Resolve("devices", nil, "software")
	if err != nil {
		t.Fatal(err)
	}
	got := Exploded("devices", columns, "software")
	if n := len(columns); len(got) != n+1 || got[n-1].Header != "software.name" || got[n].Header != "software.version" {
		t.Errorf("columns %v", Headers(got[len(columns)-1:], Style{}))
	}
	if got := Exploded("devices", columns, "hostname"); len(got) != len(columns) {
		t.Errorf("a field that is no list has become %d columns", len(got))
	}
}

func TestNestedElements(t *testing.T) {
	for element, want := range map[string]string{
		"site-variables":   "siteUid siteName id name value masked",
		"device-software":  "siteUid siteName deviceUid hostname name version",
		"job-stdout":       "jobUid deviceUid componentUid componentName stdData",
		"site-alerts-open": "",
	} {
		for _, preset := range []string{PresetDefault, PresetAll} {
			columns, ok := Preset(element, preset)
			heads := Headers(columns, Style{})
			if want == "" {
				// Alerts tell their site and device themselves.
				if heads[0] != "alertUid" || slices.Contains(heads, "siteUid") {
					t.Errorf("%s of %s: %v", preset, element, heads)
				}
				if _, err := Resolve(element, []ColumnSpec{{Path: "siteName"}}); err != nil {
					t.Errorf("%s: %v", element, err)
				}
				continue
			}
			if got := strings.Join(heads, " "); !ok || got != want {
				t.Errorf("%s of %s: %s, want %s", preset, element, got, want)
			}
		}
	}
}

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
