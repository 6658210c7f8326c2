package output

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"
)

// readBook opens a workbook as a program that knows the format.
func readBook(t testing.TB, content []byte) *excelize.File {
	t.Helper()
	f, err := excelize.OpenReader(bytes.NewReader(content), excelize.Options{RawCellValue: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// cell gives type, raw value and number format of a cell.
type bookCell struct {
	kind   excelize.CellType
	value  string
	format string
}

func cellOf(t testing.TB, f *excelize.File, sheet, name string) bookCell {
	t.Helper()
	kind, err := f.GetCellType(sheet, name)
	value, err2 := f.GetCellValue(sheet, name, excelize.Options{RawCellValue: true})
	id, err3 := f.GetCellStyle(sheet, name)
	style, err4 := f.GetStyle(id)
	formula, err5 := f.GetCellFormula(sheet, name)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(name, err)
	}
	if formula != "" {
		t.Errorf("%s is a formula: %q", name, formula)
	}
	format := strconv.Itoa(style.NumFmt)
	if style.CustomNumFmt != nil {
		format = *style.CustomNumFmt
	}
	return bookCell{kind, value, format}
}

func TestXLSXCells(t *testing.T) {
	content, warnings := writeFormat(t, FileXLSX, Spec{Source: "devices", Columns: awkwardColumns}, awkwardRecords...)
	if len(warnings) != 0 {
		t.Errorf("warnings: %q", warnings)
	}
	f := readBook(t, content)
	const (
		number, boolean, text = excelize.CellTypeUnset, excelize.CellTypeBool, excelize.CellTypeInlineString
		second, day, integer  = "yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd", "1"
		asText                = "49"
	)
	for name, want := range map[string]bookCell{
		"A1": {text, "uid", asText}, "E1": {text, "seen (UTC)", asText}, "I1": {text, "day", asText},
		"A2": {text, "1", asText}, "B2": {text, "plain", asText}, "C2": {number, "42", integer}, "D2": {boolean, "1", "0"},
		"E2": {number, "45722", second}, "F2": {number, "2.5", "0"}, "G2": {text, `[1,"x"]`, asText}, "H2": {number, "7", integer}, "I2": {number, "46477", day},
		"B3": {text, "=1+1", asText}, "C3": {number, "-5", integer}, "D3": {boolean, "0", "0"}, "H3": {number, "1500", "0"}, "I3": {number, "45722", day},
		"B4": {text, "00123", asText}, "C4": {text, "123456789012345678901234567890", asText}, "D4": {text, "maybe", asText}, "E4": {text, "tomorrow", asText},
		"F4": {text, "1234567890.1234567", asText}, "G4": {text, `{"a":1}`, asText}, "H4": {boolean, "1", "0"}, "I4": {text, "x", asText},
		"B5": {text, "line\r\nbreak\tand \"quotes\" ü 漢 🦊 ", asText}, "C5": {text, "007", asText}, "D5": {number, "1", integer}, "E5": {number, "12", integer},
		"F5": {text, "1e5", asText}, "H5": {text, "007", asText}, "I5": {number, "", "0"},
		"B6": {number, "", "0"}, "C6": {text, "9223372036854775807", asText}, "E6": {number, "", "0"}, "F6": {number, "7", integer},
		"B7": {text, "'=x", asText}, "C7": {text, "9007199254740993", asText}, "E7": {text, "1890-01-02 03:04:05", asText},
	} {
		if got := cellOf(t, f, "devices", name); got != want {
			t.Errorf("%s = %+v, want %+v", name, got, want)
		}
	}
	seen := cellOf(t, f, "devices", "E3")
	serial, err := strconv.ParseFloat(seen.value, 64)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := excelize.ExcelDateToTime(serial, false); err != nil || !at.Round(time.Second).Equal(time.Date(2025, 7, 1, 12, 30, 0, 0, time.UTC)) {
		t.Errorf("seen = %v, %v", at, err)
	}
}

// TestCase_O02_RealDatesInAZone writes both sides of a change of clocks.
func TestCase_O02_RealDatesInAZone(t *testing.T) {
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	columns := []Column{{Header: "seen", Path: "seen", Kind: KindDate}, {Header: "exact", Path: "seen", Kind: KindDate, Format: DatesRFC3339}}
	for _, dates := range []string{"", DatesExcel} {
		content, _ := writeFormat(t, FileXLSX, Spec{Columns: columns, Style: Style{Dates: dates, Location: london}},
			`{"seen":"2026-03-29T00:30:00Z"}`, `{"seen":"2026-03-29T01:30:00Z"}`)
		f := readBook(t, content)
		rows, err := f.GetRows("data", excelize.Options{RawCellValue: false})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, row := range rows {
			got += strings.Join(row, "|") + "\n"
		}
		want := "seen (Europe/London)|exact\n2026-03-29 00:30:00|2026-03-29T00:30:00Z\n2026-03-29 02:30:00|2026-03-29T02:30:00+01:00\n"
		if got != want {
			t.Errorf("dates %q:\n%s", dates, got)
		}
	}
}

func TestExcelDate(t *testing.T) {
	for text, want := range map[string]float64{
		"1900-03-01": 61, "1970-01-01": 25569, "2000-01-01 12:00:00": 36526.5, "9999-12-31": 2958465, "2025-03-06T06:00:00+01:00": 45722.25, "2025-03-06T06:00:00Z": 45722.25, "1969-12-31 18:00:00": 25568.75,
	} {
		if got, _, ok := excelDate(text); !ok || got != want {
			t.Errorf("excelDate(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "1900-02-28", "1890-01-01 00:00:00", "tomorrow", "2025-13-01", "2025-03-06T", "2025-03-06 25:00:00"} {
		if got, _, ok := excelDate(text); ok {
			t.Errorf("excelDate(%q) = %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-2203891200, 253402300799).Draw(t, "seconds"), 0).UTC()
		serial, _, ok := excelDate(at.Format(time.DateTime))
		days, seconds := math.Modf(serial)
		back := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(days)).Add(time.Duration(math.Round(seconds*86400)) * time.Second)
		if !ok || !back.Equal(at) {
			t.Fatalf("%v becomes %v and %v", at, serial, back)
		}
	})
}

// part gives one file of the archive.
func part(t testing.TB, content []byte, name string) string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestXLSXSheet looks at what makes a sheet pleasant: header, table, widths.
func TestXLSXSheet(t *testing.T) {
	columns := []Column{{Header: "Name", Path: "a"}, {Header: "name", Path: "a"}, {Header: "two\nlines", Path: "b"}, {Header: " ", Path: "b"}}
	for _, records := range [][]string{nil, {`{"a":"` + strings.Repeat("w", 200) + `","b":"x"}`, `{"b":"` + strings.Repeat("y", 30) + `\nzzz"}`}} {
		content, _ := writeFormat(t, FileXLSX, Spec{Source: "site-devices", Columns: columns}, records...)
		f := readBook(t, content)
		tables, err := f.GetTables("site-devices")
		if err != nil || len(tables) != 1 {
			t.Fatalf("%d tables, %v", len(tables), err)
		}
		// A table has at least one row besides its header.
		last := strconv.Itoa(1 + max(len(records), 1))
		if got := tables[0]; got.Name != "tbl_site_devices" || got.Range != "A1:D"+last {
			t.Errorf("table %s in %s", got.Name, got.Range)
		}
		var table struct {
			Columns []struct {
				Name string `xml:"name,attr"`
			} `xml:"tableColumns>tableColumn"`
		}
		if err := xml.Unmarshal([]byte(part(t, content, "xl/tables/table1.xml")), &table); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"Name", "name 2", "two lines", "column 4"} {
			cell, err := excelize.CoordinatesToCellName(i+1, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := cellOf(t, f, "site-devices", cell).value; got != want || table.Columns[i].Name != want {
				t.Errorf("header %d is %q in the sheet, %q in the table, want %q", i, got, table.Columns[i].Name, want)
			}
		}
		id, err := f.GetCellStyle("site-devices", "A1")
		if err != nil {
			t.Fatal(err)
		}
		if style, err := f.GetStyle(id); err != nil || style.Font == nil || !style.Font.Bold {
			t.Errorf("the header is not bold: %v", err)
		}
		panes, err := f.GetPanes("site-devices")
		if err != nil || !panes.Freeze || panes.YSplit != 1 || panes.XSplit != 0 {
			t.Errorf("panes %+v, %v", panes, err)
		}
		wide := map[string]float64{"A": 8, "C": 12, "D": 11}
		if records != nil {
			wide = map[string]float64{"A": 60, "B": 60, "C": 31, "D": 31}
		}
		for column, want := range wide {
			if got, err := f.GetColWidth("site-devices", column); err != nil || got != want {
				t.Errorf("%d rows: column %s is %v wide, want %v", len(records), column, got, want)
			}
		}
	}
}

func TestXLSXSheetName(t *testing.T) {
	long := strings.Repeat("ü", 40)
	for source, want := range map[string]string{
		"": "data", "devices": "devices", "a/b:c*d?[e]\\f": "a_b_c_d__e__f", "'quoted'": "quoted", "History": "Historydata", "  ": "data",
		long: long[:2*excelMaxSheetName], "Sheet1": "Sheet1", "sheet1": "sheet1", "a\x00b": "a_b",
	} {
		content, _ := writeFormat(t, FileXLSX, Spec{Source: source, Columns: awkwardColumns})
		if got := readBook(t, content).GetSheetList(); len(got) != 1 || got[0] != want {
			t.Errorf("the sheet of %q is called %q, want %q", source, got, want)
		}
	}
}

// small makes a workbook with small sheets, to see several.
func smallBook(t testing.TB, to io.Writer, dir string, lines int, size int64) *xlsx {
	t.Helper()
	columns := []Column{{Header: "uid", Path: "uid"}, {Header: "n", Path: "n", Kind: KindInt}}
	w, err := New(FileXLSX, to, Spec{Source: "software", Columns: columns, Temp: dir})
	if err != nil {
		t.Fatal(err)
	}
	x := w.(*xlsx)
	if lines > 0 {
		x.maxLines = lines
	}
	if size > 0 {
		x.maxSize = size
	}
	return x
}

// TestCase_O17_FurtherSheets goes over the end of a sheet, by rows and by size.
func TestCase_O17_FurtherSheets(t *testing.T) {
	for _, tt := range []struct{ rows, lines int }{{0, 2}, {1, 2}, {2, 2}, {30, 3}, {29, 30}, {30, 30}, {58, 30}, {59, 30}, {199, 200}, {200, 200}, {201, 200}, {199, 201}, {700, 100}} {
		rows, lines := tt.rows, tt.lines
		write := func() ([]byte, []string) {
			var b bytes.Buffer
			x := smallBook(t, &b, "", lines, 0)
			for i := range rows {
				if err := x.Row([]Value{{KindText, "u" + strconv.Itoa(i)}, {KindInt, strconv.Itoa(i)}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			return b.Bytes(), x.Warnings()
		}
		content, warnings := write()
		again, _ := write()
		if !bytes.Equal(content, again) {
			t.Fatal("the same rows give other bytes")
		}
		f := readBook(t, content)
		sheets := max(1, (rows+lines-2)/(lines-1))
		if got := len(f.GetSheetList()); got != sheets || (len(warnings) == 1) != (sheets > 1) {
			t.Fatalf("%d rows in sheets of %d lines: %d sheets, warnings %q", rows, lines, got, warnings)
		}
		next := 0
		for i, sheet := range f.GetSheetList() {
			if want := "software"; i > 0 && sheet != want+" "+strconv.Itoa(i+1) || i == 0 && sheet != want {
				t.Fatalf("sheet %d is called %q", i, sheet)
			}
			all, err := f.GetRows(sheet)
			if err != nil || all[0][0] != "uid" {
				t.Fatal(sheet, err)
			}
			for _, row := range all[1:] {
				if row[1] != strconv.Itoa(next) || row[0] != "u"+row[1] {
					t.Fatalf("row %d is %q", next, row)
				}
				next++
			}
			if tables, err := f.GetTables(sheet); err != nil || len(tables) != 1 {
				t.Fatalf("%d tables in %s, %v", len(tables), sheet, err)
			}
		}
		if next != rows {
			t.Fatalf("%d rows of %d", next, rows)
		}
	}

	var b bytes.Buffer
	dir := t.TempDir()
	x := smallBook(t, &b, dir, 0, 2<<20)
	for range 30 {
		if err := x.Row(textRow(strings.Repeat("\"", 20_000), "2")); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(readBook(t, b.Bytes()).GetSheetList()); n < 3 || len(list(t, dir)) != 0 {
		t.Errorf("%d sheets, %q is left", n, list(t, dir))
	}
	for i := range 3 {
		if size := len(part(t, b.Bytes(), "xl/worksheets/sheet"+strconv.Itoa(i+1)+".xml")); size > 2<<20 {
			t.Errorf("sheet %d has %d bytes", i+1, size)
		}
	}
}

// TestXLSXText holds text to what XML and Excel can take.
func TestXLSXText(t *testing.T) {
	columns := awkwardColumns[1:2]
	content, warnings := writeFormat(t, FileXLSX, Spec{Columns: columns},
		`{"text":"`+strings.Repeat("🦊", 20_000)+`"}`, `{"text":"a\u0000b"}`, `{"text":"_x0041_"}`, `{"text":"`+strings.Repeat("x", 32_767)+`"}`, `{"text":"\uffff"}`)
	f := readBook(t, content)
	for name, want := range map[string]string{"A2": strings.Repeat("🦊", 16_383), "A3": "a\ufffdb", "A4": "_x0041_", "A5": strings.Repeat("x", 32_767), "A6": "\ufffd"} {
		if got := cellOf(t, f, "data", name).value; got != want {
			t.Errorf("%s = %.40q (%d bytes), want %.40q (%d)", name, got, len(got), want, len(want))
		}
	}
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], "the text of 1 cells was cut") || !strings.HasPrefix(warnings[1], "the text of 2 cells has control") {
		t.Errorf("warnings %q", warnings)
	}
	// Many texts in one workbook, for a workbook takes its time.
	draw := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+@'" _x0-9AF\t\r\n&<>-]{0,12}`))
	var b bytes.Buffer
	w, err := New(FileXLSX, &b, Spec{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	altered := 0
	for i := range 500 {
		text := draw.Example(i)
		texts = append(texts, text)
		if _, ok := xmlText(text); !ok {
			altered++
		}
		if err := w.Row([]Value{{KindText, text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f = readBook(t, b.Bytes())
	changed := 0
	for i, text := range texts {
		want := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
				return utf8.RuneError
			}
			return r
		}, text)
		if want != text {
			changed++
		}
		if got := cellOf(t, f, "data", "A"+strconv.Itoa(i+2)).value; got != want {
			t.Fatalf("%q comes back as %q", text, got)
		}
	}
	if altered != changed || altered == 0 || !strings.HasPrefix(Warnings(w)[0], "the text of "+strconv.Itoa(altered)+" cells has control") {
		t.Fatalf("%d altered, %d changed, warnings %q", altered, changed, Warnings(w))
	}
}

// TestXLSXNumbers draws numbers: a cell that is a number has every digit.
func TestXLSXNumbers(t *testing.T) {
	columns := []Column{{Header: "n", Path: "n", Format: FormatRaw}}
	draw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,18})?([eE]-?[0-9]{1,2})?`)
	var b bytes.Buffer
	w, err := New(FileXLSX, &b, Spec{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for i := range 1000 {
		texts = append(texts, draw.Example(i))
		if err := w.Row([]Value{numberValue(texts[i])}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f := readBook(t, b.Bytes())
	numbers := 0
	for i, text := range texts {
		got := cellOf(t, f, "data", "A"+strconv.Itoa(i+2))
		if got.kind == excelize.CellTypeInlineString {
			if got.value != text {
				t.Fatalf("%s is the text %q", text, got.value)
			}
			continue
		}
		numbers++
		// Fifteen digits of a double are exact: so both sides are the same number.
		was, err := strconv.ParseFloat(text, 64)
		is, err2 := strconv.ParseFloat(got.value, 64)
		if err != nil || err2 != nil || was != is {
			t.Fatalf("%s is the number %s", text, got.value)
		}
	}
	if numbers < 50 || numbers > 950 {
		t.Errorf("%d of %d numbers are numbers", numbers, len(texts))
	}
}

// TestCase_O17_ExcelLimit crosses the real end of a sheet.
func TestCase_O17_ExcelLimit(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("a million rows")
	}
	var b bytes.Buffer
	w, err := New(FileXLSX, &b, Spec{Source: "software", Columns: []Column{{Header: "n", Path: "n", Kind: KindInt}}, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ExcelMaxRows {
		if err := w.Row([]Value{{KindInt, strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || len(Warnings(w)) != 1 {
		t.Fatal(err, Warnings(w))
	}
	for sheet, last := range map[string]string{"sheet1": `<c r="A1048576" s="3"><v>1048574</v></c></row></sheetData>`, "sheet2": `<c r="A2" s="3"><v>1048575</v></c></row></sheetData>`} {
		text := part(t, b.Bytes(), "xl/worksheets/"+sheet+".xml")
		if !strings.Contains(text, last) {
			t.Errorf("%s does not end with %s", sheet, last)
		}
	}
}

func TestCSVWarnsOfExcelsLimit(t *testing.T) {
	w, err := New(FileCSV, io.Discard, Spec{Columns: []Column{{Header: "n", Path: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	row := textRow("x")
	for range ExcelMaxRows - 1 {
		if err := w.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if got := Warnings(w); got != nil {
		t.Errorf("the last row that fits: %q", got)
	}
	if err := w.Row(row); err != nil || len(Warnings(w)) != 1 {
		t.Errorf("one row too many: %q, %v", Warnings(w), err)
	}
}
