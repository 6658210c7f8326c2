package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMeasureReuse is the second night of a software inventory: 5,000 devices of which 2 % were audited since. It takes
// less than 4 % of the requests of the first.
func TestMeasureReuse(t *testing.T) {
	if os.Getenv("RMMJOB_MEASURE") == "" {
		t.Skip("a measurement: set RMMJOB_MEASURE=1")
	}
	b := newBench(t, "devices=5000,udfs=30,limits=600000/600000")
	for _, job := range []struct{ name, text string }{
		{"software", "from: device-software"},
		{"details", "from: devices\n  with: [audit, software]"},
	} {
		path := b.write(job.name+".yaml", fmt.Sprintf("version: 1\nexport:\n  %s\n  reuse: audits\n  to: %s.csv\n", job.text, job.name))
		night := func() (requests int, took time.Duration, res map[string]any) {
			before, began := len(b.account.Log()), time.Now()
			res = b.finish(exitOK, "state", "run", path, "--workers", "16")
			return len(b.account.Log()) - before, time.Since(began), res
		}
		first, took, _ := night()
		for i, uid := range b.account.DeviceUIDs() {
			if i%50 == 0 {
				if err := b.account.Audit(uid, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}
		second, took2, res := night()
		share := 100 * float64(second) / float64(first)
		t.Logf("%s: first night %d requests in %s, second %d in %s (%.2f %%), %d answers reused", job.name, first, took.Round(time.Millisecond),
			second, took2.Round(time.Millisecond), share, counted(t, res, "reused"))
		if share >= 4 {
			t.Errorf("%s: the second night takes %.2f %% of the requests", job.name, share)
		}
	}
}

// TestMeasureChanges compares 20,000 devices with those of the night before, and tells the memory that it takes.
func TestMeasureChanges(t *testing.T) {
	if os.Getenv("RMMJOB_MEASURE") == "" {
		t.Skip("a measurement: set RMMJOB_MEASURE=1")
	}
	b := newBench(t, "devices=20000,udfs=30,limits=600000/600000")
	path := b.write("fleet.yaml", "version: 1\nexport:\n  from: devices\n  second_walk: never\n  to: fleet.csv\n  changes: changes.csv\n")
	plain := b.write("plain.yaml", "version: 1\nexport:\n  from: devices\n  second_walk: never\n  to: plain.csv\n")
	night := func(job string) {
		took, peak := b.measured("state", "run", job)
		t.Logf("%s: %s, peak %d MiB", filepath.Base(job), took.Round(time.Millisecond), peak)
	}
	night(plain)
	night(path)
	for i, uid := range b.account.DeviceUIDs() {
		if i%50 == 0 {
			if err := b.account.SetUDF(uid, "udf1", "changed"); err != nil {
				t.Fatal(err)
			}
		}
	}
	night(path)
	if n := rowsOf(t, b.read("changes.csv")); n != 400 {
		t.Errorf("%d changes, want 400", n)
	}
	res := b.finish(exitOK, "state", "state", path)
	memories, _ := res["memories"].([]any)
	t.Logf("what is remembered takes %.0f KiB, the CSV %d KiB", memories[0].(map[string]any)["bytes"].(float64)/1024, len(b.read("fleet.csv"))>>10)
}
