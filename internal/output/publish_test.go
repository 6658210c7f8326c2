package output

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func create(t *testing.T, path, content string) *File {
	t.Helper()
	f, err := Create(path, "20250306-020000-k7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, content); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPublish(t *testing.T) {
	for _, how := range []struct {
		name    string
		publish func(*File) (Published, error)
	}{{"replace", (*File).Publish}, {"in place", (*File).PublishInPlace}} {
		for _, old := range []string{"", "an old and much longer content"} {
			dir := filepath.Join(t.TempDir(), "new", "out")
			path := filepath.Join(dir, "devices.csv")
			if old != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, path, old)
			}
			f := create(t, path, "hello ")
			if _, err := f.Write([]byte("world")); err != nil {
				t.Fatal(err)
			}
			if list := names(t, dir); !slices.Contains(list, ".devices.csv.20250306-020000-k7.tmp") {
				t.Errorf("%s: the folder holds %q", how.name, list)
			}
			if old != "" && read(t, path) != old {
				t.Errorf("%s: the old file changed too early", how.name)
			}
			got, err := how.publish(f)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte("hello world"))
			if want := (Published{path, 11, hex.EncodeToString(sum[:])}); got != want {
				t.Errorf("%s = %+v, want %+v", how.name, got, want)
			}
			if read(t, path) != "hello world" || len(names(t, dir)) != 1 {
				t.Errorf("%s: the folder holds %q", how.name, names(t, dir))
			}
			if err := f.Abort(); err != nil || read(t, path) != "hello world" {
				t.Errorf("Abort after publishing: %v", err)
			}
			if _, err := f.Write([]byte("x")); err == nil {
				t.Error("a published file takes more")
			}
			if _, err := how.publish(f); err == nil {
				t.Error("a file is published twice")
			}
		}
	}
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	put(t, path, "old")
	f := create(t, path, "new")
	if err := errors.Join(f.Abort(), f.Abort()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(); err == nil {
		t.Error("an aborted file is published")
	}
	if _, err := f.PublishAside(time.Now()); err == nil {
		t.Error("an aborted file is published aside")
	}
	if got := names(t, dir); len(got) != 1 || read(t, path) != "old" {
		t.Errorf("the folder holds %q", got)
	}
}

