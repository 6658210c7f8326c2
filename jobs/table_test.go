package jobs

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"
)

// The devices of the cases.
const (
	deviceA = "11111111-1111-4111-8111-1111111111a1"
	deviceB = "22222222-2222-4222-8222-2222222222b2"
	deviceC = "33333333-3333-4333-8333-3333333333c3"
)

func caseFile(name string) Rows { return Rows{CSV: filepath.Join("testdata", "cases", name+".csv")} }

// input writes a file for one test.
func input(t testing.TB, text string) Rows {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Rows{CSV: path}
}

// read opens and checks a file without faults and returns its rows.
func read(t testing.TB, rows Rows, want ...string) (*Table, []Record) {
	t.Helper()
	table, err := OpenTable(rows, want)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	var records []Record
	for r, err := range table.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if table.Rows != len(records) {
		t.Fatalf("Check counts %d rows, Records gives %d", table.Rows, len(records))
	}
	return table, records
}

// cells joins the values of the columns named, a line for each row.
func cells(table *Table, records []Record, columns ...string) string {
	var lines []string
	for _, r := range records {
		var row []string
		for _, c := range columns {
			row = append(row, r.Cells[table.Index(c)])
		}
		lines = append(lines, strings.Join(row, "|"))
	}
	return strings.Join(lines, "\n")
}

// expect reads a file and compares the column udf7.
func expect(t *testing.T, rows Rows, want ...string) *Table {
	t.Helper()
	table, records := read(t, rows, "uid", "udf7")
	if got := cells(table, records, "udf7"); got != strings.Join(want, "\n") {
		t.Errorf("udf7 is %q, want %q", got, want)
	}
	for i, r := range records {
		if uid := r.Cells[table.Index("uid")]; uid != []string{deviceA, deviceB, deviceC}[i] {
			t.Errorf("uid of row %d is %q", i+1, uid)
		}
	}
	return table
}

// refused opens and checks a file with faults and returns them without the path.
func refused(t testing.TB, rows Rows, want ...string) string {
	t.Helper()
	table, err := OpenTable(rows, want)
	if err == nil {
		err = table.Check()
	} else if table != nil {
		t.Fatal("a table beside the error")
	}
	var list Errors
	if !errors.As(err, &list) || len(list) == 0 {
		t.Fatalf("%T %v", err, err)
	}
	return strings.ReplaceAll(err.Error(), rows.File()+":", "")
}

func TestCase_C01_BOMBeforeQuotedHeader(t *testing.T) {
	table := expect(t, caseFile("C01"), "north", "south")
	if table.Encoding != "utf-8 with byte order mark" || table.Headers[0] != "uid" {
		t.Errorf("encoding %q, headers %q", table.Encoding, table.Headers)
	}
}

func TestCase_C02_UTF16(t *testing.T) {
	table := expect(t, caseFile("C02"), "north", "Büro")
	if table.Encoding != "utf-16le with byte order mark" {
		t.Errorf("encoding %q", table.Encoding)
	}
}

