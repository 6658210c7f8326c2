package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"
)

// blocks are blocks of one part.
func blocks(part string, bodies ...string) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		for _, b := range bodies {
			if !yield(Block{part, []byte(b)}, nil) {
				return
			}
		}
	}
}

// remember makes a memory of job "job" and returns it as the next run finds it.
func remember(tb testing.TB, s *Store, selection, run string, b iter.Seq2[Block, error]) Memory {
	tb.Helper()
	m, err := s.OpenMemory(tb.Context(), Memory{JobKey: "job", Selection: selection}, t0)
	if err != nil {
		tb.Fatal(err)
	}
	m.Run, m.Notes, m.JobPath = run, []byte("notes of "+run), "/job.yaml"
	if err := s.Remember(tb.Context(), m, at(1), b); err != nil {
		tb.Fatal(err)
	}
	m, ok, err := s.Memory(tb.Context(), "job", selection)
	if err != nil || !ok {
		tb.Fatalf("the memory is not there: %v", err)
	}
	return m
}

// recollect reads a part whole.
func recollect(tb testing.TB, s *Store, m Memory, part string) []string {
	tb.Helper()
	var all []string
	for body, err := range s.Blocks(tb.Context(), m, part) {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, string(body))
	}
	return all
}

func TestRemember(t *testing.T) {
	s := openNew(t, t.TempDir())
	if _, ok, err := s.Memory(t.Context(), "job", "all"); ok || err != nil {
		t.Fatalf("something is remembered before the first time: %v", err)
	}
	long := strings.Repeat("long ", 1000)
	m := remember(t, s, "all", "r1", blocks("rows", "one", long, "three"))
	if m.Run != "r1" || string(m.Notes) != "notes of r1" || m.JobPath != "/job.yaml" || !m.Updated.Equal(at(1)) {
		t.Errorf("%+v", m)
	}
	if got := recollect(t, s, m, "rows"); !slices.Equal(got, []string{"one", long, "three"}) {
		t.Errorf("blocks %q", got)
	}
	if got := recollect(t, s, m, "other"); got != nil {
		t.Errorf("another part has %q", got)
	}
	// Another selection of the same job is another memory.
	part := remember(t, s, "part", "r2", blocks("rows", "x"))
	m = remember(t, s, "all", "r3", blocks("rows", "two"))
	if got := recollect(t, s, m, "rows"); !slices.Equal(got, []string{"two"}) {
		t.Errorf("after a change: %q", got)
	}
	if got := recollect(t, s, part, "rows"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the other selection has %q", got)
	}
	var n int
	if err := s.read.QueryRow(`SELECT count(*) FROM memory_blocks`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d blocks are left, want 2: %v", n, err)
	}
	all, err := s.Memories(t.Context(), "job")
	if err != nil || len(all) != 2 {
		t.Fatalf("%d memories, %v", len(all), err)
	}
	if size, _, err := s.MemorySize(t.Context(), m); err != nil || size == 0 {
		t.Errorf("size %d, %v", size, err)
	}
	if err := s.Forget(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := s.Memory(t.Context(), "job", "all"); ok {
		t.Error("it is still remembered")
	}
	if err := s.Forget(t.Context(), m); !errors.Is(err, ErrNotFound) {
		t.Errorf("forgotten twice: %v", err)
	}
	if again := remember(t, s, "all", "r4", nil); again.ID == m.ID {
		t.Error("an id was given twice")
	}
}

// A change that is cut off, at whatever block, leaves what was remembered before.
func TestRememberCutOff(t *testing.T) {
	s := openNew(t, t.TempDir())
	first := remember(t, s, "all", "r1", blocks("rows", "one", "two"))
	big := strings.Repeat("x", 3<<20)
	cut := errors.New("cut off")
	m, err := s.OpenMemory(t.Context(), first, at(2))
	if err != nil {
		t.Fatal(err)
	}
	m.Run = "r2"
	err = s.Remember(t.Context(), m, at(2), func(yield func(Block, error) bool) {
		for range 4 {
			if !yield(Block{"rows", []byte(big)}, nil) {
				return
			}
		}
		yield(Block{}, cut)
	})
	if !errors.Is(err, cut) {
		t.Fatal(err)
	}
	m, ok, err := s.Memory(t.Context(), "job", "all")
	if err != nil || !ok || m.Run != "r1" {
		t.Fatalf("%+v %v %v", m, ok, err)
	}
	if got := recollect(t, s, m, "rows"); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%d blocks", len(got))
	}
	m = remember(t, s, "all", "r3", blocks("rows", "three"))
	if got := recollect(t, s, m, "rows"); !slices.Equal(got, []string{"three"}) {
		t.Errorf("%d blocks", len(got))
	}
}

