package runner

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// sinceWrites are the writes in the log of the account from a place on, as
// "METHOD path body".
func (b *bench) sinceWrites(from int) []string {
	var sent []string
	for _, r := range b.account.Log()[from:] {
		if op, ok := rmm.Lookup(r.Operation); ok && op.IsWrite() {
			sent = append(sent, r.Method+" "+r.Path+" "+r.Body)
		}
	}
	return sent
}

// A file of 1,000 rows of which 400 are so already: the plan writes nothing, and
// 600 writes carry it out, each of them one of the plan.
func TestPlanOfAThousandRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 1000, Sparse: true, UDFs: 30})
		for i, uid := range b.uids(0) {
			if i%5 < 2 {
				b.check(b.account.SetUDF(uid, "udf1", fmt.Sprintf("tag %d", i)))
			}
		}
		b.planOnly(0)
		sum := b.run()
		b.want(sum, checkpoint.RunPlanned)
		if sum.Plan[jobs.ClassChange] != 600 || sum.Plan[jobs.ClassUnchanged] != 400 || len(b.sinceWrites(0)) != 0 {
			t.Fatalf("plan %v, %d writes", sum.Plan, len(b.sinceWrites(0)))
		}
		planned := map[string]bool{}
		for key, it := range b.items() {
			if it.State == checkpoint.StatePending {
				planned[key[strings.LastIndexByte(key, '/')+1:]] = true
			}
		}
		// The input is another one by now, and gone: the plan does not ask.
		b.check(os.Remove(filepath.Join(b.folder, "rows.csv")))
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
		b.want(b.run(), checkpoint.RunOK)
		sent := b.sinceWrites(0)
		if len(sent) != 600 || len(planned) != 600 || b.tagged(0) != 1000 {
			t.Errorf("%d writes, %d planned, %d tagged", len(sent), len(planned), b.tagged(0))
		}
		for _, w := range sent {
			uid := strings.Split(w, "/")[4]
			if !planned[uid] {
				t.Errorf("%s was not planned", w)
			}
			delete(planned, uid)
		}
	})
}

// Case R32: the same job twice in a row. The second run sends nothing.
func TestCase_R32_StartedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 30})
		b.tag(0)
		b.want(b.run(), checkpoint.RunOK)
		b.check(b.store.CreateRun(t.Context(), checkpoint.Run{ID: "second", JobKey: "job", Created: time.Now()}))
		sum := b.run(func(cfg *Config) { cfg.RunID = "second" })
		b.want(sum, checkpoint.RunOK)
		if n := len(b.sinceWrites(0)); n != 30 || sum.Plan[jobs.ClassUnchanged] != 30 {
			t.Errorf("%d writes, plan %v", n, sum.Plan)
		}
	})
}

// Between the plan and the writes a technician is at work, on each kind of target.
// What was edited is held back, unless it may be overwritten.
func TestDrift(t *testing.T) {
	edits := map[string]func(b *bench) rmm.Request{
		"device-udf-set": func(b *bench) rmm.Request {
			return rmm.Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": b.uids(1)[0]}, Body: []byte(`{"udf7":"by hand"}`)}
		},
		"site-update": func(b *bench) rmm.Request { // another field than those of the job, which the write would put back
			return rmm.Request{
				Op: "site-update", Path: map[string]string{"siteUid": b.word("<siteuid0>")},
				Body: []byte(fmt.Sprintf(`{"name":%q,"description":"old","notes":"by hand"}`, b.word("<site0>"))),
			}
		},
		"account-variable-create": func(*bench) rmm.Request {
			return rmm.Request{Op: "account-variable-create", Body: []byte(`{"name":"Fresh","value":"by hand"}`)}
		},
		"site-proxy-create": func(b *bench) rmm.Request {
			return rmm.Request{
				Op: "site-proxy-create", Path: map[string]string{"siteUid": b.word("<siteuid0>")}, Body: []byte(`{"host":"by.hand","port":1,"type":"http"}`),
			}
		},
	}
	for _, s := range scenarios() {
		edit := edits[s.op]
		for _, accept := range []bool{false, true} {
			if edit == nil {
				continue
			}
			class := jobs.ClassDrifted
			if s.op == "account-variable-create" {
				class = jobs.ClassStale // the service refuses a second one
			}
			t.Run(fmt.Sprintf("%s, accept %v", s.op, accept), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.ready(s)
					b.play(s.first())
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					b.want(b.run(), checkpoint.RunPlanned)
					_, err := b.client.Do(t.Context(), edit(b))
					b.check(err)
					from := len(b.account.Log())
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: accept})
					sum := b.run()
					if accept && class == jobs.ClassDrifted {
						b.want(sum, checkpoint.RunOK)
						if s.op != "site-update" {
							s.checkEnd(b, "")
							return
						}
						// What the job does not set is sent as it is now, not as the plan has read it.
						if sent := b.sinceWrites(from); len(sent) != 1 || !strings.Contains(sent[0], `"notes":"by hand"`) {
							t.Errorf("sent %q", sent)
						}
						return
					}
					b.want(sum, checkpoint.RunPartial)
					if sent := b.sinceWrites(from); len(sent) != 0 {
						t.Errorf("sent %q", sent)
					}
					it := b.item(s.op)
					if it.State != checkpoint.StateFailed || it.Class != class || strings.Contains(it.Reason, "by hand") {
						t.Errorf("%s %s: %s", it.State, it.Class, it.Reason)
					}
				})
			})
		}
	}
}

