package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/internal/spell"
)

// fixedNow is the clock of tests.
var fixedNow = time.Date(2026, 3, 6, 2, 0, 0, 0, time.UTC)

// testEnv is an empty environment with a home folder of its own.
func testEnv(t *testing.T, vars map[string]string) (*env, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	home := t.TempDir()
	all := map[string]string{"HOME": home, "APPDATA": home, "LOCALAPPDATA": home}
	for k, v := range vars {
		all[k] = v
	}
	var stdout, stderr bytes.Buffer
	return &env{
		stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
		getenv: func(k string) string { return all[k] },
		now:    func() time.Time { return fixedNow },
	}, &stdout, &stderr
}

// testApp is an app after its flags were parsed.
func testApp(t *testing.T, vars map[string]string, args ...string) (*app, *bytes.Buffer) {
	t.Helper()
	e, _, stderr := testEnv(t, vars)
	a := &app{env: e, stdout: newStream(e.stdout), stderr: newStream(e.stderr), progress: "auto"}
	a.stop = stopSignals{soft: t.Context(), hard: context.Background()}
	a.verb, _ = lookupVerb("run")
	f := a.newFlags()
	f.setting("grace", "workers", "page_size", "throttle.profile", "throttle.max_pause")
	if _, err := f.parse(args, 0, -1); err != nil {
		t.Fatal(err)
	}
	return a, stderr
}

// Whatever the command line, --json ends in exactly one object whose exit
// code is that of the process.
func TestJSONOnEveryPath(t *testing.T) {
	lines := [][]string{
		{"--json"},
		{"rat", "--json"},
		{"rate", "--json", "--jsn"},
		{"rate", "--nonsense", "--json"},
		{"--json", "rate"},
		{"--json", "--nonsense", "rate"},
		{"--json=true", "runs", "--limit", "0"},
		{"runs", "--json"},
		{"runs", "--json", "extra"},
		{"show", "--json"},
		{"show", "--json", "2099"},
		{"status", "--json", "--max-age", "1h"},
		{"status", "--json", "--max-age", "soon"},
		{"config", "--json"},
		{"config", "sho", "--json"},
		{"config", "show", "--json"},
		{"config", "path", "--json"},
		{"config", "set", "workers", "many", "--json"},
		{"config", "set", "workers", "4", "--json"},
		{"config", "unset", "page_size", "--json"},
		{"catalogue", "--json"},
		{"catalogue", "nothing", "--json"},
		{"version", "--json"},
		{"help", "--json"},
		{"help", "exit-codes", "--json"},
		{"help", "run", "--json"},
		{"run", "--help", "--json"},
		{"validate", "--json"},
		{"validate", "--json", "missing.yaml"},
		{"run", "--json", "missing.yaml"},
		{"plan", "--json", "missing.yaml"},
		{"resume", "--json"},
		{"resume", "--json", "2099"},
		{"rate", "--json", "--sim"},
		{"rate", "--json", "--sim=devices=none"},
		{"sim", "--json", "--listen", "0.0.0.0:1"},
		{"rate", "--json", "--config", "missing.yaml"},
		{"rate", "--json", "--timeout", "never"},
	}
	for _, args := range lines {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			e, stdout, stderr := testEnv(t, nil)
			code := run(t.Context(), args, e)
			obj, err := oneObject(stdout.Bytes())
			if err != nil {
				t.Fatalf("%v: %q", err, stdout)
			}
			var got struct {
				Code exitCode `json:"exit_code"`
				Name string   `json:"exit_name"`
				Err  *string  `json:"error"`
			}
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if int(got.Code) != code || got.Name != got.Code.name() {
				t.Errorf("exit code %d, but the object says %d %s", code, got.Code, got.Name)
			}
			if code == int(exitInternal) {
				t.Errorf("ends as a bug: %s", stderr)
			}
			if (code != 0) != (got.Err != nil) {
				t.Errorf("exit code %d with error %s", code, obj["error"])
			}
		})
	}
}

func TestJSONFromTheEnvironment(t *testing.T) {
	e, stdout, _ := testEnv(t, map[string]string{"RMMJOB_JSON": "1"})
	run(t.Context(), []string{"rat"}, e)
	if _, err := oneObject(stdout.Bytes()); err != nil {
		t.Errorf("%v: %q", err, stdout)
	}
}

// A verb that breaks ends with code 1 and a message without the data in the
// panic.
func TestPanicIsABugNotACrash(t *testing.T) {
	err := func() (err error) {
		defer func() { err = panicError(recover()) }()
		panic("udf1: RECOVERY-123456")
	}()
	code, _ := classify(err, stopSignals{})
	if code != exitInternal || strings.Contains(err.Error(), "RECOVERY") {
		t.Errorf("got %d %v", code, err)
	}
}

func TestFullDiskBehindStdout(t *testing.T) {
	e, _, stderr := testEnv(t, nil)
	e.stdout = badWriter{errnoFull}
	if code := run(t.Context(), []string{"version"}, e); code != int(exitLocalIO) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	e.stdout = badWriter{io.ErrClosedPipe}
	if code := run(t.Context(), []string{"version"}, e); code != 0 {
		t.Errorf("exit code %d for a reader that went away", code)
	}
}

func TestNextCommand(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name string
		vars map[string]string
		args []string
		want string
	}{
		{"bare", nil, nil, "rmmjob resume 2026"},
		{"state folder", nil, []string{"--state-dir", filepath.Join(dir, "my state")}, "rmmjob resume 2026 --state-dir " + quote(filepath.Join(dir, "my state"), filepath.Separator == '\\')},
		{"state folder by environment", map[string]string{"RMMJOB_STATE_DIR": dir}, nil, "rmmjob resume 2026 --state-dir " + quote(dir, filepath.Separator == '\\')},
		{"account", nil, []string{"--account", "eu", "--sim"}, "rmmjob resume 2026 --account eu --sim"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := testApp(t, tt.vars, tt.args...)
			if got := a.nextCommand("resume", "2026"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	tests := []struct {
		word    string
		windows bool
		want    string
	}{
		{"plain-1.yaml", false, "plain-1.yaml"},
		{"", false, "''"},
		{"two words", false, "'two words'"},
		{"it's", false, `'it'\''s'`},
		{"$HOME", false, "'$HOME'"},
		{"~/x", false, "'~/x'"},
		{`C:\Jobs\a.yaml`, true, `C:\Jobs\a.yaml`},
		{`C:\My Jobs\a.yaml`, true, `"C:\My Jobs\a.yaml"`},
		{"a,b", true, `"a,b"`},
	}
	for _, tt := range tests {
		if got := quote(tt.word, tt.windows); got != tt.want {
			t.Errorf("quote(%q, %v) = %s, want %s", tt.word, tt.windows, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	for word, want := range map[string]string{
		"rat": "rate", "catalog": "catalogue", "stauts": "status", "Run": "run", "xyz": "", "": "", "validat": "validate", "ru": "run",
	} {
		if got := spell.Nearest(word, names); got != want {
			t.Errorf("spell.Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
