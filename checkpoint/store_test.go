package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	sqlite3 "modernc.org/sqlite/lib"
)

func TestOpenMakesAPrivateFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are not mode bits there")
	}
	folder := filepath.Join(t.TempDir(), "a", "b")
	s := openNew(t, folder)
	newRun(t, s, "r")
	for _, c := range []struct {
		path string
		want fs.FileMode
	}{{folder, 0o700}, {s.Path(), 0o600}, {s.Path() + "-wal", 0o600}, {s.Path() + "-shm", 0o600}} {
		info, err := os.Stat(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != c.want {
			t.Errorf("%s has mode %o, want %o", c.path, got, c.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	chmod(t, s.Path(), 0o644)
	openNew(t, folder)
	if info, _ := os.Stat(s.Path()); info.Mode().Perm() != 0o600 {
		t.Errorf("an open file stays open to others: %o", info.Mode().Perm())
	}
}

func TestOpenOddPaths(t *testing.T) {
	names := []string{"with blank", "question", "hash#tag", "100%41", "plus+and&", "Grüße 日本", "semi;colon", "a'b", "file:x"}
	if runtime.GOOS != "windows" {
		names = append(names, "why?_pragma=query_only(1)", `back\slash`, "new\nline", `"quoted"`)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.ContainsAny(name, ":") {
				t.Skip("not a file name there")
			}
			root := t.TempDir()
			path := filepath.Join(root, name, name+".db")
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			newRun(t, s, "r")
			if _, err := s.Run(t.Context(), "r"); err != nil { // through the other pool
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Fatalf("the data went elsewhere: %v %v", info, err)
			}
			if all, _ := filepath.Glob(filepath.Join(root, "*")); len(all) != 1 {
				t.Errorf("stray files: %q", all)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		path    string
		windows bool
		want    string
	}{
		{"/var/lib/x.db", false, "file:///var/lib/x.db"},
		{"/a b/c?d#e%41.db", false, "file:///a%20b/c%3Fd%23e%2541.db"},
		{`/a\b.db`, false, "file:///a%5Cb.db"},
		{`C:\Users\Jörg Müller\x.db`, true, "file:///C:/Users/J%C3%B6rg%20M%C3%BCller/x.db"},
		{`C:\100%\#1\x.db`, true, "file:///C:/100%25/%231/x.db"},
		{`\\server\share\x.db`, true, "file:////server/share/x.db"},
		{`\\?\C:\long\x.db`, true, "file:///C:/long/x.db"},
		{`\\?\UNC\server\share\x.db`, true, "file:////server/share/x.db"},
	} {
		if got := address(c.path, c.windows); got != c.want {
			t.Errorf("address(%q) = %s, want %s", c.path, got, c.want)
		}
	}
}

func TestSettingsReachEveryConnection(t *testing.T) {
	s := openNew(t, t.TempDir())
	check := func(db *sql.DB, connections int, want map[string]string) {
		t.Helper()
		for range connections { // each Conn stays open until the test ends, so that the next is another one
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for pragma, want := range want {
				var got string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %s, %v; want %s", pragma, got, err, want)
				}
			}
		}
	}
	check(s.write, 1, map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "30000", "query_only": "0"})
	check(s.read, readers, map[string]string{"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "30000", "query_only": "1"})
	if _, err := s.read.Exec(`DELETE FROM runs`); code(err) != sqlite3.SQLITE_READONLY {
		t.Errorf("a reader could write: %v", err)
	}
}

func TestZeroByteFileIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	newRun(t, s, "r")
}

// TestDamagedFile damages a real checkpoint in several ways. Each must be recognised, at Open or at the first look at
// the damaged part, and the file must be as it was.
func TestDamagedFile(t *testing.T) {
	folder := t.TempDir()
	s := openNew(t, folder)
	newRun(t, s, "r")
	if _, err := s.AddItems(t.Context(), "r", t0, manyItems(2000)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	garbage := func(from, to int) []byte {
		b := append([]byte(nil), good...)
		for i := from; i < to; i++ {
			b[i] = byte(i*7 + i>>8)
		}
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"text", []byte("this is not a database, it is a letter to somebody; and long enough to have a header of its own, nearly")},
		{"short", []byte("x")},
		{"header only", good[:100]},
		{"half", good[:len(good)/2/4096*4096]},
		{"cut in a page", good[:len(good)-1000]},
		{"first page", garbage(100, 4096)},
		{"all after the first page", garbage(4096, len(good))},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path)
			if err == nil {
				_, err = s.Counts(t.Context(), "r")
				if err == nil {
					err = s.Verify(t.Context())
				}
				s.Close()
			}
			damaged, ok := errors.AsType[*CorruptError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if damaged.Path != path || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("the message lacks the path or the way out: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(c.data) {
				t.Error("the file was changed")
			}
		})
	}
	if err := openNew(t, folder).Verify(t.Context()); err != nil {
		t.Errorf("the undamaged file: %v", err)
	}
}

func TestDamagedAnswer(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	if err := s.Finish(t.Context(), mustClaim(t, s, t0), t0, Done([]byte(strings.Repeat("body ", 100)))); err != nil {
		t.Fatal(err)
	}
	for name, update := range map[string]string{
		"longer":  `UPDATE results SET size = size - 1`,
		"shorter": `UPDATE results SET size = size + 2`,
		"garbage": `UPDATE results SET body = x'00112233', size = size - 1`,
	} {
		if _, err := s.write.Exec(update); err != nil {
			t.Fatal(err)
		}
		for _, err := range s.Results(t.Context(), "r", "") {
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestOtherProgramsDatabaseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "places.sqlite")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE bookmarks (url TEXT)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, _ := os.ReadFile(path)
	_, err = Open(t.Context(), path)
	if _, ok := errors.AsType[*CorruptError](err); !ok || !strings.Contains(err.Error(), "another program") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the file was changed")
	}
}

func TestPlacesThatCannotBeUsed(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"folder is a file": filepath.Join(file, "state.db"),
		"file is a folder": root,
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		closed := filepath.Join(root, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		cases["read-only folder"] = filepath.Join(closed, "state.db")
		old := openNew(t, filepath.Join(root, "old"))
		old.Close()
		chmod(t, filepath.Dir(old.Path()), 0o500)
		t.Cleanup(func() { chmod(t, filepath.Dir(old.Path()), 0o700) })
		cases["read-only folder of an old one"] = old.Path()
		readOnly := openNew(t, filepath.Join(root, "readonly"))
		readOnly.Close()
		chmod(t, readOnly.Path(), 0o400)
		cases["read-only file"] = readOnly.Path()
	}
	for name, path := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), path)
			ioErr, ok := errors.AsType[*IOError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if ioErr.Path != path || strings.Count(err.Error(), "open the checkpoint: "+path) != 1 {
				t.Errorf("the message does not name %s, and once: %v", path, err)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull lets SQLite run into its own page limit, which it reports exactly like a full disk.
func TestDiskFull(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	c := mustClaim(t, s, t0)
	var pages int
	if err := s.write.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1<<20)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	fails := map[string]error{
		"finish":  s.Finish(t.Context(), c, t0, Done(body).With(NewItem{Key: "child", Lane: "l"})),
		"advance": s.Advance(t.Context(), "r", t0, "", "x", Change{Items: manyItems(5000)}),
	}
	_, fails["add"] = s.AddItems(t.Context(), "r", t0, manyItems(5000))
	for name, err := range fails {
		if e, ok := errors.AsType[*IOError](err); !ok || e.Path != s.Path() || strings.Count(err.Error(), s.Path()) != 1 || !strings.Contains(err.Error(), "free some space") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	counts, err := s.Counts(t.Context(), "r")
	if err != nil || counts != (Counts{Items: 1, Running: 1}) {
		t.Errorf("something was half written: %+v %v", counts, err)
	}
	if _, err := s.write.Exec(`PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), c, t0, Done(body)); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

// TestCase_R12_NetworkFolder checks the refusal itself; which file systems count is a table of the system's numbers.
func TestCase_R12_NetworkFolder(t *testing.T) {
	err := error(&IOError{Path: "/net/x/state.db", Doing: "open the checkpoint", Err: fmt.Errorf("%w (%s)", ErrNetworkFolder, "nfs")})
	if !errors.Is(err, ErrNetworkFolder) || !strings.Contains(err.Error(), "local disk") {
		t.Errorf("got %v", err)
	}
	if got := networkFolder(t.TempDir()); got != "" {
		t.Errorf("the temporary folder is taken for %s", got)
	}
	for path, want := range map[string]string{
		`/home/a/state`:                                           "",
		`/home/a/OneDrive/state`:                                  "OneDrive",
		`C:\Users\a\OneDrive - Contoso GmbH\state`:                "OneDrive",
		`/home/a/onedriver/state`:                                 "",
		`/Users/a/Dropbox/x`:                                      "Dropbox",
		`/Users/a/Library/Mobile Documents/com~apple~CloudDocs/x`: "iCloud Drive",
	} {
		if got := CloudFolder(path); got != want {
			t.Errorf("CloudFolder(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestNewerVersionIsRefused(t *testing.T) {
	folder := t.TempDir()
	s := openNew(t, folder)
	if _, err := s.write.Exec(`PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	before, _ := os.ReadFile(s.Path())
	_, err := Open(t.Context(), s.Path())
	newer, ok := errors.AsType[*VersionError](err)
	steps, globErr := fs.Glob(migrations(), "*.sql")
	if globErr != nil {
		t.Fatal(globErr)
	}
	if !ok || newer.Have != 99 || newer.Known != len(steps) || newer.Path != s.Path() {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(s.Path()); string(after) != string(before) {
		t.Error("the file was changed")
	}
}

// TestMigrations takes a file of version 1 through made-up later versions.
func TestMigrations(t *testing.T) {
	folder := t.TempDir()
	first, err := fs.ReadFile(migrations(), "0001_initial.sql")
	if err != nil {
		t.Fatal(err)
	}
	old, err := open(t.Context(), filepath.Join(folder, "state.db"), fstest.MapFS{"0001_initial.sql": {Data: first}})
	if err != nil {
		t.Fatal(err)
	}
	newRun(t, old, "r")
	old.Close()

	steps := fstest.MapFS{
		"0001_initial.sql": {Data: first},
		"0002_note.sql":    {Data: []byte(`ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; CREATE INDEX n ON runs (note);`)},
		"0003_bad.sql":     {Data: []byte(`CREATE TABLE half (x); CREATE TABLE runs (y);`)},
	}
	if _, err := open(t.Context(), old.Path(), steps); err == nil || !strings.Contains(err.Error(), "0003_bad.sql") {
		t.Fatalf("a migration that cannot work: %v", err)
	}
	steps["0003_bad.sql"] = &fstest.MapFile{Data: []byte(`CREATE TABLE half (x);`)} // it left nothing behind
	s, err := open(t.Context(), old.Path(), steps)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var note string
	var version int
	if err := s.read.QueryRow(`SELECT note, user_version FROM runs, pragma_user_version`).Scan(&note, &version); err != nil || note != "none" || version != 3 {
		t.Errorf("note %q, version %d, %v", note, version, err)
	}
	if _, err := open(t.Context(), old.Path(), fstest.MapFS{"0001_initial.sql": {Data: first}}); err == nil {
		t.Error("version 3 was opened by a program that knows 1")
	}
	steps["0005_gap.sql"] = &fstest.MapFile{}
	if _, err := open(t.Context(), old.Path(), steps); err == nil || !strings.Contains(err.Error(), "0005_gap.sql") {
		t.Errorf("a gap in the numbers: %v", err)
	}
}

// TestOpenAtTheSameTime makes a new file from several sides at once.
func TestOpenAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			newRun(t, s, fmt.Sprint("r", i))
		})
	}
	wg.Wait()
	if runs, err := openNew(t, filepath.Dir(path)).Runs(t.Context(), 100, ""); len(runs) != 8 || err != nil {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

func TestEndedContext(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := map[string]error{
		"CreateRun": s.CreateRun(ctx, Run{ID: "x", JobKey: "j", Created: t0}),
		"BeginRun":  s.BeginRun(ctx, "r", t0, "h", 1),
		"Advance":   s.Advance(ctx, "r", t0, "", "x", Change{Items: manyItems(10)}),
	}
	_, errs["Run"] = s.Run(ctx, "r")
	_, _, _, errs["Claim"] = s.Claim(ctx, "r", "l", t0)
	_, errs["AddItems"] = s.AddItems(ctx, "r", t0, manyItems(10))
	_, errs["Counts"] = s.Counts(ctx, "r")
	for _, err := range s.Results(ctx, "r", "") {
		errs["Results"] = err
	}
	for name, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c, err := s.Counts(t.Context(), "r"); err != nil || c != (Counts{Items: 1, Pending: 1}) {
		t.Errorf("%+v %v", c, err)
	}
}

// TestLogStaysSmall writes many times the size the log may have, with a reader that never lets go for long.
func TestLogStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	addPending(t, s, "r", "first")
	payload := make([]byte, 64<<10)
	const limit = 64 << 20
	for r, err := range s.Results(t.Context(), "r", "") { // stays open all the time
		if err != nil || r.Key != "first" {
			t.Fatal(r.Key, err)
		}
		for i := range 25 {
			_, err := s.AddItems(t.Context(), "r", t0, func(yield func(NewItem) bool) {
				for j := range 64 {
					if !yield(NewItem{Key: fmt.Sprint("k", i, "/", j), Lane: "l", Payload: payload}) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := logSize(t, s); n > limit {
				t.Fatalf("the log has %d MiB", n>>20)
			}
		}
		break
	}
	// One transaction as large as that makes a large log for a moment, which the next write cuts back.
	if err := s.Advance(t.Context(), "r", t0, "", "x", Change{Rows: func(yield func(NewRow) bool) {
		for i := range 400 {
			if !yield(NewRow{Number: i, Class: "change", Payload: payload}) {
				return
			}
		}
	}}); err != nil {
		t.Fatal(err)
	}
	peak := logSize(t, s)
	for range 2 {
		if err := s.AddEvent(t.Context(), "r", t0, "k", ""); err != nil {
			t.Fatal(err)
		}
	}
	if after := logSize(t, s); peak < 20<<20 || after > 17<<20 {
		t.Errorf("the log went from %d MiB to %d MiB", peak>>20, after>>20)
	}
}
