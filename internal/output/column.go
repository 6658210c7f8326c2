package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmmjob/internal/spell"
)

// Column formats beyond those of dates.
const (
	FormatRaw   = "raw"   // the value as the API sent it: dates and numbers unchanged
	FormatJSON  = "json"  // JSON text of any value, text in quotes too
	FormatJoin  = "join"  // the elements of a list in one cell, with a separator between them
	FormatBytes = "bytes" // a number of bytes as people read it, or in a unit
	FormatCount = "count" // how many elements a list has
)

// Separator stands between the elements of a list that the format join puts
// into one cell, where the column names no other.
const Separator = "; "

// Formats lists the formats a column may have.
func Formats() []string {
	return []string{FormatDate, DatesRFC3339, DatesExcel, DatesMS, FormatRaw, FormatJSON, FormatJoin, FormatBytes, FormatCount}
}

// ColumnSpec is a column as a job names it: hostname is a path alone,
// {lastSeen: rfc3339} a path and a format, {AssetTag: udf.udf1} a header and a
// path. Where Header is empty it is Path as written; an empty Format is the
// usual one of the field.
type ColumnSpec struct {
	Header, Path, Format string
	Argument
}

// Argument is what a format is told beside its name. The zero value of each is
// its default.
type Argument struct {
	Separator string         // of join; "; " by default
	Unit      string         // of bytes: one of Units; by default each cell has the unit that fits
	Zone      *time.Location // of dates; that of the output by default
}

// Column is a resolved column.
type Column struct {
	Header string // the first row; unique in a list of columns and never empty
	Path   string // where the value is; see Record.Lookup
	Format string // one of Formats, or "" for the usual form of the field's kind
	Kind   Kind   // what the field is known to hold; KindNull if it is not known
	Argument

	named bool // the job chose the header
}

// ColumnError tells what is wrong with a column of a job.
type ColumnError struct {
	Index      int    // position in the job's list, from 0
	Name       string // the column as the job has it
	Reason     string // "unknown column", "unknown format", "header used twice", "no name", "detail not asked for", or what the format does nothing for
	Suggestion string // the column or format that was probably meant, or ""
}

// Error gives one line with the next step.
func (e *ColumnError) Error() string {
	text := fmt.Sprintf("column %d: %s %q", e.Index+1, e.Reason, e.Name)
	switch {
	case e.Suggestion != "":
		text += fmt.Sprintf(" (did you mean %q?)", e.Suggestion)
	case e.Reason == reasonColumn:
		text += " (a field this version does not know can be had with the format raw)"
	}
	return text
}

// NotAsked reports whether the column is inside a detail that the job does not
// ask for.
func (e *ColumnError) NotAsked() bool { return e.Reason == reasonDetail }

const (
	reasonColumn = "unknown column"
	reasonFormat = "unknown format"
	reasonTwice  = "header used twice"
	reasonEmpty  = "no name"
	reasonDetail = "detail not asked for"
)

// Resolve turns the columns of a job into columns of an element. The name of a
// preset stands for its columns; alone, it also has the columns of the details.
// No specs at all mean the preset "default". udf7 is short for udf.udf7, with any number
// from 1. A field that is not known is an error unless its format is raw.
//
// with names the details the job asks for beside the element (audit, software).
// A column inside another detail is an error, because it would stay empty.
//
// The error is a *ColumnError, or a plain one for an element or a detail that
// is not known.
func Resolve(elementName string, specs []ColumnSpec, with ...string) ([]Column, error) {
	e, ok := loadElements()[elementName]
	if !ok {
		return nil, fmt.Errorf("no columns are known for %q", elementName)
	}
	var extra []Column
	for _, name := range with {
		add, ok := Detail(elementName, name)
		if !ok {
			return nil, fmt.Errorf("%s have no detail %q", elementName, name)
		}
		extra = append(extra, add...)
	}
	if len(specs) == 0 {
		specs = []ColumnSpec{{Path: PresetDefault}}
	}
	if len(specs) == 1 && specs[0].bare() {
		if columns, ok := Preset(elementName, specs[0].Path); ok {
			return append(columns, extra...), nil
		}
	}
	var columns []Column
	used := map[string]bool{}
	for i, spec := range specs {
		var add []Column
		if spec.bare() {
			if _, isField := e.find(spec.Path); !isField {
				add, _ = Preset(elementName, spec.Path)
			}
		}
		if add == nil {
			c, problem := e.resolve(spec, with)
			if problem != nil {
				problem.Index = i
				return nil, problem
			}
			add = []Column{c}
		}
		for _, c := range add {
			if used[c.Header] {
				return nil, &ColumnError{Index: i, Name: c.Header, Reason: reasonTwice}
			}
			used[c.Header] = true
		}
		columns = append(columns, add...)
	}
	return columns, nil
}

