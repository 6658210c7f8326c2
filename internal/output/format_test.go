package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// awkward holds what files trip over. Its rows have a cell for each column of
// awkwardColumns: of the kind the column expects, of another one, and none.
var awkwardColumns = []Column{
	{Header: "uid", Path: "uid", Kind: KindText},
	{Header: "text", Path: "text", Kind: KindText},
	{Header: "count", Path: "count", Kind: KindInt},
	{Header: "online", Path: "online", Kind: KindBool},
	{Header: "seen", Path: "seen", Kind: KindDate},
	{Header: "ratio", Path: "ratio", Kind: KindNumber},
	{Header: "list", Path: "list", Kind: KindList},
	{Header: "raw", Path: "raw", Format: FormatRaw},
	{Header: "day", Path: "day", Format: FormatDate, Kind: KindDate},
}

var awkwardRecords = []string{
	`{"uid":"1","text":"plain","count":42,"online":true,"seen":1741219200000,"ratio":2.5,"list":[1,"x"],"raw":7,"day":"2027-03-31"}`,
	`{"uid":"2","text":"=1+1","count":-5,"online":false,"seen":"2025-07-01T12:30:00Z","ratio":0.1,"list":[],"raw":1.5e3,"day":1741219200000}`,
	`{"uid":"3","text":"00123","count":123456789012345678901234567890,"online":"maybe","seen":"tomorrow","ratio":1234567890.1234567,"list":{"a":1},"raw":true,"day":"x"}`,
	`{"uid":"4","text":"line\r\nbreak\tand \"quotes\" ü 漢 🦊 ","count":"007","online":1,"seen":12,"ratio":"1e5","list":"x","raw":"007","day":null}`,
	`{"uid":"5","text":"","count":9223372036854775807,"online":null,"seen":0,"ratio":7,"list":null,"raw":null}`,
	`{"uid":"6","text":"'=x","count":9007199254740993,"online":true,"seen":"1890-01-02T03:04:05Z","ratio":9007199254740993,"list":[],"raw":"1e5"}`,
}

// writeFormat gives the bytes of a file and its warnings.
func writeFormat(t testing.TB, format string, spec Spec, records ...string) ([]byte, []string) {
	t.Helper()
	var b bytes.Buffer
	if spec.Temp == "" {
		spec.Temp = t.TempDir()
	}
	warnings := writeTo(t, &b, format, spec, records...)
	if left := list(t, spec.Temp); len(left) != 0 {
		t.Errorf("%s leaves %q behind", format, left)
	}
	return b.Bytes(), warnings
}

func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func writeTo(t testing.TB, to io.Writer, format string, spec Spec, records ...string) []string {
	t.Helper()
	w, err := New(format, to, spec)
	if err != nil {
		t.Fatal(err)
	}
	style := StyleFor(format, spec.Style)
	var row []Value
	for _, r := range records {
		row = Row(row, spec.Columns, parse(t, r), style)
		if err := w.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	clear(row) // writers must not keep the caller's slice
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != int64(len(records)) {
		t.Errorf("%s: Rows = %d, want %d", format, w.Rows(), len(records))
	}
	if err := errors.Join(w.Close(), Discard(w)); err != nil {
		t.Errorf("%s: Close and Discard after Close: %v", format, err)
	}
	return Warnings(w)
}

// formats are those this build can write, with what New needs for each.
func formats() map[string]Spec {
	specs := map[string]Spec{}
	for _, f := range FileFormats() {
		if f.Unavailable == "" {
			specs[f.Name] = Spec{Source: "devices", Columns: awkwardColumns, Key: nil}
		}
	}
	db := specs[FileSQLite]
	db.Key = []string{"uid"}
	specs[FileSQLite] = db
	return specs
}

func TestFormatsAreDeterministic(t *testing.T) {
	for format, spec := range formats() {
		for _, records := range [][]string{nil, awkwardRecords} {
			first, _ := writeFormat(t, format, spec, records...)
			second, _ := writeFormat(t, format, spec, records...)
			if len(first) == 0 && format != FileJSONL || !bytes.Equal(first, second) {
				t.Errorf("%s with %d rows: %d and %d bytes, equal: %v", format, len(records), len(first), len(second), bytes.Equal(first, second))
			}
		}
	}
}

func TestFormatErrorsAreKept(t *testing.T) {
	full := errors.New("disk full")
	for format, spec := range formats() {
		spec.Temp = t.TempDir()
		start := func(to io.Writer) Writer {
			w, err := New(format, to, spec)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		row := Row(nil, spec.Columns, parse(t, awkwardRecords[0]), Style{})

		w := start(writerFunc(func([]byte) (int, error) { return 0, full }))
		_ = w.Row(row)
		if err := w.Close(); !errors.Is(err, full) {
			t.Errorf("%s: Close on a full disk = %v", format, err)
		}
		if err := w.Close(); !errors.Is(err, full) {
			t.Errorf("%s: the error is forgotten: %v", format, err)
		}

		w = start(io.Discard)
		if err := w.Row(row[1:]); err == nil {
			t.Errorf("%s: a row that is too short is accepted", format)
		}
		if err := w.Row(row); err == nil || w.Close() == nil || w.Rows() != 0 {
			t.Errorf("%s: an error is forgotten", format)
		}

		var written bytes.Buffer
		w = start(&written)
		if err := errors.Join(w.Row(row), Discard(w), Discard(w)); err != nil {
			t.Errorf("%s: Discard = %v", format, err)
		}
		if left := list(t, spec.Temp); len(left) != 0 {
			t.Errorf("%s: %q is left after Discard", format, left)
		}
	}
	if Discard(nil) != nil || Warnings(nil) != nil {
		t.Error("no writer is not nothing")
	}
}

func TestNewRefuses(t *testing.T) {
	columns := awkwardColumns
	for _, tt := range []struct {
		format string
		spec   Spec
		want   string
	}{
		{"xlxs", Spec{Columns: columns}, `did you mean "xlsx"`},
		{"", Spec{Columns: columns}, "no file format"},
		{FileJSON, Spec{}, "at least one column"},
		{FileXLSX, Spec{Columns: make([]Column, 16_385)}, "16384"},
		{FileXLSX, Spec{Columns: columns, Temp: "does/not/exist"}, "does/not/exist"},
		{FileSQLite, Spec{Columns: columns}, "by a key only"},
		{FileSQLite, Spec{Columns: columns, Key: []string{"serial"}}, "none of the columns"},
		{FileSQLite, Spec{Columns: columns, Key: []string{"uid"}, Mode: "append"}, "mode"},
		{FileCSV, Spec{Columns: columns, CSV: CSVOptions{Delimiter: '"'}}, "delimiter"},
	} {
		w, err := New(tt.format, io.Discard, tt.spec)
		if w != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%q) = %v, %v, want an error with %q", tt.format, w, err, tt.want)
		}
	}
}