// A target that is gone is held back, and one that is as wanted by now is not
// written again.
func TestDriftOfWhatIsGoneOrDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 4})
		b.planOnly(0)
		b.want(b.run(), checkpoint.RunPlanned)
		uids := b.uids(0)
		b.account.RemoveDevice(uids[0])
		b.check(b.account.SetUDF(uids[1], "udf1", "tag 1"))
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: true})
		sum := b.run()
		b.want(sum, checkpoint.RunPartial)
		if sum.Counts.Failed != 1 || sum.Counts.Unchanged != 1 || len(b.sinceWrites(0)) != 2 {
			t.Errorf("%+v, %d writes", sum.Counts, len(b.sinceWrites(0)))
		}
	})
}

// With reading back, what was acknowledged and is not there has failed, for each
// operation; a service that does as it says passes.
func TestReadBackOfEachOperation(t *testing.T) {
	for _, s := range scenarios() {
		for _, lies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lies %v", s.op, lies), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.ready(s)
					first := s.first()
					first.update = strings.TrimRight(first.update, "\n") + "\n  verify: read_back"
					b.play(first)
					if lies {
						b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: s.op}, Do: rmmsim.Action{Status: 200, Body: "{}"}})
					}
					sum := b.run()
					want := checkpoint.RunOK
					if lies && s.op != "device-job-create" && s.op != "alert-mute" { // of which nothing can be read back
						want = checkpoint.RunPartial
					}
					b.want(sum, want)
					if it := b.item(s.op); want == checkpoint.RunPartial && it.Class != jobs.ClassNotApplied {
						t.Errorf("%s %s: %s", it.State, it.Class, it.Reason)
					}
					if sum.Stage != jobs.StageVerify {
						t.Errorf("ended in stage %s", sum.Stage)
					}
				})
			})
		}
	}
}

// The first writes are tried out, whatever the number of workers; a stop and a new
// process in between change nothing, and what was edited meanwhile is held back.
func TestCanary(t *testing.T) {
	for _, width := range []int{1, 16} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 40, Latency: 300 * time.Millisecond})
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 3}, Do: rmmsim.Action{Status: 409}})
				b.tag(0)
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 5})
				sum := b.run(workers(width))
				b.want(sum, checkpoint.RunPlanned)
				if sum.Stage != jobs.StageWait || b.tagged(0) != 5 || b.tagged(5) != 5 {
					t.Fatalf("stage %s, %d tagged, of the first five %d", sum.Stage, b.tagged(0), b.tagged(5))
				}
				trials, err := jobs.Trials(t.Context(), AnswersOf(b.store, runID))
				b.check(err)
				for i, trial := range trials {
					if !trial.OK || !trial.Seen || trial.Live != fmt.Sprintf("tag %d", i) || trial.New != trial.Live {
						t.Errorf("%+v", trial)
					}
				}
				if len(trials) != 5 {
					t.Errorf("%d trials", len(trials))
				}
				b.check(b.account.SetUDF(b.uids(0)[20], "udf1", "by hand"))
				b.reopen()
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 5})
				b.want(b.run(workers(width)), checkpoint.RunPartial)
				if b.tagged(0) != 39 || len(repeated(b.requests("device-udf-set"))) != 1 {
					t.Errorf("%d tagged, repeated %v", b.tagged(0), repeated(b.requests("device-udf-set")))
				}
			})
		})
	}
}

