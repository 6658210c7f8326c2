package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// maxJobFile is the largest job file that is read, in bytes. Real ones have a few hundred; what is larger is another
// kind of file given by mistake.
const maxJobFile = 1 << 20

// Job is a job file that has been read and checked. Exactly one of Export and Update is set. Durations of 0 and empty
// texts mean that the file says nothing, so that the configuration or the program's default decides.
type Job struct {
	Path     string // absolute path of the file; with Account it is the identity of the job
	Name     string // from the file; the file's name without its ending if it gives none
	Account  string // profile in the configuration; empty for the only one
	Hash     string // SHA-256 of the file's bytes in hex
	Source   []byte // the file's bytes
	Export   *ExportSpec
	Update   *UpdateSpec
	Guard    Guard
	Throttle Throttle
	Workers  int           // 1 to 64; 0 for the default
	Timeout  time.Duration // of one request
	Grace    time.Duration // what a stop waits for requests in flight
	Confirm  bool          // the job itself agrees to operations that need --yes
	Results  string        // absolute folder for copies of the result files; empty for none

	ResultsPos Pos // where the file names Results

	Warnings []*Error // what is allowed and seldom meant, in the order of the file
}

// ExportSpec reads a list or single answers of the account and writes them to files.
type ExportSpec struct {
	From       rmm.Operation // a read
	FromPos    Pos
	Filter     url.Values // query of the first request: each key is known to From, each value fits its type
	SecondWalk string     // auto, always or never
	Element    string     // what a row is about: the name under which its columns are known
	Scope                 // of what the list belongs to
	With       []string   // details, one more request each for every item
	Where      *Where     // nil for all rows
	Explode    Explode
	Columns    []output.Column
	Sort       []output.Order // before the usual order of the list
	Rows       RowLimit
	To         []Target // at least one
	Manifest   Manifest
	Since      *Since   // nil: the whole list
	Reuse      bool     // answers that an audit alone can change are taken over from the last published run
	Changes    *Changes // nil: no change file
}

// UpdateSpec changes objects of the account, one for each row of a file.
type UpdateSpec struct {
	Operation  rmm.Operation // a write
	Rows       Rows
	Match      []Match   // how a row finds its object; all of them must agree
	Set        []Setting // the fields to write, in the order of the file
	Empty      string    // keep or clear: what an empty cell does to its field
	OnNotFound string    // fail or skip
	Lookup     string    // audits: the serial numbers of devices may be read, a request for each; empty otherwise
	OnRowFault string    // hold (back the row) or stop (everything)
	Call       *Call     // the request itself, of the operation call; nil for all others
	Verify     bool      // read back after the writes whether they are there
	Pos        Pos
}

// Rows is the input of an update and how to read it. One of CSV, XLSX, JSONL and From is set.
type Rows struct {
	CSV        string              // absolute path
	XLSX       string              // absolute path of a workbook
	Sheet      string              // of the workbook; empty for its only one
	JSONL      string              // absolute path of a file with one JSON object a line
	From       *Selection          // of the account
	Encoding   string              // name of an encoding as in [Encodings]; empty: Unicode, found by looking
	Delimiter  rune                // 0: found by looking
	SkipLines  int                 // physical lines above the header
	AllowEmpty bool                // no rows is a success with nothing to do
	DateFormat string              // order and form of dates in cells, for example dd.mm.yyyy; empty: yyyy-mm-dd
	Aliases    map[string][]string // other headings that a column may have, by its name in the job; nil if none
	Pos        Pos

	once bool           // there is no input: the job has one row without columns
	keys map[string]Pos // places of the values in the job file, by their keys; nil where there is no job file
	uses map[string]Pos // where the job names each column first; likewise
}

// File is the path of the input file, empty for a selection of the account.
func (r Rows) File() string { return cmp.Or(r.CSV, r.XLSX, r.JSONL) }

// Match is one condition for the object of a row: its Field has the value of the template.
type Match struct {
	Field string // for devices uid, id, hostname, siteName or siteUid
	Value Template
	Pos   Pos
}

// Setting is one field of an update and the template of its new value.
type Setting struct {
	Field string
	Value Template
	Pos   Pos
}