func TestCreateReplacesItsOwnLeftover(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	put(t, filepath.Join(dir, tempName("a.csv", "20250306-020000-k7")), "half a row, much longer than the new file")
	if _, err := create(t, path, "new").Publish(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 || read(t, path) != "new" {
		t.Errorf("the folder holds %q, the file %q", got, read(t, path))
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	for _, path := range []string{"", dir, dir + "/", filepath.Join(dir, "file", "a.csv"), filepath.Join(dir, "a\tb.csv"), os.DevNull} {
		if f, err := Create(path, "r1"); err == nil {
			t.Errorf("Create(%q) succeeded", path)
			_ = f.Abort()
		}
	}
	for _, run := range []string{"", "a/b", "a.b", "..", "a b", "ü"} {
		if f, err := Create(filepath.Join(dir, "a.csv"), run); err == nil {
			t.Errorf("run %q is accepted", run)
			_ = f.Abort()
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the folder holds %q", got)
	}
}

// TestCase_R03_EveryErrorCounts lets each step before the rename fail.
func TestCase_R03_EveryErrorCounts(t *testing.T) {
	full := errors.New("no space left on device")
	writes := 0
	for name, breakIt := range map[string]func(*disk){
		"write": func(d *disk) {
			d.write = func(f *os.File, p []byte) (int, error) {
				n, _ := f.Write(p[:len(p)/2])
				return n, full
			}
		},
		"last write": func(d *disk) {
			d.write = func(f *os.File, p []byte) (int, error) {
				if writes++; writes == 3 {
					return 0, full
				}
				return f.Write(p)
			}
		},
		"sync": func(d *disk) { d.sync = func(*os.File) error { return full } },
		"close": func(d *disk) {
			d.close = func(f *os.File) error { return errors.Join(f.Close(), full) }
		},
	} {
		for _, publish := range []func(*File) (Published, error){(*File).Publish, (*File).PublishInPlace} {
			writes = 0
			dir := t.TempDir()
			path := filepath.Join(dir, "devices.csv")
			put(t, path, "last night")
			f, err := Create(path, "r1")
			if err != nil {
				t.Fatal(err)
			}
			breakIt(&f.disk)
			w, err := NewCSV(f, []string{"a", "b"}, CSVOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for range 30_000 {
				// What the writer says is ignored here: Publish must know by itself.
				_ = w.Row(textRow("first", "second"))
			}
			_ = w.Close()
			_, err = publish(f)
			if !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: Publish = %v", name, err)
			}
			if got := names(t, dir); len(got) != 1 || read(t, path) != "last night" {
				t.Errorf("%s: the folder holds %q", name, got)
			}
			if err := f.Abort(); err != nil {
				t.Errorf("%s: Abort = %v", name, err)
			}
		}
	}
}

// busy is an error that may go away.
var errBusy = errors.New("sharing violation")

// holdFor makes the target of a rename held by another program for a time.
func holdFor(f *File, hold time.Duration) {
	free := time.Now().Add(hold)
	f.disk.rename = func(from, to string) error {
		if time.Now().Before(free) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: errBusy}
		}
		return os.Rename(from, to)
	}
	f.disk.transient = func(err error) bool { return errors.Is(err, errBusy) }
}

func TestCase_R17_ScannerHoldsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	put(t, path, "old")
	synctest.Test(t, func(t *testing.T) {
		f := create(t, path, "new")
		holdFor(f, 2*time.Second)
		start := time.Now()
		if _, err := f.Publish(); err != nil {
			t.Errorf("held for 2 s: %v", err)
		}
		if waited := time.Since(start); waited > 4*time.Second {
			t.Errorf("published %v after the file became free", waited-2*time.Second)
		}
		if read(t, path) != "new" {
			t.Error("the file is not the new one")
		}

		f = create(t, path, "newer")
		holdFor(f, time.Minute)
		start = time.Now()
		_, err := f.Publish()
		var kept *KeptError
		if !errors.As(err, &kept) || !errors.Is(err, errBusy) {
			t.Fatalf("held for 60 s: %v", err)
		}
		if waited := time.Since(start); waited < renameFor || waited > renameFor+2*renameMaxPause {
			t.Errorf("gave up after %v", waited)
		}
		if kept.Path != path || !strings.Contains(err.Error(), kept.Kept) || read(t, kept.Kept) != "newer" || read(t, path) != "new" {
			t.Errorf("error %v, kept file %q", err, read(t, kept.Kept))
		}
		if err := f.Abort(); err != nil || read(t, kept.Kept) != "newer" {
			t.Errorf("Abort took the kept file: %v", err)
		}
	})
}

func TestRenameErrorThatDoesNotPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	f := create(t, path, "new")
	calls := 0
	f.disk.rename = func(string, string) error { calls++; return fs.ErrPermission }
	_, err := f.Publish()
	var kept *KeptError
	if !errors.As(err, &kept) || calls != 1 {
		t.Errorf("Publish = %v after %d tries", err, calls)
	}
}

func TestCase_R18_TargetOpenAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	put(t, path, "old")
	at := time.Date(2025, 3, 6, 2, 0, 0, 0, time.Local)
	for i, want := range []string{"devices.20250306-020000.csv", "devices.20250306-020000-2.csv"} {
		f := create(t, path, fmt.Sprint("new ", i))
		f.disk.rename = func(from, to string) error {
			if to == path {
				return errBusy
			}
			return os.Rename(from, to)
		}
		if _, err := f.PublishAside(at); err == nil {
			t.Error("an unfinished file was published aside")
		}
		if _, err := f.Publish(); err == nil {
			t.Fatal("a held target was replaced")
		}
		got, err := f.PublishAside(at)
		if err != nil {
			t.Fatal(err)
		}
		if got.Path != filepath.Join(dir, want) || read(t, got.Path) != fmt.Sprint("new ", i) || got.Size != 5 {
			t.Errorf("published aside as %+v", got)
		}
		if _, err := f.PublishAside(at); err == nil {
			t.Error("published aside twice")
		}
	}
	if got := names(t, dir); len(got) != 3 || read(t, path) != "old" {
		t.Errorf("the folder holds %q", got)
	}
}

