package output

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
)

const (
	// excelMaxColumns and excelMaxText are Excel's own limits: columns of a sheet,
	// and UTF-16 units of the text in a cell.
	excelMaxColumns = 16_384
	excelMaxText    = 32_767
	// excelMaxHeader bounds the name of a column of a table.
	excelMaxHeader = 255
	// excelMaxSheetName leaves room for the number of a further sheet within the 31
	// units that a name may have.
	excelMaxSheetName = 26
	// xlsxMaxSheetBytes keeps the text of a sheet below the 4 GiB where another
	// kind of ZIP entry begins, which the library can only make in memory.
	xlsxMaxSheetBytes = 4<<30 - 64<<20
	// xlsxSample is how many rows are looked at for the widths of the columns.
	xlsxSample = 200
	// Widths of columns in characters.
	xlsxMinWidth, xlsxMaxWidth = 8, 60
)

// xlsx writes a workbook for Excel: one sheet with a frozen bold header, as a
// table that can be filtered at once. Numbers are numbers unless they have
// more digits than Excel keeps, true and false are those of Excel, dates in the
// notations excel and date are real dates, everything else is text, which Excel
// never takes for a formula. What is too long for one sheet goes on in further
// ones.
//
// The library collects the sheets in temporary files and would then build the
// whole workbook in memory; bookZip writes it to the output instead.
type xlsx struct {
	to      io.Writer
	dir     string // of temporary files
	book    *excelize.File
	sheet   *excelize.StreamWriter
	source  string
	headers []string
	dates   []bool    // columns whose dates are real ones
	early   [][]Value // rows that are kept until the widths are known; nil afterwards
	row     []any     // pointers to cells
	cells   []excelize.Cell
	styles  struct{ header, text, integer, second, day int }
	sheets  int
	line    int   // of the sheet, the last one written
	size    int64 // upper bound of the sheet's text
	rows    int64
	cut     int64 // cells with too much text
	altered int64 // cells with characters XML cannot hold
	err     error
	closed  bool

	maxLines int   // of a sheet; a test makes it small
	maxSize  int64 // of a sheet; a test makes it small
}

func newXLSX(w io.Writer, headers []string, spec Spec) (*xlsx, error) {
	if err := checkExcelColumns(len(headers)); err != nil {
		return nil, err
	}
	x := &xlsx{
		to: w, source: spec.Source, headers: uniqueNames(headers, excelMaxHeader), early: [][]Value{},
		maxLines: ExcelMaxRows, maxSize: xlsxMaxSheetBytes,
		cells: make([]excelize.Cell, len(headers)), row: make([]any, len(headers)), dates: make([]bool, len(headers)),
	}
	style := StyleFor(FileXLSX, spec.Style)
	for i, c := range spec.Columns {
		notation := c.notation(style)
		x.dates[i] = notation == DatesExcel || notation == FormatDate
	}
	var err error
	if x.dir, err = os.MkdirTemp(spec.Temp, "rmmjob-xlsx-*.tmp"); err != nil {
		return nil, err
	}
	x.book = excelize.NewFile(excelize.Options{TmpDir: x.dir})
	if err := x.prepare(); err != nil {
		return nil, errors.Join(err, x.Discard())
	}
	return x, nil
}

// checkExcelColumns refuses more columns than a sheet can have.
func checkExcelColumns(n int) error {
	if n > excelMaxColumns {
		return fmt.Errorf("Excel holds %d columns, not %d: choose fewer, or another format", excelMaxColumns, n) //nolint:staticcheck // a name
	}
	return nil
}

