package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// TestChecks writes rows that cannot be, past the methods. The schema must refuse each for the reason meant, which is
// why every case differs from a good row in one thing.
func TestChecks(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "pending", "running", "done")
	c := mustClaim(t, s, t0) // "pending" for a moment
	if err := s.Finish(t.Context(), c, t0, Released("back")); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`UPDATE items SET state = 'running', lease = 1, attempts = 1 WHERE key = 'running'`,
		`UPDATE items SET state = 'done', attempts = 1, finished = 1 WHERE key = 'done'`,
		`INSERT INTO results VALUES ((SELECT id FROM items WHERE key = 'done'), 'raw', 2, x'0102')`,
		`INSERT INTO plan_rows VALUES (1, 1, 'change', '', NULL)`,
		`INSERT INTO events (run, at, kind, text) VALUES (1, 1, 'k', '')`,
	} {
		if _, err := s.write.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for _, c := range []struct {
		name, update string
		want         int
	}{
		{"unknown state", `UPDATE items SET state = 'odd' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"running without lease", `UPDATE items SET lease = NULL WHERE key = 'running'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"pending with lease", `UPDATE items SET lease = 1 WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"done with lease", `UPDATE items SET lease = 1 WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"running without attempt", `UPDATE items SET attempts = 0 WHERE key = 'running'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"negative attempts", `UPDATE items SET attempts = -1 WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"done without end", `UPDATE items SET finished = NULL WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"pending with end", `UPDATE items SET finished = 1 WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"done, but later", `UPDATE items SET not_before = 1 WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"before time began", `UPDATE items SET not_before = -1 WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"pending and sent", `UPDATE items SET attempts = 1, sent = 1 WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"sent without attempt", `UPDATE items SET attempts = 0, sent = 1 WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"done with a failure", `UPDATE items SET class = 'c' WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"failed without reason", `UPDATE items SET state = 'failed' WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"in doubt without reason", `UPDATE items SET state = 'in_doubt' WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"no lane", `UPDATE items SET lane = '' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"no key", `UPDATE items SET key = '' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"same key", `UPDATE items SET key = 'done' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_UNIQUE},
		{"replay", `UPDATE items SET replay = 'maybe' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"http", `UPDATE items SET http = 1000 WHERE key = 'done'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"item of no run", `UPDATE items SET run = 77`, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY},
		{"type", `UPDATE items SET attempts = 'many' WHERE key = 'pending'`, sqlite3.SQLITE_CONSTRAINT_DATATYPE},
		{"result of no item", `INSERT INTO results VALUES (77, 'raw', 2, x'0102')`, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY},
		{"result of another size", `UPDATE results SET size = 3`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"result encoding", `UPDATE results SET encoding = 'zip'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"row without class", `UPDATE plan_rows SET class = ''`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"row of no run", `UPDATE plan_rows SET run = 77`, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY},
		{"event without kind", `UPDATE events SET kind = ''`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run state", `UPDATE runs SET state = 'odd'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run running, never begun", `UPDATE runs SET state = 'running'`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run running, ended", `UPDATE runs SET state = 'running', started = 1, finished = 2`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run ok, not ended", `UPDATE runs SET state = 'ok', started = 1`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run resumed, never begun", `UPDATE runs SET resumes = 1`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run exit code", `UPDATE runs SET exit_code = 256`, sqlite3.SQLITE_CONSTRAINT_CHECK},
		{"run id twice", `INSERT INTO runs SELECT 9, id, job_key, job_name, job_path, kind, account, job_hash, input_hash, state, stage, exit_code,
			error, settings, created, started, finished, resumes, reads, writes, throttled, host, pid FROM runs`, sqlite3.SQLITE_CONSTRAINT_UNIQUE},
	} {
		if _, err := s.write.Exec(c.update); code(err) != c.want {
			t.Errorf("%s: got %v, want code %d", c.name, err, c.want)
		}
	}
}

func TestNewItemsThatCannotBe(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	for want, n := range map[string]NewItem{
		"its key is empty":         {Lane: "l"},
		"zero byte":                {Key: "a\x00b", Lane: "l"},
		"pending without a lane":   {Key: "k"},
		"skipped without a reason": {Key: "k", State: StateSkipped},
		"failed without a reason":  {Key: "k", State: StateFailed},
		"cannot be born done":      {Key: "k", Lane: "l", State: StateDone},
		"cannot be born running":   {Key: "k", Lane: "l", State: StateRunning},
	} {
		added, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{{Key: "good", Lane: "l"}, n}))
		if err == nil || !strings.Contains(err.Error(), want) || added != 0 {
			t.Errorf("%+v: added %d, %v", n, added, err)
		}
	}
	if c, _ := s.Counts(t.Context(), "r"); c.Items != 0 {
		t.Errorf("part of a refused batch stayed: %+v", c)
	}
	if _, err := s.AddItems(t.Context(), "none", t0, slices.Values([]NewItem{{Key: "k", Lane: "l"}})); !errors.Is(err, ErrNotFound) {
		t.Errorf("items of no run: %v", err)
	}
}

