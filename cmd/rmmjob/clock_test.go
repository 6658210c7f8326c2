package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Case R16: the two 02:30 of the night in which clocks go back. Two runs whose file is named
// by date and time refresh one file, whole each time; with the run in the name there are two.
func TestCase_R16_TheHourThatComesTwice(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	// Not parallel: the zone is that of the whole process.
	here := time.Local
	time.Local = berlin
	t.Cleanup(func() { time.Local = here })
	dir := t.TempDir()
	for name, to := range map[string]string{"time": "time/devices-{date}-{time}.csv", "run": "run/devices-{run}.csv"} {
		job := "version: 1\nexport:\n  from: devices\n  columns: [hostname]\n  to: '" + to + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
		first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
		for _, at := range []time.Time{first, first.Add(time.Hour)} {
			e, _, stderr := testEnv(t, nil)
			e.now = func() time.Time { return at }
			if code := run(t.Context(), []string{"run", filepath.Join(dir, name+".yaml"), "--sim=devices=7,limits=off", "--state-dir", filepath.Join(dir, "state")}, e); code != 0 {
				t.Fatalf("%s at %s: exit %d, %s", name, at, code, stderr)
			}
		}
		files := list(t, filepath.Join(dir, name))
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(dir, name, f))
			if err != nil || rowsOf(t, data) != 7 {
				t.Errorf("%s: %v", f, err)
			}
		}
		if name == "time" && !slices.Equal(files, []string{"devices-2026-10-25-023000.csv"}) || name == "run" && len(files) != 2 {
			t.Errorf("%s: %q", name, files)
		}
	}
}
