package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestIncrementalExamples runs the examples that build on the last run twice, with something happening in between.
func TestIncrementalExamples(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=60,udfs=30,"+fast)
	root, _ := examples(t)
	run := func(name string) (rows []map[string]string) {
		t.Helper()
		res := b.finish(exitOK, "state", "run", filepath.Join(root, "examples", "jobs", name))
		files, _ := res["files"].([]any)
		path, _ := files[len(files)-1].(map[string]any)["path"].(string)
		if filepath.Ext(path) == ".csv" {
			rel, err := filepath.Rel(b.dir, path)
			if err != nil {
				t.Fatal(err)
			}
			return b.records(rel)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			id, _ := row["id"].(string)
			rows = append(rows, map[string]string{"id": id})
		}
		return rows
	}
	open := b.openAlerts("other")

	if rows := run("changed-devices.yaml"); len(rows) != 0 {
		t.Errorf("changes in a first run: %v", rows)
	}
	resolved := run("new-resolved-alerts.yaml")
	first := run("new-activity.yaml")
	if len(resolved) < 30 || len(first) < 20_000 {
		t.Errorf("%d alerts and %d entries in the first runs", len(resolved), len(first))
	}

	uids := b.account.DeviceUIDs()
	gone, _ := b.account.Device(uids[7])
	b.account.RemoveDevice(uids[7])
	if err := b.account.AddDevice(`{"uid":"11111111-1111-4111-8111-1111111111a1","hostname":"WS-ALFA","siteName":"Depot North","deviceClass":"device"}`); err != nil {
		t.Fatal(err)
	}
	if err := b.account.ResolveAlert(open[0], time.Now()); err != nil {
		t.Fatal(err)
	}
	rows := run("changed-devices.yaml")
	var kinds []string
	for _, row := range rows {
		kinds = append(kinds, row["change"])
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []string{"added", "removed"}) {
		t.Errorf("%v; removed was %s", rows, gone)
	}
	if rows := run("new-resolved-alerts.yaml"); len(rows) != 1 || rows[0]["alertUid"] != open[0] {
		t.Errorf("newly resolved: %v", rows)
	}
	for _, row := range run("new-activity.yaml") {
		if slices.ContainsFunc(first, func(f map[string]string) bool { return f["id"] == row["id"] }) {
			t.Errorf("entry %s is in both files", row["id"])
		}
	}
}