func TestClaimOrder(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	newRun(t, s, "other")
	addPending(t, s, "other", "z")
	addPending(t, s, "r", "b", "a", "d", "c")
	claim := func(now time.Time, want string, more bool) Claim {
		t.Helper()
		c := mustClaim(t, s, now)
		if c.Key != want || c.More != more || c.State != StateRunning {
			t.Errorf("claimed %s (%s), more %v; want %s, %v", c.Key, c.State, c.More, want, more)
		}
		return c
	}
	finish := func(c Claim, o Outcome) {
		t.Helper()
		if err := s.Finish(t.Context(), c, t0, o); err != nil {
			t.Fatal(err)
		}
	}
	b := claim(at(0), "b", true)
	a := claim(at(0), "a", true)
	if string(b.Payload) != "payload of b" || b.Op != "op" || b.Lane != "l" || b.Attempts != 1 {
		t.Errorf("%+v", b)
	}
	finish(b, RetryAt(at(20), "later", 500))
	finish(a, RetryAt(at(10), "soon", 500))
	d := claim(at(9.999), "d", true)
	finish(d, Released("stop"))
	if d = claim(at(9.999), "d", true); d.Attempts != 1 {
		t.Errorf("a released attempt counted: %d", d.Attempts)
	}
	a = claim(at(10), "a", true) // its wait is over: before the fresh one
	if a.Attempts != 2 || a.Reason != "soon" || a.HTTP != 500 {
		t.Errorf("%+v", a)
	}
	c := claim(at(10), "c", false)
	if _, ok, next, err := s.Claim(t.Context(), "r", "l", at(10)); ok || !next.Equal(at(20)) || err != nil {
		t.Errorf("claimed %v, next %v, %v", ok, next, err)
	}
	finish(c, RetryAt(at(15), "", 0))
	claim(at(30), "c", true) // due longest
	claim(at(30), "b", false)
	if _, ok, next, err := s.Claim(t.Context(), "r", "l", at(99)); ok || !next.IsZero() || err != nil {
		t.Errorf("claimed %v, next %v, %v", ok, next, err)
	}
	if _, _, _, err := s.Claim(t.Context(), "none", "l", t0); !errors.Is(err, ErrNotFound) {
		t.Errorf("claim of no run: %v", err)
	}
}

// TestNeverDueTooEarly checks the rounding of moments between two milliseconds.
func TestNeverDueTooEarly(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	c := mustClaim(t, s, t0)
	want := t0.Add(1500*time.Microsecond + 1)
	if err := s.Finish(t.Context(), c, t0, RetryAt(want, "", 0)); err != nil {
		t.Fatal(err)
	}
	_, ok, next, err := s.Claim(t.Context(), "r", "l", t0.Add(1500*time.Microsecond))
	if ok || err != nil || next.Before(want) || next.Sub(want) > time.Millisecond {
		t.Fatalf("claimed %v, next %v, %v", ok, next, err)
	}
	mustClaim(t, s, next)
}

