package rmmsim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// statuses sends the same request n times and writes down what came: a
// status, "cut" for a broken body, "drop" for no answer.
func (c *tester) statuses(n int, method, path, body string) string {
	c.t.Helper()
	var got []string
	for range n {
		status, _, err := c.do(method, path, body)
		switch {
		case err != nil && status == 0:
			got = append(got, "drop")
		case err != nil:
			got = append(got, "cut")
		default:
			got = append(got, fmt.Sprint(status))
		}
	}
	return strings.Join(got, " ")
}

func TestFaultsChooseRequests(t *testing.T) {
	const devices = "/v2/account/devices?max=1"
	fail := Action{Status: 503}
	for _, tt := range []struct {
		name  string
		match Match
		path  string
		want  string
	}{
		{"all", Match{}, devices, "503 503 503 503 503"},
		{"star", Match{Operation: "*"}, devices, "503 503 503 503 503"},
		{"nth", Match{Nth: 2}, devices, "200 503 200 200 200"},
		{"range", Match{From: 2, To: 3}, devices, "200 503 503 200 200"},
		{"from", Match{From: 4}, devices, "200 200 200 503 503"},
		{"to", Match{To: 1}, devices, "503 200 200 200 200"},
		{"every", Match{Every: 2}, devices, "200 503 200 503 200"},
		{"operation", Match{Operation: "devices"}, devices, "503 503 503 503 503"},
		{"another operation", Match{Operation: "sites"}, devices, "200 200 200 200 200"},
		{"method", Match{Method: "post"}, devices, "200 200 200 200 200"},
		{"path", Match{Path: "/v2/account/*"}, devices, "503 503 503 503 503"},
		{"path with api", Match{Path: "/api/v2/account/devices"}, devices, "503 503 503 503 503"},
		{"path is of whole segments", Match{Path: "/v2/*"}, devices, "200 200 200 200 200"},
		{"query", Match{Query: map[string]string{"page": "2"}}, devices + "&page=2", "503 503 503 503 503"},
		{"another page", Match{Query: map[string]string{"page": "2"}}, devices + "&page=1", "200 200 200 200 200"},
		{"the first page is page 0", Match{Query: map[string]string{"page": "0"}}, devices, "503 503 503 503 503"},
		{"uid", Match{UID: "the-uid"}, "/v2/device/the-uid", "503 503 503 503 503"},
		{"another uid", Match{UID: "the-uid"}, "/v2/device/another", "404 404 404 404 404"},
		{"never", Match{Probability: 0.000001, Seed: 1}, devices, "200 200 200 200 200"},
		{"always", Match{Probability: 1}, devices, "503 503 503 503 503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTester(t, Config{Devices: 9, UDFs: 1})
			if err := c.a.AddFaults(Fault{Name: tt.name, Match: tt.match, Do: fail}); err != nil {
				t.Fatal(err)
			}
			if got := c.statuses(5, http.MethodGet, tt.path, ""); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			c.a.ClearFaults()
			if got := c.statuses(1, http.MethodGet, devices, ""); got != "200" {
				t.Errorf("after ClearFaults: %s", got)
			}
		})
	}
}

func TestFaultProbabilityIsSeeded(t *testing.T) {
	run := func(seed uint64) string {
		c := newTester(t, Config{Devices: 1, UDFs: 1})
		if err := c.a.AddFaults(Fault{Match: Match{Probability: 0.3, Seed: seed}, Do: Action{Status: 500}}); err != nil {
			t.Fatal(err)
		}
		return c.statuses(200, http.MethodGet, "/v2/system/pagination", "")
	}
	one := run(1)
	if one != run(1) || one == run(2) {
		t.Error("the seed does not decide")
	}
	if n := strings.Count(one, "500"); n < 40 || n > 80 {
		t.Errorf("%d of 200 at 0.3", n)
	}
}

func TestFaultsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1})
		if err := c.a.AddFaults(Fault{Match: Match{At: 10 * time.Second, For: 5 * time.Second}, Do: Action{Status: 502}}); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			wait time.Duration
			want string
		}{{0, "200"}, {9 * time.Second, "200"}, {time.Second, "502"}, {4 * time.Second, "502"}, {time.Second, "200"}} {
			time.Sleep(tt.wait)
			if got := c.statuses(1, http.MethodGet, "/v2/account", ""); got != tt.want {
				t.Errorf("%v after the start: %s, want %s", time.Since(c.a.start), got, tt.want)
			}
		}
	})
}

// Each action once, in process and over HTTP, on a UDF write whose fate shows.
func TestFaultActionsOnWrites(t *testing.T) {
	for _, tt := range []struct {
		name    string
		do      Action
		want    string // of two sends, the first meets the fault
		applied int    // of the first
		quota   int    // writes counted after the first
	}{
		{"status", Action{Status: 500}, "500 200", 0, 1},
		{"429", Action{Status: 429, Headers: map[string]string{"Retry-After": "7"}}, "429 200", 0, 1},
		{"204 applied", Action{Status: 204, Apply: true}, "204 200", 1, 1},
		{"OK applied", Action{Body: "OK", Headers: map[string]string{"Content-Type": "text/plain"}, Apply: true}, "200 200", 1, 1},
		{"error after all", Action{Status: 504, Apply: true}, "504 200", 1, 1},
		{"html", Action{HTML: "Maintenance"}, "200 200", 0, 1},
		{"drop before", Action{Drop: "before"}, "drop 200", 0, 0},
		{"drop after", Action{Drop: "after"}, "drop 200", 1, 1},
		{"cut", Action{Status: 400, Body: strings.Repeat("x", 5000), Cut: true}, "cut 200", 0, 1},
	} {
		for _, wire := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wire %v", tt.name, wire), func(t *testing.T) {
				c := newTester(t, Config{Devices: 1, Faults: []Fault{{Name: "f", Match: Match{Operation: "device-udf-set", Nth: 1}, Do: tt.do}}})
				path := "/api/v2/device/" + c.a.DeviceUIDs()[0] + "/udf"
				base := c.a.BaseURL()
				if wire {
					srv := httptest.NewServer(c.a)
					defer srv.Close()
					c.client, base = srv.Client(), srv.URL
					c.client.Transport.(*http.Transport).DisableKeepAlives = true // else Go sends a lost request again
				}
				got := c.statuses(1, http.MethodPost, base+path, `{"udf1":"x"}`)
				counts := c.a.Counts()
				var rate map[string]any
				decode(t, c.get(base+"/api/v2/system/request_rate"), &rate)
				got += " " + c.statuses(1, http.MethodPost, base+path, `{"udf1":"y"}`)
				if got != tt.want || counts.Applied != tt.applied || rate["accountWriteCount"] != float64(tt.quota) {
					t.Errorf("got %s, applied %d, %v writes counted; want %s, %d, %d", got, counts.Applied, rate["accountWriteCount"], tt.want, tt.applied, tt.quota)
				}
				if rec := c.a.Log()[1]; rec.Fault != "f" || rec.Body != `{"udf1":"x"}` {
					t.Errorf("record %+v", rec)
				}
			})
		}
	}
}

