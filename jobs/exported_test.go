package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/internal/output"
)

// awkward are values that options of an export change on their way out.
var awkward = []string{
	"=cmd|'/c calc'!A1", "-5", "+44 20 7946 0000", "@SUM(1)", "\t=1+1", "-2+3", "'=1", "''=1", "0042", "one\ntwo", "one\r\ntwo", "=one\ntwo", `C:\new\road`,
	" blanks ", "a;b,c\t|\"d\"", "Größe ≤ 5″ 東京", "3.5", "1e5", "true", "2027-03-06", "\n", "-",
}

// exported writes devices as an export does and returns the path of the file.
func exported(t testing.TB, devices []dev, format string, columns []output.ColumnSpec, style output.Style, csv output.CSVOptions) string {
	t.Helper()
	resolved, err := output.Resolve("devices", columns)
	if err != nil {
		t.Fatal(err)
	}
	style = output.StyleFor(format, style)
	path := filepath.Join(t.TempDir(), "back."+format)
	var b bytes.Buffer
	w, err := output.New(format, &b, output.Spec{Source: "devices", Columns: resolved, Style: style, CSV: csv, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		record, err := output.ParseRecord([]byte(d.json()))
		if err != nil {
			t.Fatal(err)
		}
		var cells []output.Value
		for _, c := range resolved {
			cells = append(cells, c.Cell(record, style))
		}
		if err := w.Row(cells); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// An export fed back as it is changes nothing, whatever options it was made with.
func TestCase_O16_OwnExportFedBack(t *testing.T) {
	devices := make([]dev, len(awkward))
	for i, value := range awkward {
		devices[i] = dev{
			uid: fmt.Sprintf("%08d-1111-4111-8111-1111111111a1", i), hostname: fmt.Sprintf("WS-%d", i), site: "Depot",
			udf: map[string]any{"udf7": value}, warranty: fmt.Sprintf("2027-03-%02d", i+1),
		}
	}
	columns := []output.ColumnSpec{{Path: "uid"}, {Path: "hostname"}, {Path: "udf7"}, {Path: "warrantyDate"}}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, path, kind string) {
		for _, field := range []string{"udf7", warrantyDate} {
			d := updater(t, path, strings.Replace(udfs("uid", field), "csv:", kind+":", 1), writable(devices), Settings{PlanOnly: true})
			if err := d.run(); err != nil {
				t.Errorf("%s: %s: %v", name, field, err)
				continue
			}
			for _, r := range d.rows[1:] {
				if r.Class != ClassUnchanged {
					b, _ := json.Marshal(r.Detail.Cells)
					t.Errorf("%s: %s: %s %s %s", name, field, r.Class, r.Detail.Reason, b)
				}
			}
		}
	}
	for _, formulas := range []string{"keep", "guard"} {
		for _, newlines := range []string{"keep", "space", "escape"} {
			for _, dates := range []string{"rfc3339", "excel", "ms"} {
				style := output.Style{Dates: dates, Formulas: formulas, Newlines: newlines, Location: berlin}
				for _, csv := range []output.CSVOptions{{}, {BOM: true, Delimiter: ';', EOL: "\n"}, {Delimiter: '\t'}, {Delimiter: '|', BOM: true}} {
					name := fmt.Sprintf("csv %s %s %s %q", formulas, newlines, dates, csv.Delimiter)
					check(name, exported(t, devices, output.FileCSV, columns, style, csv), "csv")
				}
			}
		}
	}
	for _, format := range []string{output.FileXLSX, output.FileJSONL} {
		check(format, exported(t, devices, format, columns, output.Style{}, output.CSVOptions{}), format)
	}
}

// With one cell edited it changes that device and no other.
func TestCase_O16_OneCellEdited(t *testing.T) {
	devices := caseFleet()[:3]
	devices[0].udf = map[string]any{"udf7": "0042\nnext"}
	devices[1].udf = map[string]any{"udf7": "=A1+1"}
	path := exported(t, devices, output.FileCSV, []output.ColumnSpec{{Path: "uid"}, {Path: "udf7"}}, output.Style{Formulas: "guard"}, output.CSVOptions{BOM: true, Delimiter: ';'})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("0042"), []byte("0043"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	d := updater(t, path, udfs("uid", "udf7"), writable(devices), Settings{})
	d.mustRun()
	if got := d.bodies(); len(got) != 1 || got[0] != deviceA+` {"udf7":"0043\nnext"}` {
		t.Errorf("sent %q", got)
	}
}