// prepare makes the styles of cells and names the maker of the file.
func (x *xlsx) prepare() error {
	var problems error
	style := func(s excelize.Style) int {
		id, err := x.book.NewStyle(&s)
		problems = errors.Join(problems, err)
		return id
	}
	second, day := "yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd"
	x.styles.header = style(excelize.Style{Font: &excelize.Font{Bold: true}, NumFmt: 49})
	x.styles.text = style(excelize.Style{NumFmt: 49})   // "@": stays text when somebody edits the cell
	x.styles.integer = style(excelize.Style{NumFmt: 1}) // "0": long numbers are not shown as 1.5E+12
	x.styles.second = style(excelize.Style{CustomNumFmt: &second})
	x.styles.day = style(excelize.Style{CustomNumFmt: &day})
	// The time in it stays that of the library's template: the same rows have to
	// give the same bytes.
	return errors.Join(problems, x.book.SetDocProps(&excelize.DocProperties{Creator: "rmmjob"}))
}

// Row writes one row.
func (x *xlsx) Row(row []Value) error {
	if x.err != nil {
		return x.err
	}
	if x.closed {
		x.err = errClosed
		return x.err
	}
	if x.err = checkWidth(row, len(x.headers)); x.err != nil {
		return x.err
	}
	if x.early != nil {
		x.early = append(x.early, slices.Clone(row))
		x.rows++
		if len(x.early) < xlsxSample {
			return nil
		}
		x.err = x.begin()
		return x.err
	}
	if x.err = x.write(row); x.err == nil {
		x.rows++
	}
	return x.err
}

// begin starts the first sheet and writes the rows that were kept for its
// widths.
func (x *xlsx) begin() error {
	rows := x.early
	x.early = nil
	if err := x.open(x.widths(rows)); err != nil {
		return err
	}
	for _, row := range rows {
		if err := x.write(row); err != nil {
			return err
		}
	}
	return nil
}

// widths gives every column the room its header and first cells need, within
// limits.
func (x *xlsx) widths(rows [][]Value) []int {
	const filterButton, margin = 3, 1
	widths := make([]int, len(x.headers))
	for i, h := range x.headers {
		need := utf8.RuneCountInString(h) + filterButton
		for _, row := range rows {
			first, _, _ := strings.Cut(row[i].Text, "\n")
			need = max(need, utf8.RuneCountInString(first)+margin)
		}
		widths[i] = min(max(need, xlsxMinWidth), xlsxMaxWidth)
	}
	return widths
}

// open starts the next sheet with its header.
func (x *xlsx) open(widths []int) error {
	x.sheets++
	name := x.sheetName()
	var err error
	if x.sheets == 1 {
		err = x.book.SetSheetName("Sheet1", name)
	} else {
		_, err = x.book.NewSheet(name)
	}
	if err != nil {
		return err
	}
	if x.sheet, err = x.book.NewStreamWriter(name); err != nil {
		return err
	}
	err = x.sheet.SetPanes(&excelize.Panes{
		Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft",
		Selection: []excelize.Selection{{SQRef: "A2", ActiveCell: "A2", Pane: "bottomLeft"}},
	})
	if err != nil {
		return err
	}
	for from := 0; from < len(widths); {
		to := from + 1
		for to < len(widths) && widths[to] == widths[from] {
			to++
		}
		if err := x.sheet.SetColWidth(from+1, to, float64(widths[from])); err != nil {
			return err
		}
		from = to
	}
	x.line, x.size = 1, 1<<20
	for i, h := range x.headers {
		x.cells[i] = excelize.Cell{StyleID: x.styles.header, Value: h}
		x.row[i] = &x.cells[i]
	}
	return x.sheet.SetRow("A1", x.row)
}

// finish ends the sheet with its table.
func (x *xlsx) finish() error {
	last, err := excelize.CoordinatesToCellName(len(x.headers), x.line)
	if err != nil {
		return err
	}
	// The letters in front keep the name from looking like the address of a cell.
	name := "tbl_" + clipUTF16(identifier(x.source), 200)
	if x.sheets > 1 {
		name += "_" + strconv.Itoa(x.sheets)
	}
	stripes := true
	err = x.sheet.AddTable(&excelize.Table{
		Range: "A1:" + last, Name: name, StyleName: "TableStyleLight1", ShowRowStripes: &stripes,
	})
	if err != nil {
		return err
	}
	return x.sheet.Flush()
}

