package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"rmmjob/internal/rmm"
)

// lists is an account of fixed lists, by operation and site. Writes are taken and
// forgotten.
func lists(all map[string][]string) account {
	return func(req rmm.Request) reply {
		op, _ := rmm.Lookup(req.Op)
		key := req.Op
		if uid := req.Path["siteUid"]; uid != "" {
			key += "/" + uid
		}
		items, ok := all[key]
		switch {
		case op.IsWrite():
			return reply{}
		case !ok:
			return reply{status: http.StatusBadRequest}
		case op.Paging == rmm.PagingNone:
			return reply{body: items[0]}
		}
		return (&fleet{items: items}).page(req)
	}
}

// office is a small account for operations on sites and variables.
func office() map[string][]string {
	site := `{"uid":"s%d","id":%d,"name":"Site %d","description":"d","notes":null,"onDemand":false,"splashtopAutoInstall":true}`
	all := map[string][]string{
		"devices":           {`{"uid":"d1","hostname":"A","siteUid":"s1","siteName":"Site 1"}`, `{"uid":"d2","hostname":"B","siteUid":"s2","siteName":"Site 2"}`, `{"uid":"d3","hostname":"C"}`},
		"site-variables/s1": {`{"id":1,"name":"A","value":"1","masked":false}`, `{"id":2,"name":"Key","value":"***","masked":true}`},
		"site-variables/s2": {},
		"site-variables/s5": {`{"id":1,"name":"A","value":"5","masked":false}`},
		"site-settings/s1":  {`{"proxySettings":{"host":"p","port":80,"type":"http","username":null,"password":null}}`},
		"site-settings/s2":  {`{"proxySettings":null}`},
		"site-settings/s3":  {`{"proxySettings":{"host":"","port":null,"type":"http"}}`},
		"variables":         {`{"id":1,"name":"A","value":"1","masked":false}`, `{"id":2,"name":"Key","value":"***","masked":true}`},
	}
	for i := 1; i <= 5; i++ {
		all["sites"] = append(all["sites"], fmt.Sprintf(site, i, i, i))
	}
	all["sites"] = append(all["sites"], `{"uid":"s6","id":6,"name":"Site 5"}`)
	return all
}

