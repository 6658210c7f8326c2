package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// rejectName is the file of the rows that stopped a run before it sent anything. It
// has the input's own columns and can be mended and fed back.
const rejectName = "rejected.csv"

// rejectColumns are added behind the input's own.
var rejectColumns = []string{"_line", "_column", "_reason", "_extra"}

// withRejects writes the rows of an input that has faults to a file beside the
// error that lists them. The error stays what it is, whatever becomes of the file.
func (s *session) withRejects(fault error) error {
	if faults := jobs.Errors(nil); !errors.As(fault, &faults) {
		return fault
	}
	headings, rows := jobs.Rejects(s.job)
	if headings == nil {
		return fault
	}
	dir, err := s.stateDir()
	if err == nil {
		err = s.saveRejects(&state{dir: dir, a: s.app}, headings, rows)
	}
	if err != nil {
		s.say("the rejected rows are not written: %v", err)
	}
	return fault
}

// saveRejects writes the rejected rows into the folder of the run and into the one
// that the job names for results.
func (s *session) saveRejects(st *state, headings []string, rows iter.Seq[jobs.Reject]) error {
	id := s.id
	if s.rec.ID != "" {
		id = s.rec.ID
	}
	dirs := []string{st.runDir(id)}
	if s.job.Results != "" && s.lost(filepath.Join(s.job.Results, rejectName), s.job) == "" {
		dirs = append(dirs, s.job.Results) // an input stays as it is: rows of it may be mended already
	}
	for _, dir := range dirs {
		done, err := writeRejects(filepath.Join(dir, rejectName), id, headings, rows)
		if err != nil {
			return fail(exitLocalIO, "write the rejected rows: %w", err)
		}
		if done.Rows == 0 {
			continue
		}
		s.result.Files = []file{done}
	}
	if len(s.result.Files) > 0 {
		s.hint("%s to mend and feed back: %s", count(s.result.Files[0].Rows, "row"), clean(s.result.Files[0].Path))
	}
	return nil
}

// dropOldRejects removes the rejected rows that another run has left in the folder of
// results, so that what is there adds up. They stay where they are the input.
func (s *session) dropOldRejects(run, results string) error {
	if _, err := os.Stat(filepath.Join(run, rejectName)); err == nil {
		return nil // they are this run's own
	}
	path := filepath.Join(results, rejectName)
	if s.lost(path, s.job) != "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(exitLocalIO, "remove the rejected rows of an earlier run: %w", err)
	}
	return nil
}

// writeRejects writes one file; without a row there is none.
func writeRejects(path, run string, headings []string, rows iter.Seq[jobs.Reject]) (_ file, err error) {
	var f *output.File
	var w *output.CSV
	defer func() {
		if err != nil && f != nil {
			_ = f.Abort()
		}
	}()
	own, names := ownColumns(headings)
	for row := range rows {
		if f == nil {
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return file{}, err
			}
			if f, err = output.Create(path, run); err != nil {
				return file{}, err
			}
			f.KeepPrivate()
			if w, err = output.NewCSV(f, append(names, rejectColumns...), output.CSVOptions{}); err != nil {
				return file{}, err
			}
		}
		texts := make([]string, 0, len(own)+len(rejectColumns))
		for _, i := range own {
			texts = append(texts, row.Cells[i])
		}
		texts = append(texts, fmt.Sprint(row.Line), fmt.Sprint(row.Column), row.Reason, strings.Join(row.Extra, " | "))
		cells := make([]output.Value, len(texts))
		for i, text := range texts {
			cells[i] = output.Value{Kind: output.KindText, Text: text}
		}
		if err = w.Row(cells); err != nil {
			return file{}, err
		}
	}
	if f == nil {
		return file{}, nil
	}
	if err = w.Close(); err != nil {
		return file{}, err
	}
	done, err := f.Publish()
	return file{Path: done.Path, Rows: w.Rows(), SHA256: done.SHA256, Format: output.FileCSV}, err
}

// ownColumns are the columns of an input that are its own: those with a name that
// rmmjob has not given them.
func ownColumns(headings []string) (indexes []int, names []string) {
	for i, h := range headings {
		if h != "" && !strings.HasPrefix(h, "_") {
			indexes = append(indexes, i)
			names = append(names, h)
		}
	}
	return indexes, names
}
