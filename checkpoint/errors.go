package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Sentinels for the cases in which a caller does something else than report.
var (
	// ErrNotFound says that no run, or no item, has that id, prefix or key.
	ErrNotFound = errors.New("not found")
	// ErrExists says that the id of a new run is taken.
	ErrExists = errors.New("exists already")
	// ErrLost says that a claim does not hold any more: the item was settled by somebody else. Nothing was changed.
	ErrLost = errors.New("the claim is lost: the item was settled by somebody else")
	// ErrSuperseded says that the run was closed in favour of a newer one and cannot begin again.
	ErrSuperseded = errors.New("the run was superseded by a newer one")
	// ErrNetworkFolder is the cause inside an *IOError when the file would lie on a network file system, where the
	// locks and the shared memory of SQLite do not work reliably.
	ErrNetworkFolder = errors.New("on a network file system; keep the state folder on a local disk")
)

// CorruptError says that the file is damaged or is not a checkpoint. The program has not changed, moved or deleted it.
type CorruptError struct {
	Path string // absolute path of the file
	Err  error  // what was found
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("checkpoint %s is damaged: %v; it was left as it is: put back a backup, "+
		"or move it away (with its -wal and -shm files) and start afresh", e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// VersionError says that a newer program has written the file. It was not changed.
type VersionError struct {
	Path        string
	Have, Known int // schema version of the file, and the highest one this program knows
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("checkpoint %s has schema version %d and this program knows versions up to %d: "+
		"use the newer program, or another state folder", e.Path, e.Have, e.Known)
}

// IOError says that the file, its folder or its disk does not allow what was asked: no space, no permission, a lock that
// another process does not let go, a device that fails. The checkpoint is as it was before.
type IOError struct {
	Path  string // absolute path of the file
	Doing string // what was being done: "add items"
	Err   error
}

func (e *IOError) Error() string {
	msg := fmt.Sprintf("%s: %s: %v", e.Doing, e.Path, e.Err)
	if hint := hints[code(e.Err)&0xff]; hint != "" {
		msg += ": " + hint
	}
	return msg
}

func (e *IOError) Unwrap() error { return e.Err }

// hints holds, for each SQLite result code that is about the outside world, what to do next.
var hints = map[int]string{
	sqlite3.SQLITE_FULL:     "free some space on that disk and resume",
	sqlite3.SQLITE_READONLY: "the file and its folder must be writable",
	sqlite3.SQLITE_CANTOPEN: "the file and its folder must be writable",
	sqlite3.SQLITE_PERM:     "the file and its folder must be writable",
	sqlite3.SQLITE_IOERR:    "check the disk and its space, then resume",
	sqlite3.SQLITE_NOLFS:    "the file is too large for that file system",
	sqlite3.SQLITE_PROTOCOL: "the folder's file system cannot lock files; keep the state folder on a local disk",
	sqlite3.SQLITE_BUSY:     "another process keeps it locked; try again when that is done",
	sqlite3.SQLITE_LOCKED:   "another process keeps it locked; try again when that is done",
}

// StageError says that a run was not in the stage that Advance was to leave. Nothing was changed.
type StageError struct {
	Run        string
	Want, Have string
}

func (e *StageError) Error() string {
	return fmt.Sprintf("run %s is in stage %q, not in %q", e.Run, e.Have, e.Want)
}

// AmbiguousError says that a prefix fits several runs.
type AmbiguousError struct {
	Prefix string
	IDs    []string // oldest first, at most ten
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("run %q is ambiguous: give more of one of %s", e.Prefix, strings.Join(e.IDs, ", "))
}

// code returns the extended SQLite result code inside err, 0 when there is none.
func code(err error) int {
	if se, ok := errors.AsType[*sqlite.Error](err); ok {
		return se.Code()
	}
	return 0
}

// fail turns whatever a statement returned into one of the errors above. It leaves nil and typed errors alone and
// prefers the context's own error to the noise that a cancelled statement makes.
func (s *Store) fail(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, is := range []func(error) bool{is[*CorruptError], is[*VersionError], is[*IOError], is[*StageError]} {
		if is(err) {
			return err // says all by itself
		}
	}
	primary := code(err) & 0xff
	if ctx.Err() != nil && (primary == 0 || primary == sqlite3.SQLITE_INTERRUPT || primary == sqlite3.SQLITE_BUSY) {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	switch primary {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &CorruptError{Path: s.path, Err: err}
	default:
		if _, ok := hints[primary]; ok {
			return &IOError{Path: s.path, Doing: doing, Err: err}
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// is reports whether err is, or wraps, an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
