package rmm

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func lookup(t testing.TB, name string) Operation {
	t.Helper()
	op, ok := Lookup(name)
	if !ok {
		t.Fatalf("no operation %s", name)
	}
	return op
}

func TestParsePage(t *testing.T) {
	tests := []struct {
		name, op, body string
		want           Page
		items          []string
		wantErr        string
	}{
		{
			name: "full", op: "sites",
			body:  `{"pageDetails":{"count":2,"totalCount":5,"prevPageUrl":null,"nextPageUrl":"https://h/api/v2/account/sites?page=1"},"sites":[{"uid":"a"},{"uid":"b"}]}`,
			want:  Page{Count: 2, Total: 5, Next: "https://h/api/v2/account/sites?page=1"},
			items: []string{`{"uid":"a"}`, `{"uid":"b"}`},
		},
		{name: "null fields", op: "alerts-open", body: `{"pageDetails":{"count":null,"totalCount":null,"nextPageUrl":null},"alerts":[{}]}`, want: Page{Count: 1, Total: -1}, items: []string{`{}`}},
		{name: "absent fields", op: "alerts-open", body: `{"pageDetails":{},"alerts":[]}`, want: Page{Total: -1}},
		{name: "empty next", op: "devices", body: `{"pageDetails":{"totalCount":0,"nextPageUrl":""},"devices":[]}`, want: Page{}},
		{name: "numbers in other dress", op: "devices", body: `{"pageDetails":{"count":"1","totalCount":6e2},"devices":[1]}`, want: Page{Count: 1, Total: 600}, items: []string{`1`}},
		{name: "negative total", op: "devices", body: `{"pageDetails":{"count":-1,"totalCount":-1},"devices":[]}`, want: Page{Total: -1}},
		{name: "odd elements", op: "devices", body: `{"pageDetails":{},"devices":[null,"x",{"a":{}}]}`, want: Page{Count: 3, Total: -1}, items: []string{`null`, `"x"`, `{"a":{}}`}},
		{name: "array", op: "device-by-mac", body: ` [{"uid":"a"}] `, want: Page{Count: 1, Total: -1}, items: []string{`{"uid":"a"}`}},
		{name: "object", op: "device", body: "{\"uid\":\"a\"}\n", want: Page{Count: 1, Total: -1}, items: []string{`{"uid":"a"}`}},
		{name: "cursor", op: "activity-logs", body: `{"pageDetails":{"nextPageUrl":"x"},"activities":[],"error":null}`, want: Page{Total: -1, Next: "x"}},

		{name: "element of another list", op: "device-software", body: `{"pageDetails":{},"devices":[]}`, wantErr: "expected software array missing"},
		{name: "element in other case", op: "devices", body: `{"pageDetails":{},"Devices":[]}`, wantErr: "expected devices array missing"},
		{name: "element null", op: "devices", body: `{"pageDetails":{},"devices":null}`, wantErr: "expected devices array missing"},
		{name: "element an object", op: "devices", body: `{"pageDetails":{},"devices":{}}`, wantErr: "expected devices array: got an object"},
		{name: "no pageDetails", op: "devices", body: `{"devices":[]}`, wantErr: "expected pageDetails beside devices missing"},
		{name: "total no number", op: "devices", body: `{"pageDetails":{"totalCount":"many"},"devices":[]}`, wantErr: "pageDetails.totalCount"},
		{name: "next no string", op: "devices", body: `{"pageDetails":{"nextPageUrl":7},"devices":[]}`, wantErr: "nextPageUrl is a number"},
		{name: "bare array for a page", op: "devices", body: `[]`, wantErr: "expected a page with devices, got an array"},
		{name: "null for a page", op: "devices", body: `null`, wantErr: "devices"},
		{name: "object for an array", op: "job-stdout", body: `{}`, wantErr: "expected an array: got an object"},
		{name: "array for an object", op: "device", body: `[]`, wantErr: "expected an object, got an array"},
		{name: "no JSON", op: "devices", body: `<html>`, wantErr: "not JSON"},
		{name: "empty", op: "device", body: ``, wantErr: "not JSON"},
		{name: "NUL", op: "devices", body: "{\"devices\":[\"\x00\"]}", wantErr: "not JSON"},
		{name: "failure behind the API", op: "activity-logs", body: `{"pageDetails":{},"activities":[],"error":"search\nfailed"}`, wantErr: "page reports an error: search failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePage(lookup(t, tt.op), []byte(tt.body))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var items []string
			for _, item := range got.Items {
				items = append(items, string(item))
			}
			got.Items = nil
			if !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(items, tt.items) {
				t.Errorf("got %+v %q, want %+v %q", got, items, tt.want, tt.items)
			}
		})
	}
}

