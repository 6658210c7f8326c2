package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// object is an answer of the API as the standard library decodes it.
type object = map[string]any

// witness asks a simulated account by itself: without the client, the works and
// the writers of the program, so that an export can be held against it.
type witness struct {
	t      *testing.T
	base   string
	client *http.Client
	token  string
}

func newWitness(t *testing.T, account *rmmsim.Account) *witness {
	t.Helper()
	w := &witness{t: t, base: strings.TrimSuffix(account.BaseURL(), "/"), client: &http.Client{Transport: account.Transport()}}
	form := url.Values{"grant_type": {"password"}, "username": {simKey}, "password": {simSecret}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+"/auth/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("public-client", "public")
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&token); err != nil || token.Access == "" {
		t.Fatalf("no token: %v %s", err, resp.Status)
	}
	w.token = token.Access
	return w
}

// get asks for one path below /api; the answer is nil if it is refused with 400
// or 404.
func (w *witness) get(path string) any {
	w.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = w.base + "/api" + path
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusNotFound:
		return nil
	default:
		w.t.Fatalf("%s: %s", path, resp.Status)
	}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	return v
}

// one asks for a single object, or nothing.
func (w *witness) one(path string) []object {
	w.t.Helper()
	if o, ok := w.get(path).(object); ok {
		return []object{o}
	}
	return nil
}

// array asks for a bare array.
func (w *witness) array(path string) (list []object) {
	w.t.Helper()
	all, _ := w.get(path).([]any)
	for _, v := range all {
		list = append(list, v.(object))
	}
	return list
}

// list asks for all pages of a list.
func (w *witness) list(path, element string) (list []object) {
	w.t.Helper()
	for path != "" {
		page, ok := w.get(path).(object)
		if !ok {
			return nil
		}
		all, ok := page[element].([]any)
		if !ok {
			w.t.Fatalf("%s has no %s", path, element)
		}
		for _, v := range all {
			list = append(list, v.(object))
		}
		path, _ = page["pageDetails"].(object)["nextPageUrl"].(string)
		if element == "activities" && len(all) == 0 {
			break // the log names a next page for ever
		}
	}
	return list
}

