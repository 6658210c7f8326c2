package jobs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"rmmjob/internal/spell"
)

// maxWorkbook bounds what a workbook unpacks to, in bytes: a small file can unpack to more than the memory has.
const maxWorkbook = 512 << 20

// workbook reads a sheet of an Excel workbook. Its cells are taken as they are stored, not as Excel shows them: what it
// shows depends on formats and on the width of a column. Cells that the job does not use are not looked at closer.
type workbook struct {
	date1904 bool // days count from 1904, as in workbooks of an old Excel for Mac
	formats  map[int]numberFormat
}

// numberFormat is what a number format makes of a number, as far as it matters.
type numberFormat int

const (
	plainNumber numberFormat = iota
	asDay
	asTime
	asDayTime
	asDuration     // in hours and minutes
	asLongDuration // in hours, minutes and seconds
	paddedNumber   // with zeros in front that the cell does not hold
)

// open implements source.
func (w *workbook) open(t *Table, want []string) error {
	head, err := t.head()
	if err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		return t.refuse("save it as .xlsx without a password", "this is a workbook of the old format, or one with a password")
	case !bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return t.refuse("text goes under rows: {csv: FILE}", "this is not an Excel workbook (.xlsx)")
	}
	f, _, err := w.file(t)
	if err != nil {
		return err
	}
	defer closeBook(f)
	if t.Delimiter, err = chooseSheet(t, f); err != nil {
		return err
	}
	t.Encoding = "workbook"
	if props, err := f.GetWorkbookProps(); err == nil && props.Date1904 != nil {
		w.date1904 = *props.Date1904
	}
	h, err := w.headingBelow(t, f, want, t.rows.SkipLines)
	if err != nil {
		return err
	}
	return t.take(h, want, func() int {
		return lowerHeader(h.line, want, func(line int) (heading, error) { return w.headingBelow(t, f, want, line) })
	})
}

// file opens the workbook, and gives the hash of what was read.
func (w *workbook) file(t *Table) (*excelize.File, hash.Hash, error) {
	f, err := openFile(t.rows.XLSX, "input file")
	if err != nil {
		return nil, nil, err
	}
	defer closeRead(f)
	sum := sha256.New()
	// What is unpacked stays in memory: beside it, the library would put it into a temporary file.
	book, err := excelize.OpenReader(io.TeeReader(f, sum), excelize.Options{RawCellValue: true, UnzipSizeLimit: maxWorkbook, UnzipXMLSizeLimit: maxWorkbook})
	if err != nil {
		return nil, nil, t.refuse("open it in Excel and save it again", "the workbook cannot be read: %v", err)
	}
	return book, sum, nil
}

// closeBook closes a workbook that was only read.
func closeBook(f *excelize.File) { _ = f.Close() }

// chooseSheet finds the sheet that the job names, or the only one that is not hidden.
func chooseSheet(t *Table, f *excelize.File) (string, error) {
	var shown []string
	for _, name := range f.GetSheetList() {
		if strings.EqualFold(name, trimBlank(t.rows.Sheet)) {
			return name, nil
		}
		if visible, err := f.GetSheetVisible(name); err == nil && visible {
			shown = append(shown, name)
		}
	}
	switch {
	case t.rows.Sheet != "":
		return "", t.refuseKey("sheet", suggestion(t.rows.Sheet, shown), "the workbook has no sheet %q", clip(t.rows.Sheet, 40))
	case len(shown) == 1:
		return shown[0], nil
	case len(shown) == 0:
		return "", t.refuse("name one: sheet: NAME", "the workbook has no sheet that is not hidden")
	}
	return "", t.refuse("sheet: '"+shown[0]+"', for example", "the workbook has %d sheets: name one of %s", len(shown), strings.Join(shown, ", "))
}

// each calls do with the raw cells of every row below a line, until it returns false.
func (w *workbook) each(t *Table, f *excelize.File, after int, do func(line int, hidden bool, cells []string) bool) error {
	rows, err := f.Rows(t.Delimiter)
	if err != nil {
		return t.refuse("", "the sheet %s cannot be read: %v", t.Delimiter, err)
	}
	defer rows.Close() //nolint:errcheck // only read
	for line := 1; rows.Next(); line++ {
		cells, err := rows.Columns(excelize.Options{RawCellValue: true})
		if err != nil {
			return t.refuse("open it in Excel and save it again", "row %d of the sheet %s cannot be read: %v", line, t.Delimiter, err)
		}
		if line > after && !do(line, rows.GetRowOpts().Hidden, cells) {
			return nil
		}
	}
	if err := rows.Error(); err != nil {
		return t.refuse("open it in Excel and save it again", "the sheet %s cannot be read: %v", t.Delimiter, err)
	}
	return nil
}

