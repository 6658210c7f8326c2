package checkpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"
)

// NewRow is what a plan says about one record of the input.
type NewRow struct {
	Number  int    // of the record; unique in the run
	Class   string // what the plan makes of it; not empty
	ItemKey string // the item that carries it out; empty when none does
	Payload []byte
}

// Row is a plan row together with what became of its item. The item fields are zero when it has none (yet).
type Row struct {
	NewRow
	ItemState      State
	ItemReason     string
	ItemErrorClass string
	ItemHTTP       int
	ItemAttempts   int
	ItemUnsure     bool
}

// Change is what a run gets when it goes from one stage to another. All of it is optional.
type Change struct {
	Items  iter.Seq[NewItem] // those whose keys the run has already are left out
	Rows   iter.Seq[NewRow]  // a row whose number the run has replaces the old one
	Settle iter.Seq[Settled]
	// Release lets so many of the held items go, in order of insertion; a negative number means all of them. The new items
	// are among them, those that Settle has settled are not.
	Release int
	// Hold first puts all pending items on hold, but those of the lane Spare.
	Hold  bool
	Spare string
	// Revise gives pending items another payload; an item in any other state stays as it is.
	Revise iter.Seq[Revised]
}

// Revised is the new payload of an item.
type Revised struct {
	Key     string
	Payload []byte
}

