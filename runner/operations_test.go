package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// scenario is one update against a small account. Words in angle brackets stand
// for uids and names of the account; see words.
type scenario struct {
	op     string
	update string // match and set
	csv    string
	rows   []string // line, class and reason of each row
	bodies []string // of the writes that were sent, in order of their text
	// ok looks at the account afterwards.
	ok func(b *bench) bool
}

// doc is a piece of an answer.
type doc struct{ v any }

func parsed(body []byte) (d doc) {
	if err := json.Unmarshal(body, &d.v); err != nil {
		panic(err)
	}
	return d
}

// Get is a field; a dot leads into an object.
func (d doc) Get(path string) doc {
	for name := range strings.SplitSeq(path, ".") {
		fields, _ := d.v.(map[string]any)
		d = doc{fields[name]}
	}
	return d
}

func (d doc) String() string { s, _ := d.v.(string); return s }
func (d doc) Bool() bool     { b, _ := d.v.(bool); return b }
func (d doc) Int() int       { n, _ := d.v.(float64); return int(n) }

func (d doc) Array() (list []doc) {
	items, _ := d.v.([]any)
	for _, item := range items {
		list = append(list, doc{item})
	}
	return list
}

// words are what a scenario may name: devices, sites and things of the account.
func (b *bench) words() *strings.Replacer {
	b.t.Helper()
	sites := b.read("sites", nil).Get("sites").Array()
	uids := b.uids(0)
	pairs := []string{"<component>", b.account.ComponentUID(0)}
	for i, uid := range uids[:3] {
		raw, _ := b.account.Device(uid)
		pairs = append(pairs, fmt.Sprintf("<device%d>", i), uid, fmt.Sprintf("<at%d>", i), parsed(raw).Get("siteName").String())
	}
	n := 0
	for _, s := range sites {
		if s.Get("onDemand").Bool() || s.Get("devicesStatus.numberOfDevices").Int() == 0 {
			continue
		}
		pairs = append(pairs, fmt.Sprintf("<site%d>", n), s.Get("name").String(), fmt.Sprintf("<siteuid%d>", n), s.Get("uid").String())
		n++
	}
	for i, a := range b.read("alerts-open", nil).Get("alerts").Array() {
		pairs = append(pairs, fmt.Sprintf("<alert%d>", i), a.Get("alertUid").String())
	}
	for i, v := range b.read("variables", nil).Get("variables").Array() {
		pairs = append(pairs, fmt.Sprintf("<variable%d>", i), v.Get("name").String(), fmt.Sprintf("<value%d>", i), v.Get("value").String())
	}
	return strings.NewReplacer(append(pairs, b.more...)...)
}

// read is one read beside the run.
func (b *bench) read(op string, path map[string]string) doc {
	b.t.Helper()
	resp, err := b.client.Do(b.t.Context(), rmm.Request{Op: op, Path: path})
	b.check(err)
	return parsed(resp.Body)
}

// play gives the bench the update of a scenario.
func (b *bench) play(s scenario, rest ...string) {
	b.t.Helper()
	w := b.words()
	b.check(os.WriteFile(filepath.Join(b.folder, "rows.csv"), []byte(w.Replace(s.csv)), 0o600))
	b.parse(w.Replace(fmt.Sprintf("version: 1\nupdate:\n  operation: %s\n  rows: rows.csv\n%s\n%s", s.op, s.update, strings.Join(rest, "\n"))))
	b.work = jobs.NewUpdateWork(b.job, jobs.Settings{Mark: "r1"})
}

// planned are the rows of the plan.
func (b *bench) planned() (got []string) {
	b.t.Helper()
	for row, err := range b.store.Rows(b.t.Context(), runID) {
		b.check(err)
		var d jobs.RowDetail
		b.check(json.Unmarshal(row.Payload, &d))
		if row.Number == 0 {
			continue
		}
		line := fmt.Sprintf("%d %s", d.Line, row.Class)
		if d.Reason != "" {
			line += ": " + d.Reason
		}
		got = append(got, line)
	}
	return got
}

// sentBodies are the bodies of the writes of the run as they were stored.
func (b *bench) sentBodies() (got []string) {
	b.t.Helper()
	for res, err := range b.store.Results(b.t.Context(), runID, "apply/") {
		b.check(err)
		var req rmm.Request
		if len(res.Payload) > 0 {
			b.check(json.Unmarshal(res.Payload, &req))
			got = append(got, string(req.Body))
		}
	}
	slices.Sort(got)
	return got
}