// A plan is read in few requests, whatever its size, and stays within its memory.
func TestCheckReadsInBulk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 600, Sparse: true, UDFs: 30})
		b.planOnly(0)
		b.want(b.run(), checkpoint.RunPlanned)
		reads := len(b.requests("devices"))
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
		b.want(b.run(), checkpoint.RunOK)
		if n := len(b.requests("devices")) - reads; n != 6 || len(b.requests("device")) != 0 {
			t.Errorf("%d pages, %d single reads; want two walks of three pages", n, len(b.requests("device")))
		}
	})
}

// What was tried out and could not be read back is neither as it was sent nor otherwise.
func TestCanaryThatCannotBeReadBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 40, Seed: 3})
		b.tag(3)
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Nth: 2}, Do: rmmsim.Action{Status: 403}})
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 2})
		b.want(b.run(), checkpoint.RunAuth)
		for _, read := range []bool{false, true} {
			trials, err := jobs.Trials(t.Context(), AnswersOf(b.store, runID))
			b.check(err)
			if len(trials) != 2 || b.tagged(3) != 2 {
				t.Fatalf("%d trials, %d tagged", len(trials), b.tagged(3))
			}
			for _, trial := range trials {
				if trial.Read != read || trial.Seen != read || trial.OK != read {
					t.Errorf("%+v", trial)
				}
			}
			if !read {
				b.want(b.run(), checkpoint.RunPlanned)
			}
		}
	})
}

// A write that was in flight when the trial was cut off, and is found to have been
// carried out, is one of those that were tried out.
func TestCanaryCountsWhatIsFoundDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 40, Seed: 3})
		b.tag(6)
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Canary: 3})
		ctx, stop := context.WithCancel(t.Context())
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 2}, Do: rmmsim.Action{Drop: "after", Func: func(*rmmsim.Account, *http.Request) { stop() }}})
		b.want(b.runIn(ctx), checkpoint.RunStopped)
		if n := b.tagged(6); n != 2 {
			t.Fatalf("%d are tagged", n)
		}
		b.reopen()
		b.want(b.run(), checkpoint.RunPlanned)
		if n := b.tagged(6); n != 3 {
			t.Errorf("%d are tagged, want the first three", n)
		}
	})
}

// A look that could not be made and is made anew is no failure of the run.
func TestLooksThatAreMadeAnew(t *testing.T) {
	t.Run("before the writes", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 60, Seed: 3})
			b.tag(5)
			b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
			b.want(b.run(), checkpoint.RunPlanned)
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Nth: 1}, Do: rmmsim.Action{Status: 403}})
			b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
			b.want(b.run(), checkpoint.RunAuth)
			sum := b.run()
			b.want(sum, checkpoint.RunOK)
			if n := b.tagged(5); n != 5 || sum.Counts.Failed != 0 {
				t.Errorf("%d devices are tagged, %+v", n, sum.Counts)
			}
		})
	})
	t.Run("for a lost answer", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := stage(t)
			b.play(scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\n"})
			b.faults(
				rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create", Nth: 1}, Do: rmmsim.Action{Drop: "after"}},
				rmmsim.Fault{Match: rmmsim.Match{Operation: "sites", From: 2, To: 3}, Do: rmmsim.Action{Status: 403}},
			)
			b.want(b.run(), checkpoint.RunInDoubt)
			for _, state := range []checkpoint.RunState{checkpoint.RunIncomplete, checkpoint.RunOK} {
				b.work = jobs.NewCheckWork(jobs.Settings{}, b.began, b.began)
				b.want(b.run(func(cfg *Config) { cfg.ReadOnly = true }), state)
			}
		})
	})
}
