package runner

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// The first writes of a plan are sent one after the other: one is answered before
// the next one leaves, whatever the number of workers.
func TestCanaryIsOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const latency = 3 * time.Second
		b := newBench(t, rmmsim.Config{Devices: 20, Latency: latency})
		// The second is refused for a moment: it is tried again before the third.
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: b.uids(0)[1], To: 2}, Do: rmmsim.Action{Status: 503}})
		b.tag(0)
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 4})
		b.want(b.run(workers(8)), checkpoint.RunPlanned)
		sent := b.requests("device-udf-set")
		if len(sent) != 6 || b.tagged(0) != 4 {
			t.Fatalf("%d requests, %d tagged", len(sent), b.tagged(0))
		}
		order := []int{0, 1, 1, 1, 2, 3}
		for i, r := range sent {
			if uid := b.uids(0)[order[i]]; !strings.Contains(r.Path, uid) {
				t.Errorf("request %d is %s, want one for %s", i, r.Path, uid)
			}
			if i > 0 && r.Time.Sub(sent[i-1].Time) < latency {
				t.Errorf("request %d left %s after the one before", i, r.Time.Sub(sent[i-1].Time))
			}
		}
	})
}

// The first of them that fails, or whose fate nobody knows, is the last: the
// others are not sent, and the message names the device and the reason.
func TestCanaryStopsAtTheFirst(t *testing.T) {
	tests := []struct {
		name string
		do   rmmsim.Action
		want []string
	}{
		{"refused", rmmsim.Action{Status: 400, Body: `{"errorMessage":"udf1 is locked"}`}, []string{"write 2 of the first 3 failed", "udf1 is locked"}},
		{"forbidden", rmmsim.Action{Status: 403}, []string{"write 2 of the first 3 failed", "403"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 20, Latency: time.Second})
				uid := b.uids(0)[1]
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uid}, Do: tt.do})
				b.tag(0)
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 3})
				sum := b.run(workers(8))
				b.want(sum, checkpoint.RunGuard)
				if n := len(b.requests("device-udf-set")); guardOf(sum) != "canary" || n != 2 || sum.Counts.Pending != 18 {
					t.Fatalf("stopped by %v, %d requests, %+v", sum.Err, n, sum.Counts)
				}
				for _, text := range tt.want {
					if !strings.Contains(sum.Err.Error(), text) {
						t.Errorf("%q lacks %q", sum.Err, text)
					}
				}
				if named := regexp.MustCompile(`nothing was sent after it: device \S+ in .+ \(` + uid + `\): 40`); !named.MatchString(sum.Err.Error()) {
					t.Errorf("%q does not name the device", sum.Err)
				}

				// Another call changes nothing: neither the rest nor the third is sent.
				b.want(b.run(), checkpoint.RunGuard)
				if n := len(b.requests("device-udf-set")); n != 2 {
					t.Errorf("%d requests after another call", n)
				}

				// Once it is tried again and done, the trial goes on with the third.
				b.account.ClearFaults()
				_, err := b.store.Retry(t.Context(), runID, checkpoint.Again{Failed: true})
				b.check(err)
				b.want(b.run(), checkpoint.RunPlanned)
				if n := len(b.requests("device-udf-set")); n != 4 || b.tagged(0) != 3 {
					t.Errorf("%d requests, %d tagged", n, b.tagged(0))
				}
			})
		})
	}
}

// What a person has given up is known by one word everywhere.
func TestGivenUpIsOneWord(t *testing.T) {
	if jobs.ClassGivenUp != checkpoint.ClassGivenUp {
		t.Errorf("%q and %q", jobs.ClassGivenUp, checkpoint.ClassGivenUp)
	}
}

// A quick job whose answer is lost stops a trial as well: nobody knows what it did.
func TestCanaryStopsInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20, Latency: time.Second})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-job-create", Nth: 2}, Do: rmmsim.Action{Drop: "after"}})
		var rows []string
		for _, uid := range b.uids(5) {
			rows = append(rows, uid+",x")
		}
		csv := "uid,service\n" + strings.Join(rows, "\n") + "\n"
		b.check(os.WriteFile(filepath.Join(b.folder, "rows.csv"), []byte(csv), 0o600))
		b.parse("version: 1\nupdate:\n  operation: device-job-create\n  rows: rows.csv\n  match: {uid: '{uid}'}\n" +
			"  set: {jobName: Restart, componentUid: " + b.word("<component>") + ", variables: {Service: '{service}'}}\n")
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 3})
		sum := b.run(workers(8))
		b.want(sum, checkpoint.RunGuard)
		if n := len(b.requests("device-job-create")); n != 2 || sum.Counts.InDoubt != 1 || sum.Counts.Pending != 3 {
			t.Fatalf("%d requests, %+v", n, sum.Counts)
		}
		var guard *jobs.GuardError
		if !errors.As(sum.Err, &guard) || !strings.Contains(guard.Message, "write 2 of the first 3 is in doubt, and nothing was sent after it: device ") {
			t.Errorf("%v", sum.Err)
		}
		for _, it := range b.items() {
			if it.State == checkpoint.StateInDoubt && it.Class != classNetwork {
				t.Errorf("class %q", it.Class)
			}
		}
	})
}