// siteOf is a site by its name.
func (b *bench) siteOf(name string) doc {
	for _, s := range b.read("sites", nil).Get("sites").Array() {
		if s.Get("name").String() == name {
			return s
		}
	}
	return doc{}
}

// variableOf is the value of a variable; "" for none. Without a site it is one of the account.
func (b *bench) variableOf(site, name string) string {
	var list doc
	if site == "" {
		list = b.read("variables", nil)
	} else {
		list = b.read("site-variables", map[string]string{"siteUid": b.siteOf(site).Get("uid").String()})
	}
	for _, v := range list.Get("variables").Array() {
		if v.Get("name").String() == name {
			return v.Get("value").String()
		}
	}
	return ""
}

func (b *bench) word(s string) string { return b.words().Replace(s) }

func scenarios() []scenario {
	settings := func(b *bench) doc {
		return b.read("site-settings", map[string]string{"siteUid": b.word("<siteuid0>")}).Get("proxySettings")
	}
	return []scenario{
		{
			op: "device-udf-set", update: "  match: {uid: '{uid}'}\n  set: {udf7: '{tag}', udf8: '{gone}'}",
			csv:    "uid,tag,gone\n<device0>,new tag,\nmissing,x,\n",
			rows:   []string{"2 change", `3 not_found: no device has uid "missing"`},
			bodies: []string{`{"udf7":"new tag"}`},
			ok:     func(b *bench) bool { return b.account.UDF(b.uids(1)[0], "udf7") == "new tag" },
		},
		{
			op: "device-warranty-create", update: "  match: {uid: '{uid}'}\n  set: {warrantyDate: '{day}'}",
			csv:    "uid,day\n<device0>,2031-05-06\n<device1>,soon\n",
			rows:   []string{"2 change", `3 invalid: warrantyDate: "soon" is not a day as yyyy-mm-dd; another order needs rows.date_format`},
			bodies: []string{`{"warrantyDate":"2031-05-06"}`},
			ok: func(b *bench) bool {
				raw, _ := b.account.Device(b.uids(1)[0])
				return parsed(raw).Get("warrantyDate").String() == "2031-05-06"
			},
		},
		{
			op: "device-move", update: "  match: {uid: '{uid}'}\n  set: {siteName: '{to}'}",
			csv:    "uid,to\n<device0>,Annex\n<device1>,<at1>\n<device2>,Nowhere\nmissing,Annex\n",
			rows:   []string{"2 change", "3 unchanged", `4 invalid: no site has name "Nowhere"`, `5 not_found: no device has uid "missing"`},
			bodies: []string{""},
			ok: func(b *bench) bool {
				raw, _ := b.account.Device(b.uids(1)[0])
				return parsed(raw).Get("siteName").String() == "Annex"
			},
		},
		{
			op: "site-update", update: "  match: {name: '{name}'}\n  set: {description: '{text}', onDemand: '{od}'}",
			csv:    "name,text,od\n<site0>,new text,\nNowhere,x,\n<site1>,x,perhaps\n",
			rows:   []string{"2 change", `3 not_found: no site has name "Nowhere"`, `4 invalid: onDemand: "perhaps" is neither true nor false`},
			bodies: []string{`{"name":"<site0>","description":"new text","notes":"keep me","onDemand":false,"splashtopAutoInstall":true}`},
			ok: func(b *bench) bool {
				s := b.siteOf(b.word("<site0>"))
				return s.Get("description").String() == "new text" && s.Get("notes").String() == "keep me" && s.Get("splashtopAutoInstall").Bool()
			},
		},
		{
			op: "site-create", update: "  set: {name: '{name}', notes: '{text}', onDemand: '{od}'}",
			csv:    "name,text,od\nFresh,hello,TRUE\n<site0>,x,\nTwice,a,\nTwice,b,\n,x,\n",
			rows:   []string{"2 change", "3 unchanged", `4 conflict: lines 4 and 5 disagree on notes for site "Twice"`, `5 conflict: lines 4 and 5 disagree on notes for site "Twice"`, "6 invalid: name comes from {name}, which is blank"},
			bodies: []string{`{"name":"Fresh","notes":"hello","onDemand":true}`},
			ok: func(b *bench) bool {
				s := b.siteOf("Fresh")
				return s.Get("notes").String() == "hello" && s.Get("onDemand").Bool()
			},
		},
		{
			op: "account-variable-create", update: "  set: {name: '{name}', value: '{value}'}",
			csv:    "name,value\nFresh,1\n<variable0>,<value0>\n<variable0>x,2\n",
			rows:   []string{"2 change", "3 unchanged", "4 change"},
			bodies: []string{`{"name":"<variable0>x","value":"2"}`, `{"name":"Fresh","value":"1"}`},
			ok:     func(b *bench) bool { return b.variableOf("", "Fresh") == "1" },
		},
		{
			op: "account-variable-update", update: "  match: {name: '{name}'}\n  set: {value: '{value}'}",
			csv:    "name,value\n<variable0>,new\nNone,x\n",
			rows:   []string{"2 change", `3 not_found: no variable has name "None"`},
			bodies: []string{`{"name":"<variable0>","value":"new"}`},
			ok:     func(b *bench) bool { return b.variableOf("", b.word("<variable0>")) == "new" },
		},
		{
			op: "account-variable-delete", update: "  match: {name: '{name}'}",
			csv:  "name\nOld\nNone\n",
			rows: []string{"2 change", `3 not_found: no variable has name "None"`}, bodies: []string{""},
			ok: func(b *bench) bool { return b.variableOf("", "Old") == "" },
		},
		{
			op: "site-variable-create", update: "  match: {siteName: '{site}'}\n  set: {name: '{name}', value: '{value}'}",
			csv: "site,name,value\n<site0>,Fresh,1\n<site0>,Old,old\n<site0>,Old,other\nNowhere,Fresh,1\nAnnex,Fresh,1\n",
			rows: []string{
				"2 change", "3 unchanged", "4 conflict: the variable is there with another value; the update operation changes it", `5 not_found: no site has name "Nowhere"`,
				"6 invalid: the service does not list the variables of the site (it refuses to for on-demand sites)",
			},
			bodies: []string{`{"name":"Fresh","value":"1"}`},
			ok:     func(b *bench) bool { return b.variableOf(b.word("<site0>"), "Fresh") == "1" },
		},
		{
			op: "site-variable-update", update: "  match: {name: '{name}', siteUid: '{site}'}\n  set: {value: '{value}'}",
			csv:    "site,name,value\n<siteuid0>,Old,new\n<siteuid0>,Old ,new\n<siteuid0>,OLD,x\n",
			rows:   []string{"2 change", "3 change", `4 not_found: no variable has site "<site0>" and name "OLD"`},
			bodies: []string{`{"name":"Old","value":"new"}`},
			ok:     func(b *bench) bool { return b.variableOf(b.word("<site0>"), "Old") == "new" },
		},
		{
			op: "site-variable-delete", update: "  match: {siteName: '{site}', name: Old}",
			csv: "site\n<site0>\n", rows: []string{"2 change"}, bodies: []string{""},
			ok: func(b *bench) bool { return b.variableOf(b.word("<site0>"), "Old") == "" },
		},
		{
			op: "site-proxy-create", update: "  match: {uid: '{site}'}\n  set: {host: '{host}', port: '{port}', type: http}",
			csv:    "site,host,port\n<siteuid0>,proxy.example,8080\n<siteuid1>,x,99999\n",
			rows:   []string{"2 change", `3 invalid: port: "99999" is not a port from 1 to 65535`},
			bodies: []string{`{"host":"proxy.example","port":8080,"type":"http"}`},
			ok: func(b *bench) bool {
				p := settings(b)
				return p.Get("host").String() == "proxy.example" && p.Get("port").Int() == 8080
			},
		},
		{
			op: "site-proxy-delete", update: "  match: {uid: '{site}'}",
			csv:  "site\n<siteuid0>\n<siteuid1>\n",
			rows: []string{"2 change", "3 unchanged: the site has no proxy"}, bodies: []string{""},
			ok: func(b *bench) bool { return settings(b).v == nil },
		},
		{
			op: "device-job-create", update: "  match: {uid: '{uid}'}\n  set: {jobName: Restart, componentUid: <component>, variables: {Service: '{service}', Mode: \"a\\\"b\"}}",
			csv: "uid,service\n<device0>,spooler\n", rows: []string{"2 change"},
			bodies: []string{`{"jobName":"Restart [rmm:r1]","jobComponent":{"componentUid":"<component>","variables":[{"name":"Service","value":"spooler"},{"name":"Mode","value":"a\"b"}]}}`},
			ok:     func(b *bench) bool { return b.account.Jobs() == 1 },
		},
		{
			op: "alert-resolve", update: "  match: {alertUid: '{alert}'}",
			csv:  "alert\n<alert0>\n5f0c2f6e-0d4b-4c39-9a55-3d8f3c1d7a10\n",
			rows: []string{"2 change", `3 not_found: no alert has alertUid "5f0c2f6e-0d4b-4c39-9a55-3d8f3c1d7a10"`}, bodies: []string{""},
			ok: func(b *bench) bool {
				return b.read("alert", map[string]string{"alertUid": b.word("<alertx>")}).Get("resolved").Bool()
			},
		},
		{
			op: "alert-mute", update: "  match: {alertUid: '{alert}'}", csv: "alert\n<alert0>\n", rows: []string{"2 change"}, bodies: []string{""},
			ok: func(*bench) bool { return true },
		},
	}
}

