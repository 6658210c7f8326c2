package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
)

// historyOf makes a state folder with runs. Ages count back from fixedNow.
func historyOf(t *testing.T, runs ...checkpoint.Run) string {
	t.Helper()
	dir := t.TempDir()
	st, _ := openTestState(t, dir)
	ctx := context.Background()
	for _, r := range runs {
		state := r.State
		r.State, r.Kind, r.Stage, r.Account = checkpoint.RunPlanned, "export", "read", "eu"
		if err := st.store.CreateRun(ctx, r); err != nil {
			t.Fatal(err)
		}
		if err := st.store.BeginRun(ctx, r.ID, r.Created, "host", 42); err != nil {
			t.Fatal(err)
		}
		if state == checkpoint.RunRunning {
			continue
		}
		if err := st.store.EndRun(ctx, r.ID, r.Created.Add(time.Minute), state, int(stateCodes[state]), r.Error); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func aRun(id, job string, age time.Duration, state checkpoint.RunState) checkpoint.Run {
	path, _ := filepath.Abs(job + ".yaml")
	return checkpoint.Run{ID: id, JobKey: job, JobName: job, JobPath: path, Created: fixedNow.Add(-age), State: state}
}

// call runs a command line on a state folder.
func call(t *testing.T, dir string, args ...string) (code int, stdout, stderr *bytes.Buffer) {
	t.Helper()
	e, stdout, stderr := testEnv(t, map[string]string{"RMMJOB_STATE_DIR": dir})
	return run(t.Context(), args, e), stdout, stderr
}

func TestStatusMaxAge(t *testing.T) {
	dir := historyOf(t,
		aRun("20260304-a", "nightly", 50*time.Hour, checkpoint.RunOK),
		aRun("20260305-b", "nightly", 25*time.Hour, checkpoint.RunOK),
		aRun("20260305-c", "tags", 24*time.Hour, checkpoint.RunPartial),
		aRun("20260306-d", "nightly", time.Hour, checkpoint.RunStopped),
	)
	empty := t.TempDir()
	tests := []struct {
		name string
		dir  string
		args []string
		want exitCode
		msg  string
	}{
		{"no question", dir, nil, exitOK, ""},
		{"recent enough", dir, []string{"nightly.yaml", "--max-age", "26h"}, exitOK, ""},
		{"a later stop is no success", dir, []string{"nightly.yaml", "--max-age", "2h"}, exitOverdue, "the last success of nightly is older than 2h"},
		{"partial is no success", dir, []string{"tags.yaml", "--max-age", "26h"}, exitOverdue, "tags has never succeeded"},
		{"one of all", dir, []string{"--max-age", "26h"}, exitOverdue, "tags"},
		{"never ran", dir, []string{"other.yaml", "--max-age", "26h"}, exitOverdue, "other.yaml has never run"},
		{"nothing ever", empty, []string{"--max-age", "26h"}, exitOverdue, "no job has ever run"},
		{"by run", dir, []string{"20260305-b", "--max-age", "26h"}, exitOK, ""},
		{"ambiguous run", dir, []string{"20260305"}, exitUsage, "20260305-b, 20260305-c"},
		{"no such run", dir, []string{"2027"}, exitUsage, "not found"},
		{"negative", dir, []string{"--max-age", "-1h"}, exitUsage, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := call(t, tt.dir, append([]string{"status"}, tt.args...)...)
			if code != int(tt.want) || !strings.Contains(stderr.String(), tt.msg) {
				t.Errorf("exit %d, want %d with %q:\n%s", code, tt.want, tt.msg, stderr)
			}
		})
	}
}

// A run that can go on, or waits for a decision, names the command; a finished one
// names none.
func TestCase_R31_NextCommandOnlyWhereThereIsMore(t *testing.T) {
	for state, code := range stateCodes {
		dir := historyOf(t, aRun("20260306-a", "nightly", time.Hour, state))
		for _, verb := range [][]string{{"status", "nightly.yaml", "--json"}, {"show", "2026", "--json"}} {
			_, stdout, stderr := call(t, dir, verb...)
			var got struct {
				Next *string `json:"next_command"`
			}
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s%s", err, stdout, stderr)
			}
			if want := unfinished(state) || state == checkpoint.RunInDoubt; want != (got.Next != nil) {
				t.Errorf("%s of a run that is %s (exit %d): next command %v, want one: %v", verb[0], state, code, got.Next, want)
			}
		}
	}
}

// A run whose process died is told apart from one at work by the lock.
func TestRunningOrCrashed(t *testing.T) {
	dir := historyOf(t, aRun("20260306-a", "nightly", time.Hour, checkpoint.RunRunning))
	st, _ := openTestState(t, dir)
	unlock, err := st.lockJob("nightly")
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		_, stdout, _ := call(t, dir, "show", "20260306-a", "--json")
		var got struct{ State string }
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	if got := state(); got != "running" {
		t.Errorf("at work: %s", got)
	}
	unlock()
	if got := state(); got != stateCrashed {
		t.Errorf("after its death: %s", got)
	}
}

func TestRunsNewestFirst(t *testing.T) {
	dir := historyOf(t,
		aRun("20260304-a", "nightly", 50*time.Hour, checkpoint.RunOK),
		aRun("20260305-b", "evil\x1b[31m", 25*time.Hour, checkpoint.RunPartial),
		aRun("20260306-c", "nightly", time.Hour, checkpoint.RunOK),
	)
	code, stdout, _ := call(t, dir, "runs", "--limit", "2")
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[1], "20260306-c") || !strings.HasPrefix(lines[2], "20260305-b") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("a job's name moves the cursor: %q", stdout)
	}
}