// write adds a row to the sheet, or to the next one.
func (x *xlsx) write(row []Value) error {
	var size int64
	for i, v := range row {
		x.row[i] = &x.cells[i]
		size += x.cell(i, v)
	}
	if x.line >= x.maxLines || x.size+size > x.maxSize {
		cells := slices.Clone(x.cells)
		if err := x.finish(); err != nil {
			return err
		}
		if err := x.open(x.widths([][]Value{row})); err != nil {
			return err
		}
		copy(x.cells, cells)
	}
	for i := range x.cells {
		if x.cells[i].Value == nil {
			x.row[i] = nil
		}
	}
	x.size += size
	x.line++
	return x.sheet.SetRow("A"+strconv.Itoa(x.line), x.row)
}

// cellOverhead is more than what stands around a value in the text of a sheet.
const cellOverhead = 96

// cell puts a value into column i and gives an upper bound of its size.
func (x *xlsx) cell(i int, v Value) int64 {
	c := &x.cells[i]
	*c = excelize.Cell{}
	switch v.Kind {
	case KindNull:
		return 0
	case KindBool:
		c.Value = v.Text == "true"
		return cellOverhead
	case KindInt, KindNumber:
		if f, ok := exactFloat(v.Text); ok {
			c.Value = f
			if v.Kind == KindInt {
				c.StyleID = x.styles.integer
			}
			return cellOverhead + int64(len(v.Text)) + maxShift
		}
	case KindDate:
		if serial, day, ok := excelDate(v.Text); ok && x.dates[i] {
			c.Value, c.StyleID = serial, x.styles.second
			if day {
				c.StyleID = x.styles.day
			}
			return cellOverhead
		}
	}
	if v.Text == "" {
		return 0
	}
	text := v.Text
	if clipped := clipUTF16(text, excelMaxText); len(clipped) < len(text) {
		text = clipped
		x.cut++
	}
	escapes, ok := xmlText(text)
	if !ok {
		x.altered++
	}
	c.Value, c.StyleID = text, x.styles.text
	const escaped = 5 // bytes more for &#34; and the like
	return cellOverhead + int64(len(text)+escaped*escapes)
}

// xmlText counts the bytes of text that XML writes as something longer; ok is
// false if it has characters that XML cannot hold, which become U+FFFD.
func xmlText(text string) (escapes int, ok bool) {
	ok = true
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"', c == '\'', c == '&', c == '<', c == '>', c == '\t', c == '\n', c == '\r', c == '_':
				escapes++
			case c < ' ':
				escapes++
				ok = false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || r == 0xfffe || r == 0xffff {
			escapes++
			ok = false
		}
		i += n
	}
	return escapes, ok
}

// excelDate gives the number that stands for a date in Excel: days since the
// end of 1899 on the clock of the zone that the text is written in. ok is false
// for days before March 1900, about which Excel is wrong.
func excelDate(text string) (serial float64, day, ok bool) {
	layout := time.DateTime
	switch {
	case len(text) == len(time.DateOnly):
		layout, day = time.DateOnly, true
	case len(text) > len(time.DateTime) && text[10] == 'T':
		text = text[:10] + " " + text[11:len(time.DateTime)]
	}
	t, err := time.Parse(layout, text)
	const epoch, march1900 = 25_569, 61 // 1970-01-01 and 1900-03-01
	if err != nil {
		return 0, false, false
	}
	days, seconds := t.Unix()/86_400, t.Unix()%86_400
	if seconds < 0 {
		days, seconds = days-1, seconds+86_400
	}
	serial = float64(days+epoch) + float64(seconds)/86_400
	return serial, day, serial >= march1900
}

// sheetName makes a name that Excel takes from that of the source.
func (x *xlsx) sheetName() string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(`:\/?*[]`, r) {
			return '_'
		}
		return r
	}, x.source)
	name = strings.Trim(clipUTF16(name, excelMaxSheetName), "' ")
	if name == "" || strings.EqualFold(name, "history") { // a name Excel keeps for itself
		name += "data"
	}
	if x.sheets > 1 {
		name += " " + strconv.Itoa(x.sheets)
	}
	return name
}