func TestFaultAnswersOfReads(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   Action
		want func(res *http.Response, body string, err error) bool
	}{
		{"html with 200", Action{Status: 200, HTML: "Maintenance"}, func(res *http.Response, body string, _ error) bool {
			return res.StatusCode == 200 && strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") && strings.Contains(body, "<title>Maintenance</title>")
		}},
		{"header", Action{Status: 429, Headers: map[string]string{"Retry-After": "7"}}, func(res *http.Response, body string, _ error) bool {
			return res.Header.Get("Retry-After") == "7" && strings.Contains(body, "Too Many Requests")
		}},
		{"headers alone leave the answer", Action{Headers: map[string]string{"X-Odd": "1"}}, func(res *http.Response, body string, _ error) bool {
			return res.Header.Get("X-Odd") == "1" && strings.Contains(body, `"totalCount":9`)
		}},
		{"malformed", Action{Malformed: true}, func(res *http.Response, body string, err error) bool {
			return err == nil && res.StatusCode == 200 && strings.HasPrefix(body, `{"pageDetails"`) && !strings.HasSuffix(body, "}]}")
		}},
		{"cut", Action{Cut: true}, func(_ *http.Response, body string, err error) bool {
			return errors.Is(err, io.ErrUnexpectedEOF) && len(body) > 0
		}},
		{"foreign next", Action{Next: "foreign"}, func(_ *http.Response, body string, _ error) bool {
			return strings.Contains(body, `"nextPageUrl":"https://foreign.invalid/api/v2/account/devices?max=2&page=1"`)
		}},
		{"loop", Action{Next: "loop"}, func(_ *http.Response, body string, _ error) bool {
			return strings.Contains(body, `"nextPageUrl":"https://sim-api.localhost/api/v2/account/devices?max=2"`)
		}},
		{"missing next", Action{Next: "missing"}, func(_ *http.Response, body string, _ error) bool {
			return strings.Contains(body, `"totalCount":9`) && !strings.Contains(body, "nextPageUrl")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTester(t, Config{Devices: 9, UDFs: 1, Faults: []Fault{{Do: tt.do, Match: Match{Operation: "devices"}}}})
			res, err := c.client.Do(c.request(http.MethodGet, "/v2/account/devices?max=2", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if !tt.want(res, string(body), err) {
				t.Errorf("status %d, header %v, error %v, body %.200s", res.StatusCode, res.Header, err, body)
			}
		})
	}
}

func TestFaultDelayBlockAndToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1, Faults: []Fault{
			{Match: Match{Operation: "account"}, Do: Action{Delay: 3 * time.Second}},
			{Match: Match{Operation: "users", Nth: 2}, Do: Action{InvalidateToken: true}},
			{Match: Match{Operation: "components"}, Do: Action{Block: 5 * time.Minute}},
			{Match: Match{Operation: "token", Nth: 2}, Do: Action{Status: 503}},
		}})
		start := time.Now()
		c.get("/v2/account")
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("delay of %v", got)
		}
		if got := c.statuses(3, http.MethodGet, "/v2/account/users", ""); got != "200 401 401" {
			t.Errorf("token ended: %s", got)
		}
		if got := fmt.Sprint(c.login("a", "b"), c.login("a", "b")); got != "503 200" {
			t.Errorf("logins %s", got)
		}
		if got := c.statuses(2, http.MethodGet, "/v2/account/components", ""); got != "403 403" {
			t.Errorf("block: %s", got)
		}
		time.Sleep(5*time.Minute - time.Second)
		if got := c.statuses(1, http.MethodGet, "/v2/account/users", ""); got != "403" {
			t.Errorf("before the end of the block: %s", got)
		}
		time.Sleep(time.Second)
		c.get("/v2/account/users")
		if n := c.a.Counts(); n.Blocked != 3 || n.Operations["token"][503] != 1 {
			t.Errorf("counts %+v", n)
		}
	})
}

func TestFaultFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1, Faults: []Fault{
			{Match: Match{At: time.Minute, For: 2 * time.Minute}, Do: Action{Flood: 20}},
			{Match: Match{For: time.Hour}, Do: Action{Flood: 1, FloodOperation: "device-udf-set"}},
		}})
		var got []string
		for range 5 {
			got = append(got, c.statuses(1, http.MethodGet, "/v2/account", ""))
			time.Sleep(59 * time.Second)
		}
		if s := strings.Join(got, " "); s != "200 200 429 429 200" {
			t.Errorf("one request a minute: %s", s)
		}
		var rate map[string]any
		decode(t, c.get("/v2/system/request_rate"), &rate)
		if rate["accountWriteCount"] != 60.0 {
			t.Errorf("the writes of the other client: %v", rate["accountWriteCount"])
		}
	})
}

