package rmmsim

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusedWrites(t *testing.T) {
	c := newTester(t, Config{Devices: 60})
	dev := "/v2/device/" + c.a.DeviceUIDs()[0]
	site := "/v2/site/" + c.a.SiteUID("Contoso")
	component := c.a.ComponentUID(0)
	units := func(n int, s string) string { return `{"udf1":"` + strings.Repeat(s, n) + `"}` }
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"255 units", "POST", dev + "/udf", units(255, "ü"), 200},
		{"256 units", "POST", dev + "/udf", units(256, "x"), 400},
		{"127 pairs", "POST", dev + "/udf", units(127, "😀"), 200},
		{"128 pairs", "POST", dev + "/udf", units(128, "😀"), 400},
		{"udf300", "POST", dev + "/udf", `{"udf300":"x"}`, 200},
		{"udf301", "POST", dev + "/udf", `{"udf301":"x"}`, 400},
		{"udf0", "POST", dev + "/udf", `{"udf0":"x"}`, 400},
		{"udf01", "POST", dev + "/udf", `{"udf01":"x"}`, 400},
		{"a number", "POST", dev + "/udf", `{"udf1":5}`, 400},
		{"an array", "POST", dev + "/udf", `[]`, 400},
		{"null", "POST", dev + "/udf", `null`, 400},
		{"no body", "POST", dev + "/udf", ``, 400},
		{"Latin-1", "POST", dev + "/udf", "{\"udf1\":\"\xfc\"}", 400},
		{"unknown device", "POST", "/v2/device/nobody/udf", `{"udf1":"x"}`, 404},
		{"PATCH", "PATCH", dev + "/udf", `{"udf1":"x"}`, 405},
		{"warranty", "POST", dev + "/warranty", `{"warrantyDate":"2027-12-31"}`, 200},
		{"warranty null", "POST", dev + "/warranty", `{"warrantyDate":null}`, 200},
		{"warranty empty", "POST", dev + "/warranty", `{"warrantyDate":""}`, 400},
		{"warranty absent", "POST", dev + "/warranty", `{}`, 400},
		{"warranty other form", "POST", dev + "/warranty", `{"warrantyDate":"31.12.2027"}`, 400},
		{"warranty no such day", "POST", dev + "/warranty", `{"warrantyDate":"2027-02-30"}`, 400},
		{"warranty of nobody", "POST", "/v2/device/nobody/warranty", `{"warrantyDate":null}`, 404},
		{"move to nowhere", "PUT", dev + "/site/nowhere", ``, 404},
		{"move of nobody", "PUT", "/v2/device/nobody/site/" + c.a.SiteUID("Contoso"), ``, 404},
		{"site without name", "PUT", "/v2/site", `{"description":"d"}`, 400},
		{"site with a blank name", "PUT", "/v2/site", `{"name":" "}`, 400},
		{"site twice", "PUT", "/v2/site", `{"name":"Contoso"}`, 409},
		{"site renamed to another", "POST", site, `{"name":"Fabrikam"}`, 409},
		{"site with its own name", "POST", site, `{"name":"Contoso"}`, 200},
		{"site with a bad flag", "POST", site, `{"name":"Contoso","onDemand":"yes"}`, 400},
		{"unknown site", "POST", "/v2/site/nowhere", `{"name":"x"}`, 404},
		{"proxy type", "POST", site + "/settings/proxy", `{"host":"h","port":1,"type":"ftp"}`, 400},
		{"proxy port", "POST", site + "/settings/proxy", `{"host":"h","port":70000}`, 400},
		{"proxy empty", "POST", site + "/settings/proxy", ``, 400},
		{"variable without name", "PUT", "/v2/account/variable", `{"value":"x"}`, 400},
		{"variable twice", "PUT", "/v2/account/variable", `{"name":"CompanyName","value":"x"}`, 409},
		{"unknown variable", "POST", "/v2/account/variable/5", `{"name":"a","value":"x"}`, 404},
		{"variable that is no number", "DELETE", "/v2/account/variable/x", ``, 400},
		{"variable deleted", "DELETE", "/v2/account/variable/1005", ``, 200},
		{"variable deleted again", "DELETE", "/v2/account/variable/1005", ``, 404},
		{"job without name", "PUT", dev + "/quickjob", `{"jobComponent":{"componentUid":"` + component + `"}}`, 400},
		{"job without component", "PUT", dev + "/quickjob", `{"jobName":"j"}`, 400},
		{"job with an unknown component", "PUT", dev + "/quickjob", `{"jobName":"j","jobComponent":{"componentUid":"x"}}`, 404},
		{"job on nobody", "PUT", "/v2/device/nobody/quickjob", `{"jobName":"j","jobComponent":{"componentUid":"` + component + `"}}`, 404},
		{"unknown alert", "POST", "/v2/alert/x/resolve", ``, 404},
		{"mute of anything", "POST", "/v2/alert/x/mute", ``, 200},
		{"unknown path", "POST", "/v2/device", ``, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := c.a.Counts()
			c.want(tt.want, tt.method, tt.path, tt.body)
			if applied := c.a.Counts().Applied - before.Applied; (applied == 1) != (tt.want == 200) {
				t.Errorf("applied %d after status %d", applied, tt.want)
			}
		})
	}
	if c.a.Jobs() != 0 {
		t.Errorf("refused jobs left %d", c.a.Jobs())
	}
}

