package jobs

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Reject is a row of an input that cannot be used as it is, for a file that can be
// mended and fed back.
type Reject struct {
	Line, Column int
	Reason       string
	Cells        []string // by the headings of the input
	Extra        []string // beyond the headings
}

// Rejects reads an input that [OpenInput] has refused, and gives its headings and
// the rows that have a fault, in their order. There are none where no single row is
// to blame: the file is not there, is of another kind, or lacks a column.
func Rejects(job *Job) (headings []string, rows iter.Seq[Reject]) {
	none := func(func(Reject) bool) {}
	if job.Update == nil || job.Update.Rows.File() == "" {
		return nil, none
	}
	table, err := OpenTable(job.Update.Rows, job.Update.columns())
	if err != nil || table.Line == 0 {
		return nil, none
	}
	reader := newRowReader(job.Update, table)
	return table.Headers, func(yield func(Reject) bool) {
		// A fault of the reading itself has been reported.
		_ = table.each(func(rec Record, damaged Errors, science []Pos) bool {
			faults := damaged
			for _, pos := range science {
				faults = append(faults, &Error{Pos: pos, Message: "the value looks like Excel scientific notation"})
			}
			if len(damaged) == 0 {
				faults = append(faults, reader.faults(rec)...)
			}
			if len(faults) == 0 {
				return true
			}
			table.mark(rec, damaged)
			return yield(newReject(rec, faults))
		})
	}
}

// mark sets [mendMark] before the cells whose fault their text alone does not show. A
// fault of the whole row, or of a cell that the job does not use, is marked in the
// first one that it uses.
func (t *Table) mark(rec Record, damaged Errors) {
	for _, f := range damaged {
		i := slices.IndexFunc(t.mapped, func(used bool) bool { return used })
		beside := t.rows.XLSX != "" && f.Pos.Column > len(t.Headers) // of a sheet, whose columns are the cells
		if j := rec.cellAt(f.Pos); j >= 0 && j < len(t.mapped) && !beside {
			if t.mapped[j] {
				i = j
			} else if t.Headers[j] == extraColumn && len(rec.Extra) > 0 {
				continue // it stays in the row, which is refused for it
			}
		}
		if i < 0 {
			continue
		}
		cell := rec.Cells[i]
		if fault, _ := spoilt(cell); fault == "" && !strings.ContainsRune(cell, utf8.RuneError) {
			rec.Cells[i] = trimBlank(mendMark + " " + cell)
		}
	}
}

// cellAt is the index of the cell that a place is in, or -1 where it is in none.
func (r Record) cellAt(pos Pos) int {
	at := -1
	for i, c := range r.cells {
		if c.line < pos.Line || c.line == pos.Line && c.col <= pos.Column {
			at = i
		}
	}
	return at
}

// newReject puts the faults of a row into words.
func newReject(rec Record, faults Errors) Reject {
	reasons := make([]string, len(faults))
	for i, f := range faults {
		reasons[i] = f.Message
	}
	return Reject{Line: rec.Line, Column: faults[0].Pos.Column, Reason: strings.Join(reasons, "; "), Cells: rec.Cells, Extra: rec.Extra}
}

// held are the rows of a plan that are held back.
func (p *plan) held() []Reject {
	var rows []Reject
	for row := range p.eachRow() {
		if row.class().Held() {
			rows = append(rows, Reject{Line: int(row.line), Column: 1, Reason: fmt.Sprintf("%s: %s", row.class(), row.reason()), Cells: p.cells.of(int(row.number))})
		}
	}
	return rows
}