// stage is an account in which every scenario has something to do.
func stage(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, rmmsim.Config{Devices: 60, Seed: 3, Latency: 20 * time.Millisecond})
	do := func(op string, path map[string]string, body string) {
		t.Helper()
		_, err := b.client.Do(t.Context(), rmm.Request{Op: op, Path: path, Body: json.RawMessage(body)})
		b.check(err)
	}
	do("site-create", nil, `{"name":"Annex","onDemand":true}`)
	do("account-variable-create", nil, `{"name":"Old","value":"old"}`)
	site := map[string]string{"siteUid": b.word("<siteuid0>")}
	do("site-update", site, fmt.Sprintf(`{"name":%q,"description":"old","notes":"keep me","splashtopAutoInstall":true}`, b.word("<site0>")))
	do("site-variable-create", site, `{"name":"Old","value":"old"}`)
	return b
}

// ready lays the account out for one scenario and returns what it knows by then.
func (b *bench) ready(s scenario) (words *strings.Replacer) {
	b.t.Helper()
	if s.op == "site-proxy-delete" {
		_, err := b.client.Do(b.t.Context(), rmm.Request{
			Op: "site-proxy-create", Path: map[string]string{"siteUid": b.word("<siteuid0>")}, Body: json.RawMessage(`{"host":"old","port":80,"type":"http"}`),
		})
		b.check(err)
	}
	return b.words()
}

