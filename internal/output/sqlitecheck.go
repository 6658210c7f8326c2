package output

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
)

// Results of SQLite that people can do something about.
const (
	sqliteBusy    = 5
	sqliteLocked  = 6
	sqliteDamaged = 11
	sqliteForeign = 26
)

// sqliteResult is the primary result of SQLite that an error carries; 0 for none.
func sqliteResult(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// databaseFault says in plain words what is the matter with the database that an
// output holds; the caller names it.
func databaseFault(err error) error {
	switch sqliteResult(err) {
	case sqliteForeign:
		return errors.New("it is no SQLite database: name another file or move it away")
	case sqliteDamaged:
		return errors.New("the database is damaged: restore it, or move it away for a new one")
	case sqliteBusy, sqliteLocked:
		return errors.New("another program has locked the database, such as one with changes that are not saved yet: close it there and go on")
	}
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// CheckDatabase finds out, before any request is sent, whether the file at path is a
// SQLite database that can be read whole. One that is not there, or empty, will be
// made; one that is in use may be free by the time it is needed.
func CheckDatabase(path string) (err error) {
	target, err := resolveTarget(path)
	if err != nil {
		return troubleWith("check output", path, err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() == 0 {
		return nil //nolint:nilerr // nothing is there, or what Check has told already
	}
	db, err := sql.Open("sqlite", sqliteAddress(target, "mode=ro"))
	if err != nil {
		return troubleWith("check output", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var found string
	err = db.QueryRowContext(context.Background(), "PRAGMA quick_check(1)").Scan(&found)
	switch code := sqliteResult(err); {
	case code == sqliteForeign, code == sqliteDamaged:
		return troubleWith("check output", path, databaseFault(err))
	case err == nil && found != "ok":
		return troubleWith("check output", path, fmt.Errorf("the database is damaged (%s): restore it, or move it away for a new one", found))
	}
	return nil
}
