package main

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"rmmjob/internal/rmmsim"
)

// private writes a file that only its owner can read.
func private(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParseCredentials(t *testing.T) {
	want := credentials{url: "merlot", key: "K1", secret: "S=1:x", from: "f"}
	for name, text := range map[string]string{
		"yaml":           "api_url: merlot\napi_key: K1\napi_secret: 'S=1:x'\n",
		"env lines":      "DATTO_API_URL=merlot\nDATTO_API_KEY=K1\nDATTO_API_SECRET=S=1:x\n",
		"bash":           "# mine\nexport DATTO_API_URL=\"merlot\"\nexport DATTO_API_KEY='K1'\n\nexport DATTO_API_SECRET=S=1:x",
		"CRLF and blank": "\ufeffapi_url = merlot \r\napi_key = K1\t\r\napi_secret = S=1:x\r\n",
		"yaml with BOM":  "\ufeffapi_url: merlot\r\napi_key: \" K1 \"\r\napi_secret: \"S=1:x\"\r\n",
	} {
		got, err := parseCredentials([]byte(text), "f")
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Faults of a file of credentials never repeat what is in it.
func TestCase_D20_CredentialFaultsHideValues(t *testing.T) {
	const secret = "RECOVERY123456"
	for _, text := range []string{
		"", secret, secret + "\n" + secret, "api_key: " + secret, "api_key: [" + secret + "]\napi_secret: x",
		"API_KEY=" + secret + "\n" + secret, "user=x\npass=" + secret, "api_key: {" + secret, "api_key: \"" + secret,
		"api_key: a\napi_secret: " + secret + "\napi_key: b: c",
	} {
		_, err := parseCredentials([]byte(text), "f")
		var xe *exitError
		if !errors.As(err, &xe) || xe.code != exitUsage {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if strings.Contains(err.Error()+xe.hint, secret) {
			t.Errorf("%q: %v shows the value", text, err)
		}
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add("api_url: a\napi_key: b\napi_secret: c\n")
	f.Add("export DATTO_API_KEY=\"b\"\nAPI_SECRET=c\n")
	f.Add("a=\"")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCredentials([]byte(text), "f")
		if err == nil && (c.key == "" || c.secret == "" || strings.TrimSpace(c.key) != c.key) {
			t.Fatalf("accepted %q as %+v", text, c)
		}
		if err != nil && c != (credentials{}) {
			t.Fatalf("an error with values: %+v", c)
		}
	})
}

func TestCredentialsFileOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists are not looked at")
	}
	path := private(t, "c.txt", "api_key=K\napi_secret=S\n")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := account{credentialsFile: path}.secrets(t.Context())
	var xe *exitError
	if !errors.As(err, &xe) || xe.code != exitUsage || !strings.Contains(xe.hint, "chmod 600") {
		t.Errorf("%v", err)
	}
}

func TestCredentialsFromACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs cat")
	}
	path := private(t, "c.txt", "api_key=K\napi_secret=S\n")
	got, err := account{name: "eu", command: []string{"cat", path}}.secrets(t.Context())
	if err != nil || got.key != "K" || got.secret != "S" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, command := range [][]string{{"cat", path + ".missing"}, {"no-such-program-here"}, {"true"}} {
		if _, err := (account{name: "eu", command: command}).secrets(t.Context()); err == nil {
			t.Errorf("%v: no error", command)
		}
	}
}

