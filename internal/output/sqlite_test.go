package output

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func openDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", sqliteAddress(path, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// query gives all rows as text.
func query(t testing.TB, path, statement string) []string {
	t.Helper()
	db := openDB(t, path)
	defer db.Close()
	rows, err := db.Query(statement)
	if err != nil {
		t.Fatal(statement, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, c := range cells {
			if !c.Valid {
				c.String = "NULL"
			}
			parts = append(parts, c.String)
		}
		all = append(all, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func execDB(t testing.TB, path string, statements ...string) {
	t.Helper()
	db := openDB(t, path)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(s, err)
		}
	}
}

// publishDB writes records into the database at path as an export would.
func publishDB(t testing.TB, path string, spec Spec, records ...string) []string {
	t.Helper()
	f, err := Create(path, "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort() //nolint:errcheck // cleans up
	if spec.Temp == "" {
		spec.Temp = t.TempDir()
	}
	warnings := writeTo(t, f, FileSQLite, spec, records...)
	if _, err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	if left := list(t, spec.Temp); len(left) != 0 {
		t.Errorf("%q is left behind", left)
	}
	if got := query(t, path, "PRAGMA integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Fatalf("the database is damaged: %q", got)
	}
	return warnings
}

func TestSQLiteCells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sqlite")
	publishDB(t, path, Spec{Source: "site-devices", Columns: awkwardColumns, Key: []string{"uid"}}, awkwardRecords...)
	if got := query(t, path, "SELECT name, type FROM pragma_table_info('site_devices')"); strings.Join(got, " ") !=
		"uid|TEXT text|TEXT count|INTEGER online|BOOLEAN seen|TEXT ratio|REAL list|TEXT raw| day|TEXT" {
		t.Errorf("columns: %s", got)
	}
	for column, want := range map[string]string{
		"uid":    "text:1 text:2 text:3 text:4 text:5 text:6",
		"count":  "integer:42 integer:-5 blob:123456789012345678901234567890 blob:007 integer:9223372036854775807 integer:9007199254740993",
		"online": "integer:1 integer:0 text:maybe integer:1 null:NULL integer:1",
		"seen":   "text:2025-03-06T00:00:00Z text:2025-07-01T12:30:00Z text:tomorrow text:12 null:NULL text:1890-01-02T03:04:05Z",
		"ratio":  "real:2.5 real:0.1 blob:1234567890.1234567 blob:1e5 real:7.0 blob:9007199254740993",
		"list":   `text:[1,"x"] text:[] text:{"a":1} text:x null:NULL text:[]`,
		"raw":    "integer:7 real:1500.0 integer:1 text:007 null:NULL text:1e5",
		"day":    "text:2027-03-31 text:2025-03-06 text:x null:NULL null:NULL null:NULL",
	} {
		got := query(t, path, fmt.Sprintf("SELECT typeof(%[1]s) || ':' || ifnull(CAST(%[1]s AS TEXT), 'NULL') FROM site_devices ORDER BY uid", column))
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want\n%q", column, strings.Join(got, " "), want)
		}
	}
	texts := query(t, path, "SELECT text FROM site_devices ORDER BY uid")
	if texts[1] != "=1+1" || texts[2] != "00123" || texts[3] != "line\r\nbreak\tand \"quotes\" ü 漢 🦊 " || texts[4] != "" {
		t.Errorf("text: %q", texts)
	}
}

var uidName = []Column{{Header: "uid", Path: "uid", Kind: KindText}, {Header: "name", Path: "name", Kind: KindText}}

func TestSQLiteModes(t *testing.T) {
	awkward := "a b?#%.sqlite" // would be cut or unescaped as an address
	if runtime.GOOS == "windows" {
		awkward = "a b#%.sqlite"
	}
	for _, tt := range []struct {
		mode string
		key  []string
		want string
	}{
		{"", []string{"uid"}, "a|one b|TWO c|three d|four"},
		{ModeMerge, []string{"uid"}, "a|one b|TWO c|three d|four"},
		{ModeReplace, []string{"uid"}, "b|TWO c|three d|four"},
		{ModeReplace, nil, "b|TWO c|three d|four"},
	} {
		path := filepath.Join(t.TempDir(), awkward)
		spec := Spec{Source: "devices", Columns: uidName, Key: tt.key, Mode: tt.mode}
		publishDB(t, path, spec, `{"uid":"a","name":"one"}`, `{"uid":"b","name":"two"}`, `{"uid":"c","name":"three"}`)
		publishDB(t, path, spec, `{"uid":"d","name":"four"}`, `{"uid":"b","name":"TWO"}`, `{"uid":"c","name":"three"}`)
		if got := query(t, path, "SELECT uid, name FROM devices ORDER BY uid"); strings.Join(got, " ") != tt.want {
			t.Errorf("mode %q, key %q: %q, want %q", tt.mode, tt.key, got, tt.want)
		}
		if left := list(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("the folder holds %q", left)
		}
	}
}

// TestSQLiteAgainstAMap runs nights of exports and compares the table with a
// map; rows with an empty key are a list beside it.
func TestSQLiteAgainstAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.db")
		type key struct{ site, uid string }
		want := map[key]string{}
		for night := range rapid.IntRange(1, 3).Draw(rt, "nights") {
			mode := rapid.SampledFrom([]string{ModeMerge, ModeReplace}).Draw(rt, "mode")
			ids := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 40).Draw(rt, "ids")
			columns := []Column{{Header: "uid", Path: "uid"}, {Header: "Site", Path: "site", Kind: KindInt}, {Header: "v", Path: "v"}}
			f, err := Create(path, "r1")
			if err != nil {
				rt.Fatal(err)
			}
			w, err := New(FileSQLite, f, Spec{Source: "x", Columns: columns, Key: []string{"Site", "uid"}, Mode: mode, Temp: dir})
			if err != nil {
				rt.Fatal(err)
			}
			seen, repeats, before := map[key]bool{}, int64(0), maps.Clone(want)
			var empty []string
			for i, id := range ids {
				k := key{strconv.Itoa(id % 3), "u" + strconv.Itoa(id/3)}
				row := []Value{{KindText, k.uid}, {KindInt, k.site}, {KindText, fmt.Sprint(night, i)}}
				if id == 40 {
					row[1] = Value{}
					empty = append(empty, row[2].Text)
				} else {
					if seen[k] {
						repeats++
					}
					seen[k] = true
					want[k] = row[2].Text
				}
				if err := w.Row(row); err != nil {
					rt.Fatal(err)
				}
			}
			if mode == ModeReplace {
				maps.DeleteFunc(want, func(k key, _ string) bool { return !seen[k] })
			}
			err = w.Close()
			if repeats > 0 {
				if e, ok := errors.AsType[*KeyError](err); !ok || e.Repeats != repeats || e.Rows != int64(len(ids)) || strings.Join(e.Key, " ") != "Site uid" {
					rt.Fatalf("%d repeats: %v", repeats, err)
				}
				if err := f.Abort(); err != nil {
					rt.Fatal(err)
				}
				want = before
				continue
			}
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := f.Publish(); err != nil {
				rt.Fatal(err)
			}
			var lines []string
			for k, v := range want {
				lines = append(lines, k.site+"|"+k.uid+"|"+v)
			}
			for _, v := range empty {
				lines = append(lines, "NULL|u13|"+v)
			}
			slices.Sort(lines)
			got := query(t, path, "SELECT Site, uid, v FROM x")
			slices.Sort(got)
			if !slices.Equal(got, lines) {
				rt.Fatalf("night %d: %q, want %q", night, got, lines)
			}
		}
		if left := list(t, dir); len(left) > 1 {
			rt.Fatalf("%q is left", left)
		}
	})
}

