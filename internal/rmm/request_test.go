package rmm

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	tests := []struct {
		op      string
		name    string
		class   Class
		lane    string
		wantErr string
	}{
		{op: "devices", name: "devices", class: ClassRead, lane: "read"},
		{op: "GET /v2/device/7d3c/patches", name: "GET /v2/device/7d3c/patches", class: ClassRead, lane: "read"},
		{op: "post /api/v2/device/7d3c/udf", name: "POST /v2/device/7d3c/udf", class: ClassIdempotent, lane: "device-udf-set"},
		{op: "PUT /v2/device/7d3c/quickjob", name: "PUT /v2/device/7d3c/quickjob", class: ClassUnsafe, lane: "device-job-create"},
		{op: "POST /v3/device/7d3c/udf", name: "POST /v3/device/7d3c/udf", class: ClassUnsafe, lane: "call"},
		{op: "device-udf-sat", wantErr: `did you mean "device-udf-set"`},
		{op: "nonsense-entirely", wantErr: `unknown operation "nonsense-entirely"`},
		{op: "TRACE /v2/account", wantErr: "not one of"},
		{op: "GET //evil.example/v2", wantErr: "does not start with a version"},
		{op: "GET https://evil.example/v2", wantErr: "does not start with a version"},
		{op: "GET /v2/../auth/oauth/token", wantErr: "dot segment"},
		{op: "GET /v2/%2e%2e/auth", wantErr: "dot segment"},
		{op: "GET /v2/account/devices?max=2", wantErr: "give parameters as query"},
		{op: "GET /v2/site/{siteUid}", wantErr: "not a plain path"},
		{op: "GET /v2/%zz", wantErr: "not a plain path"},
	}
	for _, tt := range tests {
		op, err := Resolve(tt.op)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("Resolve(%q): error %v, want %q", tt.op, err, tt.wantErr)
			}
			continue
		}
		if err != nil || op.Name != tt.name || op.Class != tt.class || op.Lane() != tt.lane {
			t.Errorf("Resolve(%q) = %s %s %s, %v", tt.op, op.Name, op.Class, op.Lane(), err)
		}
	}
}

func TestExpand(t *testing.T) {
	tests := []struct {
		op      string
		values  map[string]string
		want    string
		wantErr string
	}{
		{"devices", nil, "/v2/account/devices", ""},
		{"device-move", map[string]string{"deviceUid": "d1", "siteUid": "s1"}, "/v2/device/d1/site/s1", ""},
		{"site", map[string]string{"siteUid": "Deleted Devices/ä?#%"}, "/v2/site/Deleted%20Devices%2F%C3%A4%3F%23%25", ""},
		{"site", map[string]string{"siteUid": "{siteUid}"}, "/v2/site/%7BsiteUid%7D", ""},
		{"device-move", map[string]string{"deviceUid": "d1"}, "", "path parameter siteUid is missing"},
		{"site", map[string]string{"siteUid": "  "}, "", "path parameter siteUid is missing"},
		{"site", map[string]string{"siteUid": ".."}, "", "not usable"},
		{"site", map[string]string{"siteUid": "s1", "uid": "x"}, "", "there is no path parameter uid"},
	}
	for _, tt := range tests {
		op, _ := Lookup(tt.op)
		got, err := op.expand(tt.values)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s %v: error %v, want %q", tt.op, tt.values, err, tt.wantErr)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%s %v = %q, %v, want %q", tt.op, tt.values, got, err, tt.want)
		}
	}
}

func TestRequestSurvivesJSON(t *testing.T) {
	in := Request{
		Op: "device-udf-set", Path: map[string]string{"deviceUid": "d1"},
		Query: url.Values{"page": {"3"}}, Body: json.RawMessage(`{"udf1":"ä"}`),
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Request
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("%+v became %+v", in, out)
	}
	if small, _ := json.Marshal(Request{Op: "account"}); string(small) != `{"op":"account"}` {
		t.Errorf("an empty request is %s", small)
	}
}