// TestCase_N14_DeviceLeavesBetweenPages: six devices, two a page, the first is
// deleted after page 0. What a naive walk misses is missed here.
func TestCase_N14_DeviceLeavesBetweenPages(t *testing.T) {
	c := newTester(t, Config{Devices: 6, UDFs: 1, Faults: []Fault{
		{Match: Match{Operation: "devices", Query: map[string]string{"page": "0"}, Nth: 1}, Do: Action{DeleteDevice: "first"}},
	}})
	all := c.a.DeviceUIDs()
	got, _ := c.walk("/v2/account/devices?max=2", "devices")
	if len(got) != 5 || got[2]["uid"] != all[3] {
		t.Errorf("%d devices, the third is %v", len(got), got[2]["uid"])
	}
	again, _ := c.walk("/v2/account/devices?max=2", "devices")
	if len(again) != 5 || again[0]["uid"] != all[1] {
		t.Errorf("the second walk finds %d", len(again))
	}
}

func TestFaultsAddDevices(t *testing.T) {
	c := newTester(t, Config{Devices: 4, UDFs: 1, Faults: []Fault{
		{Match: Match{Operation: "devices", Nth: 1}, Do: Action{AddDevice: "first", DeleteDevice: "last"}},
		{Match: Match{Operation: "devices", Nth: 2}, Do: Action{AddDevice: `{"uid":"given"}`}},
		{Match: Match{Operation: "devices", Nth: 2}, Do: Action{AddDevice: "last"}},
	}})
	before := c.a.DeviceUIDs()
	c.get("/v2/account/devices")
	after := c.a.DeviceUIDs()
	if len(after) != 4 || after[1] != before[0] || after[3] != before[2] {
		t.Errorf("%v became %v", before, after)
	}
	c.get("/v2/account/devices")
	if last := c.a.DeviceUIDs(); len(last) != 6 || last[4] != "given" {
		t.Errorf("then %v", last)
	}
}