// Nesting is bounded, or a hostile answer could exhaust the stack.
func TestDeepNestingIsAnError(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, body := range map[string]string{
		"devices": `{"pageDetails":{},"devices":[` + deep + `]}`, "device-by-mac": deep, "device": `{"uid":` + deep + `}`,
	} {
		if _, err := ParsePage(lookup(t, name), []byte(body)); err == nil {
			t.Errorf("%s: 20,000 levels are taken", name)
		}
	}
}

func TestCase_D04_WrongArrayName(t *testing.T) {
	_, err := ParsePage(lookup(t, "devices"), []byte(`{"pageDetails":{"count":2,"totalCount":2,"nextPageUrl":null},"items":[{},{}]}`))
	if err == nil || err.Error() != "expected devices array missing" {
		t.Errorf("error %v", err)
	}
}

// Odd devices (D06), dates of any type (D07), empty and repeated keys (D09) and
// big numbers (O05) pass through byte for byte.
func TestCase_D06_D07_D09_O05_ElementsStayAsSent(t *testing.T) {
	sent := []string{
		`{"uid":"b2","deviceClass":"rmmnetworkdevice","patchManagement":null}`,
		`{"uid":"c3","deviceClass":"flyingtoaster","antivirus":{"antivirusStatus":"Sideways"}}`,
		`{"lastSeen":1741219200000}`, `{"lastSeen":"2025-03-06T00:00:00Z"}`, `{"lastSeen":1721131260.44}`,
		`{"alertContext":{"@class":"comp_script_ctx","samples":{"":"Status","a.b":"1","A.B":"2"}}}`,
		`{"id":502084122,"foo":1530822939367,"big":12345678901234567890}`,
	}
	body := `{"pageDetails":{"totalCount":7},"devices":[` + strings.Join(sent, ",") + `]}`
	page, err := ParsePage(lookup(t, "devices"), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range page.Items {
		if string(item) != sent[i] {
			t.Errorf("%s became %s", sent[i], item)
		}
	}
}

func TestNextQuery(t *testing.T) {
	tests := []struct {
		name, op   string
		path       map[string]string
		sent, next string
		want       string
		wantErr    string
	}{
		{name: "whole", op: "sites", sent: "max=2", next: "https://merlot-api.centrastage.net/api/v2/account/sites?max=2&page=1", want: "max=2&page=1"},
		{name: "relative", op: "sites", sent: "max=2&page=1", next: "?max=2&page=2", want: "max=2&page=2"},
		{name: "relative path", op: "sites", sent: "max=2", next: "/api/v2/account/sites?page=1", want: "max=2&page=1"},
		{name: "lost filter", op: "devices", sent: "filterId=77&max=2&page=0", next: "https://h/api/v2/account/devices?max=2&page=1", want: "filterId=77&max=2&page=1"},
		{name: "kept as given", op: "devices", sent: "siteName=A&max=250", next: "https://h/api/v2/account/devices?siteName=a%26b&max=100&page=1", want: "max=100&page=1&siteName=a%26b"},
		{name: "present but empty is present", op: "devices", sent: "siteName=A", next: "?siteName=&page=1", want: "page=1&siteName="},
		{name: "lost list", op: "activity-logs", sent: "entities=device&entities=user&size=5", next: "/api/v2/activity-logs?searchAfter=1&searchAfter=x&page=next", want: "entities=device&entities=user&page=next&searchAfter=1&searchAfter=x&size=5"},
		{name: "position is never put back", op: "activity-logs", sent: "searchAfter=1&page=next&from=2026", next: "/api/v2/activity-logs?searchAfter%5B%5D=2", want: "from=2026&searchAfter%5B%5D=2"},
		{name: "escaped path", op: "site-devices", path: map[string]string{"siteUid": "Deleted Devices/ä"}, next: "https://h/api/v2/site/Deleted%20Devices%2F%C3%A4/devices?page=1", want: "page=1"},
		{name: "other path", op: "sites", next: "https://h/api/v2/account/devices?page=1", wantErr: "another path"},
		{name: "mangled path", op: "sites", next: "https://h/-api.centrastage.net/api/v2/account/sites?page=1", wantErr: "another path"},
		{name: "other site", op: "site-devices", path: map[string]string{"siteUid": "a"}, next: "/api/v2/site/b/devices?page=1", wantErr: "another path"},
		{name: "no page", op: "sites", sent: "max=2", next: "/api/v2/account/sites?max=3", wantErr: "no page number"},
		{name: "loop", op: "sites", sent: "max=2&page=1", next: "/api/v2/account/sites?page=1&max=2", wantErr: "back to the page just read"},
		{name: "cursor loop", op: "activity-logs", sent: "searchAfter=1&size=2", next: "/api/v2/activity-logs?searchAfter=1", wantErr: "back to the page just read"},
		{name: "broken query", op: "sites", next: "/api/v2/account/sites?page=%zz", wantErr: "broken"},
		{name: "no URL", op: "sites", next: "http://[::1", wantErr: "not a URL"},
		{name: "unknown operation", op: "sitez", next: "?page=1", wantErr: "did you mean"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			query, _ := url.ParseQuery(tt.sent)
			before := query.Encode()
			got, err := NextQuery(Request{Op: tt.op, Path: tt.path, Query: query}, tt.next)
			if query.Encode() != before {
				t.Errorf("the request was changed to %v", query)
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got.Encode() != tt.want {
				t.Errorf("got %q, %v, want %q", got.Encode(), err, tt.want)
			}
		})
	}
}

func TestCase_D02_NextPageForgetsTheFilter(t *testing.T) {
	sent := Request{Op: "devices", Query: url.Values{"filterId": {"77"}, "max": {"2"}, "page": {"0"}}}
	for page := 1; page < 4; page++ {
		query, err := NextQuery(sent, "https://merlot-api.centrastage.net/api/v2/account/devices?max=2&page="+string(rune('0'+page)))
		if err != nil {
			t.Fatal(err)
		}
		if query.Get("filterId") != "77" || len(query["max"]) != 1 || query.Get("page") != string(rune('0'+page)) {
			t.Errorf("page %d is asked for with %v", page, query)
		}
		sent.Query = query
	}
}

// A page that parses has the elements of its array, each valid JSON, and never
// a total below -1.
func FuzzParsePage(f *testing.F) {
	for _, seed := range []string{
		`{"pageDetails":{"count":1,"totalCount":1,"nextPageUrl":"x"},"devices":[{"id":1e400}]}`,
		`{"pageDetails":{"totalCount":9223372036854775808},"devices":[]}`,
		`{"pageDetails":{"totalCount":-1e300,"count":1e300},"devices":[]}`,
		`[]`, `{}`, `null`, ``, "\x00", "{\"devices\":\"\xff\"}", `{"pageDetails":{},"activities":[],"error":"x"}`,
	} {
		f.Add(seed)
	}
	names := []string{"devices", "activity-logs", "device-by-mac", "device", "GET /v2/x"}
	f.Fuzz(func(t *testing.T, body string) {
		for _, name := range names {
			op, err := Resolve(name)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = PageOf(op, []byte(body)) // of any bytes: it must not panic
			page, err := ParsePage(op, []byte(body))
			if err != nil {
				if page.Items != nil || page.Next != "" {
					t.Errorf("%s: an error with a page: %+v", name, page)
				}
				continue
			}
			if page.Total < -1 || page.Count < 0 {
				t.Errorf("%s: total %d, count %d", name, page.Total, page.Count)
			}
			for _, item := range page.Items {
				if !json.Valid(item) || !strings.Contains(body, string(item)) {
					t.Errorf("%s: item %q is not from the body", name, item)
				}
			}
		}
	})
}

// What the server kept is kept, what was sent and lost is back, nothing else is
// added, and the page moves on.
func FuzzNextQuery(f *testing.F) {
	f.Add("filterId=77&max=2", "https://h/api/v2/account/devices?page=1")
	f.Add("page=1", "?page=1")
	f.Add("a=b;c", "//evil/api/v2/account/devices?page=%31")
	f.Add("", "/api/v2/../v2/account/devices?page=1&page=2")
	f.Fuzz(func(t *testing.T, sent, next string) {
		query, err := url.ParseQuery(sent)
		if err != nil {
			t.Skip()
		}
		got, err := NextQuery(Request{Op: "devices", Query: query}, next)
		if err != nil {
			return
		}
		u, err := url.Parse(strings.TrimSpace(next))
		if err != nil {
			t.Fatalf("%q is no URL but was taken", next)
		}
		given, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			t.Fatalf("the query of %q is broken but was taken", next)
		}
		for name, values := range got {
			want, kept := given[name]
			if !kept {
				want = query[name]
			}
			if !reflect.DeepEqual(values, want) {
				t.Errorf("%s is %q, want %q", name, values, want)
			}
		}
		for name := range query {
			if _, ok := got[name]; !ok && name != "page" && !strings.HasPrefix(name, "searchAfter") {
				t.Errorf("%s was lost", name)
			}
		}
		if got.Encode() == query.Encode() {
			t.Error("the next page is the same page")
		}
	})
}
