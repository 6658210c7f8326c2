package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func textRow(texts ...string) []Value {
	row := make([]Value, len(texts))
	for i, text := range texts {
		row[i] = Value{KindText, text}
	}
	return row
}

// writeCSV gives the bytes of a file.
func writeCSV(t testing.TB, opts CSVOptions, headers []string, rows ...[]Value) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewCSV(&b, headers, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := w.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != int64(len(rows)) {
		t.Errorf("Rows = %d, want %d", w.Rows(), len(rows))
	}
	return b.String()
}

func TestCSV(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opts    CSVOptions
		headers []string
		rows    [][]Value
		want    string
	}{
		{"defaults", CSVOptions{}, []string{"a", "b"}, [][]Value{{{KindInt, "1"}, {}}}, "a,b\r\n1,\r\n"},
		{"no rows", CSVOptions{}, []string{"a"}, nil, "a\r\n"},
		{"options", CSVOptions{BOM: true, Delimiter: ';', EOL: "\n"}, []string{"a", "b"}, [][]Value{textRow("x,y", "p;q")}, "\xef\xbb\xbfa;b\nx,y;\"p;q\"\n"},
		{"words for line ends", CSVOptions{Delimiter: '\t', EOL: "lf"}, []string{"a", "b"}, [][]Value{textRow("x y", "p\tq")}, "a\tb\nx y\t\"p\tq\"\n"},
		{"quotes and breaks", CSVOptions{EOL: "crlf"}, []string{"a"}, [][]Value{textRow(`say "hi"`), textRow("x\r\ny\nz\r")}, "a\r\n\"say \"\"hi\"\"\"\r\n\"x\r\ny\nz\r\"\r\n"},
		{
			"blanks at the ends",
			CSVOptions{},
			[]string{"a", "b", "c"},
			[][]Value{textRow(" x", "x ", "x y"), textRow("\u00a0x", "x\u2003", "\x00"), textRow("\ufeffx", "\t", "ü")},
			"a,b,c\r\n\" x\",\"x \",x y\r\n\"\u00a0x\",\"x\u2003\",\x00\r\n\"\ufeffx\",\"\t\",ü\r\n",
		},
		{"empty single cell", CSVOptions{}, []string{"a"}, [][]Value{textRow("")}, "a\r\n\"\"\r\n"},
		{"looks like a comment", CSVOptions{}, []string{"#a", "b"}, [][]Value{textRow("#x", `\.`)}, "\"#a\",b\r\n\"#x\",\"\\.\"\r\n"},
		{"looks like SYLK", CSVOptions{}, []string{"ID", "IDs"}, nil, "\"ID\",IDs\r\n"},
		{"not UTF-8", CSVOptions{}, []string{"a", "b"}, [][]Value{textRow("\xff", "x\xff")}, "a,b\r\n\xff,x\xff\r\n"},
		{"wide delimiter", CSVOptions{Delimiter: '¦'}, []string{"a", "b"}, [][]Value{textRow("x¦", "")}, "a¦b\r\n\"x¦\"¦\r\n"},
	} {
		if got := writeCSV(t, tt.opts, tt.headers, tt.rows...); got != tt.want {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

func TestCSVRefuses(t *testing.T) {
	for _, opts := range []CSVOptions{{Delimiter: '"'}, {Delimiter: '\n'}, {Delimiter: '\r'}, {Delimiter: '\ufeff'}, {Delimiter: utf8.RuneError}, {Delimiter: -1}, {EOL: "\r"}} {
		if w, err := NewCSV(io.Discard, []string{"a"}, opts); err == nil || w != nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
	if _, err := NewCSV(io.Discard, nil, CSVOptions{}); err == nil {
		t.Error("a file without columns is accepted")
	}
	if _, err := NewJSONL(io.Discard, nil); err == nil {
		t.Error("JSON lines without columns are accepted")
	}
}

// writers makes both kinds of writer with two columns.
func writers(t *testing.T, to io.Writer) map[string]Writer {
	t.Helper()
	c, err := NewCSV(to, []string{"a", "b"}, CSVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := NewJSONL(to, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Writer{"csv": c, "jsonl": j}
}

func TestWritersKeepTheirError(t *testing.T) {
	for name, w := range writers(t, io.Discard) {
		if err := w.Row(textRow("only one")); err == nil {
			t.Errorf("%s: a row that is too short is accepted", name)
		}
		if err := w.Row(textRow("a", "b")); err == nil || w.Close() == nil || w.Rows() != 0 {
			t.Errorf("%s: the error is forgotten", name)
		}
	}
	full := errors.New("disk full")
	for name, w := range writers(t, writerFunc(func([]byte) (int, error) { return 0, full })) {
		big := strings.Repeat("x", bufferSize)
		if err := errors.Join(w.Row(textRow(big, "b")), w.Row(textRow(big, "b"))); !errors.Is(err, full) {
			t.Errorf("%s: Row = %v", name, err)
		}
		if err := w.Close(); !errors.Is(err, full) {
			t.Errorf("%s: Close = %v", name, err)
		}
	}
	for name, w := range writers(t, writerFunc(func([]byte) (int, error) { return 0, full })) {
		if err := w.Row(textRow("a", "b")); err != nil {
			t.Errorf("%s: Row = %v", name, err)
		}
		if err := w.Close(); !errors.Is(err, full) {
			t.Errorf("%s: an error at the last moment is lost: %v", name, err)
		}
	}
}

func TestCase_R03_FullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	for name, w := range writers(t, full) {
		if err := errors.Join(w.Row(textRow("a", "b")), w.Close()); err == nil {
			t.Errorf("%s: a full disk went unnoticed", name)
		}
	}
}

func TestCase_O12_BOM(t *testing.T) {
	for _, bom := range []bool{true, false} {
		got := writeCSV(t, CSVOptions{BOM: bom}, []string{"hostname"}, textRow("Büro"))
		if strings.HasPrefix(got, "\xef\xbb\xbf") != bom || !strings.Contains(got, "B\xc3\xbcro\r\n") {
			t.Errorf("bom %v: %q", bom, got)
		}
	}
}

func TestCase_O14_ValuesUnchanged(t *testing.T) {
	rec := parse(t, `{"siteName":"Müller, \"Nord\"","description":"one\ntwo"}`)
	columns := mustResolve(t, "devices", "siteName", "description")
	file := writeCSV(t, CSVOptions{}, Headers(columns, Style{}), Row(nil, columns, rec, Style{}))
	rows, err := csv.NewReader(strings.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows[1], []string{`Müller, "Nord"`, "one\ntwo"}) {
		t.Errorf("read back: %q", rows)
	}
}

// roundTrip writes rows and reads them with encoding/csv. That reader turns a
// CRLF inside quotes into LF, so the cells are compared that way.
func roundTrip(t interface {
	Fatalf(string, ...any)
}, opts CSVOptions, rows [][]string,
) {
	var b bytes.Buffer
	w, err := NewCSV(&b, rows[0], opts)
	if err != nil {
		t.Fatalf("NewCSV: %v", err)
	}
	for _, row := range rows[1:] {
		if err := w.Row(textRow(row...)); err != nil {
			t.Fatalf("Row: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	text := strings.TrimPrefix(b.String(), "\ufeff")
	r := csv.NewReader(strings.NewReader(text))
	if opts.Delimiter != 0 {
		r.Comma = opts.Delimiter
	}
	got, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if len(got) != len(rows) {
		t.Fatalf("%q has %d lines, want %d", text, len(got), len(rows))
	}
	for i, row := range rows {
		for k, cell := range row {
			if want := strings.ReplaceAll(cell, "\r\n", "\n"); got[i][k] != want {
				t.Fatalf("cell %d of line %d = %q, want %q", k, i, got[i][k], want)
			}
		}
	}
}

func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := CSVOptions{
			BOM:       rapid.Bool().Draw(t, "bom"),
			Delimiter: rapid.SampledFrom([]rune{0, ',', ';', '\t', '|', '¦'}).Draw(t, "delimiter"),
			EOL:       rapid.SampledFrom([]string{"", "\r\n", "\n"}).Draw(t, "eol"),
		}
		columns := rapid.IntRange(1, 4).Draw(t, "columns")
		cell := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ ,;|"#=\r\n\t]{0,4}`))
		row := rapid.SliceOfN(cell, columns, columns)
		rows := rapid.SliceOfN(row, 1, 5).Draw(t, "rows")
		roundTrip(t, opts, rows)
	})
}

func FuzzCSVRoundTrip(f *testing.F) {
	f.Add("a", "b\r\n", `"`, ",", true)
	f.Add("", " ", "\ufeff", ";", false)
	f.Add(`\.`, "#", "\r", "\t", true)
	f.Add("'=1+1", "ID", "\x00", "|", false)
	f.Fuzz(func(t *testing.T, a, b, c, delimiter string, bom bool) {
		opts := CSVOptions{BOM: bom, Delimiter: []rune(delimiter + ",")[0]}
		if _, err := NewCSV(io.Discard, []string{"x"}, opts); err != nil {
			return
		}
		roundTrip(t, opts, [][]string{{"x", "y", "z"}, {a, b, c}, {c, "", a}})
		roundTrip(t, opts, [][]string{{"x"}, {a}, {""}, {b}})
	})
}

func TestJSONL(t *testing.T) {
	columns := mustResolve(t, "devices", "hostname", "id", "online", "lastSeen", "Raw=lastSeen!ms", "deviceType", "nics!raw", "x\"<&\n!raw", "patchManagement!json", "softwareStatus!json", "siteId!raw")
	rec := parse(t, `{"hostname":"Büro <&> \"1\"\u2028\u0001\t","id":502084122,"online":true,"lastSeen":1741219200000,
		"deviceType":{"type":"x"},"nics":[1,2],"softwareStatus":"ok","siteId":1.5E3}`)
	var b bytes.Buffer
	w, err := NewJSONL(&b, Headers(columns, Style{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Row(Row(nil, columns, rec, Style{})), w.Row(Row(nil, columns, Record{}, Style{})), w.Close()); err != nil {
		t.Fatal(err)
	}
	want := `{"hostname":"Büro <&> \"1\"` + "\u2028" + `\u0001\t","id":502084122,"online":true,"lastSeen":"2025-03-06T00:00:00Z","Raw":1741219200000,` +
		`"deviceType":{"type":"x"},"nics":[1,2],"x\"<&\n":null,"patchManagement":null,"softwareStatus":"ok","siteId":1.5E3}` + "\n" +
		`{"hostname":null,"id":null,"online":null,"lastSeen":null,"Raw":null,"deviceType":null,"nics":null,"x\"<&\n":null,"patchManagement":null,"softwareStatus":null,"siteId":null}` + "\n"
	if b.String() != want || w.Rows() != 2 {
		t.Errorf("JSON lines:\n%s, want\n%s", b.String(), want)
	}
}

func TestJSONLAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		})).Draw(t, "text")
		var b bytes.Buffer
		w, err := NewJSONL(&b, []string{"h" + text, "n"})
		if err != nil {
			t.Fatal(err)
		}
		// A cell that says number but is none must not break the line.
		if err := errors.Join(w.Row([]Value{{KindText, text}, {KindInt, text}}), w.Close()); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		if valid := strings.ToValidUTF8(text, "\ufffd"); utf8.ValidString(text) && got["h"+valid] != valid {
			t.Fatalf("%q was read back as %q", text, got)
		}
	})
}
