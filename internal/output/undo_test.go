package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func anyStyle(rt *rapid.T) Style {
	zones := []*time.Location{nil, time.UTC}
	for _, name := range []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			rt.Fatal(err)
		}
		zones = append(zones, zone)
	}
	return Style{
		Dates:    rapid.SampledFrom([]string{"", DatesRFC3339, DatesExcel, DatesMS}).Draw(rt, "dates"),
		Formulas: rapid.SampledFrom([]string{"", "keep", "guard"}).Draw(rt, "formulas"),
		Newlines: rapid.SampledFrom([]string{"", "keep", "space", "escape"}).Draw(rt, "newlines"),
		Location: rapid.SampledFrom(zones).Draw(rt, "zone"),
	}
}

// anyText prefers what options and readers trip over.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`['=+@ \\nr0;,"-]{0,8}[\r\n]{0,2}[a-z =\\nr]{0,4}`), rapid.SampledFrom([]string{"00123", "C:\\new\\run", "=A1+1", "'=A1", "''=A1", "-5", "a\r\nb", "1.50"}))
}

// TestCase_O16_UntouchedCells feeds an export with any set of options back: no
// untouched cell is a change, and an edited one is.
func TestCase_O16_UntouchedCells(t *testing.T) {
	columns := []Column{
		{Header: "text", Path: "text", Kind: KindText},
		{Header: "seen", Path: "seen", Kind: KindDate},
		{Header: "day", Path: "seen", Kind: KindDate, Format: FormatDate},
		{Header: "n", Path: "n", Kind: KindInt},
		{Header: "list", Path: "list", Kind: KindList, Format: FormatJoin},
		{Header: "raw", Path: "text", Format: FormatRaw},
		{Header: "json", Path: "list", Format: FormatJSON},
	}
	rapid.Check(t, func(rt *rapid.T) {
		style := anyStyle(rt)
		rec := Record{"text": anyText().Draw(rt, "text"), "n": json.Number(rapid.SampledFrom([]string{"0", "7", "502084122", "1.5"}).Draw(rt, "n"))}
		rec["list"] = []any{anyText().Draw(rt, "first"), json.Number("1"), nil}
		rec["seen"] = rapid.SampledFrom([]any{nil, json.Number("0"), "2027-03-31", "never", json.Number("1761440400000"), json.Number("1761444000123"), "2025-03-30T00:30:00Z"}).Draw(rt, "seen")
		opts := CSVOptions{
			BOM: rapid.Bool().Draw(rt, "bom"), Delimiter: rapid.SampledFrom([]rune{',', ';', '\t', '|'}).Draw(rt, "delimiter"),
			EOL: rapid.SampledFrom([]string{"crlf", "lf"}).Draw(rt, "eol"),
		}
		content, _ := writeRecord(rt, Spec{Columns: columns, Style: style, CSV: opts}, rec)
		// The reader turns CRLF in cells into LF, as a spreadsheet does.
		r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
		r.Comma = opts.Delimiter
		rows, err := r.ReadAll()
		if err != nil || len(rows) != 2 {
			rt.Fatal(len(rows), err)
		}
		for i, c := range columns {
			cell := rows[1][i]
			if !c.Unchanged(cell, rec, style) {
				rt.Fatalf("%s: the untouched cell %q is a change", c.Header, cell)
			}
			if c.Unchanged(cell+"x", rec, style) || cell != "" && strings.Trim(cell, "\n") != "" && c.Unchanged("", rec, style) {
				rt.Fatalf("%s: an edit of %q is none", c.Header, cell)
			}
		}
	})
}

func writeRecord(rt *rapid.T, spec Spec, rec Record) ([]byte, []Value) {
	var b bytes.Buffer
	w, err := New(FileCSV, &b, spec)
	if err != nil {
		rt.Fatal(err)
	}
	row := Row(nil, spec.Columns, rec, StyleFor(FileCSV, spec.Style))
	if err := w.Row(row); err != nil {
		rt.Fatal(err)
	}
	if err := w.Close(); err != nil {
		rt.Fatal(err)
	}
	return b.Bytes(), row
}