// Guard holds the limits that stop a run before it does harm.
type Guard struct {
	MaxChanges  Limit // objects to be changed
	MaxClears   Limit // fields to be cleared
	MaxErrors   Limit // items that failed
	MaxNotFound Limit // rows without an object
	MaxRejected Limit // rows held back for any fault of their own
	MaxPercent  Limit // share of the fleet to be changed: of the targets that the account has

	Protected []Selector // what must not be touched; rows that would are held back
}

// Limit is a number or a share of a total. The zero Limit is unset: the default of the place where it is used applies.
type Limit struct {
	Set     bool
	Percent bool
	Value   float64 // at least 0; a whole number unless Percent, at most 100 if Percent
}

// Allows tells whether n out of total stay within the limit. An unset limit allows everything.
func (l Limit) Allows(n, total int) bool {
	switch {
	case !l.Set:
		return true
	case l.Percent:
		return float64(n)*100 <= l.Value*float64(total)
	}
	return float64(n) <= l.Value
}

// String returns the limit as it would be written in a job file, or "" if unset.
func (l Limit) String() string {
	if !l.Set {
		return ""
	}
	s := strconv.FormatFloat(l.Value, 'f', -1, 64)
	if l.Percent {
		s += "%"
	}
	return s
}

// Throttle holds the settings of the pace. Which profiles exist and which numbers make sense is for the throttle to say.
type Throttle struct {
	Profile       string
	Base          string             // the profile that custom numbers change
	Custom        map[string]float64 // numbers of the profile custom by their names in the file; nil if none
	MaxPause      time.Duration
	RateLimitWait time.Duration
	BlockWait     time.Duration
	PauseWait     time.Duration
	Legacy        string  // auto, on or off; empty if not given
	Reserve       Reserve // left to others; nil if not given
	Max           Rate    // own requests of all kinds together; zero if not given
	Pos           Pos
}

// Load reads and checks a job file. A fault of the contents is reported as [Errors], all faults of the file together.
// A file that cannot be read is reported the same way, with the cause inside.
func Load(path string) (*Job, error) {
	f, err := openFile(path, "job file")
	if err != nil {
		return nil, err
	}
	defer closeRead(f)
	data, err := io.ReadAll(io.LimitReader(f, maxJobFile+1))
	if err != nil {
		return nil, unreadable(path, "job file", err)
	}
	return Parse(data, path)
}

// closeRead closes a file that was only read, so that nothing can be lost by it.
func closeRead(f *os.File) { _ = f.Close() }

// article puts the article before a name.
func article(what string) string {
	if strings.ContainsRune("aeiou", rune(what[0])) {
		return "an " + what
	}
	return "a " + what
}

// openFile opens an input that must be a file. Opening a pipe would wait for its
// other end, for ever and deaf to any signal, so the kind is looked at first.
func openFile(path, what string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, unreadable(path, what, err)
	case info.IsDir():
		return nil, Errors{{Pos: Pos{File: path}, Message: "this is a folder, not " + article(what)}}
	case !info.Mode().IsRegular():
		return nil, Errors{{Pos: Pos{File: path}, Message: "this is a device or a pipe, not " + article(what)}}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, what, err)
	}
	return f, nil
}

// unreadable reports a file that could not be opened or read. The system's own text is kept for causes that need it.
func unreadable(path, what string, err error) Errors {
	e := &Error{Pos: Pos{File: path}, Message: "this " + what + " cannot be read: " + err.Error(), Err: err}
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) {
		e.Message = "this " + what + " cannot be read: " + perr.Err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Message = "there is no such " + what
		if abs, err := filepath.Abs(path); err == nil && abs != path {
			e.Hint = "looked for " + abs
		}
	}
	return Errors{e}
}

// Parse checks the contents of a job file. The path names the file in messages, and its folder is where relative paths
// of the job begin; nothing is read from it.
func Parse(data []byte, path string) (*Job, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the folder of job file %s: %w", path, err)
	}
	d := &decoder{file: path, dir: filepath.Dir(abs)}
	root := d.parse(data)
	if root == nil {
		return nil, d.faults.err()
	}
	job := d.job(root)
	if err := d.faults.err(); err != nil {
		return nil, err
	}
	if d.warnings.err() != nil { // sorted
		job.Warnings = d.warnings
	}
	sum := sha256.Sum256(data)
	job.Path, job.Hash, job.Source = abs, hex.EncodeToString(sum[:]), data
	if job.Name == "" {
		base := filepath.Base(abs)
		job.Name = cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
	}
	return job, nil
}
