package runner

import (
	"fmt"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// What nobody can read is never taken for what the row wants: the write goes out when
// the plan is applied, and again when it was refused.
func TestUnreadableValuesAreSent(t *testing.T) {
	scenes := map[string]struct {
		update, csv, op string
	}{
		"site-variable-set": {
			"  match: {name: '{name}', siteUid: '{site}'}\n  set: {value: '{value}', masked: '{m}'}",
			"site,name,value,m\n<siteuid0>,Hidden,new,true\n", "site-variable-update",
		},
		"account-variable-update": {"  match: {name: '{name}'}\n  set: {value: '{value}'}", "name,value\nHidden,new\n", "account-variable-update"},
		"account-variable-set": {
			"  match: {name: '{name}'}\n  set: {value: '{value}', masked: true}", "name,value\nHidden,(clear)\n", "account-variable-update",
		},
		"site-proxy-create": {
			"  match: {uid: '{site}'}\n  set: {host: p, port: '80', type: http, username: u, password: '{p}'}", "site,p\n<siteuid0>,new\n", "site-proxy-create",
		},
	}
	for op, s := range scenes {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, refused %v", op, refused), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					site := map[string]string{"siteUid": b.word("<siteuid0>")}
					b.do("site-variable-create", site, `{"name":"Hidden","value":"old","masked":true}`)
					b.do("account-variable-create", nil, `{"name":"Hidden","value":"old","masked":true}`)
					b.do("site-proxy-create", site, `{"host":"p","port":80,"type":"http","username":"u","password":"old"}`)
					b.play(scenario{op: op, update: s.update, csv: s.csv}, "  verify: read_back")
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					b.want(b.run(), checkpoint.RunPlanned)
					from := len(b.account.Log())
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
					want := 1
					if refused {
						want = 2
						b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: s.op, Nth: 1}, Do: rmmsim.Action{Status: 403}})
						b.want(b.run(), checkpoint.RunPartial)
						n, err := b.store.Retry(t.Context(), runID, checkpoint.Again{Failed: true})
						if b.check(err); n != 1 {
							t.Fatalf("%d to be tried again", n)
						}
					}
					sum := b.run()
					b.want(sum, checkpoint.RunOK)
					if sent := b.sinceWrites(from); len(sent) != want {
						t.Errorf("sent %q", sent)
					}
					if it := b.item(s.op); it.State != checkpoint.StateDone || it.Reason != "" {
						t.Errorf("%+v", it)
					}
				})
			})
		}
	}
}

// A variable that somebody has made since, and whose value nobody can read, is not
// taken for the one that the row wants.
func TestMaskedVariableMadeSince(t *testing.T) {
	for _, op := range []string{"account-variable-create", "account-variable-set"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				update := "  set: {name: '{name}', value: '{value}', masked: true}"
				if op == "account-variable-set" {
					update = "  match: {name: '{name}'}\n  set: {value: '{value}', masked: true}"
				}
				b.play(scenario{op: op, update: update, csv: "name,value\nFresh,new\n"})
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
				b.want(b.run(), checkpoint.RunPlanned)
				b.do("account-variable-create", nil, `{"name":"Fresh","value":"theirs","masked":true}`)
				from := len(b.account.Log())
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
				b.want(b.run(), checkpoint.RunPartial)
				it := b.item("account-variable-create")
				if sent := b.sinceWrites(from); len(sent) != 0 || it.Class != jobs.ClassStale || !strings.Contains(it.Reason, "nobody can read its value") {
					t.Errorf("sent %q, %+v", sent, it)
				}
			})
		})
	}
}

// A proxy whose password alone is to change is not sent over what somebody has edited
// of it since.
func TestPasswordKeepsOffAnEditedProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		site := map[string]string{"siteUid": b.word("<siteuid0>")}
		b.do("site-proxy-create", site, `{"host":"p","port":80,"type":"http","username":"u","password":"old"}`)
		b.play(scenario{op: "site-proxy-create", update: "  match: {uid: '{site}'}\n  set: {password: '{p}'}", csv: "site,p\n<siteuid0>,new\n"})
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
		b.want(b.run(), checkpoint.RunPlanned)
		b.do("site-proxy-create", site, `{"host":"by.hand","port":80,"type":"http","username":"u","password":"old"}`)
		from := len(b.account.Log())
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
		b.want(b.run(), checkpoint.RunPartial)
		if sent, it := b.sinceWrites(from), b.item("site-proxy-create"); len(sent) != 0 || it.Reason != "host was edited since the plan was made" {
			t.Errorf("sent %q, %+v", sent, it)
		}
	})
}

// What is written over an edit is all that the row wants, not only what it lacked when
// the plan was made.
func TestOverDriftAllFieldsAreWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		uid := b.uids(1)[0]
		b.check(b.account.SetUDF(uid, "udf7", "wanted"))
		b.check(b.account.SetUDF(uid, "udf9", "old"))
		b.play(scenario{op: "device-udf-set", update: "  match: {uid: '{uid}'}\n  set: {udf7: wanted, udf8: new, udf9: '{x}'}", csv: "uid,x\n<device0>,(clear)\n"})
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
		b.want(b.run(), checkpoint.RunPlanned)
		b.check(b.account.SetUDF(uid, "udf7", "SOMEONE"))
		from := len(b.account.Log())
		b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: true})
		b.want(b.run(), checkpoint.RunOK)
		sent := b.sinceWrites(from)
		if len(sent) != 1 || !strings.HasSuffix(sent[0], `{"udf7":"wanted","udf8":"new","udf9":""}`) {
			t.Errorf("sent %q", sent)
		}
		b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassClear: 1}), checkpoint.RunOK)
		for field, want := range map[string]string{"udf7": "SOMEONE", "udf8": "", "udf9": "old"} {
			if got := b.account.UDF(uid, field); got != want {
				t.Errorf("%s is %q after the undo, want %q", field, got, want)
			}
		}
	})
}

// A cell that says what an export writes for the present value asks for nothing: it is
// as written when the write of its row is read back, and what is written over an edit of
// it is the value, not what the export makes of it.
func TestExportedCellsBesideAChange(t *testing.T) {
	for _, edit := range []bool{false, true} {
		t.Run(fmt.Sprint(edit), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				uid := b.uids(1)[0]
				b.check(b.account.SetUDF(uid, "udf7", "=1+1"))
				b.play(scenario{op: "device-udf-set", update: "  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}", csv: "uid,a,b\n<device0>,'=1+1,new\n"}, "  verify: read_back")
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
				b.want(b.run(), checkpoint.RunPlanned)
				if edit {
					b.check(b.account.SetUDF(uid, "udf7", "SOMEONE"))
				}
				from := len(b.account.Log())
				b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: true})
				b.want(b.run(), checkpoint.RunOK)
				want := `{"udf8":"new"}`
				if edit {
					want = `{"udf7":"=1+1","udf8":"new"}`
				}
				if sent := b.sinceWrites(from); len(sent) != 1 || !strings.HasSuffix(sent[0], want) {
					t.Errorf("sent %q, want %s", sent, want)
				}
				b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassClear: 1}), checkpoint.RunOK)
				was := "=1+1"
				if edit {
					was = "SOMEONE"
				}
				if got := b.account.UDF(uid, "udf7") + b.account.UDF(uid, "udf8"); got != was {
					t.Errorf("%q after the undo, want %q", got, was)
				}
			})
		})
	}
}