// TestSQLiteKeepsTheRest has a database with things that are not the job's.
func TestSQLiteKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	execDB(t, path,
		"PRAGMA journal_mode=WAL",
		"CREATE TABLE notes (id INTEGER PRIMARY KEY, t TEXT)", "INSERT INTO notes VALUES (1, 'mine')",
		`CREATE TABLE devices (UID TEXT, owner TEXT, name TEXT)`, "INSERT INTO devices VALUES ('a', 'jo', 'old'), ('b', 'al', 'gone'), (NULL, 'x', 'y')",
		"CREATE VIEW names AS SELECT name FROM devices")
	columns := append(slices.Clone(uidName), Column{Header: "n", Path: "n", Kind: KindInt})
	publishDB(t, path, Spec{Source: "devices", Columns: columns, Key: []string{"uid"}, Mode: ModeReplace}, `{"uid":"a","name":"new","n":7}`, `{"uid":"c","name":"more"}`)
	if got := query(t, path, "SELECT * FROM devices"); !slices.Equal(got, []string{"a|jo|new|7", "c|NULL|more|NULL"}) {
		t.Errorf("devices: %q", got)
	}
	if got := query(t, path, "SELECT t FROM notes, names ORDER BY name"); !slices.Equal(got, []string{"mine", "mine"}) {
		t.Errorf("notes and the view: %q", got)
	}
	if got := query(t, path, "PRAGMA journal_mode"); got[0] != "delete" {
		t.Errorf("the journal mode is %s: the file is not alone", got)
	}

	// Two sources in one file, and a new key.
	publishDB(t, path, Spec{Source: "sites", Columns: uidName, Key: []string{"name"}}, `{"uid":"s1","name":"Depot"}`)
	publishDB(t, path, Spec{Source: "sites", Columns: uidName, Key: []string{"uid"}}, `{"uid":"s1","name":"Renamed"}`, `{"uid":"s2","name":"Renamed"}`)
	if got := query(t, path, "SELECT uid, name FROM sites ORDER BY 1"); !slices.Equal(got, []string{"s1|Renamed", "s2|Renamed"}) {
		t.Errorf("sites: %q", got)
	}
	if got := query(t, path, "SELECT count(*) FROM devices"); got[0] != "2" {
		t.Errorf("devices are %s", got)
	}
	w, err := New(FileSQLite, target{path}, Spec{Source: "sites", Columns: uidName, Key: []string{"name"}, Temp: t.TempDir()})
	if w != nil || err == nil || !strings.Contains(err.Error(), "name another key") {
		t.Errorf("a key that tells nothing apart: %v", err)
	}
}

