package output

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func goodManifest(dir string) Manifest {
	berlin := time.FixedZone("", 3600)
	return Manifest{
		Job: "nightly <devices>", Account: "msp-eu", Run: "20250306-020000-k7", Version: "1.2.3",
		Started:  time.Date(2025, 3, 6, 2, 0, 0, 999, berlin),
		Finished: time.Date(2025, 3, 6, 2, 1, 2, 5e8, berlin),
		Complete: true, Missing: Missing{1, []MissingPart{{"u1", "audit", "404 Not Found"}}},
		Files: []ManifestFile{
			{Path: filepath.Join(dir, "devices.csv"), Format: FileCSV, Rows: 2, Size: 40, SHA256: strings.Repeat("ab", 32), Columns: []ManifestColumn{{"seen", "lastSeen", "date"}}},
			{Path: filepath.Join(dir, "sub", "a.xlsx"), Format: FileXLSX, Rows: 2, Size: 1, SHA256: strings.Repeat("00", 32), Warnings: []string{"long"}},
		},
	}
}

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	place := ManifestPath(filepath.Join(dir, "devices.csv"))
	m := goodManifest(dir)
	published, err := m.Publish(place)
	if err != nil {
		t.Fatal(err)
	}
	if published.Path != place || place != filepath.Join(dir, "devices.csv.manifest.json") || len(names(t, dir)) != 1 {
		t.Errorf("published %+v, the folder holds %q", published, names(t, dir))
	}
	want := `{
  "job": "nightly <devices>",
  "account": "msp-eu",
  "run": "20250306-020000-k7",
  "version": "1.2.3",
  "started": "2025-03-06T01:00:00Z",
  "finished": "2025-03-06T01:01:02Z",
  "complete": true,
  "gaps": [],
  "missing": {
    "count": 1,
    "first": [
      {
        "of": "u1",
        "what": "audit",
        "reason": "404 Not Found"
      }
    ]
  },
  "notes": [],
  "files": [
    {
      "path": "devices.csv",
      "format": "csv",
      "rows": 2,
      "size": 40,
      "sha256": "` + strings.Repeat("ab", 32) + `",
      "warnings": [],
      "columns": [
        {
          "name": "seen",
          "path": "lastSeen",
          "kind": "date"
        }
      ]
    },
    {
      "path": "sub/a.xlsx",
      "format": "xlsx",
      "rows": 2,
      "size": 1,
      "sha256": "` + strings.Repeat("00", 32) + `",
      "warnings": [
        "long"
      ],
      "columns": []
    }
  ]
}
`
	if got := read(t, place); got != want {
		t.Errorf("%s", got)
	}
	// Files elsewhere keep their whole path, those below are found from the manifest.
	elsewhere := filepath.Join(t.TempDir(), "b.csv")
	m.Files[1].Path = elsewhere
	place = filepath.Join(t.TempDir(), "run.json")
	if _, err := m.Publish(place); err != nil {
		t.Fatal(err)
	}
	var back Manifest
	if err := json.Unmarshal([]byte(read(t, place)), &back); err != nil {
		t.Fatal(err)
	}
	if back.Files[0].Path != filepath.Join(dir, "devices.csv") || back.Files[1].Path != elsewhere {
		t.Errorf("in another folder: %+v", back.Files)
	}
}

func TestManifestRefuses(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, "run.json")
	put(t, place, "last night's")
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
		if _, err := m.Publish(place); err == nil {
			t.Errorf("%s: published", name)
		}
	}
	if read(t, place) != "last night's" || len(names(t, dir)) != 1 {
		t.Errorf("the folder holds %q", names(t, dir))
	}
	incomplete := goodManifest(dir)
	incomplete.Complete, incomplete.Gaps = false, []string{"page 3 of 7"}
	if _, err := incomplete.Publish(place); err != nil {
		t.Errorf("an honest incomplete one: %v", err)
	}
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
