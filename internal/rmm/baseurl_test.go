package rmm

import (
	"strings"
	"testing"
)

func TestCase_D15_BaseURLForms(t *testing.T) {
	const merlot = "https://merlot-api.centrastage.net"
	tests := []struct{ in, want, wantErr string }{
		{in: "merlot", want: merlot},
		{in: " Merlot\r\n", want: merlot},
		{in: "merlot-api", want: merlot},
		{in: "merlot-api.centrastage.net", want: merlot},
		{in: "merlot-api.centrastage.net/api/v2/", want: merlot},
		{in: merlot, want: merlot},
		{in: merlot + "/", want: merlot},
		{in: merlot + "/api", want: merlot},
		{in: merlot + "/api/", want: merlot},
		{in: merlot + "/api/v2", want: merlot},
		{in: merlot + "/api/v2/account?x=1#y", want: merlot},
		{in: merlot + "/api/swagger-ui/index.html#/account", want: merlot},
		{in: merlot + "/auth/oauth/token", want: merlot},
		{in: "\ufeffHTTPS://Merlot-API.CentraStage.net:443/api", want: merlot},
		{in: "merlot-api.centrastage.net.", want: merlot},
		{in: "https://rmm.example.com:8443/api", want: "https://rmm.example.com:8443"},
		{in: "http://merlot-api.localhost:8080", want: "http://merlot-api.localhost:8080"},
		{in: "localhost:8080", want: "http://localhost:8080"},
		{in: "localhost", want: "http://localhost"},
		{in: "127.0.0.1:9", want: "http://127.0.0.1:9"},
		{in: "http://[::1]:9/api", want: "http://[::1]:9"},
		{in: "[::1]:9", want: "http://[::1]:9"},

		{in: "https://merlot.centrastage.net", wantErr: "this looks like the portal address; the API address is https://merlot-api.centrastage.net"},
		{in: "merlot.centrastage.net/csm/search", wantErr: "the API address is https://merlot-api.centrastage.net"},
		{in: "https://vidal.rmm.datto.com/device/1234567/ACME-LT01", wantErr: "the API address is https://vidal-api.centrastage.net"},
		{in: "https://a.b.centrastage.net", wantErr: "this looks like the portal address"},
		{in: "merlott", wantErr: "not a known platform (concord, merlot"},
		{in: "  ", wantErr: "is empty"},
		{in: "http://merlot-api.centrastage.net", wantErr: "use https://merlot-api.centrastage.net"},
		{in: "ftp://merlot-api.centrastage.net", wantErr: "must start with https://"},
		{in: "https://jo:pw@merlot-api.centrastage.net", wantErr: "must not hold a user or a password"},
		{in: "https://merlot-api.centrastage.net/other", wantErr: "use https://merlot-api.centrastage.net"},
		{in: "https://merlot-api.centrastage.net:99999", wantErr: "port outside"},
		{in: "https://", wantErr: "not a URL"},
		{in: "https://[::1", wantErr: "not a URL"},
	}
	for _, tt := range tests {
		got, err := ParseBaseURL(tt.in)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%q: error %v, want %q", tt.in, err, tt.wantErr)
			} else if strings.Contains(err.Error(), "jo:pw") {
				t.Errorf("%q: the error shows the password", tt.in)
			}
			continue
		}
		if err != nil || got.String() != tt.want {
			t.Errorf("%q: got %v, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestPlatformsAreAddresses(t *testing.T) {
	for _, name := range Platforms() {
		u, err := ParseBaseURL(name)
		if err != nil || u.String() != "https://"+name+"-api.centrastage.net" {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
}

// An accepted address is an origin, and is accepted again as itself.
func FuzzParseBaseURL(f *testing.F) {
	for _, seed := range []string{"merlot", "https://merlot-api.centrastage.net/api/v2", "localhost:80", "http://[::1]:0/", "//x", "a b", "https://x@y", "[::1%25eth0]", "http://LOCALHOST.:80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseBaseURL(s)
		if err != nil {
			if u != nil {
				t.Error("an error with an address")
			}
			return
		}
		if u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q gave %#v", s, u)
		}
		again, err := ParseBaseURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%q gave %s, and that %v, %v", s, u, again, err)
		}
		if !sameOrigin(u, again) {
			t.Errorf("%s is not its own origin", u)
		}
	})
}
