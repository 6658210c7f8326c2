package runner

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// The examples that change the account do what they say on the account that
// --sim gives.
func TestExampleUpdates(t *testing.T) {
	tests := []struct {
		file    string
		rows    []string
		confirm bool
	}{
		{"move-devices", []string{"2 change", "3 change", "4 unchanged", "5 change"}, true},
		{"site-variables", []string{"2 change", "3 change", "4 change"}, false},
		{"set-udfs-workbook", []string{"4 change", "5 change", "6 change", "7 change"}, false},
		{"restart-spooler", []string{
			"1 change", "2 change", "3 change", "4 change", "5 change", "6 change", "7 change", "8 change", "9 change", "10 change", "11 change",
		}, true},
	}
	old := struct {
		file    string
		rows    []string
		confirm bool
	}{file: "close-alerts"}
	for i := range 52 {
		old.rows = append(old.rows, fmt.Sprintf("%d change", i+1))
	}
	for _, tt := range append(tests, old) {
		t.Run(tt.file, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg, err := rmmsim.ParseSettings("")
				if err != nil {
					t.Fatal(err)
				}
				b := newBench(t, cfg)
				b.job, err = jobs.Load(filepath.Join("..", "examples", "jobs", tt.file+".yaml"))
				b.check(err)
				if got := b.job.Update.Confirmation() != ""; got != tt.confirm {
					t.Errorf("confirmation %v", got)
				}
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Mark: "r1", Now: time.Date(2026, 9, 11, 2, 0, 0, 0, time.UTC)})
				b.want(b.run(), checkpoint.RunOK)
				if got := b.planned(); !slices.Equal(got, tt.rows) {
					t.Errorf("planned %q", got)
				}
				sent := 0
				for _, row := range tt.rows {
					var line int
					var class string
					if _, err := fmt.Sscanf(row, "%d %s", &line, &class); err == nil && class == "change" {
						sent++
					}
				}
				op := b.job.Update.Operation.Name
				if op == "site-variable-set" {
					op = "site-variable-create" // the sites have none of that name
				}
				if n := len(b.requests(op)); n != sent {
					t.Errorf("%d writes, want %d", n, sent)
				}
			})
		})
	}
}
