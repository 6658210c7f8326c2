package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"rmmjob/jobs"
)

func TestParseConfigFaults(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // beginnings of the faults after "c.yaml:"
	}{
		{"empty", "", nil},
		{"comments only", "# nothing yet\n", nil},
		{"null sections", "accounts:\nthrottle:\n", nil},
		{"whole", "version: 1\nworkers: 4\ntimeout: 90s\nthrottle:\n  profile: cautious\naccounts:\n  eu:\n    url: merlot\n    command: [op, read, x]\n", nil},
		{"misspelt", "worker: 4\n", []string{"1:1: unknown setting worker (did you mean workers?)"}},
		{"misspelt below", "throttle:\n  profil: cautious\n", []string{"2:3: unknown setting throttle.profil (did you mean throttle.profile?)"}},
		{"misspelt account field", "accounts:\n  eu:\n    urls: merlot\n", []string{"3:5: unknown setting urls (did you mean url?)"}},
		{"wrong type", "workers: many\n", []string{`1:10: workers: "many" is not a whole number`}},
		{"out of range", "workers: 65\n", []string{"1:10: workers: 65 is not between 1 and 64"}},
		{"no duration", "timeout: 60\n", []string{`1:10: timeout: "60" is not a duration`}},
		{"list for a value", "workers: [4]\n", []string{"1:10: workers needs one plain value"}},
		{"unknown profile", "throttle: {profile: fast}\n", []string{`1:21: throttle.profile: "fast" is none of`}},
		{"twice", "workers: 4\nworkers: 5\n", []string{"2:1: workers comes twice"}},
		{"several faults", "worker: 4\ntimeout: x\n", []string{"1:1:", "2:10:"}},
		{"no mapping", "- a\n", []string{"1:1: a config file must be a mapping"}},
		{"two documents", "workers: 4\n---\nworkers: 5\n", []string{"1:1: a second document"}},
		{"portal address", "accounts:\n  eu:\n    url: https://merlot.centrastage.net\n", []string{"3:10: url: this looks like the portal address"}},
		{"command line instead of list", "accounts:\n  eu:\n    command: op read x\n", []string{"3:14: command must be a list"}},
		{"key without secret", "accounts:\n  eu:\n    key_file: k\n", []string{"2:3: account eu: key_file and secret_file go together"}},
		{"two sources", "accounts:\n  eu:\n    credentials_file: a\n    command: [b]\n", []string{"2:3: account eu has several sources"}},
		{"newer", "version: 2\n", []string{`1:10: version "2" is not known`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseConfig("c.yaml", []byte(tt.text))
			var got jobs.Errors
			errors.As(err, &got)
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %d faults", err, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i].Error(), "c.yaml:"+want) {
					t.Errorf("got  %s\nwant c.yaml:%s", got[i], want)
				}
			}
		})
	}
}

