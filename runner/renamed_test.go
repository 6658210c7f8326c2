package runner

import (
	"fmt"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// What a row names gets another name after the plan, by every operation that knows its
// target by a name and at every moment at which a run goes on: nothing is sent to what
// bears another name by then, and what has the name by then waits for a new plan.
func TestRenamedTargetsAreNeverWritten(t *testing.T) {
	variable := func(op string) func(b *bench) {
		return func(b *bench) {
			at, name := b.variable("Old"), "site-variable-update"
			if strings.HasPrefix(op, "account") {
				at, name = b.accountVariable("Old"), "account-variable-update"
			}
			b.do(name, at, `{"name":"Renamed","value":"old"}`)
		}
	}
	site := func(b *bench) { b.rename(b.word("<siteuid0>"), "Elsewhere") }
	device := func(b *bench) {
		uid := b.uids(0)[0]
		raw, _ := b.account.Device(uid)
		host := parsed(raw).Get("hostname").String()
		b.account.RemoveDevice(uid)
		b.check(b.account.AddDevice(strings.Replace(string(raw), `"hostname":"`+host+`"`, `"hostname":"ELSEWHERE"`, 1)))
	}
	const (
		value    = "  set: {value: new}"
		byName   = "  match: {name: '{n}'}\n"
		ofSite   = "  match: {siteUid: '{uid}', name: Old}\n"
		uid      = "uid\n<siteuid0>\n"
		one      = "n\nOld\n"
		bySite   = "  match: {name: '{site}'}\n"
		siteName = "site\n<site0>\n"
		byHost   = "  match: {hostname: '{host}'}\n"
		hostname = "host\n<host0>\n"
	)
	tests := []struct {
		scenario
		edit func(b *bench)
	}{
		{scenario{op: "site-variable-update", update: ofSite + value, csv: uid}, variable("site")},
		{scenario{op: "site-variable-set", update: ofSite + value, csv: uid}, variable("site")},
		{scenario{op: "site-variable-delete", update: ofSite, csv: uid}, variable("site")},
		{scenario{op: "account-variable-update", update: byName + value, csv: one}, variable("account")},
		{scenario{op: "account-variable-set", update: byName + value, csv: one}, variable("account")},
		{scenario{op: "account-variable-delete", update: byName, csv: one}, variable("account")},
		{scenario{op: "site-update", update: bySite + "  set: {description: new}", csv: siteName}, site},
		{scenario{op: "site-proxy-create", update: bySite + "  set: {host: h, port: '80', type: http}", csv: siteName}, site},
		{scenario{op: "site-proxy-delete", update: bySite, csv: siteName}, site},
		{scenario{op: "site-variable-create", update: "  match: {siteName: '{site}'}\n  set: {name: Fresh, value: new}", csv: siteName}, site},
		{scenario{op: "site-variable-set", update: "  match: {siteName: '{site}', name: Old}\n" + value, csv: siteName}, site},
		{scenario{op: "site-variable-delete", update: "  match: {siteName: '{site}', name: Old}\n", csv: siteName}, site},
		{scenario{op: "device-udf-set", update: byHost + "  set: {udf7: new}", csv: hostname}, device},
		{scenario{op: "device-warranty-create", update: byHost + "  set: {warrantyDate: '2031-05-06'}", csv: hostname}, device},
		{scenario{op: "device-move", update: byHost + "  set: {siteName: Annex}", csv: hostname}, device},
		{scenario{op: "device-job-create", update: byHost + "  set: {jobName: Restart, componentUid: <component>}", csv: hostname}, device},
		{scenario{op: "device-udf-set", update: "  match: {hostname: '{host}', siteName: '{at}'}\n  set: {udf7: new}", csv: "host,at\n<host0>,<at0>\n"}, func(b *bench) {
			raw, _ := b.account.Device(b.uids(0)[0])
			b.rename(parsed(raw).Get("siteUid").String(), "Elsewhere")
		}},
	}
	for _, tt := range tests {
		for _, when := range []string{"apply", "apply that accepts edits", "retry of what was refused"} {
			t.Run(tt.op+" by "+strings.Trim(strings.Fields(tt.update)[1], "{:")+", "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					raw, _ := b.account.Device(b.uids(0)[0])
					b.more = []string{"<host0>", parsed(raw).Get("hostname").String()}
					if tt.op == "site-proxy-delete" {
						b.do("site-proxy-create", map[string]string{"siteUid": b.word("<siteuid0>")}, `{"host":"p","port":80,"type":"http"}`)
					}
					b.play(tt.scenario)
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					sum := b.run()
					b.want(sum, checkpoint.RunPlanned)
					if sum.Plan[jobs.ClassChange] != 1 {
						t.Fatalf("planned %q", b.planned())
					}
					accept := when != "apply"
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: accept})
					if when == "retry of what was refused" {
						b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: strings.Replace(tt.op, "variable-set", "variable-update", 1)}, Do: rmmsim.Action{Status: 403}})
						b.want(b.run(), checkpoint.RunPartial)
						b.account.ClearFaults()
						b.again(1)
					}
					tt.edit(b)
					from := len(b.account.Log())
					for try := range 2 {
						b.want(b.run(), checkpoint.RunPartial)
						if sent := b.sinceWrites(from); len(sent) != 0 {
							t.Fatalf("try %d sent %q", try+1, sent)
						}
						failures, err := b.store.Failures(t.Context(), runID, 2)
						b.check(err)
						if len(failures) != 1 || failures[0].Class != jobs.ClassStale || !strings.Contains(failures[0].Reason, "not what the row names any more") {
							t.Fatalf("try %d: %+v", try+1, failures)
						}
						b.again(1)
					}
				})
			})
		}
	}
}

