package checkpoint

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Event is one line of a run's history: a pause, a resume, a warning.
type Event struct {
	At   time.Time
	Kind string // a word, not empty
	Text string
}

// AddEvent adds a line to the history of a run.
func (s *Store) AddEvent(ctx context.Context, run string, at time.Time, kind, text string) error {
	return s.inTx(ctx, "add an event", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO events (run, at, kind, text) VALUES (?, ?, ?, ?)`, seq, millis(at), kind, text)
		return err
	})
}

// Events returns the last events of a run, at most limit of them (all if limit is 0), in the order in which they were added.
func (s *Store) Events(ctx context.Context, run string, limit int) ([]Event, error) {
	const doing = "list events"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	events, err := collect(ctx, s.read, func(rows *sql.Rows) (e Event, err error) {
		var at sql.NullInt64
		err = rows.Scan(&at, &e.Kind, &e.Text)
		e.At = moment(at)
		return e, err
	}, `SELECT at, kind, text FROM events WHERE run = ? ORDER BY seq DESC LIMIT ?`, seq, bound(limit))
	slices.Reverse(events)
	return events, s.fail(ctx, doing, err)
}
