package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// changeFeed compares the rows of a run with those of the last published one, which are remembered as a snapshot. Both
// are walked in the order of what tells the rows apart, so neither is ever in memory whole.
type changeFeed struct {
	s      *session
	export *jobs.ExportSpec
	path   string
	lead   []output.Column // what names a row
	parent []string        // path parameters that are part of what tells rows apart
	rows   *output.Sorter  // of this run: identity, lead, columns
	count  int64
	row    []output.Value

	old      checkpoint.Memory
	oldNotes *snapshotNotes // nil when there is nothing to compare with
	set      *output.Set
	counts   changeCounts
}

// changeCounts are rows, not lines of the change file: a changed row has a line for each field.
type changeCounts struct {
	Added    int64 `json:"added"`
	Changed  int64 `json:"changed"`
	Removed  int64 `json:"removed"`
	Compared bool  `json:"compared"` // false in a first run, which has nothing to compare with
	Left     int64 `json:"left_out"` // rows without a key, or with that of another row
}

// newChangeFeed prepares the comparison with what the run has found remembered when it began; nil if the job has none.
func (s *session) newChangeFeed(ctx context.Context) (*changeFeed, error) {
	x := s.job.Export
	if x.Changes == nil {
		return nil, nil
	}
	dir, err := s.st.runFolder(s.rec.ID)
	if err != nil {
		return nil, err
	}
	f := &changeFeed{s: s, export: x, path: s.about.Changes, lead: x.Lead(), rows: output.NewSorter(dir, sortBudget)}
	if len(x.Changes.Key) != 1 || x.Changes.Key[0].Path != x.From.Key {
		f.parent = x.From.PathParams() // a key that the job has chosen is one within the site or device
	}
	use := s.about.Memory
	if use.ID == 0 {
		return f, nil
	}
	m, ok, err := s.st.store.Memory(ctx, s.jobKey(), use.Selection)
	if err != nil {
		return nil, err
	}
	if !ok || m.ID != use.ID {
		s.note("what the job remembered was reset while the run was under way: there is nothing to compare with")
		return f, nil
	}
	notes, err := notesOf(m)
	f.old, f.oldNotes = m, notes.Rows
	return f, err
}

// close gives back what the comparison holds. Files that are whole but not under their name are gone.
func (f *changeFeed) close() {
	if f == nil {
		return
	}
	_ = f.rows.Close() // only temporary
	if f.set != nil {
		_ = f.set.Close()
	}
}

// add takes the record of a row.
func (f *changeFeed) add(rec output.Record) error {
	identity := f.identity(rec)
	if identity == "" {
		f.counts.Left++
		return nil
	}
	f.count++
	f.row = append(f.row[:0], output.Value{Kind: output.KindText, Text: identity})
	for _, columns := range [][]output.Column{f.lead, f.export.Columns} {
		for _, c := range columns {
			f.row = append(f.row, c.Cell(rec, output.Style{}))
		}
	}
	return f.rows.Add([]byte(identity), f.row)
}

// identity is what tells a row from all others; "" if it lacks a key.
func (f *changeFeed) identity(rec output.Record) string {
	var parts []string
	for _, param := range f.parent {
		parts = append(parts, rec.Text(param))
	}
	for _, c := range f.export.Changes.Key {
		v := c.Cell(rec, output.Style{})
		if v.Text == "" && len(f.export.Changes.Key) == 1 {
			return ""
		}
		parts = append(parts, strings.ReplaceAll(v.Text, "\x1f", " "))
	}
	return strings.Join(parts, "\x1f")
}

// cells are the columns of a snapshot of this run.
func (f *changeFeed) cells() []columnOfNote {
	var list []columnOfNote
	for _, c := range slices.Concat(f.lead, f.export.Columns) {
		n := columnOfNote{Header: c.Header, Path: c.Path, Format: c.Format}
		if c.Argument != (output.Argument{}) {
			n.Format += fmt.Sprintf("(%s%s%s)", c.Separator, c.Unit, zoneName(c.Zone))
		}
		list = append(list, n)
	}
	return list
}

func zoneName(zone *time.Location) string {
	if zone == nil {
		return ""
	}
	return zone.String()
}

func (f *changeFeed) snapshotNotes() *snapshotNotes {
	return &snapshotNotes{Count: f.count, Lead: len(f.lead), Columns: f.cells()}
}

// write makes the change file whole under a temporary name.
func (f *changeFeed) write(ctx context.Context, dir string) error {
	t := f.export.Changes.Target
	var err error
	f.set, err = output.NewSet(f.s.rec.ID, dir, sortBudget, []output.Output{{
		Path: f.path, Format: t.Format, InPlace: t.InPlace, Spec: f.export.ChangesSpec(),
	}})
	if err != nil {
		return err
	}
	if f.oldNotes == nil {
		f.s.note("changes: there is nothing to compare with yet, so the change file holds only its heading")
	} else if err := f.compare(ctx); err != nil {
		return err
	}
	if f.counts.Left > 0 {
		f.s.note(fmt.Sprintf("changes: %s left out, without a key or with that of another row", count(f.counts.Left, "row")))
	}
	return f.set.Write(0)
}

