package main

import (
	"testing"
	"time"

	"rmmjob/checkpoint"
)

// Every state of a run has words that fit into a sentence, and none is its bare name
// unless that is a word of its own.
func TestStateWords(t *testing.T) {
	want := map[string]string{
		"planned": "a plan that waits", "running": "at work", "stopped": "stopped", "throttled": "stopped by the limits of the service",
		"auth": "stopped by a refused login or a missing right", "unreachable": "stopped, since the service could not be reached",
		"local_io": "stopped by a local file", "aborted": "aborted", "superseded": "superseded by a newer one", "ok": "done",
		"partial": "done in part", "in_doubt": "done, with writes in doubt", "guard": "stopped by a guard", "incomplete": "incomplete",
		"internal": "stopped by a fault of the program", "crashed": "cut off: its process died", "paused": "paused",
		"canary_wait": "waiting for a decision about the rest",
	}
	for state := range stateCodes {
		if want[string(state)] == "" {
			t.Errorf("the test does not know the state %s", state)
		}
	}
	for state, word := range want {
		if got := stateWord(state); got != word {
			t.Errorf("%s: it is %q, want %q", state, got, word)
		}
	}
	if len(stateWords) != len(want) {
		t.Errorf("%d states have words, want %d", len(stateWords), len(want))
	}
	if got := lastWord(checkpoint.Run{State: checkpoint.RunRunning}); got != "cut off" {
		t.Errorf("a run that was at work %q", got)
	}
}

// An exit code is shown of a run that has one.
func TestStateText(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		r    runInfo
		want string
	}{
		{runInfo{State: stateCrashed}, "crashed"},
		{runInfo{State: "running"}, "running"},
		{runInfo{State: "guard", ExitCode: 5, Finished: &now}, "guard (exit 5)"},
		{runInfo{State: stateWaiting, ExitCode: 21, Finished: &now}, "canary_wait (exit 21)"},
	} {
		if got := tt.r.stateText(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// What there is one of is told in the singular.
func TestCountLine(t *testing.T) {
	one := counts{Items: 1, Done: 1, Failed: 1, Reads: 1, Writes: 1, Found: 1, Throttled429: 1, Pending: 1}
	if got, want := countLine(one), "1 item, 1 done, 1 failed, 1 left, 1 read, 1 write, 1 found after a lost answer, 1 answer 429"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := counts{Items: 2000, Done: 2, Reads: 3, Writes: 1500}
	if got, want := countLine(many), "2,000 items, 2 done, 3 reads, 1,500 writes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
