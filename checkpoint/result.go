package checkpoint

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"
)

// Result is an item together with its answer.
type Result struct {
	Key     string
	Op      string
	Payload []byte
	Body    []byte // nil when there is none
	State   State
	Class   string // kind of failure
	Reason  string
	HTTP    int // status of the answer that the reason is about; 0 when there was none

	Unsure   bool      // see [Item]
	Parked   bool      // it is left out of what is sent; see [Store.Park]
	Finished time.Time // when the item came to its state; zero while it is under way
}

// Results walks the items of a run whose keys begin with prefix, whatever their state, in the byte order of their keys,
// each with its answer. An error is the last thing it yields. It reads a page at a time: what changes during the walk
// may be seen or not, what was finished before is seen as it was.
func (s *Store) Results(ctx context.Context, run, keyPrefix string) iter.Seq2[Result, error] {
	const doing = "read results"
	return func(yield func(Result, error) bool) {
		seq, err := runSeq(ctx, s.read, run)
		if err != nil {
			yield(Result{}, s.fail(ctx, doing, err))
			return
		}
		query := `SELECT i.key, i.op, i.payload, i.state, i.class, i.reason, i.http, i.finished, i.unsure, i.parked, r.encoding, coalesce(r.size, 0), r.body
			FROM items i LEFT JOIN results r ON r.item = i.id WHERE i.run = ? AND i.key %s ? ORDER BY i.key`
		first, next := fmt.Sprintf(query, ">="), fmt.Sprintf(query, ">")
		paged(func(after *Result) ([]Result, error) {
			query, from := first, keyPrefix
			if after != nil {
				query, from = next, after.Key
			}
			rows, err := s.read.QueryContext(ctx, query, seq, from)
			return page(rows, err, func(rows *sql.Rows) (r Result, size int, err error) {
				var encoding sql.NullString
				var stored sql.RawBytes
				var finished sql.NullInt64
				if err := rows.Scan(&r.Key, &r.Op, &r.Payload, &r.State, &r.Class, &r.Reason, &r.HTTP, &finished, &r.Unsure, &r.Parked, &encoding, &size, &stored); err != nil {
					return r, 0, err
				}
				r.Finished = moment(finished)
				if !strings.HasPrefix(r.Key, keyPrefix) {
					return r, 0, errEnd
				}
				if encoding.Valid {
					if r.Body, err = decode(encoding.String, stored, size); err != nil {
						err = &CorruptError{Path: s.path, Err: fmt.Errorf("answer of item %q: %w", r.Key, err)}
					}
				}
				return r, size + len(r.Payload), err
			})
		}, func(err error) error { return s.fail(ctx, doing, err) })(yield)
	}
}

// errEnd is what the scan function of page returns for a row beyond the end.
var errEnd = errors.New("end")

// A page ends after this many rows, or with the row that makes it this many bytes.
const (
	pageRows  = 512
	pageBytes = 1 << 20
)

// page scans rows until a page is full and closes them.
func page[T any](rows *sql.Rows, err error, scan func(*sql.Rows) (v T, size int, err error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for size := 0; len(all) < pageRows && size < pageBytes && rows.Next(); {
		v, n, err := scan(rows)
		if errors.Is(err, errEnd) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		size += n
	}
	return all, rows.Err()
}

// paged makes one sequence of the pages that fetch returns, each of which begins after the last element of the one
// before. Nothing is held while the consumer works: no statement, no connection, and no snapshot that would keep the
// write-ahead log from being folded into the file.
func paged[T any](fetch func(after *T) ([]T, error), wrap func(error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for {
			all, err := fetch(last)
			if err != nil {
				var none T
				yield(none, wrap(err))
				return
			}
			if len(all) == 0 {
				return
			}
			for _, v := range all {
				if !yield(v, nil) {
					return
				}
			}
			end := all[len(all)-1] // the others are not needed while the next page is read
			last = &end
		}
	}
}

// Bodies shorter than this are not worth compressing.
const rawBelow = 256

// compressors are kept because a new one costs more memory than most bodies.
var compressors = sync.Pool{New: func() any {
	w, err := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// encode returns a body as it is stored: compressed where that makes it smaller.
func encode(body []byte) (encoding string, stored []byte) {
	if len(body) < rawBelow {
		return "raw", body
	}
	var buf bytes.Buffer
	w := compressors.Get().(*zlib.Writer)
	defer compressors.Put(w)
	w.Reset(&buf)
	_, err := w.Write(body)
	if err = errors.Join(err, w.Close()); err != nil || buf.Len() >= len(body) { // into memory: cannot really fail
		return "raw", body
	}
	return "zlib", buf.Bytes()
}

// decode is the way back. It never makes more of a damaged answer than its recorded size.
func decode(encoding string, stored []byte, size int) ([]byte, error) {
	if encoding == "raw" {
		return bytes.Clone(stored), nil
	}
	r, err := zlib.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF { // reading to the end also checks the sum
		return nil, errors.Join(errors.New("longer than recorded"), err)
	}
	return body, nil
}