// TestCase_O16_UndoDate reads back what the notations write. Only of an hour
// that comes twice the first one is taken.
func TestCase_O16_UndoDate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		style := anyStyle(rt)
		at := time.Unix(rapid.OneOf(rapid.Int64Range(1e8, 4e9), rapid.Int64Range(1761433200, 1761447600), rapid.Int64Range(1743865200, 1743876000)).Draw(rt, "seconds"), 0).UTC()
		cell := dateValue(at.Format(time.RFC3339), style.Dates, style.Location)
		got, ok := style.UndoDate(cell.Text)
		if !ok {
			rt.Fatalf("%q is no date", cell.Text)
		}
		if got.Equal(at) {
			return
		}
		again := dateValue(got.Format(time.RFC3339), style.Dates, style.Location)
		if style.Dates != DatesExcel || !got.Before(at) || again != cell {
			rt.Fatalf("%v is %q and comes back as %v (%+v)", at, cell.Text, got, style)
		}
	})
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	style := Style{Location: berlin}
	for cell, want := range map[string]string{
		"2025-10-26 02:30:00": "2025-10-26T00:30:00Z", "2025-10-26 03:30": "2025-10-26T02:30:00Z", "2025-07-01": "2025-06-30T22:00:00Z", " 1741219200000 ": "2025-03-06T00:00:00Z",
		"2025-03-06T00:00:00+01:00": "2025-03-05T23:00:00Z", "": "0001-01-01T00:00:00Z",
	} {
		if got, ok := style.UndoDate(cell); !ok || got.Format(time.RFC3339) != want {
			t.Errorf("UndoDate(%q) = %v, %v, want %s", cell, got, ok, want)
		}
	}
	for _, cell := range []string{"tomorrow", "6.3.2025", "12"} {
		if got, ok := style.UndoDate(cell); ok {
			t.Errorf("UndoDate(%q) = %v", cell, got)
		}
	}
}

func TestUnchanged(t *testing.T) {
	rec := parse(t, `{"seen":1741219200123,"text":"a\r\nb","day":"2027-03-31"}`)
	seen, text, day := Column{Path: "seen", Kind: KindDate}, Column{Path: "text", Kind: KindText}, Column{Path: "day", Kind: KindDate}
	for _, tt := range []struct {
		column Column
		style  Style
		cell   string
		want   bool
	}{
		{seen, Style{}, "2025-03-06T00:00:00Z", true},
		{seen, Style{}, "2025-03-06T01:00:00+01:00", true},
		{seen, Style{Dates: DatesExcel}, "2025-03-06 00:00", true},
		{seen, Style{Dates: DatesExcel}, "2025-03-06 00:01", false},
		{seen, Style{Dates: DatesMS}, "1741219200123", true},
		{seen, Style{Dates: DatesMS}, "2025-03-06T00:00:00Z", true},
		{seen, Style{Dates: DatesMS}, "1741219200124", false},
		{seen, Style{}, "", false},
		{seen, Style{}, " ", false},
		{seen, Style{}, "never", false},
		{text, Style{}, "a\nb", true},
		{text, Style{}, "a\r\nb", true},
		{text, Style{}, "a\n\nb", false},
		{text, Style{Newlines: "space"}, "a b", true},
		{text, Style{Newlines: "escape"}, `a\r\nb`, true},
		{text, Style{}, "a b", false},
		{day, Style{}, "2027-03-31T00:00:00Z", true},
		{day, Style{Dates: DatesExcel}, "2027-03-31 00:00", true},
		{day, Style{}, "2027-04-01", false},
		{Column{Path: "none", Kind: KindDate}, Style{}, "", true},
		{Column{Path: "none", Kind: KindDate}, Style{}, "2025-03-06", false},
	} {
		if got := tt.column.Unchanged(tt.cell, rec, tt.style); got != tt.want {
			t.Errorf("%s in %+v: Unchanged(%q) = %v", tt.column.Path, tt.style, tt.cell, got)
		}
	}
}