// Each operation: what the plan makes of its rows, what is sent, what the account
// has afterwards, and that a second run finds nothing left to do.
func TestOperations(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				w := b.ready(s)
				before := len(b.requests(s.op))
				b.play(s)
				alert := b.word("<alert0>")
				sum := b.run()
				if sum.Counts.InDoubt > 0 || sum.Err != nil {
					t.Fatalf("%+v, %v", sum.Counts, sum.Err)
				}
				want := func(list []string) (out []string) {
					for _, text := range list {
						out = append(out, w.Replace(text))
					}
					return out
				}
				if got := b.planned(); !slices.Equal(got, want(s.rows)) {
					t.Errorf("planned\n%q, want\n%q", got, want(s.rows))
				}
				got, bodies := b.sentBodies(), want(s.bodies)
				slices.Sort(bodies)
				if !slices.Equal(got, bodies) {
					t.Errorf("sent\n%q, want\n%q", got, bodies)
				}
				if n := len(b.requests(s.op)) - before; n != len(s.bodies) {
					t.Errorf("%d requests, want %d", n, len(s.bodies))
				}
				s.checkEnd(b, alert)
			})
		})
	}
}

// checkEnd looks at the account after the run.
func (s scenario) checkEnd(b *bench, alert string) {
	b.t.Helper()
	if s.op == "alert-resolve" {
		if !b.read("alert", map[string]string{"alertUid": alert}).Get("resolved").Bool() {
			b.t.Error("the alert is open still")
		}
		return
	}
	if !s.ok(b) {
		b.t.Error("the account is not as wanted")
	}
}

// first keeps of a scenario the one row that is to be sent.
func (s scenario) first() scenario {
	lines := strings.SplitAfter(s.csv, "\n")
	s.csv = lines[0] + lines[1]
	return s
}

