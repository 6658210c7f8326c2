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
		(SELECT id FROM items WHERE run = ? AND held = 1 ORDER BY id LIMIT ?)`, run, n)
	return err
}
