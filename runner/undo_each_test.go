package runner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// undone is a run of one write and what takes it back.
type undone struct {
	name  string // what is special about it; "" for the plain case of an operation
	setup func(b *bench)
	scenario
	job        string        // of a call, instead of an update
	back       jobs.RowClass // of its row in the undo
	again      jobs.RowClass // of its row in the undo of the undo; change where it is not given
	unreversed bool          // nothing is sent, and the account stays as the run has left it
}

// undoCases are all operations, each in every way that an undo treats differently.
func undoCases() []undone {
	const (
		change, emptied, final = jobs.ClassChange, jobs.ClassClear, jobs.ClassIrreversible
		ofAccount              = "  match: {name: '{name}'}\n  set: {value: '{value}'}"
		ofSite                 = "  match: {siteName: '{site}', name: '{name}'}\n  set: {value: '{value}'}"
		proxy                  = "  match: {uid: '{site}'}\n  set: {host: new, port: '{port}', type: socks5}"
	)
	var all []undone
	for _, s := range scenarios() {
		c := undone{setup: func(b *bench) { b.ready(s) }, scenario: s.first(), back: change}
		switch s.op {
		case "device-udf-set":
			c.back = emptied // it was empty
		case "site-create", "device-job-create", "alert-resolve", "alert-mute":
			c.back, c.unreversed = final, true
		}
		all = append(all, c)
	}
	of := func(name, op, update, csv string, back jobs.RowClass, setup func(b *bench)) undone {
		return undone{
			name: name, scenario: scenario{op: op, update: update, csv: csv}, back: back, setup: setup,
			unreversed: back == final || back == jobs.ClassKept,
		}
	}
	with := func(c undone, again jobs.RowClass) undone {
		c.again = again
		return c
	}
	udf := func(b *bench) { b.check(b.account.SetUDF(b.uids(1)[0], "udf7", "old ; \"quoted\"")) }
	oldProxy := func(body string) func(b *bench) {
		return func(b *bench) { b.do("site-proxy-create", map[string]string{"siteUid": b.word("<siteuid0>")}, body) }
	}
	const udfs = "  match: {uid: '{uid}'}\n  set: {udf7: '{a}', udf8: '{b}'}"
	return append(all,
		of("over a value", "device-udf-set", udfs, "uid,a,b\n<device0>,new,\n", change, udf),
		with(of("clear", "device-udf-set", udfs, "uid,a,b\n<device0>,(clear),\n", change, udf), emptied),
		with(of("clear and fill", "device-udf-set", udfs, "uid,a,b\n<device0>,(clear),new\n", emptied, udf), emptied),
		with(of("clear", "device-warranty-create", "  match: {uid: '{uid}'}\n  set: {warrantyDate: '{day}'}", "uid,day\n<device0>,(clear)\n", change, func(b *bench) {
			b.do("device-warranty-create", map[string]string{"deviceUid": b.uids(1)[0]}, `{"warrantyDate":"2030-02-28"}`)
		}), emptied),
		of("where none was", "device-warranty-create", "  match: {uid: '{uid}'}\n  set: {warrantyDate: '{day}'}", "uid,day\n<device0>,2031-05-06\n", emptied, func(b *bench) {
			b.do("device-warranty-create", map[string]string{"deviceUid": b.uids(1)[0]}, `{"warrantyDate":null}`)
		}),
		of("by uid of the site", "device-move", "  match: {uid: '{uid}'}\n  set: {siteUid: '{to}'}", "uid,to\n<device0>,<siteuid1>\n", change, func(b *bench) {
			b.do("device-move", map[string]string{"deviceUid": b.uids(1)[0], "siteUid": b.word("<siteuid0>")}, "")
		}),
		of("name and switches", "site-update", "  match: {uid: '{site}'}\n  set: {name: Renamed, onDemand: 'true', splashtopAutoInstall: 'false'}", "site\n<siteuid0>\n", change, nil),
		with(of("clear", "site-update", "  match: {uid: '{site}'}\n  set: {notes: '(clear)'}", "site\n<siteuid0>\n", change, nil), emptied),
		of("masked", "account-variable-create", "  set: {name: Secret, value: '{value}', masked: 'true'}", "value\nhidden\n", jobs.ClassKept, nil),
		of("masked", "account-variable-update", ofAccount, "name,value\nLicenceKey,new\n", final, nil),
		of("masked", "account-variable-delete", "  match: {name: '{name}'}", "name\nLicenceKey\n", final, nil),
		with(of("clear", "account-variable-update", ofAccount, "name,value\nOld,(clear)\n", change, nil), emptied),
		of("made", "account-variable-set", ofAccount, "name,value\nFresh,new\n", change, nil),
		of("there", "account-variable-set", ofAccount, "name,value\nOld,new\n", change, nil),
		of("masked", "account-variable-set", ofAccount, "name,value\nLicenceKey,new\n", final, nil),
		of("made", "site-variable-set", ofSite, "site,name,value\n<site0>,Fresh,new\n", change, nil),
		of("there", "site-variable-set", ofSite, "site,name,value\n<site0>,Old,new\n", change, nil),
		of("made masked", "site-variable-set", strings.Replace(ofSite, "'{value}'", "'{value}', masked: 'true'", 1), "site,name,value\n<site0>,Fresh,new\n", jobs.ClassKept, nil),
		of("masked", "site-variable-delete", "  match: {siteName: '{site}', name: Secret}", "site\n<site0>\n", final, func(b *bench) {
			b.do("site-variable-create", map[string]string{"siteUid": b.word("<siteuid0>")}, `{"name":"Secret","value":"hidden","masked":true}`)
		}),
		of("over another", "site-proxy-create", proxy, "site,port\n<siteuid0>,8080\n", change, oldProxy(`{"host":"old","port":80,"type":"http"}`)),
		with(of("with a user name", "site-proxy-create", strings.Replace(proxy, "socks5", "socks5, username: u", 1), "site,port\n<siteuid0>,8080\n", emptied, oldProxy(`{"host":"old","port":80,"type":"http"}`)), final),
		of("over one with a user name", "site-proxy-create", strings.Replace(proxy, "socks5", "socks5, password: p", 1), "site,port\n<siteuid0>,8080\n", final, oldProxy(`{"host":"old","port":80,"type":"http","username":"u","password":"p"}`)),
		of("with a user name", "site-proxy-delete", "  match: {uid: '{site}'}", "site\n<siteuid0>\n", final, oldProxy(`{"host":"old","port":80,"type":"http","username":"u","password":"p"}`)),
		of("", "alert-unmute", "  match: {alertUid: '{alert}'}", "alert\n<alert0>\n", final, nil),
		undone{
			scenario: scenario{op: "call"}, back: final, unreversed: true,
			job: "call:\n  method: POST\n  path: /v2/device/<device0>/udf\n  class: idempotent\n  body: {udf7: by a call}\n",
		},
	)
}

