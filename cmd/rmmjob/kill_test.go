package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
)

// kills is how often a test kills the program, and whether it does so at the size
// of a measurement: few kills of a small run by default, RMMJOB_KILLS of a large
// one otherwise.
func kills(t *testing.T, def int) (n int, large bool) {
	text := os.Getenv("RMMJOB_KILLS")
	if text == "" {
		return def, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("RMMJOB_KILLS: %v", err)
	}
	return n, true
}

// bench is a simulated account on loopback, a folder with a job, and the program.
type bench struct {
	t       *testing.T
	account *rmmsim.Account
	url     string
	dir     string
}

func newBench(t *testing.T, settings string) *bench {
	t.Helper()
	cfg, err := rmmsim.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Key, cfg.Secret = simKey, simSecret
	account, err := rmmsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(account)
	t.Cleanup(srv.Close)
	return &bench{t: t, account: account, url: srv.URL, dir: t.TempDir()}
}

func (b *bench) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// command is a call of the program with a state folder of its own name.
func (b *bench) command(state string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), "rmmjob", append(args, "--json", "--state-dir", filepath.Join(b.dir, state))...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "DATTO_API_URL="+b.url, "DATTO_API_KEY="+simKey, "DATTO_API_SECRET="+simSecret)
	return cmd
}