// bare reports whether the job gives a path and nothing else.
func (s ColumnSpec) bare() bool { return s.Header == "" && s.Format == "" }

func (e *element) resolve(spec ColumnSpec, with []string) (Column, *ColumnError) {
	c := Column{Header: spec.Header, Path: spec.Path, Format: spec.Format, Argument: spec.Argument, named: spec.Header != ""}
	if c.Header == "" {
		c.Header = spec.Path
	}
	if strings.TrimSpace(c.Header) == "" || c.Path == "" {
		return c, &ColumnError{Name: spec.Path, Reason: reasonEmpty}
	}
	if c.Format != "" && !slices.Contains(Formats(), c.Format) {
		return c, &ColumnError{Name: c.Format, Reason: reasonFormat, Suggestion: spell.Nearest(c.Format, Formats())}
	}
	if isUDF(c.Path) && e.has("udf") {
		c.Path = "udf." + c.Path
	}
	field, known := e.find(c.Path)
	if !known && !c.named && c.Format != FormatRaw {
		// {When: date}: what reads as a format is a field of that name here.
		if f, ok := e.find(c.Format); ok {
			return Column{Header: spec.Path, Path: f.Path, Kind: f.Kind, named: true}, nil
		}
	}
	if !known && c.Format != FormatRaw {
		return c, &ColumnError{Name: spec.Path, Reason: reasonColumn, Suggestion: e.suggest(spec.Path, with)}
	}
	if d := e.detailOf(c.Path); known && d != "" && !slices.Contains(with, d) {
		return c, &ColumnError{Name: spec.Path, Reason: reasonDetail}
	}
	if known && !field.InList && idle(c.Format, field.Kind) {
		return c, &ColumnError{Name: spec.Path, Reason: fmt.Sprintf("the format %s does nothing for a field of the kind %s:", c.Format, field.Kind)}
	}
	c.Kind = field.Kind
	return c, nil
}

// idle tells whether a format does nothing for the values of a kind. Text may be a
// date, and a number a date in milliseconds.
func idle(format string, kind Kind) bool {
	var kinds []Kind
	switch format {
	case FormatBytes:
		kinds = []Kind{KindBool, KindDate, KindObject, KindList}
	case FormatJoin, FormatCount:
		kinds = []Kind{KindBool, KindInt, KindNumber, KindDate}
	case FormatDate, DatesRFC3339, DatesExcel, DatesMS:
		kinds = []Kind{KindBool, KindObject}
	}
	return slices.Contains(kinds, kind)
}

// Style is how the values of one output are written. The zero Style is the
// default of every option.
type Style struct {
	// Dates is the notation of dates: DatesRFC3339 (the default), DatesExcel or
	// DatesMS. A column's own format goes before it.
	Dates string
	// Location is the zone of dates; nil is UTC. A date without a time of day
	// is the same day in every zone.
	Location *time.Location
	// Formulas is "keep" (the default) or "guard"; see Guard.
	Formulas string
	// Newlines says what becomes of line breaks in text: "keep" (the default),
	// "space" (one blank for each) or "escape" (the two characters \n or \r;
	// backslashes stay as they are, since paths are full of them).
	Newlines string
}

// Validate reports an option with an unknown value.
func (s Style) Validate() error {
	for _, option := range []struct {
		name, value string
		allowed     []string
	}{
		{"dates", s.Dates, []string{DatesRFC3339, DatesExcel, DatesMS}},
		{"formulas", s.Formulas, []string{"keep", "guard"}},
		{"newlines", s.Newlines, []string{"keep", "space", "escape"}},
	} {
		if option.value != "" && !slices.Contains(option.allowed, option.value) {
			return fmt.Errorf("%s: %q is none of %s", option.name, option.value, strings.Join(option.allowed, ", "))
		}
	}
	return nil
}

