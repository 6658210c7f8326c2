package output

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"rmmjob/internal/spell"
)

// Names of the file formats.
const (
	FileCSV     = "csv"
	FileJSONL   = "jsonl"
	FileJSON    = "json"
	FileXLSX    = "xlsx"
	FileSQLite  = "sqlite"
	FileParquet = "parquet" // only in builds with the tag parquet
)

// FileFormat is a format an output can have.
type FileFormat struct {
	Name string
	// Endings are the file name endings that mean the format, with the point and
	// in small letters, the usual one first.
	Endings []string
	// Options are the options of an output that have an effect on the format,
	// beside its path and format.
	Options []string
	// Binary formats are nothing to look at on a terminal.
	Binary bool
	// Unavailable says why this build cannot write the format and how to get
	// one that can; "" if it can.
	Unavailable string
}

// Takes reports whether an option of an output has an effect on the format.
func (f FileFormat) Takes(option string) bool { return slices.Contains(f.Options, option) }

// fileFormats is the order of the documentation. Formulas are a matter of CSV
// alone: the other formats say what is text. Line breaks are no trouble to
// those that programs read. A database is never published in place, because
// its readers would meet half of it.
var fileFormats = []FileFormat{
	{FileCSV, []string{".csv"}, []string{"bom", "delimiter", "eol", "dates", "timezone", "formulas", "newlines", "publish"}, false, ""},
	{FileJSONL, []string{".jsonl", ".ndjson"}, []string{"dates", "timezone", "publish"}, false, ""},
	{FileJSON, []string{".json"}, []string{"dates", "timezone", "publish"}, false, ""},
	{FileXLSX, []string{".xlsx"}, []string{"dates", "timezone", "newlines", "publish"}, true, ""},
	{FileSQLite, []string{".sqlite", ".sqlite3", ".db"}, []string{"dates", "timezone", "key", "mode"}, true, ""},
	{FileParquet, []string{".parquet"}, []string{"timezone", "publish"}, true, parquetUnavailable},
}

// FileFormats lists the formats, those that this build lacks included.
func FileFormats() []FileFormat { return slices.Clone(fileFormats) }

// FileFormatNamed gives the format of that name.
func FileFormatNamed(name string) (FileFormat, bool) {
	i := slices.IndexFunc(fileFormats, func(f FileFormat) bool { return f.Name == name })
	if i < 0 {
		return FileFormat{}, false
	}
	return fileFormats[i], true
}

// FileFormatOf gives the format that the ending of a path means, in capital or
// small letters.
func FileFormatOf(path string) (FileFormat, bool) {
	ending := strings.ToLower(filepath.Ext(path))
	for _, f := range fileFormats {
		if slices.Contains(f.Endings, ending) {
			return f, true
		}
	}
	return FileFormat{}, false
}

// Spec says what a file is to hold. The zero value of each option is its
// default.
type Spec struct {
	// Source is what the rows are, as in devices. It names the sheet of XLSX and
	// the table of SQLite; it defaults to data.
	Source string
	// Columns are what Resolve gave. There must be at least one.
	Columns []Column
	// Style is the style of the output. The rows must be made with StyleFor of
	// it.
	Style Style
	// CSV are the options of CSV alone.
	CSV CSVOptions
	// Key lists the columns, by path or header, that together tell the rows of a
	// SQLite table apart. Without a key the mode must be ModeReplace.
	Key []string
	// Mode is what becomes of the rows that a SQLite table already has: ModeMerge
	// (the default) or ModeReplace.
	Mode string
	// Temp is the folder of temporary files, which hold rows and are readable by
	// their owner only; "" is the system's.
	Temp string
}

// Validate reports what New would refuse, so that nothing fails only after the
// work is done: an unknown format or one that this build lacks, an option with
// an unknown value, too many columns for a workbook, a table without a key.
func (s Spec) Validate(format string) error {
	f, ok := FileFormatNamed(format)
	switch {
	case !ok:
		return unknownFormat(format)
	case f.Unavailable != "":
		return errors.New(f.Unavailable)
	case len(s.Columns) == 0:
		return errors.New("at least one column is needed")
	}
	if err := s.Style.Validate(); err != nil {
		return err
	}
	switch format {
	case FileCSV:
		_, err := NewCSV(io.Discard, Headers(s.Columns, s.Style), s.CSV)
		return err
	case FileXLSX:
		return checkExcelColumns(len(s.Columns))
	case FileSQLite:
		if s.Mode != "" && s.Mode != ModeMerge && s.Mode != ModeReplace {
			return fmt.Errorf("mode: %q is neither %s nor %s", s.Mode, ModeMerge, ModeReplace)
		}
		_, err := keyColumns(s)
		return err
	}
	return nil
}

// unknownFormat is the fault of a format that does not exist.
func unknownFormat(format string) error {
	var names []string
	for _, f := range fileFormats {
		names = append(names, f.Name)
	}
	text := fmt.Sprintf("there is no file format %q, only %s", format, strings.Join(names, ", "))
	if near := spell.Nearest(format, names); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return errors.New(text)
}