// faultsOfWrites are what goes wrong with the first request of a write: the columns
// of the table in docs/updates.md.
var faultsOfWrites = []struct {
	name string // heading of the column
	do   rmmsim.Action
	// how often each class is sent
	idempotent, verify, unsafe int
	doubt                      bool // unsafe stays in doubt
	carried                    bool // the first request was carried out
	failed                     bool // all of them fail
}{
	{name: "reply dropped", do: rmmsim.Action{Drop: "after"}, idempotent: 2, verify: 1, unsafe: 1, doubt: true, carried: true},
	{name: "dropped before", do: rmmsim.Action{Drop: "before"}, idempotent: 2, verify: 2, unsafe: 1, doubt: true},
	{name: "500 and done", do: rmmsim.Action{Status: 500, Apply: true}, idempotent: 2, verify: 1, unsafe: 1, doubt: true, carried: true},
	{name: "500", do: rmmsim.Action{Status: 500}, idempotent: 2, verify: 2, unsafe: 1, doubt: true},
	{name: "409", do: rmmsim.Action{Status: 409}, idempotent: 2, verify: 2, unsafe: 2},
	{name: "429", do: rmmsim.Action{Status: 429}, idempotent: 2, verify: 2, unsafe: 2},
	{name: "401", do: rmmsim.Action{InvalidateToken: true}, idempotent: 2, verify: 2, unsafe: 2},
	{name: "403", do: rmmsim.Action{Status: 403}, idempotent: 1, verify: 1, unsafe: 1, failed: true},
}

// What goes wrong with the first request, and what becomes of each operation: the
// final state, and how often the write was sent. A write that was carried out is
// never carried out twice unless that leaves the same. The table in the
// documentation is what is measured here.
func TestOperationsUnderFaults(t *testing.T) {
	var mu sync.Mutex
	cells := map[string]string{}
	t.Run("group", func(t *testing.T) {
		for _, s := range scenarios() {
			for _, f := range faultsOfWrites {
				t.Run(s.op+"/"+f.name, func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						b := stage(t)
						b.ready(s)
						b.play(s.first())
						alert := b.word("<alert0>")
						before := len(b.requests(s.op))
						b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: s.op, Nth: 1}, Do: f.do})
						sum := b.run()
						op, _ := rmm.Lookup(s.op)
						want, state := f.idempotent, checkpoint.RunOK
						switch op.Class {
						case rmm.ClassVerify:
							want = f.verify
						case rmm.ClassUnsafe:
							if want = f.unsafe; f.doubt {
								state = checkpoint.RunInDoubt
							}
						}
						if f.failed {
							state = checkpoint.RunPartial
						}
						b.want(sum, state)
						sent := len(b.requests(s.op)) - before
						if sent != want {
							t.Errorf("sent %d times, want %d", sent, want)
						}
						switch {
						case state == checkpoint.RunOK || f.carried:
							s.checkEnd(b, alert)
						case b.account.Jobs() != 0:
							t.Error("a job was made")
						}
						mu.Lock()
						defer mu.Unlock()
						cells[s.op+"/"+f.name] = fmt.Sprintf("%d %s", sent, map[checkpoint.RunState]string{
							checkpoint.RunOK: "done", checkpoint.RunInDoubt: "in doubt", checkpoint.RunPartial: "failed",
						}[sum.State])
					})
				})
			}
		}
	})
	if t.Failed() || len(cells) < len(scenarios())*len(faultsOfWrites) {
		return // there is more to look at, or only some were run
	}
	var want strings.Builder
	want.WriteString("| operation |")
	for _, f := range faultsOfWrites {
		want.WriteString(" " + f.name + " |")
	}
	want.WriteString("\n|" + strings.Repeat(" --- |", len(faultsOfWrites)+1) + "\n")
	for _, s := range scenarios() {
		want.WriteString("| `" + s.op + "` |")
		for _, f := range faultsOfWrites {
			want.WriteString(" " + cells[s.op+"/"+f.name] + " |")
		}
		want.WriteString("\n")
	}
	doc, err := os.ReadFile(filepath.Join("..", "docs", "updates.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(string(doc), "\r\n", "\n"), want.String()) {
		t.Errorf("docs/updates.md has another table than this one, which was measured:\n%s", want.String())
	}
}

