package runner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// do is one write beside the run: somebody is at work in the account.
func (b *bench) do(op string, path map[string]string, body string) {
	b.t.Helper()
	_, err := b.client.Do(b.t.Context(), rmm.Request{Op: op, Path: path, Body: json.RawMessage(body)})
	b.check(err)
}

// rename gives a site another name and keeps all else of it.
func (b *bench) rename(uid, name string) {
	b.t.Helper()
	for _, s := range b.read("sites", nil).Get("sites").Array() {
		if s.Get("uid").String() == uid {
			b.do("site-update", map[string]string{"siteUid": uid}, fmt.Sprintf(`{"name":%q,"description":%q,"notes":%q,"splashtopAutoInstall":%v}`,
				name, s.Get("description"), s.Get("notes"), s.Get("splashtopAutoInstall").Bool()))
		}
	}
}

// variable is the path of a variable of the first site.
func (b *bench) variable(name string) map[string]string {
	b.t.Helper()
	path := map[string]string{"siteUid": b.word("<siteuid0>")}
	for _, v := range b.read("site-variables", path).Get("variables").Array() {
		if v.Get("name").String() == name {
			path["variableId"] = fmt.Sprint(v.Get("id").Int())
			return path
		}
	}
	b.t.Fatalf("no variable %s", name)
	return nil
}

// mac is an address of a device that no other has.
func (b *bench) mac(uid string) string {
	b.t.Helper()
	raw, _ := b.account.Device(uid)
	for _, d := range b.read("site-network-interfaces", map[string]string{"siteUid": parsed(raw).Get("siteUid").String()}).Get("devices").Array() {
		if d.Get("uid").String() == uid {
			return d.Get("nics").Array()[0].Get("macAddress").String()
		}
	}
	return ""
}