func TestFileFormats(t *testing.T) {
	for path, want := range map[string]string{
		"a.csv": "csv", `out\A.CSV`: "csv", "a.ndjson": "jsonl", "a.jsonl": "jsonl", "a.json": "json", "x/y.XLSX": "xlsx",
		"a.db": "sqlite", "a.sqlite": "sqlite", "a.sqlite3": "sqlite", "a.parquet": "parquet", "a.xls": "", "a": "", "-": "", "": "",
	} {
		if f, ok := FileFormatOf(path); f.Name != want || ok != (want != "") {
			t.Errorf("FileFormatOf(%q) = %q", path, f.Name)
		}
	}
	known := []string{"bom", "delimiter", "eol", "dates", "timezone", "formulas", "newlines", "publish", "key", "mode"}
	endings := map[string]bool{}
	for _, f := range FileFormats() {
		if got, ok := FileFormatNamed(f.Name); !ok || got.Name != f.Name {
			t.Errorf("%s is not found by its name", f.Name)
		}
		for _, e := range f.Endings {
			if endings[e] || e != strings.ToLower(e) || e[0] != '.' {
				t.Errorf("%s: the ending %q", f.Name, e)
			}
			endings[e] = true
		}
		for _, o := range f.Options {
			if !slices.Contains(known, o) || !f.Takes(o) {
				t.Errorf("%s: the option %q", f.Name, o)
			}
		}
		if f.Takes("path") {
			t.Errorf("%s takes anything", f.Name)
		}
	}
	if _, ok := FileFormatNamed("html"); ok {
		t.Error("html is a format")
	}
}

func TestStyleFor(t *testing.T) {
	all := Style{Dates: DatesMS, Formulas: "guard", Newlines: "space"}
	for _, tt := range []struct {
		format   string
		in, want Style
	}{
		{FileCSV, all, all},
		{FileCSV, Style{}, Style{}},
		{FileJSON, all, Style{Dates: DatesMS}},
		{FileXLSX, all, Style{Dates: DatesMS, Newlines: "space"}},
		{FileXLSX, Style{}, Style{Dates: DatesExcel}},
		{FileXLSX, Style{Dates: DatesRFC3339}, Style{Dates: DatesRFC3339}},
		{FileSQLite, all, Style{Dates: DatesMS}},
		{FileParquet, all, Style{}},
		{"html", all, all},
	} {
		if got := StyleFor(tt.format, tt.in); got != tt.want {
			t.Errorf("StyleFor(%s, %+v) = %+v, want %+v", tt.format, tt.in, got, tt.want)
		}
	}
}

