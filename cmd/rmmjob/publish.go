package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// sortBudget is the memory that sorting the rows of an export may take; what is
// more goes through a temporary file in the folder of the run.
const sortBudget = 8 << 20

// styleOf is how the values of one output are written.
func styleOf(to jobs.Target) (output.Style, error) {
	style := output.Style{Dates: to.Dates, Formulas: to.Formulas, Newlines: to.Newlines}
	if to.Timezone != "" {
		zone, err := time.LoadLocation(to.Timezone)
		if err != nil {
			return style, jobs.Errors{{Pos: to.Pos, Message: fmt.Sprintf("time zone %q is not known", to.Timezone)}}
		}
		style.Location = zone
	}
	return style, nil
}

// publish makes the files of a finished export from its stored answers. Every
// file is written whole under a temporary name before the first gets its own.
func (s *session) publish(ctx context.Context) error {
	work := s.work.(*jobs.ExportWork) //nolint:errcheck // an export has an export's work
	answers := runner.AnswersOf(s.st.store, s.rec.ID)
	var made []*madeFile
	defer func() {
		for _, m := range made {
			m.abort()
		}
	}()
	unknowns := output.NewUnknowns(s.job.Export.Element)
	for i, to := range s.job.Export.To {
		m, err := s.write(work.Elements(ctx, answers), to, s.about.Targets[i], unknowns)
		if m != nil {
			made = append(made, m)
		}
		if err != nil {
			return err
		}
		unknowns = nil // counted once, not once for each file
	}
	var failed error
	for _, m := range made {
		info, err := s.place(m)
		s.result.Files = append(s.result.Files, info)
		failed = errors.Join(failed, err)
	}
	return failed
}

// place gives a file its name. One whose place another program holds, as a
// spreadsheet does with the file that it shows, is saved beside it.
func (s *session) place(m *madeFile) (file, error) {
	if m.file == nil {
		return file{Path: "-", Rows: m.rows}, nil
	}
	done, err := m.file.Publish()
	var kept *output.KeptError
	if errors.As(err, &kept) {
		err = fail(exitLocalIO, "%w", err)
		if side, serr := m.file.PublishAside(s.now()); serr == nil {
			done = side
			err = fail(exitLocalIO, "%s could not be replaced (%w); the complete data is in %s", kept.Path, kept.Err, side.Path)
		}
	}
	return file{Path: done.Path, Rows: m.rows, SHA256: done.SHA256}, err
}

// madeFile is an output that is written but not yet under its name.
type madeFile struct {
	file *output.File // nil for standard output
	rows int64
}

func (m *madeFile) abort() {
	if m.file != nil {
		_ = m.file.Abort() // the temporary file is swept by the next run
	}
}

// write writes one output: rows are projected, sorted and streamed.
func (s *session) write(elements iter.Seq2[jobs.Element, error], to jobs.Target, path string, unknowns *output.Unknowns) (*madeFile, error) {
	style, err := styleOf(to)
	if err != nil {
		return nil, err
	}
	dir, err := s.runFolder()
	if err != nil {
		return nil, err
	}
	sorter := output.NewSorter(dir, sortBudget)
	defer func() { _ = sorter.Close() }()
	order := output.DefaultSort(s.job.Export.Element)
	var row []output.Value
	for el, err := range elements {
		if err != nil {
			return nil, err
		}
		rec, err := output.ParseRecord(el.JSON)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.job.Export.From.Name, err)
		}
		for name, value := range el.Path {
			if _, has := rec[name]; !has {
				rec[name] = value
			}
		}
		if unknowns != nil {
			unknowns.Observe(rec)
		}
		row = output.Row(row, s.job.Export.Columns, rec, style)
		if err := sorter.Add(output.SortKey(rec, order), row); err != nil {
			return nil, fail(exitLocalIO, "%w", err)
		}
	}
	if unknowns != nil && len(unknowns.List()) > 0 {
		s.warn("%s", unknowns)
	}

	m := &madeFile{}
	var sink interface{ Write([]byte) (int, error) } = s.stdout
	if path != "-" {
		if m.file, err = output.Create(path, s.rec.ID); err != nil {
			return nil, fail(exitLocalIO, "%w", err)
		}
		sink = m.file
	}
	headers := output.Headers(s.job.Export.Columns, style)
	var w output.Writer
	if to.Format == "jsonl" {
		w, err = output.NewJSONL(sink, headers)
	} else {
		w, err = output.NewCSV(sink, headers, output.CSVOptions{BOM: to.BOM, Delimiter: to.Delimiter, EOL: eol(to.EOL)})
	}
	if err != nil {
		return m, fail(exitLocalIO, "write %s: %w", path, err)
	}
	for cells, err := range sorter.Rows() {
		if err == nil {
			err = w.Row(cells)
		}
		if err != nil {
			return m, fail(exitLocalIO, "write %s: %w", path, err)
		}
	}
	if err := w.Close(); err != nil {
		return m, fail(exitLocalIO, "write %s: %w", path, err)
	}
	m.rows = w.Rows()
	return m, nil
}

// eol is the line end that a job names.
func eol(name string) string {
	if name == "lf" {
		return "\n"
	}
	return "\r\n"
}
