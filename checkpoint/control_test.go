package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
)

// TestControls posts and takes: in order, once, for the right run.
func TestControls(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	newRun(t, s, "q")
	var ids []int64
	for i, verb := range []string{"pause", "rate", "resume"} {
		id, err := s.PostControl(t.Context(), "r", at(float64(i)), verb, "by "+verb)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if when, err := s.ControlTaken(t.Context(), ids[1]); err != nil || !when.IsZero() {
		t.Errorf("taken at %v before anybody took it, %v", when, err)
	}
	if got, err := s.TakeControls(t.Context(), "q", at(4)); err != nil || len(got) != 0 {
		t.Errorf("another run took %v, %v", got, err)
	}
	got, err := s.TakeControls(t.Context(), "r", at(5))
	want := []Control{
		{ids[0], at(0), "pause", "by pause"}, {ids[1], at(1), "rate", "by rate"}, {ids[2], at(2), "resume", "by resume"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("took %v, %v, want %v", got, err, want)
	}
	if when, err := s.ControlTaken(t.Context(), ids[1]); err != nil || !when.Equal(at(5)) {
		t.Errorf("taken at %v, want %v, %v", when, at(5), err)
	}
	if got, err := s.TakeControls(t.Context(), "r", at(6)); err != nil || len(got) != 0 {
		t.Errorf("taken twice: %v, %v", got, err)
	}
	if _, err := s.PostControl(t.Context(), "nobody", at(0), "pause", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("posted to a run that is not there: %v", err)
	}
	if _, err := s.TakeControls(t.Context(), "nobody", at(0)); !errors.Is(err, ErrNotFound) {
		t.Errorf("taken from a run that is not there: %v", err)
	}
	if _, err := s.ControlTaken(t.Context(), 4711); !errors.Is(err, ErrNotFound) {
		t.Errorf("a number that was never given: %v", err)
	}
	if _, err := s.PostControl(t.Context(), "r", at(0), "", ""); err == nil {
		t.Error("a control without a verb was posted")
	}
}

// TestControlsTakenOnce lets several processes post and take at the same time: together they take everything once, and
// each sees the order of the posts.
func TestControlsTakenOnce(t *testing.T) {
	folder := t.TempDir()
	first := openNew(t, folder)
	newRun(t, first, "r")
	const takers, posts = 4, 50
	var mu sync.Mutex
	seen := map[int64]int{}
	var wg sync.WaitGroup
	posted := make(chan struct{})
	for range takers {
		s := openNew(t, folder)
		wg.Go(func() {
			last := int64(0)
			for done := false; !done; {
				select {
				case <-posted:
					done = true // and look once more
				default:
				}
				got, err := s.TakeControls(t.Context(), "r", at(1))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, c := range got {
					seen[c.ID]++
					if c.ID <= last {
						t.Errorf("control %d after %d", c.ID, last)
					}
					last = c.ID
				}
				mu.Unlock()
			}
		})
	}
	for range posts {
		if _, err := first.PostControl(t.Context(), "r", at(0), "pause", ""); err != nil {
			t.Error(err)
		}
	}
	close(posted)
	wg.Wait()
	if len(seen) != posts {
		t.Errorf("%d of %d controls were taken", len(seen), posts)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("control %d was taken %d times", id, n)
		}
	}
}

func TestLive(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	if status, _, ok, err := s.Live(t.Context(), "r"); ok || err != nil {
		t.Errorf("a live status before there is one: %q, %v", status, err)
	}
	for i, text := range []string{`{"a":1}`, ``, `{"a":2}`} {
		if err := s.SetLive(t.Context(), "r", at(float64(i)), []byte(text)); err != nil {
			t.Fatal(err)
		}
		status, when, ok, err := s.Live(t.Context(), "r")
		if err != nil || !ok || string(status) != text || !when.Equal(at(float64(i))) {
			t.Errorf("live status %q at %v, %v, %v; want %q", status, when, ok, err, text)
		}
	}
	if err := s.SetLive(t.Context(), "nobody", at(0), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("status of a run that is not there: %v", err)
	}
	if _, _, _, err := s.Live(t.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("status of a run that is not there: %v", err)
	}

	// Both end with their run.
	if _, err := s.PostControl(t.Context(), "r", at(0), "pause", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRun(t.Context(), "r", at(9)); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.read.QueryRow(`SELECT (SELECT count(*) FROM live) + (SELECT count(*) FROM controls)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows outlive their run, %v", left, err)
	}
}

func TestPending(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	_, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{
		{Key: "list/99/0000000", Lane: "read", Op: "devices"},
		{Key: "list/99/0000001", Lane: "read", Op: "devices"},
		{Key: "a", Lane: "l", Op: "set"},
		{Key: "b", Lane: "l", Op: "set"},
		{Key: "c", State: StateUnchanged},
	}))
	if err != nil {
		t.Fatal(err)
	}
	c := mustClaim(t, s, at(1))
	got, err := s.Pending(t.Context(), "r", "/0000000")
	want := []PendingCount{{"l", "set", 1, 0, 0, 0}, {"read", "devices", 2, 1, 0, 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("pending %v, %v, want %v", got, err, want)
	}
	if err := s.Finish(t.Context(), c, at(2), RetryAt(at(99), "busy", 503)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Pending(t.Context(), "r", "/0000000"); err != nil || got[0] != (PendingCount{"l", "set", 2, 0, 0, 0}) {
		t.Errorf("an item put off is not pending: %v, %v", got, err)
	}
}

// copyVersion1 returns a copy of a file that version 1 wrote in the middle of a run: item a done, b sent and not answered,
// c put off, d untouched, e unchanged.
func copyVersion1(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/version1.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVersion1 takes up a half-done run of a file that version 1 wrote.
func TestVersion1(t *testing.T) {
	path := copyVersion1(t)
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Run(t.Context(), "r")
	if err != nil || r.State != RunRunning || r.Stage != "apply" || r.Writes != 1 || r.PID != 7 {
		t.Errorf("run %+v, %v", r, err)
	}
	want := Counts{Items: 5, Pending: 2, Running: 1, Done: 1, Unchanged: 1}
	if c, err := s.Counts(t.Context(), "r"); err != nil || c != want {
		t.Errorf("counts %+v, %v, want %+v", c, err, want)
	}
	if err := s.BeginRun(t.Context(), "r", at(100), "host", 8); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recover(t.Context(), "r", at(100)); err != nil {
		t.Fatal(err)
	}
	// What was sent and not answered is not sendable again.
	want = Counts{Items: 5, Pending: 2, Done: 1, Unchanged: 1, InDoubt: 1}
	if c, err := s.Counts(t.Context(), "r"); err != nil || c != want {
		t.Errorf("counts after recovery %+v, %v, want %+v", c, err, want)
	}
	for key, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false, "e": false} {
		if it, err := s.Item(t.Context(), "r", key); err != nil || it.Unsure != want {
			t.Errorf("item %s is unsure: %v, %v", key, it.Unsure, err)
		}
	}
	for _, key := range []string{"c", "d"} {
		if c := mustClaim(t, s, at(101)); c.Key != key || string(c.Payload) != "payload of "+key {
			t.Errorf("claimed %q with %q, want %q", c.Key, c.Payload, key)
		}
	}
	events, err := s.Events(t.Context(), "r", 0)
	if err != nil || len(events) != 1 || events[0].Text != "a line" {
		t.Errorf("events %v, %v", events, err)
	}
	rows, err := s.RowCounts(t.Context(), "r")
	if err != nil || rows["change"] != 1 || rows["unchanged"] != 1 {
		t.Errorf("rows %v, %v", rows, err)
	}
	// And what version 2 adds works on it.
	if _, err := s.PostControl(t.Context(), "r", at(102), "pause", ""); err != nil {
		t.Error(err)
	}
	if got, err := s.TakeControls(t.Context(), "r", at(103)); err != nil || len(got) != 1 {
		t.Errorf("took %v, %v", got, err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestVersion1CutOff fails in the middle of the second step, as a kill does: the file stays what it was.
func TestVersion1CutOff(t *testing.T) {
	path := copyVersion1(t)
	steps := fstest.MapFS{}
	for _, name := range []string{"0001_initial.sql", "0002_control.sql"} {
		data, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		steps[name] = &fstest.MapFile{Data: data}
	}
	whole := steps["0002_control.sql"].Data
	steps["0002_control.sql"] = &fstest.MapFile{Data: append(slices.Clone(whole), "; CREATE TABLE runs (y);"...)}
	if _, err := open(t.Context(), path, steps); err == nil {
		t.Fatal("a step that cannot work has worked")
	}
	steps["0002_control.sql"] = &fstest.MapFile{Data: whole}
	for range 2 { // the second time there is nothing to do
		s, err := open(t.Context(), path, steps)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := s.Counts(t.Context(), "r"); err != nil || c.Items != 5 {
			t.Errorf("counts %+v, %v", c, err)
		}
		s.Close()
	}
}