// Advance takes a run from one stage to another and changes its items and plan rows, in one transaction: all of it
// happens, or nothing. A run that is not in stage from gives *StageError, so of two attempts only one succeeds.
//
// The sequences are consumed inside the transaction and in bounded memory. They may read from the Store, but not write
// to it: they would wait for their own transaction. Other writers wait meanwhile, about two seconds for 100,000 items
// and rows; so what takes long to compute is better computed before.
func (s *Store) Advance(ctx context.Context, run string, now time.Time, from, to string, c Change) error {
	if from == to {
		return fmt.Errorf("advance run %s: from stage %q to itself", run, to)
	}
	return s.inTx(ctx, fmt.Sprintf("advance run %s to stage %q", run, to), func(tx *sql.Tx) error {
		var seq int64
		var have string
		if err := tx.QueryRowContext(ctx, `SELECT seq, stage FROM runs WHERE id = ?`, run).Scan(&seq, &have); err != nil {
			return missing(err, "run "+run)
		}
		if have != from {
			return &StageError{Run: run, Want: from, Have: have}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE runs SET stage = ? WHERE seq = ?`, to, seq); err != nil {
			return err
		}
		return c.apply(ctx, tx, seq, now)
	})
}

func (c Change) apply(ctx context.Context, tx *sql.Tx, run int64, now time.Time) error {
	if c.Hold {
		if _, err := tx.ExecContext(ctx, `UPDATE items SET held = 1 WHERE run = ? AND state = 'pending' AND lane <> ?`, run, c.Spare); err != nil {
			return err
		}
	}
	if c.Revise != nil {
		if err := revise(ctx, tx, run, c.Revise); err != nil {
			return err
		}
	}
	if c.Settle != nil {
		if _, err := settleItems(ctx, tx, run, now, c.Settle); err != nil {
			return err
		}
	}
	if c.Items != nil {
		in, err := newInserter(ctx, tx, run, now)
		if err != nil {
			return err
		}
		defer in.close()
		for n := range c.Items {
			if _, err := in.add(ctx, n); err != nil {
				return err
			}
		}
	}
	if c.Release != 0 {
		if err := release(ctx, tx, run, c.Release); err != nil {
			return err
		}
	}
	if c.Rows != nil {
		return addRows(ctx, tx, run, c.Rows)
	}
	return nil
}

func revise(ctx context.Context, tx *sql.Tx, run int64, items iter.Seq[Revised]) error {
	for it := range items {
		if _, err := tx.ExecContext(ctx, `UPDATE items SET payload = ? WHERE run = ? AND key = ? AND state = 'pending'`, it.Payload, run, it.Key); err != nil {
			return fmt.Errorf("item %q: %w", it.Key, err)
		}
	}
	return nil
}

func addRows(ctx context.Context, tx *sql.Tx, run int64, rows iter.Seq[NewRow]) error {
	stmt, err := tx.PrepareContext(ctx, `INSERT OR REPLACE INTO plan_rows (run, number, class, item_key, payload) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for r := range rows {
		if err := addRow(ctx, stmt, run, r); err != nil {
			return fmt.Errorf("row %d: %w", r.Number, err)
		}
	}
	return nil
}

func addRow(ctx context.Context, stmt *sql.Stmt, run int64, r NewRow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := stmt.ExecContext(context.WithoutCancel(ctx), run, r.Number, r.Class, r.ItemKey, r.Payload) // as in inserter.add
	return err
}

// Rows walks the plan rows of a run in the order of their numbers. An error is the last thing it yields. It reads a page
// at a time, like Results.
func (s *Store) Rows(ctx context.Context, run string) iter.Seq2[Row, error] {
	const doing = "read plan rows"
	return func(yield func(Row, error) bool) {
		seq, err := runSeq(ctx, s.read, run)
		if err != nil {
			yield(Row{}, s.fail(ctx, doing, err))
			return
		}
		const query = `SELECT p.number, p.class, p.item_key, p.payload, coalesce(i.state, ''), coalesce(i.reason, ''),
			coalesce(i.class, ''), coalesce(i.http, 0), coalesce(i.attempts, 0), coalesce(i.unsure, 0)
			FROM plan_rows p LEFT JOIN items i ON i.run = p.run AND i.key = p.item_key
			WHERE p.run = ? AND p.number %s ? ORDER BY p.number`
		first, next := fmt.Sprintf(query, ">="), fmt.Sprintf(query, ">")
		paged(func(after *Row) ([]Row, error) {
			query, from := first, math.MinInt
			if after != nil {
				query, from = next, after.Number
			}
			rows, err := s.read.QueryContext(ctx, query, seq, from)
			return page(rows, err, func(rows *sql.Rows) (r Row, size int, err error) {
				err = rows.Scan(&r.Number, &r.Class, &r.ItemKey, &r.Payload, &r.ItemState, &r.ItemReason, &r.ItemErrorClass,
					&r.ItemHTTP, &r.ItemAttempts, &r.ItemUnsure)
				return r, len(r.Payload), err
			})
		}, func(err error) error { return s.fail(ctx, doing, err) })(yield)
	}
}

// RowCounts returns how many plan rows there are of each class.
func (s *Store) RowCounts(ctx context.Context, run string) (map[string]int, error) {
	const doing = "count plan rows"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	counts := map[string]int{}
	_, err = collect(ctx, s.read, func(rows *sql.Rows) (struct{}, error) {
		var class string
		var n int
		err := rows.Scan(&class, &n)
		counts[class] = n
		return struct{}{}, err
	}, `SELECT class, count(*) FROM plan_rows WHERE run = ? GROUP BY class`, seq)
	return counts, s.fail(ctx, doing, err)
}

// RowsOf returns for each of the given items that has plan rows the first of these, by the key of the item.
func (s *Store) RowsOf(ctx context.Context, run string, keys []string) (map[string]NewRow, error) {
	const doing = "read plan rows of items"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	rows, err := collect(ctx, s.read, func(rows *sql.Rows) (r NewRow, err error) {
		err = rows.Scan(&r.Number, &r.Class, &r.ItemKey, &r.Payload)
		return r, err
	}, `SELECT min(number), class, item_key, payload FROM plan_rows
		WHERE run = ? AND item_key IN (SELECT value FROM json_each(?)) GROUP BY item_key`, seq, string(list))
	first := make(map[string]NewRow, len(rows))
	for _, r := range rows {
		first[r.ItemKey] = r
	}
	return first, s.fail(ctx, doing, err)
}
