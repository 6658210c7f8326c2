package jobs

import (
	"testing"

	"rmmjob/internal/rmm"
)

func TestOpenEnded(t *testing.T) {
	for _, c := range []struct {
		op   string
		page int
		want bool
	}{
		{"devices", 0, true},
		{"devices", 1, false},
		{"devices", 10_000_000, false}, // seven zeros are no beginning
		{"activity-logs", 0, true},
		{"activity-logs", 7, true},
		{"device-audit", 0, false}, // one answer, no pages
		{"device-udf-set", 0, false},
	} {
		op, ok := rmm.Lookup(c.op)
		if !ok {
			t.Fatalf("no operation %s", c.op)
		}
		if got := OpenEnded(op, walkKey("list/x", 1, c.page)); got != c.want {
			t.Errorf("page %d of %s: %v, want %v", c.page, c.op, got, c.want)
		}
	}
}

func TestLast(t *testing.T) {
	export, update, plan := &ExportWork{}, &UpdateWork{}, &UpdateWork{set: Settings{PlanOnly: true}}
	for _, c := range []struct {
		work  interface{ Last(string) bool }
		stage string
		want  bool
	}{
		{export, StageParents, false},
		{export, StageRead, true},
		{update, StageRead, false},
		{update, StageApply, true},
		{plan, StageRead, true},
	} {
		if got := c.work.Last(c.stage); got != c.want {
			t.Errorf("%T, stage %s: %v, want %v", c.work, c.stage, got, c.want)
		}
	}
}
