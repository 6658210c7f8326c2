package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// A file of 1,000 rows of which 400 are as the account has it: the plan sends
// nothing, the run exactly the other 600, each once and none that is not planned.
func TestExactlyWhatIsPlanned(t *testing.T) {
	const rows, equal = 1000, 400
	var csv strings.Builder
	csv.WriteString("uid,udf7\n")
	devices := make([]dev, rows)
	for i := range devices {
		uid := fmt.Sprintf("%08d-1111-4111-8111-1111111111a1", i)
		devices[i] = dev{uid: uid, hostname: fmt.Sprintf("WS-%04d", i), udf: map[string]any{"udf7": "old"}}
		value := "old"
		if i%5 >= 2 { // three of five
			value = "new"
		}
		fmt.Fprintf(&csv, "%s,%s\n", uid, value)
	}
	path := file(t, csv.String())
	d := updater(t, path, udfs("uid", "udf7"), writable(devices), Settings{PlanOnly: true})
	d.mustRun()
	if n := len(d.writes()); n != 0 || d.plan[ClassChange] != rows-equal || d.plan[ClassUnchanged] != equal {
		t.Fatalf("the plan %v has sent %d writes", d.plan, n)
	}
	planned := map[string]bool{}
	for _, r := range d.rows[1:] {
		if r.Class == ClassChange {
			planned[r.Detail.UID] = true
		}
	}
	job := d.make().(*UpdateWork).job
	p, err := NewUpdateWork(job, Settings{}).makePlan(context.Background(), d.memory, sources{targets: elements(context.Background(), d.memory, targetsPrefix)})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for it := range p.items() {
		if it.Birth != Pending {
			continue
		}
		sent++
		uid := it.Request.Path["deviceUid"]
		if !planned[uid] {
			t.Errorf("not in the plan, or twice: %s", uid)
		}
		delete(planned, uid)
	}
	if sent != rows-equal {
		t.Errorf("%d writes", sent)
	}
}