// A secret in the config file is refused wherever it stands, and the message
// does not repeat it.
func TestCase_D20_SecretsInConfigRefused(t *testing.T) {
	const secret = "RECOVERY-123456"
	for _, text := range []string{
		"api_key: " + secret + "\n",
		"secret: " + secret + "\n",
		"accounts:\n  eu:\n    api_secret: " + secret + "\n",
		"accounts:\n  eu:\n    password: [" + secret + "]\n",
		"throttle:\n  token: " + secret + "\n",
		"api_key: {a: " + secret + "}\n",
	} {
		_, err := parseConfig("c.yaml", []byte(text))
		if err == nil {
			t.Errorf("accepted %q", text)
			continue
		}
		if strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "no place in the config file") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("workers: 4\naccounts: {eu: {url: merlot}}\n")
	f.Add("throttle: {profile: *x}\n")
	f.Add("a: &a\n  b: *a\n")
	f.Add("? [x]\n: y\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig("c.yaml", []byte(text))
		if err == nil {
			for key, v := range c.values {
				s, ok := lookupSetting(key)
				if !ok {
					t.Fatalf("accepted an unknown setting %q", key)
				}
				if s.kind != kindPath && s.check(v.text) != nil {
					t.Fatalf("accepted %s: %q", key, v.text)
				}
			}
			return
		}
		if _, ok := errors.AsType[jobs.Errors](err); !ok {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

// One value in every layer: the strongest wins and knows its name.
func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("# mine\nworkers: 3\ngrace: 10s\ntimeout: 20s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := testApp(t, map[string]string{"RMMJOB_WORKERS": "5", "RMMJOB_GRACE": "12s"}, "--config", file, "--workers", "6")
	if err := a.settings.setJob("job.yaml", map[string]string{"workers": "4", "grace": "11s", "timeout": "21s"}); err != nil {
		t.Fatal(err)
	}
	check := func(key, text, from string) {
		t.Helper()
		if v := a.settings.find(key); v.text != text || v.origin.String() != from {
			t.Errorf("%s is %q from %q, want %q from %q", key, v.text, v.origin, text, from)
		}
	}
	check("workers", "6", "flag --workers")
	check("grace", "12s", "environment RMMJOB_GRACE")
	check("timeout", "21s", "job file job.yaml")
	check("page_size", "250", "default")
	a.settings.job = nil
	check("timeout", "20s", "config file "+file+":4")
	if a.settings.number("workers") != 6 || a.settings.duration("grace") != 12*time.Second {
		t.Error("typed values differ from the texts")
	}
}

// The user's file lies over the machine's, value by value.
func TestMachineLayerLiesUnderneath(t *testing.T) {
	var s settings
	var err error
	if s.user, err = parseConfig("user.yaml", []byte("workers: 3\naccounts: {eu: {url: merlot}}\n")); err != nil {
		t.Fatal(err)
	}
	if s.machine, err = parseConfig("machine.yaml", []byte("workers: 2\ngrace: 9s\naccounts: {eu: {url: syrah}, us: {url: zinfandel}}\n")); err != nil {
		t.Fatal(err)
	}
	if s.text("workers") != "3" || s.text("grace") != "9s" {
		t.Errorf("workers %s, grace %s", s.text("workers"), s.text("grace"))
	}
	if acc, _ := s.findAccount("eu"); acc.url != "merlot" {
		t.Errorf("eu is %s", acc.url)
	}
	if got := s.accountNames(); !slices.Equal(got, []string{"eu", "us"}) {
		t.Errorf("accounts %v", got)
	}
}

func TestRelativePathsBelongToTheirFile(t *testing.T) {
	dir := t.TempDir()
	c, err := parseConfig(filepath.Join(dir, "config.yaml"), []byte("ca_cert: ca.pem\naccounts: {eu: {credentials_file: eu.txt}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.values["ca_cert"].text; got != filepath.Join(dir, "ca.pem") {
		t.Errorf("ca_cert is %s", got)
	}
	if got := c.accounts[0].credentialsFile; got != filepath.Join(dir, "eu.txt") {
		t.Errorf("credentials_file is %s", got)
	}
}

func TestConfigSetKeepsComments(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "config.yaml")
	do := func(args ...string) (int, string) {
		e, _, stderr := testEnv(t, nil)
		code := run(t.Context(), append([]string{"config", "--config", file}, args...), e)
		return code, stderr.String()
	}
	read := func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if code, msg := do("set", "throttle.profile", "cautious"); code != 0 {
		t.Fatalf("exit %d: %s", code, msg)
	}
	if got := read(); got != "throttle:\n  profile: cautious\n" {
		t.Fatalf("got %q", got)
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	before := "# our accounts\naccounts:\n  eu: # Europe\n    url: merlot # by name\n# pace\nthrottle:\n  profile: medium # for now\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][]string{
		{"set", "throttle.profile", "cautious"},
		{"set", "accounts.us.url", "zinfandel"},
		{"set", "accounts.us.command", "[op, read, x]"},
		{"set", "workers", "4"},
		{"unset", "workers"},
	} {
		if code, msg := do(step...); code != 0 {
			t.Fatalf("%v: exit %d: %s", step, code, msg)
		}
	}
	want := "# our accounts\naccounts:\n  eu: # Europe\n    url: merlot # by name\n  us:\n    url: zinfandel\n    command: [op, read, x]\n# pace\nthrottle:\n  profile: cautious # for now\n"
	if got := read(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, bad := range [][]string{
		{"set", "throttle.profile", "fast"},
		{"set", "throttle.profil", "cautious"},
		{"set", "accounts.us", "x"},
		{"set", "accounts.us.url", "https://merlot.centrastage.net"},
		{"set", "accounts.us.api_key", "abc"},
		{"set", "accounts.us.credentials_file", "abc"}, // has a command already
		{"set", "workers"},
		{"unset", "workers"},
	} {
		if code, msg := do(bad...); code != int(exitUsage) || msg == "" {
			t.Errorf("%v: exit %d: %s", bad, code, msg)
		}
		if got := read(); got != want {
			t.Fatalf("%v changed the file:\n%s", bad, got)
		}
	}
	if code, _ := do("unset", "accounts.us"); code != 0 || strings.Contains(read(), "us:") {
		t.Errorf("exit %d, %s", code, read())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sub", ".*")); len(left) > 0 {
		t.Errorf("temporary files stay: %v", left)
	}
}

func TestConfigSetLeavesABrokenFileAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const broken = "workers: [\n"
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	e, _, stderr := testEnv(t, nil)
	if code := run(t.Context(), []string{"config", "set", "workers", "4", "--config", file}, e); code != int(exitUsage) {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if data, _ := os.ReadFile(file); string(data) != broken {
		t.Errorf("got %q", data)
	}
}

// util and guard of a job file are values of a base of the window model, and of no other.
func TestCustomProfileOfTheWindowModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, fault string }{
		{"{profile: custom, base: full, util: 0.7, guard: 0.4}", ""},
		{"{profile: custom, base: medium, util: 0.7}", `"util" has no meaning for the base medium`},
		{"{profile: custom, base: quick, onset: 0.3}", `"onset" has no meaning for the base quick`},
		{"{profile: custom, base: quick, util: 1.2}", "util must be from 0.1 to 0.98"},
	} {
		path := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(path, []byte("version: 1\nexport: {from: devices, to: out.csv}\nthrottle: "+tt.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := jobs.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := testApp(t, nil)
		cfg, err := a.throttleConfig(job)
		switch p := cfg.Profile; {
		case tt.fault == "" && (err != nil || p.Base != "full" || p.Util != 0.7 || p.Guard != 0.4):
			t.Errorf("%s: %+v, %v", tt.text, p, err)
		case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%s: %v, want %q", tt.text, err, tt.fault)
		}
	}
}