func TestUDFWritesKeepSetAndClear(t *testing.T) {
	c := newTester(t, Config{Devices: 2})
	uid := c.a.DeviceUIDs()[0]
	path := "/v2/device/" + uid + "/udf"
	for _, step := range []struct{ body, want string }{
		{`{"udf1":"a","udf2":"b","udf3":"c"}`, "a|b|c"},
		{`{"udf1":"x"}`, "x|b|c"},
		{`{"udf2":""}`, "x||c"},
		{`{"udf3":null}`, "x||"},
		{`{"udf3":"Größe ≤ 5″ 😀"}`, "x||Größe ≤ 5″ 😀"},
		{`{}`, "x||Größe ≤ 5″ 😀"},
	} {
		c.want(http.StatusOK, http.MethodPost, path, step.body)
		if got := c.a.UDF(uid, "udf1") + "|" + c.a.UDF(uid, "udf2") + "|" + c.a.UDF(uid, "udf3"); got != step.want {
			t.Errorf("after %s: %s, want %s", step.body, got, step.want)
		}
	}
	if page := c.get("/v2/account/devices"); !strings.Contains(page, `"udf1":"x","udf2":null`) {
		t.Error("the list does not show the write, or no null for the cleared field")
	}
	// A refused write sets nothing of what it holds.
	c.want(http.StatusBadRequest, http.MethodPost, path, `{"udf1":"y","udf301":"z"}`)
	if got := c.a.UDF(uid, "udf1"); got != "x" {
		t.Errorf("a refused write set udf1 to %q", got)
	}
	if err := c.a.SetUDF(uid, "udf1", "by hand"); err != nil || c.a.UDF(uid, "udf1") != "by hand" {
		t.Errorf("SetUDF: %v", err)
	}
	if err := c.a.SetUDF(uid, "udf301", "x"); err == nil {
		t.Error("SetUDF accepts udf301")
	}
}

func TestWarrantyAndMove(t *testing.T) {
	c := newTester(t, Config{Devices: 60, UDFs: 1})
	uid := c.a.DeviceUIDs()[0]
	var dev map[string]any
	show := func() map[string]any { dev = nil; decode(t, c.get("/v2/device/"+uid), &dev); return dev }
	host := show()["hostname"]
	c.want(http.StatusOK, http.MethodPost, "/v2/device/"+uid+"/warranty", `{"warrantyDate":"2030-05-06"}`)
	if show()["warrantyDate"] != "2030-05-06" {
		t.Errorf("warranty %v", dev["warrantyDate"])
	}
	c.want(http.StatusOK, http.MethodPost, "/v2/device/"+uid+"/warranty", `{"warrantyDate":null}`)
	if show()["warrantyDate"] != nil {
		t.Errorf("warranty %v", dev["warrantyDate"])
	}
	to := c.a.SiteUID(siteManaged)
	before, _ := c.walk("/v2/site/"+to+"/devices", "devices")
	for range 2 { // the second move is none
		c.want(http.StatusOK, http.MethodPut, "/v2/device/"+uid+"/site/"+to, "")
	}
	after, _ := c.walk("/v2/site/"+to+"/devices", "devices")
	if show()["siteName"] != siteManaged || dev["hostname"] != host || len(after) != len(before)+1 {
		t.Errorf("moved: %v in %v, site holds %d after %d", dev["hostname"], dev["siteName"], len(after), len(before))
	}
	if log := c.get("/v2/activity-logs?actions=move.device&size=1"); !strings.Contains(log, uid) {
		t.Errorf("the move is not in the log: %s", log)
	}
}

