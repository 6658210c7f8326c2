package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is allowed and seldom meant is told, with its place.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ export, want string }{
		{`from: activity-logs, since: last, to: new.csv`, `2:48: each run replaces this file, which holds only what is new since the last one (put {date}, {time}, {run} or {since} into the name, or merge into a SQLite table)`},
		{`from: activity-logs, since: last, to: '{job}-{account}.csv'`, `2:48: each run replaces this file`},
		{`from: activity-logs, since: last, to: {path: new.sqlite, mode: replace}`, `2:48: each run replaces this file`},
		{`from: activity-logs, since: last, to: ['new-{run}.csv', '{date}/new.csv', 'new-{since}.csv', '-', new.sqlite]`, ""},
		{`from: activity-logs, since: 1d, to: new.csv`, ""},
		{`from: devices, to: all.csv, changes: changed.csv`, `2:47: each run replaces this file, which holds only what has changed since the last one`},
		{`from: devices, to: all.csv, changes: 'changed-{time}.csv'`, ""},
		{`from: devices, to: all.csv, where: 'online and deviceClass == "Device"'`, `2:72: where: "Device" is no known value of deviceClass (did you mean "device"?)`},
		{`from: devices, to: all.csv, where: '"Nonsense" != deviceClass'`, `2:46: where: "Nonsense" is no known value of deviceClass (known: device, printer, esxihost, rmmnetworkdevice, unknown)`},
		{`from: devices, to: all.csv, where: 'deviceClass in ["device", "printr"]'`, `2:72: where: "printr" is no known value of deviceClass (did you mean "printer"?)`},
		{`from: devices, to: all.csv, where: 'deviceClass not in ["device", "printr"]'`, `2:76: where: "printr" is no known value`},
		{`from: devices, to: all.csv, where: 'antivirus.antivirusStatus == "Running"'`, `2:75: where: "Running" is no known value of antivirus.antivirusStatus`},
		{`from: devices, to: all.csv, where: 'deviceClass == "device" and hostname == "Device"'`, ""},
	} {
		j := parse(t, "export: {"+tt.export+"}\n")
		var got []string
		for _, w := range j.Warnings {
			got = append(got, filepath.Base(w.Error()))
		}
		all := strings.Join(got, "\n")
		if want := "job.yaml:" + tt.want; tt.want == "" && all != "" || tt.want != "" && !strings.HasPrefix(all, want) || len(got) > 1 {
			t.Errorf("%s\ngot  %s\nwant %s", tt.export, all, want)
		}
	}
}

// The examples are jobs that nobody has to be warned of.
func TestExamplesHaveNoWarnings(t *testing.T) {
	files, err := filepath.Glob("../examples/jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		j, err := Parse(data, file)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Warnings) > 0 {
			t.Errorf("%s: %v", file, j.Warnings)
		}
	}
}
