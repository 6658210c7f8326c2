package output

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Output is one file of a [Set].
type Output struct {
	Path    string    // where it is to be; ignored if To is set
	To      io.Writer // if set, the file goes there as it is written and is no file of its own
	Format  string    // one of the names of FileFormats
	InPlace bool      // PublishInPlace in place of Publish
	Spec    Spec
}

// Made is one output that is complete.
type Made struct {
	Published       // Path is "" for an output that goes to a writer, which has no sum either
	Rows      int64 // without the header
	Warnings  []string
}

// Set makes several files of the same rows, all or none as far as a file system
// allows. Rows are projected once for every way in which the outputs write a
// column and sorted once for all of them. Write makes all files under temporary
// names, Publish flushes all to the disk and only then renames the first.
//
// The order of the calls is Add, Write, Publish; Close in any case.
type Set struct {
	run     string
	outputs []Output
	sorter  *Sorter
	slots   []slot
	picks   [][]int // of each output: the slots of its columns
	row     []Value
	rows    int64
	files   []*File // nil for an output that goes to a writer
	made    []Made
}

// slot is a column as some of the outputs write it.
type slot struct {
	column Column
	style  Style
}

// NewSet starts the files of a run. Rows are held in memory up to about budget
// bytes; the rest is in temporary files in the folder temp, which is also the
// one of the formats that need some. The error is for an output that cannot be
// made, before anything is written.
func NewSet(run, temp string, budget int, outputs []Output) (*Set, error) {
	s := &Set{run: run, outputs: outputs, sorter: NewSorter(temp, budget), files: make([]*File, len(outputs)), made: make([]Made, len(outputs))}
	at := map[slot]int{}
	for i := range outputs {
		o := &s.outputs[i]
		if o.Spec.Temp == "" {
			o.Spec.Temp = temp
		}
		if err := o.Spec.Validate(o.Format); err != nil {
			return nil, errors.Join(fmt.Errorf("output %s: %w", o.name(), err), s.sorter.Close())
		}
		style := StyleFor(o.Format, o.Spec.Style)
		var picks []int
		for _, c := range o.Spec.Columns {
			key := slot{c.value(), c.relevant(style)}
			n, known := at[key]
			if !known {
				n = len(s.slots)
				at[key] = n
				s.slots = append(s.slots, key)
			}
			picks = append(picks, n)
		}
		s.picks = append(s.picks, picks)
	}
	return s, nil
}

// name is the output in messages.
func (o Output) name() string {
	if o.To != nil {
		return "to standard output"
	}
	return o.Path
}

// value is the column without what only its header depends on.
func (c Column) value() Column {
	return Column{Path: c.Path, Format: c.Format, Kind: c.Kind, Argument: c.Argument}
}

// relevant is the part of a style that the cells of the column depend on.
func (c Column) relevant(s Style) Style {
	r := Style{Formulas: s.Formulas, Newlines: s.Newlines}
	if r.Formulas == "keep" {
		r.Formulas = ""
	}
	if r.Newlines == "keep" {
		r.Newlines = ""
	}
	notation := c.notation(s)
	if notation != "" && notation != DatesMS && s.Location != time.UTC {
		r.Location = s.Location
	}
	if notation != c.Format && notation != DatesRFC3339 {
		r.Dates = notation
	}
	return r
}

// Add takes a record and the key that its row is sorted by; both may be reused
// after the call.
func (s *Set) Add(key []byte, rec Record) error {
	s.row = s.row[:0]
	for _, slot := range s.slots {
		s.row = append(s.row, slot.column.Cell(rec, slot.style))
	}
	if err := s.sorter.Add(key, s.row); err != nil {
		return err
	}
	s.rows++
	return nil
}

// Rows is the number of rows added.
func (s *Set) Rows() int64 { return s.rows }