// again has n writes tried again that have failed, of whatever class.
func (b *bench) again(n int) {
	b.t.Helper()
	got, err := b.store.Retry(b.t.Context(), runID, checkpoint.Again{Failed: true})
	if b.check(err); got != n {
		b.t.Fatalf("%d are tried again, not %d", got, n)
	}
}

// accountVariable is the path of a variable of the account.
func (b *bench) accountVariable(name string) map[string]string {
	b.t.Helper()
	for _, v := range b.read("variables", nil).Get("variables").Array() {
		if v.Get("name").String() == name {
			return map[string]string{"variableId": fmt.Sprint(v.Get("id").Int())}
		}
	}
	b.t.Fatalf("no variable %s", name)
	return nil
}

// The undo of a run whose variables were renamed since takes none of them for what the run
// has left, nor for gone: they are kept and told of. One that is gone is gone.
func TestUndoOfRenamedVariables(t *testing.T) {
	account := func(b *bench, name string) (string, map[string]string) { return "account", b.accountVariable(name) }
	site := func(b *bench, name string) (string, map[string]string) { return "site", b.variable(name) }
	rename := func(b *bench, of func(*bench, string) (string, map[string]string), name, value string) {
		kind, at := of(b, name)
		b.do(kind+"-variable-update", at, fmt.Sprintf(`{"name":"Renamed","value":%q}`, value))
	}
	const kept, gone = jobs.ClassKept, jobs.ClassUnchanged
	for _, of := range []struct {
		kind, match, column string
		find                func(*bench, string) (string, map[string]string)
	}{
		{"account", "{name: '{n}'}", "x", account},
		{"site", "{siteUid: '{x}', name: '{n}'}", "<siteuid0>", site},
	} {
		tests := []struct {
			name, row string
			edit      func(b *bench)
			class     jobs.RowClass
		}{
			{"changed, renamed", "Old", func(b *bench) { rename(b, of.find, "Old", "new") }, kept},
			{"changed, renamed and set back", "Old", func(b *bench) { rename(b, of.find, "Old", "old") }, gone},
			{"made, renamed", "Fresh", func(b *bench) { rename(b, of.find, "Fresh", "new") }, kept},
			{"made, renamed and edited", "Fresh", func(b *bench) { rename(b, of.find, "Fresh", "theirs") }, gone},
			{"made, deleted", "Fresh", func(b *bench) {
				kind, at := of.find(b, "Fresh")
				b.do(kind+"-variable-delete", at, "")
			}, gone},
			{"made, deleted, another renamed", "Fresh", func(b *bench) {
				kind, at := of.find(b, "Fresh")
				b.do(kind+"-variable-delete", at, "")
				rename(b, of.find, "Old", "new")
			}, gone},
		}
		for _, tt := range tests {
			t.Run(of.kind+", "+tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.play(scenario{op: of.kind + "-variable-set", update: "  match: " + of.match + "\n  set: {value: new}", csv: "n,x\n" + tt.row + "," + of.column + "\n"})
					b.want(b.run(), checkpoint.RunOK)
					tt.edit(b)
					from := len(b.account.Log())
					state := checkpoint.RunPartial
					if tt.class == gone {
						state = checkpoint.RunOK
					}
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{tt.class: 1}), state)
					if sent := b.sinceWrites(from); len(sent) != 0 {
						t.Errorf("sent %q", sent)
					}
				})
			})
		}
	}
}