func TestSiteUpdateBlanksWhatItLeavesOut(t *testing.T) {
	c := newTester(t, Config{Devices: 10})
	var made, got map[string]any
	decode(t, c.want(http.StatusOK, http.MethodPut, "/v2/site", `{"name":"New","description":"d","notes":"n","splashtopAutoInstall":true,"proxySettings":{"host":"p","port":1}}`), &made)
	path := "/v2/site/" + made["uid"].(string)
	if made["notes"] != "n" || made["splashtopAutoInstall"] != true || made["proxySettings"] == nil {
		t.Errorf("created %v", made)
	}
	c.want(http.StatusOK, http.MethodPost, path, `{"name":"New"}`)
	decode(t, c.get(path), &got)
	if got["description"] != "" || got["notes"] != nil || got["splashtopAutoInstall"] != false || got["proxySettings"] == nil {
		t.Errorf("after the update %v", got)
	}
	if sites, _ := c.walk("/v2/account/sites?siteName=new", "sites"); len(sites) != 1 {
		t.Errorf("%d sites called new", len(sites))
	}
	for _, want := range []int{http.StatusOK, http.StatusNoContent} {
		c.want(want, http.MethodDelete, path+"/settings/proxy", "")
	}
	c.want(http.StatusOK, http.MethodPost, path+"/settings/proxy", `{"host":"h","port":8080,"type":"socks5","password":"hush"}`)
	if settings := c.get(path + "/settings"); !strings.Contains(settings, `"port":8080`) || strings.Contains(settings, "hush") {
		t.Errorf("settings %s", settings)
	}
}

// The devices of a site that gets another name say so, and keep their own names.
func TestSiteGetsAnotherName(t *testing.T) {
	c := newTester(t, Config{Devices: 60})
	site := c.a.SiteUID("Contoso")
	if err := c.a.AddDevice(fmt.Sprintf(`{"uid":"given","hostname":"GIVEN","siteUid":%q,"siteName":"Contoso"}`, site)); err != nil {
		t.Fatal(err)
	}
	before, _ := c.walk("/v2/site/"+site+"/devices", "devices")
	c.want(http.StatusOK, http.MethodPost, "/v2/site/"+site, `{"name":"Zenith"}`)
	after, _ := c.walk("/v2/site/"+site+"/devices", "devices")
	if len(after) != len(before) || len(after) < 2 {
		t.Fatalf("%d devices, %d before", len(after), len(before))
	}
	for i, dev := range after {
		if dev["siteName"] != "Zenith" || dev["hostname"] != before[i]["hostname"] || dev["description"] != before[i]["description"] {
			t.Errorf("%v in %v, was %v", dev["hostname"], dev["siteName"], before[i]["hostname"])
		}
	}
}

func TestDuplicateNamesCanBeAccepted(t *testing.T) {
	c := newTester(t, Config{Devices: 10, DuplicateNames: true})
	c.want(http.StatusOK, http.MethodPut, "/v2/site", `{"name":"Contoso"}`)
	c.want(http.StatusOK, http.MethodPut, "/v2/account/variable", `{"name":"CompanyName","value":"x"}`)
	if got, _ := c.walk("/v2/account/sites?siteName=Contoso", "sites"); len(got) != 2 {
		t.Errorf("%d sites", len(got))
	}
}