// headingBelow takes the first row below a line that is not blank as a header.
func (w *workbook) headingBelow(t *Table, f *excelize.File, want []string, after int) (h heading, err error) {
	err = w.each(t, f, after, func(line int, _ bool, cells []string) bool {
		if blankCells(cells) {
			return true
		}
		h.line = line
		for i, cell := range cells[:min(len(cells), maxRecordCells)] {
			h.names = append(h.names, trimBlank(cell))
			h.cells = append(h.cells, rawCell{line: line, col: i + 1})
		}
		h.count(t, want)
		return false
	})
	return h, err
}

// blankCells tells whether a row has nothing but blanks.
func blankCells(cells []string) bool {
	return !slices.ContainsFunc(cells, func(s string) bool { return trimBlank(s) != "" })
}

// scan implements source.
func (w *workbook) scan(t *Table, do func(sourceRow) bool) error {
	f, sum, err := w.file(t)
	if err != nil {
		return err
	}
	defer closeBook(f)
	whole := true
	err = w.each(t, f, t.Line, func(line int, hidden bool, cells []string) bool {
		row := sourceRow{blank: true}
		if !blankCells(cells) {
			row = w.row(t, f, line, cells)
			row.hidden = hidden
		}
		whole = do(row)
		return whole
	})
	if err != nil || !whole {
		return err
	}
	return t.unchanged(sum)
}

// row makes a row of its raw cells.
func (w *workbook) row(t *Table, f *excelize.File, line int, raw []string) sourceRow {
	row := sourceRow{Record: Record{Line: line, Cells: make([]string, len(t.Headers)), file: t.place(), cells: make([]rawCell, len(t.Headers))}}
	for i := range t.Headers {
		row.cells[i] = rawCell{line: line, col: i + 1}
		if i >= len(raw) {
			continue
		}
		row.Cells[i] = raw[i]
		if !t.mapped[i] {
			continue
		}
		name, err := excelize.CoordinatesToCellName(i+1, line)
		if err != nil {
			continue // beyond the last cell of any sheet
		}
		cell, fault, hint := w.cell(f, t.Delimiter, name, raw[i])
		row.Cells[i] = cell
		switch {
		case fault != "":
			row.faults = append(row.faults, &Error{Pos: row.Pos(i), Message: "cell " + name + ": " + fault, Hint: hint})
		case scientific(cell):
			row.science = append(row.science, row.Pos(i))
		}
	}
	if beyond := raw[min(len(raw), len(t.Headers)):]; !blankCells(beyond) {
		row.Extra = slices.Clone(beyond)
		i := len(t.Headers) + slices.IndexFunc(beyond, func(s string) bool { return trimBlank(s) != "" })
		row.faults = append(row.faults, &Error{
			Pos: Pos{row.file, line, i + 1}, Message: fmt.Sprintf("the row has %s, the header has %d", spell.Count(len(raw), "cell"), len(t.Headers)),
			Hint: "give the column a heading, or empty the cell",
		})
	}
	return row
}

// cell reads a cell that the job uses: text as it is, numbers in plain digits, days and times in ISO form.
func (w *workbook) cell(f *excelize.File, sheet, name, raw string) (text, fault, hint string) {
	if raw == "" {
		if formula, err := f.GetCellFormula(sheet, name); err == nil && formula != "" {
			return "", "the formula has no result yet", "open the workbook in Excel and save it"
		}
		return "", "", ""
	}
	kind, err := f.GetCellType(sheet, name)
	if err != nil {
		return raw, err.Error(), ""
	}
	switch kind {
	case excelize.CellTypeError:
		return raw, "the formula ends in the error " + raw, "mend it, or put its value in its place"
	case excelize.CellTypeBool:
		if raw == "1" || strings.EqualFold(raw, "true") {
			return "true", "", ""
		}
		return "false", "", ""
	case excelize.CellTypeSharedString, excelize.CellTypeInlineString, excelize.CellTypeFormula:
		fault, hint = spoilt(raw)
		return raw, fault, hint
	case excelize.CellTypeDate:
		return raw, "", "" // in ISO form already
	}
	return w.number(f, sheet, name, raw)
}

const asTextHint = "make the column text and fill it again"