// A memory that was forgotten by half is nothing, and the next one begins on a clean sheet.
func TestForgetCutOff(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r1")
	settle(t, s, "r1", "a/0", "answer")
	m := remember(t, s, "all", "r1", blocks("rows", "one"))
	if err := s.KeepAnswers(t.Context(), m, "r1", keeps(Keep{"a", "s", []string{"a/0"}})); err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.Exec(`CREATE TRIGGER cut BEFORE DELETE ON memory_answers BEGIN SELECT RAISE(ABORT, 'cut'); END`); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), m); err == nil {
		t.Fatal("it was forgotten whole")
	}
	if _, ok, err := s.Memory(t.Context(), "job", "all"); ok || err != nil {
		t.Errorf("half of it is taken for a memory: %v", err)
	}
	if _, err := s.write.Exec(`DROP TRIGGER cut`); err != nil {
		t.Fatal(err)
	}
	m = remember(t, s, "all", "r2", blocks("rows", "two"))
	if got := recollect(t, s, m, "rows"); !slices.Equal(got, []string{"two"}) {
		t.Errorf("blocks %q", got)
	}
}

// settle makes an item of run with an answer: "" is one that was skipped.
func settle(tb testing.TB, s *Store, run, key, body string) {
	tb.Helper()
	if _, err := s.AddItems(tb.Context(), run, t0, slices.Values([]NewItem{{Key: key, Lane: "l", Op: "op", Payload: []byte("ask " + key)}})); err != nil {
		tb.Fatal(err)
	}
	c, ok, _, err := s.Claim(tb.Context(), run, "l", t0)
	if err != nil || !ok {
		tb.Fatalf("%v %v", ok, err)
	}
	o := Done([]byte(body))
	if body == "" {
		o = Skipped("not audited", 404)
	}
	if err := s.Finish(tb.Context(), c, t0, o); err != nil {
		tb.Fatal(err)
	}
}

