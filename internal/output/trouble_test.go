package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What stands in the way of a file is told with its own name, once, and with the next
// step; the temporary name is nobody's business.
func TestTroubleNamesTheFileOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "devices.csv")
	full := syscall.ENOSPC
	if isWindows := filepath.Separator == '\\'; isWindows {
		full = syscall.Errno(112)
	}
	for name, c := range map[string]struct {
		cause error
		says  string
	}{
		"full disk":  {full, "make room there"},
		"no right":   {syscall.EACCES, "must be allowed to write in " + filepath.Dir(path)},
		"no drive":   {fs.ErrNotExist, "is the drive or the share there?"},
		"unforeseen": {errors.New("odd"), "write " + path + ": odd"},
	} {
		f, err := Create(path, "run")
		if err != nil {
			t.Fatal(err)
		}
		f.disk.write = func(*os.File, []byte) (int, error) {
			return 0, &fs.PathError{Op: "write", Path: f.temp, Err: c.cause}
		}
		_, first := f.Write([]byte("x"))
		_, perr := f.Publish()
		for what, err := range map[string]error{"write": first, "publish": perr, "set": troubleWith("write", path, first)} {
			text := err.Error()
			if !errors.Is(err, c.cause) || !strings.Contains(text, c.says) || strings.Count(text, "devices.csv") != 1 || strings.Contains(text, ".tmp") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if got := names(t, filepath.Dir(path)); len(got) != 0 {
			t.Errorf("%s: the folder holds %q", name, got)
		}
	}
}

func TestCheckDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("text.sqlite"), strings.Repeat("uid,name\r\n", 500))
	put(t, at("empty.sqlite"), "")
	execDB(t, at("good.sqlite"), "CREATE TABLE a (b)", "INSERT INTO a VALUES (1)")
	execDB(t, at("bad.sqlite"), "CREATE TABLE a (b)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5000) INSERT INTO a SELECT printf('%100d', i) FROM n")
	whole := read(t, at("bad.sqlite"))
	put(t, at("bad.sqlite"), whole[:len(whole)/2]+strings.Repeat("x", 8192)+whole[len(whole)/2+8192:])
	held := openDB(t, at("good.sqlite"))
	if _, err := held.Exec("BEGIN EXCLUSIVE"); err != nil { //nolint:noctx // a test
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"text.sqlite": "it is no SQLite database: name another file", "bad.sqlite": "the database is damaged",
		"empty.sqlite": "", "good.sqlite": "", "none.sqlite": "", ".": "is a folder",
	} {
		err := CheckDatabase(at(name))
		if got := ""; err != nil {
			if got = err.Error(); says == "" || !strings.Contains(got, says) || strings.Count(got, dir) != 1 {
				t.Errorf("%s: %v", name, err)
			}
		} else if says != "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
}

// A lock of another program is told as such, once, without the words of SQLite.
func TestDatabaseFaultOfALock(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lock")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "held.sqlite")
	execDB(t, path, "CREATE TABLE a (b)")
	held := openDB(t, path)
	if _, err := held.Exec("BEGIN EXCLUSIVE"); err != nil { //nolint:noctx // a test
		t.Fatal(err)
	}
	_, err := New(FileSQLite, target{path}, Spec{Source: "devices", Columns: uidName, Key: []string{"uid"}, Temp: t.TempDir()})
	if err == nil || strings.Count(err.Error(), "locked") != 1 || strings.Contains(err.Error(), "SQLITE") || !strings.Contains(err.Error(), "close it there") {
		t.Errorf("%v", err)
	}
}