// A write that is lost a second time is looked up a second time: what the first
// look found does not decide about it.
func TestLostTwice(t *testing.T) {
	tests := []struct {
		first, second string
		sent          int
	}{
		{"before", "after", 2},
		{"before", "before", 3},
	}
	for _, tt := range tests {
		t.Run(tt.first+" and "+tt.second, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				b.play(scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\n"})
				before := len(b.requests("site-create"))
				b.faults(
					rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create", Nth: 1}, Do: rmmsim.Action{Drop: tt.first}},
					rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create", Nth: 2}, Do: rmmsim.Action{Drop: tt.second}},
				)
				b.want(b.run(), checkpoint.RunOK)
				if n := len(b.requests("site-create")) - before; n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
				if n := len(slices.DeleteFunc(b.read("sites", nil).Get("sites").Array(), func(s doc) bool { return s.Get("name").String() != "Fresh" })); n != 1 {
					t.Errorf("%d sites", n)
				}
			})
		})
	}
}

// A write that is lost each time stays in doubt in the end: the looks are counted.
func TestLostAlways(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		b.play(scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\n"})
		before := len(b.requests("site-create"))
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create"}, Do: rmmsim.Action{Drop: "before"}})
		b.want(b.run(), checkpoint.RunInDoubt)
		if n := len(b.requests("site-create")) - before; n != 4 {
			t.Errorf("sent %d times, want the first and one after each of three looks", n)
		}
	})
}

// A look that cannot be made decides nothing: the write is not repeated.
func TestLookThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		b.play(scenario{op: "site-variable-create", update: "  match: {siteName: '{site}'}\n  set: {name: '{name}', value: '{value}'}", csv: "site,name,value\n<site0>,Fresh,1\n"})
		before := len(b.requests("site-variable-create"))
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{Operation: "site-variable-create", Nth: 1}, Do: rmmsim.Action{Drop: "after"}},
			rmmsim.Fault{Match: rmmsim.Match{Operation: "site-variables", From: 2}, Do: rmmsim.Action{Status: 400}},
		)
		b.want(b.run(), checkpoint.RunInDoubt)
		if n := len(b.requests("site-variable-create")) - before; n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

// A run that is cut off with a write in doubt looks it up when it goes on.
func TestLookAfterAResume(t *testing.T) {
	for _, drop := range []string{"before", "after"} {
		t.Run(drop, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := stage(t)
				b.play(scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\nSecond\nThird\n"})
				before := len(b.requests("site-create"))
				ctx, stop := context.WithCancel(t.Context())
				b.faults(
					rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create", Nth: 1}, Do: rmmsim.Action{Drop: drop}},
					rmmsim.Fault{Match: rmmsim.Match{Operation: "site-create", Nth: 2}, Do: rmmsim.Action{Apply: true, Status: 200, Func: func(*rmmsim.Account, *http.Request) { stop() }}},
				)
				sum := b.runIn(ctx, workers(1))
				b.want(sum, checkpoint.RunStopped)
				if sum.Counts.InDoubt != 1 {
					t.Fatalf("%+v", sum.Counts)
				}
				b.reopen()
				b.want(b.run(workers(1)), checkpoint.RunOK)
				want := map[string]int{"before": 4, "after": 3}[drop]
				if n := len(b.requests("site-create")) - before; n != want {
					t.Errorf("sent %d times, want %d", n, want)
				}
			})
		})
	}
}

// A proxy whose password nobody can read is not written without one.
func TestProxyKeepsItsPassword(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := stage(t)
		_, err := b.client.Do(t.Context(), rmm.Request{
			Op: "site-proxy-create", Path: map[string]string{"siteUid": b.word("<siteuid0>")},
			Body: json.RawMessage(`{"host":"old","port":80,"type":"http","username":"u","password":"p"}`),
		})
		b.check(err)
		b.play(scenario{op: "site-proxy-create", update: "  match: {uid: '{site}'}\n  set: {host: '{host}'}", csv: "site,host\n<siteuid0>,new\n"})
		before := len(b.requests("site-proxy-create"))
		b.want(b.run(), checkpoint.RunPartial)
		want := []string{"2 invalid: the proxy has a user name, and its password cannot be read: set it in the job"}
		if got := b.planned(); !slices.Equal(got, want) || len(b.requests("site-proxy-create")) != before {
			t.Errorf("planned %q", got)
		}
	})
}
