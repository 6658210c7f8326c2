package rmmsim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"rmmjob/internal/rmm"
)

// deviations lists where the real service is known to differ from its own
// description, and the simulator follows the service.
var deviations = []struct {
	reason  string
	applies func(pointer string, value any, iso bool) bool
}{
	{"every field may be null, although the description allows it nowhere", func(_ string, v any, _ bool) bool { return v == nil }},
	{"dates come as milliseconds, although described as texts", func(p string, v any, iso bool) bool {
		_, number := v.(float64)
		return number && !iso && dateField.MatchString(p)
	}},
	{"alert contexts match none of the 27 described ones", func(p string, _ any, _ bool) bool { return strings.Contains(p, "alertContext") }},
}

var dateField = regexp.MustCompile(`/(lastSeen|lastReboot|lastAuditDate|creationDate|timestamp|resolvedOn|actionTime|created|lastAccess|dateCreate|lastUpdated|dateCreated|ranOn|started|releaseDate|driverFileLastModified)$`)

// absent lists fields of the description that the service does not send.
var absent = map[string]string{
	"receives":   "write-only",
	"totalCount": "left out on open alerts and in the activity log",
}

// successSchema digs the answer of an operation out of the description, which
// hangs it on an error status.
func successSchema(op *openapi3.Operation) *openapi3.SchemaRef {
	for _, code := range slices.Sorted(maps.Keys(op.Responses.Map())) {
		for _, media := range op.Responses.Map()[code].Value.Content {
			if media.Schema != nil {
				return media.Schema
			}
		}
	}
	return nil
}

