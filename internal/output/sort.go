package output

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Order is one criterion of the order of rows.
type Order struct {
	Path       string // where the value is; see Record.Lookup
	Kind       Kind   // dates are ordered by the instant, in whatever notation they were sent
	Descending bool
}

// Ascending makes an order of paths, the first path first.
func Ascending(paths ...string) []Order {
	order := make([]Order, len(paths))
	for i, path := range paths {
		order[i].Path = path
	}
	return order
}

// SortKey gives bytes whose order is that of the values: missing and null
// before numbers by value, false, true, then text without regard to case, equal
// text by its bytes; the other way round where the order is descending. Two
// records that differ in a value have different keys.
func SortKey(rec Record, order []Order) []byte {
	var key []byte
	for _, o := range order {
		v, _ := rec.Lookup(o.Path)
		if o.Kind == KindDate {
			v = sortableDate(v)
		}
		start := len(key)
		key = appendSortKey(key, v)
		if o.Descending {
			// No value's bytes begin those of another, so that turning them
			// over turns the order over.
			for i := start; i < len(key); i++ {
				key[i] = ^key[i]
			}
		}
	}
	return key
}

// sortableDate gives a date in a notation that sorts, "no date" as null, and what
// is no date as it is.
func sortableDate(v any) any {
	t, ok := ParseDate(v)
	switch {
	case !ok:
		return v
	case t.IsZero():
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000")
}

func appendSortKey(key []byte, v any) []byte {
	const (
		classNull byte = iota + 1
		classNumber
		classBool
		classText
	)
	switch v := v.(type) {
	case nil:
		return append(key, classNull)
	case bool:
		if v {
			return append(key, classBool, 1)
		}
		return append(key, classBool, 0)
	case json.Number:
		if numbered, ok := appendNumberKey(append(key, classNumber), v.String()); ok {
			return numbered
		}
	}
	text := plain(v).Text
	key = append(key, classText)
	key = appendTerminated(key, strings.ToLower(text))
	return appendTerminated(key, text)
}

// appendTerminated ends text so that a shorter one sorts first and NULs in it
// do no harm.
func appendTerminated(key []byte, text string) []byte {
	for {
		before, after, found := strings.Cut(text, "\x00")
		key = append(key, before...)
		if !found {
			return append(key, 0, 0)
		}
		key = append(key, 0, 1)
		text = after
	}
}

const (
	// minBudget keeps a very small budget from making one run per row.
	minBudget = 256 << 10
	// entryCost is what a row costs in memory beyond its bytes.
	entryCost = 32
	blockSize = 64 << 10
	// The buffers of the runs share the budget within these bounds.
	minRunBuffer = 4 << 10
	maxRunBuffer = 256 << 10
)

// Sorter puts rows in order with bounded memory. Rows are kept encoded; when
// they reach the budget they are sorted and spilled to a temporary file, and
// [Sorter.Rows] merges. Rows with equal keys come out in the order they were
// added. Call Close in any case: it removes the file.
type Sorter struct {
	dir     string
	budget  int
	used    int
	block   []byte // free space for the next rows
	entries []entry
	file    *os.File // of all runs, one behind the other
	name    string
	runs    []run
	end     int64
	sealed  bool
	err     error
}

// entry is one encoded row: its key, then its cells.
type entry struct {
	data []byte
	key  int // length of the key
}

func (e entry) compare(other entry) int {
	return bytes.Compare(e.data[:e.key], other.data[:other.key])
}

type run struct{ start, end int64 }

// NewSorter makes a sorter that holds about budget bytes of rows in memory (at
// least 256 KiB) and spills the rest into dir, or the system's folder for
// temporary files if dir is "". No file is made unless rows are spilled. The
// file holds the rows as they are and is readable by its owner only.
func NewSorter(dir string, budget int) *Sorter {
	return &Sorter{dir: dir, budget: max(budget, minBudget)}
}

// Add takes a row and the key it is ordered by; both may be reused after the
// call.
func (s *Sorter) Add(key []byte, row []Value) error {
	if s.err != nil {
		return s.err
	}
	if s.sealed {
		return errors.New("sort rows: a row was added after reading began")
	}
	size := len(key)
	for _, v := range row {
		size += 1 + binary.MaxVarintLen32 + len(v.Text)
	}
	if len(s.entries) > 0 && s.used+size+entryCost > s.budget {
		if err := s.spill(); err != nil {
			s.err = err
			return err
		}
	}
	if size > cap(s.block)-len(s.block) {
		s.block = make([]byte, 0, max(min(blockSize, s.budget/4), size))
	}
	start := len(s.block)
	s.block = append(s.block, key...)
	for _, v := range row {
		s.block = append(s.block, byte(v.Kind))
		s.block = binary.AppendUvarint(s.block, uint64(len(v.Text)))
		s.block = append(s.block, v.Text...)
	}
	s.entries = append(s.entries, entry{s.block[start:len(s.block):len(s.block)], len(key)})
	s.used += size + entryCost
	return nil
}

func (s *Sorter) sortEntries() { slices.SortStableFunc(s.entries, entry.compare) }

// spill appends the rows in memory to the file as one sorted run.
func (s *Sorter) spill() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "rmmjob-sort-*.tmp")
		if err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
		s.file, s.name = f, f.Name()
		// Where an open file can lose its name, not even a kill leaves it behind.
		if runtime.GOOS != "windows" && os.Remove(s.name) == nil {
			s.name = ""
		}
	}
	s.sortEntries()
	w := bufio.NewWriterSize(s.file, bufferSize)
	start := s.end
	var head []byte
	for _, e := range s.entries {
		head = binary.AppendUvarint(head[:0], uint64(e.key))
		head = binary.AppendUvarint(head, uint64(len(e.data)-e.key))
		// bufio keeps the first error for Flush.
		_, _ = w.Write(head)
		_, _ = w.Write(e.data)
		s.end += int64(len(head) + len(e.data))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort rows: write temporary file in %s: %w", s.folder(), err)
	}
	s.runs = append(s.runs, run{start, s.end})
	clear(s.entries)
	s.entries, s.block, s.used = s.entries[:0], nil, 0
	return nil
}

