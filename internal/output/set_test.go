package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// fillSet makes a set of the awkward records, in the order of their uid.
func fillSet(t testing.TB, outputs ...Output) *Set {
	t.Helper()
	s, err := NewSet("r1", t.TempDir(), 0, outputs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, text := range slices.Backward(awkwardRecords) {
		rec := parse(t, text)
		if err := s.Add(SortKey(rec, Ascending("uid")), rec); err != nil {
			t.Fatal(err)
		}
	}
	if s.Rows() != int64(len(awkwardRecords)) {
		t.Errorf("%d rows", s.Rows())
	}
	return s
}

// everyOutput is an output of every format that this build can write, with options that
// write the same column in different ways.
func everyOutput(dir string) []Output {
	berlin := time.FixedZone("Europe/Berlin", 3600)
	var list []Output
	for name, spec := range formats() {
		list = append(list, Output{Path: filepath.Join(dir, "a."+name), Format: name, Spec: spec})
	}
	for i, o := range []struct {
		style Style
		csv   CSVOptions
	}{
		{Style{Dates: DatesExcel, Location: berlin, Formulas: "guard"}, CSVOptions{BOM: true, Delimiter: ';'}},
		{Style{Dates: DatesMS, Newlines: "escape"}, CSVOptions{EOL: "lf"}},
		{Style{Dates: DatesRFC3339, Formulas: "keep", Newlines: "space", Location: time.UTC}, CSVOptions{}},
	} {
		list = append(list, Output{
			Path: filepath.Join(dir, fmt.Sprintf("b%d.csv", i)), Format: FileCSV,
			Spec: Spec{Columns: awkwardColumns, Style: o.style, CSV: o.csv},
		})
	}
	return list
}

// Each file of a set is what it would be if it were made by itself.
func TestSetEqualsSingleFiles(t *testing.T) {
	dir := t.TempDir()
	outputs := everyOutput(dir)
	var stream bytes.Buffer
	outputs = append(outputs, Output{To: &stream, Format: FileJSON, Spec: formats()[FileJSON]})
	s := fillSet(t, outputs...)
	if err := s.Write(0); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); slices.ContainsFunc(left, func(n string) bool { return !strings.HasPrefix(n, ".") }) {
		t.Errorf("before Publish there are %q", left)
	}
	made, err := s.Publish(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outputs {
		want, warnings := writeFormat(t, o.Format, Spec{Source: o.Spec.Source, Columns: o.Spec.Columns, Style: o.Spec.Style, CSV: o.Spec.CSV, Key: o.Spec.Key}, awkwardRecords...)
		got := stream.Bytes()
		if o.To == nil {
			got = []byte(read(t, o.Path))
			if made[i].Path != o.Path || made[i].Size != int64(len(want)) || len(made[i].SHA256) != 64 {
				t.Errorf("%s: %+v", o.Path, made[i])
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s %s differs from the file made alone: %d and %d bytes", o.Format, o.Path, len(got), len(want))
		}
		if made[i].Rows != int64(len(awkwardRecords)) || !slices.Equal(made[i].Warnings, warnings) {
			t.Errorf("%s: %+v, want the warnings %q", o.Path, made[i], warnings)
		}
	}
}

// Cells that two outputs write alike are kept once: of the columns only those of dates
// differ between a CSV and a workbook, and none between two CSVs.
func TestSetSharesCells(t *testing.T) {
	spec := func(s Style) Spec { return Spec{Columns: awkwardColumns, Style: s} }
	for _, tt := range []struct {
		name    string
		outputs []Output
		slots   int
	}{
		{"one", []Output{{Path: "a", Format: FileCSV, Spec: spec(Style{})}}, 9},
		{"the same again", []Output{{Path: "a", Format: FileCSV, Spec: spec(Style{})}, {Path: "b", Format: FileJSON, Spec: spec(Style{Location: time.UTC, Dates: DatesRFC3339})}}, 9},
		{"a workbook beside", []Output{{Path: "a", Format: FileCSV, Spec: spec(Style{})}, {Path: "b", Format: FileXLSX, Spec: spec(Style{})}}, 10},
		{"guarded", []Output{{Path: "a", Format: FileCSV, Spec: spec(Style{})}, {Path: "b", Format: FileCSV, Spec: spec(Style{Formulas: "guard"})}}, 18},
	} {
		s, err := NewSet("r1", t.TempDir(), 0, tt.outputs)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.slots) != tt.slots {
			t.Errorf("%s: %d cells a row, want %d", tt.name, len(s.slots), tt.slots)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever the styles, a shared cell is the one that each output would have made.
func TestSetCellsByAnyStyle(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	anyStyle := rapid.Custom(func(t *rapid.T) Style {
		return Style{
			Dates:    rapid.SampledFrom([]string{"", DatesRFC3339, DatesExcel, DatesMS}).Draw(t, "dates"),
			Location: rapid.SampledFrom([]*time.Location{nil, time.UTC, berlin}).Draw(t, "zone"),
			Formulas: rapid.SampledFrom([]string{"", "keep", "guard"}).Draw(t, "formulas"),
			Newlines: rapid.SampledFrom([]string{"", "keep", "space", "escape"}).Draw(t, "newlines"),
		}
	})
	formats := append(Formats(), "")
	rapid.Check(t, func(t *rapid.T) {
		s := anyStyle.Draw(t, "style")
		c := Column{
			Header: "x", Path: "x", Kind: Kind(rapid.IntRange(0, int(KindList)).Draw(t, "kind")),
			Format: rapid.SampledFrom(formats).Draw(t, "format"),
		}
		for _, text := range []string{`1741219200000`, `"=1+\n1"`, `["a\r\nb",1741219200000,"2025-07-01T12:30:00Z"]`, `{"a":"\n"}`, `"2027-03-31"`, `null`} {
			rec := Record{"x": mustDecode(text)}
			if got, want := c.value().Cell(rec, c.relevant(s)), c.Cell(rec, s); got != want {
				t.Errorf("%s: %+v, want %+v", text, got, want)
			}
		}
	})
}

func mustDecode(text string) any {
	v, err := decode([]byte(text))
	if err != nil {
		panic(err)
	}
	return v
}

func TestSetLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	s := fillSet(t, Output{Path: path, Format: FileCSV, Spec: Spec{Columns: awkwardColumns[:1]}})
	if err := s.Write(2); err != nil {
		t.Fatal(err)
	}
	made, err := s.Publish(time.Now())
	if err != nil || made[0].Rows != 2 || read(t, path) != "uid\r\n1\r\n2\r\n" {
		t.Errorf("%+v, %v, %q", made, err, read(t, path))
	}
}

func TestNewSetRefuses(t *testing.T) {
	for _, o := range []Output{
		{Path: "a.csv", Format: "csw", Spec: Spec{Columns: awkwardColumns}},
		{Path: "a.csv", Format: FileCSV},
		{Path: "a.csv", Format: FileCSV, Spec: Spec{Columns: awkwardColumns, CSV: CSVOptions{Delimiter: '"'}}},
		{Path: "a.csv", Format: FileCSV, Spec: Spec{Columns: awkwardColumns, Style: Style{Dates: "iso"}}},
		{Path: "a.db", Format: FileSQLite, Spec: Spec{Columns: awkwardColumns}},
		{Path: "a.db", Format: FileSQLite, Spec: Spec{Columns: awkwardColumns, Key: []string{"none"}}},
		{Path: "a.xlsx", Format: FileXLSX, Spec: Spec{Columns: make([]Column, excelMaxColumns+1)}},
	} {
		if _, err := NewSet("r1", t.TempDir(), 0, []Output{o}); err == nil || !strings.Contains(err.Error(), o.Path) {
			t.Errorf("%s %s: %v", o.Format, o.Path, err)
		}
	}
}

// twoHeld is a written set of two files with old ones in their places, whose second
// target somebody holds for a time.
func twoHeld(t *testing.T, hold time.Duration) (s *Set, dir string) {
	t.Helper()
	dir = t.TempDir()
	first, second := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	put(t, first, "old")
	put(t, second, "old")
	spec := Spec{Columns: awkwardColumns[:1]}
	s = fillSet(t, Output{Path: first, Format: FileCSV, Spec: spec}, Output{Path: second, Format: FileCSV, Spec: spec})
	if err := s.Write(0); err != nil {
		t.Fatal(err)
	}
	free := time.Now().Add(hold)
	d := &s.files[1].disk
	d.transient = func(err error) bool { return errors.Is(err, errBusy) }
	d.free = func(string) error {
		if time.Now().Before(free) {
			return errBusy
		}
		return nil
	}
	d.rename = func(from, to string) error {
		if err := d.free(to); err != nil && to == second {
			return err
		}
		return os.Rename(from, to)
	}
	return s, dir
}

// Cases R17 and R18 for several files: while one of the targets is held none is
// replaced, so that the files of two nights are never mixed.
func TestCase_R18_OneOfTheSetIsHeld(t *testing.T) {
	at := time.Date(2025, 3, 6, 2, 0, 0, 0, time.Local)
	synctest.Test(t, func(t *testing.T) {
		s, dir := twoHeld(t, 2*time.Second)
		if made, err := s.Publish(at); err != nil || made[1].Path != filepath.Join(dir, "b.csv") {
			t.Errorf("held for 2 s: %+v %v", made, err)
		}
		if read(t, filepath.Join(dir, "a.csv")) == "old" || read(t, filepath.Join(dir, "b.csv")) == "old" {
			t.Error("the old files are still there")
		}
		s, dir = twoHeld(t, time.Hour)
		made, err := s.Publish(at)
		if err == nil || !errors.Is(err, errBusy) {
			t.Fatalf("held for an hour: %v", err)
		}
		for i, name := range []string{"a", "b"} {
			side := filepath.Join(dir, name+".20250306-020000.csv")
			if read(t, filepath.Join(dir, name+".csv")) != "old" || !strings.HasPrefix(read(t, side), "uid") || made[i].Path != side {
				t.Errorf("%s: %+v, the folder holds %q", name, made[i], names(t, dir))
			}
			if !strings.Contains(err.Error(), side) {
				t.Errorf("the message does not name %s: %v", side, err)
			}
		}
		if n := len(names(t, dir)); n != 4 {
			t.Errorf("the folder holds %q", names(t, dir))
		}
	})
}

// Case R03 for several files: when one cannot be written or flushed, none appears.
func TestCase_R03_OneOfTheSetFails(t *testing.T) {
	full := errors.New("no space left on device")
	for name, spoil := range map[string]func(*File){
		"sync":  func(f *File) { f.disk.sync = func(*os.File) error { return full } },
		"close": func(f *File) { f.disk.close = func(g *os.File) error { return errors.Join(g.Close(), full) } },
	} {
		dir := t.TempDir()
		first, second := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.xlsx")
		put(t, first, "old")
		spec := Spec{Columns: awkwardColumns[:1]}
		s := fillSet(t, Output{Path: first, Format: FileCSV, Spec: spec}, Output{Path: second, Format: FileXLSX, Spec: spec})
		if err := s.Write(0); err != nil {
			t.Fatal(err)
		}
		spoil(s.files[1])
		if _, err := s.Publish(time.Now()); !errors.Is(err, full) || !strings.Contains(err.Error(), second) {
			t.Errorf("%s: %v", name, err)
		}
		if got := names(t, dir); len(got) != 1 || read(t, first) != "old" {
			t.Errorf("%s: the folder holds %q", name, got)
		}
	}
	// A folder that goes away.
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	put(t, gone, "a file in the way of a folder")
	spec := Spec{Columns: awkwardColumns[:1]}
	s := fillSet(t, Output{Path: filepath.Join(dir, "a.csv"), Format: FileCSV, Spec: spec}, Output{Path: filepath.Join(gone, "b.csv"), Format: FileCSV, Spec: spec})
	if err := s.Write(0); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("Write = %v", err)
	}
	if err := s.Close(); err != nil || len(names(t, dir)) != 1 {
		t.Errorf("Close = %v, the folder holds %q", err, names(t, dir))
	}
}

// A target that gets in the way after the look ends in a file beside it; the others are
// in place.
func TestSetTargetTakenAtTheLastMoment(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	spec := Spec{Columns: awkwardColumns[:1]}
	s := fillSet(t, Output{Path: first, Format: FileCSV, Spec: spec}, Output{Path: second, Format: FileCSV, Spec: spec, InPlace: true})
	if err := s.Write(0); err != nil {
		t.Fatal(err)
	}
	s.files[0].disk.rename = func(from, to string) error {
		if to == first {
			return fs.ErrPermission
		}
		return os.Rename(from, to)
	}
	made, err := s.Publish(time.Date(2025, 3, 6, 2, 0, 0, 0, time.Local))
	if !errors.Is(err, fs.ErrPermission) || made[0].Path != filepath.Join(dir, "a.20250306-020000.csv") || made[1].Path != second {
		t.Errorf("%+v, %v", made, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a.20250306-020000.csv", "b.csv"}) {
		t.Errorf("the folder holds %q", got)
	}
}

// symlink tells whether name now leads to target: some systems have no symbolic links, some only for administrators.
func symlink(target, name string) bool {
	if err := os.Symlink(target, name); err != nil {
		return false
	}
	_, err := os.Stat(name)
	return err == nil
}

func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(sub, "old.csv"), "")
	link := filepath.Join(dir, "link")
	if !symlink(sub, link) || !symlink(filepath.Join("sub", "old.csv"), filepath.Join(dir, "file.csv")) {
		t.Skip("no symbolic links here")
	}
	folds := foldsNames(filepath.Join(dir, "x"))
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a.csv", "a.csv", true},
		{"a.csv", "sub/../a.csv", true},
		{"a.csv", "b.csv", false},
		{"sub/a.csv", "link/a.csv", true},
		{"sub/new/a.csv", "link/new/a.csv", true},
		{"sub/old.csv", "link/old.csv", true},
		{"file.csv", "sub/old.csv", true},
		{"a.csv", "A.CSV", folds},
		{"new/Äa.csv", "new/äA.csv", folds},
	} {
		if got := SameFile(filepath.Join(dir, tt.a), filepath.Join(dir, tt.b)); got != tt.want {
			t.Errorf("SameFile(%s, %s) = %v", tt.a, tt.b, got)
		}
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("left behind: %q", left)
	}
}

