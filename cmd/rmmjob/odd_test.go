package main

import (
	"bytes"
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// cellsOf reads an exported CSV file: the cells of each row.
func (b *bench) cellsOf(name string) [][]string {
	b.t.Helper()
	records, err := csv.NewReader(bytes.NewReader(b.read(name))).ReadAll()
	if err != nil {
		b.t.Fatal(err)
	}
	return records[1:]
}

// Case D18: what the service sends is UTF-8 whatever its headers say, and so is
// what is sent to it.
func TestCase_D18_Umlauts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=1,udfs=30,"+fast)
	const name, tag = "Büro-Łódź-東京", "Größe ≤ 5″"
	if err := b.account.SetDevices(`{"uid":"d1","id":1,"hostname":"` + name + `","siteName":"Société Générale","udf":{"udf1":null}}`); err != nil {
		t.Fatal(err)
	}
	b.write("tags.csv", "uid,tag\r\nd1,"+tag+"\r\n")
	b.finish(exitOK, "state", "run", b.write("tag.yaml", "version: 1\nupdate:\n  operation: device-udf-set\n  rows: tags.csv\n  match: {uid: '{uid}'}\n  set: {udf1: '{tag}'}\n"))
	if got := b.account.UDF("d1", "udf1"); got != tag {
		t.Errorf("the account has %q", got)
	}
	b.finish(exitOK, "state", "run", b.write("out.yaml", "version: 1\nexport:\n  from: devices\n  columns: [hostname, siteName, udf1]\n  to: out.csv\n"))
	if got := b.cellsOf("out.csv"); len(got) != 1 || !slices.Equal(got[0], []string{name, "Société Générale", tag}) || !utf8.Valid(b.read("out.csv")) {
		t.Errorf("the file has %q", got)
	}
}

// Cases D06 and D07: dates in every form that the service has been seen to use
// are the same instant, and odd values are written as they came.
func TestCase_D07_DatesInEveryForm(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=1,udfs=30,"+fast)
	forms := []string{`1741219200000`, `1741219200`, `"1741219200000"`, `"2025-03-06T00:00:00Z"`, `null`, `-62135596800000`, `"soon"`, `{"at":1}`}
	var devices []string
	for i, form := range forms {
		devices = append(devices, `{"uid":"d`+string(rune('0'+i))+`","hostname":"H`+string(rune('0'+i))+`","deviceClass":"flyingtoaster","patchManagement":null,"lastSeen":`+form+`}`)
	}
	if err := b.account.SetDevices(devices...); err != nil {
		t.Fatal(err)
	}
	b.finish(exitOK, "state", "run", b.write("out.yaml", `version: 1
export:
  from: devices
  sort: [hostname, {lastSeen: desc}]
  columns: [hostname, lastSeen, deviceClass, patchManagement.patchStatus]
  to: out.csv
`))
	const day = "2025-03-06T00:00:00Z"
	want := []string{day, day, day, day, "", "", "soon", `{"at":1}`}
	var got []string
	for _, row := range b.cellsOf("out.csv") {
		got = append(got, row[1])
		if row[2] != "flyingtoaster" || row[3] != "" {
			t.Errorf("row %q", row)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("dates %q, want %q", got, want)
	}
	b.finish(exitOK, "state", "run", b.write("where.yaml", `version: 1
export:
  from: devices
  where: 'lastSeen == date("2025-03-06")'
  columns: [hostname]
  to: where.csv
`))
	if n := len(b.cellsOf("where.csv")); n != 4 {
		t.Errorf("%d rows of that day", n)
	}
}

// A limit of rows is told by the note, the JSON, the manifest and the exit code,
// unless the cut is what the job wants.
func TestLimitOfRowsIsNeverSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=30,udfs=30,"+fast)
	job := func(name, rows string) string {
		return b.write(name+".yaml", "version: 1\nexport:\n  from: devices\n  columns: [hostname, lastSeen]\n  sort: {lastSeen: desc}\n  manifest: true\n  rows: "+rows+"\n  to: "+name+".csv\n")
	}
	for _, c := range []struct {
		name, rows string
		exit       exitCode
		left       float64
	}{
		{"cut", "{limit: 10}", exitPartial, 20},
		{"wanted", "{limit: 10, on_limit: ok}", exitOK, 20},
		{"wide", "{limit: 30}", exitOK, 0},
	} {
		res := b.finish(c.exit, "state", "run", job(c.name, c.rows))
		file := res["files"].([]any)[0].(map[string]any)
		if left, _ := file["limited"].(float64); left != c.left {
			t.Errorf("%s: %v", c.name, file)
		}
		notes, _ := res["notes"].([]any)
		told := slices.ContainsFunc(notes, func(v any) bool { return v == "the limit of rows leaves out 20 of 30 rows" })
		manifest := string(b.read(c.name + ".csv.manifest.json"))
		if told != (c.left > 0) || strings.Contains(manifest, "leaves out 20 of 30 rows") != (c.left > 0) {
			t.Errorf("%s: notes %v, manifest %s", c.name, notes, manifest)
		}
		rows := b.cellsOf(c.name + ".csv")
		if n := len(rows); n != 30-int(c.left) {
			t.Errorf("%s: %d rows", c.name, n)
		}
		if !slices.IsSortedFunc(rows, func(a, b []string) int { return strings.Compare(b[1], a[1]) }) {
			t.Errorf("%s: the newest do not come first", c.name)
		}
	}
	// Another file of what was read is cut in the same way, and as little silent.
	res := b.finish(exitPartial, "state", "run", "--new", filepath.Join(b.dir, "cut.yaml"))
	run, _ := res["run"].(string)
	b.finish(exitPartial, "state", "export", run, "--to", filepath.Join(b.dir, "again.csv"))
	if n := len(b.cellsOf("again.csv")); n != 10 {
		t.Errorf("again.csv has %d rows", n)
	}
}
