package runner

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// retried is what a retry of failures of some classes does, over what was edited.
func (b *bench) retried(classes ...string) Summary {
	b.t.Helper()
	n, err := b.store.Retry(b.t.Context(), runID, checkpoint.Again{Failed: true, Classes: classes})
	if b.check(err); n == 0 {
		b.t.Fatalf("nothing of the classes %q", classes)
	}
	run, err := b.store.Run(b.t.Context(), runID)
	b.check(err)
	if run.Stage == jobs.StageVerify {
		b.check(b.store.Advance(b.t.Context(), runID, time.Now(), jobs.StageVerify, jobs.StageApply, checkpoint.Change{}))
	}
	b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: true})
	return b.run()
}

// have compares user-defined fields of the first device with what they should be.
func (b *bench) have(udf7, udf8 string) {
	b.t.Helper()
	if got := [2]string{b.account.UDF(b.uids(1)[0], "udf7"), b.account.UDF(b.uids(1)[0], "udf8")}; got != [2]string{udf7, udf8} {
		b.t.Errorf("there is %q, want %q", got, [2]string{udf7, udf8})
	}
}

// failure is the only write that has failed.
func (b *bench) failure(class, reason string) {
	b.t.Helper()
	failures, err := b.store.Failures(b.t.Context(), runID, 2)
	b.check(err)
	if len(failures) != 1 || failures[0].Class != class || failures[0].Reason != reason {
		b.t.Errorf("%+v", failures)
	}
}

// A row asks for two fields, and one of them was as wanted when the plan was made. It is
// edited before the row is written: who writes over that writes both fields, and an undo
// brings back what was there last.
func TestDriftOfFieldThatWasAsWanted(t *testing.T) {
	for name, s := range map[string]scenario{
		"one row":  {update: "  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}", csv: "uid,a,b\n<device0>,kept,new\n"},
		"two rows": {update: "  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}", csv: "uid,a,b\n<device0>,kept,\n<device0>,,new\n"},
		"cleared":  {update: "  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}", csv: "uid,a,b\n<device0>,(clear),new\n"},
	} {
		for _, verify := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read back %v", name, verify), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					was := "kept"
					if name == "cleared" {
						was = ""
					}
					b.check(b.account.SetUDF(b.uids(1)[0], "udf7", was))
					s.op = "device-udf-set"
					if verify {
						s.update += "\n  verify: read_back"
					}
					b.play(s)
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					b.want(b.run(), checkpoint.RunPlanned)
					b.check(b.account.SetUDF(b.uids(1)[0], "udf7", "SOMEONE"))
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
					b.want(b.run(), checkpoint.RunPartial)
					b.failure(jobs.ClassDrifted, "udf7 was edited since the plan was made")
					b.have("SOMEONE", "")

					b.want(b.retried(jobs.ClassDrifted), checkpoint.RunOK)
					b.have(was, "new")
					if sent := b.requests("device-udf-set"); len(sent) != 1 {
						t.Errorf("%d writes", len(sent))
					}
					want := map[jobs.RowClass]int{jobs.ClassClear: 1}
					if name == "two rows" {
						want[jobs.ClassChange] = 1
					}
					b.want(b.undo(runID, "u1", want), checkpoint.RunOK)
					b.have("SOMEONE", "")
				})
			})
		}
	}
}

// A write is acknowledged, and of its two fields one is edited before it is read back.
// What is said of it is true, its undo takes back what is still of the run, and a
// further try remembers what was there before the first.
func TestUndoOfWhatIsNotAsWritten(t *testing.T) {
	for _, c := range []struct{ edited, reason string }{
		{"SOMEONE", "udf7 is not what was sent"},
		{"old", "udf7 is as it was before"},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tried again %v", c.edited, again), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					uid := b.uids(1)[0]
					b.check(b.account.SetUDF(uid, "udf7", "old"))
					b.play(scenario{
						op: "device-udf-set", update: "  verify: read_back\n  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}", csv: "uid,a,b\n<device0>,new,new\n<device1>,new,new\n",
					})
					// Somebody is there between the write of the second device and the look.
					b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 2}, Do: rmmsim.Action{Func: func(a *rmmsim.Account, _ *http.Request) {
						b.check(a.SetUDF(uid, "udf7", c.edited))
					}}})
					b.want(b.run(workers(1)), checkpoint.RunPartial)
					b.failure(jobs.ClassNotApplied, "read back after the write: "+c.reason)
					b.have(c.edited, "new")
					if again {
						b.account.ClearFaults()
						b.want(b.retried(jobs.ClassNotApplied), checkpoint.RunOK)
						b.have("new", "new")
						b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassClear: 2}), checkpoint.RunOK)
						b.have(c.edited, "")
						return
					}
					want := checkpoint.RunOK
					if c.edited == "SOMEONE" {
						want = checkpoint.RunPartial // one field is kept
					}
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassClear: 2}), want)
					b.have(c.edited, "")
				})
			})
		}
	}
}