func keeps(list ...Keep) iter.Seq2[Keep, error] {
	return func(yield func(Keep, error) bool) {
		for _, k := range list {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// answersOf reads what a run was answered, by key.
func answersOf(tb testing.TB, s *Store, run string) map[string]string {
	tb.Helper()
	got := map[string]string{}
	for res, err := range s.Results(tb.Context(), run, "") {
		if err != nil {
			tb.Fatal(err)
		}
		got[res.Key] = fmt.Sprintf("%s %d %s %s", res.State, res.HTTP, res.Payload, res.Body)
	}
	return got
}

// TestRecall takes answers over from one run to another, over the deletion of the first.
func TestRecall(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r1")
	settle(t, s, "r1", "a/0", "first page")
	settle(t, s, "r1", "a/1", strings.Repeat("second page ", 100))
	settle(t, s, "r1", "b/0", "")
	m := remember(t, s, "all", "r1", nil)
	if err := s.KeepAnswers(t.Context(), m, "r1", keeps(Keep{"a", "s1", []string{"a/0", "a/1"}}, Keep{"b", "", []string{"b/0"}})); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepAnswers(t.Context(), m, "r1", keeps(Keep{"c", "s", []string{"c/0"}})); !errors.Is(err, ErrNotFound) {
		t.Errorf("an answer that is not there: %v", err)
	}
	topics, err := s.Topics(t.Context(), m)
	if err != nil || len(topics) != 2 || topics[0].Name != "a" || topics[0].Stamp != "s1" || topics[0].Pages != 2 {
		t.Fatalf("%+v %v", topics, err)
	}
	if err := s.DeleteRun(t.Context(), "r1", at(2)); err != nil {
		t.Fatal(err)
	}

	newRun(t, s, "r2")
	if _, err := s.AddItems(t.Context(), "r2", at(3), func(yield func(NewItem) bool) {
		for _, topic := range []string{"a", "b", "c"} {
			if !yield(NewItem{Key: topic + "/0", Lane: LaneMemory, Op: "op", Payload: []byte("ask")}) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	recall := func() (n int) {
		t.Helper()
		waiting, err := s.Waiting(t.Context(), "r2", 0)
		if err != nil {
			t.Fatal(err)
		}
		var list []Recollection
		for _, it := range waiting {
			topic := it.Key[:1]
			list = append(list, Recollection{it.Key, topic, "l", func(n int) string { return fmt.Sprintf("%s/%d", topic, n) }})
		}
		n, err = s.Recall(t.Context(), "r2", m.ID, at(3), list)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := recall(); n != 3 {
		t.Errorf("%d answers recalled, want 3", n)
	}
	if n := recall(); n != 0 {
		t.Errorf("%d more", n)
	}
	want := map[string]string{
		"a/0": "done 0 ask first page",
		"a/1": "done 0 ask a/1 " + strings.Repeat("second page ", 100),
		"b/0": "skipped 404 ask ",
		"c/0": "pending 0 ask ",
	}
	if got := answersOf(t, s, "r2"); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if lanes, err := s.Lanes(t.Context(), "r2"); err != nil || !slices.Equal(lanes, []string{"l"}) {
		t.Errorf("lanes %v %v", lanes, err)
	}
	if n, err := s.Recalled(t.Context(), "r2"); err != nil || n != 3 {
		t.Errorf("%d count as recalled, %v", n, err)
	}
	if err := s.DropTopics(t.Context(), m, []string{"a", "nothing"}); err != nil {
		t.Fatal(err)
	}
	if topics, err := s.Topics(t.Context(), m); err != nil || len(topics) != 1 {
		t.Errorf("%+v %v", topics, err)
	}
	if err := s.Forget(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMemoryModel compares a memory with a map over any sequence of changes, cuts and reopenings.
func TestMemoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		}()
		s, err := Open(t.Context(), filepath.Join(folder, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close() }()
		model := map[string][]string{}
		selection := rapid.SampledFrom([]string{"a", "b"})
		bodies := rapid.SliceOfN(rapid.StringN(1, 20, -1), 0, 5)
		t.Repeat(map[string]func(*rapid.T){
			"remember": func(t *rapid.T) {
				sel, list := selection.Draw(t, "selection"), bodies.Draw(t, "bodies")
				cut := rapid.Bool().Draw(t, "cut")
				m, err := s.OpenMemory(t.Context(), Memory{JobKey: "job", Selection: sel}, t0)
				if err != nil {
					t.Fatal(err)
				}
				m.Run = "r"
				err = s.Remember(t.Context(), m, t0.Add(time.Second), func(yield func(Block, error) bool) {
					for _, b := range list {
						if !yield(Block{"p", []byte(b)}, nil) {
							return
						}
					}
					if cut {
						yield(Block{}, errors.New("cut"))
					}
				})
				if (err != nil) != cut {
					t.Fatal(err)
				}
				if !cut {
					model[sel] = list
				}
			},
			"forget": func(t *rapid.T) {
				sel := selection.Draw(t, "selection")
				m, ok, err := s.Memory(t.Context(), "job", sel)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return
				}
				if err := s.Forget(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				delete(model, sel)
			},
			"reopen": func(t *rapid.T) {
				s.Close()
				if s, err = Open(t.Context(), filepath.Join(folder, "state.db")); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				for _, sel := range []string{"a", "b"} {
					m, ok, err := s.Memory(t.Context(), "job", sel)
					want, known := model[sel]
					if err != nil || ok != known {
						t.Fatalf("%s: there %v, want %v, %v", sel, ok, known, err)
					}
					if !ok {
						continue
					}
					var got []string
					for body, err := range s.Blocks(t.Context(), m, "p") {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, string(body))
					}
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %q, want %q", sel, got, want)
					}
				}
			},
		})
	})
}

// A file of the version before memories, with a run half done, goes on after the step.
func TestMemoryMigration(t *testing.T) {
	steps := fstest.MapFS{}
	for _, name := range []string{"0001_initial.sql", "0002_control.sql"} {
		data, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		steps[name] = &fstest.MapFile{Data: data}
	}
	old, err := open(t.Context(), filepath.Join(t.TempDir(), "state.db"), steps)
	if err != nil {
		t.Fatal(err)
	}
	newRun(t, old, "r")
	// As the program of that version wrote them: one in flight, one pending.
	for i, key := range []string{"a", "b"} {
		state, lease := []any{"running", "pending"}[i], []any{1, nil}[i]
		if _, err := old.write.ExecContext(t.Context(), `INSERT INTO items (run, key, lane, op, replay, state, attempts, not_before, lease, class, reason, http, created)
			VALUES (1, ?, 'l', 'op', 'free', ?, 1, 0, ?, '', '', 0, 0)`, key, state, lease); err != nil {
			t.Fatal(err)
		}
	}
	old.Close()
	s, err := Open(t.Context(), old.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Recover(t.Context(), "r", at(1)); err != nil || r.Returned != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if c := mustClaim(t, s, at(1)); c.Key != "a" {
		t.Errorf("claimed %q", c.Key)
	}
	remember(t, s, "all", "r", blocks("rows", "x"))
	if n, err := s.Recalled(t.Context(), "r"); err != nil || n != 0 {
		t.Errorf("%d %v", n, err)
	}
}
