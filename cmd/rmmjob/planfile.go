package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// planWriters are the formats of plan files by the ending of their names.
var planWriters = map[string]func(*planView, io.Writer) (int64, error){
	".html": (*planView).writeHTML,
	".csv":  (*planView).writeCSV,
	".json": (*planView).writeJSON,
}

// planPaths adds the flag that names plan files.
func (f *flags) planPaths() *[]string {
	return f.StringArray("output", nil, "also write the plan to a file: .html for people, .csv or .json for programs; may be given several times")
}

// checkPlanPaths makes the paths absolute and refuses what cannot be written.
func (a *app) checkPlanPaths(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, path := range paths {
		ending := strings.ToLower(filepath.Ext(path))
		if planWriters[ending] == nil {
			return nil, usagef("--output %s: a plan is written as .html, .csv or .json", path)
		}
		out[i] = absolute(path)
		if slices.ContainsFunc(out[:i], func(earlier string) bool { return output.SameFile(earlier, out[i]) }) {
			return nil, usagef("--output %s is given twice", path)
		}
		if err := a.mayWrite("--output", out[i]); err != nil {
			return nil, err
		}
		if err := output.Check(out[i]); err != nil {
			return nil, fail(exitLocalIO, "%w", err)
		}
		if dir := filepath.Dir(out[i]); !isThere(dir) {
			a.say("note: --output %s: the folder %s is not there and is made", path, dir)
		}
	}
	return out, nil
}

// mayWritePlan refuses files for the plan of a run that are its job file or its input,
// as they were or as they are now.
func (a *app) mayWritePlan(rec checkpoint.Run, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	of := jobsOf(rec)
	for _, path := range paths {
		if err := a.mayWrite("--output", path, of...); err != nil {
			return err
		}
	}
	return nil
}

// isThere tells whether there is something at a path.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// save writes the plan to files, each whole or not at all. They are for the owner
// alone, since they may hold values.
func (v *planView) save(paths []string) ([]file, error) {
	var files []file
	for _, path := range paths {
		format := strings.ToLower(filepath.Ext(path))
		done, err := publishPrivate(path, v.Run, format[1:], func(w io.Writer) (int64, error) {
			buffer := bufio.NewWriter(w)
			rows, err := planWriters[format](v, buffer)
			return rows, cmp.Or(err, v.err, buffer.Flush())
		})
		if err != nil {
			return files, fail(exitLocalIO, "write the plan: %w", err)
		}
		files = append(files, done)
	}
	return files, nil
}

// writeCSV writes one line for each field of each row, without what a spreadsheet
// would run. A row without changes has one line with an empty field.
func (v *planView) writeCSV(w io.Writer) (int64, error) {
	c, err := output.NewCSV(w, []string{"line", "class", "name", "site", "target", "request", "field", "old", "new", "reason", "old_state", "new_state"}, output.CSVOptions{BOM: true})
	if err != nil {
		return 0, err
	}
	for p := range v.each() {
		changes := p.Changes
		if len(changes) == 0 {
			changes = []planChange{{}}
		}
		for _, ch := range changes {
			cells := []output.Value{{Kind: output.KindNumber, Text: fmt.Sprint(p.Line)}}
			old, _ := ch.Old.plain()
			next, _ := ch.New.plain()
			for _, text := range []string{p.Class, p.Name, p.Site, p.Target, p.Request, ch.Field, old, next, p.Reason, string(ch.Old.state), string(ch.New.state)} {
				cells = append(cells, output.Value{Kind: output.KindText, Text: output.Guard(text)})
			}
			if err := c.Row(cells); err != nil {
				return 0, err
			}
		}
	}
	return c.Rows(), c.Close()
}

// planHead is what a plan file in JSON says before its rows.
type planHead struct {
	Run       string         `json:"run"`
	Job       string         `json:"job"`
	File      string         `json:"file"`
	Account   string         `json:"account"`
	Operation string         `json:"operation"`
	Made      time.Time      `json:"made"`
	Counts    map[string]int `json:"counts"`
	Requests  int            `json:"requests"`
	Expected  string         `json:"expected,omitempty"`
	Clears    int            `json:"clears"`
	Deletes   int            `json:"deletes"`
	Values    string         `json:"values"` // shown or hidden
	Notes     []string       `json:"notes,omitempty"`
}

// writeJSON writes one object whose rows are an array.
func (v *planView) writeJSON(w io.Writer) (int64, error) {
	head, err := json.Marshal(planHead{
		v.Run, v.Job, v.File, v.Account, v.Operation, v.Made.UTC(), v.Counts, v.Requests, v.Expected, v.Clears, v.Deletes,
		map[bool]string{true: "shown", false: "hidden"}[v.Values], v.Notes,
	})
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "%s,\n\"rows\":[", head[:len(head)-1]) //nolint:errcheck // a failed write fails the last one, too
	rows := int64(0)
	for p := range v.each() {
		b, err := json.Marshal(p)
		if err != nil {
			return rows, err
		}
		separator := ",\n"
		if rows == 0 {
			separator = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s%s", separator, b); err != nil {
			return rows, err
		}
		rows++
	}
	_, err = fmt.Fprint(w, "\n]}\n")
	return rows, err
}

//go:embed plan.html
var planPage string

var planTemplate = template.Must(template.New("plan").Parse(planPage))

// planSection is a part of the page: the rows of some classes.
type planSection struct {
	ID, Title, Note string
	Count           int
	Held            bool // the rows have a reason and no changes
	Rows            iter.Seq[planRow]
}

// writeHTML writes one page that needs nothing beside itself.
func (v *planView) writeHTML(w io.Writer) (int64, error) {
	rows := int64(0)
	counted := func(classes ...jobs.RowClass) (int, iter.Seq[planRow]) {
		n := 0
		for _, c := range classes {
			n += v.Counts[string(c)]
		}
		return n, func(yield func(planRow) bool) {
			for p := range v.each(classes...) {
				rows++
				if !yield(p) {
					return
				}
			}
		}
	}
	section := func(id, title, note string, held bool, classes ...jobs.RowClass) planSection {
		n, seq := counted(classes...)
		return planSection{ID: id, Title: title, Note: note, Count: n, Held: held, Rows: seq}
	}
	var held []jobs.RowClass
	for _, c := range jobs.RowClasses() {
		if c.Held() {
			held = append(held, c)
		}
	}
	err := planTemplate.Execute(w, struct {
		*planView
		MadeText, TakesText string
		Total, Unchanged    int
		Sections            []planSection
	}{
		v, v.Made.UTC().Format("2006-01-02 15:04 UTC"), v.requestLine(), v.Counts["rows"], v.Counts[string(jobs.ClassUnchanged)],
		[]planSection{
			section("clear", "Fields that will be cleared", "Each of these rows empties at least one field.", false, jobs.ClassClear),
			section("change", "Changes", "", false, jobs.ClassChange),
			section("held", "Held back", "Nothing is sent for these rows.", true, held...),
		},
	})
	return rows, err
}
