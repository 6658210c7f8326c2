package jobs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Pos is a place in a job file or an input file. Line and Column count from 1, columns in characters. A Line of 0 means
// the file as a whole: a file that is missing has no lines.
type Pos struct {
	File         string
	Line, Column int
}

// String gives file:line:column, or only as much of it as is known.
func (p Pos) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			s += ":" + strconv.Itoa(p.Column)
		}
	}
	return s
}

// Error is one fault of a job file or an input file: where it is, what is wrong and, where there is one, the way out.
// It never holds the value of a secret.
type Error struct {
	Pos     Pos
	Message string
	Hint    string // what to do about it; empty if the message says enough
	Err     error  // the cause where a caller may look for one, such as fs.ErrNotExist; usually nil
}

// Error prints "file:line:column: message (hint)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Pos != (Pos{}) {
		b.WriteString(e.Pos.String())
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// Errors is every fault found in one file, in the order of the file. It is never empty when returned as an error.
type Errors []*Error

// Error prints one fault a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look into each fault.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// err sorts the faults by place and returns them as an error, or nil when there are none: a plain conversion would
// make an empty list a non-nil error.
func (es Errors) err() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return es
}
