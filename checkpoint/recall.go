package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"
)

// LaneMemory is the lane of items whose answers are to be taken from a memory. Recall settles them, so they are never
// claimed; those it has settled stay in the lane, by which Recalled counts them.
const LaneMemory = "memory"

// Topic names remembered answers: all pages of one list, or a single answer. The stamp tells whether they still hold.
type Topic struct {
	Name  string
	Stamp string
	Pages int
	Bytes int64 // in the file

	Skipped bool // there was no answer to keep, only that the item did not apply
}

// Keep says which items of a run make a topic, in the order of its pages.
type Keep struct {
	Topic string
	Stamp string
	Keys  []string
}

// KeepAnswers takes topics over from the answers of a run into a memory; a topic that is there already is replaced. Items
// that are neither done nor skipped are an error. It works in batches; each topic is whole or as it was.
func (s *Store) KeepAnswers(ctx context.Context, m Memory, run string, topics iter.Seq2[Keep, error]) error {
	const doing, most = "keep answers for the next run", 50
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	var batch []Keep
	flush := func() error {
		err := s.inTx(ctx, doing, func(tx *sql.Tx) error {
			for _, k := range batch {
				if err := keep(ctx, tx, m.ID, seq, k); err != nil {
					return fmt.Errorf("%s: %w", k.Topic, err)
				}
			}
			return nil
		})
		batch = batch[:0]
		return err
	}
	for k, err := range topics {
		if err != nil {
			return err
		}
		if batch = append(batch, k); len(batch) == most {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func keep(ctx context.Context, tx *sql.Tx, memory, run int64, k Keep) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM memory_answers WHERE memory = ? AND topic = ?`, memory, k.Topic); err != nil {
		return err
	}
	for page, key := range k.Keys {
		// The body goes from one table to the other as it is stored.
		n, err := affected(tx.ExecContext(ctx, `INSERT INTO memory_answers (memory, topic, page, stamp, payload, state, reason, http, encoding, size, body)
			SELECT ?1, ?2, ?3, ?4, i.payload, i.state, i.reason, i.http, r.encoding, r.size, r.body
			FROM items i LEFT JOIN results r ON r.item = i.id
			WHERE i.run = ?5 AND i.key = ?6 AND i.state IN ('done', 'skipped')`, memory, k.Topic, page, k.Stamp, run, key))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("item %q has no answer: %w", key, ErrNotFound)
		}
	}
	return nil
}

// Topics lists the remembered topics by name.
func (s *Store) Topics(ctx context.Context, m Memory) ([]Topic, error) {
	topics, err := collect(ctx, s.read, func(rows *sql.Rows) (t Topic, err error) {
		err = rows.Scan(&t.Name, &t.Stamp, &t.Pages, &t.Bytes, &t.Skipped)
		return t, err
	}, `SELECT topic, max(stamp), count(*), sum(coalesce(length(body), 0)), max(state = 'skipped') FROM memory_answers WHERE memory = ? GROUP BY topic ORDER BY topic`, m.ID)
	return topics, s.fail(ctx, "list remembered answers", err)
}

// DropTopics forgets topics by name.
func (s *Store) DropTopics(ctx context.Context, m Memory, names []string) error {
	const doing, most = "forget answers", 200
	for len(names) > 0 {
		part := names[:min(most, len(names))]
		names = names[len(part):]
		err := s.inTx(ctx, doing, func(tx *sql.Tx) error {
			for _, name := range part {
				if _, err := tx.ExecContext(ctx, `DELETE FROM memory_answers WHERE memory = ? AND topic = ?`, m.ID, name); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Recollection says where the answer of an item in LaneMemory is remembered.
type Recollection struct {
	Key   string           // of the item, which stands for the first page
	Topic string           // empty when there can be none
	Lane  string           // where the item waits to be sent if nothing is remembered
	Page  func(int) string // key of the item of a further page, from 1 on
}

// Waiting returns at most limit items that wait in LaneMemory, in order of insertion.
func (s *Store) Waiting(ctx context.Context, run string, limit int) ([]Item, error) {
	const doing = "list items to be remembered"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	items, err := collect(ctx, s.read, scanItemRow, `SELECT `+itemColumns+` FROM items
		WHERE run = ? AND lane = 'memory' AND state = 'pending' ORDER BY id LIMIT ?`, seq, bound(limit))
	return items, s.fail(ctx, doing, err)
}

// Recall settles items of LaneMemory with what the memory holds, in one transaction: each takes over state and answer of
// its topic, further pages become items of their own. An item whose topic is not there moves to its lane, to be sent. It
// returns how many items were settled, further pages included.
func (s *Store) Recall(ctx context.Context, run string, memory int64, now time.Time, items []Recollection) (settled int, err error) {
	err = s.inTx(ctx, "recall answers", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		for _, it := range items {
			n, err := recall(ctx, tx, seq, memory, now, it)
			if err != nil {
				return fmt.Errorf("item %q: %w", it.Key, err)
			}
			settled += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return settled, nil
}

func recall(ctx context.Context, tx *sql.Tx, run, memory int64, now time.Time, it Recollection) (int, error) {
	type place struct{ page, row int64 }
	places, err := collect(ctx, tx, func(rows *sql.Rows) (p place, err error) {
		err = rows.Scan(&p.page, &p.row)
		return p, err
	}, `SELECT page, rowid FROM memory_answers WHERE memory = ? AND topic = ? ORDER BY page`, memory, it.Topic)
	if err != nil {
		return 0, err
	}
	if len(places) == 0 {
		_, err := tx.ExecContext(ctx, `UPDATE items SET lane = ? WHERE run = ? AND key = ? AND lane = 'memory' AND state = 'pending'`, it.Lane, run, it.Key)
		return 0, err
	}
	for i, p := range places {
		if p.page != int64(i) {
			return 0, fmt.Errorf("page %d of %s is missing in the memory", i, it.Topic)
		}
		var item int64
		if i == 0 {
			err = tx.QueryRowContext(ctx, `UPDATE items SET (state, reason, http) = (SELECT state, reason, http FROM memory_answers WHERE rowid = ?1),
				not_before = 0, finished = ?2 WHERE run = ?3 AND key = ?4 AND lane = 'memory' AND state = 'pending' RETURNING id`,
				p.row, millis(now), run, it.Key).Scan(&item)
		} else {
			err = tx.QueryRowContext(ctx, `INSERT INTO items (run, key, lane, op, payload, replay, state, attempts, not_before, class, reason, http, created, finished)
				SELECT ?1, ?2, 'memory', op, a.payload, replay, a.state, 0, 0, '', a.reason, a.http, ?3, ?3
				FROM items, memory_answers a WHERE items.run = ?1 AND items.key = ?4 AND a.rowid = ?5 RETURNING id`,
				run, it.Page(i), millis(now), it.Key, p.row).Scan(&item)
		}
		if err != nil {
			return 0, missing(err, "the item")
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO results (item, encoding, size, body)
			SELECT ?, encoding, size, body FROM memory_answers WHERE rowid = ? AND body IS NOT NULL`, item, p.row); err != nil {
			return 0, err
		}
	}
	return len(places), nil
}

// Recalled counts the items of a run that a memory has settled.
func (s *Store) Recalled(ctx context.Context, run string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT count(*) FROM items WHERE run = (SELECT seq FROM runs WHERE id = ?) AND lane = 'memory'
		AND state IN ('done', 'skipped')`, run).Scan(&n)
	return n, s.fail(ctx, "count remembered answers", err)
}
