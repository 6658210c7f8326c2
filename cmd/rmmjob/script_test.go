package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"rmmjob/internal/rmmsim"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rmmjob": main})
}

// TestScripts runs the program as its users do, one file for each behaviour.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			// A folder of its own for every script, and nothing of this
			// machine's own settings.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("APPDATA", filepath.Join(e.WorkDir, ".config"))              // on Windows
			e.Setenv("LOCALAPPDATA", filepath.Join(e.WorkDir, ".local", "state")) // as well
			e.Setenv("XDG_CONFIG_HOME", "")
			e.Setenv("XDG_STATE_HOME", "")
			e.Setenv("USER", "tester")
			e.Setenv("TZ", "UTC")
			e.Setenv("ESC", "\x1b[31m")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil // to whom no folder is read-only
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: withRunCommands(map[string]func(*testscript.TestScript, bool, []string){
			"account":    scriptAccount,
			"exitcode":   scriptExitCode,
			"jsonresult": scriptJSON,
			"nocontrol":  scriptNoControl,
		}),
	})
}

// scriptAccount serves a simulated account on loopback for the rest of the
// script and puts its address and credentials into the environment:
//
//	account [settings]
func scriptAccount(ts *testscript.TestScript, neg bool, args []string) {
	cfg, err := rmmsim.ParseSettings(strings.Join(args, ","))
	ts.Check(err)
	cfg.Key, cfg.Secret = simKey, simSecret
	account, err := rmmsim.New(cfg)
	ts.Check(err)
	srv := httptest.NewServer(account)
	ts.Defer(srv.Close)
	keepAccount(ts, srv.URL, account)
	ts.Setenv("DATTO_API_URL", srv.URL)
	ts.Setenv("DATTO_API_KEY", simKey)
	ts.Setenv("DATTO_API_SECRET", simSecret)
}

// scriptExitCode runs the program and checks the exact exit code:
//
//	exitcode 2 rmmjob rate
func scriptExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE PROGRAM [args]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = code.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// resultKeys are the promised keys of the JSON result, in order.
var resultKeys = []string{"run", "job", "state", "exit_code", "exit_name", "counts", "files", "error", "next_command"}

// scriptJSON checks that the last standard output is exactly one JSON object
// with the promised keys, and the values of some of them:
//
//	jsonresult exit_code=2 exit_name=usage
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	obj, err := oneObject([]byte(out))
	if err != nil {
		ts.Fatalf("%v in %q", err, out)
	}
	for _, arg := range args {
		key, want, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("usage: jsonresult key=value...")
		}
		got := strings.Trim(string(obj[key]), `"`)
		if got != want {
			ts.Fatalf("%s is %s, want %s, in %s", key, got, want, out)
		}
	}
}

// oneObject decodes exactly one JSON object and checks the promised keys.
func oneObject(out []byte) (map[string]json.RawMessage, error) {
	var obj map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(out))
	if err := dec.Decode(&obj); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errMore
	}
	var order []string
	dec = json.NewDecoder(bytes.NewReader(out))
	dec.Token() //nolint:errcheck // decoded above
	for dec.More() {
		key, _ := dec.Token() //nolint:errcheck // decoded above
		order = append(order, key.(string))
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return nil, err
		}
	}
	if len(order) < len(resultKeys) || !slices.Equal(order[:len(resultKeys)], resultKeys) {
		return nil, errKeys
	}
	return obj, nil
}

type textError string

func (e textError) Error() string { return string(e) }

const (
	errMore = textError("more than one object")
	errKeys = textError("the promised keys are not there in their order")
)

// scriptNoControl checks that files hold neither escape codes nor bare
// carriage returns.
func scriptNoControl(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if text := ts.ReadFile(name); strings.ContainsAny(text, "\x1b\r") {
			ts.Fatalf("%s holds control characters: %q", name, text)
		}
	}
}
