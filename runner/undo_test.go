package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// undo takes a run back by a run of its own. What was expected of the classes of its
// rows is in want.
func (b *bench) undo(source, id string, want map[jobs.RowClass]int, set ...jobs.Settings) Summary {
	b.t.Helper()
	set = append(set, jobs.Settings{})
	b.check(b.store.CreateRun(b.t.Context(), checkpoint.Run{ID: id, JobKey: "undo " + source, Created: time.Now()}))
	sum := b.run(func(cfg *Config) {
		cfg.RunID, cfg.Work, cfg.MaxErrors = id, jobs.NewUndoWork(AnswersOf(b.store, source), set[0], b.job), b.job.MaxErrors
	})
	for _, class := range jobs.RowClasses() {
		if sum.Plan[class] != want[class] {
			b.t.Errorf("%s plans %v, want %v", id, sum.Plan, want)
			break
		}
	}
	return sum
}

// What the guard of the job protects by now is left alone, though the run itself has
// written it: when the undo is planned, and once more when it is carried out.
func TestUndoOfWhatIsProtectedByNow(t *testing.T) {
	vip := func(b *bench, _ string) { b.rename(b.word("<siteuid0>"), "VIP Lounge") }
	cases := map[string]struct {
		edit func(b *bench, from string) // the site that the device came from
		why  string
	}{
		"device-udf-set": {func(b *bench, _ string) { b.check(b.account.SetUDF(b.uids(1)[0], "udf30", "do not touch")) }, "protected by udf30"},
		"device-move": {
			func(b *bench, from string) { b.rename(b.account.SiteUID(from), "VIP Lounge") }, "the site to move back to is protected by site VIP*",
		},
		"site-update":          {vip, "protected by site VIP*"},
		"site-variable-create": {vip, "protected by site VIP*"},
		"site-variable-update": {vip, "protected by site VIP*"},
		"site-variable-delete": {vip, "protected by site VIP*"},
		"site-proxy-create":    {vip, "protected by site VIP*"},
		"site-proxy-delete":    {vip, "protected by site VIP*"},
	}
	for _, s := range scenarios() {
		c, ok := cases[s.op]
		if !ok {
			continue
		}
		for _, planned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, planned before %v", s.op, planned), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.ready(s)
					from := b.word("<at0>")
					guard := "guard: {protected: {site: 'VIP*'}}"
					if s.op == "device-udf-set" {
						guard = "guard: {protected: {udf30: do not touch}}"
					}
					b.play(s.first(), guard)
					b.want(b.run(), checkpoint.RunOK)
					var sum Summary
					if planned {
						class := jobs.ClassChange
						if s.op == "device-udf-set" {
							class = jobs.ClassClear
						}
						b.want(b.undo(runID, "u1", map[jobs.RowClass]int{class: 1}, jobs.Settings{PlanOnly: true}), checkpoint.RunPlanned)
					}
					c.edit(b, from)
					edited, sent := b.account.Snapshot(), len(b.account.Log())
					if planned {
						// Not even who writes over what was edited gets past the guard.
						sum = b.run(func(cfg *Config) {
							cfg.RunID, cfg.Work = "u1", jobs.NewUndoWork(AnswersOf(b.store, runID), jobs.Settings{AcceptDrift: true}, b.job)
						})
					} else {
						sum = b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassProtected: 1})
					}
					b.want(sum, checkpoint.RunPartial)
					if got := b.account.Snapshot(); got != edited || len(b.sinceWrites(sent)) != 0 {
						t.Errorf("sent %q", b.sinceWrites(sent))
					}
					failures, err := b.store.Failures(t.Context(), "u1", 2)
					b.check(err)
					why := strings.Replace(c.why, "move back to", "move to", 1)
					if !planned {
						why = c.why
					}
					if len(failures) != 1 || failures[0].Class != string(jobs.ClassProtected) || failures[0].Reason != why {
						t.Errorf("%+v", failures)
					}
				})
			})
		}
	}
}

