package output

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Manifest tells what reads the files of a run whether they are whole and
// which run they are from. It is a small JSON file, beside the output it
// describes (see ManifestPath) or wherever it is wanted. It is written after the
// files, so a file and a manifest whose sums differ mean that a program looked
// in between, or that somebody changed the file.
type Manifest struct {
	Job     string `json:"job"`     // name of the job
	Account string `json:"account"` // name of the account in the configuration
	Run     string `json:"run"`     // id of the run
	Version string `json:"version"` // of the program
	// Started and Finished are when the run began and when its files were
	// complete; whole seconds, UTC.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Complete is whether the files hold everything that was asked for.
	Complete bool `json:"complete"`
	// Gaps says what is missing, one line each: pages or details that could not
	// be read, a limit of rows. Empty for complete files.
	Gaps []string `json:"gaps"`
	// Missing is what the service does not have although it was asked for, such as
	// the audit of a device that was never audited. Complete files may lack it.
	Missing Missing `json:"missing"`
	// Notes are what a person should know of the rows.
	Notes []string       `json:"notes"`
	Files []ManifestFile `json:"files"`
}

// Missing counts what the service does not have, and names the first of it.
type Missing struct {
	Count int           `json:"count"`
	First []MissingPart `json:"first"` // at most 100
}

// MissingPart is something that the service does not have.
type MissingPart struct {
	Of     string `json:"of"`     // uid of the device, site or other object
	What   string `json:"what"`   // the detail or the list
	Reason string `json:"reason"` // such as 404 Not Found
}

// ManifestFile is one file of the run.
type ManifestFile struct {
	Path   string `json:"path"`   // relative to the manifest's folder if it is in or below it, else absolute
	Format string `json:"format"` // one of the names of FileFormats
	Rows   int64  `json:"rows"`   // without the header; of a merged SQLite table those of this run
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hexadecimal digits
	// Warnings are what a reader has to know, such as limits of Excel.
	Warnings []string         `json:"warnings"`
	Columns  []ManifestColumn `json:"columns"`
}

// ManifestColumn is one column of a file.
type ManifestColumn struct {
	Name string `json:"name"` // the header
	Path string `json:"path"` // where the value is in the element
	Kind string `json:"kind"` // text, int, bool, date, number, object, list, or any
}

// ManifestColumns describes columns as a file in the style has them.
func ManifestColumns(columns []Column, s Style) []ManifestColumn {
	headers := Headers(columns, s)
	list := make([]ManifestColumn, len(columns))
	for i, c := range columns {
		kind := c.cells(s)
		list[i] = ManifestColumn{headers[i], c.Path, kind.String()}
		if kind == KindNull {
			list[i].Kind = "any"
		}
	}
	return list
}

// ManifestPath is where the manifest of a file is: devices.csv.manifest.json
// beside devices.csv.
func ManifestPath(path string) string { return path + manifestEnding }

const manifestEnding = ".manifest.json"

// partialMark stands in the names of incomplete files.
const partialMark = ".partial"

// PartialPath is the name that an incomplete file is published under:
// devices.partial.csv for devices.csv, so that nothing which waits for the
// complete file can take it for one. Standard output (-) and a name that has
// the mark already stay as they are.
func PartialPath(path string) string {
	dir, name := filepath.Split(path)
	if path == "-" || name == "" {
		return path
	}
	ending := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ending)
	if stem == "" { // .csv is a name without an ending
		stem, ending = name, ""
	}
	if strings.HasSuffix(stem, partialMark) || ending == partialMark {
		return path
	}
	return dir + stem + partialMark + ending
}

// LeftIncomplete tells whether the manifest at place says that a run of the job has
// left the file at path incomplete.
func LeftIncomplete(place, job, path string) bool {
	text, err := os.ReadFile(place)
	var m Manifest
	if err != nil || json.Unmarshal(text, &m) != nil || m.Complete || m.Job != job {
		return false
	}
	return slices.ContainsFunc(m.Files, func(f ManifestFile) bool {
		named := filepath.FromSlash(f.Path)
		if !filepath.IsAbs(named) {
			named = filepath.Join(filepath.Dir(place), named)
		}
		return SameFile(named, path)
	})
}

// Publish writes the manifest at place in one step, like any output. Paths of
// files in or below its folder are written relative to it, so that a folder can
// be moved as a whole. The manifest is refused, and the old one kept, if it
// contradicts itself: complete with gaps, incomplete without a reason, or
// without a file.
func (m Manifest) Publish(place string) (Published, error) {
	text, err := m.encode(filepath.Dir(place))
	if err != nil {
		return Published{}, fmt.Errorf("write %s: %w", place, err)
	}
	f, err := Create(place, m.Run)
	if err != nil {
		return Published{}, err
	}
	if _, err := f.Write(text); err != nil {
		return Published{}, errors.Join(err, f.Abort())
	}
	return f.Publish()
}

func (m Manifest) encode(dir string) ([]byte, error) {
	m.Started, m.Finished = m.Started.UTC().Truncate(time.Second), m.Finished.UTC().Truncate(time.Second)
	base, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files := make([]ManifestFile, len(m.Files))
	for i, f := range m.Files {
		abs, err := filepath.Abs(f.Path)
		if err != nil {
			return nil, err
		}
		f.Path = abs
		if rel, err := filepath.Rel(base, abs); err == nil && filepath.IsLocal(rel) {
			f.Path = filepath.ToSlash(rel)
		}
		// Lists are never null, whatever the caller left empty.
		f.Warnings = append([]string{}, f.Warnings...)
		f.Columns = append([]ManifestColumn{}, f.Columns...)
		files[i] = f
	}
	m.Files = files
	m.Gaps = append([]string{}, m.Gaps...)
	m.Notes = append([]string{}, m.Notes...)
	m.Missing.First = append([]MissingPart{}, m.Missing.First...)
	if err := m.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// check refuses a manifest that contradicts itself.
func (m Manifest) check() error {
	switch {
	case m.Complete && len(m.Gaps) > 0:
		return errors.New("the manifest says complete and has gaps")
	case !m.Complete && len(m.Gaps) == 0:
		return errors.New("the manifest says incomplete and does not say what is missing")
	case len(m.Files) == 0:
		return errors.New("the manifest has no file")
	}
	for _, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		if f.Path == "" || err != nil || len(sum) != 32 || f.Size < 0 || f.Rows < 0 {
			return fmt.Errorf("the manifest's entry of %q lacks the path, the size, the rows or the sum", f.Path)
		}
	}
	return nil
}
