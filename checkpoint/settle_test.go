package checkpoint

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// stateOf is the state of an item of run "r" as "state class reason".
func stateOf(t *testing.T, s *Store, key string) string {
	t.Helper()
	it, err := s.Item(t.Context(), "r", key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(it.State)+" "+it.Class+" "+it.Reason, " ")
}

// held are items that wait to be released.
func held(keys ...string) []NewItem {
	var items []NewItem
	for _, k := range keys {
		items = append(items, NewItem{Key: k, Lane: "l", Held: true})
	}
	return items
}

// TestHeldItems are not seen by those who look for work, and go in the order of the plan.
func TestHeldItems(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	if err := s.Advance(t.Context(), "r", t0, "", "planned", Change{Items: slices.Values(held("d", "a", "c", "b"))}); err != nil {
		t.Fatal(err)
	}
	look := func(want ...string) {
		t.Helper()
		lanes, err := s.Lanes(t.Context(), "r")
		counts, err2 := s.Pending(t.Context(), "r", "")
		free := 0
		for _, c := range counts {
			if free += c.Items; c.Items+c.Held != 4 {
				t.Errorf("%+v", c)
			}
		}
		if (len(lanes) > 0) != (len(want) > 0) || free != len(want) || err != nil || err2 != nil {
			t.Errorf("lanes %q, %d pending, %v, %v; want %q", lanes, free, err, err2, want)
		}
		if c, err := s.Counts(t.Context(), "r"); c.Pending != 4 || err != nil {
			t.Errorf("counts %+v, %v", c, err)
		}
		for _, key := range want {
			if c := mustClaim(t, s, t0); c.Key != key {
				t.Errorf("claimed %q, want %q", c.Key, key)
			}
		}
		if c, ok, next, err := s.Claim(t.Context(), "r", "l", t0); ok || !next.IsZero() || err != nil {
			t.Errorf("claimed %q, next %v, %v", c.Key, next, err)
		}
		if _, err := s.Recover(t.Context(), "r", t0); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if err := s.Advance(t.Context(), "r", t0, "planned", "canary", Change{Release: 2}); err != nil {
		t.Fatal(err)
	}
	look("d", "a")
	if err := s.Advance(t.Context(), "r", t0, "canary", "apply", Change{Release: -1}); err != nil {
		t.Fatal(err)
	}
	look("d", "a", "c", "b")
	// What a step adds it may release as well.
	newRun(t, s, "other")
	if err := s.Advance(t.Context(), "other", t0, "", "canary", Change{Items: slices.Values(held("x", "y")), Release: 1}); err != nil {
		t.Fatal(err)
	}
	if c, ok, _, err := s.Claim(t.Context(), "other", "l", t0); !ok || c.Key != "x" || c.More || err != nil {
		t.Errorf("claimed %q, more %v, %v", c.Key, c.More, err)
	}
	if err := s.Advance(t.Context(), "r", t0, "apply", "x", Change{Items: slices.Values([]NewItem{{Key: "k", State: StateUnchanged, Held: true}})}); err == nil {
		t.Error("an item that is settled was held")
	}
}

// TestSettle: each state is reached from some states only, and an item that a release would let go is settled first.
func TestSettle(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "done", "doubt1", "doubt2", "doubt3", "failed")
	for _, o := range []Outcome{Done([]byte("answer")), InDoubt("network", "lost", 0), InDoubt("network", "lost", 0), InDoubt("network", "lost", 0), Failed("rejected", "no", 400)} {
		if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddItems(t.Context(), "r", t0, slices.Values(held("held1", "held2", "held3", "held4"))); err != nil {
		t.Fatal(err)
	}
	err := s.Advance(t.Context(), "r", t0, "", "apply", Change{Release: 1, Settle: slices.Values([]Settled{
		{Key: "held1", State: StateFailed, Class: "drifted", Reason: "edited since"},
		{Key: "held2", State: StateUnchanged, Reason: "it is so already"},
		{Key: "held4", State: StateDone, Reason: "found"},
		{Key: "done", State: StateFailed, Class: "not_applied", Reason: "it is not there"},
		{Key: "doubt1", State: StateDone, Reason: "found"},
		{Key: "doubt2", State: StatePending},
		{Key: "doubt3", State: StateFailed, Class: "in_doubt", Reason: "given up"},
		{Key: "failed", State: StateDone},
		{Key: "failed", State: StatePending},
		{Key: "none", State: StateDone},
	})})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"held1": "failed drifted edited since", "held2": "unchanged  it is so already", "held3": "pending", "held4": "done  found",
		"done": "failed not_applied it is not there", "doubt1": "done  found", "doubt2": "pending  tried before", "doubt3": "failed in_doubt given up",
		"failed": "failed rejected no",
	} {
		if got := stateOf(t, s, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if lanes, err := s.Lanes(t.Context(), "r"); len(lanes) != 1 || err != nil {
		t.Errorf("%q, %v", lanes, err)
	}
	for _, bad := range []Settled{{Key: "doubt2", State: StateFailed}, {Key: "doubt2", State: StateRunning}, {Key: "failed", State: StateSkipped}} {
		if n, err := s.Settle(t.Context(), "r", t0, []Settled{{Key: "held3", State: StateUnchanged}, bad}); n != 0 || err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	made := []Settled{{Key: "failed", State: StateSkipped, Class: "superseded", Reason: "read anew"}, {Key: "held3", State: StateSkipped, Reason: "no"}}
	if n, err := s.Settle(t.Context(), "r", t0, made); n != 1 || err != nil || stateOf(t, s, "failed") != "skipped superseded read anew" {
		t.Errorf("%d settled, %v, %q", n, err, stateOf(t, s, "failed"))
	}
	if _, n, err := s.Absent(t.Context(), "r", 0); n != 0 || err != nil {
		t.Errorf("%d are absent, %v", n, err)
	}
	if got := stateOf(t, s, "held3"); got != "pending" {
		t.Errorf("part of what was refused stayed: %s", got)
	}
}

// TestRetryChooses items by lane, state and class.
func TestRetryChooses(t *testing.T) {
	fails := []Outcome{Failed("service", "500", 500), Failed("rejected", "400", 400), Failed("drifted", "since", 0), InDoubt("network", "lost", 0)}
	for _, tt := range []struct {
		name string
		what Again
		want []string
	}{
		{"nothing", Again{}, nil},
		{"failed", Again{Failed: true}, []string{"k0", "k1", "k2"}},
		{"but those", Again{Failed: true, Except: []string{"drifted", "other"}}, []string{"k0", "k1"}},
		{"one class", Again{Failed: true, Classes: []string{"service", "network"}}, []string{"k0"}},
		{"no class", Again{Failed: true, Classes: []string{}}, nil},
		{"in doubt", Again{InDoubt: true}, []string{"k3"}},
		{"both", Again{Failed: true, Classes: []string{"rejected"}, InDoubt: true}, []string{"k1", "k3"}},
		{"another lane", Again{Failed: true, InDoubt: true, Lane: "read"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openNew(t, t.TempDir())
			newRun(t, s, "r")
			addPending(t, s, "r", "k0", "k1", "k2", "k3")
			for _, o := range fails {
				if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, o); err != nil {
					t.Fatal(err)
				}
			}
			n, err := s.Retry(t.Context(), "r", tt.what)
			var got []string
			for _, key := range []string{"k0", "k1", "k2", "k3"} {
				if stateOf(t, s, key) == "pending  tried before" {
					got = append(got, key)
				}
			}
			if n != len(tt.want) || err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%d, %q, %v; want %q", n, got, err, tt.want)
			}
		})
	}
}

func TestFailureCounts(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "a", "b")
	for range 2 {
		if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Failed("service", "500", 500)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{{Key: "row", State: StateFailed, Class: "invalid", Reason: "bad"}})); err != nil {
		t.Fatal(err)
	}
	got, err := s.FailureCounts(t.Context(), "r")
	if want := []FailureCount{{"", "invalid", 1}, {"l", "service", 2}}; !slices.Equal(got, want) || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestHeldMigration opens a file of the version before, with a plan that nobody has applied and a run half done.