func TestPublishInPlaceKeepsTheFileItself(t *testing.T) {
	dir := t.TempDir()
	path, second := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	put(t, path, "a longer old content")
	if err := os.Link(path, second); err != nil {
		t.Skip(err)
	}
	if _, err := create(t, path, "new").PublishInPlace(); err != nil {
		t.Fatal(err)
	}
	if read(t, second) != "new" {
		t.Errorf("the other name holds %q", read(t, second))
	}

	f := create(t, path, "newer")
	f.disk.write = func(*os.File, []byte) (int, error) { return 0, errBusy }
	_, err := f.PublishInPlace()
	var kept *KeptError
	if !errors.As(err, &kept) || !errors.Is(err, errBusy) || read(t, kept.Kept) != "newer" {
		t.Errorf("PublishInPlace = %v", err)
	}
}

// TestCase_R07_FinalNameIsAlwaysComplete reads the target all the time.
func TestCase_R07_FinalNameIsAlwaysComplete(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a reader that never lets go keeps a file from being replaced here")
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	contents := map[string]bool{}
	for i := range 10 {
		contents[strings.Repeat(string(rune('a'+i)), 200_000)] = true
	}
	put(t, path, strings.Repeat("a", 200_000))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			b, err := os.ReadFile(path)
			if err != nil || !contents[string(b)] {
				t.Errorf("the final name holds %d bytes of something else, %v", len(b), err)
				return
			}
		}
	})
	for range 5 {
		for content := range contents {
			f := create(t, path, content[:100_000])
			if _, err := io.Copy(f, strings.NewReader(content[100_000:])); err != nil {
				t.Error(err)
			}
			if _, err := f.Publish(); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	readers.Wait()
}

func TestCase_R06_StaleFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices.csv")
	put(t, path, "uid\r\na\r\nb\r\n")
	if err := Check(path); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, path, "uid\r\na\r\nb\r\nc\r\nd\r\ne\r\n").Publish(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); strings.Count(got, "\r\n") != 6 {
		t.Errorf("the file holds %q", got)
	}
}

