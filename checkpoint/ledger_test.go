package checkpoint

import (
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func openLedger(tb testing.TB, path string) *Ledger {
	tb.Helper()
	l, err := OpenLedger(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// Each process sees what the others sent, every change once, never its own, and never another account.
func TestLedgerTellsTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder", "sends.db")
	a, b := openLedger(t, path), openLedger(t, path)
	add := func(l *Ledger, account, process, lane string, seconds float64, n int) {
		t.Helper()
		if err := l.Add(t.Context(), account, process, lane, at(seconds), n); err != nil {
			t.Fatal(err)
		}
	}
	add(a, "acc", "A", "read", 0, 1)
	add(a, "acc", "A", "read", 0.05, 2)
	add(a, "acc", "A", "device-udf-set", 0.05, 1)
	add(a, "other", "A", "read", 0, 9)
	add(b, "acc", "B", "read", 0, 5)

	seen, version, err := b.Since(t.Context(), "acc", "B", 0)
	if err != nil || len(seen) != 2 || seen[0].N+seen[1].N != 4 || !seen[0].At.Equal(at(0)) {
		t.Fatalf("%+v %v", seen, err)
	}
	if seen, _, err := b.Since(t.Context(), "acc", "B", version); err != nil || len(seen) != 0 {
		t.Fatalf("again: %+v %v", seen, err)
	}
	add(a, "acc", "A", "read", 0.09, 1)
	if seen, _, err = b.Since(t.Context(), "acc", "B", version); err != nil || len(seen) != 1 || seen[0].N != 4 || seen[0].Lane != "read" {
		t.Fatalf("a slot that grew: %+v %v", seen, err)
	}
}

// Old entries go, whoever wrote them, and a reader that was there before misses nothing after.
func TestLedgerForgets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sends.db")
	a := openLedger(t, path)
	for i := range 10 {
		if err := a.Add(t.Context(), "acc", "dead", "read", at(float64(i)), 1); err != nil {
			t.Fatal(err)
		}
	}
	_, version, err := a.Since(t.Context(), "acc", "me", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(t.Context(), "acc", "other", "read", at(3600), 1); err != nil {
		t.Fatal(err)
	}
	if seen, _, err := a.Since(t.Context(), "acc", "me", version); err != nil || len(seen) != 1 {
		t.Fatalf("%+v %v", seen, err)
	}
	if seen, _, err := a.Since(t.Context(), "acc", "me", 0); err != nil || len(seen) != 1 || seen[0].Process != "other" {
		t.Fatalf("the old ones are still there: %+v %v", seen, err)
	}
}

// Several processes at a time lose nothing.
func TestLedgerTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sends.db")
	const each = 50
	var wg sync.WaitGroup
	for _, process := range []string{"A", "B", "C"} {
		l := openLedger(t, path)
		wg.Go(func() {
			for i := range each {
				if err := l.Add(t.Context(), "acc", process, "read", t0.Add(time.Duration(i)*30*time.Millisecond), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen, _, err := openLedger(t, path).Since(t.Context(), "acc", "me", 0)
	total := 0
	for _, e := range seen {
		total += e.N
	}
	if err != nil || total != 3*each {
		t.Errorf("%d of %d, %v", total, 3*each, err)
	}
}
