package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// counts are the items of a run by state, and what was asked of the API.
type counts struct {
	Items        int64 `json:"items"`
	Done         int64 `json:"done"`
	Unchanged    int64 `json:"unchanged"`
	Skipped      int64 `json:"skipped"`
	Failed       int64 `json:"failed"`
	InDoubt      int64 `json:"in_doubt"`
	Pending      int64 `json:"pending"`
	Reads        int64 `json:"reads"`         // acknowledged read requests
	Writes       int64 `json:"writes"`        // acknowledged write requests
	Throttled429 int64 `json:"throttled_429"` // answers 429
	Found        int64 `json:"found"`         // writes whose answer was lost, and which were found to have been carried out
	Reused       int64 `json:"reused"`        // items done without a request, with the answer of an earlier run
	Unanswered   int64 `json:"unanswered"`    // of the pending: writes that were sent and never answered
}

// file is an output file of a run.
type file struct {
	Path   string `json:"path"` // absolute
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of the whole file, lower-case hex
	Format string `json:"format,omitempty"`

	Partial  bool     `json:"partial,omitempty"`  // of an incomplete export, under a name that says so
	Manifest string   `json:"manifest,omitempty"` // absolute path of the manifest that tells of it
	Limited  int64    `json:"limited,omitempty"`  // rows that a limit of the job has left out
	Warnings []string `json:"warnings,omitempty"` // what a reader of the file has to know
}

// line is the file for people.
func (f file) line() string {
	if f.Path == "-" {
		return count(f.Rows, "row") + "  to standard output"
	}
	return count(f.Rows, "row") + "  " + clean(f.Path)
}

// result is what a verb ends with. With --json it is printed as one object;
// keys that do not apply are null, never missing.
type result struct {
	Run      string
	Job      string
	State    string
	Code     exitCode
	Counts   any // counts, or the counts of a plan; nil means counts{}
	Files    []file
	Err      string // one message, "" for none
	Hint     string
	Next     string // a command line that works when pasted
	extra    map[string]any
	keyOrder []string
}

// set adds a key of the verb's own. Keys come out in the order they were set.
func (r *result) set(key string, value any) {
	if r.extra == nil {
		r.extra = make(map[string]any)
	}
	if _, ok := r.extra[key]; !ok {
		r.keyOrder = append(r.keyOrder, key)
	}
	r.extra[key] = value
}

// MarshalJSON writes the promised keys first, in the promised order, then the
// verb's own.
func (r *result) MarshalJSON() ([]byte, error) {
	c := r.Counts
	if c == nil {
		c = counts{}
	}
	files := r.Files
	if files == nil {
		files = []file{}
	}
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(key string, value any) error {
		var v bytes.Buffer
		enc := json.NewEncoder(&v)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return fmt.Errorf("encode %s of the result: %w", key, err)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", key, bytes.TrimRight(v.Bytes(), "\n"))
		return nil
	}
	fields := []struct {
		key   string
		value any
	}{
		{"run", orNull(r.Run)},
		{"job", orNull(r.Job)},
		{"state", orNull(r.State)},
		{"exit_code", int(r.Code)},
		{"exit_name", r.Code.name()},
		{"counts", c},
		{"files", files},
		{"error", orNull(r.Err)},
		{"next_command", orNull(r.Next)},
	}
	for _, f := range fields {
		if err := put(f.key, f.value); err != nil {
			return nil, err
		}
	}
	if r.Hint != "" {
		if err := put("hint", r.Hint); err != nil {
			return nil, err
		}
	}
	for _, key := range r.keyOrder {
		if err := put(key, r.extra[key]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// conclude turns what a verb returned into the final result: err decides the
// code, message and hints; without one a code the verb has set stays.
func (a *app) conclude(err error) result {
	r := a.result
	if err == nil {
		return r
	}
	code, hint := classify(err, a.stop)
	r.Code = code
	if r.Err == "" {
		r.Err = err.Error()
	}
	if r.Hint == "" {
		r.Hint = hint
	}
	if list := messages(err); len(list) > 1 {
		r.set("errors", list)
	}
	var xe *exitError
	if errors.As(err, &xe) && xe.silent {
		return r
	}
	a.message(err)
	for line := range strings.SplitSeq(r.Hint, "\n") {
		if line != "" {
			a.hint("%s", line)
		}
	}
	return r
}

// finish ends the verb: it prints the JSON object if one was asked for, the
// next command on standard error if there is one, and returns the exit code.
func (a *app) finish(r result) int {
	if r.Next != "" {
		fmt.Fprintf(a.stderr, "next: %s\n", cleanLines(r.Next))
	}
	if a.json {
		text, err := json.Marshal(&r)
		if err != nil {
			// A value of the verb's own could not be encoded. The promised
			// keys still can.
			a.message(err)
			text, _ = json.Marshal(&result{Code: exitInternal, Err: err.Error()})
			r.Code = exitInternal
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	}
	if a.stdout.closed() && r.Code == exitOK && (a.json || slices.ContainsFunc(r.Files, func(f file) bool { return f.Path == "-" })) {
		a.message(errors.New("standard output is closed, and what was to go there is lost"))
		r.Code = exitLocalIO
	}
	if err := a.stdout.lost(); err != nil && r.Code == exitOK {
		a.message(fmt.Errorf("write standard output: %w", err))
		r.Code = exitLocalIO
	}
	return int(r.Code)
}