// Every operation is taken back, and the undo is taken back: the whole account is as it
// was before, and then as the run had left it. What cannot be taken back stays as it is.
func TestUndoOfEachOperation(t *testing.T) {
	for _, c := range undoCases() {
		t.Run(strings.TrimSuffix(c.op+", "+c.name, ", "), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				if c.setup != nil {
					c.setup(b)
				}
				if c.job != "" {
					b.parse(b.word("version: 1\n" + c.job))
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
				} else {
					b.play(c.scenario)
				}
				before := b.account.Snapshot()
				b.want(b.run(), checkpoint.RunOK)
				after, sent := b.account.Snapshot(), len(b.account.Log())
				if mutes := strings.HasSuffix(c.op, "mute"); (after == before) != mutes {
					t.Fatal("the run has changed nothing")
				}
				if c.unreversed {
					b.want(b.undo(runID, "u1", map[jobs.RowClass]int{c.back: 1}), checkpoint.RunPartial)
					if n := len(b.sinceWrites(sent)); n != 0 {
						t.Errorf("%d writes were sent", n)
					}
					b.like(after, "after the undo")
					return
				}
				b.want(b.undo(runID, "u1", map[jobs.RowClass]int{c.back: 1}), checkpoint.RunOK)
				b.like(before, "after the undo")
				again := c.again
				if again == "" {
					again = jobs.ClassChange
				}
				if again == jobs.ClassIrreversible {
					b.want(b.undo("u1", "u2", map[jobs.RowClass]int{again: 1}), checkpoint.RunPartial)
					b.like(before, "after an undo of the undo that is not possible")
					return
				}
				b.want(b.undo("u1", "u2", map[jobs.RowClass]int{again: 1}), checkpoint.RunOK)
				b.like(after, "after the undo of the undo")
				// A second time there is nothing left to take back.
				b.want(b.undo("u1", "u3", map[jobs.RowClass]int{jobs.ClassUnchanged: 1}), checkpoint.RunOK)
				b.like(after, "after a second undo of the undo")
			})
		})
	}
}

// like fails the test unless the whole account is as it was.
func (b *bench) like(want, when string) {
	b.t.Helper()
	got, wanted := strings.Split(b.account.Snapshot(), "\n"), strings.Split(want, "\n")
	for _, line := range got {
		if !slices.Contains(wanted, line) {
			b.t.Errorf("%s there is\n%s", when, line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(got, line) {
			b.t.Errorf("%s there is no\n%s", when, line)
		}
	}
}

// No write of the API is left out.
func TestUndoCasesAreAll(t *testing.T) {
	missing := map[string]bool{}
	for _, op := range rmm.Operations() {
		if op.IsWrite() {
			missing[op.Name] = true
		}
	}
	for _, c := range undoCases() {
		delete(missing, c.op)
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(missing))); got != "[user-reset-keys]" { // which jobs may not send
		t.Errorf("no undo of %s is tested", got)
	}
}