// everyOperation gives, for each operation, requests that must succeed. It
// asks the account for the uids.
func everyOperation(t *testing.T, c *tester) map[string][][2]string {
	t.Helper()
	items, _ := c.walk("/v2/account/devices", "devices")
	uid := map[string]string{}
	for _, it := range items {
		if it["lastAuditDate"] != nil || it["deviceClass"] == classNetwork {
			uid[it["deviceClass"].(string)] = it["uid"].(string)
		}
	}
	dev := uid[classDevice]
	n, _, _ := readUID(c.a.seed, kindDevice, dev)
	sites, _ := c.walk("/v2/account/sites", "sites")
	var siteUID string
	for _, s := range sites {
		if s["proxySettings"] != nil && s["onDemand"] == false {
			siteUID = s["uid"].(string)
		}
	}
	vars, _ := c.walk("/v2/site/"+siteUID+"/variables", "variables")
	openAlerts, _ := c.walk("/v2/account/alerts/open", "alerts")
	resolved, _ := c.walk("/v2/account/alerts/resolved", "alerts")
	alert := openAlerts[0]["alertUid"].(string)
	acts, _ := c.walk("/v2/activity-logs", "activities")
	var jobUID, jobDev string
	for _, e := range acts { // newest first: the last is old enough to be over
		if e["category"] == "job" {
			var d map[string]any
			decode(t, e["details"].(string), &d)
			jobUID, jobDev = d["job.uid"].(string), d["device.uid"].(string)
		}
	}
	variable := fmt.Sprintf("%.0f", vars[0]["id"])
	component := c.a.ComponentUID(0)
	list := func(paths ...string) (out [][2]string) {
		for _, p := range paths {
			out = append(out, [2]string{p, ""})
		}
		return out
	}
	body := func(path, body string) [][2]string { return [][2]string{{path, body}} }
	return map[string][][2]string{
		"account":                 list("/v2/account"),
		"devices":                 list("/v2/account/devices", "/v2/account/devices?page=1&max=7&hostname=a"),
		"sites":                   list("/v2/account/sites", "/v2/account/sites?siteName=con"),
		"users":                   list("/v2/account/users"),
		"variables":               list("/v2/account/variables"),
		"components":              list("/v2/account/components"),
		"dnet-site-mappings":      list("/v2/account/dnet-site-mappings"),
		"alerts-open":             list("/v2/account/alerts/open", "/v2/account/alerts/open?muted=true"),
		"alerts-resolved":         list("/v2/account/alerts/resolved"),
		"site":                    list("/v2/site/"+siteUID, "/v2/site/"+c.a.SiteUID(siteDeleted)),
		"site-devices":            list("/v2/site/" + siteUID + "/devices"),
		"site-network-interfaces": list("/v2/site/" + siteUID + "/devices/network-interface"),
		"site-variables":          list("/v2/site/" + siteUID + "/variables"),
		"site-filters":            list("/v2/site/" + siteUID + "/filters"),
		"site-settings":           list("/v2/site/" + siteUID + "/settings"),
		"site-alerts-open":        list("/v2/site/" + siteUID + "/alerts/open"),
		"site-alerts-resolved":    list("/v2/site/" + siteUID + "/alerts/resolved"),
		"device":                  list("/v2/device/"+dev, "/v2/device/"+uid[classNetwork]),
		"device-by-id":            list(fmt.Sprintf("/v2/device/id/%d", firstID+int64(n))),
		"device-by-mac":           list("/v2/device/macAddress/" + mac(macEthernet, n)),
		"device-alerts-open":      list("/v2/device/" + openAlerts[0]["alertSourceInfo"].(map[string]any)["deviceUid"].(string) + "/alerts/open"),
		"device-alerts-resolved":  list("/v2/device/" + resolved[0]["alertSourceInfo"].(map[string]any)["deviceUid"].(string) + "/alerts/resolved"),
		"device-audit":            list("/v2/audit/device/" + dev),
		"device-software":         list("/v2/audit/device/" + dev + "/software"),
		"device-audit-by-mac":     list("/v2/audit/device/macAddress/" + mac(macEthernet, n)),
		"printer-audit":           list("/v2/audit/printer/" + uid[classPrinter]),
		"esxi-audit":              list("/v2/audit/esxihost/" + uid[classESXi]),
		"alert":                   list("/v2/alert/"+alert, "/v2/alert/"+resolved[0]["alertUid"].(string)),
		"job":                     list("/v2/job/" + jobUID),
		"job-components":          list("/v2/job/" + jobUID + "/components"),
		"job-results":             list("/v2/job/" + jobUID + "/results/" + jobDev),
		"job-stdout":              list("/v2/job/" + jobUID + "/results/" + jobDev + "/stdout"),
		"job-stderr":              list("/v2/job/" + jobUID + "/results/" + jobDev + "/stderr"),
		"default-filters":         list("/v2/filter/default-filters"),
		"custom-filters":          list("/v2/filter/custom-filters"),
		"activity-logs":           list("/v2/activity-logs", "/v2/activity-logs?order=asc&size=3&entities=device"),
		"system-status":           list("/v2/system/status"),
		"request-rate":            list("/v2/system/request_rate"),
		"pagination":              list("/v2/system/pagination"),
		"site-create":             body("/v2/site", `{"name":"New one","notes":"n","proxySettings":{"host":"p","port":8080,"type":"socks5"}}`),
		"site-update":             body("/v2/site/"+siteUID, `{"name":"Renamed","description":"d"}`),
		"site-variable-create":    body("/v2/site/"+siteUID+"/variable", `{"name":"Fresh","value":"v","masked":true}`),
		"site-variable-update":    body("/v2/site/"+siteUID+"/variable/"+variable, `{"name":"Other","value":"v"}`),
		"site-variable-delete":    body("/v2/site/"+siteUID+"/variable/"+variable, ""),
		"site-proxy-create":       body("/v2/site/"+siteUID+"/settings/proxy", `{"host":"h","port":1,"type":"http","username":"u","password":"x"}`),
		"site-proxy-delete":       body("/v2/site/"+siteUID+"/settings/proxy", ""),
		"device-move":             body("/v2/device/"+dev+"/site/"+c.a.SiteUID(siteManaged), ""),
		"device-job-create":       body("/v2/device/"+dev+"/quickjob", `{"jobName":"j","jobComponent":{"componentUid":"`+component+`","variables":[{"name":"a","value":"b"}]}}`),
		"device-warranty-create":  body("/v2/device/"+dev+"/warranty", `{"warrantyDate":"2027-01-31"}`),
		"device-udf-set":          body("/v2/device/"+dev+"/udf", `{"udf1":"a","udf300":""}`),
		"alert-resolve":           body("/v2/alert/"+alert+"/resolve", ""),
		"account-variable-create": body("/v2/account/variable", `{"name":"Fresh","value":"v"}`),
		"account-variable-update": body("/v2/account/variable/1000", `{"name":"CompanyName","value":"v"}`),
		"account-variable-delete": body("/v2/account/variable/1001", ""),
		"alert-mute":              body("/v2/alert/"+alert+"/mute", ""),
		"alert-unmute":            body("/v2/alert/"+alert+"/unmute", ""),
		"user-reset-keys":         body("/v2/user/resetApiKeys", ""),
	}
}

