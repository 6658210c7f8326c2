package jobs

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// large writes a file of many rows.
func large(tb testing.TB, rows int) Rows {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "large.csv")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	if _, err := w.WriteString("uid,hostname,udf1,udf2,udf3,Comment\r\n"); err != nil {
		tb.Fatal(err)
	}
	for i := range rows {
		_, err := fmt.Fprintf(w, "%08x-1111-4111-8111-1111111111a1,WS-%06d,%07d,\"Büro, %d. Stock\",,some remark about it\r\n", i, i, i, i%9)
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return Rows{CSV: path}
}

// However long the file, a pass over it holds one row.
func TestTableMemoryIsBounded(t *testing.T) {
	rows := large(t, 200_000)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table, err := OpenTable(rows, []string{"uid", "udf1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
	most, n := uint64(0), 0
	for _, err := range table.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%50_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if n != 200_000 || table.Rows != n {
		t.Errorf("%d rows, Check counts %d", n, table.Rows)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("a pass holds %d bytes", grown)
	}
}

// BenchmarkTable compares a pass that splits and checks with one that only finds line ends.
func BenchmarkTable(b *testing.B) {
	rows := large(b, 200_000)
	info, err := os.Stat(rows.CSV)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check", func(b *testing.B) {
		b.SetBytes(info.Size())
		for b.Loop() {
			table, err := OpenTable(rows, []string{"uid", "udf1", "udf2"})
			if err != nil {
				b.Fatal(err)
			}
			if err := table.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lines", func(b *testing.B) {
		b.SetBytes(info.Size())
		for b.Loop() {
			f, err := os.Open(rows.CSV)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for s := bufio.NewScanner(f); s.Scan(); n++ {
				strings.Count(s.Text(), ",")
			}
			closeRead(f)
			if n != 200_001 {
				b.Fatal(n)
			}
		}
	})
}
