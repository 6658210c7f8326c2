package jobs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// caller drives a call. The text is the call section.
func caller(t testing.TB, csv, text string) *driver {
	t.Helper()
	abs, err := filepath.Abs(csv)
	if err != nil {
		t.Fatal(err)
	}
	job := parse(t, "call:\n"+strings.ReplaceAll(text, "CSV", "'"+abs+"'"))
	return &driver{t: t, account: func(rmm.Request) reply { return reply{body: "{}"} }, make: func() work { return NewUpdateWork(job, Settings{}) }}
}

// calls are the requests that were sent.
func (d *driver) calls() []string {
	var got []string
	for _, r := range d.sent {
		line := r.Op
		if len(r.Query) > 0 {
			line += "?" + r.Query.Encode()
		}
		if len(r.Body) > 0 {
			line += " " + string(r.Body)
		}
		got = append(got, line+" "+string(r.Class))
	}
	return got
}

func TestCall(t *testing.T) {
	for _, c := range []struct {
		name, csv, text string
		classes, calls  []string
	}{
		{
			"once", "", "  method: GET\n  path: /v2/system/new-list\n  class: read\n",
			[]string{"1 change"},
			[]string{"GET /v2/system/new-list read"},
		},
		{
			"rows", "uid,tag,n\na b/c,\"x\"\"y\",3\n..,x,4\n ,x,5\n../user,x,6\nd,{braces},7\n",
			"  method: POST\n  path: '/v2/device/{uid}/labels'\n  class: idempotent\n  rows: CSV\n  query: {n: '{n}'}\n" +
				"  body: {label: 'L-{tag}', count: 3, on: true, none: null, text: '3', list: ['{tag}', {deep: '{n}'}]}\n",
			[]string{
				"2 change", `3 invalid: path "/v2/device/../labels" of a call has a dot segment`, "4 invalid: {uid} in the path is blank",
				`5 invalid: path "/v2/device/..%2Fuser/labels" of a call has a dot segment`, "6 change",
			},
			[]string{
				`POST /v2/device/a%20b%2Fc/labels?n=3 {"label":"L-x\"y","count":3,"on":true,"none":null,"text":"3","list":["x\"y",{"deep":"3"}]} idempotent`,
				`POST /v2/device/d/labels?n=7 {"label":"L-{braces}","count":3,"on":true,"none":null,"text":"3","list":["{braces}",{"deep":"7"}]} idempotent`,
			},
		},
		{
			"rows alike are one request", "uid\na\nb\na\n", "  method: DELETE\n  path: '/v2/device/{uid}/label'\n  class: unsafe\n  rows: CSV\n",
			[]string{"2 change", "3 change", "4 change"},
			[]string{"DELETE /v2/device/a/label unsafe", "DELETE /v2/device/b/label unsafe"},
		},
		{
			"no way to the keys", "a,b\nuser,resetApiKeys\nUSER,resetapikeys\nuser,other\nuser,resetApiKeys \nuser, resetApiKeys\nuser,/resetApiKeys\n", "  method: POST\n  path: '/v2/{a}/{b}'\n  class: unsafe\n  rows: CSV\n",
			[]string{
				"2 invalid: a reset of keys is refused in jobs: it ends the API key that the job itself runs with",
				"3 invalid: a reset of keys is refused in jobs: it ends the API key that the job itself runs with", "4 change",
				"5 invalid: a reset of keys is refused in jobs: it ends the API key that the job itself runs with",
				"6 invalid: a reset of keys is refused in jobs: it ends the API key that the job itself runs with",
				"7 invalid: a reset of keys is refused in jobs: it ends the API key that the job itself runs with",
			},
			[]string{"POST /v2/user/other unsafe"},
		},
		{
			"what is known to be unsafe stays so", "a,b\nd1,quickjob\nd1,label\n", "  method: PUT\n  path: '/v2/device/{a}/{b}'\n  class: idempotent\n  rows: CSV\n",
			[]string{
				"2 invalid: this is device-job-create, which is not safe to repeat: state class: unsafe, or use operation: device-job-create", "3 change",
			},
			[]string{"PUT /v2/device/d1/label idempotent"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			csv := "none"
			if c.csv != "" {
				csv = file(t, c.csv)
			}
			d := caller(t, csv, c.text)
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, c.classes) {
				t.Errorf("planned\n%q, want\n%q", got, c.classes)
			}
			if got := d.calls(); !slices.Equal(got, c.calls) {
				t.Errorf("sent\n%q, want\n%q", got, c.calls)
			}
		})
	}
}

