package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
	_ "modernc.org/sqlite"
)

// sheetOf reads the first sheet of a workbook, as people see it.
func sheetOf(t *testing.T, path string) [][]string {
	t.Helper()
	book, err := excelize.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	rows, err := book.GetRows(book.GetSheetName(0))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// tableOf gives the rows of a query, the cells of each joined by |.
func tableOf(t *testing.T, path, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, c := range cells {
			texts = append(texts, c.String)
		}
		all = append(all, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// The fleet of the tests below: dates on both sides of a clock change, a number that is
// text, one that a double cannot hold, and a formula.
var formatFleet = []string{
	`{"uid":"11111111-1111-4111-8111-1111111111a1","id":9007199254740993,"hostname":"A","siteName":"S","online":true,"lastSeen":1774744200000,"udf":{"udf1":"0042","udf2":"=1+1"}}`,
	`{"uid":"22222222-2222-4222-8222-2222222222b2","id":2,"hostname":"B","siteName":"S","online":false,"lastSeen":"2026-03-29T01:30:00Z","udf":{"udf1":"5"}}`,
	`{"uid":"33333333-3333-4333-8333-3333333333c3","hostname":"C","siteName":"S","lastSeen":null}`,
}

func (b *bench) setFleet(fleet ...string) {
	b.t.Helper()
	if err := b.account.SetDevices(fleet...); err != nil {
		b.t.Fatal(err)
	}
}

// One run, every format: each file says the same in its own way (cases O01, O02, O05).
func TestEveryFormatOfOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=0,udfs=30,"+fast)
	b.setFleet(formatFleet...)
	job := b.write("all.yaml", `version: 1
export:
  from: devices
  columns: [uid, id, hostname, online, lastSeen, udf1, udf2]
  to:
    - all.csv
    - {path: all.xlsx, timezone: Europe/London}
    - all.jsonl
    - {path: all.json, dates: ms}
    - all.sqlite
`)
	before := len(b.account.Log())
	b.finish(exitOK, "state", "run", job)
	if n := len(b.account.Log()) - before; n != 3 { // login, limits and one page
		t.Errorf("%d requests", n)
	}
	if got, want := string(b.read("all.csv")), "uid,id,hostname,online,lastSeen,udf1,udf2\r\n"+
		"11111111-1111-4111-8111-1111111111a1,9007199254740993,A,true,2026-03-29T00:30:00Z,0042,=1+1\r\n"+
		"22222222-2222-4222-8222-2222222222b2,2,B,false,2026-03-29T01:30:00Z,5,\r\n"+
		"33333333-3333-4333-8333-3333333333c3,,C,,,,\r\n"; got != want {
		t.Errorf("CSV\n%s", got)
	}
	var sheet []string
	for _, row := range sheetOf(t, filepath.Join(b.dir, "all.xlsx")) {
		sheet = append(sheet, strings.Join(row[1:], "|"))
	}
	if want := []string{
		"id|hostname|online|lastSeen (Europe/London)|udf1|udf2",
		"9007199254740993|A|TRUE|2026-03-29 00:30:00|0042|=1+1",
		"2|B|FALSE|2026-03-29 02:30:00|5",
		"|C",
	}; !slices.Equal(sheet, want) {
		t.Errorf("workbook %q", sheet)
	}
	if got, want := string(b.read("all.jsonl")), `"id":9007199254740993,"hostname":"A","online":true,"lastSeen":"2026-03-29T00:30:00Z","udf1":"0042"`; !strings.Contains(got, want) || strings.Count(got, "\n") != 3 {
		t.Errorf("JSON lines\n%s", got)
	}
	var list []map[string]any
	if err := json.Unmarshal(b.read("all.json"), &list); err != nil || len(list) != 3 || list[0]["lastSeen"] != 1774744200000.0 || list[2]["lastSeen"] != nil {
		t.Errorf("JSON %v, %v", list, err)
	}
	if got, want := tableOf(t, filepath.Join(b.dir, "all.sqlite"), "SELECT id, hostname, online, lastSeen, udf1, typeof(id), typeof(udf1) FROM devices ORDER BY uid"), []string{
		"9007199254740993|A|1|2026-03-29T00:30:00Z|0042|integer|text", "2|B|0|2026-03-29T01:30:00Z|5|integer|text", "|C||||null|null",
	}; !slices.Equal(got, want) {
		t.Errorf("table %q", got)
	}
}

// A table is kept up to date by its key; what becomes of devices that are gone is the job's
// to say.
func TestSQLiteFromRunToRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=0,udfs=30,"+fast)
	b.setFleet(formatFleet...)
	job := func(mode string) string {
		return b.write(mode+".yaml", "version: 1\nexport:\n  from: devices\n  columns: [uid, hostname, udf1]\n  to: {path: kept.sqlite, mode: "+mode+"}\n")
	}
	sites := b.write("sites.yaml", "version: 1\nexport:\n  from: sites\n  columns: [name]\n  to: {path: kept.sqlite, key: name}\n")
	path := filepath.Join(b.dir, "kept.sqlite")
	b.finish(exitOK, "state", "run", job("merge"))
	b.finish(exitOK, "state", "run", sites)
	b.setFleet(strings.Replace(formatFleet[0], "0042", "0043", 1), formatFleet[2])
	b.finish(exitOK, "state", "run", job("merge"))
	if got := tableOf(t, path, "SELECT hostname, udf1 FROM devices ORDER BY 1"); !slices.Equal(got, []string{"A|0043", "B|5", "C|"}) {
		t.Errorf("merged: %q", got)
	}
	b.finish(exitOK, "state", "run", job("replace"))
	if got := tableOf(t, path, "SELECT hostname, udf1 FROM devices ORDER BY 1"); !slices.Equal(got, []string{"A|0043", "C|"}) {
		t.Errorf("replaced: %q", got)
	}
	if got := tableOf(t, path, "SELECT count(*) > 0 FROM sites"); got[0] != "1" {
		t.Error("the table of the sites is gone")
	}
}

// A linked file, or one whose rights somebody has set, stays the same file.
func TestPublishInPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	target := b.write("linked.csv", strings.Repeat("last night, and longer than tonight\n", 100))
	other := filepath.Join(b.dir, "other-name.csv")
	if err := os.Link(target, other); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	job := b.write("job.yaml", "version: 1\nexport:\n  from: devices\n  columns: [hostname]\n  to: {path: linked.csv, publish: inplace}\n")
	b.finish(exitOK, "state", "run", job)
	if a, z := b.read("linked.csv"), b.read("other-name.csv"); string(a) != string(z) || rowsOf(t, a) != 5 {
		t.Errorf("%q and %q", a, z)
	}
	job = b.write("job.yaml", "version: 1\nexport:\n  from: devices\n  columns: [siteName]\n  to: linked.csv\n")
	b.finish(exitOK, "state", "run", job)
	if a, z := b.read("linked.csv"), b.read("other-name.csv"); string(a) == string(z) {
		t.Error("without the option the file itself is replaced")
	}
}

