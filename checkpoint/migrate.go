package checkpoint

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID marks a SQLite file as ours ("RMMJ"); the first migration writes it.
const applicationID = 0x524D4D4A

//go:embed migrations/*.sql
var embedded embed.FS

// migrations returns the steps of this program: files named NNNN_what.sql, numbered from 1 without gaps. A step that has
// been released is never edited; a change of the schema is a new step.
func migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// migrate makes an empty file a checkpoint and an older checkpoint a current one, each step in a transaction of its own,
// so that a kill leaves a file of one version or the next. It touches nothing before it knows that the file is ours.
func (s *Store) migrate(ctx context.Context, steps fs.FS) error {
	names, err := fs.Glob(steps, "*.sql") // sorted
	if err != nil {
		return err
	}
	for i, name := range names {
		if n, err := strconv.Atoi(strings.SplitN(path.Base(name), "_", 2)[0]); err != nil || n != i+1 {
			return fmt.Errorf("migration %s is not number %d", name, i+1)
		}
	}
	if _, err := s.version(ctx, s.write, len(names)); err != nil {
		return err
	}
	if err := s.useWAL(ctx); err != nil {
		return err
	}
	for {
		// At the current version this still begins to write: so a file or folder that cannot be written is found out now,
		// and not after the first request.
		current, err := s.step(ctx, steps, names)
		if err != nil || current {
			return err
		}
	}
}

// step applies the next migration, if there is one, and reports whether the schema was current. Another process may
// have been faster, so it looks again under the lock.
func (s *Store) step(ctx context.Context, steps fs.FS, names []string) (current bool, err error) {
	err = s.inTx(ctx, "open the checkpoint", func(tx *sql.Tx) error {
		have, err := s.version(ctx, tx, len(names))
		if err != nil {
			return err
		}
		if have == len(names) {
			current = true
			// SQLite opens a file that it may not write for reading, and says so at the first write only.
			_, err := tx.ExecContext(ctx, `UPDATE runs SET id = id WHERE false`)
			return err
		}
		script, err := fs.ReadFile(steps, names[have])
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("%s: %w", names[have], err)
		}
		_, err = tx.ExecContext(ctx, `PRAGMA user_version = `+strconv.Itoa(have+1))
		return err
	})
	return current, err
}

// version returns the schema version of the file, 0 for an empty one. A file of somebody else, or of a newer program, is
// an error.
func (s *Store) version(ctx context.Context, q querier, known int) (int, error) {
	var app, version, tables int
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID || version < 1:
		return 0, &CorruptError{Path: s.path, Err: errors.New("it is a database of another program")}
	case version > known:
		return 0, &VersionError{Path: s.path, Have: version, Known: known}
	}
	return version, nil
}

// useWAL switches the file to write-ahead logging. This is a property of the file, not of a connection, which is why it
// is not in the address. Two processes that make the file at the same time can get in each other's way here, and SQLite
// does not always wait by itself then.
func (s *Store) useWAL(ctx context.Context) error {
	const patience, pause = 30 * time.Second, 20 * time.Millisecond
	enough := time.After(patience)
	for {
		var mode string
		err := s.write.QueryRowContext(ctx, `PRAGMA journal_mode = wal`).Scan(&mode)
		if err == nil && mode != "wal" {
			return &IOError{Path: s.path, Doing: "open the checkpoint", Err: fmt.Errorf(
				"its file system does not allow write-ahead logging (journal mode stays %q); keep the state folder on a local disk", mode)}
		}
		if code(err)&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-enough:
			return err
		case <-time.After(pause):
		}
	}
}