// What the plan makes of rows, and what is read for it: the lists of the sites
// that the rows name and no others.
func TestOperationPlans(t *testing.T) {
	tests := []struct {
		name, update, csv string
		classes, sent     []string
	}{
		{
			"move", "  operation: device-move\n  rows: CSV\n  match: {hostname: '{h}'}\n  set: {siteName: '{to}'}\n",
			"h,to\nA,site 1\nB,Site 1\nC,Site 2\nB,Site 2\nA,Site 5\nA,\n",
			[]string{
				"2 unchanged", "3 conflict: lines 3 and 5 disagree on siteName for device d2", "4 change", "5 conflict: lines 3 and 5 disagree on siteName for device d2",
				`6 invalid: 2 sites have name "Site 5"; siteUid tells them apart`, "7 invalid: siteName comes from {to}, which is blank",
			},
			[]string{"devices", "devices", "device-move d3 s2", "sites", "sites"},
		},
		{
			"variables", "  operation: site-variable-update\n  rows: CSV\n  match: {name: '{n}', siteName: '{s}'}\n  set: {value: '{v}'}\n",
			"s,n,v\nSite 1,A,1\nSite 1,A,1\nSite 1,Key,new\nSite 1,B,x\nSite 2,A,x\nSite 3,A,x\nSite 5,A,x\nSite 9,A,x\n",
			[]string{
				"2 unchanged", "3 unchanged", "4 change", `5 not_found: no variable has site "Site 1" and name "B"`, `6 not_found: no variable has site "Site 2" and name "A"`,
				"7 invalid: the service does not list the variables of the site (it refuses to for on-demand sites)",
				`8 ambiguous: 2 sites have name "Site 5"; siteUid tells them apart`, `9 not_found: no site has name "Site 9"`,
			},
			[]string{"sites", "sites", "site-variable-update s1 2", "site-variables s1", "site-variables s2", "site-variables s3"},
		},
		{
			"new variables", "  operation: account-variable-create\n  rows: CSV\n  set: {name: '{n}', value: '{v}', masked: '{m}'}\n",
			"n,v,m\nA,1,\nA,1,TRUE\nKey,whatever,true\nB,(clear),false\n",
			[]string{"2 unchanged", "3 conflict: the variable is there with another masked; the update operation changes it", "4 unchanged: there is a variable of this name; its value is masked, so it cannot be compared", "5 change"},
			[]string{"account-variable-create", "variables"},
		},
		{
			"variables by name", "  operation: site-variable-set\n  rows: CSV\n  match: {name: '{n}', siteName: '{s}'}\n  set: {value: '{v}', masked: '{m}'}\n",
			"s,n,v,m\nSite 1,A,1,\nSite 1,A,1,false\nSite 1,Key,new,\nSite 1,B,x,true\nSite 2,A,y,\nSite 2,A,y,\nSite 2,C,,\nSite 1,Key,(clear),true\nSite 5,Z,1,\n",
			[]string{
				"2 unchanged", "3 unchanged", "4 conflict: lines 4 and 9 disagree on value for variable 2", "5 change", "6 change", "7 change",
				"8 invalid: the variable is not there, and its value is blank: (clear) makes it an empty one",
				"9 conflict: lines 4 and 9 disagree on value for variable 2", `10 ambiguous: 2 sites have name "Site 5"; siteUid tells them apart`,
			},
			[]string{"site-variable-create s1", "site-variable-create s2", "sites", "sites", "site-variables s1", "site-variables s2"},
		},
		{
			"account variables by name", "  operation: account-variable-set\n  rows: CSV\n  match: {name: '{n}'}\n  set: {value: '{v}', masked: '{m}'}\n",
			"n,v,m\nA,1,\nKey,whatever,true\na,2,\nA,1,true\n",
			[]string{"2 unchanged", "3 change", "4 change", "5 conflict: masked can only be chosen when the variable is made, and this one is there already"},
			[]string{"account-variable-create", "account-variable-update 2", "variables"},
		},
		{
			"proxies", "  operation: site-proxy-create\n  rows: CSV\n  match: {name: '{s}'}\n  set: {host: '{h}', type: '{t}', username: '{u}'}\n",
			"s,h,t,u\nSite 1,p,HTTP,\nSite 2,q,socks5,\nSite 4,q,ftp,\n",
			[]string{"2 unchanged", "3 invalid: the proxy would have no port: neither the row nor the account gives one", `4 invalid: type: "ftp" is not http, socks4 or socks5`},
			[]string{"site-settings s1", "site-settings s2", "sites", "sites"},
		},
		{
			"whole proxies", "  operation: site-proxy-create\n  rows: CSV\n  match: {name: '{s}'}\n  set: {host: '{h}', port: '{p}', type: '{t}', username: '{u}'}\n",
			"s,h,p,t,u\nSite 1,,81,,\nSite 2,q,80,socks5,(clear)\nSite 3,\u00a0,81,,\nSite 1,(clear),,,\nSite 1,,(clear),,\n",
			[]string{
				"2 change", "3 change", "4 invalid: the proxy would have no host: neither the row nor the account gives one",
				"5 invalid: host cannot be cleared", "6 invalid: port cannot be cleared",
			},
			[]string{"site-proxy-create s1", "site-proxy-create s2", "site-settings s1", "site-settings s2", "site-settings s3", "sites", "sites"},
		},
		{
			"users of proxies", "  operation: site-proxy-create\n  rows: CSV\n  match: {name: '{s}'}\n  set: {username: '{u}', password: '{p}'}\n",
			"s,u,p\nSite 1,u,p\nSite 2,(clear),(clear)\nSite 3,u,p\n",
			[]string{"2 change", "3 unchanged", "4 invalid: the proxy would have no host: neither the row nor the account gives one"},
			[]string{"site-proxy-create s1", "site-settings s1", "site-settings s2", "site-settings s3", "sites", "sites"},
		},
		{
			"sites", "  operation: site-update\n  rows: CSV\n  match: {id: '{id}'}\n  set: {notes: '{n}', onDemand: '{o}'}\n",
			"id,n,o\n1,(clear),\n2,x,(clear)\n6,x,\n3,x,FALSE\n",
			[]string{
				"2 unchanged", "3 invalid: onDemand cannot be cleared",
				"4 invalid: the account does not tell description of the site, which the update would blank: set it in the job", "5 change",
			},
			[]string{"site-update s3", "sites", "sites"},
		},
		{
			"names of sites", "  operation: site-update\n  rows: CSV\n  match: {uid: '{s}'}\n  set: {name: '{n}', notes: '{t}'}\n",
			"s,n,t\ns1,site 2,x\ns2,SITE 2,\ns3,New,\ns4, new,\ns5,site 5,\n",
			[]string{
				`2 conflict: another site has the name "Site 2": s2`, `3 conflict: lines 2 and 3 give two sites the name "SITE 2"`,
				`4 conflict: lines 4 and 5 give two sites the name "New"`, `5 conflict: lines 4 and 5 give two sites the name "new"`,
				`6 conflict: another site has the name "Site 5": s6`,
			},
			[]string{"sites", "sites"},
		},
		{
			"names that sites change among them", "  operation: site-update\n  rows: CSV\n  match: {name: '{s}'}\n  set: {name: '{n}'}\n",
			"s,n\nSite 1,Site 2\nSite 2,Site 1\nSite 3,SITE 3\nSite 4,\n",
			[]string{`2 conflict: another site has the name "Site 2": s2`, `3 conflict: another site has the name "Site 1": s1`, "4 change", "5 unchanged"},
			[]string{"site-update s3", "sites", "sites"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := updater(t, file(t, tt.csv), tt.update, lists(office()), Settings{PageSize: 2})
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, tt.classes) {
				t.Errorf("planned\n%q, want\n%q", got, tt.classes)
			}
			var got []string
			for _, r := range d.sent {
				if page := r.Query.Get("page"); page != "" && page != "0" {
					continue
				}
				words := []string{r.Op}
				for _, p := range []string{"deviceUid", "siteUid", "variableId"} {
					if v := r.Path[p]; v != "" {
						words = append(words, v)
					}
				}
				got = append(got, strings.Join(words, " "))
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.sent))
			if !slices.Equal(got, want) {
				t.Errorf("sent\n%q, want\n%q", got, want)
			}
		})
	}
}

