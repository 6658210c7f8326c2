//go:build parquet

package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// parquetUnavailable is empty: this build writes Parquet.
const parquetUnavailable = ""

const (
	// parquetGroup is the number of rows of a row group, which is what a reader
	// handles at once.
	parquetGroup = 100_000
	// parquetPage is the size of the buffer of one column in bytes; there can be
	// hundreds of columns.
	parquetPage = 64 << 10
	// parquetOdd is the column of values that are not of their column's type.
	parquetOdd = "_unexpected"
)

// parquetFile writes Parquet. The columns have the order of the job and are all
// optional. Their types come from the columns, never from the data, so that
// they are the same every night; a cell that its column's type cannot hold is
// null there, and the additional last column _unexpected has it, in a JSON
// object by the names of the columns.
type parquetFile struct {
	w      *parquet.GenericWriter[any]
	dir    string // of pages that wait for their row group
	names  []string
	kinds  []parquetKind
	row    parquet.Row
	odd    map[string]string
	odds   int64
	rows   int64
	err    error
	closed bool
}

// parquetKind is the type of a column.
type parquetKind uint8

const (
	parquetText parquetKind = iota
	parquetInt
	parquetFloat
	parquetBool
	parquetInstant // milliseconds since 1970, UTC
	parquetDay     // days since 1970
)

func newParquet(w io.Writer, headers []string, spec Spec) (Writer, error) {
	p := &parquetFile{names: uniqueNames(append(headers, parquetOdd), sqliteMaxName), odd: map[string]string{}}
	style := StyleFor(FileParquet, spec.Style)
	group := parquet.Group{}
	for i, c := range spec.Columns {
		kind := parquetKindOf(c, style)
		p.kinds = append(p.kinds, kind)
		group[p.names[i]] = parquet.Optional(kind.node())
	}
	group[p.names[len(headers)]] = parquet.Optional(parquet.String())
	var err error
	if p.dir, err = os.MkdirTemp(spec.Temp, "rmmjob-parquet-*.tmp"); err != nil {
		return nil, err
	}
	config, err := parquet.NewWriterConfig(
		parquet.NewSchema(identifier(spec.Source), orderedGroup(group, p.names)),
		parquet.Compression(&parquet.Zstd), parquet.CreatedBy("rmmjob", "1", "parquet-go"),
		parquet.MaxRowsPerRowGroup(parquetGroup), parquet.PageBufferSize(parquetPage),
		parquet.ColumnPageBuffers(parquet.NewFileBufferPool(p.dir, "page-*")),
	)
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	p.w = parquet.NewGenericWriter[any](w, config)
	return p, nil
}

// parquetKindOf gives the type of a column.
func parquetKindOf(c Column, s Style) parquetKind {
	switch c.cells(s) {
	case KindInt:
		return parquetInt
	case KindNumber:
		return parquetFloat
	case KindBool:
		return parquetBool
	case KindDate:
		switch c.notation(s) {
		case DatesRFC3339:
			return parquetInstant
		case FormatDate:
			return parquetDay
		}
	}
	return parquetText
}

func (k parquetKind) node() parquet.Node {
	switch k {
	case parquetInt:
		return parquet.Int(64)
	case parquetFloat:
		return parquet.Leaf(parquet.DoubleType)
	case parquetBool:
		return parquet.Leaf(parquet.BooleanType)
	case parquetInstant:
		return parquet.Timestamp(parquet.Millisecond)
	case parquetDay:
		return parquet.Date()
	default:
		return parquet.String()
	}
}

// columns is a group whose columns keep their order; the library sorts them.
type columns struct {
	parquet.Group
	fields []parquet.Field
}

func orderedGroup(group parquet.Group, names []string) columns {
	byName := map[string]parquet.Field{}
	for _, f := range group.Fields() {
		byName[f.Name()] = f
	}
	c := columns{Group: group}
	for _, name := range names {
		c.fields = append(c.fields, byName[name])
	}
	return c
}

// Fields lists the columns.
func (c columns) Fields() []parquet.Field { return c.fields }

// Row writes one row.
func (p *parquetFile) Row(row []Value) error {
	if p.err != nil {
		return p.err
	}
	if p.closed {
		p.err = errClosed
		return p.err
	}
	if p.err = checkWidth(row, len(p.kinds)); p.err != nil {
		return p.err
	}
	p.row = p.row[:0]
	for i, v := range row {
		cell, ok := p.kinds[i].value(v)
		if !ok {
			p.odd[p.names[i]] = v.Text
		}
		p.add(cell)
	}
	var odd parquet.Value
	if len(p.odd) > 0 {
		text, err := json.Marshal(p.odd)
		if err != nil {
			p.err = err
			return err
		}
		odd = parquet.ByteArrayValue(text)
		p.odds += int64(len(p.odd))
		clear(p.odd)
	}
	p.add(odd)
	if _, p.err = p.w.WriteRows([]parquet.Row{p.row}); p.err == nil {
		p.rows++
	}
	return p.err
}

// add appends a cell to the row.
func (p *parquetFile) add(v parquet.Value) {
	level := 1
	if v.IsNull() {
		level = 0
	}
	p.row = append(p.row, v.Level(0, level, len(p.row)))
}

// value gives a cell in the type of its column; ok is false if that cannot
// hold it.
func (k parquetKind) value(v Value) (_ parquet.Value, ok bool) {
	if v.Kind == KindNull {
		return parquet.NullValue(), true
	}
	switch k {
	case parquetInt:
		if v.Kind == KindInt {
			if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
				return parquet.Int64Value(n), true
			}
		}
	case parquetFloat:
		if v.Kind == KindInt || v.Kind == KindNumber {
			if f, exact := exactFloat(v.Text); exact {
				return parquet.DoubleValue(f), true
			}
		}
	case parquetBool:
		if v.Kind == KindBool {
			return parquet.BooleanValue(v.Text == "true"), true
		}
	case parquetInstant:
		if v.Kind == KindDate {
			if t, err := time.Parse(time.RFC3339, v.Text); err == nil {
				return parquet.Int64Value(t.UnixMilli()), true
			}
		}
	case parquetDay:
		if v.Kind == KindDate {
			if t, err := time.Parse(time.DateOnly, v.Text); err == nil {
				days := math.Floor(float64(t.Unix()) / (24 * 60 * 60))
				return parquet.Int32Value(int32(days)), true
			}
		}
	default:
		text := v.Text
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\ufffd")
		}
		return parquet.ByteArrayValue([]byte(text)), true
	}
	return parquet.NullValue(), false
}

// Rows is the number of rows so far.
func (p *parquetFile) Rows() int64 { return p.rows }

// Warnings tells of values that are not in their own column.
func (p *parquetFile) Warnings() []string {
	if p.odds == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d values are not of their column's type: they are in the column %s", p.odds, p.names[len(p.kinds)])}
}

// Close ends the file.
func (p *parquetFile) Close() error {
	if p.closed {
		return p.err
	}
	if p.err == nil {
		p.err = p.w.Close()
	}
	if err := p.Discard(); p.err == nil {
		p.err = err
	}
	return p.err
}

// Discard removes the temporary files.
func (p *parquetFile) Discard() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return os.RemoveAll(p.dir)
}
