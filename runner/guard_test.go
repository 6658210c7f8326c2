package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// guardOf is the guard that stopped a run, "" if none did.
func guardOf(sum Summary) string {
	var g *jobs.GuardError
	if errors.As(sum.Err, &g) {
		return g.Guard
	}
	return ""
}

// With max_errors 0 the first failure is the last request, whatever the number
// of workers.
func TestMaxErrorsZero(t *testing.T) {
	for _, width := range []int{1, 16} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 60, Latency: 300 * time.Millisecond})
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", From: 17}, Do: rmmsim.Action{Status: 400}})
				b.tag(0, "guard: {max_errors: 0}")
				sum := b.run(workers(width))
				b.want(sum, checkpoint.RunGuard)
				if guardOf(sum) != "max_errors" {
					t.Errorf("stopped by %v", sum.Err)
				}
				if n := len(b.requests("device-udf-set")); n != 17 {
					t.Errorf("%d writes were sent, want 17", n)
				}
				if sum.Counts.Failed != 1 || b.tagged(0) != 16 {
					t.Errorf("%+v, %d tagged", sum.Counts, b.tagged(0))
				}
			})
		})
	}
}

// One failure more than allowed stops the run; requests that are in flight
// cannot add to it.
func TestMaxErrorsIsKept(t *testing.T) {
	for _, width := range []int{1, 3, 4, 16, 64} {
		for _, name := range []string{"all fail", "503 first"} {
			t.Run(fmt.Sprintf("%d workers, %s", width, name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := newBench(t, rmmsim.Config{Devices: 80, Latency: 300 * time.Millisecond, Spread: 1})
					if name == "503 first" {
						b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", To: 12}, Do: rmmsim.Action{Status: 503}})
					}
					b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set"}, Do: rmmsim.Action{Status: 400}})
					b.tag(0, "guard: {max_errors: 3}")
					sum := b.run(workers(width))
					b.want(sum, checkpoint.RunGuard)
					if sum.Counts.Failed != 4 {
						t.Errorf("%d failed", sum.Counts.Failed)
					}
				})
			})
		}
	}
}

// Errors below the limit do not narrow the run for good, and the run goes on.
func TestErrorsBelowTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 100, Latency: 200 * time.Millisecond})
		uids := b.uids(0)
		for _, i := range []int{9, 59} {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uids[i]}, Do: rmmsim.Action{
				Status: 400, Body: `{"errorMessage":"udf1 too long"}`,
			}})
		}
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunPartial)
		if sum.Counts.Failed != 2 || b.tagged(0) != 98 {
			t.Errorf("%+v, %d tagged", sum.Counts, b.tagged(0))
		}
		failures, err := b.store.Failures(t.Context(), runID, 9)
		b.check(err)
		for _, it := range failures {
			if it.Class != classRejected || it.HTTP != 400 || !strings.Contains(it.Reason, "udf1 too long") || strings.Count(it.Reason, "400") != 1 {
				t.Errorf("%s: class %q, status %d, reason %q", it.Key, it.Class, it.HTTP, it.Reason)
			}
		}
	})
}

// Twenty items that fail alike for a reason that is not theirs stop the run.
func TestEarlyStop(t *testing.T) {
	tests := []struct {
		name  string
		do    rmmsim.Action
		guard string
	}{
		{"405", rmmsim.Action{Status: 405}, "early_stop"},
		{"403 of the API", rmmsim.Action{Status: 403}, "early_stop"},
		{"404", rmmsim.Action{Status: 404}, "early_stop"},
		{"400 is the row's own", rmmsim.Action{Status: 400}, ""},
		{"422 is the row's own", rmmsim.Action{Status: 422}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 60, Latency: 200 * time.Millisecond})
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set"}, Do: tt.do})
				b.tag(0, "guard: {max_errors: 1000}")
				sum := b.run()
				if guardOf(sum) != tt.guard {
					t.Fatalf("stopped by %q: %v", guardOf(sum), sum.Err)
				}
				sent := len(b.requests("device-udf-set"))
				if tt.guard == "" {
					b.want(sum, checkpoint.RunPartial)
					if sent != 60 || sum.Counts.Failed != 60 {
						t.Errorf("%d sent; %+v", sent, sum.Counts)
					}
					return
				}
				b.want(sum, checkpoint.RunGuard)
				if sent < sameFailures || sent > sameFailures+7 {
					t.Errorf("%d writes were sent", sent)
				}
			})
		})
	}
}

// A 400 on each row is stopped by max_errors.
func TestManyBadRowsAreAGuard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, Latency: 200 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set"}, Do: rmmsim.Action{Status: 400}})
		b.tag(0) // the default: 25
		sum := b.run()
		b.want(sum, checkpoint.RunGuard)
		if guardOf(sum) != "max_errors" || sum.Counts.Failed != 26 {
			t.Errorf("%v; %+v", sum.Err, sum.Counts)
		}
	})
}

// Failures with good ones between are no streak.
func TestNoStreakWithGoodOnesBetween(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 90, Latency: 200 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Every: 2}, Do: rmmsim.Action{Status: 404}})
		b.tag(0, "guard: {max_errors: 1000}")
		sum := b.run(workers(1))
		b.want(sum, checkpoint.RunPartial)
		if sum.Counts.Failed != 45 {
			t.Errorf("%+v", sum.Counts)
		}
	})
}

// Failures of an earlier call count, rows held back by the plan do not.
func TestMaxErrorsOverResumes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, Latency: time.Second})
		uids := b.uids(0)
		for _, uid := range []string{uids[0], uids[1], uids[58], uids[59]} {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uid}, Do: rmmsim.Action{Status: 400}})
		}
		rows := []string{"no-such-device,x", "nor-this,y"}
		for i, uid := range uids {
			rows = append(rows, fmt.Sprintf("%s,tag %d", uid, i))
		}
		b.update("device-udf-set", "udf1", rows, "guard: {max_errors: 3}")
		sum := b.runIn(stopAt(t, 15*time.Second), workers(2))
		b.want(sum, checkpoint.RunStopped)
		if sum.Counts.Failed != 4 { // two held back, two refused
			t.Fatalf("%+v", sum.Counts)
		}
		b.reopen()
		sum = b.run(workers(2))
		b.want(sum, checkpoint.RunGuard)
		if guardOf(sum) != "max_errors" || sum.Counts.Failed != 6 {
			t.Errorf("%v; %+v", sum.Err, sum.Counts)
		}
	})
}

// A guard of the plan speaks before the first write.
func TestPlanGuard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 30})
		b.tag(0, "guard: {max_changes: 29}")
		sum := b.run()
		b.want(sum, checkpoint.RunGuard)
		if guardOf(sum) != "max_changes" || b.account.Counts().Writes != 0 {
			t.Errorf("%v after %d writes", sum.Err, b.account.Counts().Writes)
		}
		// The program may die before the end of the run is on record: the plan stays stopped.
		sum = b.run()
		b.want(sum, checkpoint.RunGuard)
		if guardOf(sum) != "plan" || b.account.Counts().Writes != 0 {
			t.Errorf("taken up again: %v after %d writes", sum.Err, b.account.Counts().Writes)
		}
	})
}
