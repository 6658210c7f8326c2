package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

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
var resultColumns = []string{"_status", "_reason", "_row", "_target"}

// resultOf says in which file a row belongs and with which status.
func resultOf(row checkpoint.Row) (file int, status string) {
	class := jobs.RowClass(row.Class)
	switch row.ItemState {
	case checkpoint.StateDone:
		if class == jobs.ClassUnchanged {
			return fileSucceeded, "unchanged"
		}
		return fileSucceeded, "done"
	case checkpoint.StateUnchanged:
		return fileSucceeded, "unchanged"
	case checkpoint.StateFailed:
		if class.Held() {
			return fileFailed, row.Class
		}
		if row.ItemErrorClass == jobs.ClassDrifted || row.ItemErrorClass == string(jobs.ClassProtected) || row.ItemErrorClass == jobs.ClassNotApplied {
			return fileFailed, row.ItemErrorClass
		}
		return fileFailed, "failed"
	case checkpoint.StateInDoubt:
		return fileInDoubt, "in_doubt"
	case checkpoint.StateSkipped:
		return fileNotAttempted, "skipped"
	}
	return fileNotAttempted, "not_attempted"
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
	dirs := []string{dir}
	if s.job.Results != "" && s.about.Hold == holdNone {
		dirs = append(dirs, s.job.Results)
	}
	for i, dir := range dirs {
		files, err := s.writeResultsTo(ctx, dir)
		if err != nil {
			return err
		}
		if i == len(dirs)-1 {
			s.result.Files = files
		}
	}
	return nil
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
		at, status := resultOf(row)
		if at == fileSucceeded && len(detail.Kept) > 0 {
			at, status = fileFailed, string(jobs.ClassKept)
		}
		reason := row.ItemReason
		if detail.Reason != "" {
			reason = detail.Reason
		}
		cells := make([]output.Value, 0, len(own)+len(resultColumns))
		for _, i := range own {
			text := ""
			if i < len(detail.Cells) {
				text = detail.Cells[i]
			}
			cells = append(cells, output.Value{Kind: output.KindText, Text: text})
		}
		for _, text := range []string{status, reason, fmt.Sprint(row.Number), detail.UID} {
			cells = append(cells, output.Value{Kind: output.KindText, Text: text})
		}
		if writers[at] == nil {
			return nil, fmt.Errorf("the plan of run %s has no heading", s.rec.ID)
		}
		if err := writers[at].Row(cells); err != nil {
			return nil, fail(exitLocalIO, "write %s: %w", resultNames[at], err)
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