// compare adds the changes to the file.
func (f *changeFeed) compare(ctx context.Context) error {
	f.counts.Compared = true
	old := f.oldNotes
	where := make([]int, 1, 1+len(f.lead)+len(f.export.Columns)) // of each cell of a new row in an old one
	where[0] = -1                                                // the identity is the same
	var fresh []string
	for i, c := range f.cells() {
		at := slices.Index(old.Columns[min(old.Lead, len(old.Columns)):], c)
		switch {
		case i < len(f.lead):
			at = -1
		case f.export.Changes.Ignores(f.export.Columns[i-len(f.lead)]):
			at = -1
		case at < 0:
			fresh = append(fresh, c.Header)
		default:
			at += 1 + old.Lead
		}
		where = append(where, at)
	}
	if len(fresh) > 0 {
		f.s.note(fmt.Sprintf("changes: new columns are compared from the next run on: %s", strings.Join(fresh, ", ")))
	}
	twins := 0
	before := output.DecodeRows(f.s.st.store.Blocks(ctx, f.old, partRows))
	for c, err := range output.Diff(before, f.rows.Rows(), where, &twins) {
		if err != nil {
			return err
		}
		if err := f.record(c, where); err != nil {
			return err
		}
	}
	f.counts.Left += int64(twins)
	return nil
}

// record adds the lines of one change: one for each field of a changed row, one with the whole row as JSON for one that
// was added or removed.
func (f *changeFeed) record(c output.Change, where []int) error {
	line := output.Record{jobs.ChangeKind: string(c.Kind)}
	lead := c.New
	switch c.Kind {
	case output.Added:
		f.counts.Added++
		line[jobs.ChangeNew] = wholeRow(c.New[1+len(f.lead):], headersOf(f.cells()[len(f.lead):]))
	case output.Removed:
		f.counts.Removed++
		line[jobs.ChangeOld] = wholeRow(c.Old[1+f.oldNotes.Lead:], headersOf(f.oldNotes.Columns[f.oldNotes.Lead:]))
		lead = nil
	case output.Changed:
		f.counts.Changed++
	}
	for i, column := range f.lead {
		var v output.Value
		if lead != nil {
			v = lead[1+i]
		} else if at := slices.Index(f.oldNotes.Columns[:f.oldNotes.Lead], f.cells()[i]); at >= 0 {
			v = c.Old[1+at]
		}
		line[jobs.LeadPrefix+column.Path] = text(v)
	}
	if c.Kind != output.Changed {
		return f.addLine(line, 0)
	}
	for n, i := range c.Cells {
		line[jobs.ChangeField] = f.export.Columns[i-1-len(f.lead)].Header
		line[jobs.ChangeOld], line[jobs.ChangeNew] = text(c.Old[where[i]]), text(c.New[i])
		if err := f.addLine(line, n); err != nil {
			return err
		}
	}
	return nil
}

// addLine adds a line in the order of the file: by the names of the row, then the order of the columns.
func (f *changeFeed) addLine(line output.Record, n int) error {
	var paths []string
	for _, c := range f.lead[len(f.export.Changes.Key):] {
		paths = append(paths, jobs.LeadPrefix+c.Path)
	}
	for _, c := range f.export.Changes.Key {
		paths = append(paths, jobs.LeadPrefix+c.Path)
	}
	key := output.SortKey(line, output.Ascending(paths...))
	return f.set.Add(append(key, byte(n>>8), byte(n)), line)
}

// text is a cell as it stands in a change file; null for an empty one.
func text(v output.Value) any {
	if v.Text == "" {
		return nil
	}
	return v.Text
}

func headersOf(cells []columnOfNote) []string {
	list := make([]string, len(cells))
	for i, c := range cells {
		list[i] = c.Header
	}
	return list
}

// wholeRow is a row as JSON, in the order of its columns, without empty cells.
func wholeRow(cells []output.Value, headers []string) string {
	var b strings.Builder
	for i, v := range cells {
		if v.Text == "" || i >= len(headers) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoteJSON(headers[i]) + ":" + quoteJSON(v.Text))
	}
	return "{" + b.String() + "}"
}

// quoteJSON is a text in JSON, without escapes that only HTML needs.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a text in memory
	return strings.TrimSuffix(b.String(), "\n")
}

// publish gives the change file its name.
func (f *changeFeed) publish() (file, error) {
	made, err := f.set.Publish(f.s.now())
	if err != nil {
		err = fail(exitLocalIO, "%w", err)
	}
	if len(made) == 0 {
		return file{Path: f.path, Format: f.export.Changes.Target.Format}, errors.Join(err)
	}
	return file{Path: made[0].Path, Rows: made[0].Rows, SHA256: made[0].SHA256, Format: f.export.Changes.Target.Format, Warnings: made[0].Warnings}, err
}