// Headers gives the first row. Columns with dates in the notation excel, which
// do not tell their zone themselves, name it here, as in
// "lastSeen (Europe/London)", unless the job chose the header.
func Headers(columns []Column, s Style) []string {
	headers := make([]string, len(columns))
	for i, c := range columns {
		headers[i] = c.Header
		if c.notation(s) == DatesExcel && !c.named {
			headers[i] += " (" + zoneName(c.zone(s)) + ")"
		}
	}
	return headers
}

func zoneName(zone *time.Location) string {
	switch zone {
	case nil:
		return "UTC"
	case time.Local:
		return "local time"
	}
	return zone.String()
}

// zone is the zone of the column's dates; nil is UTC.
func (c Column) zone(s Style) *time.Location {
	if c.Zone != nil {
		return c.Zone
	}
	return s.Location
}

// notation is the notation of the column's dates, "" if it has none.
func (c Column) notation(s Style) string {
	switch c.Format {
	case FormatDate, DatesRFC3339, DatesExcel, DatesMS:
		return c.Format
	case "", FormatJoin:
		if c.Kind != KindDate {
			return ""
		}
		if s.Dates == "" {
			return DatesRFC3339
		}
		return s.Dates
	}
	return ""
}

// Cell gives the cell of a record. It never fails: a value of an unexpected
// kind is written as it is, whatever the column expects.
func (c Column) Cell(rec Record, s Style) Value {
	v, _ := rec.Lookup(c.Path)
	if v == nil {
		return Value{}
	}
	var cell Value
	switch c.Format {
	case FormatRaw:
		cell = rawValue(v)
	case FormatJSON:
		cell = Value{KindObject, jsonText(v)}
	case FormatJoin:
		cell = c.join(v, s)
	case FormatBytes:
		cell = c.bytes(v)
	case FormatCount:
		cell = count(v)
	default:
		cell = c.one(v, s)
	}
	if cell.Kind == KindText {
		cell.Text = s.text(cell.Text)
	}
	return cell
}

// one writes a value that is not taken apart.
func (c Column) one(v any, s Style) Value {
	if notation := c.notation(s); notation != "" {
		return dateValue(v, notation, c.zone(s))
	}
	return plain(v)
}

func (c Column) join(v any, s Style) Value {
	list, ok := v.([]any)
	if !ok {
		return c.one(v, s)
	}
	var parts []string
	for _, element := range list {
		if inner, ok := element.([]any); ok {
			element = c.join(inner, s).Text
		}
		if part := c.one(element, s).Text; part != "" {
			parts = append(parts, part)
		}
	}
	if parts == nil {
		return Value{}
	}
	return Value{KindText, strings.Join(parts, cmp.Or(c.Separator, Separator))}
}

// count gives the number of elements of a list. What is no list counts as one.
func count(v any) Value {
	n := 1
	if list, ok := v.([]any); ok {
		n = len(list)
	}
	return Value{KindInt, strconv.Itoa(n)}
}

func rawValue(v any) Value {
	if n, ok := v.(json.Number); ok {
		return numberValue(n.String())
	}
	return plain(v)
}

// text applies the options that alter text.
func (s Style) text(t string) string {
	switch s.Newlines {
	case "space":
		t = breaksToSpace.Replace(t)
	case "escape":
		t = breaksToEscape.Replace(t)
	}
	if s.Formulas == "guard" {
		t = Guard(t)
	}
	return t
}

var (
	breaksToSpace  = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")
	breaksToEscape = strings.NewReplacer("\n", `\n`, "\r", `\r`)
)

// Row writes the cells of a record into dst, which is grown as needed and
// returned.
func Row(dst []Value, columns []Column, rec Record, s Style) []Value {
	dst = dst[:0]
	for _, c := range columns {
		dst = append(dst, c.Cell(rec, s))
	}
	return dst
}
