package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"time"
)

// Ledger is a small file in which the processes of one machine that use the same account tell each other what they
// send, so that none has to guess the share of the others. It is safe for use by several goroutines.
//
// It is not a checkpoint: nothing in it is worth a wait for the disk, entries age out by themselves, those of a dead
// process like all others, and a file that is lost or damaged is simply begun anew.
type Ledger struct {
	path string
	db   *sql.DB
}

// LedgerEntry is what one process sent of one lane within one slot of a tenth of a second.
type LedgerEntry struct {
	Process string
	Lane    string
	At      time.Time // the beginning of the slot
	N       int       // all of the slot so far
	version int64
}

const (
	// ledgerSlot is the precision of the ledger: sends within one slot are one entry.
	ledgerSlot = 100 * time.Millisecond
	// ledgerKeep is how long entries are kept: longer than any window, so that a process that starts sees the whole of it.
	ledgerKeep = 10 * time.Minute
)

// OpenLedger opens the ledger at path, made when it is missing.
func OpenLedger(ctx context.Context, path string) (*Ledger, error) {
	const doing = "open the ledger of sends"
	abs, err := filepath.Abs(path)
	if err == nil {
		err = create(abs)
	}
	if err != nil {
		return nil, &IOError{Path: path, Doing: doing, Err: err}
	}
	settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(2000)", "synchronous(off)", "journal_mode(wal)", "journal_size_limit(1048576)",
	}}
	db, err := sql.Open("sqlite", address(abs, runtime.GOOS == "windows")+"?"+settings.Encode())
	if err != nil {
		return nil, &IOError{Path: abs, Doing: doing, Err: err}
	}
	db.SetMaxOpenConns(1)
	l := &Ledger{path: abs, db: db}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS sends (
		seq     INTEGER PRIMARY KEY,
		account TEXT    NOT NULL,
		process TEXT    NOT NULL,
		lane    TEXT    NOT NULL,
		slot    INTEGER NOT NULL,
		n       INTEGER NOT NULL CHECK (n > 0),
		version INTEGER NOT NULL,
		UNIQUE (account, process, lane, slot)
	) STRICT;
	CREATE TABLE IF NOT EXISTS versions (account TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT;
	CREATE INDEX IF NOT EXISTS sends_by_slot ON sends (slot);
	CREATE INDEX IF NOT EXISTS sends_by_version ON sends (account, version);`)
	if err != nil {
		return nil, errors.Join(l.fail(doing, err), db.Close())
	}
	return l, nil
}

// Close gives the file back.
func (l *Ledger) Close() error { return l.db.Close() }

// Add tells that a process has sent n requests of a lane at now, and forgets what is too old to matter.
func (l *Ledger) Add(ctx context.Context, account, process, lane string, now time.Time, n int) error {
	const doing = "publish a send"
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return l.fail(doing, err)
	}
	defer tx.Rollback()
	slot := now.UnixMilli() / ledgerSlot.Milliseconds()
	// The version grows with every change, so that readers take each change once.
	var version int64
	if err := tx.QueryRowContext(ctx, `INSERT INTO versions (account, version) VALUES (?, 1)
		ON CONFLICT (account) DO UPDATE SET version = version + 1 RETURNING version`, account).Scan(&version); err != nil {
		return l.fail(doing, err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO sends (account, process, lane, slot, n, version) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (account, process, lane, slot) DO UPDATE SET n = n + excluded.n, version = excluded.version`,
		account, process, lane, slot, n, version); err != nil {
		return l.fail(doing, err)
	}
	oldest := now.Add(-ledgerKeep).UnixMilli() / ledgerSlot.Milliseconds()
	if _, err := tx.ExecContext(ctx, `DELETE FROM sends WHERE slot < ?`, oldest); err != nil {
		return l.fail(doing, err)
	}
	return l.fail(doing, tx.Commit())
}

// Since returns what the other processes of an account have on record that changed after the given version, and the
// version to ask with the next time. An entry that grew comes again with its new number: entries are told apart by
// process, lane and slot, and the caller keeps the last. Begin with version 0.
func (l *Ledger) Since(ctx context.Context, account, process string, version int64) ([]LedgerEntry, int64, error) {
	entries, err := collect(ctx, l.db, func(rows *sql.Rows) (e LedgerEntry, err error) {
		var slot int64
		err = rows.Scan(&e.Process, &e.Lane, &slot, &e.N, &e.version)
		e.At = time.UnixMilli(slot * ledgerSlot.Milliseconds()).UTC()
		return e, err
	}, `SELECT process, lane, slot, n, version FROM sends WHERE account = ? AND process <> ? AND version > ? ORDER BY version`,
		account, process, version)
	for _, e := range entries {
		version = max(version, e.version)
	}
	return entries, version, l.fail("read the ledger of sends", err)
}

// fail names the file in an error; nil stays nil.
func (l *Ledger) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", doing, l.path, err)
}
