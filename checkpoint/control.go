package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Control is something that somebody asks of a working run from another process. What a verb means is the caller's
// business.
type Control struct {
	ID       int64 // in the order in which they were posted; PostControl gives it
	At       time.Time
	Verb     string // a word, not empty
	Argument string
}

// PostControl leaves a control for the process that works on a run and returns its number.
func (s *Store) PostControl(ctx context.Context, run string, at time.Time, verb, argument string) (id int64, err error) {
	err = s.inTx(ctx, "post a control", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO controls (run, at, verb, argument) VALUES (?, ?, ?, ?)`, seq, millis(at), verb, argument)
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	return id, err
}

// TakeControls returns the controls of a run that nobody has taken yet, in the order in which they were posted, and
// marks them as taken: each is returned once, whoever asks. Where there are none it only reads, so it may be called
// often.
func (s *Store) TakeControls(ctx context.Context, run string, now time.Time) ([]Control, error) {
	const doing = "take controls"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	var waiting bool
	err = s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM controls WHERE run = ? AND taken IS NULL)`, seq).Scan(&waiting)
	if err != nil || !waiting {
		return nil, s.fail(ctx, doing, err)
	}
	var taken []Control
	err = s.inTx(ctx, doing, func(tx *sql.Tx) error {
		taken, err = collect(ctx, tx, func(rows *sql.Rows) (c Control, err error) {
			var at sql.NullInt64
			err = rows.Scan(&c.ID, &at, &c.Verb, &c.Argument)
			c.At = moment(at)
			return c, err
		}, `SELECT seq, at, verb, argument FROM controls WHERE run = ? AND taken IS NULL ORDER BY seq`, seq)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE controls SET taken = ? WHERE run = ? AND taken IS NULL`, millis(now), seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// ControlTaken tells when a control was taken: the zero time while it was not. A number that was never given, or whose
// run has been deleted, is ErrNotFound.
func (s *Store) ControlTaken(ctx context.Context, id int64) (time.Time, error) {
	var taken sql.NullInt64
	err := s.read.QueryRowContext(ctx, `SELECT taken FROM controls WHERE seq = ?`, id).Scan(&taken)
	return moment(taken), s.fail(ctx, "look after a control", missing(err, fmt.Sprintf("control %d", id)))
}

// SetLive replaces what a run tells of itself while it works. It survives the process: after a crash it is the last that
// was known.
func (s *Store) SetLive(ctx context.Context, run string, at time.Time, status []byte) error {
	return s.inTx(ctx, "set the live status", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO live (run, at, status) VALUES (?, ?, ?)
			ON CONFLICT (run) DO UPDATE SET at = excluded.at, status = excluded.status`, seq, millis(at), append([]byte{}, status...))
		return err
	})
}

// Live returns what a run last told of itself and when; false when it never did.
func (s *Store) Live(ctx context.Context, run string) (status []byte, at time.Time, ok bool, err error) {
	const doing = "read the live status"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, time.Time{}, false, s.fail(ctx, doing, err)
	}
	var ms sql.NullInt64
	err = s.read.QueryRowContext(ctx, `SELECT at, status FROM live WHERE run = ?`, seq).Scan(&ms, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, time.Time{}, false, nil
	}
	return status, moment(ms), err == nil, s.fail(ctx, doing, err)
}
