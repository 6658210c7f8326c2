package checkpoint

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRunLife(t *testing.T) {
	s := openNew(t, t.TempDir())
	want := Run{
		ID: "01A", JobKey: "k", JobName: "n", JobPath: "/p", Kind: "export", Account: "a", JobHash: "h1", InputHash: "h2",
		Stage: "plan", Settings: []byte(`{"x":1}`), Created: at(0), State: RunPlanned,
	}
	check := func() {
		t.Helper()
		if got, err := s.Run(t.Context(), "01A"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
	create := want
	create.State = ""
	if err := s.CreateRun(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.CreateRun(t.Context(), create); !errors.Is(err, ErrExists) {
		t.Errorf("a second run of that id: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.BeginRun(t.Context(), "01A", at(1), "host", 7))
	want.State, want.Started, want.Host, want.PID = RunRunning, at(1), "host", 7
	check()
	must(s.EndRun(t.Context(), "01A", at(2), RunThrottled, 6, "no quota"))
	want.State, want.Finished, want.ExitCode, want.Error = RunThrottled, at(2), 6, "no quota"
	check()
	must(s.BeginRun(t.Context(), "01A", at(3), "host2", 8))
	want.State, want.Finished, want.ExitCode, want.Error, want.Host, want.PID, want.Resumes = RunRunning, create.Finished, 0, "", "host2", 8, 1
	check()
	must(s.BeginRun(t.Context(), "01A", at(4), "host2", 9)) // the one before crashed
	want.PID, want.Resumes = 9, 2
	check()
	must(s.SetInputHash(t.Context(), "01A", "h3"))
	want.InputHash = "h3"
	check()
	if err := s.EndRun(t.Context(), "01A", at(5), RunRunning, 0, ""); err == nil {
		t.Error("a run ended as running")
	}
	if err := s.EndRun(t.Context(), "01A", at(5), "fine", 0, ""); err == nil {
		t.Error("a run ended in an unknown state")
	}
	check()
	must(s.EndRun(t.Context(), "01A", at(5), RunSuperseded, 0, ""))
	if err := s.BeginRun(t.Context(), "01A", at(6), "h", 1); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a superseded run began: %v", err)
	}
	for name, err := range map[string]error{
		"begin": s.BeginRun(t.Context(), "none", at(1), "", 0),
		"end":   s.EndRun(t.Context(), "none", at(1), RunOK, 0, ""),
		"hash":  s.SetInputHash(t.Context(), "none", ""),
		"event": s.AddEvent(t.Context(), "none", at(1), "k", ""),
		"stage": s.Advance(t.Context(), "none", at(1), "a", "b", Change{}),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFindRun(t *testing.T) {
	s := openNew(t, t.TempDir())
	for i, id := range []string{"20250306-ab", "20250306-ac", "20250307-aa", "20250307", "x_y", "x%y", "ü1"} {
		if err := s.CreateRun(t.Context(), Run{ID: id, JobKey: fmt.Sprint("job", i%2), Created: at(float64(i))}); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]string{
		"20250306-ab": "20250306-ab", "20250306-ac": "20250306-ac", "20250307-": "20250307-aa",
		"20250307": "20250307", // a whole id wins over what it begins
		"x_":       "x_y", "x%": "x%y", "ü": "ü1", "20250307-aa": "20250307-aa",
	} {
		if r, err := s.FindRun(t.Context(), prefix); r.ID != want || err != nil {
			t.Errorf("%q: %s, %v", prefix, r.ID, err)
		}
	}
	for _, prefix := range []string{"", "2025-", "20250306-abc", "y", "_", "%"} {
		if r, err := s.FindRun(t.Context(), prefix); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %s, %v", prefix, r.ID, err)
		}
	}
	_, err := s.FindRun(t.Context(), "20250306")
	if e, ok := errors.AsType[*AmbiguousError](err); !ok || !slices.Equal(e.IDs, []string{"20250306-ab", "20250306-ac"}) || !strings.Contains(err.Error(), "20250306-ac") {
		t.Errorf("got %v", err)
	}

	ids := func(runs []Run, err error) (ids []string) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	if got := ids(s.Runs(t.Context(), 3, "")); !slices.Equal(got, []string{"ü1", "x%y", "x_y"}) {
		t.Errorf("%q", got)
	}
	if got := ids(s.Runs(t.Context(), 100, "job1")); !slices.Equal(got, []string{"x%y", "20250307", "20250306-ac"}) {
		t.Errorf("%q", got)
	}
	if r, ok, err := s.LastRun(t.Context(), "job1"); r.ID != "x%y" || !ok || err != nil {
		t.Errorf("%s, %v, %v", r.ID, ok, err)
	}
	if _, ok, err := s.LastRun(t.Context(), "none"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestAdvance(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "old")
	items := []NewItem{{Key: "old", Lane: "x"}, {Key: "set 1", Lane: "l"}, {Key: "set 3", State: StateUnchanged}}
	rows := []NewRow{{3, "unchanged", "set 3", []byte("three")}, {1, "change", "set 1", []byte("one")}, {2, "not_found", "", nil}}
	if err := s.Advance(t.Context(), "r", t0, "", "apply", Change{Items: slices.Values(items), Rows: slices.Values(rows)}); err != nil {
		t.Fatal(err)
	}
	stage := func() string {
		r, err := s.Run(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		return r.Stage
	}
	if got := stage(); got != "apply" {
		t.Errorf("stage %q", got)
	}
	err := s.Advance(t.Context(), "r", t0, "", "apply", Change{Items: manyItems(10)})
	if e, ok := errors.AsType[*StageError](err); !ok || e.Have != "apply" || e.Want != "" || e.Run != "r" {
		t.Errorf("advanced twice: %v", err)
	}
	if err := s.Advance(t.Context(), "r", t0, "apply", "apply", Change{}); err == nil {
		t.Error("advanced to itself")
	}
	for name, err := range map[string]error{
		"bad item": s.Advance(t.Context(), "r", t0, "apply", "b", Change{Items: slices.Values([]NewItem{{Key: "fine", Lane: "l"}, {}})}),
		"bad row":  s.Advance(t.Context(), "r", t0, "apply", "b", Change{Items: manyItems(10), Rows: slices.Values([]NewRow{{Number: 9, Class: "c"}, {Number: 10}})}),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if counts, err := s.Counts(t.Context(), "r"); stage() != "apply" || err != nil || counts != (Counts{Items: 3, Pending: 2, Unchanged: 1}) {
		t.Errorf("half a transition: stage %s, %+v, %v", stage(), counts, err)
	}

	mustClaim(t, s, t0)
	if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Failed("gone", "404: no such device", 404)); err != nil {
		t.Fatal(err)
	}
	read := func() (got []Row) {
		for r, err := range s.Rows(t.Context(), "r") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		return got
	}
	want := []Row{
		{NewRow: rows[1], ItemState: StateFailed, ItemReason: "404: no such device", ItemErrorClass: "gone", ItemHTTP: 404, ItemAttempts: 1},
		{NewRow: rows[2]},
		{NewRow: rows[0], ItemState: StateUnchanged},
	}
	if got := read(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A later stage may think better of a row.
	if err := s.Advance(t.Context(), "r", t0, "apply", "check", Change{Rows: slices.Values([]NewRow{{1, "drifted", "", nil}})}); err != nil {
		t.Fatal(err)
	}
	counts, err := s.RowCounts(t.Context(), "r")
	if err != nil || !maps.Equal(counts, map[string]int{"drifted": 1, "not_found": 1, "unchanged": 1}) {
		t.Errorf("%v, %v", counts, err)
	}
	if got := read(); len(got) != 3 || got[0].Class != "drifted" || got[0].ItemState != "" {
		t.Errorf("%+v", got)
	}
}

// TestAdvanceReadsWhileItWrites: what a new stage holds is often made from the results of the old one.
func TestAdvanceReadsWhileItWrites(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	if _, err := s.AddItems(t.Context(), "r", t0, manyItems(2*pageRows)); err != nil {
		t.Fatal(err)
	}
	items := iter.Seq[NewItem](func(yield func(NewItem) bool) {
		for r, err := range s.Results(t.Context(), "r", "set/") {
			if err != nil {
				t.Error(err)
				return
			}
			if !yield(NewItem{Key: "next/" + r.Key, Lane: "l"}) {
				return
			}
		}
	})
	if err := s.Advance(t.Context(), "r", t0, "", "x", Change{Items: items}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Counts(t.Context(), "r"); err != nil || c.Pending != 4*pageRows {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRowsOverPages(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	numbers := func(yield func(NewRow) bool) {
		for i := 2*pageRows + 10; i >= -10; i-- {
			if !yield(NewRow{Number: i, Class: "c"}) {
				return
			}
		}
	}
	if err := s.Advance(t.Context(), "r", t0, "", "x", Change{Rows: numbers}); err != nil {
		t.Fatal(err)
	}
	next := -10
	for r, err := range s.Rows(t.Context(), "r") {
		if err != nil || r.Number != next {
			t.Fatalf("row %d, want %d; %v", r.Number, next, err)
		}
		next++
	}
	if next != 2*pageRows+11 {
		t.Errorf("ended before %d", next)
	}
}

func TestEvents(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	newRun(t, s, "other")
	for i := range 5 {
		if err := s.AddEvent(t.Context(), "r", at(float64(i)), "pause", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddEvent(t.Context(), "other", at(9), "x", "y"); err != nil {
		t.Fatal(err)
	}
	events, err := s.Events(t.Context(), "r", 2)
	if want := []Event{{at(3), "pause", "3"}, {at(4), "pause", "4"}}; err != nil || !slices.Equal(events, want) {
		t.Errorf("%v, %v", events, err)
	}
}

func TestDeleteRun(t *testing.T) {
	s := openNew(t, t.TempDir())
	for _, id := range []string{"r", "kept"} {
		newRun(t, s, id)
		if err := s.Advance(t.Context(), id, t0, "", "x", Change{Items: manyItems(3 * deleteBatch / 2), Rows: manyRows(3 * deleteBatch / 2)}); err != nil {
			t.Fatal(err)
		}
		addPending(t, s, id, "k")
		if err := s.AddEvent(t.Context(), id, t0, "k", ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Done([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRun(t.Context(), "r", at(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRun(t.Context(), "r", at(1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	for table, want := range map[string]int{"runs": 1, "items": 3*deleteBatch/2 + 1, "results": 0, "plan_rows": 3 * deleteBatch / 2, "events": 1} {
		var n int
		if err := s.read.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != want {
			t.Errorf("%s has %d rows, want %d; %v", table, n, want, err)
		}
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A limit of 0 is none.
func TestNoLimit(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	newRun(t, s, "r2")
	addPending(t, s, "r", "a", "b", "c")
	for range 3 {
		if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Failed("rejected", "no", 400)); err != nil {
			t.Fatal(err)
		}
		if err := s.AddEvent(t.Context(), "r", t0, "note", "something"); err != nil {
			t.Fatal(err)
		}
	}
	runs, err1 := s.Runs(t.Context(), 0, "")
	items, err2 := s.Failures(t.Context(), "r", 0)
	events, err3 := s.Events(t.Context(), "r", 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || len(items) != 3 || len(events) != 3 {
		t.Errorf("%d runs, %d failures, %d events", len(runs), len(items), len(events))
	}
}