// said is a field of an answer as text.
func said(o object, name string) string {
	switch v := o[name].(type) {
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// each asks for something of every parent and adds fields of the parent.
func each(parents []object, fields map[string]string, ask func(object) []object) (list []object) {
	for _, p := range parents {
		for _, o := range ask(p) {
			o = maps.Clone(o)
			for name, from := range fields {
				o[name] = p[from]
			}
			list = append(list, o)
		}
	}
	return list
}

// valueAt is the value at a path of names, joined by slashes.
func valueAt(o object, path string) any {
	var v any = o
	for step := range strings.SplitSeq(path, "/") {
		inner, ok := v.(object)
		if !ok {
			return nil
		}
		v = inner[step]
	}
	return v
}

// same is a value in one form, whoever has decoded it.
func same(v any) string {
	if s, ok := v.(string); ok && (strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")) {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		var inner any
		if dec.Decode(&inner) == nil {
			v = inner
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// readCase is one read of the API: how a job asks for it and what must come.
type readCase struct {
	from    string
	job     string   // further lines of the export
	columns []string // paths with slashes between their steps, a format behind a colon
	want    func() []object
	note    string // part of what the run says
}

// readCases are the 39 reads of the API on an account.
func readCases(t *testing.T, w *witness) []readCase {
	t.Helper()
	devices := w.list("/v2/account/devices?max=250", "devices")
	sites := w.list("/v2/account/sites?max=250", "sites")
	ofClass := func(class string) (list []object) {
		for _, d := range devices {
			if d["deviceClass"] == class {
				list = append(list, d)
			}
		}
		return list
	}
	site := map[string]string{"siteUid": "uid", "siteName": "name"}
	device := map[string]string{"deviceUid": "uid", "hostname": "hostname", "siteUid": "siteUid", "siteName": "siteName"}
	perSite := func(path, element string) func() []object {
		return func() []object {
			return each(sites, site, func(s object) []object { return w.list("/v2/site/"+url.PathEscape(said(s, "uid"))+path, element) })
		}
	}
	perDevice := func(list []object, before, after, element string) func() []object {
		return func() []object {
			return each(list, device, func(d object) []object {
				if element == "" {
					return w.one(before + said(d, "uid") + after)
				}
				return w.list(before+said(d, "uid")+after, element)
			})
		}
	}
	list := func(path, element string) func() []object {
		return func() []object { return w.list(path, element) }
	}
	var macs []string
	for _, d := range ofClass("device")[:5] {
		for _, audit := range w.one("/v2/audit/device/" + said(d, "uid")) {
			for _, nic := range audit["nics"].([]any) {
				macs = append(macs, nic.(object)["macAddress"].(string))
			}
		}
	}
	slices.Sort(macs)
	macs = slices.Compact(macs)
	perMAC := func(path string) func() []object {
		return func() (all []object) {
			for _, m := range macs {
				all = append(all, each(w.array(path+m), nil, func(o object) []object { return []object{o} })...)
				for i := range all {
					if _, has := all[i]["macAddress"]; !has {
						all[i]["macAddress"] = m
					}
				}
			}
			return all
		}
	}
	from, until := time.Now().UTC().Add(-48*time.Hour).Format(time.RFC3339), time.Now().UTC().Add(-42*time.Hour).Format(time.RFC3339)
	span := "from=" + url.QueryEscape(from) + "&until=" + url.QueryEscape(until)
	log := w.list("/v2/activity-logs?size=100&"+span, "activities")
	var jobUIDs []string
	var results strings.Builder
	type run struct{ job, device string }
	var runs []run
	failed := false // there is a job that wrote to its standard error
	for _, e := range log {
		var details object
		raw, _ := e["details"].(string)
		if json.Unmarshal([]byte(raw), &details) != nil || said(details, "job.uid") == "" || len(jobUIDs) >= 12 && failed {
			continue
		}
		r := run{said(details, "job.uid"), said(details, "device.uid")}
		bad := len(w.array("/v2/job/"+r.job+"/results/"+r.device+"/stderr")) > 0
		if len(jobUIDs) >= 12 && !bad {
			continue
		}
		failed = failed || bad
		jobUIDs, runs = append(jobUIDs, r.job), append(runs, r)
		fmt.Fprintf(&results, "%s: [%s], ", r.job, r.device)
	}
	if len(jobUIDs) < 5 || len(macs) < 5 {
		t.Fatalf("too little to compare: %d jobs, %d addresses", len(jobUIDs), len(macs))
	}
	perRun := func(ask func(r run) []object) func() []object {
		return func() (all []object) {
			for _, r := range runs {
				for _, o := range ask(r) {
					o["jobUid"], o["deviceUid"] = r.job, r.device
					all = append(all, o)
				}
			}
			return all
		}
	}
	perJob := func(ask func(uid string) []object) func() []object {
		return func() (all []object) {
			for _, uid := range jobUIDs {
				for _, o := range ask(uid) {
					o["jobUid"] = uid
					all = append(all, o)
				}
			}
			return all
		}
	}
	var alertUIDs []string
	for _, a := range w.list("/v2/account/alerts/open?max=250", "alerts")[:7] {
		alertUIDs = append(alertUIDs, said(a, "alertUid"))
	}
	uids := func(list []string) string { return "uids: [" + strings.Join(list, ", ") + "]" }
	jobs := "jobs: {" + strings.TrimSuffix(results.String(), ", ") + "}"
	deviceColumns := []string{"id", "uid", "siteName", "hostname", "deviceClass", "deviceType/category", "online", "lastSeen:ms", "antivirus/antivirusStatus", "udf/udf1", "warrantyDate"}
	siteColumns := []string{"id", "uid", "name", "onDemand", "devicesStatus/numberOfDevices", "proxySettings", "autotaskCompanyId"}
	alertColumns := []string{"alertUid", "priority", "timestamp:ms", "alertSourceInfo/deviceUid", "alertContext/@class", "alertContext", "resolved", "muted", "responseActions"}
	auditColumns := []string{"deviceUid", "hostname", "siteUid", "siteName", "systemInfo/manufacturer", "systemInfo/model", "nics"}
	whose := []string{"siteUid", "siteName", "deviceUid", "hostname"}

	return []readCase{
		{from: "account", columns: []string{"id", "uid", "name", "currency", "descriptor/timeZone", "devicesStatus/numberOfManagedDevices"}, want: func() []object { return w.one("/v2/account") }},
		{from: "devices", columns: deviceColumns, want: list("/v2/account/devices?max=250", "devices")},
		{from: "sites", columns: siteColumns, want: list("/v2/account/sites?max=250", "sites")},
		{from: "users", columns: []string{"username", "firstName", "email", "telephone", "created:ms", "lastAccess:ms", "disabled"}, want: list("/v2/account/users", "users")},
		{from: "variables", columns: []string{"id", "name", "value", "masked"}, want: list("/v2/account/variables", "variables")},
		{from: "components", columns: []string{"id", "uid", "name", "description", "categoryCode", "credentialsRequired", "variables"}, want: list("/v2/account/components", "components")},
		{from: "dnet-site-mappings", columns: []string{"id", "uid", "name", "dattoNetworkingNetworkIds", "portalUrl"}, want: list("/v2/account/dnet-site-mappings", "dnetSiteMappings")},
		{from: "alerts-open", columns: alertColumns, want: list("/v2/account/alerts/open?max=250", "alerts")},
		{from: "alerts-resolved", columns: append(alertColumns, "resolvedBy", "resolvedOn:ms"), want: list("/v2/account/alerts/resolved?max=250", "alerts")},

		{from: "site", columns: siteColumns, want: func() []object {
			return each(sites, nil, func(s object) []object { return w.one("/v2/site/" + url.PathEscape(said(s, "uid"))) })
		}},
		{from: "site-devices", columns: deviceColumns, want: perSite("/devices?max=250", "devices")},
		{from: "site-network-interfaces", columns: []string{"id", "uid", "siteName", "hostname", "intIpAddress", "nics"}, want: perSite("/devices/network-interface?max=250", "devices")},
		{from: "site-variables", columns: []string{"siteUid", "siteName", "id", "name", "value", "masked"}, want: perSite("/variables", "variables")},
		{from: "site-filters", columns: []string{"siteUid", "siteName", "id", "name", "type", "dateCreate:ms"}, want: perSite("/filters", "filters")},
		{from: "site-settings", columns: []string{"siteUid", "siteName", "generalSettings/name", "generalSettings/onDemand", "proxySettings/host", "mailRecipients"}, want: func() []object {
			return each(sites, site, func(s object) []object { return w.one("/v2/site/" + url.PathEscape(said(s, "uid")) + "/settings") })
		}},
		{from: "site-alerts-open", columns: append(alertColumns, "siteUid", "siteName"), want: perSite("/alerts/open?max=250", "alerts")},
		{from: "site-alerts-resolved", columns: append(alertColumns, "siteUid", "siteName"), want: perSite("/alerts/resolved?max=250", "alerts")},

		{from: "device", columns: deviceColumns, want: func() []object {
			return each(devices, nil, func(d object) []object { return w.one("/v2/device/" + said(d, "uid")) })
		}},
		{from: "device-by-id", columns: deviceColumns, want: func() []object {
			return each(devices, nil, func(d object) []object { return w.one("/v2/device/id/" + said(d, "id")) })
		}},
		{from: "device-by-mac", job: "macs: [" + strings.Join(macs, ", ") + "]", columns: append(deviceColumns, "macAddress"), want: perMAC("/v2/device/macAddress/")},
		{from: "device-alerts-open", columns: append(alertColumns, whose...), want: perDevice(devices, "/v2/device/", "/alerts/open?max=250", "alerts")},
		{from: "device-alerts-resolved", columns: append(alertColumns, whose...), want: perDevice(devices, "/v2/device/", "/alerts/resolved?max=250", "alerts")},
		{
			from: "device-audit", columns: append(auditColumns, "bios/serialNumber", "bios/releaseDate:ms", "logicalDisks", "physicalMemory"),
			want: perDevice(ofClass("device"), "/v2/audit/device/", "", ""), note: "they are not of class device",
		},
		{from: "device-software", columns: append(whose, "name", "version"), want: perDevice(ofClass("device"), "/v2/audit/device/", "/software?max=250", "software"), note: "they are not of class device"},
		{from: "device-audit-by-mac", job: "macs: [" + strings.Join(macs, ", ") + "]", columns: []string{"macAddress", "portalUrl", "bios/serialNumber", "nics"}, want: perMAC("/v2/audit/device/macAddress/")},
		{from: "printer-audit", columns: append(auditColumns, "printer/printedPageCount", "printerMarkerSupplies"), want: perDevice(ofClass("printer"), "/v2/audit/printer/", "", ""), note: "they are not of class printer"},
		{from: "esxi-audit", columns: append(auditColumns, "guests", "datastores", "processors"), want: perDevice(ofClass("esxihost"), "/v2/audit/esxihost/", "", ""), note: "they are not of class esxihost"},

		{from: "alert", job: uids(alertUIDs), columns: alertColumns, want: func() (all []object) {
			for _, uid := range alertUIDs {
				all = append(all, w.one("/v2/alert/"+uid)...)
			}
			return all
		}},
		{from: "job", job: uids(jobUIDs), columns: []string{"id", "uid", "name", "dateCreated:ms", "status"}, want: perJob(func(uid string) []object { return w.one("/v2/job/" + uid) })},
		{from: "job-components", job: uids(jobUIDs), columns: []string{"jobUid", "uid", "name", "variables"}, want: perJob(func(uid string) []object { return w.list("/v2/job/"+uid+"/components", "jobComponents") })},
		{from: "job-results", job: jobs, columns: []string{"jobUid", "deviceUid", "ranOn:ms", "jobDeploymentStatus", "componentResults"}, want: perRun(func(r run) []object { return w.one("/v2/job/" + r.job + "/results/" + r.device) })},
		{from: "job-stdout", job: jobs, columns: []string{"jobUid", "deviceUid", "componentUid", "componentName", "stdData"}, want: perRun(func(r run) []object { return w.array("/v2/job/" + r.job + "/results/" + r.device + "/stdout") })},
		{from: "job-stderr", job: jobs, columns: []string{"jobUid", "deviceUid", "componentUid", "stdData"}, want: perRun(func(r run) []object { return w.array("/v2/job/" + r.job + "/results/" + r.device + "/stderr") })},
		{from: "default-filters", columns: []string{"id", "name", "description", "type"}, want: list("/v2/filter/default-filters", "filters")},
		{from: "custom-filters", columns: []string{"id", "name", "type", "lastUpdated:ms"}, want: list("/v2/filter/custom-filters", "filters")},
		{
			from: "activity-logs", job: "filter: {from: '" + from + "', until: '" + until + "', size: 100}",
			columns: []string{"id", "entity", "category", "action", "date:raw", "site/name", "hostname", "user/userName", "details:raw", "hasStdOut"}, want: func() []object { return log },
		},
		{from: "system-status", columns: []string{"version", "status", "started:ms"}, want: func() []object { return w.one("/v2/system/status") }},
		{from: "request-rate", columns: []string{"slidingTimeWindowSizeSeconds", "accountUid", "accountRateLimit", "accountCutOffRatio", "accountWriteRateLimit"}, want: func() []object { return w.one("/v2/system/request_rate") }},
		{from: "pagination", columns: []string{"max"}, want: func() []object { return w.one("/v2/system/pagination") }},
	}
}

// TestReads exports every read of the API and compares each value with what the
// account says of itself.
func TestReads(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=60,udfs=30,"+fast)
	w := newWitness(t, b.account)
	cases := readCases(t, w)
	var names, reads []string
	for _, c := range cases {
		names = append(names, c.from)
	}
	for _, op := range rmm.Operations() {
		if !op.IsWrite() {
			reads = append(reads, op.Name)
		}
	}
	if !slices.Equal(names, reads) || len(reads) != 39 {
		t.Fatalf("the table has\n%s\nthe API\n%s", names, reads)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "exports.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range reads {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/exports.md does not tell how to reach %s", name)
		}
	}
	for _, c := range cases {
		t.Run(c.from, func(t *testing.T) { c.check(t, b) })
	}
}

// check runs the export of one read.
func (c readCase) check(t *testing.T, b *bench) {
	var columns []string
	for i, column := range c.columns {
		path, format, _ := strings.Cut(column, ":")
		columns = append(columns, fmt.Sprintf("{c%d: {path: '%s', format: %s}}", i, strings.ReplaceAll(path, "/", "."), map[string]string{"": "json"}[format]+format))
	}
	job := fmt.Sprintf("version: 1\nexport:\n  from: %s\n  %s\n  columns: [%s]\n  to: %s.jsonl\n", c.from, c.job, strings.Join(columns, ", "), c.from)
	res := b.finish(exitOK, "state", "run", b.write(c.from+".yaml", job))
	if notes := fmt.Sprint(res["notes"]); !strings.Contains(notes, c.note) {
		t.Errorf("notes %s, want one with %q", notes, c.note)
	}
	got := c.rowsOf(t, filepath.Join(b.dir, c.from+".jsonl"))
	var want []string
	for _, o := range c.want() {
		var cells []string
		for _, column := range c.columns {
			path, _, _ := strings.Cut(column, ":")
			cells = append(cells, same(valueAt(o, path)))
		}
		want = append(want, strings.Join(cells, " "))
	}
	slices.Sort(want)
	if len(want) == 0 {
		t.Fatal("the account has none: nothing is compared")
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, the account has %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("row\n%s\nthe account has\n%s", got[i], want[i])
		}
	}
}

// rowsOf reads an export back, sorted.
func (c readCase) rowsOf(t *testing.T, path string) (rows []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.UseNumber()
	for {
		var row object
		if err := dec.Decode(&row); err == io.EOF {
			slices.Sort(rows)
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		var cells []string
		for i := range c.columns {
			cells = append(cells, same(row[fmt.Sprintf("c%d", i)]))
		}
		rows = append(rows, strings.Join(cells, " "))
	}
}