// However a run of several lists is cut off, it comes to the same items.
func TestAnyOrderOfSeveralLists(t *testing.T) {
	update := "  operation: site-variable-create\n  rows: CSV\n  match: {siteId: '{s}'}\n  set: {name: '{n}', value: x}\n"
	csv := file(t, "s,n\n1,N\n1,A\n2,N\n2,M\n3,N\n5,Ü/x\n9,N\n")
	straight := updater(t, csv, update, lists(office()), Settings{PageSize: 2})
	straight.mustRun()
	if len(straight.writes()) != 4 {
		t.Fatalf("%d writes: %q", len(straight.writes()), straight.classes())
	}
	rapid.Check(t, func(rt *rapid.T) {
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 3))
		crashes := rapid.Float64Range(0, 0.5).Draw(rt, "crashes")
		d := updater(t, csv, update, lists(office()), Settings{PageSize: 2})
		d.choose = order.IntN
		d.lose = func() bool { return order.Float64() < crashes }
		d.mustRun()
		if !slices.Equal(d.keys(), straight.keys()) {
			rt.Fatalf("keys %q, want %q", d.keys(), straight.keys())
		}
	})
}

// Which operations need a person's agreement, and that each has its place in the
// table of the API.
func TestOperationsOfTheTable(t *testing.T) {
	agree := []string{
		"device-move", "device-job-create", "site-proxy-create", "site-proxy-delete", "site-variable-delete", "account-variable-delete",
	}
	for _, op := range updatable {
		known, ok := rmm.Lookup(op.request(false))
		if there, also := rmm.Lookup(op.request(true)); !ok || !also || !known.IsWrite() || !there.IsWrite() {
			t.Errorf("%s is no write of the API", op.name)
		}
		u := &UpdateSpec{Operation: rmm.Operation{Name: op.name}}
		if got := u.Confirmation() != ""; got != slices.Contains(agree, op.name) {
			t.Errorf("%s: confirmation %v", op.name, got)
		}
		if op.hasSet() && op.fields() == nil && op.name != "device-udf-set" {
			t.Errorf("%s has no fields", op.name)
		}
		// Whatever is looked up must leave something to be seen.
		if known.Class == rmm.ClassVerify && op.effect != creates && op.effect != ensures && op.effect != removes && op.effect != resolves {
			t.Errorf("%s cannot be looked up", op.name)
		}
	}
	for _, op := range rmm.Operations() {
		if in := slices.ContainsFunc(updatable, func(w operation) bool { return w.name == op.Name }); op.IsWrite() && !in && notForJobs[op.Name] == "" {
			t.Errorf("no job can send %s", op.Name)
		}
	}
}