func TestCallRefused(t *testing.T) {
	const good = "  method: POST\n  path: /v2/x/y\n  class: unsafe\n"
	for name, c := range map[string]struct{ text, want string }{
		"no class":        {"  method: POST\n  path: /v2/x\n", `lacks the key "class"`},
		"verify":          {strings.Replace(good, "unsafe", "verify", 1), "class must be read, idempotent or unsafe"},
		"reading POST":    {strings.Replace(good, "unsafe", "read", 1), "a POST cannot be of the class read"},
		"writing GET":     {strings.Replace(good, "POST", "GET", 1), "a GET cannot be of the class unsafe"},
		"another host":    {strings.Replace(good, "/v2/x/y", "https://example.com/v2/x", 1), "begins with /v2/"},
		"another version": {strings.Replace(good, "/v2/x/y", "/v3/x", 1), "begins with /v2/"},
		"from a cell":     {strings.Replace(good, "/v2/x/y", "'{p}/v2/x'", 1), "begins with /v2/"},
		"query":           {strings.Replace(good, "/v2/x/y", "'/v2/x?a=b'", 1), "has a query"},
		"up":              {strings.Replace(good, "/v2/x/y", "/v2/x/../y", 1), "dot segment"},
		"keys":            {strings.Replace(good, "/v2/x/y", "/v2/user/resetApiKeys", 1), "reset of keys"},
		"keys, doubled":   {strings.Replace(good, "/v2/x/y", "/v2//user/resetApiKeys", 1), "reset of keys"},
		"keys, escaped":   {strings.Replace(good, "/v2/x/y", "/v2/user/reset%2541piKeys%20", 1), "reset of keys"},
		"known as unsafe": {strings.NewReplacer("POST", "PUT", "/v2/x/y", "/v2/device/d/quickjob", "unsafe", "idempotent").Replace(good), "this is device-job-create"},
		"column, no rows": {strings.Replace(good, "/v2/x/y", "'/v2/x/{c}'", 1), "the call has no rows"},
		"match":           {good + "  match: {uid: x}\n", `unknown key "match" in call`},
		"protected":       {good + "guard: {protected: {hostname: x}}\n", "protected has no effect on call"},
		"beside":          {good + "update: {operation: alert-resolve, rows: a.csv, match: {alertUid: '{a}'}}\n", "two of them"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte("version: 1\ncall:\n"+c.text), "job.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"no rows, in the path":  {strings.Replace(good, "/v2/x/y", "'/v2/x/{c}'", 1), `j:4:9: {c} names a column`},
		"no rows, in the body":  {good + "  body:\n    list:\n      - a\n      - '{c}'\n", `j:9:9: {c} names a column`},
		"no rows, in the query": {good + "  query: {q: '{c}'}\n", `j:6:14: {c} names a column`},
		"broken template":       {good + "  body: {a: '{c'}\n", `j:6:13: body: the '{' before`},
		"dots":                  {strings.Replace(good, "/v2/x/y", "/v2/x/../y", 1), `j:4:9: path "/v2/x/../y" of a call has a dot segment`},
		"keys":                  {strings.Replace(good, "/v2/x/y", "/v2/user/resetApiKeys", 1), `j:4:9: a reset of keys`},
		"keys, no class":        {"  method: POST\n  path: /v2/user/resetApiKeys\n", "j:3:3: call lacks the key \"class\"\nj:4:9: a reset of keys"},
		"class":                 {strings.NewReplacer("POST", "PUT", "/v2/x/y", "/v2/device/d/quickjob", "unsafe", "idempotent").Replace(good), `j:5:10: this is device-job-create`},
		"body of a GET":         {strings.NewReplacer("POST", "GET", "unsafe", "read").Replace(good) + "  body: {a: b}\n", `j:6:3: a GET has no body (give parameters under query)`},
		"number of YAML":        {good + "  body: {a: 0x1F, b: [.5]}\n", "j:6:13: JSON has no number 0x1F (write plain digits, or put it in quotes for a text)\nj:6:23: JSON has no number .5"},
		"field of the rows":     {strings.Replace(good, "/v2/x/y", "'/v2/x/{hostnam}'", 1) + "  rows: {from: devices}\n", `j:4:9: there is no field "hostnam" in devices`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte("version: 1\ncall:\n"+c.text), "j"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	job := parse(t, "call:\n"+good+"  body: {a: True, b: false, c: null, d: 1.5e3, e: 'True'}\n")
	if got := string(job.Update.Call.Body.append(nil, nil)); got != `{"a":true,"b":false,"c":null,"d":1.5e3,"e":"True"}` {
		t.Errorf("body %s", got)
	}
	job = parse(t, "call:\n"+good)
	if job.Update.Confirmation() == "" {
		t.Error("a call that writes needs no confirmation")
	}
	job = parse(t, "call:\n"+strings.NewReplacer("POST", "GET", "unsafe", "read").Replace(good))
	if job.Update.Confirmation() != "" {
		t.Error("a call that reads needs one")
	}
}
