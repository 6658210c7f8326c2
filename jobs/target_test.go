package jobs

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rmmjob/internal/output"
)

// outputs is an export of devices to what follows.
const outputs = "version: 1\nexport:\n  from: devices\n"

func TestTargetFaults(t *testing.T) {
	const endings = "end it with .csv, .jsonl, .json, .xlsx or .sqlite, or add format: csv"
	tests := []struct {
		name, to string
		want     []string // lines, each after "j.yaml:"
	}{
		{"endings", "  to: [out/a, a.txt, a.xls, a.dat, {path: a.csv, format: cvs}, {path: b, format: ods}]\n", []string{
			`4:8: the output has no ending that tells its format (` + endings + `)`,
			`4:15: .txt files are not written (end it with .csv, or add format: csv)`,
			`4:22: .xls files are not written (end it with .xlsx, or add format: csv)`,
			`4:29: the ending .dat tells no format (` + endings + `)`,
			`4:58: format must be csv, jsonl, json, xlsx or sqlite, not "cvs" (did you mean "csv"?)`,
			`4:82: there is no format "ods" (write xlsx)`,
		}},
		{"values", "  to:\n    - {path: a.csv, delimiter: ;;, eol: cr, dates: iso, timezone: Berlin}\n    - {path: c.csv, formulas: yes, newlines: kepe, publish: append}\n    - {format: csv}\n", []string{
			`5:32: delimiter must be one sign, not ";;" (comma, semicolon, tab and pipe are names for the usual ones)`,
			`5:41: eol must be crlf or lf, not "cr" (known here: crlf, lf)`,
			`5:52: dates must be rfc3339, excel or ms, not "iso" (known here: rfc3339, excel, ms)`,
			`5:67: there is no timezone "Berlin" (names look like Europe/Berlin; Local is that of this machine)`,
			`6:31: formulas must be keep or guard, not "yes" (known here: keep, guard)`,
			`6:46: newlines must be keep, space or escape, not "kepe" (did you mean "keep"?)`,
			`6:61: publish must be replace or inplace, not "append" (known here: replace, inplace)`,
			`7:7: an output lacks the key "path"`,
		}},
		{"options of another format", "  to:\n    - {path: a.xlsx, bom: true, delimiter: tab, key: uid}\n    - {path: b.sqlite, publish: inplace, newlines: keep, mode: append, key: []}\n" +
			"    - {path: '-', publish: replace}\n    - {path: c.json, formulas: guard, color: red}\n    - {path: d.jsonl, bom: true, eol: lf}\n", []string{
			`5:22: "bom" has no effect on xlsx (remove it)`,
			`5:33: "delimiter" has no effect on xlsx (remove it)`,
			`5:49: "key" has no effect on xlsx (remove it)`,
			`6:24: "publish" has no effect on sqlite (remove it)`,
			`6:42: "newlines" has no effect on sqlite (remove it)`,
			`6:64: mode must be merge or replace, not "append" (known here: merge, replace)`,
			`6:77: key is empty (give it a value or remove the key)`,
			`7:19: "publish" has no effect on standard output (remove it)`,
			`8:22: "formulas" has no effect on json (remove it)`,
			`8:39: unknown key "color" in an output (known here: path, format, bom, delimiter, eol, dates, timezone, formulas, newlines, publish, key, mode)`,
			`9:23: "bom" has no effect on jsonl (remove it)`,
			`9:34: "eol" has no effect on jsonl (remove it)`,
		}},
		{"names", "  to: ['out/{day}.csv', 'nul.csv', 'a{.csv', \"a\\tb.csv\", 'out/x/']\n  manifest: '-'\n", []string{
			`4:8: output path "out/{day}.csv": unknown placeholder {day}; known are {date} {time} {job} {account} {run} {since}`,
			`4:25: output path "nul.csv": Windows takes the name nul.csv for a device, whatever its ending: choose another`,
			`4:36: output path "a{.csv": { without }; write {{ for the character`,
			`4:46: the path of an output holds a tab (` + quoteHint + `)`,
			`4:58: output path "out/x/": is a folder; name a file in it`,
			`5:13: the manifest cannot go to standard output (write true or name a file)`,
		}},
		{"twice", "  to: [a.csv, {path: ./a.csv}]\n", []string{`4:15: this output is there twice (the first is in line 4)`}},
		{"a manifest yes", "  to: a.csv\n  manifest: yes\n", []string{`5:13: manifest must be true or false, not "yes" (write true)`}},
		{"a manifest Off", "  to: a.csv\n  manifest: 'Off'\n", []string{`5:13: manifest must be true or false, not "Off" (write false)`}},
		{"manifest of nothing", "  to: '-'\n  manifest: true\n", []string{`5:13: a manifest is about files, and the only output is standard output (remove it)`}},
		{"standard output twice", "  to: ['-', {path: '-', format: json}]\n", []string{`4:13: this output is there twice (the first is in line 4)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := "j.yaml:" + strings.Join(tt.want, "\nj.yaml:")
			if got := faults(t, outputs+tt.to); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A format that this build cannot write is named, with the way to a build that can.
func TestFormatOfAnotherBuild(t *testing.T) {
	f, _ := output.FileFormatNamed(output.FileParquet)
	job := outputs + "  to: [a.parquet, {path: b, format: parquet}]\n"
	if f.Unavailable == "" {
		if _, err := Parse([]byte(job), "j.yaml"); err != nil {
			t.Error(err)
		}
		return
	}
	got := faults(t, job)
	if want := "j.yaml:4:8: .parquet files: " + f.Unavailable + "\nj.yaml:4:37: format parquet: " + f.Unavailable; got != want || !strings.Contains(got, "-tags parquet") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTargets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a{b}c")
	job, err := Parse([]byte(outputs+`  to:
    - 'x-{date}.JSONL'
    - {path: book.xlsx, timezone: Europe/Berlin}
    - {path: all.db, key: [siteName, hostname], mode: replace}
    - {path: power.csv, bom: true, delimiter: semicolon, eol: lf, dates: ms, timezone: UTC, formulas: guard, newlines: space, publish: inplace}
    - {path: '-', format: json}
  manifest: 'runs/{run}.json'
`), filepath.Join(dir, "j.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	folder := doubleBraces.Replace(dir)
	want := []Target{
		{Path: filepath.Join(folder, "x-{date}.JSONL"), Format: output.FileJSONL},
		// No notation: a workbook has real dates unless one is named.
		{Path: filepath.Join(folder, "book.xlsx"), Format: output.FileXLSX, Style: output.Style{Location: berlin}},
		{Path: filepath.Join(folder, "all.db"), Format: output.FileSQLite, Key: []string{"siteName", "hostname"}, Mode: output.ModeReplace},
		{
			Path: filepath.Join(folder, "power.csv"), Format: output.FileCSV, InPlace: true,
			CSV:   output.CSVOptions{BOM: true, Delimiter: ';', EOL: "lf"},
			Style: output.Style{Dates: output.DatesMS, Formulas: "guard", Newlines: "space"},
		},
		{Path: "-", Format: output.FileJSON},
	}
	for i, got := range job.Export.To {
		got.Pos = Pos{}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("output %d is %+v, want %+v", i, got, want[i])
		}
	}
	if m := job.Export.Manifest; m.Beside || m.Path != filepath.Join(folder, "runs", "{run}.json") {
		t.Errorf("manifest %+v", m)
	}
	path, err := output.Expand(job.Export.To[1].Path, time.Now(), output.Vars{})
	if err != nil || path != filepath.Join(dir, "book.xlsx") {
		t.Errorf("expanded to %q, %v", path, err)
	}
}

func TestOutputSpec(t *testing.T) {
	job, err := Parse([]byte("version: 1\nexport:\n  from: devices\n  columns: [hostname, {Id: uid}, siteName]\n"+
		"  to: [a.sqlite, {path: b.sqlite, key: [siteName, hostname], mode: replace}, c.csv]\n"), "j.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"uid"}, {"siteName", "hostname"}, nil} {
		if spec := job.Export.OutputSpec(job.Export.To[i]); !reflect.DeepEqual(spec.Key, want) || spec.Source != "devices" || len(spec.Columns) != 3 {
			t.Errorf("output %d: %+v", i, spec)
		}
	}
	got := faults(t, "version: 1\nexport:\n  from: devices\n  columns: [hostname]\n  to: [a.sqlite, {path: b.sqlite, mode: replace}, {path: c.sqlite, key: none}]\n")
	want := "j.yaml:5:8: rows can be merged by a key only: name the columns that tell them apart, as in key: [uid], or choose mode: replace\n" +
		`j.yaml:5:51: the key "none" is none of the columns: add it to them`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