// Whatever the cells say, a request is whole: its body is an object, its path is
// that of an object that the account has, and what is held back has a reason.
func FuzzOperations(f *testing.F) {
	f.Add("Site 1", "A", "true")
	f.Add("\x00", "\x00\x00", "(clear)")
	f.Add("Site 5", "Key", "\"\\\xff")
	f.Add("A", "s1", "8080")
	job := func(op, match, set string) string {
		text := "  operation: " + op + "\n  rows: CSV\n"
		if match != "" {
			text += "  match: " + match + "\n"
		}
		if set != "" {
			text += "  set: " + set + "\n"
		}
		return text
	}
	texts := []string{
		job("device-move", "{hostname: '{a}'}", "{siteUid: '{b}'}"),
		job("device-job-create", "{hostname: '{a}'}", "{jobName: '{b}', componentUid: '{c}', variables: {V: '{c}'}}"),
		job("site-create", "", "{name: '{a}', notes: '{b}', onDemand: '{c}'}"),
		job("site-update", "{name: '{a}'}", "{name: '{b}', onDemand: '{c}'}"),
		job("site-proxy-create", "{name: '{a}'}", "{host: '{b}', port: '{c}'}"),
		job("site-variable-create", "{siteName: '{a}'}", "{name: '{b}', value: '{c}'}"),
		job("site-variable-update", "{siteName: '{a}', name: '{b}'}", "{value: '{c}'}"),
		job("account-variable-delete", "{name: '{b}'}", ""),
	}
	var parsed []*Job
	for _, text := range texts {
		parsed = append(parsed, parse(f, "update:\n"+strings.ReplaceAll(text, "CSV", "rows.csv")))
	}
	all := office()
	from := func(name string, path map[string]string) func(func(Element, error) bool) {
		return func(yield func(Element, error) bool) {
			key := name
			if uid := path["siteUid"]; uid != "" {
				key += "/" + uid
			}
			for _, item := range all[key] {
				if !yield(Element{JSON: json.RawMessage(item), Path: path}, nil) {
					return
				}
			}
		}
	}
	settings := map[string]json.RawMessage{"s1": json.RawMessage(all["site-settings/s1"][0]), "s2": json.RawMessage(all["site-settings/s2"][0])}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, job := range parsed {
			op := operationOf(job.Update.Operation.Name)
			sites, err := indexSites(from("sites", nil))
			if err != nil {
				t.Fatal(err)
			}
			src := sources{targets: from(subjects[op.on].list, nil), sites: sites, listed: map[string]bool{"s1": true}, settings: settings}
			if op.on == aSiteVariable {
				src.targets = from("site-variables", map[string]string{"siteUid": "s1"})
			}
			reader := newRowReader(job.Update, &Table{Headers: []string{"a", "b", "c"}})
			read, _ := reader.read(Record{Number: 1, Line: 2, Cells: []string{a, b, c}})
			p := &plan{job: job, op: op, reader: reader, mark: "m", sites: sites, counts: map[RowClass]int{}}
			p.add(read, []string{a, b, c})
			row := &p.rows[0]
			p.placeRows(src.listed)
			wanted := map[string][]*object{}
			if row.verdict == nil {
				wanted[row.key] = nil
			}
			if _, err := collect(job, src, wanted, newSelectorFit(job.Guard)); err != nil {
				t.Fatal(err)
			}
			p.resolve(wanted)
			for _, target := range p.targets {
				p.merge(target, make([]*inputRow, len(job.Update.Set)), "")
			}
			if row.class().Held() && row.reason() == "" {
				t.Fatalf("%s: a row of class %s without a reason", op.name, row.class())
			}
			for it := range p.items() {
				if it.Birth != Pending {
					continue
				}
				if len(it.Request.Body) > 0 && !json.Valid(it.Request.Body) {
					t.Fatalf("%s: body %q", op.name, it.Request.Body)
				}
				for _, field := range op.core {
					if text(gjson.GetBytes(it.Request.Body, field)) == "" {
						t.Fatalf("%s: body %q lacks %s", op.name, it.Request.Body, field)
					}
				}
				for name, v := range it.Request.Path {
					if v == "" || name == "siteUid" && sites.name[v] == "" {
						t.Fatalf("%s: path %v", op.name, it.Request.Path)
					}
				}
			}
			for range p.planRows() {
			}
		}
	})
}

// A site without a proxy has nothing that could be unknown; of a proxy the account
// tells all but the password.
func TestOldValuesOfProxies(t *testing.T) {
	update := "  operation: site-proxy-create\n  rows: CSV\n  match: {name: '{s}'}\n  set: {host: q, port: '81', type: http, username: u, password: p}\n"
	d := updater(t, file(t, "s\nSite 1\nSite 2\n"), update, lists(office()), Settings{})
	d.mustRun()
	var got []string
	for _, row := range d.rows[1:] {
		for _, c := range row.Detail.Changes {
			got = append(got, fmt.Sprintf("%s %s %q unknown %v made %v", row.Detail.UID, c.Field, c.Old, c.Unknown, c.Made))
		}
	}
	var want []string
	for i, field := range []string{"host", "port", "type", "username", "password"} {
		old := []string{"p", "80", "http", "", ""}[i]
		want = append(want, fmt.Sprintf("s1 %s %q unknown %v made false", field, old, field == "password"))
	}
	for _, field := range []string{"host", "port", "type", "username", "password"} {
		want = append(want, fmt.Sprintf("s2 %s \"\" unknown false made true", field))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
