//go:build parquet

package output

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// readParquet gives the columns of a file with their types, and all its rows.
func readParquet(t testing.TB, content []byte) (columns []string, rows []parquet.Row) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Schema().Fields() {
		columns = append(columns, c.Name()+" "+c.Type().String())
		if !c.Optional() {
			t.Errorf("%s is not optional", c.Name())
		}
	}
	for _, group := range f.RowGroups() {
		r := group.Rows()
		buffer := make([]parquet.Row, 64)
		for {
			n, err := r.ReadRows(buffer)
			for _, row := range buffer[:n] {
				rows = append(rows, row.Clone())
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
	}
	return columns, rows
}

func TestParquet(t *testing.T) {
	columns := append(slices.Clone(awkwardColumns), Column{Header: "Seen", Path: "seen", Kind: KindDate, Format: DatesExcel}, Column{Header: "ms", Path: "seen", Kind: KindDate, Format: DatesMS})
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	content, warnings := writeFormat(t, FileParquet, Spec{Source: "devices", Columns: columns, Style: Style{Dates: DatesMS, Location: berlin}}, awkwardRecords...)
	names, rows := readParquet(t, content)
	if got := strings.Join(names, ", "); got != "uid STRING, text STRING, count INT(64,true), online BOOLEAN, seen TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS), ratio DOUBLE, "+
		"list STRING, raw STRING, day DATE, Seen (Europe/Berlin) STRING, ms INT(64,true), _unexpected STRING" {
		t.Errorf("columns: %s", got)
	}
	var got []string
	for _, row := range rows {
		var cells []string
		for _, v := range row {
			cells = append(cells, v.String())
		}
		got = append(got, strings.Join(cells, "|"))
	}
	want := []string{
		`1|plain|42|true|1741219200000|2.5|[1,"x"]|7|20908|2025-03-06 01:00:00|1741219200000|<null>`,
		`2|=1+1|-5|false|1751373000000|0.1|[]|1.5e3|20153|2025-07-01 14:30:00|1751373000000|<null>`,
		`3|00123|<null>|<null>|<null>|<null>|{"a":1}|true|<null>|tomorrow|<null>|{"count":"123456789012345678901234567890","day":"x","ms":"tomorrow","online":"maybe","ratio":"1234567890.1234567","seen":"tomorrow"}`,
		"4|line\r\nbreak\tand \"quotes\" ü 漢 🦊 |<null>|<null>|<null>|<null>|x|007|<null>|12|12|{\"count\":\"007\",\"online\":\"1\",\"ratio\":\"1e5\",\"seen\":\"12\"}",
		`5||9223372036854775807|<null>|<null>|7|<null>|<null>|<null>|<null>|<null>|<null>`,
		`6|'=x|9007199254740993|true|-2524510555000|<null>|[]|1e5|<null>|1890-01-02 03:57:33|-2524510555000|{"ratio":"9007199254740993"}`,
	}
	for i := range want {
		// Before 1893 Berlin had its own time, which no reader needs to agree on.
		if i < len(got) && got[i] != want[i] && i != 5 {
			t.Errorf("row %d: %s, want\n%s", i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "11 values") {
		t.Errorf("%d rows, warnings %q", len(got), warnings)
	}
}

// TestParquetKeepsTypes has columns whose values are all odd, or not there: the
// types are the same as ever.
func TestParquetKeepsTypes(t *testing.T) {
	spec := Spec{Columns: awkwardColumns}
	all, _ := writeFormat(t, FileParquet, spec, awkwardRecords...)
	want, _ := readParquet(t, all)
	for _, records := range [][]string{nil, {`{}`}, {`{"count":"x","online":[],"seen":{},"ratio":"","day":true}`}} {
		content, _ := writeFormat(t, FileParquet, spec, records...)
		if got, rows := readParquet(t, content); !slices.Equal(got, want) || len(rows) != len(records) {
			t.Errorf("%q: columns %q, %d rows", records, got, len(rows))
		}
	}
}

// TestParquetRows writes more than a row group.
func TestParquetRows(t *testing.T) {
	columns := []Column{{Header: "z", Path: "z", Kind: KindInt}, {Header: "a", Path: "a"}}
	dir := t.TempDir()
	var b bytes.Buffer
	w, err := New(FileParquet, &b, Spec{Columns: columns, Temp: dir})
	if err != nil {
		t.Fatal(err)
	}
	const n = 2*parquetGroup + 5
	for i := range n {
		if err := w.Row([]Value{{KindInt, strconv.Itoa(i)}, {KindText, "u" + strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, rows := readParquet(t, b.Bytes())
	if len(rows) != n || len(list(t, dir)) != 0 {
		t.Fatalf("%d rows, %q is left", len(rows), list(t, dir))
	}
	for i, row := range rows {
		if row[0].Int64() != int64(i) || row[1].String() != "u"+strconv.Itoa(i) {
			t.Fatalf("row %d is %v", i, row)
		}
	}
}

// TestParquetLosesNothing draws cells: each is in its column or in the last.
func TestParquetLosesNothing(t *testing.T) {
	kinds := []Kind{KindText, KindInt, KindBool, KindDate, KindNumber}
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.SampledFrom(kinds).Draw(rt, "column")
		v := rapid.SampledFrom([]Value{
			{},
			{KindText, ""},
			{KindText, "true"},
			{KindText, "12"},
			{KindInt, "12"},
			{KindInt, "99999999999999999999"},
			{KindNumber, "1.5"},
			{KindNumber, "0.12345678901234567"},
			{KindBool, "true"},
			{KindBool, "false"},
			{KindDate, "2025-03-06T00:00:00Z"},
			{KindDate, "2025-03-06"},
			{KindList, "[]"},
		}).Draw(rt, "value")
		var b bytes.Buffer
		w, err := New(FileParquet, &b, Spec{Columns: []Column{{Header: "c", Path: "c", Kind: k}}})
		if err == nil {
			err = errors.Join(w.Row([]Value{v}), w.Close())
		}
		if err != nil {
			rt.Fatal(err)
		}
		_, rows := readParquet(t, b.Bytes())
		row := rows[0]
		switch {
		case v.Kind == KindNull && row[0].IsNull() && row[1].IsNull():
		case v.Kind != KindNull && row[0].IsNull() && row[1].String() == `{"c":"`+v.Text+`"}`:
		case k == KindDate && v.Kind == KindDate && row[0].Int64() == 1741219200000:
		case v.Kind != KindNull && row[0].String() == v.Text && row[1].IsNull():
		default:
			rt.Fatalf("%v in a column of %v is %v", v, k, row)
		}
	})
}
