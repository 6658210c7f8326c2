package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// doctorResult is what doctor --json says.
type doctorResult struct {
	Code        int     `json:"exit_code"`
	Error       *string `json:"error"`
	Checks      []check `json:"checks"`
	Measurement struct {
		Requests    int          `json:"requests"`
		Assumptions []assumption `json:"assumptions"`
	} `json:"measurement"`
}

func (r doctorResult) check(name string) check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return check{}
}

func runDoctor(t *testing.T, vars map[string]string, args ...string) doctorResult {
	t.Helper()
	e, stdout, stderr := testEnv(t, vars)
	e.now = time.Now
	code := run(context.Background(), append([]string{"doctor", "--json"}, args...), e)
	var r doctorResult
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Code != code {
		t.Fatalf("exit %d, %v\n%s%s", code, err, stdout, stderr)
	}
	for _, c := range r.Checks {
		if c.State == checkFault && len(c.Next) == 0 {
			t.Errorf("%s: %q says nothing of what to do", c.Name, c.Text)
		}
	}
	return r
}

// account serves a simulated account on loopback and returns the environment that names it.
func doctorAccount(t *testing.T, change func(http.Handler) http.Handler) map[string]string {
	t.Helper()
	account, err := rmmsim.New(rmmsim.Config{Devices: 5, Key: simKey, Secret: simSecret})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Handler(account)
	if change != nil {
		h = change(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return map[string]string{"DATTO_API_URL": srv.URL, "DATTO_API_KEY": simKey, "DATTO_API_SECRET": simSecret, "NO_PROXY": "*"}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	shifted := func(d time.Duration) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(d).UTC().Format(http.TimeFormat))
				h.ServeHTTP(w, r)
			})
		}
	}
	for _, tt := range []struct {
		name   string
		change func(http.Handler) http.Handler
		vars   map[string]string
		code   exitCode
		states map[string]string
	}{
		{"all well", nil, nil, exitOK, map[string]string{
			"program": checkOK, "config": checkOK, "credentials": checkOK, "address": checkOK, "network": checkOK, "login": checkOK, "TLS": checkWarning,
			"clock": checkOK, "rate limits": checkOK, "state folder": checkOK, "checkpoint": checkOK, "ledger": checkOK,
		}},
		{"no credentials", nil, map[string]string{"DATTO_API_SECRET": ""}, exitUsage, map[string]string{
			"credentials": checkFault, "address": checkSkipped, "login": checkSkipped, "rate limits": checkSkipped, "checkpoint": checkOK,
		}},
		{"not an address", nil, map[string]string{"DATTO_API_URL": "no such place"}, exitUsage, map[string]string{
			"credentials": checkOK, "address": checkFault, "network": checkSkipped, "clock": checkSkipped,
		}},
		{"wrong secret", nil, map[string]string{"DATTO_API_SECRET": "wrong"}, exitAuth, map[string]string{
			"login": checkFault, "rate limits": checkSkipped, "clock": checkOK,
		}},
		{"nobody listens", nil, map[string]string{"DATTO_API_URL": "http://127.0.0.1:1"}, exitUnreachable, map[string]string{
			"network": checkOK, "login": checkFault,
		}},
		{"clock ahead", shifted(-time.Hour), nil, exitOK, map[string]string{"clock": checkWarning, "login": checkOK}},
		{"clock behind", shifted(10 * time.Minute), nil, exitOK, map[string]string{"clock": checkWarning}},
		{"clock nearly right", shifted(30 * time.Second), nil, exitOK, map[string]string{"clock": checkOK}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			vars := doctorAccount(t, tt.change)
			for k, v := range tt.vars {
				vars[k] = v
			}
			r := runDoctor(t, vars)
			if r.Code != int(tt.code) {
				t.Errorf("exit %d, want %d: %+v", r.Code, tt.code, r)
			}
			for name, want := range tt.states {
				if c := r.check(name); c.State != want {
					t.Errorf("%s is %s, want %s: %s", name, c.State, want, c.Text)
				}
			}
		})
	}
}

// The state folder is a file, or holds a file that is no database.
func TestDoctorOfTheState(t *testing.T) {
	t.Parallel()
	vars := doctorAccount(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runDoctor(t, vars, "--state-dir", file); r.Code != int(exitLocalIO) || r.check("state folder").State != checkFault || r.check("checkpoint").State != checkSkipped {
		t.Errorf("%+v", r)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sends.db"), []byte("this is no database, but long enough to look at"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runDoctor(t, vars, "--state-dir", dir); r.Code != int(exitOK) || r.check("ledger").State != checkWarning || len(r.check("ledger").Next) == 0 {
		t.Errorf("%+v", r.check("ledger"))
	}
}

// A measurement of a live account is agreed to first.
func TestDoctorMeasureAsks(t *testing.T) {
	t.Parallel()
	sent := 0
	vars := doctorAccount(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sent++; h.ServeHTTP(w, r) })
	})
	if r := runDoctor(t, vars, "--measure"); r.Code != int(exitUsage) || sent > 0 {
		t.Errorf("exit %d, %d requests", r.Code, sent)
	}
}

// What a measurement finds, with a simulated account in virtual time.
func TestDoctorMeasures(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	for _, tt := range []struct {
		sim   string
		fresh *bool
		self  *bool
	}{
		{"latency=200ms", yes, yes},
		{"latency=200ms,stale=3s", no, yes},
		{"latency=200ms,legacy", yes, yes},
		{"latency=200ms,limits=60/60", nil, nil}, // too few to spend any
	} {
		t.Run(tt.sim, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := runDoctor(t, nil, "--measure", "--sim="+tt.sim)
				if r.Code != int(exitOK) || r.Measurement.Requests > measureMost {
					t.Errorf("exit %d after %d requests, %v", r.Code, r.Measurement.Requests, r.Error)
				}
				want := map[string]*bool{assumeFresh: tt.fresh, assumeSelf: tt.self, assumeDelay: nil}
				for _, a := range r.Measurement.Assumptions {
					w, known := want[a.Name]
					if !known || (w == nil) != (a.Holds == nil) || w != nil && *w != *a.Holds {
						t.Errorf("%s: %v, %s", a.Name, a.Holds, a.Measured)
					}
					delete(want, a.Name)
				}
				if len(want) > 0 {
					t.Errorf("not told: %v", want)
				}
			})
		})
	}
}

// The delay is looked at only where others have filled the window already.
func TestDoctorMeasuresTheDelay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fill  int
		holds *bool
	}{{100, nil}, {400, nil}, {560, new(true)}} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := testApp(t, nil, "--sim=latency=10ms")
			conn, err := a.openSim()
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.client.Login(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range tt.fill {
				if _, err := conn.client.Do(t.Context(), rmm.Request{Op: "account"}); err != nil {
					t.Fatal(err)
				}
			}
			rate, err := conn.client.RequestRate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a.json = true
			m := &measurement{d: &doctor{app: a, conn: conn, rate: &rate}}
			if err := m.all(t.Context()); err != nil {
				t.Fatal(err)
			}
			var found assumption
			for _, as := range m.found {
				if as.Name == assumeDelay {
					found = as
				}
			}
			if (found.Holds == nil) != (tt.holds == nil) || tt.holds != nil && !*found.Holds {
				t.Errorf("with %d in the window: %+v", tt.fill, found)
			}
			for _, r := range conn.sim.Log() {
				if r.Status == 429 {
					t.Errorf("with %d in the window: a 429", tt.fill)
				}
			}
		})
	}
}