// number reads a number by its format. Excel keeps fifteen digits: what has more has lost some.
func (w *workbook) number(f *excelize.File, sheet, name, raw string) (text, fault, hint string) {
	v, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return raw, "", ""
	}
	style, err := f.GetCellStyle(sheet, name)
	if err != nil {
		return raw, err.Error(), ""
	}
	format := w.format(f, style)
	switch format {
	case asDuration, asLongDuration:
		if v < 0 || v > longestDuration {
			return raw, "the number is no duration that Excel shows", asTextHint
		}
		return duration(v, format == asLongDuration), "", ""
	case asDay, asTime, asDayTime:
		at, err := excelize.ExcelDateToTime(v, w.date1904)
		if err != nil || v < 0 {
			return raw, "the number is no date that Excel knows", asTextHint
		}
		at = at.Round(time.Second)
		layout := time.DateOnly
		switch {
		case format == asTime && v < 1:
			layout = time.TimeOnly
		case format == asTime && v < firstDay:
			return raw, "the format shows a time of day and hides " + spell.Count(int(v), "day") + ": " + duration(v, true) + " in all", "a duration needs the format [h]:mm, a day one that shows it"
		case v < firstDay:
			return raw, "the number is no day that anybody means: Excel shows it as one of the first year that it knows", asTextHint
		case at.Truncate(24*time.Hour) != at: // the format may hide it
			layout = "2006-01-02T15:04:05"
		}
		return at.Format(layout), "", ""
	case paddedNumber:
		return raw, "the format of the cell shows zeros in front that the cell does not hold", asTextHint
	}
	if math.Abs(v) >= 1e15 {
		return raw, "a number of more than 15 digits, of which Excel has lost some", asTextHint
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64)
	if err != nil {
		short = v
	}
	return strconv.FormatFloat(short, 'f', -1, 64), "", ""
}

const (
	// firstDay is where the second year of Excel's calendar begins. What is less is a zero or a duration that is shown as a day.
	firstDay = 367
	// longestDuration is the longest duration that Excel shows, in days: to the end of its calendar.
	longestDuration = 2958466
)

// duration is a number of days in hours and minutes, and in seconds where they are asked for or are not zero.
func duration(days float64, long bool) string {
	seconds := int64(math.Round(days * 24 * 60 * 60))
	text := fmt.Sprintf("%d:%02d", seconds/3600, seconds/60%60)
	if long || seconds%60 != 0 {
		text += fmt.Sprintf(":%02d", seconds%60)
	}
	return text
}

// format tells what the number format of a style does.
func (w *workbook) format(f *excelize.File, style int) numberFormat {
	if known, ok := w.formats[style]; ok {
		return known
	}
	format := plainNumber
	if s, err := f.GetStyle(style); err == nil {
		format = builtInFormat(s.NumFmt)
		if s.CustomNumFmt != nil {
			format = customFormat(*s.CustomNumFmt)
		}
	}
	if w.formats == nil {
		w.formats = make(map[int]numberFormat)
	}
	w.formats[style] = format
	return format
}

// builtInFormat knows the formats that have a number and no text.
func builtInFormat(id int) numberFormat {
	switch {
	case id >= 14 && id <= 17, id >= 27 && id <= 31, id == 36, id >= 50 && id <= 54, id >= 57 && id <= 58:
		return asDay
	case id == 22:
		return asDayTime
	case id == 46:
		return asLongDuration
	case id >= 18 && id <= 21, id >= 32 && id <= 35, id >= 45 && id <= 47, id >= 55 && id <= 56:
		return asTime
	}
	return plainNumber
}

// formatNoise is what a number format holds beside its signs: texts in quotes, escaped signs, colours and locales.
var formatNoise = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

// elapsed is how a format asks for a duration: its hours, minutes or seconds go on after a day, an hour or a minute.
var elapsed = regexp.MustCompile(`(?i)\[(h+|m+|s+)\]`)

// quotedText is what of a format is text.
var quotedText = regexp.MustCompile(`"[^"]*"|\\.`)

// customFormat reads the text of a number format.
func customFormat(format string) numberFormat {
	if plain, _, _ := strings.Cut(quotedText.ReplaceAllString(format, ""), ";"); elapsed.MatchString(plain) {
		if strings.ContainsAny(plain, "sS") {
			return asLongDuration
		}
		return asDuration
	}
	first, _, _ := strings.Cut(formatNoise.ReplaceAllString(format, ""), ";")
	signs := strings.ToLower(first)
	day := strings.ContainsAny(signs, "yd") || strings.Contains(signs, "mmm")
	clock := strings.ContainsAny(signs, "hs")
	switch {
	case strings.Contains(signs, "general"), signs == "@":
		return plainNumber
	case day && clock:
		return asDayTime
	case day:
		return asDay
	case clock:
		return asTime
	case strings.HasPrefix(signs, "00"):
		return paddedNumber
	}
	return plainNumber
}