// What the run has made and somebody has edited after the undo was planned is not deleted,
// whatever the flags: a new undo keeps it.
func TestUndoNeverDeletesWhatWasEdited(t *testing.T) {
	tests := map[string]struct {
		scenario
		edit func(b *bench)
	}{
		"variable": {scenario{op: "account-variable-set", update: "  match: {name: '{n}'}\n  set: {value: new}", csv: "n\nFresh\n"}, func(b *bench) {
			b.do("account-variable-update", b.accountVariable("Fresh"), `{"name":"Fresh","value":"theirs"}`)
		}},
		"variable that was renamed": {scenario{op: "account-variable-set", update: "  match: {name: '{n}'}\n  set: {value: new}", csv: "n\nFresh\n"}, func(b *bench) {
			b.do("account-variable-update", b.accountVariable("Fresh"), `{"name":"Renamed","value":"new"}`)
		}},
		"proxy": {scenario{op: "site-proxy-create", update: "  match: {uid: '{n}'}\n  set: {host: h, port: '80', type: http}", csv: "n\n<siteuid0>\n"}, func(b *bench) {
			b.do("site-proxy-create", map[string]string{"siteUid": b.word("<siteuid0>")}, `{"host":"theirs","port":80,"type":"http"}`)
		}},
	}
	for name, tt := range tests {
		for _, accept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, accept %v", name, accept), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.play(tt.scenario)
					b.want(b.run(), checkpoint.RunOK)
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{jobs.ClassChange: 1}, jobs.Settings{PlanOnly: true}), checkpoint.RunPlanned)
					tt.edit(b)
					from := len(b.account.Log())
					sum := b.run(func(cfg *Config) {
						cfg.RunID, cfg.Work = "u1", jobs.NewUndoWork(AnswersOf(b.store, runID), jobs.Settings{AcceptDrift: accept}, b.job)
					})
					b.want(sum, checkpoint.RunPartial)
					if sent := b.sinceWrites(from); len(sent) != 0 {
						t.Errorf("sent %q", sent)
					}
					failures, err := b.store.Failures(t.Context(), "u1", 2)
					if b.check(err); len(failures) != 1 || failures[0].Class != jobs.ClassStale {
						t.Errorf("%+v", failures)
					}
					b.want(b.undo(runID, "u2", map[jobs.RowClass]int{jobs.ClassKept: 1}), checkpoint.RunPartial)
					if sent := b.sinceWrites(from); len(sent) != 0 {
						t.Errorf("sent %q", sent)
					}
				})
			})
		}
	}
}
