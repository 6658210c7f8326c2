package output

import "io"

// JSON writes one array with an object per row, each on a line of its own;
// objects are those of JSONL. A file without rows is an empty array. Rows are
// written as they come, so a file of any size takes no memory.
type JSON struct {
	lines  *JSONL
	closed bool
}

// NewJSON starts a JSON file. The error is for an empty list of columns.
func NewJSON(w io.Writer, headers []string) (*JSON, error) {
	lines, err := NewJSONL(w, headers)
	if err != nil {
		return nil, err
	}
	// What JSONL ends every object with is written before the next one here,
	// since only then it is known whether a comma is needed.
	lines.before, lines.after = "[\n", ""
	return &JSON{lines: lines}, nil
}

// Row writes one row.
func (j *JSON) Row(row []Value) error {
	err := j.lines.Row(row)
	j.lines.before = ",\n"
	return err
}

// Rows is the number of rows so far.
func (j *JSON) Rows() int64 { return j.lines.rows }

// Close ends the array and writes what is buffered. After a failed row the
// array stays open, so that no reader takes the file for a whole one.
func (j *JSON) Close() error {
	if !j.closed && j.lines.err == nil {
		end := "\n]\n"
		if j.lines.rows == 0 {
			end = "[]\n"
		}
		_, j.lines.err = j.lines.w.WriteString(end)
	}
	j.closed = true
	return j.lines.Close()
}
