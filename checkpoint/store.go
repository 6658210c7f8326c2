package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver named "sqlite"
)

// Store is an open checkpoint. It is safe for use by several goroutines. Open makes one, Close ends it.
type Store struct {
	path  string
	write *sql.DB // one connection: SQLite has one writer, and waiting in Go is fairer than waiting for a file lock
	read  *sql.DB // a few query_only connections
}

// readers is the size of the read-only pool: a progress display, an export and a report can read side by side.
const readers = 4

// Open opens the checkpoint at path and brings its schema up to date. A file that does not exist, or is empty, becomes a
// new checkpoint, readable by its owner only; missing folders are made the same way. An existing folder is left as it is.
//
// Errors: *CorruptError for a damaged file or one that is no checkpoint (it is left untouched), *VersionError for one
// written by a newer program, *IOError when the file cannot be used where it is, which includes network folders.
func Open(ctx context.Context, path string) (*Store, error) {
	return open(ctx, path, migrations())
}

func open(ctx context.Context, path string, steps fs.FS) (_ *Store, err error) {
	const doing = "open the checkpoint"
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &IOError{Path: path, Doing: doing, Err: err}
	}
	s := &Store{path: abs}
	switch err := create(abs); {
	case errors.Is(err, errShort):
		return nil, &CorruptError{Path: abs, Err: err}
	case err != nil:
		return nil, &IOError{Path: abs, Doing: doing, Err: err}
	}
	if fsName := networkFolder(filepath.Dir(abs)); fsName != "" {
		return nil, &IOError{Path: abs, Doing: doing, Err: fmt.Errorf("%w (%s)", ErrNetworkFolder, fsName)}
	}
	defer func() {
		if err != nil {
			_ = s.Close() // err says why
		}
	}()

	// Settings of a connection go into its address, where they reach every connection the pool ever makes.
	common := url.Values{"_pragma": {"busy_timeout(30000)", "foreign_keys(1)"}}
	writing := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{
		"synchronous(full)", "cache_size(-16384)", "journal_size_limit(16777216)",
	}, common["_pragma"]...)}
	reading := url.Values{"_pragma": append([]string{"query_only(1)"}, common["_pragma"]...)}
	if s.write, err = sql.Open("sqlite", address(abs, runtime.GOOS == "windows")+"?"+writing.Encode()); err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	if s.read, err = sql.Open("sqlite", address(abs, runtime.GOOS == "windows")+"?"+reading.Encode()); err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	s.write.SetMaxOpenConns(1)
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)

	if err := s.migrate(ctx, steps); err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	return s, nil
}

// Close gives the file back. The last one to close it folds the write-ahead log into it.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return s.fail(context.Background(), "close the checkpoint", errors.Join(errs...))
}

// Path returns the absolute path of the file.
func (s *Store) Path() string { return s.path }

// Verify reads the whole file and returns a *CorruptError when its structure is damaged. It takes about a second for
// each 100 MB, so it is for a check-up and not for every start.
func (s *Store) Verify(ctx context.Context) error {
	const doing = "verify the checkpoint"
	var found string
	if err := s.read.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found); err != nil {
		return s.fail(ctx, doing, err)
	}
	if found != "ok" {
		return &CorruptError{Path: s.path, Err: errors.New(strings.ReplaceAll(found, "\n", " "))}
	}
	return nil
}

// creating guards the moment between making a file and closing it: on Unix, closing any descriptor of a file drops all
// locks this process has on it, also those of another Store that opened it meanwhile.
var creating sync.Mutex

// errShort is create's answer to a file with something in it that SQLite would take for new all the same.
var errShort = errors.New("it is too short for a database")

// create makes the file and its folder when they are missing, and closes an existing file to other users.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() > 0 && info.Size() < 512: // the smallest page
		return errShort
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

// address writes an absolute path as the URI that SQLite takes, in which ? # % and blanks mean nothing special.
func address(path string, windows bool) string {
	if windows {
		path = strings.ReplaceAll(path, `\`, `/`)
		if unc, ok := strings.CutPrefix(path, "//?/UNC/"); ok {
			path = "//" + unc
		}
		path = strings.TrimPrefix(path, "//?/")
		if !strings.HasPrefix(path, "/") {
			path = "/" + path // C:/x is file:///C:/x
		}
	}
	return (&url.URL{Scheme: "file", OmitHost: false, Path: path}).String()
}

// inTx runs f in one immediate transaction: all of it happens, or nothing.
func (s *Store) inTx(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return s.fail(ctx, doing, err)
	}
	return s.fail(ctx, doing, tx.Commit())
}

// querier is what a transaction and a pool have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// collect runs a query and scans every row of the answer.
func collect[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// millis turns a moment into what the file holds; the zero time becomes NULL.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// millisUp is millis for "not before": rounded up, so that nothing is due too early, and never 0, which means "at once".
func millisUp(t time.Time) int64 {
	if t.IsZero() {
		return 1
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 && ms < math.MaxInt64 {
		ms++
	}
	return max(ms, 1)
}

// moment is the way back from millis.
func moment(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
