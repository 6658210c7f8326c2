package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/internal/rmmsim"
)

// At a terminal the rest follows a yes, and nothing else.
func TestCanaryAsks(t *testing.T) {
	for answer, want := range map[string]exitCode{
		"y\n": exitOK, "yes\n": exitOK, "YES": exitOK, "\n": exitCanary, "": exitCanary, "no\n": exitCanary, "yep\n": exitCanary,
	} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			dir := t.TempDir()
			uids := simUIDs(t)
			job := filepath.Join(dir, "job.yaml")
			for path, text := range map[string]string{
				job:                            "version: 1\nupdate: {operation: device-udf-set, rows: rows.csv, match: {uid: '{uid}'}, set: {udf7: '{tag}'}}\n",
				filepath.Join(dir, "rows.csv"): "uid,tag\n" + strings.Join(uids, ",SECRET-NEW\n") + ",SECRET-NEW\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			e, stdout, stderr := testEnv(t, nil)
			e.now = time.Now
			e.canAsk, e.stdin = true, strings.NewReader(answer)
			code := run(t.Context(), []string{"run", job, "--canary", "2", "--sim=devices=4,limits=off", "--progress", "none"}, e)
			if code != int(want) {
				t.Fatalf("exit %d, want %d\n%s%s", code, want, stdout, stderr)
			}
			if n := bytes.Count(stderr.Bytes(), []byte("send the rest? [y/N]")); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if n := bytes.Count(stderr.Bytes(), []byte("as sent")); n != 2 {
				t.Errorf("%d fields are shown before the question\n%s", n, stderr)
			}
			if out := stdout.String() + stderr.String(); strings.Contains(out, "SECRET-NEW") {
				t.Error("a value is shown")
			}
		})
	}
}

// simUIDs are the devices of the simulated account that the tests use.
func simUIDs(t *testing.T) []string {
	t.Helper()
	cfg, err := rmmsim.ParseSettings("devices=4,limits=off")
	if err != nil {
		t.Fatal(err)
	}
	account, err := rmmsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return account.DeviceUIDs()
}

// Case R33 goes on: the two rows that the account had refused are tried once more in
// the same run, and nothing else is.
func TestCase_R33_RetryOfTheTwo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=100,udfs=30,"+fast)
	uids := b.account.DeviceUIDs()
	for _, i := range []int{10, 60} {
		b.fault(fmt.Sprintf("- match: {operation: device-udf-set, uid: %s}\n  do: {status: 400, body: '{\"errorMessage\":\"refused\"}'}", uids[i-1]))
	}
	res := b.finish(exitPartial, "state", "run", b.tagJob("tags"))
	b.account.ClearFaults()
	run, _ := res["run"].(string)
	res = b.finish(exitOK, "state", "retry", run)
	if res["run"] != run || counted(t, res, "writes") != 100 || counted(t, res, "failed") != 0 {
		t.Errorf("%v", res)
	}
	for path, n := range b.writesTo() {
		if n != 1 {
			t.Errorf("%s was written %d times", path, n)
		}
	}
}

// Case Y05: what an undo restores is what was there before, empty fields included.
func TestCase_Y05_UndoRestoresWhatWas(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=2,udfs=30,"+fast)
	uids := b.account.DeviceUIDs()
	for i, value := range []string{"before", ""} {
		if err := b.account.SetUDF(uids[i], "udf7", value); err != nil {
			t.Fatal(err)
		}
	}
	res := b.finish(exitOK, "state", "run", b.tagJob("tags"))
	run, _ := res["run"].(string)
	b.finish(exitOK, "state", "undo", run, "--yes")
	if a, c := b.account.UDF(uids[0], "udf7"), b.account.UDF(uids[1], "udf7"); a != "before" || c != "" {
		t.Errorf("%q and %q", a, c)
	}
}

// A plan that is applied, and an undo, survive kill -9 at any moment: in the end all
// of it is done, and the account is as before.
func TestApplyAndUndoSurviveKills(t *testing.T) {
	t.Parallel()
	n, large := kills(t, 3)
	devices := 150
	if large {
		devices = 2000
	}
	b := newBench(t, fmt.Sprintf("devices=%d,udfs=30,latency=5ms,%s", devices, fast))
	before := map[string]string{}
	for _, uid := range b.account.DeviceUIDs() {
		before[uid] = b.account.UDF(uid, "udf7")
	}
	res := b.finish(exitOK, "state", "plan", b.tagJob("tags"))
	run, _ := res["run"].(string)
	killed := 0
	for range n {
		if b.kill(1500*time.Millisecond, "state", "apply", run) {
			killed++
		}
	}
	b.settle("apply", run)
	for i, uid := range b.account.DeviceUIDs() {
		if got, want := b.account.UDF(uid, "udf7"), fmt.Sprintf("tag-%05d", i+1); got != want {
			t.Fatalf("%s: %q, want %q", uid, got, want)
		}
	}
	for range n {
		if b.kill(1500*time.Millisecond, "state", "undo", run, "--yes") {
			killed++
		}
	}
	b.settle("undo", run, "--yes")
	for uid, want := range before {
		if got := b.account.UDF(uid, "udf7"); got != want {
			t.Fatalf("after the undo %s: %q, want %q", uid, got, want)
		}
	}
	t.Logf("killed %d times", killed)
}

// settle runs a command that may find its work done already.
func (b *bench) settle(args ...string) {
	b.t.Helper()
	cmd := b.command("state", args...)
	out, _ := cmd.Output() // the exit code says more
	if code := cmd.ProcessState.ExitCode(); code != int(exitOK) && code != int(exitUsage) {
		b.t.Fatalf("rmmjob %v: exit %d\n%s", args, code, out)
	}
}
