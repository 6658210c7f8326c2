package checkpoint

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
)

// manyItems yields n items of about the size a UDF update has.
func manyItems(n int) iter.Seq[NewItem] {
	return func(yield func(NewItem) bool) {
		for i := range n {
			it := NewItem{
				Key: fmt.Sprintf("set/%08x-aaaa-bbbb-cccc-%012x", uint32(i)*2654435761, i), Lane: "device-udf-set", Op: "device-udf-set",
				Payload: fmt.Appendf(nil, `{"op":"device-udf-set","path":{"uid":"%08x-aaaa-bbbb-cccc-%012x"},"body":{"udf1":"asset %d"}}`, uint32(i)*2654435761, i, i),
			}
			if !yield(it) {
				return
			}
		}
	}
}

func manyRows(n int) iter.Seq[NewRow] {
	return func(yield func(NewRow) bool) {
		i := 0
		for it := range manyItems(n) {
			i++
			if !yield(NewRow{Number: i, Class: "change", ItemKey: it.Key, Payload: bytes.Repeat([]byte("old->new "), 15)}) {
				return
			}
		}
	}
}

// logSize returns the size of the write-ahead log.
func logSize(tb testing.TB, s *Store) int64 {
	tb.Helper()
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func BenchmarkAddItems100k(b *testing.B) {
	for i := range b.N {
		s := openNew(b, filepath.Join(b.TempDir(), fmt.Sprint(i)))
		newRun(b, s, "r")
		if n, err := s.AddItems(b.Context(), "r", t0, manyItems(100_000)); err != nil || n != 100_000 {
			b.Fatal(n, err)
		}
		b.ReportMetric(float64(logSize(b, s))/(1<<20), "MiB-log")
	}
}

func BenchmarkAdvance100k(b *testing.B) {
	for i := range b.N {
		s := openNew(b, filepath.Join(b.TempDir(), fmt.Sprint(i)))
		newRun(b, s, "r")
		if err := s.Advance(b.Context(), "r", t0, "", "apply", Change{Items: manyItems(100_000), Rows: manyRows(100_000)}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(logSize(b, s))/(1<<20), "MiB-log")
	}
}

// BenchmarkClaimFinish shows that a claim costs the same with much pending, with much done, and with little of both.
func BenchmarkClaimFinish(b *testing.B) {
	for _, c := range []struct {
		name          string
		pending, done int
	}{{"pending=1", 1, 0}, {"pending=100k", 100_000, 0}, {"done=100k", 1, 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			s := openNew(b, b.TempDir())
			newRun(b, s, "r")
			if _, err := s.AddItems(b.Context(), "r", t0, manyItems(c.pending+c.done)); err != nil {
				b.Fatal(err)
			}
			if _, err := s.write.Exec(`UPDATE items SET state = 'done', finished = 1 WHERE id <= ?`, c.done); err != nil {
				b.Fatal(err)
			}
			body := bytes.Repeat([]byte(`{"uid":"x","udf1":"y"}`), 40)
			for b.Loop() {
				claim, ok, _, err := s.Claim(b.Context(), "r", "device-udf-set", t0)
				if err != nil || !ok {
					b.Fatal(ok, err)
				}
				if err := s.Finish(b.Context(), claim, t0, Done(body).Acked(Write).With(NewItem{
					Key: fmt.Sprint("next/", claim.ID), Lane: "device-udf-set",
				})); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResults(b *testing.B) {
	const n = 20_000
	s := openNew(b, b.TempDir())
	newRun(b, s, "r")
	if _, err := s.AddItems(b.Context(), "r", t0, manyItems(n)); err != nil {
		b.Fatal(err)
	}
	encoding, body := encode(bytes.Repeat([]byte(`{"bios":{"serialNumber":"123"}}`), 130))
	if _, err := s.write.Exec(`UPDATE items SET state = 'done', finished = 1`); err != nil {
		b.Fatal(err)
	}
	if _, err := s.write.Exec(`INSERT INTO results SELECT id, ?, 4030, ? FROM items`, encoding, body); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		seen := 0
		for r, err := range s.Results(b.Context(), "r", "set/") {
			if err != nil || len(r.Body) != 4030 {
				b.Fatal(err)
			}
			seen++
		}
		if seen != n {
			b.Fatal(seen)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

func BenchmarkCounts100k(b *testing.B) {
	s := openNew(b, b.TempDir())
	newRun(b, s, "r")
	if _, err := s.AddItems(b.Context(), "r", t0, manyItems(100_000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if c, err := s.Counts(b.Context(), "r"); err != nil || c.Pending != 100_000 {
			b.Fatal(c, err)
		}
	}
}
