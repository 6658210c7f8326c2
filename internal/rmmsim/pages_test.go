package rmmsim

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// details gives the envelope of a page and the number of its elements.
func (c *tester) details(path, element string) (pageDetails, int) {
	c.t.Helper()
	var page struct{ PageDetails pageDetails }
	text := c.get(path)
	decode(c.t, text, &page)
	var lists map[string]any
	decode(c.t, text, &lists)
	return page.PageDetails, len(lists[element].([]any))
}

func TestPageEnvelope(t *testing.T) {
	const base = "https://sim-api.localhost/api/v2/account/devices?"
	c := newTester(t, Config{Devices: 5, UDFs: 1})
	for _, tt := range []struct {
		query      string
		count      int
		prev, next string
	}{
		{"", 5, "", ""},
		{"?max=2", 2, "", base + "max=2&page=1"},
		{"?max=2&page=1", 2, base + "max=2&page=0", base + "max=2&page=2"},
		{"?max=2&page=2", 1, base + "max=2&page=1", ""},
		{"?max=2&page=3", 0, "", ""},
		{"?max=2&page=2147483647", 0, "", ""},
		{"?page=-1", 0, "", ""},
		{"?max=0", 0, "", ""},
		{"?max=-5", 0, "", ""},
		{"?max=99999", 5, "", ""},
		{"?max=2&hostname=1&siteName=", 0, "", ""},
	} {
		d, n := c.details("/v2/account/devices"+tt.query, "devices")
		if strings.Contains(tt.query, "hostname") {
			if deref(d.Next) != "" && !strings.Contains(deref(d.Next), "hostname=1") {
				t.Errorf("next %s has lost the filter", deref(d.Next))
			}
			continue
		}
		if d.Count != tt.count || n != tt.count || *d.TotalCount != 5 || deref(d.Prev) != tt.prev || deref(d.Next) != tt.next {
			t.Errorf("%q: count %d of %d, prev %q, next %q; want %+v", tt.query, d.Count, n, deref(d.Prev), deref(d.Next), tt)
		}
	}
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/account/devices?page=one", "")
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/account/devices?max=99999999999", "")
}

func TestPageSwitches(t *testing.T) {
	c := newTester(t, Config{Devices: 30, UDFs: 1, PageMax: 4, NextForgets: true})
	d, n := c.details("/v2/account/devices?filterId=77&max=100", "devices")
	if want := "https://sim-api.localhost/api/v2/account/devices?max=4&page=1"; n != 4 || deref(d.Next) != want {
		t.Errorf("%d devices, next %s, want %s", n, deref(d.Next), want)
	}
	if got := c.get("/v2/system/pagination"); got != `{"max":4}` {
		t.Error(got)
	}
	c = newTester(t, Config{Devices: 300, UDFs: 1, NextForeign: true})
	d, _ = c.details("/v2/account/devices?max=2", "devices")
	if want := "https://foreign.invalid/api/v2/account/devices?max=2&page=1"; deref(d.Next) != want {
		t.Errorf("next %s, want %s", deref(d.Next), want)
	}
	if _, _, err := c.do(http.MethodGet, deref(d.Next), ""); err == nil || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("the foreign host answers: %v", err)
	}
	log := c.a.Log()
	if last := log[len(log)-1]; last.Host != "foreign.invalid" || last.Status != 0 {
		t.Errorf("the stray request is not in the log: %+v", last)
	}
	for _, totals := range []bool{false, true} {
		c = newTester(t, Config{Devices: 60, AlertTotals: totals})
		open, _ := c.details("/v2/account/alerts/open", "alerts")
		old, _ := c.details("/v2/account/alerts/resolved", "alerts")
		if (open.TotalCount != nil) != totals || old.TotalCount == nil {
			t.Errorf("alert totals %v: open %v, resolved %v", totals, open.TotalCount, old.TotalCount)
		}
	}
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/account/alerts/open?muted=maybe", "")
}

func TestAlertListsAgree(t *testing.T) {
	c := newTester(t, Config{Devices: 40, UDFs: 1, Limits: Limits{Off: true}})
	for _, kind := range []string{"open", "resolved"} {
		all, _ := c.walk("/v2/account/alerts/"+kind+"?max=10", "alerts")
		var bySite, byDevice int
		sites, _ := c.walk("/v2/account/sites", "sites")
		for _, s := range sites {
			got, _ := c.walk(fmt.Sprintf("/v2/site/%s/alerts/%s", s["uid"], kind), "alerts")
			bySite += len(got)
		}
		for _, uid := range c.a.DeviceUIDs() {
			got, _ := c.walk("/v2/device/"+uid+"/alerts/"+kind, "alerts")
			byDevice += len(got)
		}
		if len(all) == 0 || bySite != len(all) || byDevice != len(all) {
			t.Errorf("%s: %d in the account, %d in its sites, %d on its devices", kind, len(all), bySite, byDevice)
		}
		for _, al := range all {
			if al["resolved"] != (kind == "resolved") {
				t.Errorf("%v is %v in the %s list", al["alertUid"], al["resolved"], kind)
			}
		}
	}
}

func TestActivityLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(400 * 24 * time.Hour)
		now := time.Now().UTC()
		c := newTester(t, Config{Devices: 50, UDFs: 1})
		seconds := func(e map[string]any) float64 { return e["date"].(float64) }

		recent, pages := c.walk("/v2/activity-logs?size=7", "activities")
		if n := len(recent); n < 28 || n > 32 || pages != (n+6)/7+1 {
			t.Errorf("%d entries of the last 15 minutes on %d pages; the last page must be an empty one", n, pages)
		}
		if !slices.IsSortedFunc(recent, func(a, b map[string]any) int { return int(1000 * (seconds(b) - seconds(a))) }) {
			t.Error("not newest first")
		}
		for _, e := range recent {
			if age := float64(now.UnixMilli())/1000 - seconds(e); age < 0 || age > 15*60+1 {
				t.Errorf("an entry is %v s old", age)
			}
		}
		ids := map[any]bool{}
		from, until := now.Add(-30*time.Hour), now.Add(-6*time.Hour)
		span := url.Values{"from": {from.Format("2006-01-02T15:04:05Z")}, "until": {until.Format("2006-01-02T15:04:05Z")}}.Encode()
		day, _ := c.walk("/v2/activity-logs?size=250&order=asc&"+span, "activities")
		for _, e := range day {
			ids[e["id"]] = true
		}
		if len(day) < 2878 || len(day) > 2882 || len(ids) != len(day) {
			t.Errorf("%d entries of a day, %d ids", len(day), len(ids))
		}
		desc, _ := c.walk("/v2/activity-logs?size=999&order=desc&"+span, "activities")
		slices.Reverse(desc)
		if len(desc) != len(day) || desc[0]["id"] != day[0]["id"] || desc[len(desc)-1]["id"] != day[len(day)-1]["id"] {
			t.Errorf("the other order gives %d entries, not %d", len(desc), len(day))
		}

		// max is ignored, size is not.
		if _, n := c.details("/v2/activity-logs?max=2&"+span, "activities"); n != eventPage {
			t.Errorf("max=2 gives %d", n)
		}
		first, _ := c.details("/v2/activity-logs?size=5&"+span, "activities")
		second, _ := c.details(deref(first.Next), "activities")
		back, _ := c.walkOnce(deref(second.Prev))
		want, _ := c.walkOnce("/v2/activity-logs?size=5&" + span)
		if fmt.Sprint(back) != fmt.Sprint(want) {
			t.Errorf("previous gives %v, want %v", back, want)
		}

		some := day[slices.IndexFunc(day, func(e map[string]any) bool { return e["site"] != nil })]
		siteID := some["site"].(map[string]any)["id"].(float64)
		userID := some["user"].(map[string]any)["id"].(float64)
		for _, tt := range []struct {
			query string
			keep  func(map[string]any) bool
		}{
			{"entities=user", func(e map[string]any) bool { return e["entity"] == "USER" }},
			{"categories=job,remote", func(e map[string]any) bool { return e["category"] == "job" || e["category"] == "remote" }},
			{"actions=jrto", func(e map[string]any) bool { return e["action"] == "jrto" }},
			{fmt.Sprintf("siteIds=%.0f", siteID), func(e map[string]any) bool {
				s, ok := e["site"].(map[string]any)
				return ok && s["id"] == siteID
			}},
			{fmt.Sprintf("userIds=%.0f", userID), func(e map[string]any) bool { return e["user"].(map[string]any)["id"] == userID }},
		} {
			got, _ := c.walk("/v2/activity-logs?size=500&"+tt.query+"&"+span, "activities")
			n := 0
			for _, e := range day {
				if tt.keep(e) {
					n++
				}
			}
			if len(got) != n || n == 0 || slices.ContainsFunc(got, func(e map[string]any) bool { return !tt.keep(e) }) {
				t.Errorf("%s: %d entries, want %d", tt.query, len(got), n)
			}
		}
		oldest := url.Values{"from": {"1999-01-01T00:00:00Z"}}.Encode()
		if kept, _ := c.walkOnce("/v2/activity-logs?order=asc&size=1&" + oldest); len(kept) != 1 {
			t.Error("nothing is kept")
		} else if age := now.Sub(time.UnixMilli(int64(seconds(kept[0]) * 1000))); age > eventsKept || age < eventsKept-time.Minute {
			t.Errorf("the oldest entry is %v old", age)
		}
		for _, bad := range []string{"from=yesterday", "until=2026-01-01", "size=0", "size=x", "order=up", "page=2", "siteIds=abc", "searchAfter=1", "searchAfter=x&searchAfter=y"} {
			c.want(http.StatusBadRequest, http.MethodGet, "/v2/activity-logs?"+bad, "")
		}
	})
}

// walkOnce gives the ids of one page of the activity log.
func (c *tester) walkOnce(path string) ([]map[string]any, pageDetails) {
	c.t.Helper()
	var page struct {
		PageDetails pageDetails
		Activities  []map[string]any
	}
	decode(c.t, c.get(path), &page)
	return page.Activities, page.PageDetails
}

func TestJobsOfTheLogCanBeLookedUp(t *testing.T) {
	c := newTester(t, Config{Devices: 50, UDFs: 1})
	list, _ := c.walk("/v2/activity-logs?categories=job", "activities")
	for _, e := range list {
		var d map[string]any
		decode(t, e["details"].(string), &d)
		var job map[string]any
		decode(t, c.get("/v2/job/"+d["job.uid"].(string)), &job)
		if job["name"] != d["job.name"] {
			t.Errorf("job %v is called %v in the log and %v", d["job.uid"], d["job.name"], job["name"])
		}
	}
	if len(list) == 0 {
		t.Error("no jobs in the last 15 minutes")
	}
}