// Between the plan and the writes the things that rows name become others, each in its
// own way. Nothing is sent to what a row does not lead to any more, and nothing to what
// the guard protects by now, whatever the flags.
func TestDriftOfWhatRowsName(t *testing.T) {
	const (
		update = "  match: {siteName: '{site}', name: Old}\n  set: {value: new}"
		byUID  = "  match: {siteUid: '{uid}', name: Old}\n  set: {value: new}"
		guard  = "guard: {protected: {site: 'VIP*'}}"
		named  = "site,uid\n<site0>,<siteuid0>\n"
	)
	away := func(b *bench) { b.rename(b.word("<siteuid0>"), "Elsewhere") }
	swap := func(b *bench) {
		first, second, name := b.word("<siteuid0>"), b.word("<siteuid1>"), b.word("<site0>")
		b.rename(first, "Elsewhere")
		b.rename(second, name)
	}
	vip := func(b *bench) { b.rename(b.word("<siteuid0>"), "VIP Lounge") }
	interfaces := func(b *bench, n int, devices string) {
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "site-network-interfaces"}, Do: rmmsim.Action{
			Body: fmt.Sprintf(`{"pageDetails":{"count":%d,"totalCount":%[1]d,"prevPageUrl":null,"nextPageUrl":null},"devices":[%s]}`, n, devices),
		}})
	}
	tests := []struct {
		name, op, update, csv, guard string
		edit                         func(b *bench)
		class, reason                string // "" where it is written
	}{
		{name: "value, site renamed", op: "site-variable-update", update: update, csv: named, edit: away, class: jobs.ClassStale, reason: "siteName was edited"},
		{name: "value, name given to another site", op: "site-variable-update", update: update, csv: named, edit: swap, class: jobs.ClassStale, reason: "siteName was edited"},
		{name: "value by uid, site renamed", op: "site-variable-update", update: byUID, csv: named, edit: away},
		{name: "value by uid, site protected", op: "site-variable-update", update: byUID, csv: named, guard: guard, edit: vip, class: "protected", reason: "protected by site VIP*"},
		{
			name: "variable that is not there", op: "site-variable-create", update: "  match: {siteName: '{site}'}\n  set: {name: Fresh, value: new}", csv: named,
			edit: swap, class: jobs.ClassStale, reason: "siteName was edited",
		},
		{
			name: "variable that is not there, protected", op: "site-variable-set", update: "  match: {siteUid: '{uid}', name: Fresh}\n  set: {value: new}", csv: named,
			guard: guard, edit: vip, class: "protected", reason: "protected by site VIP*",
		},
		{name: "deletion", op: "site-variable-delete", update: "  match: {siteName: '{site}', name: Old}", csv: named, edit: away, class: jobs.ClassStale, reason: "siteName was edited"},
		{
			name: "variable that was deleted", op: "site-variable-set", update: update, csv: named,
			edit: func(b *bench) { b.do("site-variable-delete", b.variable("Old"), "") }, class: jobs.ClassStale, reason: "the variable is not listed any more",
		},
		{
			name: "variable that was made anew", op: "site-variable-set", update: update, csv: named,
			edit: func(b *bench) {
				old := b.variable("Old")
				b.do("site-variable-delete", old, "")
				b.do("site-variable-create", map[string]string{"siteUid": old["siteUid"]}, `{"name":"Old","value":"theirs"}`)
			}, class: jobs.ClassStale, reason: "the variable is not listed any more",
		},
		{
			name: "variable that has another name", op: "site-variable-update", update: byUID, csv: named,
			edit: func(b *bench) { b.do("site-variable-update", b.variable("Old"), `{"name":"Renamed","value":"old"}`) }, class: jobs.ClassStale, reason: "name was edited since the plan was made",
		},
		{
			name: "variable that appeared", op: "site-variable-set", update: "  match: {siteUid: '{uid}', name: Fresh}\n  set: {value: new}", csv: named,
			edit: func(b *bench) {
				b.do("site-variable-create", map[string]string{"siteUid": b.word("<siteuid0>")}, `{"name":"Fresh","value":"theirs"}`)
			}, class: jobs.ClassStale, reason: "a variable of this name is there by now, with another value",
		},
		{
			name: "proxy", op: "site-proxy-create", update: "  match: {name: '{site}'}\n  set: {host: h, port: '80', type: http}", csv: named,
			edit: swap, class: jobs.ClassStale, reason: "name was edited",
		},
		{
			name: "proxy, protected", op: "site-proxy-create", update: "  match: {uid: '{uid}'}\n  set: {host: h, port: '80', type: http}", csv: named, guard: guard,
			edit: vip, class: "protected", reason: "protected by site VIP*",
		},
		{
			name: "move, name of the site given to another", op: "device-move", update: "  match: {uid: '{uid}'}\n  set: {siteName: '{to}'}", csv: "uid,to\n<device0>,Annex\n",
			edit: func(b *bench) { b.rename(b.account.SiteUID("Annex"), "Elsewhere") }, class: jobs.ClassStale,
			reason: "siteName was edited since the plan was made: the site to move to is not what the row names any more",
		},
		{
			name: "move to what is protected by now", op: "device-move", update: "  match: {uid: '{uid}'}\n  set: {siteName: '{to}'}", csv: "uid,to\n<device0>,Annex\n", guard: guard,
			edit: func(b *bench) { b.rename(b.account.SiteUID("Annex"), "VIP Lounge") }, class: "protected", reason: "the site to move to is protected by site VIP*",
		},
		{
			name: "name that another site has by now", op: "site-update", update: "  match: {uid: '{uid}'}\n  set: {name: Lounge}", csv: named,
			edit: func(b *bench) { b.rename(b.word("<siteuid1>"), "lounge") }, class: jobs.ClassStale, reason: `another site has the name "lounge"`,
		},
		{
			name: "host name that another device has, too", op: "device-udf-set", update: "  match: {hostname: '{host}'}\n  set: {udf7: new}", csv: "host\n<host0>\n",
			edit: func(b *bench) {
				b.check(b.account.AddDevice(fmt.Sprintf(`{"uid":"twin","id":1,"hostname":%q,"siteName":%q,"deviceClass":"device","udf":{}}`, strings.ToLower(b.word("<host0>")), "Annex")))
			},
			class: jobs.ClassStale, reason: "by now: ",
		},
		{
			name: "address that is as it was", op: "device-udf-set", update: "  match: {mac: '{mac}'}\n  set: {udf7: new}", csv: "mac\n<mac0>\n", edit: func(*bench) {},
		},
		{
			name: "address that is gone", op: "device-udf-set", update: "  match: {mac: '{mac}', siteName: '{site}'}\n  set: {udf7: new}", csv: "mac,site\n<mac0>,<at0>\n",
			edit:  func(b *bench) { interfaces(b, 0, "") },
			class: jobs.ClassStale, reason: "mac was edited since the plan was made: the device is not what the row names any more",
		},
		{
			name: "address that another device has, too", op: "device-udf-set", update: "  match: {mac: '{mac}'}\n  set: {udf7: new}", csv: "mac\n<mac0>\n",
			edit: func(b *bench) {
				interfaces(b, 2, fmt.Sprintf(`{"uid":%q,"nics":[{"macAddress":%q}]},{"uid":%q,"nics":[{"macAddress":%[2]q}]}`, b.uids(0)[0], b.word("<mac0>"), b.uids(0)[1]))
			},
			class: jobs.ClassStale, reason: "by now: ",
		},
		{
			name: "serial number that is as it was", op: "device-udf-set", update: "  lookup: audits\n  match: {serial: '{serial}'}\n  set: {udf7: new}", csv: "serial\n<serial0>\n", edit: func(*bench) {},
		},
		{
			name: "serial number that is another", op: "device-udf-set", update: "  lookup: audits\n  match: {serial: '{serial}'}\n  set: {udf7: new}", csv: "serial\n<serial0>\n",
			edit: func(b *bench) {
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-audit"}, Do: rmmsim.Action{Body: `{"bios":{"serialNumber":"OTHER"}}`}})
			},
			class: jobs.ClassStale, reason: "serial was edited since the plan was made: the device is not what the row names any more",
		},
	}
	for _, tt := range tests {
		for _, accept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, accept %v", tt.name, accept), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					raw, _ := b.account.Device(b.uids(0)[0])
					b.more = []string{
						"<host0>", parsed(raw).Get("hostname").String(), "<mac0>", b.mac(b.uids(0)[0]),
						"<serial0>", b.read("device-audit", map[string]string{"deviceUid": b.uids(0)[0]}).Get("bios.serialNumber").String(),
					}
					b.play(scenario{op: tt.op, update: tt.update, csv: tt.csv}, tt.guard)
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					sum := b.run()
					b.want(sum, checkpoint.RunPlanned)
					if sum.Plan[jobs.ClassChange] != 1 {
						t.Fatalf("planned %q", b.planned())
					}
					tt.edit(b)
					from := len(b.account.Log())
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: accept})
					sum = b.run()
					audits := 0
					for _, r := range b.account.Log()[from:] {
						if r.Operation == "device-audit" {
							audits++
						}
					}
					if audits > 1 {
						t.Errorf("%d audits were read again for one write", audits)
					}
					if tt.class == "" {
						b.want(sum, checkpoint.RunOK)
						if n := len(b.sinceWrites(from)); n != 1 {
							t.Errorf("%d writes", n)
						}
						return
					}
					b.want(sum, checkpoint.RunPartial)
					if sent := b.sinceWrites(from); len(sent) != 0 {
						t.Errorf("sent %q", sent)
					}
					failures, err := b.store.Failures(t.Context(), runID, 2)
					b.check(err)
					if len(failures) != 1 || failures[0].Class != tt.class || !strings.Contains(failures[0].Reason, tt.reason) {
						t.Errorf("%+v", failures)
					}
				})
			})
		}
	}
}

