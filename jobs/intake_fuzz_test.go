package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
)

// anyInput opens, checks and reads an input. Whatever it holds, the faults have a
// place and a reason, and every row has a cell for each heading.
func anyInput(t *testing.T, rows Rows, want ...string) {
	table, err := OpenTable(rows, want)
	if err == nil {
		err = table.Check()
	}
	if err != nil {
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 {
			t.Fatalf("%T %v", err, err)
		}
		for _, f := range list {
			if f.Message == "" || !strings.HasPrefix(f.Pos.File, rows.File()) {
				t.Fatalf("fault %+v", f)
			}
		}
		return
	}
	for _, name := range want {
		if table.Index(name) < 0 {
			t.Fatalf("no column %q among %q", name, table.Headers)
		}
	}
	n := 0
	for r, err := range table.Records() {
		if err != nil {
			t.Fatal("Check has passed it:", err)
		}
		if n++; r.Number != n || r.Line < 1 || len(r.Cells) != len(table.Headers) {
			t.Fatalf("record %+v for %q", r, table.Headers)
		}
	}
	if n != table.Rows || n == 0 {
		t.Fatalf("%d rows, Check counts %d", n, table.Rows)
	}
}

func FuzzJSONLines(f *testing.F) {
	f.Add([]byte(`{"uid":"a","udf7":1.50}` + "\r\n\n" + `{"udf7":null,"uid":"b","x":[1]}`))
	f.Add([]byte("[1]\n{\"uid\":\"\\ud800\"}\n\xff"))
	f.Add([]byte("\xff\xfe{\x00}\x00"))
	f.Add([]byte(`{"uid":"a","uid":"b"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "in.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		anyInput(t, Rows{JSONL: path}, "uid", "udf7")
	})
}

// The bytes are the file as a whole, and the sheet in a file that is whole otherwise.
func FuzzWorkbook(f *testing.F) {
	whole := bytes.Buffer{}
	book := excelize.NewFile()
	for cell, v := range map[string]any{"A1": "uid", "B1": "udf7", "A2": deviceA, "B2": 42, "B3": "#REF!", "A4": true} {
		if err := book.SetCellValue("Sheet1", cell, v); err != nil {
			f.Fatal(err)
		}
	}
	if err := book.Write(&whole); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes(), "0.5", "dd.mm.yyyy")
	f.Add([]byte("PK\x03\x04"), "1E+300", "00000")
	f.Add([]byte{}, "-1", `[$-407]"y"#,##0;@`)
	f.Add([]byte{}, "NaN", "")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, number, format string) {
		path := filepath.Join(dir, "in.xlsx")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		anyInput(t, Rows{XLSX: path}, "uid", "udf7")

		b := excelize.NewFile()
		defer closeBook(b)
		put(t, b, "Sheet1", []any{"uid", "udf7"}, []any{deviceA, 1})
		if !utf8.ValidString(number) || len(number) > 100 || b.SetCellDefault("Sheet1", "B2", number) != nil {
			return
		}
		if id, err := b.NewStyle(&excelize.Style{CustomNumFmt: &format}); err == nil {
			if err := b.SetCellStyle("Sheet1", "B2", "B2", id); err != nil {
				t.Fatal(err)
			}
		}
		if b.SaveAs(path) != nil {
			return // a format that no workbook can hold
		}
		anyInput(t, Rows{XLSX: path}, "uid", "udf7")
	})
}

// Whatever the cells hold, a call stays where its path leads, and its body has the
// shape that the job gives it.
func FuzzCall(f *testing.F) {
	f.Add("a", "b")
	f.Add("..", "\"")
	f.Add("../user", "{x}")
	f.Add("a/b?c#d", "\xff\x00")
	f.Add("%2e%2e", "\\")
	job := parse(f, "call:\n  method: POST\n  path: '/v2/device/{a}/labels-{b}'\n  class: idempotent\n  query: {q: '{b}'}\n"+
		"  body: {label: '{b}', list: [1, '{a}{b}', {deep: null}]}\n  rows: a.csv\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		req, fault := job.Update.Call.request(func(column string) string { return map[string]string{"a": a, "b": b}[column] })
		if fault != "" {
			return
		}
		op, err := req.Operation()
		if err != nil || op.Class != "idempotent" || op.Method != "POST" {
			t.Fatalf("operation %+v, %v", op, err)
		}
		u, err := url.Parse("https://host/api" + strings.TrimPrefix(req.Op, "POST "))
		if err != nil || u.Host != "host" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q: %v", req.Op, err)
		}
		parts := strings.Split(u.EscapedPath(), "/")
		if len(parts) != 6 || strings.Join(parts[:4], "/") != "/api/v2/device" || !strings.HasPrefix(parts[5], "labels-") ||
			slices.Contains([]string{".", ".."}, parts[4]) {
			t.Fatalf("path %q", parts)
		}
		var body struct {
			Label string
			List  []any
		}
		if err := json.Unmarshal(req.Body, &body); err != nil || len(body.List) != 3 || body.Label != strings.ToValidUTF8(b, "\ufffd") && utf8.ValidString(b) {
			t.Fatalf("body %q: %v", req.Body, err)
		}
	})
}
