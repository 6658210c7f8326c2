package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// answersName is the file of what the requests of a reading call were answered, one
// JSON object a line.
const answersName = "answers.jsonl"

// callAnswer is one line of it.
type callAnswer struct {
	Row     int             `json:"row"`
	Line    int             `json:"line"`
	Request string          `json:"request"`
	Cells   map[string]any  `json:"cells,omitempty"` // of the row, by the headings of the input
	OK      bool            `json:"ok"`
	Reason  string          `json:"reason,omitempty"`
	Answer  json.RawMessage `json:"answer"`
}

// writeAnswers writes what a call that only reads has brought, into the folder of
// the run and into that of the results.
func (s *session) writeAnswers(ctx context.Context) error {
	if !readsOnly(s.job) || s.about.Hold != holdNone {
		return nil
	}
	dir, err := s.st.runFolder(s.rec.ID)
	if err != nil {
		return err
	}
	dirs, _ := s.resultFolders(dir) //nolint:errcheck // writeResults tells
	for i, dir := range dirs {
		done, err := publishPrivate(filepath.Join(dir, answersName), s.rec.ID, output.FileJSONL, func(w io.Writer) (int64, error) {
			return s.writeAnswersTo(ctx, w)
		})
		if err != nil {
			return fail(exitLocalIO, "write the answers: %w", err)
		}
		if i == len(dirs)-1 {
			s.result.Files = append(s.result.Files, done)
		}
	}
	return nil
}

func (s *session) writeAnswersTo(ctx context.Context, w io.Writer) (rows int64, err error) {
	answers := runner.AnswersOf(s.st.store, s.rec.ID)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	var headings []string
	for row, err := range s.st.store.Rows(ctx, s.rec.ID) {
		if err != nil {
			return rows, err
		}
		var d jobs.RowDetail
		if err := json.Unmarshal(row.Payload, &d); err != nil {
			return rows, fmt.Errorf("row %d of the plan: %w", row.Number, err)
		}
		if jobs.RowClass(row.Class) == jobs.ClassHeading {
			headings = d.Cells
			continue
		}
		line := callAnswer{Row: row.Number, Line: d.Line, Request: d.Hostname, Reason: d.Reason}
		for i, name := range headings {
			if name != "" && i < len(d.Cells) {
				if line.Cells == nil {
					line.Cells = map[string]any{}
				}
				line.Cells[name] = d.Cells[i]
			}
		}
		for ans, err := range answers.Answers(ctx, row.ItemKey) {
			if err != nil {
				return rows, err
			}
			if ans.Key == row.ItemKey {
				line.OK = ans.OK
				if !ans.OK {
					line.Reason = ans.Reason
				} else if json.Valid(ans.Body) {
					line.Answer = ans.Body
				}
			}
		}
		if err := encoder.Encode(line); err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}