// What had nothing to be written when the plan was made is looked at again with what
// has, and alone: where it would need something now the row has failed, and nothing is
// sent for it, whatever the flags.
func TestDriftOfWhatWasUnchanged(t *testing.T) {
	value := "  match: {siteUid: '{uid}', name: '{name}'}\n  set: {value: '{value}'}"
	tests := []struct {
		name string
		scenario
		edit    func(b *bench)
		reason  string // "" where the row is as wanted still
		changes int    // rows of the plan that are written
	}{
		{
			name: "field", scenario: scenario{op: "device-udf-set", update: "  match: {hostname: '{h}'}\n  set: {udf7: '{v}'}", csv: "h,v\n<host0>,kept\n<host1>,new\n"},
			edit: func(b *bench) { b.check(b.account.SetUDF(b.uids(0)[0], "udf7", "SOMEONE")) }, reason: "udf7 was edited since the plan was made", changes: 1,
		},
		{
			name: "field, nothing to send", scenario: scenario{op: "device-udf-set", update: "  match: {hostname: '{h}'}\n  set: {udf7: '{v}'}", csv: "h,v\n<host0>,kept\n"},
			edit: func(b *bench) { b.check(b.account.SetUDF(b.uids(0)[0], "udf7", "SOMEONE")) }, reason: "udf7 was edited since the plan was made",
		},
		{
			name: "another field", scenario: scenario{op: "device-udf-set", update: "  match: {hostname: '{h}'}\n  set: {udf7: '{v}'}", csv: "h,v\n<host0>,kept\n<host1>,new\n"},
			edit: func(b *bench) { b.check(b.account.SetUDF(b.uids(0)[0], "udf8", "SOMEONE")) }, changes: 1,
		},
		{
			name: "device that is gone", scenario: scenario{op: "device-udf-set", update: "  match: {uid: '{h}'}\n  set: {udf7: '{v}'}", csv: "h,v\n<device0>,kept\n"},
			edit: func(b *bench) { b.account.RemoveDevice(b.uids(0)[0]) }, reason: "the device is not listed any more",
		},
		{
			name: "move", scenario: scenario{op: "device-move", update: "  match: {uid: '{h}'}\n  set: {siteUid: '{v}'}", csv: "h,v\n<device0>,<atuid0>\n"},
			edit: func(b *bench) {
				b.do("device-move", map[string]string{"deviceUid": b.uids(0)[0], "siteUid": b.account.SiteUID("Annex")}, "")
			}, reason: "siteName was edited",
		},
		{name: "move that stays", scenario: scenario{op: "device-move", update: "  match: {uid: '{h}'}\n  set: {siteUid: '{v}'}", csv: "h,v\n<device0>,<atuid0>\n"}, edit: func(*bench) {}},
		{
			name: "variable beside one that is written", scenario: scenario{op: "site-variable-set", update: value, csv: "uid,name,value\n<siteuid0>,Old,old\n<siteuid0>,Fresh,new\n"},
			edit: func(b *bench) {
				b.do("site-variable-update", b.variable("Old"), `{"name":"Old","value":"SOMEONE"}`)
			}, reason: "value was edited", changes: 1,
		},
		{
			name: "site that is there", scenario: scenario{op: "site-create", update: "  set: {name: '{n}', description: other}", csv: "n\nAnnex\n"},
			edit: func(*bench) {},
		},
	}
	for _, tt := range tests {
		for _, accept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, accept %v", tt.name, accept), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.check(b.account.SetUDF(b.uids(0)[0], "udf7", "kept"))
					for i, uid := range b.uids(0)[:2] {
						raw, _ := b.account.Device(uid)
						b.more = append(b.more, fmt.Sprintf("<host%d>", i), parsed(raw).Get("hostname").String(), fmt.Sprintf("<atuid%d>", i), parsed(raw).Get("siteUid").String())
					}
					b.play(tt.scenario)
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
					sum := b.run()
					b.want(sum, checkpoint.RunPlanned)
					if sum.Plan[jobs.ClassUnchanged] != 1 || sum.Plan[jobs.ClassChange] != tt.changes {
						t.Fatalf("planned %q", b.planned())
					}
					tt.edit(b)
					from := len(b.account.Log())
					b.work = jobs.NewUpdateWork(b.job, jobs.Settings{AcceptDrift: accept})
					sum = b.run()
					if n := len(b.sinceWrites(from)); n != tt.changes {
						t.Errorf("%d writes", n)
					}
					if tt.reason == "" {
						b.want(sum, checkpoint.RunOK)
						return
					}
					b.want(sum, checkpoint.RunPartial)
					failures, err := b.store.Failures(t.Context(), runID, 2)
					b.check(err)
					if len(failures) != 1 || failures[0].Class != jobs.ClassStale || !strings.Contains(failures[0].Reason, tt.reason) {
						t.Errorf("%+v", failures)
					}
					// It is never a request, so another try has nothing to send.
					if n, err := b.store.Retry(t.Context(), runID, checkpoint.Again{Failed: true}); n != 0 || err != nil {
						t.Errorf("%d are to be sent, %v", n, err)
					}
				})
			})
		}
	}
}

// With verify: read_back what had nothing to be written is looked at after the writes, too.
func TestReadBackOfWhatWasUnchanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		uids := b.uids(0)
		b.check(b.account.SetUDF(uids[0], "udf7", "kept"))
		b.play(scenario{op: "device-udf-set", update: "  verify: read_back\n  match: {uid: '{h}'}\n  set: {udf7: '{v}'}", csv: "h,v\n<device0>,kept\n<device1>,new\n"})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set"}, Do: rmmsim.Action{Apply: true, Status: 200, Func: func(a *rmmsim.Account, _ *http.Request) {
			b.check(a.SetUDF(uids[0], "udf7", "SOMEONE"))
		}}})
		sum := b.run()
		b.want(sum, checkpoint.RunPartial)
		if note := sum.Notes[len(sum.Notes)-1]; !strings.Contains(note, "1 write was read back: 1 is as sent") || !strings.Contains(note, "takes a new plan") {
			t.Errorf("%q", note)
		}
	})
}