// Rows is the number of rows so far, without the headers.
func (x *xlsx) Rows() int64 { return x.rows }

// Warnings tells of further sheets and of text that is not there as it was.
func (x *xlsx) Warnings() []string {
	var list []string
	if x.sheets > 1 {
		list = append(list, fmt.Sprintf("%d rows are more than a sheet of Excel holds: they go on in %d sheets", x.rows, x.sheets))
	}
	if x.cut > 0 {
		list = append(list, fmt.Sprintf("the text of %d cells was cut to the %d characters that Excel allows", x.cut, excelMaxText))
	}
	if x.altered > 0 {
		list = append(list, fmt.Sprintf("the text of %d cells has control characters that XLSX cannot hold; \ufffd stands for them", x.altered))
	}
	return list
}

// Close writes the workbook.
func (x *xlsx) Close() error {
	if x.closed {
		return x.err
	}
	if x.err == nil {
		x.err = x.save()
	}
	if err := x.Discard(); x.err == nil {
		x.err = err
	}
	return x.err
}

func (x *xlsx) save() error {
	if x.early != nil {
		if err := x.begin(); err != nil {
			return err
		}
	}
	if err := x.finish(); err != nil {
		return err
	}
	var archive *bookZip
	x.book.SetZipWriter(func(io.Writer) excelize.ZipWriter {
		archive = newBookZip(x.to, x.dir, x.sheets > 1)
		return archive
	})
	return x.book.Write(io.Discard)
}

// Discard removes the temporary files.
func (x *xlsx) Discard() error {
	if x.closed {
		return nil
	}
	x.closed = true
	return errors.Join(x.book.Close(), os.RemoveAll(x.dir))
}

// bookZip is the archive of a workbook, written straight to the output. The
// library writes the sheets in no fixed order; if there are several, they are
// compressed into temporary files first and put in order at the end, because
// the same rows have to give the same bytes.
type bookZip struct {
	*zip.Writer
	dir  string
	hold bool
	held []*heldEntry
}

// xlsxCompression is what a sheet gains from: half the time of the default for
// a tenth more bytes.
const xlsxCompression = 3

func newBookZip(to io.Writer, dir string, hold bool) *bookZip {
	z := &bookZip{Writer: zip.NewWriter(to), dir: dir, hold: hold}
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, xlsxCompression) })
	return z
}

// heldEntry is an entry that waits in a temporary file, as an archive of its
// own.
type heldEntry struct {
	name string
	file *os.File
	zip  *zip.Writer
}

// Create starts an entry.
func (z *bookZip) Create(name string) (io.Writer, error) {
	if !z.hold || !strings.HasPrefix(name, "xl/worksheets/sheet") {
		return z.Writer.Create(name)
	}
	f, err := os.CreateTemp(z.dir, "sheet-")
	if err != nil {
		return nil, err
	}
	entry := &heldEntry{name, f, newBookZip(f, "", false).Writer}
	z.held = append(z.held, entry)
	return entry.zip.Create(name)
}

// Close adds the entries that wait and ends the archive.
func (z *bookZip) Close() error {
	// By number: sheet10.xml comes after sheet9.xml.
	slices.SortFunc(z.held, func(a, b *heldEntry) int {
		if len(a.name) != len(b.name) {
			return len(a.name) - len(b.name)
		}
		return strings.Compare(a.name, b.name)
	})
	for _, entry := range z.held {
		if err := z.take(entry); err != nil {
			return err
		}
	}
	return z.Writer.Close()
}

// take copies a waiting entry as it is.
func (z *bookZip) take(entry *heldEntry) error {
	err := entry.zip.Close()
	if err == nil {
		err = z.copyFrom(entry.file)
	}
	return errors.Join(err, entry.file.Close())
}

func (z *bookZip) copyFrom(f *os.File) error {
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	r, err := zip.NewReader(f, size)
	if err != nil {
		return err
	}
	return z.Copy(r.File[0])
}
