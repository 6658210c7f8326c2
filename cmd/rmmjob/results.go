package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// The result files of an update. Their rows together are the rows of the input,
// in its own columns, so each file can be mended and fed back as it is: columns
// that begin with an underscore are ignored on the way in.
var resultNames = []string{"succeeded.csv", "failed.csv", "in-doubt.csv", "not-attempted.csv"}

// Indexes into resultNames.
const (
	fileSucceeded = iota
	fileFailed
	fileInDoubt
	fileNotAttempted
)

// resultColumns are added behind the input's own.
var resultColumns = []string{"_status", "_reason", "_row", "_target", "_error_class", "_http", "_attempts"}

// rowEnd is what became of a row.
type rowEnd struct {
	file   int    // into which it goes
	status string // in one word
	class  string // kind of failure, in the words of retry --class; "" where nothing went wrong
	reason string
}

// classData is the error class of rows that were held back for what they say.
const classData = "data"

// endOf says what became of a row of the plan.
func endOf(row checkpoint.Row, d jobs.RowDetail) rowEnd {
	e := rowEnd{reason: cmp.Or(d.Reason, row.ItemReason)}
	class := jobs.RowClass(row.Class)
	switch row.ItemState {
	case checkpoint.StateDone:
		e.file, e.status = fileSucceeded, "done"
		if class == jobs.ClassUnchanged {
			e.status = "unchanged"
		}
	case checkpoint.StateUnchanged:
		e.file, e.status = fileSucceeded, "unchanged"
	case checkpoint.StateFailed:
		e.file, e.status, e.class = fileFailed, "failed", row.ItemErrorClass
		switch {
		case class.Held():
			e.status, e.class = row.Class, heldClass(class)
			return e
		case e.class == jobs.ClassStale:
			e.status = jobs.ClassDrifted
		case jobs.HeldBack(e.class), e.class == jobs.ClassNotApplied:
			e.status = e.class
		}
		e.reason = row.ItemReason
	case checkpoint.StateInDoubt:
		e.file, e.status, e.class, e.reason = fileInDoubt, "in_doubt", row.ItemErrorClass, row.ItemReason
	case checkpoint.StateSkipped:
		e.file, e.status = fileNotAttempted, "skipped"
	default:
		e.file, e.status = fileNotAttempted, "not_attempted"
		if row.ItemUnsure {
			e.file, e.status = fileInDoubt, "unanswered"
			e.reason = "sent, and an answer to it never came, so it may be done; at last: " + row.ItemReason
		}
	}
	if e.file == fileSucceeded && len(d.Kept) > 0 {
		e.file, e.status, e.class = fileFailed, string(jobs.ClassKept), string(jobs.ClassKept)
	}
	return e
}

// bad tells whether the row did not end as it should.
func (e rowEnd) bad() bool { return e.file == fileFailed || e.file == fileInDoubt }

// heldClass is the error class of a row that was held back: the row is to be mended, or
// it is left alone for a reason that has a name.
func heldClass(class jobs.RowClass) string {
	switch class {
	case jobs.ClassProtected, jobs.ClassKept, jobs.ClassIrreversible:
		return string(class)
	}
	return classData
}

// cells are what a result file says of a row behind the cells of the input.
func (e rowEnd) cells(row checkpoint.Row, d jobs.RowDetail) []string {
	http := ""
	if row.ItemHTTP > 0 {
		http = strconv.Itoa(row.ItemHTTP)
	}
	return []string{e.status, e.reason, strconv.Itoa(row.Number), d.UID, e.class, http, strconv.Itoa(row.ItemAttempts)}
}

// writeResults writes the result files of an update into the folder of the run,
// and into the folder that the job names. A run without a plan has none.
func (s *session) writeResults(ctx context.Context) error {
	counts, err := s.st.store.RowCounts(ctx, s.rec.ID)
	if err != nil || len(counts) == 0 {
		return err
	}
	dir, err := s.st.runFolder(s.rec.ID)
	if err != nil {
		return err
	}
	dirs, held := []string{dir}, error(nil)
	if s.about.Hold == holdNone {
		dirs, held = s.resultFolders(dir)
	}
	for i, dir := range dirs {
		files, err := s.writeResultsTo(ctx, dir)
		if err != nil {
			return err
		}
		if i > 0 {
			if err := s.dropOldRejects(dirs[0], dir); err != nil {
				return err
			}
		}
		if i == len(dirs)-1 {
			s.result.Files = files
		}
	}
	return held
}

// writeResultsTo writes the four files into one folder.
func (s *session) writeResultsTo(ctx context.Context, dir string) (_ []file, err error) {
	files := make([]*output.File, len(resultNames))
	writers := make([]*output.CSV, len(resultNames))
	defer func() {
		for _, f := range files {
			if f != nil {
				_ = f.Abort()
			}
		}
	}()
	s.failures = &failureGroups{}
	var own []int // columns of the input that are its own
	for row, err := range s.st.store.Rows(ctx, s.rec.ID) {
		if err != nil {
			return nil, err
		}
		var detail jobs.RowDetail
		if err := json.Unmarshal(row.Payload, &detail); err != nil {
			return nil, fmt.Errorf("row %d of the plan: %w", row.Number, err)
		}
		if jobs.RowClass(row.Class) == jobs.ClassHeading {
			var headers []string
			own, headers = ownColumns(detail.Cells)
			headers = append(headers, resultColumns...)
			for i, name := range resultNames {
				if files[i], err = output.Create(filepath.Join(dir, name), s.rec.ID); err != nil {
					return nil, fail(exitLocalIO, "%w", err)
				}
				files[i].KeepPrivate() // they hold what the input holds
				if writers[i], err = output.NewCSV(files[i], headers, output.CSVOptions{}); err != nil {
					return nil, fail(exitLocalIO, "write %s: %w", name, err)
				}
			}
			continue
		}
		end := endOf(row, detail)
		if end.bad() {
			s.failures.add(row, end, detail)
		}
		cells := make([]output.Value, 0, len(own)+len(resultColumns))
		for _, i := range own {
			text := ""
			if i < len(detail.Cells) {
				text = detail.Cells[i]
			}
			cells = append(cells, output.Value{Kind: output.KindText, Text: text})
		}
		for _, text := range end.cells(row, detail) {
			cells = append(cells, output.Value{Kind: output.KindText, Text: text})
		}
		if writers[end.file] == nil {
			return nil, fmt.Errorf("the plan of run %s has no heading", s.rec.ID)
		}
		if err := writers[end.file].Row(cells); err != nil {
			return nil, fail(exitLocalIO, "write %s: %w", resultNames[end.file], err)
		}
	}
	var out []file
	for i, f := range files {
		if f == nil {
			continue
		}
		if err := writers[i].Close(); err != nil {
			return nil, fail(exitLocalIO, "write %s: %w", resultNames[i], err)
		}
		done, err := f.Publish()
		if err != nil {
			return nil, fail(exitLocalIO, "%w", err)
		}
		out = append(out, file{Path: done.Path, Rows: writers[i].Rows(), SHA256: done.SHA256})
	}
	return out, nil
}