func TestFinish(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Outcome
		want Item
		run  Run
		body string
	}{
		{"done", Done([]byte("ok")).Acked(Read), Item{State: StateDone, Attempts: 1, Sent: at(1), Finished: at(2)}, Run{Reads: 1}, "ok"},
		{"done with nothing", Done(nil).Answered(204).Acked(Write), Item{State: StateDone, Attempts: 1, HTTP: 204, Sent: at(1), Finished: at(2)}, Run{Writes: 1}, ""},
		{"skipped", Skipped("not there", 404), Item{State: StateSkipped, Attempts: 1, Reason: "not there", HTTP: 404, Sent: at(1), Finished: at(2)}, Run{}, ""},
		{"failed", Failed("not_found", "404", 404), Item{State: StateFailed, Attempts: 1, Class: "not_found", Reason: "404", HTTP: 404, Sent: at(1), Finished: at(2)}, Run{}, ""},
		{"retry", RetryAt(at(9), "500", 500).Acked(Read).Acked(Read), Item{State: StatePending, Attempts: 1, NotBefore: at(9), Reason: "500", HTTP: 500}, Run{Reads: 2}, ""},
		{"released", Released("429").Throttled(), Item{State: StatePending, Reason: "429"}, Run{Throttled: 1}, ""},
		{"in doubt", InDoubt("service", "cut", 502), Item{State: StateInDoubt, Attempts: 1, Class: "service", Reason: "cut", HTTP: 502, Sent: at(1), Finished: at(2)}, Run{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openNew(t, t.TempDir())
			newRun(t, s, "r")
			addPending(t, s, "r", "k")
			claim := mustClaim(t, s, t0)
			if err := s.MarkSent(t.Context(), claim, at(1)); err != nil {
				t.Fatal(err)
			}
			children := []NewItem{{Key: "k", Lane: "x"}, {Key: "child", Lane: "x"}, {Key: "same", State: StateUnchanged}}
			if err := s.Finish(t.Context(), claim, at(2), c.o.With(children[0]).With(children[1:]...)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Item(t.Context(), "r", "k")
			want := c.want
			want.ID, want.Key, want.Lane, want.Op, want.Payload, want.Replay, want.Created = got.ID, "k", "l", "op", []byte("payload of k"), ReplayFree, t0
			if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
			run, err := s.Run(t.Context(), "r")
			if err != nil || run.Reads != c.run.Reads || run.Writes != c.run.Writes || run.Throttled != c.run.Throttled {
				t.Errorf("counters: %+v %v", run, err)
			}
			var keys []string
			for r, err := range s.Results(t.Context(), "r", "") {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, r.Key)
				if r.Key == "k" && (string(r.Body) != c.body || (r.Body == nil) != (c.body == "")) {
					t.Errorf("body %q", r.Body)
				}
			}
			if !slices.Equal(keys, []string{"child", "k", "same"}) {
				t.Errorf("keys %q", keys)
			}
			// The claim is spent, whatever came of it.
			if err := s.Finish(t.Context(), claim, at(3), Done([]byte("again")).Acked(Write).With(NewItem{Key: "more", Lane: "l"})); !errors.Is(err, ErrLost) {
				t.Errorf("finish again: %v", err)
			}
			if err := s.MarkSent(t.Context(), claim, at(3)); !errors.Is(err, ErrLost) {
				t.Errorf("mark again: %v", err)
			}
			if again, _ := s.Item(t.Context(), "r", "k"); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", got) {
				t.Errorf("a lost claim changed the item: %+v", again)
			}
			if counts, _ := s.Counts(t.Context(), "r"); counts.Items != 3 {
				t.Errorf("a lost claim added items: %+v", counts)
			}
		})
	}
}

func TestFinishIsAllOrNothing(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	c := mustClaim(t, s, t0)
	if err := s.Finish(t.Context(), c, t0, Outcome{}); err == nil {
		t.Error("an empty outcome was taken")
	}
	if err := s.Finish(t.Context(), c, t0, Done([]byte("x")).Acked(Read).With(NewItem{Key: "good", Lane: "l"}, NewItem{Key: "bad"})); err == nil {
		t.Error("a bad child was taken")
	}
	counts, _ := s.Counts(t.Context(), "r")
	run, _ := s.Run(t.Context(), "r")
	if counts != (Counts{Items: 1, Running: 1}) || run.Reads != 0 {
		t.Errorf("half of it happened: %+v, %d reads", counts, run.Reads)
	}
}

// TestOutcomeCopies checks that two outcomes built from one do not share their children.
func TestOutcomeCopies(t *testing.T) {
	base := Done(nil).With(NewItem{Key: "1"}, NewItem{Key: "2"}, NewItem{Key: "3"})
	a, b := base.With(NewItem{Key: "a"}), base.With(NewItem{Key: "b"})
	if a.children[3].Key != "a" || b.children[3].Key != "b" || len(base.children) != 3 {
		t.Errorf("%v %v %v", a.children, b.children, base.children)
	}
}

