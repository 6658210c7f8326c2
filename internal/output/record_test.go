package output

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func parse(t testing.TB, text string) Record {
	t.Helper()
	rec, err := ParseRecord([]byte(text))
	if err != nil {
		t.Fatalf("ParseRecord(%s): %v", text, err)
	}
	return rec
}

func TestParseRecord(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"a":1,"b":null}`, `{"a":1,"b":null}`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"":"x","A":1,"a":2}`, `{"":"x","A":1,"a":2}`},
		{`null`, `{}`},
		{`"odd"`, `{"value":"odd"}`},
		{`[1,2]`, `{"value":[1,2]}`},
		{` {"n":12345678901234567890} `, `{"n":12345678901234567890}`},
	} {
		if got := jsonText(parse(t, tt.in)); got != tt.want {
			t.Errorf("ParseRecord(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
	for _, in := range []string{``, `{`, `{"a":1} {}`, `{"a":}`, `{"a":1}x`} {
		if rec, err := ParseRecord([]byte(in)); err == nil || rec != nil {
			t.Errorf("ParseRecord(%s) = %v, %v, want an error and nothing else", in, rec, err)
		}
	}
}

func TestLookup(t *testing.T) {
	rec := parse(t, `{
		"plain": 1, "none": null, "a": {"b": {"c": "nested"}, "": "empty key", "b.c": "half literal"},
		"x.y": {"z": "parent with a dot"}, "x": {"y": {"w": "plain parent"}},
		"list": [{"n": "one"}, {"m": 0}, {"n": "two"}, "text"], "deep": [[{"n": 1}], [{"n": 2}]],
		"details": "{\"job.name\":\"Restart\",\"data\":{\"k\":true}}", "open": "{not json", "": "top", "literal.": 5
	}`)
	for _, tt := range []struct {
		path, want string
		missing    bool
	}{
		{path: "plain", want: `1`},
		{path: "none", want: `null`},
		{path: "a.b.c", want: `"half literal"`},
		{path: "a.", want: `"empty key"`},
		{path: "a.b", want: `{"c":"nested"}`},
		{path: "x.y.z", want: `"parent with a dot"`},
		{path: "x.y.w", want: `"plain parent"`},
		{path: "literal.", want: `5`},
		{path: "", want: `"top"`},
		{path: "list.0.n", want: `"one"`},
		{path: "list.3", want: `"text"`},
		{path: "list.n", want: `["one","two"]`},
		{path: "deep.n", want: `[[1],[2]]`},
		{path: "deep.1.0.n", want: `2`},
		{path: "details.job.name", want: `"Restart"`},
		{path: "details.data.k", want: `true`},
		{path: "list.9", missing: true},
		{path: "list.9.n", missing: true},
		{path: "list.-1", missing: true},
		{path: "list.q", missing: true},
		{path: "plain.x", missing: true},
		{path: "none.x", missing: true},
		{path: "open.x", missing: true},
		{path: "Plain", missing: true},
		{path: "a.b.d", missing: true},
	} {
		got, ok := rec.Lookup(tt.path)
		if ok == tt.missing {
			t.Errorf("Lookup(%q): found = %v", tt.path, ok)
		} else if ok && jsonText(got) != tt.want {
			t.Errorf("Lookup(%q) = %s, want %s", tt.path, jsonText(got), tt.want)
		}
	}
}

func TestRecordText(t *testing.T) {
	rec := parse(t, `{"s":"x","n":1.0E3,"o":{"k":[1]},"z":null}`)
	for path, want := range map[string]string{"s": "x", "n": "1000", "o": `{"k":[1]}`, "z": "", "gone": ""} {
		if got := rec.Text(path); got != want {
			t.Errorf("Text(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestExplode(t *testing.T) {
	for _, tt := range []struct {
		name, in, path string
		want           []string
	}{
		{"two", `{"h":"A","software":[{"n":1},{"n":2}]}`, "software", []string{`{"h":"A","software":{"n":1}}`, `{"h":"A","software":{"n":2}}`}},
		{"nested", `{"audit":{"b":0,"nics":["x","y"]}}`, "audit.nics", []string{`{"audit":{"b":0,"nics":"x"}}`, `{"audit":{"b":0,"nics":"y"}}`}},
		{"literal key", `{"audit.nics":["x"]}`, "audit.nics", []string{`{"audit.nics":"x"}`}},
		{"empty list keeps the row", `{"h":"A","software":[]}`, "software", []string{`{"h":"A","software":null}`}},
		{"null", `{"h":"A","software":null}`, "software", []string{`{"h":"A","software":null}`}},
		{"missing", `{"h":"A"}`, "software", []string{`{"h":"A"}`}},
		{"single object", `{"software":{"n":1}}`, "software", []string{`{"software":{"n":1}}`}},
	} {
		rec := parse(t, tt.in)
		before := jsonText(rec)
		var got []string
		for r := range rec.Explode(tt.path) {
			got = append(got, jsonText(r))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: Explode = %q, want %q", tt.name, got, tt.want)
		}
		if after := jsonText(rec); after != before {
			t.Errorf("%s: the record changed to %s", tt.name, after)
		}
	}
	n := 0
	for range parse(t, `{"l":[1,2,3]}`).Explode("l") {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("breaking off after 2 records gave %d", n)
	}
}

func TestPlainNumber(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-5": "-5", "502084122": "502084122", "1530822939367": "1530822939367", "1.50": "1.50",
		"12345678901234567890123": "12345678901234567890123",
		"1.72113126044E9":         "1721131260.44", "1.5e+12": "1500000000000", "5.02084122E8": "502084122",
		"-1.25e-3": "-0.00125", "0e5": "0", "-0.0E0": "0", "1E0": "1", "100e-2": "1", "1e-40": "0." + strings.Repeat("0", 39) + "1",
		"1e41": "1e41", "1e-41": "1e-41", "1e99999999999999999999": "1e99999999999999999999",
	} {
		if got := plainNumber(in); got != want {
			t.Errorf("plainNumber(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestIsNumber(t *testing.T) {
	for _, s := range []string{"0", "-0", "12", "1.5", "1e5", "-1.25E-3", "", "-", "01", "1.", ".5", "1e", "+1", "0x1", "1 ", "NaN", "1e+5", "1e+", "--1"} {
		if got, want := isNumber(s), s != "1 " && json.Valid([]byte(s)) && !strings.ContainsAny(s, "N"); got != want {
			t.Errorf("isNumber(%q) = %v, want %v", s, got, want)
		}
	}
}

func FuzzRecordPath(f *testing.F) {
	f.Add(`{"a":{"b":[{"c":1},{"c":2}]},"a.b":{"":null}}`, "a.b.c")
	f.Add(`{"":{"":{"":1}}}`, "..")
	f.Add(`{"d":"{\"x.y\":[1]}"}`, "d.x.y.0")
	f.Add(`{"alertContext":{"@class":"comp_script_ctx","samples":{"":"Status","a.b":"1","A.B":"2"}}}`, "alertContext.samples.a.b")
	f.Fuzz(func(t *testing.T, text, path string) {
		if len(path) > 64 || len(text) > 4096 {
			t.Skip()
		}
		rec, err := ParseRecord([]byte(text))
		if err != nil {
			return
		}
		before := jsonText(rec)
		v, ok := rec.Lookup(path)
		if literal, there := rec[path]; there && (!ok || !reflect.DeepEqual(v, literal)) {
			t.Errorf("Lookup(%q) does not give the key of that very name", path)
		}
		if !ok && v != nil {
			t.Errorf("Lookup(%q) = %v although it was not found", path, v)
		}
		for _, format := range append(Formats(), "") {
			for _, kind := range []Kind{KindText, KindDate, KindList} {
				cell := Column{Path: path, Format: format, Kind: kind}.Cell(rec, Style{Formulas: "guard", Newlines: "escape"})
				if cell.Kind == KindNull && cell.Text != "" {
					t.Errorf("an empty cell holds %q", cell.Text)
				}
				if (cell.Kind == KindObject || cell.Kind == KindList) && !json.Valid([]byte(cell.Text)) {
					t.Errorf("%q is no JSON text", cell.Text)
				}
			}
		}
		rows := 0
		for range rec.Explode(path) {
			rows++
		}
		if rows == 0 {
			t.Error("a record vanished in Explode")
		}
		if after := jsonText(rec); after != before {
			t.Errorf("reading changed the record from %s to %s", before, after)
		}
	})
}