func (s *Sorter) folder() string {
	if s.dir == "" {
		return os.TempDir()
	}
	return s.dir
}

// Rows gives the rows in order; the slice is reused from one row to the next,
// the texts in it are not. An error ends the sequence and comes with a nil row.
// Rows can be called several times, but no row can be added afterwards.
func (s *Sorter) Rows() iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		if s.err != nil {
			yield(nil, s.err)
			return
		}
		if !s.sealed {
			s.sortEntries()
			s.sealed = true
		}
		var row []Value
		emit := func(e entry) bool {
			row = decodeRow(row[:0], string(e.data[e.key:]))
			return yield(row, nil)
		}
		if err := s.merge(emit); err != nil {
			yield(nil, err)
		}
	}
}

// merge calls emit with all rows in order until it returns false.
func (s *Sorter) merge(emit func(entry) bool) error {
	if len(s.runs) == 0 {
		for _, e := range s.entries {
			if !emit(e) {
				break
			}
		}
		return nil
	}
	size := min(max(s.budget/len(s.runs), minRunBuffer), maxRunBuffer)
	var cursors cursorHeap
	for i, r := range s.runs {
		from := io.NewSectionReader(s.file, r.start, r.end-r.start)
		cursors = append(cursors, &cursor{order: i, from: bufio.NewReaderSize(from, size)})
	}
	cursors = append(cursors, &cursor{order: len(s.runs), memory: s.entries})
	live := cursors[:0]
	for _, c := range cursors {
		ok, err := c.next()
		if err != nil {
			return err
		}
		if ok {
			live = append(live, c)
		}
	}
	cursors = live
	heap.Init(&cursors)
	for len(cursors) > 0 {
		if !emit(cursors[0].entry) {
			return nil
		}
		ok, err := cursors[0].next()
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(&cursors, 0)
		default:
			heap.Pop(&cursors)
		}
	}
	return nil
}

// Close drops the rows and removes the temporary file. It can be called more
// than once.
func (s *Sorter) Close() error {
	s.entries, s.block = nil, nil
	s.err = errors.New("sort rows: the sorter is closed")
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
	}
	s.file = nil
	if err != nil {
		return fmt.Errorf("sort rows: remove temporary file: %w", err)
	}
	return nil
}

// cursor walks over one run, in the file or in memory.
type cursor struct {
	entry
	order  int
	from   *bufio.Reader
	memory []entry
}

func (c *cursor) next() (ok bool, err error) {
	if c.from == nil {
		if len(c.memory) == 0 {
			return false, nil
		}
		c.entry, c.memory = c.memory[0], c.memory[1:]
		return true, nil
	}
	key, err := binary.ReadUvarint(c.from)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sort rows: read temporary file: %w", err)
	}
	rest, err := binary.ReadUvarint(c.from)
	if err != nil {
		return false, fmt.Errorf("sort rows: read temporary file: %w", err)
	}
	c.key = int(key)
	c.data = slices.Grow(c.data[:0], int(key+rest))[:key+rest]
	if _, err := io.ReadFull(c.from, c.data); err != nil {
		return false, fmt.Errorf("sort rows: read temporary file: %w", err)
	}
	return true, nil
}

type cursorHeap []*cursor

func (h cursorHeap) Len() int { return len(h) }
func (h cursorHeap) Less(i, j int) bool {
	if c := h[i].compare(h[j].entry); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(x any)   { *h = append(*h, x.(*cursor)) }
func (h *cursorHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// decodeRow appends the cells that Add encoded. All texts share one string.
func decodeRow(row []Value, data string) []Value {
	for data != "" {
		kind := Kind(data[0])
		size, n := uvarint(data[1:])
		data = data[1+n:]
		row = append(row, Value{kind, data[:size]})
		data = data[size:]
	}
	return row
}

// uvarint is binary.Uvarint for a string that is known to hold one.
func uvarint(s string) (v, n int) {
	for shift := 0; ; shift += 7 {
		b := s[n]
		n++
		v |= int(b&0x7f) << shift
		if b < 0x80 {
			return v, n
		}
	}
}
