package output

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measuredColumns are those of a report of devices: numbers, dates, true and
// false, and text that is mostly short.
func measuredColumns(n int) []Column {
	kinds := []Kind{KindText, KindText, KindInt, KindBool, KindDate}
	columns := make([]Column, n)
	for i := range columns {
		name := "c" + strconv.Itoa(i)
		columns[i] = Column{Header: name, Path: name, Kind: kinds[i%len(kinds)]}
	}
	return columns
}

// measuredRow changes the row into the i-th; the first cell is a key.
func measuredRow(row []Value, i int) {
	for c := range row {
		switch c % 5 {
		case 0:
			row[c] = Value{KindText, fmt.Sprintf("%08x-0000-4000-8000-%012d", i*2654435761>>8, i+c)}
		case 1:
			row[c] = Value{KindText, "Office " + strconv.Itoa(i%977) + ", left"}
		case 2:
			row[c] = Value{KindInt, strconv.Itoa(i * 7919 % 1_000_003)}
		case 3:
			row[c] = Value{KindBool, strconv.FormatBool(i%3 == 0)}
		case 4:
			row[c] = Value{KindDate, time.Unix(1_741_219_200+int64(i), 0).UTC().Format(time.RFC3339)}
		}
	}
}

// measured writes rows to a file and publishes it. The format "baseline" is a
// loop that only prints the cells.
func measured(dir, format string, rows, columns int) (size int64, err error) {
	path := filepath.Join(dir, "out."+format)
	f, err := Create(path, "r1")
	if err != nil {
		return 0, err
	}
	row := make([]Value, columns)
	if format == "baseline" {
		b := bufio.NewWriterSize(f, bufferSize)
		for i := range rows {
			measuredRow(row, i)
			for _, v := range row {
				b.WriteString(v.Text) //nolint:errcheck // Flush tells
				b.WriteByte(',')      //nolint:errcheck // Flush tells
			}
			b.WriteByte('\n') //nolint:errcheck // Flush tells
		}
		err = b.Flush()
	} else {
		var w Writer
		w, err = New(format, f, Spec{Source: "devices", Columns: measuredColumns(columns), Key: []string{"c0"}, Temp: dir})
		for i := 0; err == nil && i < rows; i++ {
			measuredRow(row, i)
			err = w.Row(row)
		}
		if err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return 0, errors.Join(err, f.Abort())
	}
	done, err := f.Publish()
	return done.Size, err
}

// measureEnv tells a child process of the tests what to write.
const measureEnv = "RMMJOB_OUTPUT_MEASURE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(measureEnv); spec != "" {
		var format, dir string
		var rows, columns int
		if _, err := fmt.Sscan(spec, &format, &rows, &columns, &dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		debug.SetGCPercent(50)
		size, err := measured(dir, format, rows, columns)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(size, peak())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child writes rows in a process of its own and gives the size of the file and
// the most memory it has taken, both in bytes, and the time of the processors.
func child(t testing.TB, format string, rows, columns int) (size, memory int64, cpu time.Duration) {
	t.Helper()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %s", measureEnv, format, rows, columns, dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	if _, err := fmt.Sscan(string(out), &size, &memory); err != nil {
		t.Fatal(string(out), err)
	}
	if left := list(t, dir); len(left) != 1 {
		t.Errorf("%s leaves %q", format, left)
	}
	return size, memory, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// BenchmarkFiles writes whole files, each in a process of its own, against a
// loop that only prints the cells: time, time of the processors, size and peak
// memory.
func BenchmarkFiles(b *testing.B) {
	for _, bb := range []struct {
		rows, columns int
		formats       string
	}{
		{100_000, 30, "baseline csv jsonl json xlsx sqlite parquet"},
		{1_200_000, 5, "baseline csv jsonl xlsx sqlite parquet"},
	} {
		for format := range strings.FieldsSeq(bb.formats) {
			if f, ok := FileFormatNamed(format); ok && f.Unavailable != "" {
				continue
			}
			b.Run(fmt.Sprintf("%dx%d/%s", bb.rows, bb.columns, format), func(b *testing.B) {
				for b.Loop() {
					size, memory, cpu := child(b, format, bb.rows, bb.columns)
					b.ReportMetric(float64(size)/1e6, "MB")
					b.ReportMetric(float64(memory)/(1<<20), "peak-MiB")
					b.ReportMetric(cpu.Seconds(), "cpu-s")
				}
				b.ReportMetric(0, "B/op")
			})
		}
	}
}

// TestCase_O17_FileMemory holds every format to flat memory: ten times the rows
// must not take much more.
func TestCase_O17_FileMemory(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("writes large files")
	}
	if peak() == 0 {
		t.Skip("this system does not tell the peak")
	}
	for format := range formats() {
		const bound = 150 << 20
		_, memory, cpu := child(t, format, 100_000, 30)
		t.Logf("%s: %d MiB, %v", format, memory>>20, cpu.Round(10*time.Millisecond))
		if memory > bound {
			t.Errorf("%s took %d MiB", format, memory>>20)
		}
	}
}