// What somebody has edited since is left alone, for each operation.
func TestUndoKeepsWhatWasEdited(t *testing.T) {
	site := func(b *bench) map[string]string { return map[string]string{"siteUid": b.word("<siteuid0>")} }
	edits := map[string]func(b *bench) rmm.Request{
		"device-udf-set": func(b *bench) rmm.Request {
			return rmm.Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": b.uids(1)[0]}, Body: []byte(`{"udf7":"by hand"}`)}
		},
		"device-warranty-create": func(b *bench) rmm.Request {
			return rmm.Request{Op: "device-warranty-create", Path: map[string]string{"deviceUid": b.uids(1)[0]}, Body: []byte(`{"warrantyDate":"2040-01-01"}`)}
		},
		"device-move": func(b *bench) rmm.Request {
			to := b.word("<siteuid1>")
			if raw, _ := b.account.Device(b.uids(1)[0]); b.word("<site1>") == b.word("<at0>") && len(raw) > 0 {
				to = b.word("<siteuid2>")
			}
			return rmm.Request{Op: "device-move", Path: map[string]string{"deviceUid": b.uids(1)[0], "siteUid": to}}
		},
		"site-update": func(b *bench) rmm.Request {
			return rmm.Request{Op: "site-update", Path: site(b), Body: []byte(fmt.Sprintf(`{"name":%q,"description":"by hand"}`, b.word("<site0>")))}
		},
		"site-variable-update": func(b *bench) rmm.Request {
			id := ""
			for _, v := range b.read("site-variables", site(b)).Get("variables").Array() {
				if v.Get("name").String() == "Old" {
					id = fmt.Sprint(v.Get("id").Int())
				}
			}
			return rmm.Request{Op: "site-variable-update", Path: map[string]string{"siteUid": b.word("<siteuid0>"), "variableId": id}, Body: []byte(`{"name":"Old","value":"by hand"}`)}
		},
		"account-variable-delete": func(*bench) rmm.Request {
			return rmm.Request{Op: "account-variable-create", Body: []byte(`{"name":"Old","value":"made again"}`)}
		},
		"site-proxy-create": func(b *bench) rmm.Request {
			return rmm.Request{Op: "site-proxy-create", Path: site(b), Body: []byte(`{"host":"by.hand","port":1,"type":"http"}`)}
		},
		"site-proxy-delete": func(b *bench) rmm.Request {
			return rmm.Request{Op: "site-proxy-create", Path: site(b), Body: []byte(`{"host":"by.hand","port":1,"type":"http"}`)}
		},
	}
	for _, s := range scenarios() {
		edit := edits[s.op]
		if edit == nil {
			continue
		}
		t.Run(s.op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				b.ready(s)
				b.play(s.first())
				b.want(b.run(), checkpoint.RunOK)
				_, err := b.client.Do(t.Context(), edit(b))
				b.check(err)
				edited, sent := b.account.Snapshot(), len(b.account.Log())
				b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassKept: 1}), checkpoint.RunPartial)
				if got := b.account.Snapshot(); got != edited {
					t.Errorf("after the undo\n%s\nwant\n%s", got, edited)
				}
				for _, r := range b.account.Log()[sent:] {
					if op, ok := rmm.Lookup(r.Operation); ok && op.IsWrite() {
						t.Errorf("%s was sent", r.Operation)
					}
				}
			})
		})
	}
}

// Of a proxy also those fields count that the run has not set: an undo would lose what
// somebody else has given them.
func TestUndoKeepsAProxyOfAnother(t *testing.T) {
	for _, had := range []bool{false, true} {
		t.Run(fmt.Sprint(had), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				site := map[string]string{"siteUid": b.word("<siteuid0>")}
				set, edit := "host: new, port: 80, type: http", `{"host":"new","port":80,"type":"http","username":"by hand"}`
				if had {
					b.do("site-proxy-create", site, `{"host":"old","port":80,"type":"http"}`)
					set, edit = "host: new", `{"host":"new","port":3128,"type":"http","username":"by hand"}`
				}
				b.play(scenario{op: "site-proxy-create", update: "  match: {uid: '{site}'}\n  set: {" + set + "}", csv: "site\n<siteuid0>\n"})
				b.want(b.run(), checkpoint.RunOK)
				b.do("site-proxy-create", site, edit)
				edited := b.account.Snapshot()
				b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassKept: 1}), checkpoint.RunPartial)
				if got := b.account.Snapshot(); got != edited {
					t.Errorf("after the undo\n%s\nwant\n%s", got, edited)
				}
			})
		})
	}
}

