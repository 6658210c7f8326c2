package jobs

import (
	"strings"
	"testing"
)

func TestFirstPageEnding(t *testing.T) {
	for page, want := range map[int]bool{0: true, 1: false, 10: false, 1_000_000: false, 10_000_000: false} {
		if got := strings.HasSuffix(walkKey("list/x", 1, page), FirstPageEnding); got != want {
			t.Errorf("page %d: %v, want %v", page, got, want)
		}
	}
}

func TestLast(t *testing.T) {
	export := NewExportWork(&Job{Export: &ExportSpec{}}, Settings{})
	detailed := NewExportWork(&Job{Export: &ExportSpec{With: []string{"audit"}}}, Settings{})
	update, plan := &UpdateWork{job: &Job{Update: &UpdateSpec{}}}, &UpdateWork{set: Settings{PlanOnly: true}, job: &Job{Update: &UpdateSpec{}}}
	for _, c := range []struct {
		work  interface{ Last(string) bool }
		stage string
		want  bool
	}{
		{export, StageParents, false},
		{export, StageRead, true},
		{detailed, StageRead, false},
		{detailed, StageDetails, true},
		{update, StageRead, false},
		{update, StageApply, true},
		{plan, StageRead, true},
	} {
		if got := c.work.Last(c.stage); got != c.want {
			t.Errorf("%T, stage %s: %v, want %v", c.work, c.stage, got, c.want)
		}
	}
}