func TestHeldMigration(t *testing.T) {
	folder := t.TempDir()
	before := fstest.MapFS{}
	for _, name := range []string{"0001_initial.sql", "0002_control.sql", "0003_memory.sql"} {
		data, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = &fstest.MapFile{Data: data}
	}
	old, err := open(t.Context(), filepath.Join(folder, "state.db"), before)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"plan", "r"} {
		if err := old.CreateRun(t.Context(), Run{ID: id, JobKey: "job", Stage: []string{"planned", "apply"}[i], Created: t0}); err != nil {
			t.Fatal(err)
		}
		if _, err := old.write.ExecContext(t.Context(), `INSERT INTO items (run, key, lane, op, replay, state, attempts, not_before, class, reason, http, created)
			VALUES (?, 'k', 'l', 'op', 'free', 'pending', 0, 0, '', '', 0, 0)`, i+1); err != nil {
			t.Fatal(err)
		}
	}
	old.Close()
	s := openNew(t, folder)
	for id, want := range map[string]int{"plan": 0, "r": 1} {
		if lanes, err := s.Lanes(t.Context(), id); len(lanes) != want || err != nil {
			t.Errorf("%s: lanes %q, %v", id, lanes, err)
		}
	}
	if err := s.SetSettings(context.Background(), "plan", []byte("x")); err != nil {
		t.Error(err)
	}
	if r, err := s.Run(t.Context(), "plan"); string(r.Settings) != "x" || err != nil {
		t.Errorf("settings %q, %v", r.Settings, err)
	}
}