func TestCase_C05_Windows1252(t *testing.T) {
	rows := caseFile("C05")
	want := `2:42: byte 0xF1 is not UTF-8 (save the file as CSV UTF-8, or name its encoding, for example encoding: windows-1252)`
	if got := refused(t, rows, "uid", "udf7"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, name := range []string{"windows-1252", "Windows1252", "cp1252", "CP-1252"} {
		rows.Encoding = name
		expect(t, rows, "Español O’Neil €5")
	}
}

func TestCase_C08_Semicolon(t *testing.T) {
	if table := expect(t, caseFile("C08"), "1,5", "a"); table.Delimiter != "semicolon" {
		t.Errorf("delimiter %q", table.Delimiter)
	}
	rows := caseFile("C08")
	rows.Delimiter = ','
	if got, want := refused(t, rows, "uid", "udf7"), `1:1: expected columns uid, udf7 not found in line 1, which has "uid;udf7"`; !strings.HasPrefix(got, want) {
		t.Errorf("declared delimiter is not obeyed: %s", got)
	}
}

func TestCase_C09_SepLine(t *testing.T) {
	table, records := read(t, caseFile("C09"), "uid", "udf7")
	if got := cells(table, records, "udf7"); got != "x,y" || table.Delimiter != "semicolon" || table.Line != 2 || records[0].Line != 3 {
		t.Errorf("udf7 %q, delimiter %q, header in line %d, row in line %d", got, table.Delimiter, table.Line, records[0].Line)
	}
	for _, line := range []string{`"sep=;"`, "SEP=;", "sep=;;", "sep=; "} {
		expect(t, input(t, line+"\r\nuid;udf7\r\n"+deviceA+";x,y\r\n"), "x,y")
	}
	expect(t, input(t, "sep=\t\nuid\tudf7\n"+deviceA+"\tx\n"), "x")
	expect(t, input(t, "sep=^\nuid^udf7\n"+deviceA+"^x\n"), "x")
}

func TestCase_C10_TypeLine(t *testing.T) {
	_, records := read(t, caseFile("C10"), "uid", "udf7")
	expect(t, caseFile("C10"), "north")
	if records[0].Line != 3 {
		t.Errorf("line %d", records[0].Line)
	}
	expect(t, input(t, "sep=,\n#TYPE System.Object\nuid,udf7\n"+deviceA+",x\n"), "x")
}

func TestCase_C12_BlankRows(t *testing.T) {
	if table := expect(t, caseFile("C12"), "north", "south"); table.Blank != 3 {
		t.Errorf("%d blank rows", table.Blank)
	}
}

func TestCase_C13_TrailingCommas(t *testing.T) {
	if table := expect(t, caseFile("C13"), "north", "south"); len(table.Ignored) != 0 {
		t.Errorf("ignored %q", table.Ignored)
	}
	got := refused(t, input(t, "uid,udf7,,\n"+deviceA+",a,,\n"+deviceB+",Smith, John,\n"), "uid", "udf7")
	want := `3:44: a value in column 3, which has no name (has a value before it a delimiter of its own that needs quotes?)`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCase_C15_CRLineEnds(t *testing.T) {
	_, records := read(t, caseFile("C15"), "uid", "udf7")
	expect(t, caseFile("C15"), "north", "south")
	if records[1].Line != 3 {
		t.Errorf("line %d", records[1].Line)
	}
}

func TestCase_C16_MixedLineEnds(t *testing.T) { expect(t, caseFile("C16"), "north", "south", "east") }

func TestCase_C17_LineBreaksInQuotes(t *testing.T) {
	table, records := read(t, caseFile("C17"), "uid", "udf7")
	if got := cells(table, records, "udf7"); got != "one\ntwo\r\nthree\nx" {
		t.Errorf("udf7 %q", got)
	}
	if r := records[1]; r.Number != 2 || r.Line != 5 {
		t.Errorf("record %d, line %d", r.Number, r.Line)
	}
}

func TestCase_C18_LoneQuote(t *testing.T) {
	want := `3:40: a quote inside a value without quotes (put the value in quotes and write its own quotes twice; no blank may stand before the first)`
	if got := refused(t, caseFile("C18"), "uid", "udf7"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCase_C20_BlankBeforeQuote(t *testing.T) {
	if got := refused(t, caseFile("C20"), "uid", "udf7"); !strings.HasPrefix(got, "2:39: a quote inside a value without quotes (") {
		t.Error(got)
	}
	expect(t, input(t, "uid, udf7\n"+deviceA+",x\n"), "x")
}

func TestCase_C21_InvisibleInHeaders(t *testing.T) {
	expect(t, caseFile("C21"), "north")
	expect(t, input(t, "\u200buid\u2003,\ufeff udf7\u202f\n"+deviceA+",x\n"), "x")
}

func TestCase_C23_SpellingOfHeaders(t *testing.T) {
	table := expect(t, caseFile("C23"), "north")
	if !reflect.DeepEqual(table.Ignored, []string{"Comment"}) {
		t.Errorf("ignored %q", table.Ignored)
	}
	table = expect(t, input(t, "_status,UDF_7,U id,Ünüsed,_Error\nok,x,"+deviceA+",,\n"), "x")
	if !reflect.DeepEqual(table.Ignored, []string{"Ünüsed"}) {
		t.Errorf("ignored %q", table.Ignored)
	}
}

func TestCase_C24_DuplicateColumns(t *testing.T) {
	if got, want := refused(t, caseFile("C24"), "uid", "udf7"), "1:10: duplicate column udf7 (columns 2 and 3) (rename one of them)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	expect(t, input(t, "uid,note,udf7,Note,_x,_x\n"+deviceA+",a,x,b,,\n"), "x")
}

func TestCase_C26_LeadingZeros(t *testing.T) { expect(t, caseFile("C26"), "00042", "007") }

func TestCase_C27_ScientificNotation(t *testing.T) {
	want := "2:38: 2 values look like Excel scientific notation: lines 2, 4 (the digits are lost: export again and keep the column as text)"
	if got := refused(t, caseFile("C27"), "uid", "udf7"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	table, err := OpenTable(caseFile("C27"), []string{"uid", "udf7"})
	if err != nil {
		t.Fatal(err)
	}
	var bad []int
	for r, err := range table.Records() {
		if err != nil {
			bad = append(bad, r.Line)
		}
	}
	if !reflect.DeepEqual(bad, []int{2, 4}) {
		t.Errorf("lines %v", bad)
	}
	// A column that the job leaves alone may hold what it likes.
	read(t, caseFile("C27"), "uid")

	for value, want := range map[string]bool{
		"3.56938E+14": true, "1,23E+11": true, "1E+05": true, "-2.5e-07": true, " 1E+05 ": true, "1.0E+100": true,
		"1E5": false, "12E+05": false, "E+05": false, "1.E+05": false, "3.5E+1": false, "x1E+05": false, "1E+05x": false, "": false, "2e10": false,
	} {
		if scientific(value) != want {
			t.Errorf("%q taken for scientific notation: %v", value, !want)
		}
	}
}

func TestCase_C30_FormulaCharacters(t *testing.T) {
	table, records := read(t, caseFile("C30"), "uid", "udf7", "udf8")
	if got := cells(table, records, "udf7", "udf8"); got != "=A1+1|-5\n+44 20 7946 0000|@home" {
		t.Errorf("%q", got)
	}
}

// An empty key is text like any other here; that no device is looked up by it is for the plan.
func TestCase_C32_BlankKeyStaysARow(t *testing.T) {
	table, records := read(t, caseFile("C32"), "hostname", "udf7")
	if got := cells(table, records, "hostname", "udf7"); got != "SRV-CHARLIE|one\n|two\nWS-BRAVO|three" || records[1].Line != 3 {
		t.Errorf("%q, line %d", got, records[1].Line)
	}
}

func TestCase_C37_EmptyCellsAreKept(t *testing.T) {
	table, records := read(t, caseFile("C37"), "uid", "udf7", "udf8")
	if got := cells(table, records, "udf7", "udf8"); got != "|new\n<clear>|x\n|" {
		t.Errorf("%q", got)
	}
}

func TestCase_C40_LongValuesAreWhole(t *testing.T) {
	expect(t, caseFile("C40"), strings.Repeat("a", 255), strings.Repeat("b", 256))
}

func TestCase_C42_ShiftedRows(t *testing.T) {
	want := "3:1: the row has 4 cells, the header has 3 (put values that hold the delimiter in quotes)\n" +
		"4:1: the row has 2 cells, the header has 3 (put values that hold the delimiter in quotes)"
	if got := refused(t, caseFile("C42"), "uid", "udf7", "udf8"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	expect(t, input(t, "uid,udf7\n"+deviceA+",x,, \n"), "x")
}

func TestCase_C43_TitleLines(t *testing.T) {
	want := `1:1: expected columns uid, udf7 not found in line 1, which has "Device report" (the header seems to be in line 4: set skip_lines: 3)`
	if got := refused(t, caseFile("C43"), "uid", "udf7"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rows := caseFile("C43")
	rows.SkipLines = 3
	_, records := read(t, rows, "uid", "udf7")
	expect(t, rows, "north")
	if records[0].Line != 5 {
		t.Errorf("line %d", records[0].Line)
	}
}

func TestCase_C45_NoRows(t *testing.T) {
	const hint = " (if that is no fault set allow_empty: true)"
	for name, tt := range map[string]struct {
		rows Rows
		want string
	}{
		"header only":  {caseFile("C45"), "1:1: no data rows" + hint},
		"zero bytes":   {input(t, ""), "1:1: no data rows: the file is empty" + hint},
		"mark only":    {input(t, "\ufeff"), "1:1: no data rows: there is no header" + hint},
		"blank lines":  {input(t, "\n \n,,\n"), "1:1: no data rows: there is no header" + hint},
		"blank rows":   {input(t, "uid,udf7\n,\n"), "1:1: no data rows" + hint},
		"skipped away": {Rows{CSV: caseFile("C45").CSV, SkipLines: 9}, "1:1: no data rows: there is no header" + hint},
	} {
		if got := refused(t, tt.rows, "uid", "udf7"); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, tt.want)
		}
		tt.rows.AllowEmpty = true
		if table, records := read(t, tt.rows, "uid", "udf7"); len(records) != 0 || table.Index("none") != -1 {
			t.Errorf("%s: %d records", name, len(records))
		}
	}
}

func TestCase_C46_Workbook(t *testing.T) {
	for _, rows := range []Rows{caseFile("C46"), input(t, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")} {
		if got, want := refused(t, rows, "uid"), "this is an Excel workbook, save as CSV UTF-8 (or name it as a workbook: rows: {xlsx: FILE})"; strings.TrimSpace(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCase_C47_UnicodeSurvives(t *testing.T) {
	expect(t, caseFile("C47"), "\U0001F5A5 cafe\u0301 \u05e9\u05dc\u05d5\u05dd")
}

func TestCase_C49_TabAndPipe(t *testing.T) {
	if table := expect(t, caseFile("C49"), "a,b;c"); table.Delimiter != "tab" {
		t.Errorf("delimiter %q", table.Delimiter)
	}
	if table := expect(t, input(t, "uid|udf7\n"+deviceA+"|a,b;c\n"), "a,b;c"); table.Delimiter != "pipe" {
		t.Errorf("delimiter %q", table.Delimiter)
	}
}

// Of the four faults of the file only the last is one of its form; Records gives the rows of the others all the same, so
// that the plan can list all four at once.
func TestCase_C50_AllFaultsAtOnce(t *testing.T) {
	table, err := OpenTable(caseFile("C50"), []string{"uid", "udf7"})
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for r, err := range table.Records() {
		lines = append(lines, r.Line)
		if (err != nil) != (r.Line == 6) {
			t.Errorf("line %d: %v", r.Line, err)
		}
	}
	if !reflect.DeepEqual(lines, []int{2, 3, 4, 5, 6}) {
		t.Errorf("lines %v", lines)
	}
	faulty := "uid,udf7\n" + deviceA + ",a\x00b\n" + deviceA + ",1E+05\n" + deviceA + ",27\" wide\n" + deviceA + ",\"a\" b\n" + deviceA + "\n" +
		deviceA + ",B\xfcro,x\n" + deviceA + ",\ufffd\n" + deviceA + ",ok\n" + deviceA + ",\"open\n\n"
	var got []string
	for line := range strings.SplitSeq(refused(t, input(t, faulty), "uid", "udf7"), "\n") {
		got = append(got, strings.SplitN(line, " (", 2)[0])
	}
	want := []string{
		"2:39: a zero byte",
		"3:38: 1 value looks like Excel scientific notation: line 3",
		"4:40: a quote inside a value without quotes",
		"5:41: text after a closing quote",
		"6:1: the row has 1 cells, the header has 2",
		"7:39: byte 0xFC is not UTF-8",
		"8:38: the value holds U+FFFD: an earlier conversion destroyed a character",
		"10:38: the quote that opens here is never closed",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCase_C52_ManyColumns(t *testing.T) {
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprintf("udf%d", i+1))
	}
	table, records := read(t, caseFile("C52"), append(names, "uid")...)
	if got := cells(table, records, names...); got != "v1|v2|v3|v4|v5|v6|v7|v8|v9|v10|v11|v12|v13|v14|v15" {
		t.Error(got)
	}
}

func TestTableUnreadable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.csv")
	_, err := OpenTable(Rows{CSV: missing}, nil)
	if err == nil || err.Error() != missing+": there is no such input file" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	dir := t.TempDir()
	if _, err := OpenTable(Rows{CSV: dir}, nil); err == nil || err.Error() != dir+": this is a folder, not an input file" {
		t.Errorf("folder: %v", err)
	}
}

func TestTableChangesWhileRead(t *testing.T) {
	rows := input(t, "uid,udf7\na,b\n")
	table, err := OpenTable(rows, []string{"uid", "udf7"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rows.CSV, []byte("uid,udf7\na,c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := rows.CSV + ": the file changed while it was read (start again when nothing writes to it)"
	if err := table.Check(); err == nil || err.Error() != want {
		t.Errorf("Check: %v", err)
	}
	var last error
	for _, err := range table.Records() {
		last = err
	}
	if last == nil || last.Error() != want {
		t.Errorf("Records: %v", last)
	}
}

func TestTableEncodings(t *testing.T) {
	const text = "uid,udf7\r\n" + deviceA + ",Grüße\r\n"
	encode := func(e encoding.Encoding) string {
		out, err := e.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	little := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	big := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	for _, tt := range []struct{ data, declared, found string }{
		{text, "", "utf-8"},
		{text, "UTF8", "utf-8"},
		{"\ufeff" + text, "utf-8", "utf-8 with byte order mark"},
		{encode(little), "", "utf-16le"},
		{encode(big), "", "utf-16be"},
		{encode(little), "utf-16", "utf-16le"},
		{"\xfe\xff" + encode(big), "utf-16", "utf-16be with byte order mark"},
		{"\xff\xfe" + encode(little), "utf-16le", "utf-16le with byte order mark"},
		{encode(charmap.ISO8859_1), "latin1", "iso-8859-1"},
		{encode(charmap.ISO8859_15), "ISO-8859-15", "iso-8859-15"},
		{encode(charmap.CodePage850), "cp850", "cp850"},
		{encode(charmap.CodePage437), "IBM437", "cp437"},
		{encode(charmap.Macintosh), "macintosh", "macintosh"},
	} {
		rows := input(t, tt.data)
		rows.Encoding = tt.declared
		if table := expect(t, rows, "Grüße"); table.Encoding != tt.found {
			t.Errorf("encoding %q declared as %q is reported as %q", tt.found, tt.declared, table.Encoding)
		}
	}
	for _, tt := range []struct{ data, declared, want string }{
		{"\ufeff" + text, "windows-1252", "the file begins with the byte order mark of utf-8, but the job says windows-1252 (remove the encoding from the job)"},
		{"\xff\xfe\x00\x00u\x00\x00\x00", "", "the file is encoded in UTF-32 (save it as CSV UTF-8)"},
		{text, "utf8x", `unknown encoding "utf8x" (did you mean "utf-8"?)`},
		{"uid,udf7\n\x81,x\n", "windows-1252", "2:1: a byte that does not exist in windows-1252 (is the encoding right?)"},
		{encode(little) + "\x00", "", "3:1: a byte that does not exist in utf-16le (is the encoding right?)"},
	} {
		rows := input(t, tt.data)
		rows.Encoding = tt.declared
		if got := strings.TrimSpace(refused(t, rows, "uid", "udf7")); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	for _, name := range Encodings() {
		if c, ok := encodingOf(name); !ok || c.name != name {
			t.Errorf("%s is not found by its name", name)
		}
	}
}

func TestTableMissingColumns(t *testing.T) {
	for _, tt := range []struct {
		data string
		want []string
		text string
	}{
		{"Hostnme,Tag\na,b\n", []string{"Hostname", "Tag"}, `1:1: expected column Hostname not found in line 1, which has "Hostnme", "Tag" (is it the column "Hostnme"?)`},
		{"a;b\n1;2\n", []string{"uid"}, `1:1: expected column uid not found in line 1, which has "a", "b" (if the header is further down set skip_lines)`},
		{"uid;x\na;b\n", []string{"uid", "Tag"}, `1:1: expected column Tag not found in line 1, which has "uid", "x"`},
		{"a\x07\u202e\n1\n", []string{"uid"}, `1:1: expected column uid not found in line 1, which has "a\a\u202e" (if the header is further down set skip_lines)`},
	} {
		if got := refused(t, input(t, tt.data), tt.want...); got != tt.text {
			t.Errorf("got  %s\nwant %s", got, tt.text)
		}
	}
}

func TestTableFaultsAreBounded(t *testing.T) {
	got := refused(t, input(t, "uid,udf7\n"+strings.Repeat("a,b,c\n", 1500)), "uid", "udf7")
	if n := strings.Count(got, "\n") + 1; n != maxListed+1 || !strings.HasSuffix(got, "1001:1: 500 more faults follow") {
		t.Errorf("%d lines, the last %q", n, got[strings.LastIndexByte(got, '\n')+1:])
	}
	got = refused(t, input(t, "uid,udf7\n"+strings.Repeat("a,1E+05\n", 1500)), "uid", "udf7")
	if !strings.HasPrefix(got, "2:3: 1500 values look like Excel scientific notation: lines 2, 3, ") || len(got) > 500 {
		t.Error(got)
	}
	long := refused(t, input(t, "uid,udf7\na,\""+strings.Repeat("x,y\n", 1<<19)), "uid", "udf7")
	if !strings.HasPrefix(long, "2:1: the record that starts here is longer than 1 MiB or") || strings.Contains(long, "\n") {
		t.Error(long)
	}
	wide := refused(t, input(t, "uid,udf7\na"+strings.Repeat(",", 1<<15)+"\n"), "uid", "udf7")
	if !strings.HasPrefix(wide, "2:1: the record that starts here is longer than 1 MiB or") {
		t.Error(wide)
	}
}

func TestRecordPositions(t *testing.T) {
	_, records := read(t, input(t, "é,b,c\n\"ü\né\",\"x\",ß\nñ,,z"), "b")
	var got []string
	for _, r := range records {
		for i := range r.Cells {
			p := r.Pos(i)
			got = append(got, fmt.Sprintf("%d:%d", p.Line, p.Column))
		}
		if p := r.Pos(9); p.Line != r.Line || p.Column != 1 {
			t.Errorf("place of no cell: %v", p)
		}
	}
	if want := "2:1 3:4 3:8 4:1 4:3 4:4"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// scan splits text by the scanner alone.
func scan(text string, buffer int) (rows [][]string, faults Errors) {
	s := newRecordScanner(strings.NewReader(text), "in.csv", ',')
	if buffer > 0 {
		s.buf = make([]byte, buffer)
	}
	for s.next() {
		faults = append(faults, s.rec.faults...)
		var row []string
		for _, c := range s.rec.cells {
			row = append(row, string(s.rec.text[c.from:c.to]))
		}
		rows = append(rows, row)
	}
	return rows, faults
}

// notEmpty drops the rows of one empty cell: the standard library drops empty lines, but not lines of two quotes.
func notEmpty(rows [][]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return len(row) == 1 && row[0] == "" })
}

func FuzzCSV(f *testing.F) {
	for _, name := range []string{"C01", "C05", "C16", "C17", "C18", "C20", "C42", "C47"} {
		data, err := os.ReadFile(caseFile(name).CSV)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), byte(0))
	}
	f.Add("a,\"b\"\"c\"\n\n\"\"\n,\n", byte(3))
	f.Add("\"a\r\nb\",c\r\rd", byte(7))
	f.Fuzz(func(t *testing.T, text string, buffer byte) {
		rows, faults := scan(text, 0)
		for _, e := range faults {
			if e.Pos.Line < 1 || e.Pos.Column < 1 {
				t.Fatalf("fault without a place: %v", e)
			}
		}
		// Where the text breaks into reads must not matter.
		again, faultsAgain := scan(text, 16+int(buffer))
		if !reflect.DeepEqual(rows, again) || !reflect.DeepEqual(faults, faultsAgain) {
			t.Fatalf("with a small buffer %q, %v, else %q, %v", again, faultsAgain, rows, faults)
		}
		if strings.ContainsRune(text, '\r') {
			return
		}
		std := csv.NewReader(strings.NewReader(text))
		std.FieldsPerRecord = -1
		want, err := std.ReadAll()
		if err != nil {
			if len(faults) == 0 {
				t.Fatalf("encoding/csv says %v, we find no fault in %q", err, text)
			}
			return
		}
		for _, e := range faults {
			if !strings.Contains(e.Message, "byte") {
				t.Fatalf("encoding/csv accepts %q, we find %v", text, e)
			}
		}
		if rows, want = notEmpty(rows), notEmpty(want); !slices.EqualFunc(rows, want, slices.Equal) {
			t.Fatalf("got %q, encoding/csv has %q", rows, want)
		}
	})
}

// FuzzTable opens any bytes as an input file: no panic, and every refusal has a place.
func FuzzTable(f *testing.F) {
	for _, name := range []string{"C02", "C09", "C10", "C13", "C24", "C43", "C46"} {
		data, err := os.ReadFile(caseFile(name).CSV)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "")
	}
	f.Add([]byte("uid,udf7\n\x81\n"), "windows-1252")
	path := filepath.Join(f.TempDir(), "in.csv")
	f.Fuzz(func(t *testing.T, data []byte, encoding string) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := OpenTable(Rows{CSV: path, Encoding: encoding}, []string{"uid", "udf7"})
		if err == nil {
			err = table.Check()
		}
		var list Errors
		if err != nil && (!errors.As(err, &list) || len(list) == 0) {
			t.Fatalf("%T %v", err, err)
		}
		if err != nil || table == nil {
			return
		}
		for r, err := range table.Records() {
			if err != nil || len(r.Cells) != len(table.Headers) || r.Line <= table.Line {
				t.Fatalf("record %+v, error %v", r, err)
			}
			for _, c := range r.Cells {
				if strings.ContainsRune(c, 0) || !utf8.ValidString(c) {
					t.Fatalf("cell %q", c)
				}
			}
		}
	})
}

// What a writer of CSV writes, the reader gives back, with any delimiter and any line end; of a formula that keeps a text
// from being a number the text.
func TestTableRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.csv")
	rapid.Check(t, func(rt *rapid.T) {
		delimiter := rapid.SampledFrom([]string{",", ";", "\t", "|"}).Draw(rt, "delimiter")
		eol := rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(rt, "eol")
		value := rapid.StringOf(rapid.SampledFrom([]rune("ab\"\n\r,;\t| üé\U0001F5A5=-0")))
		value = value.Filter(func(v string) bool { return !strings.HasPrefix(v, `="`) }) // of which a spreadsheet makes something else
		rows := rapid.SliceOfN(value, 1, 8).Draw(rt, "rows")
		text := "uid" + delimiter + "udf7" + eol
		for i, v := range rows {
			text += fmt.Sprintf("d%d%s%q", i, delimiter, "")
			text = text[:len(text)-1] + strings.ReplaceAll(v, `"`, `""`) + `"` + eol
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			rt.Fatal(err)
		}
		table, err := OpenTable(Rows{CSV: path}, []string{"uid", "udf7"})
		if err != nil {
			rt.Fatal(err)
		}
		if err := table.Check(); err != nil {
			rt.Fatal(err)
		}
		i := 0
		for r, err := range table.Records() {
			if err != nil || r.Number != i+1 || r.Cells[0] != fmt.Sprintf("d%d", i) || r.Cells[1] != unformula(rows[i]) {
				rt.Fatalf("row %d is %q, want %q; error %v", i, r.Cells, rows[i], err)
			}
			i++
		}
		if i != len(rows) {
			rt.Fatalf("%d of %d rows", i, len(rows))
		}
	})
}
