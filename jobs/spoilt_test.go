package jobs

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
)

func TestSpoilt(t *testing.T) {
	for _, cell := range []string{
		"#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!", "#SPILL!", "##", "#####", " #N/A ", "\u00a0#REF!", "#NV", "#BEZUG!",
		"#ÜBERLAUF!", "#¡VALOR!", "#¿NOMBRE?", "#N/D", "Err:502", "#GETTING_DATA", "#MEND!", "#MEND! 7",
	} {
		if fault, hint := spoilt(cell); fault == "" || hint == "" {
			t.Errorf("%q passes", cell)
		}
	}
	for _, cell := range []string{"", "#", "#1", "# 5", "#12!", "A#N/A", "#N/A!", "#sales!", "C#", "Room #REF", "Err: 502", "1E5", "error", "#Head Office!"} {
		if fault, _ := spoilt(cell); fault != "" {
			t.Errorf("%q: %s", cell, fault)
		}
	}
}

// What a spreadsheet puts in the place of a value is refused in every kind of text
// input, and only in the columns that the job uses.
func TestSpoiltCells(t *testing.T) {
	open := func(rows Rows) string {
		t.Helper()
		table, err := OpenTable(rows, []string{"uid", "tag"})
		if err != nil {
			t.Fatal(err)
		}
		if err = table.Check(); err == nil {
			return ""
		}
		return err.Error()
	}
	text := filepath.Join(t.TempDir(), "a.csv")
	lines := strings.TrimSuffix(text, ".csv") + ".jsonl"
	for path, content := range map[string]string{
		text:  "uid,tag,other\na,#N/A,x\nb,good,#REF!\n#REF!,x,x\n",
		lines: "{\"uid\":\"a\",\"tag\":\"#N/A\"}\n{\"uid\":\"b\",\"tag\":\"good\",\"other\":\"#REF!\"}\n{\"uid\":\"#REF!\",\"tag\":\"x\"}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, rows := range []Rows{{CSV: text, AllowEmpty: false}, {JSONL: lines}} {
		got := open(rows)
		if !strings.Contains(got, "the cell holds the error #N/A") || !strings.Contains(got, "the cell holds the error #REF!") || strings.Count(got, "holds the error") != 2 {
			t.Errorf("%s: %s", rows.File(), got)
		}
	}
}

func TestTextFormula(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("uid,tag,other\na,\"=\"\"007\"\"\",\"=\"\"1\"\"\"\nb,\"=\"\"\"\"\",x\nc,=1+1,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := OpenTable(Rows{CSV: path}, []string{"uid", "tag"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rec, err := range table.Records() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(rec.Cells, "|"))
	}
	if want := `a|007|="1" b||x c|=1+1|x`; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A file of rejected rows that nobody has mended is refused as its source was,
// whatever the fault.
func TestRejectsStayRefused(t *testing.T) {
	dir := t.TempDir()
	book := filepath.Join(dir, "a.xlsx")
	f := excelize.NewFile()
	padded, err := f.NewStyle(&excelize.Style{CustomNumFmt: new("00000")})
	if err != nil {
		t.Fatal(err)
	}
	for cell, v := range map[string]any{
		"A1": "uid", "B1": "udf7", "A2": deviceA, "B2": "#REF!", "A3": deviceB, "B3": 356938000000000123.0, "A4": deviceC, "B4": 7, "A5": deviceA, "B5": "good", "A6": deviceB,
	} {
		if err := f.SetCellValue("Sheet1", cell, v); err != nil {
			t.Fatal(err)
		}
	}
	if err = f.SetCellStyle("Sheet1", "B4", "B4", padded); err != nil {
		t.Fatal(err)
	}
	if err := f.SetCellFormula("Sheet1", "B6", "A1&\"x\""); err != nil {
		t.Fatal(err)
	}
	if err := f.SaveAs(book); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(text, []byte("note,uid,udf7\nshort,"+deviceA+"\nlong,"+deviceB+",x,y\nfine,"+deviceC+",x\nquote,"+deviceC+",a \"b\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows string
		want int
	}{{"{xlsx: a.xlsx}", 4}, {"a.csv", 3}} {
		job := rejectJob(t, dir, c.rows)
		if _, err := OpenInput(job); err == nil {
			t.Fatalf("%s is accepted", c.rows)
		}
		headings, rejects := Rejects(job)
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		lines := [][]string{append(headings[:len(headings):len(headings)], "_line", "_reason")}
		for r := range rejects {
			lines = append(lines, append(r.Cells[:len(r.Cells):len(r.Cells)], "1", r.Reason))
		}
		if err := w.WriteAll(lines); err != nil || len(lines) != c.want+1 {
			t.Fatalf("%d rows, %v", len(lines)-1, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "rejected.csv"), out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again := rejectJob(t, dir, "rejected.csv")
		table, err := OpenTable(again.Update.Rows, again.Update.columns())
		if err != nil {
			t.Fatal(err)
		}
		for rec, err := range table.Records() {
			if err == nil {
				t.Errorf("%s: %q is accepted", c.rows, rec.Cells)
			}
		}
	}
}

func rejectJob(t *testing.T, dir, rows string) *Job {
	t.Helper()
	job, err := Parse([]byte("version: 1\nupdate:\n  operation: device-udf-set\n  rows: "+rows+"\n  match: {uid: '{uid}'}\n  set: {udf7: '{udf7}'}\n"), filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// What rmmjob wrote is UTF-8, so no encoding of the job can mend a bad byte in it.
func TestRejectsWithABadByte(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rejected.csv"), []byte("uid,udf7,_line,_reason\n"+deviceA+",M\xfcller,2,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := rejectJob(t, dir, "{csv: rejected.csv, encoding: windows-1252}")
	_, err := OpenInput(job)
	if err == nil || !strings.Contains(err.Error(), "save the file as CSV UTF-8: result files and rejected.csv are read as they were written") {
		t.Error(err)
	}
}

// What was beyond the heading keeps its row refused until somebody has put it where it
// belongs, and is not lost on the way.
func TestRejectsWithCellsLeft(t *testing.T) {
	dir := t.TempDir()
	text := "uid,udf7,_line,_column,_reason,_extra\n" + deviceA + ",x,2,1,too many,rest\n" + deviceB + ",y,3,1,too many, \n"
	if err := os.WriteFile(filepath.Join(dir, "rejected.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job := rejectJob(t, dir, "rejected.csv")
	if _, err := OpenInput(job); err == nil || !strings.Contains(err.Error(), "rejected.csv:2:") || strings.Contains(err.Error(), "rejected.csv:3:") {
		t.Error(err)
	}
	_, rejects := Rejects(job)
	for r := range rejects {
		if got := strings.Join(r.Extra, " | "); got != "rest" {
			t.Errorf("%q is left of the cells beyond the heading", got)
		}
	}
}

// The mark stands before the cell that has the fault.
func TestMarkIsAtTheFault(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"a,x\x00y,n":        "a|#MEND! x\x00y|n",
		"a,M\xfcller,n":     "a|M\xfcller|n",
		"a,x,n\x00":         "#MEND! a|x|n\x00",
		"a\x00,\"b\nc\",n":  "#MEND! a\x00|b\nc|n",
		"a,\"b\nc\x00\",n":  "a|#MEND! b\nc\x00|n",
		"a,x,n,one too far": "#MEND! a|x|n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte("uid,udf7,note\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, rejects := Rejects(rejectJob(t, dir, "a.csv"))
		var got []string
		for r := range rejects {
			got = append(got, strings.Join(r.Cells, "|"))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q is rejected as %q, want %q", text, got, want)
		}
	}
}