// A name that another site has by now is not given back: both would have it.
func TestUndoKeepsTheNamesOfSitesApart(t *testing.T) {
	for _, planned := range []bool{false, true} {
		t.Run(fmt.Sprintf("planned before %v", planned), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				was, other := b.word("<site0>"), b.word("<siteuid1>")
				b.play(scenario{op: "site-update", update: "  match: {uid: '{site}'}\n  set: {name: Elsewhere}", csv: "site\n<siteuid0>\n"})
				b.want(b.run(), checkpoint.RunOK)
				if planned {
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassChange: 1}, jobs.Settings{PlanOnly: true}), checkpoint.RunPlanned)
				}
				b.rename(other, strings.ToUpper(was))
				from := len(b.account.Log())
				if planned {
					b.want(b.run(func(cfg *Config) {
						cfg.RunID, cfg.Work = "u1", jobs.NewUndoWork(AnswersOf(b.store, runID), jobs.Settings{}, b.job)
					}), checkpoint.RunPartial)
				} else {
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassKept: 1}), checkpoint.RunPartial)
				}
				if sent := b.sinceWrites(from); len(sent) != 0 {
					t.Errorf("sent %q", sent)
				}
			})
		})
	}
}

// Of 500 changes 20 were edited since: 480 are taken back and 20 are kept.
func TestUndoOfFiveHundred(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const devices, edited = 500, 20
		b := newBench(t, rmmsim.Config{Devices: devices, Sparse: true, UDFs: 30})
		before := map[string]string{}
		for i, uid := range b.uids(0) {
			if i%2 == 0 {
				b.check(b.account.SetUDF(uid, "udf1", fmt.Sprintf("old %d", i)))
			}
			before[uid] = b.account.UDF(uid, "udf1")
		}
		b.tag(0)
		b.want(b.run(), checkpoint.RunOK)
		for i, uid := range b.uids(0) {
			if i%25 == 7 {
				b.check(b.account.SetUDF(uid, "udf1", "by hand"))
			}
		}
		writes := len(b.requests("device-udf-set"))
		b.check(b.store.CreateRun(t.Context(), checkpoint.Run{ID: "u", JobKey: "undo", Created: time.Now()}))
		b.job.Update.Verify = true
		sum := b.run(func(cfg *Config) {
			cfg.RunID, cfg.Work, cfg.MaxErrors = "u", jobs.NewUndoWork(AnswersOf(b.store, runID), jobs.Settings{}, b.job), b.job.MaxErrors
		})
		b.want(sum, checkpoint.RunPartial)
		if n := len(b.requests("device-udf-set")) - writes; n != devices-edited {
			t.Errorf("%d writes, want %d", n, devices-edited)
		}
		restored, kept := 0, 0
		for _, uid := range b.uids(0) {
			switch got := b.account.UDF(uid, "udf1"); got {
			case before[uid]:
				restored++
			case "by hand":
				kept++
			}
		}
		planned := sum.Plan[jobs.ClassChange] + sum.Plan[jobs.ClassClear]
		if restored != 480 || kept != edited || planned != restored || sum.Plan[jobs.ClassKept] != kept || planned+kept != devices {
			t.Errorf("%d restored, %d kept, plan %v", restored, kept, sum.Plan)
		}
		if sum.Counts.Failed != edited || sum.Counts.Done < restored {
			t.Errorf("%+v", sum.Counts)
		}
	})
}

// The plan of an undo tells the site that a device is in by now.
func TestUndoTellsThePresentSite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		b.play(scenario{op: "device-udf-set", update: "  match: {uid: '{uid}'}\n  set: {udf7: new}", csv: "uid\n<device0>\n"})
		b.want(b.run(), checkpoint.RunOK)
		to := b.word("<siteuid1>")
		b.do("device-move", map[string]string{"deviceUid": b.uids(1)[0], "siteUid": to}, "")
		b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassClear: 1}, jobs.Settings{PlanOnly: true}), checkpoint.RunPlanned)
		for row, err := range b.store.Rows(t.Context(), "u1") {
			var d jobs.RowDetail
			b.check(err)
			b.check(json.Unmarshal(row.Payload, &d))
			if row.Number > 0 && d.Site != b.word("<site1>") {
				t.Errorf("the plan says %q, the device is in %q", d.Site, b.word("<site1>"))
			}
		}
	})
}
