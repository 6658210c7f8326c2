package checkpoint

import (
	"context"
	"database/sql"
)

// Release lets so many of the held items of a run go, in order of insertion; a negative number means all of them. Items
// are put on hold when they are added, or by Advance.
func (s *Store) Release(ctx context.Context, run string, n int) error {
	return s.inTx(ctx, "release held items", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		return release(ctx, tx, seq, n)
	})
}

func release(ctx context.Context, tx *sql.Tx, run int64, n int) error {
	_, err := tx.ExecContext(ctx, `UPDATE items SET held = 0 WHERE id IN
		(SELECT id FROM items WHERE run = ? AND held = 1 AND parked = 0 ORDER BY id LIMIT ?)`, run, n)
	return err
}

// Park puts all pending items of a run on hold, but those of the lane spare, and keeps them there: no release lets them go
// before Unpark.
func (s *Store) Park(ctx context.Context, run, spare string) error {
	return s.changePending(ctx, "park items", `UPDATE items SET held = 1, parked = 1 WHERE run = ? AND state = 'pending' AND lane <> ?`, run, spare)
}

// Unpark lets the parked items of a run be released like other items that are held.
func (s *Store) Unpark(ctx context.Context, run string) error {
	return s.changePending(ctx, "unpark items", `UPDATE items SET parked = 0 WHERE run = ? AND parked = 1`, run)
}

func (s *Store) changePending(ctx context.Context, doing, update, run string, args ...any) error {
	return s.inTx(ctx, doing, func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, update, append([]any{seq}, args...)...)
		return err
	})
}