// TestCase_R01_KillLeavesNoHalfFile stops at any point by dropping the File.
func TestCase_R01_KillLeavesNoHalfFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	rows := func(w io.Writer, n int) error {
		c, err := NewCSV(w, []string{"uid"}, CSVOptions{})
		if err != nil {
			return err
		}
		for i := range n {
			if err := c.Row(textRow(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return c.Close()
	}
	for _, n := range []int{0, 1, 250, 499} {
		f, err := Create(path, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if err := rows(f, n); err != nil {
			t.Fatal(err)
		}
		f.f.Close() // the process is gone
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("half a file is published: %v", err)
		}
	}
	f, err := Create(path, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if err := rows(f, 500); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := rows(&want, 500); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != want.String() || len(names(t, dir)) != 1 {
		t.Errorf("%d bytes, want %d; the folder holds %q", len(got), want.Len(), names(t, dir))
	}
}

func TestModeAndLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits, and links need a privilege")
	}
	dir := t.TempDir()
	mode := func(path string) fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	path := filepath.Join(dir, "a.csv")
	f := create(t, path, "x")
	if got := mode(f.temp); got != 0o600 {
		t.Errorf("the temporary file has mode %o", got)
	}
	if _, err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.OpenFile(filepath.Join(dir, "fresh"), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	fresh.Close()
	if got, want := mode(path), mode(fresh.Name()); got != want {
		t.Errorf("a new file has mode %o, want %o as any new file", got, want)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, path, "y").Publish(); err != nil {
		t.Fatal(err)
	}
	if got := mode(path); got != 0o640 {
		t.Errorf("a replaced file has mode %o", got)
	}

	link, dangling := filepath.Join(dir, "link.csv"), filepath.Join(dir, "dangling.csv")
	if err := errors.Join(os.Symlink("a.csv", link), os.Symlink(filepath.Join("sub", "new.csv"), dangling)); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{link: path, dangling: filepath.Join(dir, "sub", "new.csv")} {
		if err := Check(link); err != nil {
			t.Error(err)
		}
		got, err := create(t, link, "through the link").Publish()
		if err != nil || got.Path != target || read(t, target) != "through the link" {
			t.Errorf("%s: published %+v, %v", link, got, err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", link)
		}
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := Check(loop); err == nil {
		t.Error("a link to itself passes")
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	put(t, path, "old content")
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{path, filepath.Join(dir, "new.csv"), filepath.Join(dir, "a", "b", "c", "new.csv")} {
		if err := Check(good); err != nil {
			t.Errorf("Check(%s) = %v", good, err)
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 || read(t, path) != "old content" || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("Check left traces: %q, modified %v", got, after.ModTime())
	}
	for bad, part := range map[string]string{
		"":                                   "no file name",
		dir:                                  "folder",
		dir + "/":                            "folder",
		filepath.Join(dir, "new") + "/":      "folder",
		filepath.Join(path, "x.csv"):         "devices.csv",
		filepath.Join(path, "sub", "x.csv"):  "devices.csv",
		filepath.Join(dir, "a\tb.csv"):       "TAB",
		os.DevNull:                           "device",
		filepath.Join(dir, "\x00"):           "NUL",
		dir + "/" + strings.Repeat("x", 300): "check output",
	} {
		if err := Check(bad); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Check(%q) = %v, want something about %q", bad, err, part)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("failed checks left %q", got)
	}
}

func TestCheckReadOnlyPlaces(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err == nil {
		for _, path := range []string{"/proc/rmmjob-output.csv", "/proc/rmmjob-new/output.csv"} {
			if err := Check(path); err == nil {
				t.Errorf("Check(%s) passes", path)
			}
		}
	}
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("permissions do not hold this user back")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	put(t, path, "x")
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a read-only file: Check = %v", err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{filepath.Join(dir, "b.csv"), filepath.Join(dir, "sub", "b.csv")} {
		if err := Check(path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a read-only folder: Check = %v", err)
		}
		if _, err := Create(path, "r1"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a read-only folder: Create = %v", err)
		}
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".devices-2025-03-05.csv.r1.tmp", ".devices-2025-03-06.csv.r2.tmp", ".a.csv.r1.tmp", ".a.csv.alive.tmp",
		"a.csv", ".a.csv.tmp", ".r1.tmp", "a.csv.r1.tmp", ".a.csv.r1.tmp.bak", ".a.csv.r 1.tmp", "..r1.tmp",
	} {
		put(t, filepath.Join(dir, name), "x")
	}
	if err := os.Mkdir(filepath.Join(dir, ".folder.r1.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	var asked []string
	removed, err := Sweep(filepath.Join(dir, "devices-2025-03-07.csv"), func(run string) bool {
		asked = append(asked, run)
		return run == "r1" || run == "r2"
	})
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, path := range removed {
		gone = append(gone, filepath.Base(path))
	}
	if want := []string{".a.csv.r1.tmp", ".devices-2025-03-05.csv.r1.tmp", ".devices-2025-03-06.csv.r2.tmp"}; !slices.Equal(gone, want) {
		t.Errorf("removed %q, want %q", gone, want)
	}
	if !slices.Contains(asked, "alive") || len(names(t, dir)) != 9 {
		t.Errorf("asked for %q, the folder holds %q", asked, names(t, dir))
	}
	if removed, err := Sweep(filepath.Join(dir, "missing", "a.csv"), func(string) bool { return true }); err != nil || removed != nil {
		t.Errorf("a missing folder: %q, %v", removed, err)
	}
}