// Write writes all outputs whole under temporary names, those that go to a
// writer last. At most limit rows are written if limit is above 0. After an
// error nothing can be published.
func (s *Set) Write(limit int64) error {
	var files, streams []int
	for i, o := range s.outputs {
		if o.To != nil {
			streams = append(streams, i)
		} else {
			files = append(files, i)
		}
	}
	// A database is closed last: its copy is compared with what the target has
	// become meanwhile, and then the files should be published soon.
	slices.SortStableFunc(files, func(a, b int) int {
		return order(s.outputs[a].Format == FileSQLite) - order(s.outputs[b].Format == FileSQLite)
	})
	if err := s.write(files, limit); err != nil {
		return err
	}
	return s.write(streams, limit)
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// write writes some of the outputs side by side.
func (s *Set) write(which []int, limit int64) (err error) {
	writers := make([]Writer, 0, len(which))
	defer func() {
		for _, w := range writers {
			err = errors.Join(err, Discard(w))
		}
	}()
	failed := func(i int, err error) error { return troubleWith("write", s.outputs[i].name(), err) }
	for _, i := range which {
		o := s.outputs[i]
		to := o.To
		if to == nil {
			if s.files[i], err = Create(o.Path, s.run); err != nil {
				return err
			}
			to = s.files[i]
		}
		w, err := New(o.Format, to, o.Spec)
		if err != nil {
			return failed(i, err)
		}
		writers = append(writers, w)
	}
	if len(writers) == 0 {
		return nil
	}
	var cells []Value
	left := limit
	for row, err := range s.sorter.Rows() {
		if err != nil {
			return err
		}
		if limit > 0 {
			if left == 0 {
				break
			}
			left--
		}
		for n, i := range which {
			cells = cells[:0]
			for _, at := range s.picks[i] {
				cells = append(cells, row[at])
			}
			if err := writers[n].Row(cells); err != nil {
				return failed(i, err)
			}
		}
	}
	for n, i := range which {
		w := writers[n]
		if err := w.Close(); err != nil {
			return failed(i, err)
		}
		s.made[i] = Made{Rows: w.Rows(), Warnings: Warnings(w)}
	}
	return nil
}

// Publish gives all files their names: all of them are sealed and the way of all
// of them found free before the first is renamed. If another program holds one
// of the targets for more than ten seconds, none of them is replaced; the files
// of the set are saved beside their targets with the time at in their names, and
// the error names them. Only a target that gets in the way between that look and
// the rename leaves a set half old and half new, which the error says too.
func (s *Set) Publish(at time.Time) ([]Made, error) {
	for _, f := range s.files {
		if f == nil {
			continue
		}
		if err := f.Seal(); err != nil {
			for _, f := range s.files {
				if f != nil {
					err = errors.Join(err, f.discard())
				}
			}
			return nil, err
		}
	}
	for _, f := range s.files {
		if f == nil {
			continue
		}
		if err := f.awaitFree(); err != nil {
			return s.made, errors.Join(s.aside(at, err)...)
		}
	}
	var problems []error
	for i, f := range s.files {
		if f == nil {
			continue
		}
		publish := f.Publish
		if s.outputs[i].InPlace {
			publish = f.PublishInPlace
		}
		done, err := publish()
		s.made[i].Published = done
		if kept := (*KeptError)(nil); errors.As(err, &kept) {
			err = s.asideOne(i, at, err)
		}
		problems = append(problems, err)
	}
	return s.made, errors.Join(problems...)
}

// aside saves every file of the set beside its target, because of one that is
// held.
func (s *Set) aside(at time.Time, held error) []error {
	var problems []error
	kept, _ := errors.AsType[*KeptError](held)
	for i, f := range s.files {
		if f == nil {
			continue
		}
		why := error(kept)
		if f.target != kept.Path {
			why = &KeptError{f.target, f.temp, fmt.Errorf("it belongs together with %s", kept.Path)}
		}
		problems = append(problems, s.asideOne(i, at, why))
	}
	return problems
}

// asideOne saves one file beside its target and says so.
func (s *Set) asideOne(i int, at time.Time, why error) error {
	kept, _ := errors.AsType[*KeptError](why)
	side, err := s.files[i].PublishAside(at)
	if err != nil {
		return why
	}
	s.made[i].Published = side
	return fmt.Errorf("%s could not be replaced (%w); the complete data is in %s", kept.Path, kept.Err, side.Path)
}

// Close drops the rows and whatever was written and not published, except files
// that Publish had to keep.
func (s *Set) Close() error {
	problems := s.sorter.Close()
	for _, f := range s.files {
		if f != nil {
			problems = errors.Join(problems, f.Abort())
		}
	}
	return problems
}
