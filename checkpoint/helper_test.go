package checkpoint

import (
	"path/filepath"
	"testing"
	"time"
)

// t0 is the moment at which the tests begin; at is so many seconds later.
var t0 = time.Date(2025, 3, 6, 1, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// openNew opens the checkpoint of a folder and closes it with the test.
func openNew(tb testing.TB, folder string) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), filepath.Join(folder, "state.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func newRun(tb testing.TB, s *Store, id string) {
	tb.Helper()
	if err := s.CreateRun(tb.Context(), Run{ID: id, JobKey: "job", Created: t0}); err != nil {
		tb.Fatal(err)
	}
}

// addPending adds items of the lane "l" with the given keys.
func addPending(tb testing.TB, s *Store, run string, keys ...string) {
	tb.Helper()
	_, err := s.AddItems(tb.Context(), run, t0, func(yield func(NewItem) bool) {
		for _, k := range keys {
			if !yield(NewItem{Key: k, Lane: "l", Op: "op", Payload: []byte("payload of " + k)}) {
				return
			}
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// mustClaim claims the next item of the lane "l" of run "r".
func mustClaim(tb testing.TB, s *Store, now time.Time) Claim {
	tb.Helper()
	c, ok, next, err := s.Claim(tb.Context(), "r", "l", now)
	if err != nil || !ok {
		tb.Fatalf("claim: %v, next %v, %v", ok, next, err)
	}
	return c
}