func TestJSON(t *testing.T) {
	columns := awkwardColumns[:4]
	for _, tt := range []struct {
		records []string
		want    string
	}{
		{nil, "[]\n"},
		{[]string{`{"uid":"ü\"","text":"<&>","count":7,"online":true}`}, "[\n{\"uid\":\"ü\\\"\",\"text\":\"<&>\",\"count\":7,\"online\":true}\n]\n"},
		{[]string{`{"uid":"a"}`, `{"uid":null,"count":1e3}`}, "[\n{\"uid\":\"a\",\"text\":null,\"count\":null,\"online\":null},\n{\"uid\":null,\"text\":null,\"count\":1000,\"online\":null}\n]\n"},
	} {
		got, _ := writeFormat(t, FileJSON, Spec{Columns: columns}, tt.records...)
		if string(got) != tt.want {
			t.Errorf("%q, want\n%q", got, tt.want)
		}
	}
}

// TestJSONIsJSONL holds JSON to what JSON lines say.
func TestJSONIsJSONL(t *testing.T) {
	array, _ := writeFormat(t, FileJSON, Spec{Columns: awkwardColumns}, awkwardRecords...)
	lines, _ := writeFormat(t, FileJSONL, Spec{Columns: awkwardColumns}, awkwardRecords...)
	var objects []json.RawMessage
	if err := json.Unmarshal(array, &objects); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, o := range objects {
		b.Write(o)
		b.WriteByte('\n')
	}
	if !bytes.Equal(b.Bytes(), lines) {
		t.Errorf("the array holds\n%s, the lines are\n%s", &b, lines)
	}
}

func TestJSONStaysOpenAfterAnError(t *testing.T) {
	var b bytes.Buffer
	w, err := NewJSON(&b, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Row(textRow("1", "2")); err != nil {
		t.Fatal(err)
	}
	if w.Row(textRow("1")) == nil || w.Close() == nil || json.Valid(b.Bytes()) {
		t.Errorf("a broken file is a whole one: %s", &b)
	}
}

func TestUniqueNames(t *testing.T) {
	for _, tt := range []struct {
		in, want []string
		limit    int
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, 9},
		{[]string{"Name", "name", "NAME", "name 2"}, []string{"Name", "name 2", "NAME 3", "name 2 2"}, 9},
		{[]string{"", " ", "a\nb\x00"}, []string{"column 1", "column 2", "a b "}, 9},
		{[]string{"abcdef", "abcdeg", "🦊🦊🦊"}, []string{"abcde", "abc 2", "🦊🦊"}, 5},
		{[]string{"ſ", "s", "S"}, []string{"ſ", "s 2", "S 3"}, 9},
	} {
		if got := uniqueNames(tt.in, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("uniqueNames(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(8, 20).Draw(t, "limit")
		in := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[aAbßſK ]{0,9}( [23])?`), rapid.String()), 1, 12).Draw(t, "names")
		used := map[string]bool{}
		for _, name := range uniqueNames(in, limit) {
			if used[fold(name)] || strings.TrimSpace(name) == "" || len(utf16.Encode([]rune(name))) > limit {
				t.Fatalf("%q becomes %q", in, uniqueNames(in, limit))
			}
			used[fold(name)] = true
		}
	})
}

func TestIdentifier(t *testing.T) {
	for in, want := range map[string]string{"site-devices": "site_devices", "Devices": "devices", "1st": "_1st", "Büro": "b__ro", "": "data", "--": "data", "a;drop": "a_drop"} {
		if got := identifier(in); got != want {
			t.Errorf("identifier(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestExactFloat(t *testing.T) {
	for in, want := range map[string]float64{
		"0": 0, "-0": 0, "0.0": 0, "1": 1, "-1.5": -1.5, "123456789012345": 123456789012345, "0.00000123456789012345": 0.00000123456789012345, "1.5e3": 1500, "1E-3": 0.001,
	} {
		if got, ok := exactFloat(in); !ok || got != want {
			t.Errorf("exactFloat(%q) = %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "x", "1234567890123456", "1.234567890123456", "1e308", "1e400", "1e-320", "1e-999", "0x1", "NaN", "Infinity", "1_0", "+1", "007"} {
		if got, ok := exactFloat(in); ok {
			t.Errorf("exactFloat(%q) = %v", in, got)
		}
	}
}

// TestCase_R07_DiscardedFile gives up half-way: neither the target nor a
// temporary file may be there.
func TestCase_R07_DiscardedFile(t *testing.T) {
	for format, spec := range formats() {
		dir := t.TempDir()
		spec.Temp = dir
		f, err := Create(filepath.Join(dir, "devices"), "r1")
		if err != nil {
			t.Fatal(err)
		}
		w, err := New(format, f, spec)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if err := w.Row(Row(nil, spec.Columns, parse(t, awkwardRecords[0]), StyleFor(format, Style{}))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(Discard(w), f.Abort()); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if left := list(t, dir); len(left) != 0 {
			t.Errorf("%s leaves %q", format, left)
		}
	}
}