func TestFaultFuncRunsBeforeTheRequest(t *testing.T) {
	c := newTester(t, Config{Devices: 1})
	uid := c.a.DeviceUIDs()[0]
	err := c.a.AddFaults(Fault{Match: Match{Operation: "device", Nth: 2}, Do: Action{Func: func(a *Account, r *http.Request) {
		if err := a.SetUDF(uid, "udf1", r.Method); err != nil {
			t.Error(err)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.a.SetUDF(uid, "udf1", "before"); err != nil {
		t.Fatal(err)
	}
	first, second := c.get("/v2/device/"+uid), c.get("/v2/device/"+uid)
	if !strings.Contains(first, `"udf1":"before"`) || !strings.Contains(second, `"udf1":"GET"`) {
		t.Error("the function did not run before the second request")
	}
}

func TestParseFaults(t *testing.T) {
	got, err := ParseFaults([]byte(`
- name: outage
  match: {operation: devices, from: 2, to: 5, query: {page: "1"}, at: 1m, for: 40s}
  do:
    status: 503
    headers: {Retry-After: "5"}
- do: {drop: after}
  match: {operation: device-udf-set, uid: abc, probability: 0.25, seed: 9}
- match: {at: 10m, for: 5m}
  do: {flood: 12.5, flood_operation: device-move}
- {match: {operation: token}, do: {invalidate_token: true, block: 5m, delay: 250ms, next: loop, delete_device: first, add_device: '{"uid":"x"}'}}
`), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || got[0].Match.For != 40*time.Second || got[0].Do.Headers["Retry-After"] != "5" || got[1].Match.Probability != 0.25 ||
		got[2].Do.Flood != 12.5 || got[3].Do.Delay != 250*time.Millisecond {
		t.Errorf("%+v", got)
	}
	for _, empty := range []string{"", "# nothing\n", "null", "[]"} {
		if got, err := ParseFaults([]byte(empty), "f.yaml"); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", empty, got, err)
		}
	}
}

func TestParseFaultsErrors(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"- match: {operation: device}\n  do: {stauts: 500}", `f.yaml:2: unknown key "stauts", did you mean "status"?`},
		{"- mach: {}\n  do: {status: 500}", `f.yaml:1: unknown key "mach", did you mean "match"?`},
		{"- do: {status: many}", `f.yaml:1: want a whole number, not "many"`},
		{"- do: {delay: soon}", `f.yaml:1: want a time such as 500ms or 30s, not "soon"`},
		{"do: {status: 500}", "f.yaml:1: want a list of faults: - match: {operation: devices}, and below it do: {status: 500}"},
		{"- match: {}\n  path: /v2/x\n  do: {status: 500}", `f.yaml:2: "path" is a key of match, not of a fault`},
		{"- match: {status: 500}\n  do: {status: 500}", `f.yaml:1: "status" is a key of do, not of match`},
		{"- do: {zzzzzz: 500}", `f.yaml:1: unknown key "zzzzzz"; do has status, body, headers, html, apply, drop, cut, malformed, delay, next, invalidate_token, block, flood, flood_operation, delete_device, add_device`},
		{"- do: {status: 500\n", "f.yaml:"},
		{"- do: {status: 500}\n---\n- do: {status: 501}", "f.yaml:1: more than one YAML document"},
		{"- {}\n\n- match: {operation: devises}\n  do: {status: 500}", "f.yaml:1: nothing to do\nf.yaml:3: unknown operation \"devises\", did you mean \"devices\"?"},
		{"- do: {status: 42}", "f.yaml:1: status 42 is not between 200 and 599"},
		{"- do: {drop: sometimes}", `f.yaml:1: drop "sometimes" is neither before nor after`},
		{"- do: {next: nowhere}", `f.yaml:1: next "nowhere" is none of foreign, loop, missing`},
		{"- do: {body: a, html: b}", "f.yaml:1: body and html exclude each other"},
		{"- do: {flood: 5}", "f.yaml:1: flood needs match.for"},
		{"- {match: {operation: devices, for: 1m}, do: {flood: 5}}", "f.yaml:1: flood is another client's; match can only say at and for"},
		{"- {match: {for: 1m}, do: {flood: 5, flood_operation: devices}}", `f.yaml:1: flood_operation "devices" is a read; leave it out`},
		{"- {match: {for: 1m}, do: {flood_operation: device-move}}", "f.yaml:1: nothing to do"},
		{"- {match: {probability: 2}, do: {cut: true}}", "f.yaml:1: probability 2 is not between 0 and 1"},
		{"- {match: {from: 5, to: 2}, do: {cut: true}}", "f.yaml:1: to 2 lies before from 5"},
		{"- {match: {nth: -1}, do: {cut: true}}", "f.yaml:1: nth, from, to and every count from 1"},
		{"- {match: {path: '[']}, do: {cut: true}}", `f.yaml:1: `},
		{"- {match: {at: -5s}, do: {cut: true}}", "f.yaml:1: negative time"},
		{"- do: {add_device: '{\"hostname\":\"x\"}'}", "f.yaml:1: device without uid"},
		{"- do: {add_device: middle}", `f.yaml:1: add_device "middle" is neither first nor last nor a JSON object`},
	} {
		got, err := ParseFaults([]byte(tt.yaml), "f.yaml")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || got != nil {
			t.Errorf("%s\ngot  %v\nwant %s", tt.yaml, err, tt.want)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("- match: {operation: devices, nth: 2}\n  do: {status: 503}")
	f.Add("- do: {flood: .inf}")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults([]byte(text), "f.yaml")
		if err != nil && (faults != nil || !strings.HasPrefix(err.Error(), "f.yaml:")) {
			t.Errorf("error %v with %d faults", err, len(faults))
		}
		for _, fault := range faults {
			if err := fault.validate(); err != nil {
				t.Errorf("accepted %+v: %v", fault, err)
			}
		}
	})
}
