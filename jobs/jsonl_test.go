package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lines writes a JSONL file for one test.
func lines(t testing.TB, text string) Rows {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Rows{JSONL: path}
}

func TestJSONLines(t *testing.T) {
	rows := lines(t, "\ufeff"+`{"uid":"`+deviceA+`","udf7":"00042","tags":["x"]}`+"\r\n\r\n"+
		`{"UDF7":1.50,"uid":"`+deviceB+`"}`+"\n"+`{"uid":"`+deviceC+`","udf7":null}`)
	if got := refused(t, rows, "uid", "udf7"); !strings.Contains(got, "duplicate column udf7") {
		t.Error(got)
	}
	rows = lines(t, `{"uid":"`+deviceA+`","udf7":"00042","tags":["x"]}`+"\r\n\r\n"+
		`{"udf7":1.50,"uid":"`+deviceB+`"}`+"\n"+`{"uid":"`+deviceC+`","udf7":null}`)
	table := expect(t, rows, "00042", "1.50", "")
	if table.Blank != 1 || strings.Join(table.Ignored, ",") != "tags" {
		t.Errorf("%+v", table)
	}
	rows = lines(t, `{"uid":"`+deviceA+`","udf7":true}`)
	expect(t, rows, "true")
}

func TestJSONLinesFaults(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nested":     {`{"uid":"a","udf7":{"x":1}}`, []string{`1:19: "udf7" is a list or an object`}},
		"an array":   {`[{"uid":"a","udf7":"x"}]`, []string{"1:1: the line is JSON, but not an object", "expected columns uid, udf7"}},
		"no JSON":    {`{"uid":"a","udf7":"x"}` + "\n{oops\n", []string{"2:1: the line is not a JSON object"}},
		"no column":  {`{"uid":"a"}`, []string{"expected column udf7 not found in any line"}},
		"not UTF-8":  {"{\"uid\":\"a\",\"udf7\":\"x\"}\n{\"uid\":\"\xfc\"}", []string{"2:9: byte 0xFC is not UTF-8"}},
		"twice":      {`{"uid":"a","udf7":"x","udf7":"y"}`, []string{`the key "udf7" is there twice`}},
		"scientific": {`{"uid":"a","udf7":"3.56938E+14"}`, []string{"scientific notation"}},
		"empty":      {"\n", []string{"no data rows"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused(t, lines(t, c.text), "uid", "udf7")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}

func TestAliases(t *testing.T) {
	rows := input(t, "Device Name,udf7\r\n"+deviceA+",north\r\n")
	rows.Aliases = map[string][]string{"uid": {"Computer", "device name"}}
	expect(t, rows, "north")
	rows = input(t, "Device Name,udf7,UID\r\n"+deviceA+",north,x\r\n")
	rows.Aliases = map[string][]string{"uid": {"Computer", "device name"}}
	if got := refused(t, rows, "uid", "udf7"); !strings.Contains(got, "the columns Device Name and UID (1 and 3) both stand for uid") {
		t.Error(got)
	}
}

// What rmmjob has written itself is read as it was written, whatever the file was
// whose rows it holds.
func TestOwnResultFile(t *testing.T) {
	rows := input(t, "uid,udf7,_status,_reason,_row,_target\r\n"+deviceA+",Büro,failed,x,1,y\r\n")
	rows.Encoding, rows.Delimiter, rows.SkipLines = "windows-1252", ';', 3
	expect(t, rows, "Büro")
}

// A zero byte is a fault as in CSV, and keys that are written in two ways hide no fault
// of a row.
func TestJSONLinesAllFaultsAtOnce(t *testing.T) {
	rows := lines(t, strings.Join([]string{
		`{"uid":"a","udf7":"x\u0000y"}`, `{"UID":"b","udf7":["x"]}`, `{"uid":"c","udf7":"d","udf7":"e"}`, `["x"]`, `{"uid":"d","udf7":"3.5E+14","other":"\u0000"}`,
	}, "\n"))
	got := strings.Split(refused(t, rows, "uid", "udf7"), "\n")
	want := []string{
		"1:19: a zero byte", `2:2: duplicate column uid: the key is written "UID" here and "uid" elsewhere`, `2:19: "udf7" is a list or an object`,
		`3:30: the key "udf7" is there twice`, "4:1: the line is JSON, but not an object", "5:19: 1 value looks like Excel scientific notation: line 5",
	}
	if len(got) != len(want) {
		t.Fatalf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("fault %q, want %q", got[i], want[i])
		}
	}
}

// It is read so under every key of a job, and after a spreadsheet has given it its own
// delimiter.
func TestOwnResultUnderAnyKey(t *testing.T) {
	rows := input(t, "uid;udf7;_line;_column;_reason;_extra\r\n"+deviceA+";Büro;2;1;x;\r\n")
	expect(t, rows, "Büro")
	expect(t, Rows{XLSX: rows.CSV, Sheet: "Assets"}, "Büro")
	expect(t, Rows{JSONL: rows.CSV}, "Büro")
}