func TestRecover(t *testing.T) {
	folder := t.TempDir()
	s := openNew(t, folder)
	newRun(t, s, "r")
	var items []NewItem
	for _, replay := range []Replay{ReplayFree, ReplayAsk} {
		for _, sent := range []string{"kept", "sent"} {
			items = append(items, NewItem{Key: string(replay) + " " + sent, Lane: "l", Replay: replay})
		}
	}
	if _, err := s.AddItems(t.Context(), "r", t0, slices.Values(items)); err != nil {
		t.Fatal(err)
	}
	var claims []Claim
	for range items {
		c := mustClaim(t, s, t0)
		if strings.HasSuffix(c.Key, "sent") {
			if err := s.MarkSent(t.Context(), c, at(1)); err != nil {
				t.Fatal(err)
			}
		}
		claims = append(claims, c)
	}
	s.Close()
	s = openNew(t, folder)
	r, err := s.Recover(t.Context(), "r", at(9))
	if err != nil || r != (Recovered{Returned: 3, InDoubt: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range claims {
		it, err := s.Item(t.Context(), "r", c.Key)
		wantState, wantAttempts := StatePending, 0
		if c.Key == "ask sent" {
			wantState, wantAttempts = StateInDoubt, 1
		}
		if err != nil || it.State != wantState || it.Attempts != wantAttempts || it.Sent.IsZero() != (wantState == StatePending) {
			t.Errorf("%s: %+v, %v", c.Key, it, err)
		}
		if err := s.Finish(t.Context(), c, t0, Done(nil)); !errors.Is(err, ErrLost) {
			t.Errorf("a claim outlived the crash: %v", err)
		}
	}
	if r, err := s.Recover(t.Context(), "r", at(9)); err != nil || r != (Recovered{}) {
		t.Errorf("again: %+v, %v", r, err)
	}
	if _, err := s.Recover(t.Context(), "none", at(9)); !errors.Is(err, ErrNotFound) {
		t.Errorf("no run: %v", err)
	}
}

// TestCase_R04_NoPrefix finishes everything but the third item; after a crash that one, and only that one, is left.
func TestCase_R04_NoPrefix(t *testing.T) {
	folder := t.TempDir()
	s := openNew(t, folder)
	newRun(t, s, "r")
	for i := range 40 {
		addPending(t, s, "r", fmt.Sprint(i+1))
	}
	for range 40 {
		if c := mustClaim(t, s, t0); c.Key != "3" {
			if err := s.Finish(t.Context(), c, t0, Done([]byte(c.Key))); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Close()
	s = openNew(t, folder)
	if _, err := s.Recover(t.Context(), "r", t0); err != nil {
		t.Fatal(err)
	}
	if c := mustClaim(t, s, t0); c.Key != "3" || c.More {
		t.Errorf("claimed %s, more %v", c.Key, c.More)
	}
	if _, ok, _, _ := s.Claim(t.Context(), "r", "l", t0); ok {
		t.Error("something is sent again")
	}
}

func TestRetryAndResolve(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "done", "failed", "doubt1", "doubt2", "doubt3", "doubt4")
	for range 6 {
		c := mustClaim(t, s, t0)
		o := InDoubt("network", "cut", 0)
		switch c.Key {
		case "done":
			o = Done(nil)
		case "failed":
			o = Failed("x", "why", 500)
		}
		if err := s.Finish(t.Context(), c, t0, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{{Key: "born", State: StateFailed, Reason: "invalid"}})); err != nil {
		t.Fatal(err)
	}
	failures, err := s.Failures(t.Context(), "r", 3)
	if err != nil || len(failures) != 3 || failures[0].Key != "failed" || failures[0].HTTP != 500 || failures[0].Class != "x" || failures[1].State != StateInDoubt {
		t.Errorf("%+v, %v", failures, err)
	}
	if n, err := s.Resolve(t.Context(), "r", at(1), ResolveDone, "seen in the portal", "doubt1"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Resolve(t.Context(), "r", at(1), ResolveFailed, "", "doubt2", "doubt1"); n != 0 || !errors.Is(err, ErrNotFound) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Resolve(t.Context(), "r", at(1), ResolveFailed, "", "doubt2"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Resolve(t.Context(), "r", at(1), ResolveRetry, "", "doubt3"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.Resolve(t.Context(), "r", at(1), "perhaps", ""); err == nil {
		t.Error("an unknown resolution was taken")
	}
	want := map[string]State{"done": StateDone, "failed": StateFailed, "doubt1": StateDone, "doubt2": StateFailed, "doubt3": StatePending, "doubt4": StateInDoubt, "born": StateFailed}
	check := func() {
		t.Helper()
		for key, state := range want {
			if it, err := s.Item(t.Context(), "r", key); it.State != state || err != nil {
				t.Errorf("%s is %s, want %s; %v", key, it.State, state, err)
			}
		}
	}
	check()
	if n, err := s.Retry(t.Context(), "r", Again{Failed: true}); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want["failed"], want["doubt2"] = StatePending, StatePending
	check()
	if n, err := s.Retry(t.Context(), "r", Again{Failed: true, InDoubt: true}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want["doubt4"] = StatePending
	check()
	if n, err := s.Resolve(t.Context(), "r", at(1), ResolveDone, ""); n != 0 || err != nil {
		t.Errorf("nothing left: %d, %v", n, err)
	}
}

func TestLanes(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	if lanes, err := s.Lanes(t.Context(), "r"); len(lanes) != 0 || err != nil {
		t.Errorf("%q, %v", lanes, err)
	}
	if _, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{
		{Key: "1", Lane: "read"}, {Key: "2", Lane: "device-move"}, {Key: "3", Lane: "read"}, {Key: "4", Lane: "l"}, {Key: "5", Lane: "gone", State: StateUnchanged},
	})); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, s, t0)
	if lanes, err := s.Lanes(t.Context(), "r"); !slices.Equal(lanes, []string{"device-move", "read"}) || err != nil {
		t.Errorf("%q, %v", lanes, err)
	}
}

// TestTwoStoresManyWorkers drains one run from two processes' worth of stores. Every item must be claimed once, its
// child too, and the counters must add up.
func TestTwoStoresManyWorkers(t *testing.T) {
	const items, workers = 60, 4
	folder := t.TempDir()
	stores := []*Store{openNew(t, folder), openNew(t, folder)}
	newRun(t, stores[0], "r")
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() { // both add the same items
			_, err := s.AddItems(t.Context(), "r", t0, func(yield func(NewItem) bool) {
				for i := range items {
					if !yield(NewItem{Key: fmt.Sprint("parent ", i), Lane: "l"}) {
						return
					}
				}
			})
			if err != nil {
				t.Error(i, err)
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		for range workers {
			wg.Go(func() {
				for {
					c, ok, _, err := s.Claim(t.Context(), "r", "l", t0)
					if err != nil {
						t.Error(err)
						return
					}
					if !ok {
						if n, err := s.Counts(t.Context(), "r"); err != nil || n.Pending+n.Running == 0 {
							return
						}
						continue // somebody works on a parent
					}
					mu.Lock()
					claimed[c.Key]++
					mu.Unlock()
					o := Done([]byte(c.Key)).Acked(Read)
					if n, isParent := strings.CutPrefix(c.Key, "parent "); isParent {
						o = o.With(NewItem{Key: "child " + n, Lane: "l"})
					}
					if err := s.Finish(t.Context(), c, t0, o); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() { // somebody watches
			for range 20 {
				for _, err := range s.Results(t.Context(), "r", "child") {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for key, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", key, n)
		}
	}
	run, err := stores[1].Run(t.Context(), "r")
	counts, _ := stores[0].Counts(t.Context(), "r")
	if err != nil || len(claimed) != 2*items || run.Reads != 2*items || counts != (Counts{Items: 2 * items, Done: 2 * items}) {
		t.Errorf("%d claimed, %d reads, %+v, %v", len(claimed), run.Reads, counts, err)
	}
}

// TestIteratorsHoldNothing leaves iterators early, panics out of one and writes in the middle of another.
func TestIteratorsHoldNothing(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	const n = 3 * pageRows / 2
	if err := s.Advance(t.Context(), "r", t0, "", "x", Change{Items: manyItems(n), Rows: manyRows(n)}); err != nil {
		t.Fatal(err)
	}
	for range 3 * readers {
		for _, err := range s.Results(t.Context(), "r", "") {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		for _, err := range s.Rows(t.Context(), "r") {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		func() {
			defer func() { _ = recover() }()
			for _, err := range s.Results(t.Context(), "r", "") {
				panic(err)
			}
		}()
	}
	if used := s.read.Stats().InUse; used != 0 {
		t.Errorf("%d connections are held", used)
	}
	seen, late := 0, false
	for r, err := range s.Results(t.Context(), "r", "") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 1 {
			addPending(t, s, "r", r.Key+"!", "zz late") // the first is behind on its page, the second on a later one
		}
		late = late || r.Key == "zz late"
		if used := s.read.Stats().InUse; used != 0 {
			t.Fatalf("%d connections are held", used)
		}
	}
	if seen != n+1 || !late {
		t.Errorf("saw %d of %d, late %v", seen, n+1, late)
	}
}

func TestResultsTellWhyAnItemHasNone(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "gone", "never answered", "still waiting")
	for range 2 {
		c := mustClaim(t, s, t0)
		o := Failed("not_found", "404 Not Found", 404)
		if c.Key != "gone" {
			o = Failed("network", "no route", 0)
		}
		if err := s.Finish(t.Context(), c, t0, o); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for r, err := range s.Results(t.Context(), "r", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s: %s, %q, %d", r.Key, r.State, r.Reason, r.HTTP))
	}
	want := []string{`gone: failed, "404 Not Found", 404`, `never answered: failed, "no route", 0`, `still waiting: pending, "", 0`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestResultsOrderPrefixAndBodies(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	newRun(t, s, "other")
	bodies := map[string]string{}
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(i*i>>5 ^ i)
	}
	for i, body := range []string{"", "x", strings.Repeat("a", rawBelow-1), strings.Repeat("a", rawBelow), string(noise), strings.Repeat("large ", 1<<20)} {
		bodies[fmt.Sprintf("a/%d", i)] = body
	}
	for _, key := range []string{"a", "a0", "b", "B", "a/ü", "a/\xff", "a/\xffz", "ä"} {
		bodies[key] = key
	}
	keys := make([]string, 0, len(bodies))
	for key := range bodies { // in no order
		keys = append(keys, key)
	}
	addPending(t, s, "r", keys...)
	addPending(t, s, "other", "a/other")
	for range keys {
		c := mustClaim(t, s, t0)
		if err := s.Finish(t.Context(), c, t0, Done([]byte(bodies[c.Key]))); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a/", "a", "a/\xff", "B", "c", "zzz"} {
		var got []string
		for r, err := range s.Results(t.Context(), "r", prefix) {
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Body) != bodies[r.Key] || r.State != StateDone || string(r.Payload) != "payload of "+r.Key {
				t.Errorf("%q: %d bytes, %s", r.Key, len(r.Body), r.State)
			}
			got = append(got, r.Key)
		}
		want := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasPrefix(k, prefix) })
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: got %q, want %q", prefix, got, want)
		}
	}
	var stored int
	if err := s.read.QueryRow(`SELECT length(body) FROM results WHERE size > 1000000`).Scan(&stored); err != nil || stored > 100_000 {
		t.Errorf("6 MB of one word take %d bytes, %v", stored, err)
	}
	for _, err := range s.Results(t.Context(), "none", "") {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("no run: %v", err)
		}
	}
}

// TestAnswerReplacesOlderAnswer: an item that was resolved to run again may have an answer already.
func TestAnswerReplacesOlderAnswer(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	c := mustClaim(t, s, t0)
	if err := s.Finish(context.WithoutCancel(t.Context()), c, t0, Done([]byte("old"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.Exec(again); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Done([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	for r, err := range s.Results(t.Context(), "r", "") {
		if err != nil || string(r.Body) != "new" {
			t.Errorf("body %q, %v", r.Body, err)
		}
	}
}

func TestCopyOfAFileThatIsOpen(t *testing.T) {
	// Two names for one folder must still be one checkpoint.
	folder := t.TempDir()
	s := openNew(t, folder)
	newRun(t, s, "r")
	other := openNew(t, filepath.Join(folder, ".", "x", ".."))
	if other.Path() != s.Path() {
		t.Errorf("%s and %s", other.Path(), s.Path())
	}
}