// New starts a file of a format (one of the names of FileFormats) and is the
// one place where writers are made. What it writes goes to w; a SQLite file
// that exists is brought up to date if w is a *File with that target.
//
// A writer that is not closed must be given to Discard, for its temporary
// files. The error is that of Spec.Validate or of the disk.
func New(format string, w io.Writer, spec Spec) (Writer, error) {
	if err := spec.Validate(format); err != nil {
		return nil, fmt.Errorf("start a %s file: %w", format, err)
	}
	headers := Headers(spec.Columns, StyleFor(format, spec.Style))
	if spec.Source == "" {
		spec.Source = "data"
	}
	var out Writer
	var err error
	switch format {
	case FileCSV:
		out, err = NewCSV(w, headers, spec.CSV)
	case FileJSONL:
		out, err = NewJSONL(w, headers)
	case FileJSON:
		out, err = NewJSON(w, headers)
	case FileXLSX:
		out, err = newXLSX(w, headers, spec)
	case FileSQLite:
		out, err = newSQLite(w, headers, spec)
	case FileParquet:
		out, err = newParquet(w, headers, spec)
	}
	if err != nil {
		// A typed nil must not hide in the interface.
		return nil, fmt.Errorf("start a %s file: %w", format, err)
	}
	return out, nil
}

// StyleFor gives the style that rows for a format are made with: options that
// have no effect on the format are left out, and XLSX has real dates (the
// notation excel) unless the style names another notation.
func StyleFor(format string, s Style) Style {
	f, ok := FileFormatNamed(format)
	if !ok {
		return s
	}
	if !f.Takes("formulas") {
		s.Formulas = ""
	}
	if !f.Takes("newlines") {
		s.Newlines = ""
	}
	if !f.Takes("dates") {
		s.Dates = ""
	}
	if format == FileXLSX && s.Dates == "" {
		s.Dates = DatesExcel
	}
	return s
}

// Warnings gives what the reader of a file has to know: values that the format
// could not hold as they are, or limits of the programs it is made for. One
// line each, without values; nil if there is nothing. The list is complete
// once the writer is closed.
func Warnings(w Writer) []string {
	if v, ok := w.(interface{ Warnings() []string }); ok {
		return v.Warnings()
	}
	return nil
}

// Discard ends a writer whose file is not wanted: nothing more is written and
// its temporary files are removed. After Close it does nothing, so it can be
// deferred; a nil writer is fine.
func Discard(w Writer) error {
	if v, ok := w.(interface{ Discard() error }); ok {
		return v.Discard()
	}
	return nil
}

// cells is the kind that the cells of the column are expected to have, which a
// typed format goes by; KindNull means any. Single cells may be of another
// kind all the same.
func (c Column) cells(s Style) Kind {
	switch c.Format {
	case FormatRaw:
		return KindNull
	case FormatJSON:
		return KindObject
	case FormatJoin:
		return KindText
	case FormatCount:
		return KindInt
	case FormatBytes:
		if c.Unit == "" {
			return KindText
		}
		return KindNumber
	}
	switch c.notation(s) {
	case "":
		return c.Kind
	case DatesMS:
		return KindInt
	default:
		return KindDate
	}
}

// uniqueNames makes names that differ even for readers which do not tell small
// from capital letters: never empty, without control characters, of at most
// limit UTF-16 units. The first of two equal names keeps it.
func uniqueNames(names []string, limit int) []string {
	used := make(map[string]bool, len(names))
	unique := make([]string, len(names))
	for i, name := range names {
		name = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == utf8.RuneError {
				return ' '
			}
			return r
		}, name)
		if strings.TrimSpace(name) == "" {
			name = "column " + strconv.Itoa(i+1)
		}
		name = clipUTF16(name, limit)
		candidate := name
		for n := 2; used[fold(candidate)]; n++ {
			suffix := " " + strconv.Itoa(n)
			candidate = clipUTF16(name, limit-len(suffix)) + suffix
		}
		used[fold(candidate)] = true
		unique[i] = candidate
	}
	return unique
}

// fold is the same for names that differ in the case of letters only. Upper
// case first joins letters that have one capital but two small forms.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// clipUTF16 cuts text to at most limit UTF-16 units, in which spreadsheets
// count, without splitting a character.
func clipUTF16(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	units := 0
	for i, r := range s {
		units++
		if r > 0xffff {
			units++
		}
		if units > limit {
			return s[:i]
		}
	}
	return s
}

// identifier makes a name of ASCII letters, digits and _ that needs no quotes
// in SQL: site-devices becomes site_devices.
func identifier(s string) string {
	b := []byte(strings.ToLower(s))
	for i, c := range b {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			b[i] = '_'
		}
	}
	name := string(b)
	if strings.Trim(name, "_") == "" {
		return "data"
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// maxDigits is how many decimal digits a double holds whatever they are.
const maxDigits = 15

// exactFloat gives the double that a number stands for if no digit is lost. A
// number too large or too small for a spreadsheet is not exact.
func exactFloat(text string) (f float64, ok bool) {
	if !isNumber(text) {
		return 0, false
	}
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
	}
	digits := len(strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "-0"))
	if digits > maxDigits {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	const smallest, largest = 2.3e-308, 9.9e307
	if err != nil || digits > 0 && (max(f, -f) < smallest || max(f, -f) > largest) {
		return 0, false
	}
	return f, true
}