// target is an output that is no *File.
type target struct{ path string }

func (target) Write(p []byte) (int, error) { return len(p), nil }
func (t target) Target() string            { return t.path }

func TestSQLiteOddTargets(t *testing.T) {
	spec := Spec{Source: "sqlite_devices", Columns: uidName, Key: []string{"uid"}, Temp: t.TempDir()}
	dir := t.TempDir()

	noDB := filepath.Join(dir, "text.db")
	put(t, noDB, "uid,name\r\n"+strings.Repeat("x", 4096))
	if _, err := New(FileSQLite, target{noDB}, spec); err == nil || !strings.Contains(err.Error(), "no SQLite database") {
		t.Errorf("a text file: %v", err)
	}
	empty := filepath.Join(dir, "empty.db")
	put(t, empty, "")
	publishDB(t, empty, spec, `{"uid":"a"}`)
	if got := query(t, empty, "SELECT uid, name FROM _sqlite_devices"); !slices.Equal(got, []string{"a|NULL"}) {
		t.Errorf("an empty file: %q", got)
	}
	view := filepath.Join(dir, "view.db")
	execDB(t, view, "CREATE VIEW _sqlite_devices AS SELECT 1 AS uid, 2 AS name")
	if _, err := New(FileSQLite, target{view}, spec); err == nil {
		t.Error("a view can be written to")
	}
	onlyKey := filepath.Join(dir, "key.db")
	publishDB(t, onlyKey, Spec{Source: "x", Columns: uidName[:1], Key: []string{"uid", "uid"}}, `{"uid":"a"}`, `{"uid":"b"}`)
	if got := query(t, onlyKey, "SELECT uid FROM x ORDER BY 1"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("nothing but the key: %q", got)
	}
	quoted := filepath.Join(dir, "quoted.db")
	columns := []Column{{Header: `a"b`, Path: "a"}, {Header: "A\"B", Path: "a"}, {Header: "seen (Europe/London)", Path: "a"}, {Header: "", Path: "a"}}
	publishDB(t, quoted, Spec{Source: "x", Columns: columns, Key: []string{`a"b`}}, `{"a":"1"}`)
	publishDB(t, quoted, Spec{Source: "x", Columns: columns, Key: []string{`a"b`}}, `{"a":"1"}`)
	if got := query(t, quoted, `SELECT "a""b", "A""B 2", "seen (Europe/London)", "column 4" FROM x`); !slices.Equal(got, []string{"1|1|1|1"}) {
		t.Errorf("odd headers: %q", got)
	}
	if left := list(t, spec.Temp); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

// TestSQLiteOpenElsewhere has another program at work on the database while it
// is updated: what is committed is in the copy, and a log that stays beside the
// target stops the update.
func TestSQLiteOpenElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	spec := Spec{Source: "devices", Columns: uidName, Key: []string{"uid"}, Temp: t.TempDir()}
	publishDB(t, path, spec, `{"uid":"a"}`)

	other := openDB(t, path)
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("PRAGMA journal_mode=WAL"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("INSERT INTO devices (uid) VALUES ('b')"); err != nil {
		t.Fatal(err)
	}
	if len(read(t, path+"-wal")) == 0 {
		t.Fatal("there is no log to be missed")
	}
	w, err := New(FileSQLite, target{path}, spec)
	if err == nil {
		t.Cleanup(func() { Discard(w) }) //nolint:errcheck // cleans up
		err = w.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "another program has the database open") {
		t.Fatalf("the log beside the target is overlooked: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	publishDB(t, path, spec, `{"uid":"c"}`)
	if got := query(t, path, "SELECT uid FROM devices ORDER BY 1"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("after the other program has gone: %q", got)
	}
}

// TestSQLiteLogOfACrash has a log that nobody holds any more.
// Two jobs may keep tables in one database. The later one must not take away what the
// other has written since it made its copy.
func TestSQLiteChangedMeanwhile(t *testing.T) {
	spec := Spec{Source: "devices", Columns: awkwardColumns[:2], Key: []string{"uid"}}
	sites := Spec{Source: "sites", Columns: awkwardColumns[:2], Key: []string{"uid"}}
	for name, before := range map[string]func(path string){
		"new":     func(string) {},
		"changed": func(path string) { publishDB(t, path, sites, `{"uid":"a","text":"old"}`) },
	} {
		path := filepath.Join(t.TempDir(), "a.sqlite")
		before(path)
		f := create(t, path, "")
		spec.Temp = t.TempDir()
		w, err := New(FileSQLite, f, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Row(Row(nil, spec.Columns, parse(t, `{"uid":"1","text":"x"}`), Style{})); err != nil {
			t.Fatal(err)
		}
		publishDB(t, path, sites, `{"uid":"b","text":"new"}`)
		if err := w.Close(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Close = %v", name, err)
		}
		if err := errors.Join(f.Abort(), Discard(w)); err != nil {
			t.Error(err)
		}
		if got := query(t, path, "SELECT text FROM sites WHERE uid = 'b'"); !slices.Equal(got, []string{"new"}) {
			t.Errorf("%s: the other table has %q", name, got)
		}
	}
}

func TestSQLiteLogOfACrash(t *testing.T) {
	dir := t.TempDir()
	path, crashed := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	spec := Spec{Source: "devices", Columns: uidName, Key: []string{"uid"}}
	publishDB(t, path, spec, `{"uid":"a"}`)
	other := openDB(t, path)
	other.SetMaxOpenConns(1)
	for _, s := range []string{"PRAGMA journal_mode=WAL", "INSERT INTO devices (uid) VALUES ('b')"} {
		if _, err := other.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	put(t, crashed, read(t, path))
	put(t, crashed+"-wal", read(t, path+"-wal"))
	publishDB(t, crashed, spec, `{"uid":"c"}`)
	if got := query(t, crashed, "SELECT uid FROM devices ORDER BY 1"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(crashed + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
}

// TestCase_R07_SQLiteTargetUntouched reads the target while the update runs.
func TestCase_R07_SQLiteTargetUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	spec := Spec{Source: "devices", Columns: uidName, Key: []string{"uid"}, Temp: t.TempDir(), Mode: ModeReplace}
	publishDB(t, path, spec, `{"uid":"a","name":"secret one"}`)
	before := read(t, path)
	f, err := Create(path, "r2")
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(FileSQLite, f, spec)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if err := w.Row(textRow("u"+strconv.Itoa(i), "x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if read(t, path) != before {
		t.Error("the target has changed before it was published")
	}
	if _, err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, path, "SELECT count(*) FROM devices"); got[0] != "5000" {
		t.Errorf("%s rows", got)
	}
	if strings.Contains(read(t, path), "secret one") {
		t.Error("a deleted row can still be read in the file")
	}
}

func TestSQLiteErrorsHaveNoValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	execDB(t, path, "CREATE TABLE devices (uid TEXT, name TEXT CHECK (length(name) < 5))")
	w, err := New(FileSQLite, target{path}, Spec{Source: "devices", Columns: uidName, Key: []string{"uid"}, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Row(textRow("a", "hunter2"))
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "row 1") {
		t.Errorf("Row = %v", err)
	}
	if w.Close() == nil {
		t.Error("the error is forgotten")
	}
}

// TestSQLiteKeepsEveryValue draws cells for columns of every type: cast to
// text, each is what it was, and numbers that were stored as numbers are the
// same number.
func TestSQLiteKeepsEveryValue(t *testing.T) {
	kinds := []Kind{KindNull, KindText, KindInt, KindBool, KindDate, KindNumber, KindObject, KindList}
	var columns []Column
	for _, k := range kinds {
		c := Column{Header: k.String(), Path: k.String(), Kind: k}
		if k == KindNull {
			c.Format = FormatRaw
		}
		columns = append(columns, c)
	}
	rapid.Check(t, func(rt *rapid.T) {
		cell := rapid.Custom(func(rt *rapid.T) Value {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				return Value{KindText, rapid.OneOf(rapid.String(), rapid.StringMatching(`[ +-]?[0-9.eE]{0,25}[ \t]?`), rapid.SampledFrom([]string{"inf", "nan", "0x10", "1e5", "true"})).Draw(rt, "text")}
			case 1:
				return numberValue(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,18})?`).Draw(rt, "number"))
			case 2:
				return Value{KindBool, strconv.FormatBool(rapid.Bool().Draw(rt, "bool"))}
			default:
				return Value{}
			}
		})
		row := rapid.SliceOfN(cell, len(columns), len(columns)).Draw(rt, "row")
		path := filepath.Join(t.TempDir(), "x.db")
		f, err := os.Create(path)
		if err != nil {
			rt.Fatal(err)
		}
		w, err := New(FileSQLite, f, Spec{Source: "x", Columns: columns, Mode: ModeReplace})
		if err == nil {
			err = errors.Join(w.Row(row), w.Close(), f.Close())
		}
		if err != nil {
			rt.Fatal(err)
		}
		for i, k := range kinds {
			db := openDB(t, path)
			var class string
			var got []byte
			err := db.QueryRow(fmt.Sprintf("SELECT typeof(%[1]s), CAST(%[1]s AS BLOB) FROM x", quoteName(k.String()))).Scan(&class, &got)
			db.Close()
			want := row[i].Text
			switch {
			case err != nil:
				rt.Fatal(err)
			case (class == "null") != (row[i].Kind == KindNull):
				rt.Fatalf("%v in a column of %v is %s", row[i], k, class)
			case class == "null":
			case class == "integer" && row[i].Kind == KindBool:
				want = map[string]string{"true": "1", "false": "0"}[want]
				fallthrough
			case class == "text" || class == "blob":
				if string(got) != want {
					rt.Fatalf("%v in a column of %v is the %s %q", row[i], k, class, got)
				}
			case row[i].Kind != KindInt && row[i].Kind != KindNumber:
				rt.Fatalf("%v in a column of %v is the %s %q", row[i], k, class, got)
			default:
				is, err := strconv.ParseFloat(string(got), 64)
				was, err2 := strconv.ParseFloat(want, 64)
				if err != nil || err2 != nil || is != was || class == "integer" && row[i].Kind == KindInt && string(got) != want {
					rt.Fatalf("%v in a column of %v is the %s %s", row[i], k, class, got)
				}
			}
		}
	})
}