// finish runs the program to its end and returns its result.
func (b *bench) finish(want exitCode, state string, args ...string) map[string]any {
	b.t.Helper()
	cmd := b.command(state, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the exit code says more
	if got := cmd.ProcessState.ExitCode(); got != int(want) {
		b.t.Fatalf("rmmjob %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, want, out, &stderr)
	}
	var res map[string]any
	if err := json.Unmarshal(out, &res); err != nil {
		b.t.Fatalf("rmmjob %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return res
}

// kill starts the program and kills it after a random time; false when it had
// finished by then.
func (b *bench) kill(longest time.Duration, state string, args ...string) bool {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), rand.N(longest))
	defer cancel()
	cmd := b.command(state, args...)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	// It may have ended this very moment; its state tells.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode() < 0
}

func (b *bench) read(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// exportJob is an export of all devices to a file of its own.
func (b *bench) exportJob(name string) string {
	return b.write(name+".yaml", fmt.Sprintf("version: 1\nexport:\n  from: devices\n  to: '%s.csv'\n", name))
}

// TestCase_R01_KillAndResume kills an export at random moments: the file is that
// of an uninterrupted run, whatever the number of workers.
func TestCase_R01_KillAndResume(t *testing.T) {
	t.Parallel()
	n, large := kills(t, 3)
	devices, settings, longest := 1000, "devices=1000,udfs=30,page-max=50,limits=60000/60000,latency=20ms", time.Second
	if large {
		devices, settings, longest = 5000, "devices=5000,limits=60000/60000,latency=20ms", 1500*time.Millisecond
	}
	b := newBench(t, settings)
	b.finish(exitOK, "one", "run", b.exportJob("one"), "--workers", "1")
	b.finish(exitOK, "sixteen", "run", b.exportJob("sixteen"), "--workers", "16")
	want := b.read("one.csv")
	if lines := bytes.Count(want, []byte("\r\n")); lines < devices+1 {
		t.Fatalf("the file has %d lines, want a heading and %d devices", lines, devices)
	}
	if !bytes.Equal(want, b.read("sixteen.csv")) {
		t.Error("1 and 16 workers wrote different files")
	}

	job := b.exportJob("killed")
	killed := 0
	for range n {
		if b.kill(longest, "killed", "run", job) {
			killed++
		}
		if data, err := os.ReadFile(filepath.Join(b.dir, "killed.csv")); err == nil && !bytes.Equal(data, want) {
			t.Fatal("a file that is not whole stands under the final name")
		}
	}
	b.finish(exitOK, "killed", "run", job)
	if !bytes.Equal(want, b.read("killed.csv")) {
		t.Error("the resumed run wrote another file")
	}
	leftovers, err := filepath.Glob(filepath.Join(b.dir, ".*.tmp"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("left beside the file: %v %v", leftovers, err)
	}
	t.Logf("%d of %d starts were killed in the middle", killed, n)
}

// TestKillUpdate kills an update at random moments: no write that is on record
// as acknowledged is sent again, and the account ends as the input says.
func TestKillUpdate(t *testing.T) {
	t.Parallel()
	n, large := kills(t, 3)
	rows, equal, settings, longest := 300, 120, "devices=400,udfs=30,limits=600000/600000,latency=15ms", 1500*time.Millisecond
	if large {
		rows, equal, settings, longest = 2000, 800, "devices=2500,limits=600000/600000,latency=15ms", 4*time.Second
	}
	b := newBench(t, settings)
	var csv strings.Builder
	csv.WriteString("uid,tag\r\n")
	devices := b.account.DeviceUIDs()
	for i, d := range devices[:rows] {
		tag := fmt.Sprintf("tag-%05d", i)
		if i < equal {
			if err := b.account.SetUDF(d, "udf7", tag); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&csv, "%s,%s\r\n", d, tag)
	}
	b.write("rows.csv", csv.String())
	job := b.write("tags.yaml", `version: 1
update:
  operation: device-udf-set
  rows: rows.csv
  match: {uid: '{uid}'}
  set: {udf7: '{tag}'}
`)

	var acked []map[string]bool // targets on record as done after each kill
	var marks []int             // length of the account's log then
	killed := 0
	for range n {
		if b.kill(longest, "state", "run", job) {
			killed++
		}
		acked = append(acked, b.doneTargets("state"))
		marks = append(marks, len(b.account.Log()))
	}
	res := b.finish(exitOK, "state", "run", job)

	log := b.account.Log()
	for i, from := range marks {
		for _, rec := range log[from:] {
			if rec.Operation == "device-udf-set" && acked[i][strings.Split(rec.Path, "/")[4]] {
				t.Fatalf("a write that was on record as acknowledged was sent again: %s", rec.Path)
			}
		}
	}
	targets := map[string]int{}
	for _, rec := range log {
		if rec.Operation == "device-udf-set" {
			targets[rec.Path]++
		}
	}
	if len(targets) != rows-equal {
		t.Errorf("%d devices were written, want %d", len(targets), rows-equal)
	}
	if killed == 0 {
		for path, n := range targets {
			if n != 1 {
				t.Errorf("%s was written %d times", path, n)
			}
		}
	}
	t.Logf("%d of %d starts were killed; %d writes for %d changes; the last call: %v", killed, n, sum(targets), len(targets), res["counts"])
}

// TestUpdateSendsOnlyChanges counts the writes of an uninterrupted update.
func TestUpdateSendsOnlyChanges(t *testing.T) {
	t.Parallel()
	const rows, equal = 1000, 400
	b := newBench(t, "devices=1200,udfs=30,limits=600000/600000")
	var csv strings.Builder
	csv.WriteString("uid,tag\r\n")
	for i, d := range b.account.DeviceUIDs()[:rows] {
		tag := fmt.Sprintf("tag-%05d", i)
		if i%5 < 2 {
			if err := b.account.SetUDF(d, "udf7", tag); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&csv, "%s,%s\r\n", d, tag)
	}
	b.write("rows.csv", csv.String())
	job := b.write("tags.yaml", `version: 1
update:
  operation: device-udf-set
  rows: rows.csv
  match: {uid: '{uid}'}
  set: {udf7: '{tag}'}
`)
	writes := func() (n int) {
		for _, rec := range b.account.Log() {
			if rec.Operation == "device-udf-set" {
				n++
			}
		}
		return n
	}
	b.finish(exitChanges, "state", "plan", job, "--detailed-exitcode")
	if n := writes(); n != 0 {
		t.Fatalf("the plan wrote %d times", n)
	}
	b.finish(exitOK, "state", "run", job)
	if n := writes(); n != rows-equal {
		t.Fatalf("%d writes, want %d", n, rows-equal)
	}
	b.finish(exitOK, "state", "run", job)
	if n := writes(); n != rows-equal {
		t.Fatalf("the second run wrote %d times", n-(rows-equal))
	}
}

// doneTargets is what the checkpoint has on record as done.
func (b *bench) doneTargets(state string) map[string]bool {
	b.t.Helper()
	done := map[string]bool{}
	path := filepath.Join(b.dir, state, "rmmjob.db")
	if _, err := os.Stat(path); err != nil {
		return done // killed before there was a state
	}
	store, err := checkpoint.Open(b.t.Context(), path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	runs, err := store.Runs(b.t.Context(), 0, "")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, rec := range runs {
		for res, err := range store.Results(b.t.Context(), rec.ID, "apply/") {
			if err != nil {
				b.t.Fatal(err)
			}
			if res.State == checkpoint.StateDone {
				done[res.Key[strings.LastIndexByte(res.Key, '/')+1:]] = true
			}
		}
	}
	return done
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}