// bodiless lists the writes that answer 200 with nothing at all.
var bodiless = []string{
	"site-variable-create", "site-variable-update", "site-variable-delete", "site-proxy-delete", "device-move", "device-warranty-create",
	"device-udf-set", "alert-resolve", "account-variable-create", "account-variable-update", "account-variable-delete", "alert-mute", "alert-unmute",
}

func TestAnswersMatchTheDescription(t *testing.T) {
	file := filepath.Join("..", "..", "..", "shared", "api", "datto-rmm-openapi.json")
	if _, err := os.Stat(file); err != nil {
		t.Skip("the description of the API is not at hand")
	}
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, iso := range []bool{false, true} {
		c := newTester(t, Config{Devices: 400, ISODates: iso})
		requests := everyOperation(t, c)
		used := map[string]bool{}
		for _, op := range rmm.Operations() {
			if len(requests[op.Name]) == 0 {
				t.Errorf("%s: no request in the test", op.Name)
			}
			described := doc.Paths.Value(op.Path).GetOperation(op.Method)
			for _, req := range requests[op.Name] {
				text := c.want(http.StatusOK, op.Method, req[0], req[1])
				if slices.Contains(bodiless, op.Name) {
					if text != "" {
						t.Errorf("%s: has the body %.100s", op.Name, text)
					}
					continue
				}
				schema := successSchema(described)
				if schema == nil {
					t.Fatalf("%s: no schema in the description", op.Name)
				}
				var value any
				decode(t, text, &value)
				for _, problem := range deviating(schema.Value.VisitJSON(value, openapi3.MultiErrors()), iso, used) {
					t.Errorf("%s %s: %s", op.Name, req[0], problem)
				}
				for _, problem := range slices.Compact(sameFields(schema.Value, value, "")) {
					t.Errorf("%s %s: %s", op.Name, req[0], problem)
				}
			}
		}
		for _, d := range deviations {
			if !used[d.reason] && (!iso || !strings.Contains(d.reason, "milliseconds")) {
				t.Errorf("deviation never met: %s", d.reason)
			}
		}
	}
}

// deviating gives the schema errors that no known deviation explains.
func deviating(err error, iso bool, used map[string]bool) (problems []string) {
	var many openapi3.MultiError
	if errors.As(err, &many) {
		for _, one := range many {
			problems = append(problems, deviating(one, iso, used)...)
		}
		return problems
	}
	var one *openapi3.SchemaError
	if !errors.As(err, &one) {
		if err != nil {
			problems = append(problems, err.Error())
		}
		return problems
	}
	pointer := "/" + strings.Join(one.JSONPointer(), "/")
	for _, d := range deviations {
		if d.applies(pointer, one.Value, iso) {
			used[d.reason] = true
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: %s (%v)", pointer, one.Reason, one.Value)}
}

// sameFields compares the field names of an answer with the described ones,
// both ways, which a schema check does not do.
func sameFields(schema *openapi3.Schema, value any, at string) (problems []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			problems = append(problems, sameFields(schema.Items.Value, item, at+"[]")...)
		}
	case map[string]any:
		if len(schema.Properties) == 0 || strings.HasSuffix(at, "alertContext") {
			return nil
		}
		for name, item := range v {
			prop := schema.Properties[name]
			if prop == nil {
				problems = append(problems, at+"/"+name+" is not described")
				continue
			}
			problems = append(problems, sameFields(prop.Value, item, at+"/"+name)...)
		}
		for name := range schema.Properties {
			if _, ok := v[name]; !ok && absent[name] == "" {
				problems = append(problems, at+"/"+name+" is missing")
			}
		}
	}
	return problems
}

func TestErrorBodyOfTheNewerBuilds(t *testing.T) {
	c := newTester(t, Config{Devices: 1})
	var got map[string]any
	decode(t, c.want(http.StatusNotFound, http.MethodGet, "/v2/device/nobody", ""), &got)
	if got["status"] != 404.0 || got["error"] != "Not Found" || got["path"] != "/v2/device/nobody" || got["timestamp"].(float64) < 1e12 || len(got) != 4 {
		t.Errorf("error body %v", got)
	}
}

func TestEveryOperationHasAHandler(t *testing.T) {
	names := map[string]bool{}
	for _, op := range rmm.Operations() {
		names[op.Name] = true
		if handlers[op.Name] == nil {
			t.Errorf("%s is not answered", op.Name)
		}
	}
	for name := range handlers {
		if !names[name] {
			t.Errorf("%s is answered but not in the catalogue", name)
		}
	}
}
