package output

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func goodManifest(dir string) Manifest {
	berlin := time.FixedZone("", 3600)
	return Manifest{
		Job: "nightly <devices>", Run: "20250306-020000-k7", Version: "1.2.3",
		Started:  time.Date(2025, 3, 6, 2, 0, 0, 999, berlin),
		Finished: time.Date(2025, 3, 6, 2, 1, 2, 5e8, berlin),
		Complete: true,
		Files: []ManifestFile{
			{Path: filepath.Join(dir, "devices.csv"), Format: FileCSV, Rows: 2, Size: 40, SHA256: strings.Repeat("ab", 32)},
			{Path: filepath.Join(dir, "sub", "a.xlsx"), Format: FileXLSX, Rows: 2, Size: 1, SHA256: strings.Repeat("00", 32), Warnings: []string{"long"}},
		},
		Columns: []ManifestColumn{{"seen", "lastSeen", "date"}},
	}
}

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	m := goodManifest(dir)
	published, err := m.Publish(path)
	if err != nil {
		t.Fatal(err)
	}
	if published.Path != path+".manifest.json" || published.Path != ManifestPath(path) || len(names(t, dir)) != 1 {
		t.Errorf("published %+v, the folder holds %q", published, names(t, dir))
	}
	want := `{
  "job": "nightly <devices>",
  "run": "20250306-020000-k7",
  "version": "1.2.3",
  "started": "2025-03-06T01:00:00Z",
  "finished": "2025-03-06T01:01:02Z",
  "complete": true,
  "gaps": [],
  "files": [
    {
      "path": "devices.csv",
      "format": "csv",
      "rows": 2,
      "size": 40,
      "sha256": "` + strings.Repeat("ab", 32) + `"
    },
    {
      "path": "sub/a.xlsx",
      "format": "xlsx",
      "rows": 2,
      "size": 1,
      "sha256": "` + strings.Repeat("00", 32) + `",
      "warnings": [
        "long"
      ]
    }
  ],
  "columns": [
    {
      "name": "seen",
      "path": "lastSeen",
      "kind": "date"
    }
  ]
}
`
	if got := read(t, published.Path); got != want {
		t.Errorf("%s", got)
	}
	back, err := ReadManifest(path)
	m.Started, m.Finished, m.Gaps = m.Started.UTC().Truncate(time.Second), m.Finished.UTC().Truncate(time.Second), []string{}
	if err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("ReadManifest = %+v, %v, want %+v", back, err, m)
	}

	// Files elsewhere keep their whole path; the folder of the others can move.
	elsewhere := filepath.Join(t.TempDir(), "b.csv")
	m.Files[1].Path = elsewhere
	if _, err := m.Publish(path); err != nil {
		t.Fatal(err)
	}
	moved := t.TempDir()
	put(t, filepath.Join(moved, "devices.csv.manifest.json"), read(t, published.Path))
	back, err = ReadManifest(filepath.Join(moved, "devices.csv"))
	if err != nil || back.Files[0].Path != filepath.Join(moved, "devices.csv") || back.Files[1].Path != elsewhere {
		t.Errorf("after moving: %+v, %v", back.Files, err)
	}
}

func TestManifestRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.csv")
	put(t, ManifestPath(path), "last night's")
	for name, spoil := range map[string]func(*Manifest){
		"complete with gaps":        func(m *Manifest) { m.Gaps = []string{"page 3"} },
		"incomplete for no reason":  func(m *Manifest) { m.Complete = false },
		"no file":                   func(m *Manifest) { m.Files = nil },
		"no sum":                    func(m *Manifest) { m.Files[0].SHA256 = "" },
		"half a sum":                func(m *Manifest) { m.Files[1].SHA256 = "abab" },
		"no sum but other signs":    func(m *Manifest) { m.Files[1].SHA256 = strings.Repeat("xy", 32) },
		"fewer rows than none":      func(m *Manifest) { m.Files[1].Rows = -1 },
		"a run that is no run's id": func(m *Manifest) { m.Run = "../x" },
	} {
		m := goodManifest(dir)
		spoil(&m)
		if _, err := m.Publish(path); err == nil {
			t.Errorf("%s: published", name)
		}
	}
	if read(t, ManifestPath(path)) != "last night's" || len(names(t, dir)) != 1 {
		t.Errorf("the folder holds %q", names(t, dir))
	}
	for _, content := range []string{"last night's", "", "null", "{}", "[]", `{"complete":true,"files":[{"path":""}]}`, strings.Repeat(" ", maxManifest+1)} {
		put(t, ManifestPath(path), content)
		if _, err := ReadManifest(path); err == nil {
			t.Errorf("read %.30q", content)
		}
	}
	if _, err := ReadManifest(filepath.Join(dir, "no")); err == nil {
		t.Error("read a manifest that is not there")
	}
	incomplete := goodManifest(dir)
	incomplete.Complete, incomplete.Gaps = false, []string{"page 3 of 7"}
	if _, err := incomplete.Publish(path); err != nil {
		t.Errorf("an honest incomplete one: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	good, err := goodManifest("/x").encode("/x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"complete":false,"gaps":["a"],"files":[{"path":"../a","sha256":"` + strings.Repeat("00", 32) + `"}],"later":{}}`))
	f.Add([]byte(`{"started":"2025-03-06T01:00:00+25:00"}`))
	dir := f.TempDir() // nothing is written there
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text, dir)
		if err != nil {
			if !reflect.DeepEqual(m, Manifest{}) {
				t.Errorf("an error and a manifest: %+v", m)
			}
			return
		}
		for _, file := range m.Files {
			if !filepath.IsAbs(file.Path) {
				t.Errorf("the path %q", file.Path)
			}
		}
		// What was read can be written, and reads the same again.
		text, err = m.encode(dir)
		if err != nil {
			if y := m.Started.UTC().Year(); y < 0 || y > 9999 {
				return
			}
			if y := m.Finished.UTC().Year(); y < 0 || y > 9999 {
				return
			}
			t.Fatal(err)
		}
		again, err := parseManifest(text, dir)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v in\n%s", err, text)
		}
		twice, err := again.encode(dir)
		if err != nil || !bytes.Equal(text, twice) {
			t.Errorf("%v, first\n%s\nthen\n%s", err, text, twice)
		}
	})
}

func TestManifestColumns(t *testing.T) {
	got := ManifestColumns(awkwardColumns, Style{Dates: DatesExcel})
	for i, want := range []ManifestColumn{
		{"uid", "uid", "text"},
		{"text", "text", "text"},
		{"count", "count", "int"},
		{"online", "online", "bool"},
		{"seen (UTC)", "seen", "date"},
		{"ratio", "ratio", "number"},
		{"list", "list", "list"},
		{"raw", "raw", "any"},
		{"day", "day", "date"},
	} {
		if got[i] != want {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
	if got := ManifestColumns(awkwardColumns[4:5], Style{Dates: DatesMS}); got[0].Kind != "int" {
		t.Errorf("milliseconds are %s", got[0].Kind)
	}
}

func TestPartialPath(t *testing.T) {
	for in, want := range map[string]string{
		"devices.csv": "devices.partial.csv", "out.d/devices": "out.d/devices.partial", "a/b-2025.03.06.xlsx": "a/b-2025.03.06.partial.xlsx", "-": "-",
		".csv": ".csv.partial", "": "", "x/": "x/", "devices.partial.csv": "devices.partial.csv", "devices.partial": "devices.partial",
	} {
		got := PartialPath(in)
		if got != want || PartialPath(got) != got {
			t.Errorf("PartialPath(%q) = %q, then %q, want %q", in, got, PartialPath(got), want)
		}
		before, known := FileFormatOf(in)
		if after, _ := FileFormatOf(got); known && in != ".csv" && after.Name != before.Name {
			t.Errorf("%q is %s, %q is %s", in, before.Name, got, after.Name)
		}
	}
}