// Binary data goes to a program, not to a terminal.
func TestBinaryOnStandardOutput(t *testing.T) {
	for _, format := range []string{"xlsx", "sqlite"} {
		dir := t.TempDir()
		job := filepath.Join(dir, "job.yaml")
		if err := os.WriteFile(job, []byte("version: 1\nexport:\n  from: devices\n  columns: [uid, hostname]\n  to: {path: '-', format: "+format+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"run", job, "--sim=devices=3,limits=off", "--state-dir", filepath.Join(dir, "state")}
		e, stdout, stderr := testEnv(t, nil)
		e.stdoutTerminal = true
		if code := run(t.Context(), args, e); code != int(exitUsage) || stdout.Len() != 0 || !strings.Contains(stderr.String(), "job.yaml:5:7: "+format+" is nothing to look at") {
			t.Errorf("%s on a terminal: exit %d, %s", format, code, stderr)
		}
		e, stdout, stderr = testEnv(t, nil)
		if code := run(t.Context(), args, e); code != 0 {
			t.Fatalf("%s to a program: exit %d, %s", format, code, stderr)
		}
		path := filepath.Join(dir, "got."+format)
		if err := os.WriteFile(path, stdout.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		if format == "xlsx" {
			n = len(sheetOf(t, path)) - 1
		} else {
			n = len(tableOf(t, path, "SELECT * FROM devices"))
		}
		if n != 3 {
			t.Errorf("%s: %d rows", format, n)
		}
	}
}