// The proxy of a site is set, edited and set once more: an undo takes it away if the run
// has made it, and brings the old one back if there was one.
func TestUndoOfAProxyThatWasSetTwice(t *testing.T) {
	for _, had := range []bool{false, true} {
		t.Run(fmt.Sprintf("there before %v", had), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				site := map[string]string{"siteUid": b.word("<siteuid0>")}
				if had {
					b.do("site-proxy-create", site, `{"host":"old","port":80,"type":"http"}`)
				}
				before := strings.ReplaceAll(b.account.Snapshot(), `"port":80,`, `"port":9,`) // which the second write has gone over
				b.play(scenario{
					op: "site-proxy-create", update: "  verify: read_back\n  match: {uid: '{site}'}\n  set: {host: new, port: '8080', type: socks5}", csv: "site\n<siteuid0>\n",
				})
				written := len(b.requests("site-proxy-create")) + 1
				b.net.set(func(r *http.Request) error { // somebody is there between the write and the look
					if strings.HasSuffix(r.URL.Path, "/settings") && len(b.requests("site-proxy-create")) == written {
						b.net.set(nil)
						b.do("site-proxy-create", site, `{"host":"new","port":9,"type":"socks5"}`)
					}
					return nil
				})
				b.want(b.run(), checkpoint.RunPartial)
				b.net.set(nil)
				b.want(b.retried(jobs.ClassNotApplied), checkpoint.RunOK)
				b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassChange: 1}), checkpoint.RunOK)
				b.like(before, "after the undo")
			})
		})
	}
}

// Whatever has become of a write after it was acknowledged or in doubt, its row is in the
// plan of the undo, and what the account still has is taken back; a person's word that it
// was not carried out is kept.
func TestUndoNamesEveryRowThatMayHaveChanged(t *testing.T) {
	ends := []struct {
		class string
		want  jobs.RowClass
	}{
		{"", jobs.ClassChange},
		{jobs.ClassNotApplied, jobs.ClassChange},
		{jobs.ClassDrifted, jobs.ClassChange},
		{jobs.ClassStale, jobs.ClassChange},
		{string(jobs.ClassProtected), jobs.ClassChange},
		{string(jobs.ClassConflict), jobs.ClassChange},
		{"network", jobs.ClassChange},
		{jobs.ClassGivenUp, jobs.ClassKept},
	}
	bubble(t, func(t *testing.T) {
		b := stage(t)
		for _, uid := range b.uids(len(ends)) {
			b.check(b.account.SetUDF(uid, "udf1", "before"))
		}
		b.tag(len(ends))
		b.want(b.run(), checkpoint.RunOK)
		want := map[jobs.RowClass]int{}
		for i, e := range ends {
			want[e.want]++
			if e.class == "" {
				continue
			}
			n, err := b.store.Settle(t.Context(), runID, time.Now(), []checkpoint.Settled{{
				Key: "apply/device-udf-set/" + b.uids(0)[i], State: checkpoint.StateFailed, Class: e.class, Reason: "so",
			}})
			if b.check(err); n != 1 {
				t.Fatalf("%s: %d settled", e.class, n)
			}
		}
		b.want(b.undo(runID, "u1", want), checkpoint.RunPartial)
		if n := b.tagged(len(ends)); n != 1 {
			t.Errorf("%d are left as the run has made them", n)
		}
	})
}