// Which credentials are used, for every way of asking.
func TestCredentialsChoice(t *testing.T) {
	eu := private(t, "eu.txt", "api_url: merlot\napi_key: EU\napi_secret: S\n")
	us := private(t, "us.txt", "api_key: US\napi_secret: S\n")
	one := private(t, "one.yaml", "accounts: {eu: {credentials_file: "+quoteYAML(eu)+"}}\n")
	two := private(t, "two.yaml", "accounts: {eu: {credentials_file: "+quoteYAML(eu)+"}, us: {url: zinfandel, credentials_file: "+quoteYAML(us)+"}}\n")
	env := map[string]string{"DATTO_API_URL": " syrah \n", "DATTO_API_KEY": "ENV", "DATTO_API_SECRET": "S\r\n"}
	none := map[string]string{}
	tests := []struct {
		name string
		vars map[string]string
		args []string
		job  string // account that the job names
		key  string // "" for an error
		url  string
		err  string
	}{
		{name: "environment alone", vars: env, key: "ENV", url: "syrah"},
		{name: "nothing", vars: none, err: "missing: API address, key, secret"},
		{name: "half an environment", vars: map[string]string{"DATTO_API_KEY": "K"}, err: "missing: API address, secret"},
		{name: "the only account", vars: none, args: []string{"--config", one}, key: "EU", url: "merlot"},
		{name: "environment over the only account", vars: env, args: []string{"--config", one}, key: "ENV", url: "syrah"},
		{name: "asked for by flag", vars: env, args: []string{"--config", one, "--account", "eu"}, key: "EU", url: "merlot"},
		{name: "asked for by job", vars: env, args: []string{"--config", two}, job: "us", key: "US", url: "zinfandel"},
		{name: "flag over job", vars: none, args: []string{"--config", two, "--account", "eu"}, job: "us", key: "EU", url: "merlot"},
		{name: "several", vars: none, args: []string{"--config", two}, err: "which account"},
		{name: "unknown", vars: env, args: []string{"--config", two, "--account", "uk"}, err: "account uk (from flag --account) is in no config file"},
		{name: "named, but no config", vars: env, job: "us", key: "ENV", url: "syrah"},
		{name: "file by flag", vars: env, args: []string{"--credentials-file", eu}, key: "EU", url: "merlot"},
		{name: "file without address", vars: env, args: []string{"--credentials-file", us}, key: "US", url: "syrah"},
		{name: "file that is not there", vars: env, args: []string{"--credentials-file", eu + "x"}, err: "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := testApp(t, tt.vars, tt.args...)
			if err := a.settings.setJob("job.yaml", map[string]string{"account": tt.job}); err != nil {
				t.Fatal(err)
			}
			c, err := a.credentials(t.Context())
			if tt.err != "" {
				code, _ := classify(err, a.stop)
				if err == nil || code != exitUsage || runtime.GOOS != "windows" && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, %v; want %q", c, err, tt.err)
				}
				return
			}
			if err != nil || c.key != tt.key || c.url != tt.url || c.secret != "S" {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
}

func quoteYAML(path string) string { return "'" + path + "'" }

// The same key without a name is the same account; another key is another
// one, though on the same host.
func TestAccountIdentity(t *testing.T) {
	id := func(key string) string {
		a, _ := testApp(t, map[string]string{"DATTO_API_URL": "merlot", "DATTO_API_KEY": key, "DATTO_API_SECRET": "S"})
		c, err := a.openAccount(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(c.id, key) || strings.Contains(c.name, key) {
			t.Errorf("the key shows in %s or %s", c.id, c.name)
		}
		return c.id
	}
	first, again, other := id("KEYONE"), id("KEYONE"), id("KEYTWO")
	if first != again || first == other {
		t.Error("accounts are mixed up")
	}
}

func TestCase_D15_PortalAddress(t *testing.T) {
	a, _ := testApp(t, map[string]string{"DATTO_API_URL": "https://merlot.centrastage.net", "DATTO_API_KEY": "K", "DATTO_API_SECRET": "S"})
	_, err := a.openAccount(t.Context())
	code, _ := classify(err, a.stop)
	if code != exitUsage || !strings.Contains(err.Error(), "portal address") || !strings.Contains(err.Error(), "https://merlot-api.centrastage.net") {
		t.Errorf("got %d %v", code, err)
	}
}

// Behind TLS inspection one option is enough, and without it the message says
// who issued the certificate.
func TestCase_N20_PrivateCertificate(t *testing.T) {
	cfg, err := rmmsim.ParseSettings("devices=3")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := rmmsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(sim)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake
	srv.StartTLS()
	defer srv.Close()
	ca := private(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	vars := map[string]string{"DATTO_API_URL": srv.URL, "DATTO_API_KEY": "K", "DATTO_API_SECRET": "S"}
	for _, tt := range []struct {
		args []string
		want exitCode
		msg  string
	}{
		{nil, exitUnreachable, "--ca-cert"},
		{nil, exitUnreachable, "Acme Co"}, // the issuer
		{[]string{"--ca-cert", ca}, exitOK, ""},
		{[]string{"--ca-cert", ca + "x"}, exitUsage, "ca_cert"},
		{[]string{"--ca-cert", private(t, "no.pem", "nothing")}, exitUsage, "ca_cert"},
	} {
		e, _, stderr := testEnv(t, vars)
		if code := run(t.Context(), append([]string{"rate"}, tt.args...), e); code != int(tt.want) || !strings.Contains(stderr.String(), tt.msg) {
			t.Errorf("%v: exit %d, want %d with %q:\n%s", tt.args, code, tt.want, tt.msg, stderr)
		}
	}
}

// Everything that was looked at is listed, and who looked.
func TestCase_R20_MissingCredentialsListThePlaces(t *testing.T) {
	a, _ := testApp(t, map[string]string{"USER": "SYSTEM", "HOME": "/nowhere/home"})
	_, err := a.openAccount(t.Context())
	code, hint := classify(err, a.stop)
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"DATTO_API_KEY", "config file", "SYSTEM", "--sim"} {
		if !strings.Contains(hint, want) {
			t.Errorf("the hints do not name %s:\n%s", want, hint)
		}
	}
}
