package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
)

// book writes a workbook for one test and returns its path.
func book(t testing.TB, fill func(f *excelize.File)) string {
	t.Helper()
	f := excelize.NewFile()
	fill(f)
	path := filepath.Join(t.TempDir(), "in.xlsx")
	if err := f.SaveAs(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// put fills cells of a sheet from a corner on, row by row.
func put(t testing.TB, f *excelize.File, sheet string, rows ...[]any) {
	t.Helper()
	for i, row := range rows {
		cell, err := excelize.CoordinatesToCellName(1, i+1)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.SetSheetRow(sheet, cell, &row); err != nil {
			t.Fatal(err)
		}
	}
}

// styled gives a cell a number format.
func styled(t testing.TB, f *excelize.File, cell string, style *excelize.Style) {
	t.Helper()
	id, err := f.NewStyle(style)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetCellStyle("Sheet1", cell, cell, id); err != nil {
		t.Fatal(err)
	}
}

func TestWorkbookCells(t *testing.T) {
	custom := func(format string) *excelize.Style { return &excelize.Style{CustomNumFmt: &format} }
	day := time.Date(2027, 3, 6, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		value any
		style *excelize.Style
		want  string
	}{
		{"text", "00042", nil, "00042"},
		{"text that is a formula to Excel", "=A1+1", nil, "=A1+1"},
		{"blanks stay", " x ", nil, " x "},
		{"whole number", 42, nil, "42"},
		{"fifteen digits", 356938035643809, nil, "356938035643809"},
		{"fraction", 0.1 + 0.2, nil, "0.3"},
		{"negative", -5, nil, "-5"},
		{"yes", true, nil, "true"},
		{"no", false, nil, "false"},
		{"day", day, &excelize.Style{NumFmt: 14}, "2027-03-06"},
		{"day whose time the format hides", day.Add(90 * time.Minute), &excelize.Style{NumFmt: 14}, "2027-03-06T01:30:00"},
		{"day in another form", day, custom("dd.mm.yyyy"), "2027-03-06"},
		{"day of the week and month", day, custom(`[$-407]dddd", "d. mmmm yyyy`), "2027-03-06"},
		{"day and time", day.Add(90 * time.Minute), &excelize.Style{NumFmt: 22}, "2027-03-06T01:30:00"},
		{"time", 0.5, custom("hh:mm"), "12:00:00"},
		{"time in a day", 46000.5, custom("hh:mm"), "2025-12-09T12:00:00"},
		{"duration", 1.75, custom("[h]:mm"), "42:00"},
		{"duration with seconds that are not shown", 0.5 + 5.0/86400, custom("[hh]:mm"), "12:00:05"},
		{"duration with seconds", 0.25, custom(`[$-409][h]:mm:ss;@`), "6:00:00"},
		{"duration in minutes", 100.0 / 1440, custom("[m]"), "1:40"},
		{"built-in duration", 100.0, &excelize.Style{NumFmt: 46}, "2400:00:00"},
		{"no duration", 1.5, custom(`0.0" [h]"`), "1.5"},
		{"colour", 1.5, custom("[Red]0.0"), "1.5"},
		{"money", 1234.5, custom(`#,##0.00" h"`), "1234.5"},
		{"percent", 0.25, &excelize.Style{NumFmt: 10}, "0.25"},
		{"empty", nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := book(t, func(f *excelize.File) {
				put(t, f, "Sheet1", []any{"uid", "udf7"}, []any{deviceA, c.value})
				if c.style != nil {
					styled(t, f, "B2", c.style)
				}
			})
			table, records := read(t, Rows{XLSX: path}, "uid", "udf7")
			if got := cells(table, records, "udf7"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestWorkbookCellsRefused(t *testing.T) {
	path := book(t, func(f *excelize.File) {
		put(t, f, "Sheet1", []any{"uid", "udf7", "note"},
			[]any{"a", "#N/A"}, []any{"b", 12345678901234567.0}, []any{"c", 42}, []any{"d", "3.56938E+14"}, []any{"e", nil},
			[]any{"f", "fine", "#REF!"}, []any{"g", 1.75}, []any{"h", 0}, []any{"i", 1.25}, []any{"j", -0.5}, []any{"k", 20.5})
		clock, elapsed, mixed := "h:mm", "[h]:mm", "d hh:mm"
		styled(t, f, "B8", &excelize.Style{CustomNumFmt: &clock})
		styled(t, f, "B9", &excelize.Style{NumFmt: 14})
		styled(t, f, "B10", &excelize.Style{CustomNumFmt: &mixed})
		styled(t, f, "B11", &excelize.Style{CustomNumFmt: &elapsed})
		styled(t, f, "B12", &excelize.Style{NumFmt: 45})
		zeros := "00000"
		styled(t, f, "B4", &excelize.Style{CustomNumFmt: &zeros})
		if err := f.SetCellFormula("Sheet1", "B6", "VLOOKUP(A6,C:D,2)"); err != nil {
			t.Fatal(err)
		}
	})
	got := refused(t, Rows{XLSX: path}, "uid", "udf7")
	for _, want := range []string{
		"2:2: cell B2: the cell holds the error #N/A", "3:2: cell B3: a number of more than 15 digits", "4:2: cell B4: the format of the cell shows zeros",
		"1 value looks like Excel scientific notation: line 5", "6:2: cell B6: the formula has no result yet",
		"8:2: cell B8: the format shows a time of day and hides 1 day: 42:00:00 in all (a duration needs the format [h]:mm, a day one that shows it)",
		"9:2: cell B9: the number is no day that anybody means", "10:2: cell B10: the number is no day that anybody means",
		"11:2: cell B11: the number is no duration", "12:2: cell B12: the format shows a time of day and hides 20 days: 492:00:00 in all",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 10 {
		t.Errorf("%d faults:\n%s", n, got)
	}
	if !strings.Contains(got, "in.xlsx!Sheet1:") {
		t.Errorf("the sheet is not named:\n%s", got)
	}
}

func TestWorkbookShape(t *testing.T) {
	path := book(t, func(f *excelize.File) {
		put(t, f, "Sheet1", []any{"Report"}, []any{}, []any{"UID ", "Note", "Udf 7"}, []any{deviceA, "x", "one"}, []any{" "}, []any{deviceB, "", "two", " "})
		if err := f.SetRowVisible("Sheet1", 6, false); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Other", "Secret"} {
			if _, err := f.NewSheet(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.SetSheetVisible("Secret", false); err != nil {
			t.Fatal(err)
		}
	})
	if got := refused(t, Rows{XLSX: path}, "uid", "udf7"); !strings.Contains(got, "the workbook has 2 sheets: name one of Sheet1, Other") {
		t.Error(got)
	}
	if got := refused(t, Rows{XLSX: path, Sheet: "shet1"}, "uid", "udf7"); !strings.Contains(got, `no sheet "shet1" (did you mean "Sheet1"?)`) {
		t.Error(got)
	}
	if got := refused(t, Rows{XLSX: path, Sheet: "sheet1"}, "uid", "udf7"); !strings.Contains(got, "skip_lines: 2") {
		t.Error(got)
	}
	table := expect(t, Rows{XLSX: path, Sheet: "sheet1", SkipLines: 2}, "one", "two")
	if table.Line != 3 || table.Blank != 1 || table.Hidden != 1 || strings.Join(table.Ignored, ",") != "Note" || table.Delimiter != "Sheet1" {
		t.Errorf("%+v", table)
	}
}

func TestWorkbookIsNone(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ data, want string }{
		"text":    {"uid,udf7\r\n", "not an Excel workbook"},
		"old":     {"\xd0\xcf\x11\xe0 and more", "old format, or one with a password"},
		"damaged": {"PK\x03\x04 and no more", "cannot be read"},
	} {
		path := filepath.Join(dir, name+".xlsx")
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := refused(t, Rows{XLSX: path}, "uid"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWorkbookChangedMeanwhile(t *testing.T) {
	fill := func(value string) func(*excelize.File) {
		return func(f *excelize.File) { put(t, f, "Sheet1", []any{"uid", "udf7"}, []any{deviceA, value}) }
	}
	path, other := book(t, fill("one")), book(t, fill("two"))
	table, err := OpenTable(Rows{XLSX: path}, []string{"uid", "udf7"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if err := table.Check(); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Error(err)
	}
}

// Cells to the right of the heading belong to nothing: the row is refused, as in CSV, and
// what stands in them is kept for rejected.csv.
func TestWorkbookCellsBeyondTheHeading(t *testing.T) {
	path := book(t, func(f *excelize.File) {
		put(t, f, "Sheet1", []any{"uid", "udf7"}, []any{deviceA, "one"}, []any{deviceB, "two", nil, "beside"}, []any{deviceC})
	})
	got := refused(t, Rows{XLSX: path}, "uid", "udf7")
	if want := "Sheet1:3:4: the row has 4 cells, the header has 2 (give the column a heading, or empty the cell)"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	job := parse(t, "update:\n  operation: device-udf-set\n  rows: {xlsx: '"+path+"'}\n  match: {uid: '{uid}'}\n  set: {udf7: '{udf7}'}\n")
	_, rows := Rejects(job)
	for r := range rows {
		if r.Line != 3 || r.Column != 4 || strings.Join(r.Extra, "|") != "|beside" || !strings.HasPrefix(r.Cells[0], mendMark) {
			t.Errorf("%+v", r)
		}
	}
}
