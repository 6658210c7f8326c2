package checkpoint

import (
	"context"
	"database/sql"
	"time"
)

// NextDue returns when the first pending item of a lane is due, which may be long ago; ok is false when the lane has no
// pending item. An item that was never put off is due since its not-before time of zero: the zero time.
func (s *Store) NextDue(ctx context.Context, run, lane string) (at time.Time, ok bool, err error) {
	const doing = "look for the next item"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return time.Time{}, false, s.fail(ctx, doing, err)
	}
	var first sql.NullInt64
	err = s.read.QueryRowContext(ctx, `SELECT min(not_before) FROM items WHERE run = ? AND lane = ? AND state = 'pending'`,
		seq, lane).Scan(&first)
	if first.Int64 > 0 {
		at = moment(first)
	}
	return at, first.Valid, s.fail(ctx, doing, err)
}