func TestReservedNames(t *testing.T) {
	for name, bad := range map[string]bool{
		"nul.csv": true, "out/CON": true, `out\aux.xlsx`: true, "com1.csv": true, "LPT9.tar.csv": true,
		"console.csv": false, "nul/a.csv": false, "com10.csv": false, "{job}.csv": false, "a.nul": false,
	} {
		if err := ValidPath(name); (err != nil) != bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithin(t *testing.T) {
	dir := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	if err := os.MkdirAll(in("real", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	linked := symlink(in("real"), in("link"))
	tests := []struct {
		folder, path string
		want         bool
	}{
		{in("real"), in("real", "x.csv"), true},
		{in("real"), in("real", "sub", "more", "x.csv"), true},
		{in("real"), in("real.csv"), false},
		{in("real"), in("real", "..", "x.csv"), false},
		{in("real"), in("other", "..", "real", "x.csv"), true},
		{in("not", "yet"), in("not", "yet", "x.csv"), true},
		{in("not", "yet"), in("not", "yetx.csv"), false},
		{in("real"), in("link", "sub", "x.csv"), linked},
		{in("link"), in("real", "x.csv"), linked},
		{in("link", "not", "yet"), in("real", "not", "yet", "x.csv"), linked},
	}
	for _, tt := range tests {
		if got := Within(tt.folder, tt.path); got != tt.want {
			t.Errorf("Within(%s, %s) = %v", tt.folder, tt.path, got)
		}
	}
}