func TestVariables(t *testing.T) {
	c := newTester(t, Config{Devices: 10})
	site := "/v2/site/" + c.a.SiteUID("Fabrikam") + "/variable"
	for _, tt := range []struct{ list, write string }{{"/v2/account/variables", "/v2/account/variable"}, {site + "s", site}} {
		c.want(http.StatusOK, http.MethodPut, tt.write, `{"name":"Fresh","value":"v1"}`)
		c.want(http.StatusOK, http.MethodPut, tt.write, `{"name":"Hidden","value":"hush","masked":true}`)
		find := func(name string) map[string]any {
			list, _ := c.walk(tt.list, "variables")
			for _, v := range list {
				if v["name"] == name {
					return v
				}
			}
			return nil
		}
		if v := find("Hidden"); v["value"] != masked || v["masked"] != true {
			t.Errorf("masked variable %v", v)
		}
		id := fmt.Sprintf("/%.0f", find("Fresh")["id"])
		c.want(http.StatusOK, http.MethodPost, tt.write+id, `{"name":"Fresh","value":"v2"}`)
		if v := find("Fresh"); v["value"] != "v2" {
			t.Errorf("updated variable %v", v)
		}
		c.want(http.StatusOK, http.MethodDelete, tt.write+id, "")
		if v := find("Fresh"); v != nil {
			t.Errorf("deleted variable %v", v)
		}
		c.want(http.StatusNotFound, http.MethodDelete, tt.write+id, "")
	}
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/site/"+c.a.SiteUID(siteOnDemand)+"/variables", "")
}

func TestResolveMovesAnAlert(t *testing.T) {
	c := newTester(t, Config{Devices: 60, AlertTotals: true})
	open, _ := c.walk("/v2/account/alerts/open", "alerts")
	old, _ := c.walk("/v2/account/alerts/resolved", "alerts")
	uid := open[0]["alertUid"].(string)
	for range 2 {
		c.want(http.StatusOK, http.MethodPost, "/v2/alert/"+uid+"/resolve", "")
	}
	nowOpen, _ := c.walk("/v2/account/alerts/open", "alerts")
	nowOld, _ := c.walk("/v2/account/alerts/resolved", "alerts")
	var alert map[string]any
	decode(t, c.get("/v2/alert/"+uid), &alert)
	if len(nowOpen) != len(open)-1 || len(nowOld) != len(old)+1 || alert["resolved"] != true || alert["resolvedBy"] == nil || alert["resolvedOn"] == nil {
		t.Errorf("%d of %d open, %d of %d resolved, alert %v", len(nowOpen), len(open), len(nowOld), len(old), alert)
	}
}

func TestQuickJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 100, UDFs: 1})
		items, _ := c.walk("/v2/account/devices", "devices")
		pickOne := func(online bool) string {
			for _, it := range items {
				if it["online"] == online && it["deviceClass"] == classDevice {
					return it["uid"].(string)
				}
			}
			return ""
		}
		body := `{"jobName":"Fix it","jobComponent":{"componentUid":"` + c.a.ComponentUID(1) + `","variables":[{"name":"a","value":"b"}]}}`
		send := func(dev string) (uid string) {
			var got struct{ Job struct{ UID, Status string } }
			decode(t, c.want(http.StatusOK, http.MethodPut, "/v2/device/"+dev+"/quickjob", body), &got)
			if got.Job.Status != "active" {
				t.Errorf("a new job is %s", got.Job.Status)
			}
			return got.Job.UID
		}
		on, off := pickOne(true), pickOne(false)
		first, second, waiting := send(on), send(on), send(off)
		if first == second || c.a.Jobs() != 3 {
			t.Errorf("two sends made %d jobs", c.a.Jobs())
		}
		status := func(job, dev string) string {
			var j struct{ Status string }
			var r struct{ JobDeploymentStatus string }
			decode(t, c.get("/v2/job/"+job), &j)
			decode(t, c.get("/v2/job/"+job+"/results/"+dev), &r)
			return j.Status + " " + r.JobDeploymentStatus
		}
		for _, step := range []struct {
			after   time.Duration
			online  []string
			offline string
		}{
			{0, []string{"active Pending"}, "active Pending"},
			{20 * time.Second, []string{"active Running"}, "active Pending"},
			{2 * time.Minute, []string{"completed Success", "completed Warning", "completed Failure"}, "active Pending"},
			{8 * 24 * time.Hour, []string{"completed Success", "completed Warning", "completed Failure"}, "completed Expired"},
		} {
			time.Sleep(step.after)
			c.login("key", "secret") // tokens do not live for a week
			if got := status(first, on); !strings.Contains(strings.Join(step.online, "|"), got) {
				t.Errorf("after %v online: %s", step.after, got)
			}
			if got := status(waiting, off); got != step.offline {
				t.Errorf("after %v offline: %s", step.after, got)
			}
		}
		if out := c.get("/v2/job/" + first + "/results/" + on + "/stdout"); !strings.Contains(out, "done") {
			t.Errorf("stdout %s", out)
		}
		if out := c.get("/v2/job/" + waiting + "/results/" + off + "/stdout"); out != "[]" {
			t.Errorf("stdout of a job that never ran: %s", out)
		}
		if parts := c.get("/v2/job/" + first + "/components"); !strings.Contains(parts, `"variables":[{"name":"a","value":"b"}]`) {
			t.Errorf("components %s", parts)
		}
		c.want(http.StatusNotFound, http.MethodGet, "/v2/job/"+first+"/results/"+off, "")
		c.want(http.StatusNotFound, http.MethodGet, "/v2/job/nothing", "")
	})
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1, Key: "k", Secret: "s", TokenLifetime: time.Hour})
		for _, tt := range []struct {
			key, secret string
			want        int
		}{{"key", "secret", 401}, {"k", "s\n", 401}, {"k", "", 401}, {"", "s", 401}, {"k", "s", 200}} {
			if got := c.login(tt.key, tt.secret); got != tt.want {
				t.Errorf("login %q/%q: %d, want %d", tt.key, tt.secret, got, tt.want)
			}
		}
		old := c.token
		c.login("k", "s")
		for _, token := range []string{old, c.token} { // old ones stay good
			c.token = token
			c.get("/v2/account")
		}
		time.Sleep(time.Hour)
		c.want(http.StatusUnauthorized, http.MethodGet, "/v2/account", "")
		c.get("/v2/system/status") // needs none
		c.token = ""
		c.want(http.StatusUnauthorized, http.MethodGet, "/v2/account", "")
		c.get("/v2/system/status")

		c.login("k", "s")
		var pair struct{ APIAccessKey, APISecretKey string }
		decode(t, c.want(http.StatusOK, http.MethodPost, "/v2/user/resetApiKeys", ""), &pair)
		if got := c.login("k", "s"); got != 401 {
			t.Errorf("the old pair: %d", got)
		}
		if got := c.login(pair.APIAccessKey, pair.APISecretKey); got != 200 {
			t.Errorf("the new pair: %d", got)
		}
		for _, rec := range c.a.Log() {
			if rec.Operation == opToken && (rec.Body != "" || rec.BodyHash != "") {
				t.Error("a secret is in the log")
			}
		}
	})
	single := newTester(t, Config{Devices: 1, SingleToken: true})
	old := single.token
	single.login("a", "b")
	single.get("/v2/account")
	single.token = old
	single.want(http.StatusUnauthorized, http.MethodGet, "/v2/account", "")
}

func TestLoginIsStrict(t *testing.T) {
	a, err := New(Config{Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, user, body string
		want               int
	}{
		{"POST", clientID, "grant_type=password&username=a&password=b", 200},
		{"POST", "", "grant_type=password&username=a&password=b", 401},
		{"POST", clientID, "grant_type=client_credentials", 400},
		{"POST", clientID, "%zz", 400},
		{"GET", clientID, "", 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, a.BaseURL()+tokenPath, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(tt.user, clientSecret)
		res, err := a.Transport().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s %q %q: %d, want %d", tt.method, tt.user, tt.body, res.StatusCode, tt.want)
		}
	}
}
