package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmmjob/internal/rmm"
)

func TestPlanOnlyHoldsBeforeTheWrites(t *testing.T) {
	d := updater(t, file(t, "uid,udf1\n"+deviceA+",x\n"), udfs("uid", "udf1"), writable(caseFleet()), Settings{PlanOnly: true})
	d.mustRun()
	if len(d.writes()) != 0 || d.plan[ClassChange] != 1 {
		t.Errorf("%d writes, plan %v", len(d.writes()), d.plan)
	}
	step, err := d.make().Settle(context.Background(), StageRead, d.memory)
	if err != nil || step.Stage != StagePlan || !step.Hold || step.Done {
		t.Errorf("step %+v, %v", step, err)
	}
}

// Targets that cannot be read whole are no ground for a plan.
func TestTargetsThatAreIncompleteStopTheJob(t *testing.T) {
	csv := file(t, "uid,udf1\n"+deviceA+",x\n")
	d := updater(t, csv, udfs("uid", "udf1"), func(req rmm.Request) reply {
		return reply{body: envelope("devices", []string{caseFleet()[0].json()}, 2, "")}
	}, Settings{})
	if why := d.incomplete(); !strings.Contains(why, "devices is incomplete after 4 walks: 1 of 2 elements came") || len(d.writes()) != 0 {
		t.Errorf("%s, %d writes", why, len(d.writes()))
	}
	d = updater(t, csv, udfs("uid", "udf1"), func(rmm.Request) reply { return reply{status: 404} }, Settings{})
	if why := d.incomplete(); !strings.Contains(why, "404") {
		t.Error(why)
	}
}

// A fault of the file that came after the start stops the job, with nothing sent
// but reads.
func TestFaultOfTheInputStopsThePlan(t *testing.T) {
	d := updater(t, file(t, "uid,udf1\n"+deviceA+",x,y\n"), udfs("uid", "udf1"), writable(caseFleet()), Settings{})
	var faults Errors
	if err := d.run(); !errors.As(err, &faults) || len(d.writes()) != 0 {
		t.Errorf("ended with %v after %d writes", err, len(d.writes()))
	}
}

func TestEmptyInputThatIsAllowed(t *testing.T) {
	for _, text := range []string{"", "uid,udf1\n", "\n\n"} {
		d := updater(t, file(t, text), strings.Replace(udfs("uid", "udf1"), "csv: CSV", "csv: CSV, allow_empty: true", 1), writable(caseFleet()), Settings{})
		d.mustRun()
		if len(d.writes()) != 0 || len(d.rows) != 1 {
			t.Errorf("%q: %d writes, %d rows", text, len(d.writes()), len(d.rows))
		}
	}
}

func TestStagesThatAnUpdateDoesNotHave(t *testing.T) {
	d := updater(t, file(t, "uid,udf1\n"+deviceA+",x\n"), udfs("uid", "udf1"), writable(caseFleet()), Settings{})
	d.mustRun()
	for _, stage := range []string{"", StageParents} {
		if _, err := d.make().Settle(context.Background(), stage, d.memory); err == nil {
			t.Errorf("stage %q is settled", stage)
		}
	}
}

// The answer to a write adds nothing, whatever it is.
func TestWritesAreNotFollowed(t *testing.T) {
	d := updater(t, file(t, "uid,udf1\n"+deviceA+",x\n"), udfs("uid", "udf1"), writable(caseFleet()), Settings{})
	it := Item{Key: "apply/device-udf-set/x", Request: rmm.Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": "x"}}}
	for _, body := range []string{"", "OK", "{", `{"pageDetails":{"nextPageUrl":"?page=1"}}`} {
		if more, err := d.make().Follow(it, []byte(body)); more != nil || err != nil {
			t.Errorf("%q adds %v, %v", body, more, err)
		}
	}
}

// A change of the fleet between the walks is one of the plan, too: the plan is
// made from what the last walk saw.
func TestPlanIsMadeFromTheLastWalk(t *testing.T) {
	devices := caseFleet()
	devices[0].udf = map[string]any{"udf1": "old"}
	n := 0
	serve := writable(devices)
	d := updater(t, file(t, "uid,udf1\n"+deviceA+",new\n"), udfs("uid", "udf1"), func(req rmm.Request) reply {
		if n++; n == 3 { // between the first walk and the second
			devices[0].udf = map[string]any{"udf1": "newer"}
		}
		return serve(req)
	}, Settings{PageSize: 2})
	d.mustRun()
	if got := d.rows[1].Detail.Changes[0].Old; got != "newer" {
		t.Errorf("the old value is %q", got)
	}
}

// However an update is cut off, its requests are the same and each is planned
// once.
func TestAnyOrderAndAnyCrashWritesTheSame(t *testing.T) {
	csv := file(t, "uid,udf1,udf2\n"+deviceA+",a1,\n"+deviceB+",b1,\n"+deviceA+",,a2\n"+deviceC+",,c2\n,x,\ngone,x,\n")
	straight := updater(t, csv, udfs("uid", "udf1", "udf2"), writable(caseFleet()), Settings{PageSize: 2})
	straight.mustRun()
	rapid.Check(t, func(rt *rapid.T) {
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 3))
		crashes := rapid.Float64Range(0, 0.5).Draw(rt, "crashes")
		d := updater(t, csv, udfs("uid", "udf1", "udf2"), writable(caseFleet()), Settings{PageSize: 2})
		d.choose = order.IntN
		d.lose = func() bool { return order.Float64() < crashes }
		d.mustRun()
		if !slices.Equal(d.keys(), straight.keys()) {
			rt.Fatalf("keys %q, want %q", d.keys(), straight.keys())
		}
		if got := slices.Compact(d.bodies()); !slices.Equal(got, straight.bodies()) {
			rt.Fatalf("sent %q, want %q", got, straight.bodies())
		}
	})
}
