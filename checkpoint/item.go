package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// State says where an item stands.
type State string

// The states of an item. Done, Unchanged and Skipped are good ends; Failed and InDoubt are for people to look at.
const (
	StatePending   State = "pending"   // to be done, now or at its not-before time
	StateRunning   State = "running"   // claimed by a worker
	StateDone      State = "done"      // done; its answer is kept
	StateUnchanged State = "unchanged" // nothing to do, known at birth
	StateSkipped   State = "skipped"   // not applicable
	StateFailed    State = "failed"    // ended without success
	StateInDoubt   State = "in_doubt"  // sent, and nobody knows whether it took effect
)

// Replay says what becomes of an item that was claimed when the program died.
type Replay string

// ReplayFree is for reads and writes that may be repeated: the item is pending again. With ReplayAsk an item that was
// marked as sent is in doubt, and one that was not is pending again.
const (
	ReplayFree Replay = "free"
	ReplayAsk  Replay = "ask"
)

// NewItem is an item to be added.
type NewItem struct {
	Key     string // unique in its run, not empty; an item whose key is there already is left out
	Lane    string // the queue it waits in; may be empty only for an item that is never to run
	Op      string // free text for reports
	Payload []byte
	State   State  // StatePending when empty; also StateUnchanged, StateSkipped, StateFailed
	Class   string // kind of failure, for StateFailed
	Reason  string // required for StateSkipped and StateFailed
	Replay  Replay // ReplayFree when empty
	Held    bool   // pending, and not to be claimed before it is released
}

// Item is a stored item.
type Item struct {
	ID        int64 // in order of insertion
	Key       string
	Lane      string
	Op        string
	Payload   []byte
	Replay    Replay
	State     State
	Attempts  int       // claims that count: those given back, and those a crash cut off, do not
	NotBefore time.Time // zero: at once
	Class     string    // kind of failure
	Reason    string    // why it is where it is; of a pending one, that it was tried before
	HTTP      int       // status of the last answer, 0 when there was none
	Created   time.Time
	Sent      time.Time // last MarkSent since it was claimed
	Finished  time.Time // when it reached a final state
	Unsure    bool      // a request of it was sent whose effect nobody knows; of no meaning once it is done
}

const itemColumns = `id, key, lane, op, payload, replay, state, attempts, not_before, class, reason, http, created, sent, finished, unsure`

func scanItem(row interface{ Scan(...any) error }, more ...any) (Item, error) {
	var it Item
	var notBefore, created, sent, finished sql.NullInt64
	err := row.Scan(append([]any{
		&it.ID, &it.Key, &it.Lane, &it.Op, &it.Payload, &it.Replay, &it.State, &it.Attempts,
		&notBefore, &it.Class, &it.Reason, &it.HTTP, &created, &sent, &finished, &it.Unsure,
	}, more...)...)
	notBefore.Valid = notBefore.Int64 != 0
	it.NotBefore, it.Created, it.Sent, it.Finished = moment(notBefore), moment(created), moment(sent), moment(finished)
	return it, err
}

func scanItemRow(rows *sql.Rows) (Item, error) { return scanItem(rows) }

// complete fills in the defaults and reports what makes an item impossible, so that the message can name it: the CHECKs
// of the schema would refuse it too, but only say which of them.
func (n *NewItem) complete() error {
	if n.State == "" {
		n.State = StatePending
	}
	if n.Replay == "" {
		n.Replay = ReplayFree
	}
	why := clean(n.Key)
	if why != "" {
		return fmt.Errorf("item %q: its key %s", n.Key, why)
	}
	if n.Held && n.State != StatePending {
		return fmt.Errorf("item %q: held, and %s", n.Key, n.State)
	}
	switch n.State {
	case StatePending:
		if n.Lane == "" {
			return fmt.Errorf("item %q: pending without a lane", n.Key)
		}
	case StateUnchanged:
	case StateSkipped, StateFailed:
		if n.Reason == "" {
			return fmt.Errorf("item %q: %s without a reason", n.Key, n.State)
		}
	default:
		return fmt.Errorf("item %q: cannot be born %s", n.Key, n.State)
	}
	return nil
}

// inserter adds items to a run inside one transaction.
type inserter struct {
	stmt *sql.Stmt
	run  int64
	now  any
}

func newInserter(ctx context.Context, tx *sql.Tx, run int64, now time.Time) (*inserter, error) {
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO items (run, key, lane, op, payload, replay, state, attempts, not_before,
		class, reason, http, created, finished, held) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, 0, ?, ?, ?) ON CONFLICT (run, key) DO NOTHING`)
	return &inserter{stmt: stmt, run: run, now: millis(now)}, err
}

func (in *inserter) close() { in.stmt.Close() }

// add inserts one item and returns 1, or 0 when its key was there.
func (in *inserter) add(ctx context.Context, n NewItem) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := n.complete(); err != nil {
		return 0, err
	}
	var finished any
	if n.State != StatePending {
		finished = in.now
	}
	// The driver watches a context that can end with a goroutine per statement, a third of the time this takes.
	res, err := in.stmt.ExecContext(context.WithoutCancel(ctx), in.run, n.Key, n.Lane, n.Op, n.Payload, n.Replay, n.State, n.Class, n.Reason, in.now, finished, n.Held)
	if err != nil {
		return 0, fmt.Errorf("item %q: %w", n.Key, err)
	}
	added, err := res.RowsAffected()
	return int(added), err
}

// AddItems adds the items whose keys the run does not have yet and returns how many these were. It collects them in
// batches of bounded size and writes each in one transaction; the sequence is consumed outside of these, so it may use
// the Store. After an error or a crash the batches written so far stay: adding the same sequence again completes it.
func (s *Store) AddItems(ctx context.Context, run string, now time.Time, items iter.Seq[NewItem]) (added int, err error) {
	const doing, most, mostBytes = "add items", 1000, 4 << 20
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return 0, s.fail(ctx, doing, err)
	}
	var batch []NewItem
	size := 0
	flush := func() error {
		n, err := s.addBatch(ctx, doing, seq, now, batch)
		added += n
		batch, size = batch[:0], 0
		return err
	}
	for n := range items {
		batch = append(batch, n)
		if size += len(n.Payload); len(batch) == most || size >= mostBytes {
			if err := flush(); err != nil {
				return added, err
			}
		}
	}
	return added, flush()
}

func (s *Store) addBatch(ctx context.Context, doing string, run int64, now time.Time, batch []NewItem) (added int, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	err = s.inTx(ctx, doing, func(tx *sql.Tx) error {
		added, err = insertItems(ctx, tx, run, now, batch)
		return err
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

func insertItems(ctx context.Context, tx *sql.Tx, run int64, now time.Time, items []NewItem) (added int, err error) {
	in, err := newInserter(ctx, tx, run, now)
	if err != nil {
		return 0, err
	}
	defer in.close()
	for _, n := range items {
		a, err := in.add(ctx, n)
		if err != nil {
			return 0, err
		}
		added += a
	}
	return added, nil
}

// Claim is an item in the hands of a worker. Only Store.Claim makes one; it ends with Finish.
type Claim struct {
	Item
	// More says that another item of the lane was due at the same moment, so another worker is worth waking.
	More bool

	lease int64 // what this claim is recognised by: the item may be claimed again later, even by another process
}

// Claim takes the next item of a lane that is due at now: items that waited for their not-before time come first, the
// one due longest before the others, then those never put off, in order of insertion. Items that are held are left alone. It
// counts the attempt.
//
// When nothing is due, ok is false. Unless the claim says that more is due at once, next is when the next item of the lane
// will be, or zero when none is pending.
func (s *Store) Claim(ctx context.Context, run, lane string, now time.Time) (c Claim, ok bool, next time.Time, err error) {
	// A transaction, although one statement does the work: so a context that ends meanwhile leaves the item unclaimed.
	err = s.inTx(ctx, "claim an item", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		due := now.UnixMilli()
		c.lease = rand.Int64N(1<<63-1) + 1
		c.Item, err = scanItem(tx.QueryRowContext(ctx, `
			UPDATE items SET state = 'running', lease = ?4, attempts = attempts + 1, not_before = 0
			WHERE id = coalesce(
				(SELECT id FROM items WHERE run = ?1 AND lane = ?2 AND state = 'pending' AND held = 0 AND not_before BETWEEN 1 AND ?3
					ORDER BY not_before, id LIMIT 1),
				(SELECT id FROM items WHERE run = ?1 AND lane = ?2 AND state = 'pending' AND held = 0 AND not_before = 0
					ORDER BY id LIMIT 1))
			RETURNING `+itemColumns, seq, lane, due, c.lease))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		ok = err == nil
		var first sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT min(not_before) FROM items WHERE run = ? AND lane = ? AND state = 'pending' AND held = 0`,
			seq, lane).Scan(&first); err != nil {
			return err
		}
		if c.More = ok && first.Valid && first.Int64 <= due; !c.More {
			next = moment(first)
		}
		return nil
	})
	if err != nil || !ok {
		return Claim{}, false, next, err
	}
	return c, true, next, nil
}

// MarkSent records that the request of a claim is about to leave. It must have returned before a request with ReplayAsk
// is sent: from here on a crash leaves the item in doubt. A claim that does not hold any more gives ErrLost.
func (s *Store) MarkSent(ctx context.Context, c Claim, now time.Time) error {
	const doing = "mark an item as sent"
	res, err := s.write.ExecContext(ctx, `UPDATE items SET sent = ? WHERE id = ? AND lease = ?`, millis(now), c.ID, c.lease)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("%s %q: %w", doing, c.Key, ErrLost)
	}
	return nil
}

// Item returns one item of a run by its key, or ErrNotFound.
func (s *Store) Item(ctx context.Context, run, key string) (Item, error) {
	it, err := scanItem(s.read.QueryRowContext(ctx,
		`SELECT `+itemColumns+` FROM items WHERE run = (SELECT seq FROM runs WHERE id = ?) AND key = ?`, run, key))
	return it, s.fail(ctx, "read an item", missing(err, fmt.Sprintf("item %q of run %s", key, run)))
}

// Lanes returns the lanes in which items are pending, due or not, and not held, sorted.
func (s *Store) Lanes(ctx context.Context, run string) ([]string, error) {
	const doing = "list lanes"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	// One look into the index per lane, instead of one per pending item.
	lanes, err := collect(ctx, s.read, func(rows *sql.Rows) (lane string, err error) { return lane, rows.Scan(&lane) }, `
		WITH RECURSIVE l (lane) AS (
			SELECT min(lane) FROM items WHERE run = ?1 AND state = 'pending' AND held = 0
			UNION ALL
			SELECT (SELECT min(lane) FROM items WHERE run = ?1 AND state = 'pending' AND held = 0 AND lane > l.lane) FROM l WHERE l.lane IS NOT NULL)
		SELECT lane FROM l WHERE lane IS NOT NULL`, seq)
	return lanes, s.fail(ctx, doing, err)
}

// Counts says how many items of a run are in each state; Items is their sum.
type Counts struct {
	Items, Pending, Running, Done, Unchanged, Skipped, Failed, InDoubt int
}

// Counts counts the items of a run. It takes a few milliseconds for each 100,000 items.
func (s *Store) Counts(ctx context.Context, run string) (Counts, error) {
	const doing = "count items"
	var c Counts
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return c, s.fail(ctx, doing, err)
	}
	_, err = collect(ctx, s.read, func(rows *sql.Rows) (struct{}, error) {
		var state State
		var n int
		err := rows.Scan(&state, &n)
		c.Items += n
		switch state {
		case StatePending:
			c.Pending = n
		case StateRunning:
			c.Running = n
		case StateDone:
			c.Done = n
		case StateUnchanged:
			c.Unchanged = n
		case StateSkipped:
			c.Skipped = n
		case StateFailed:
			c.Failed = n
		case StateInDoubt:
			c.InDoubt = n
		}
		return struct{}{}, err
	}, `SELECT state, count(*) FROM items WHERE run = ? GROUP BY state`, seq)
	return c, s.fail(ctx, doing, err)
}

// Failures returns at most limit items (all if limit is 0) that failed or are in doubt, in order of insertion.
func (s *Store) Failures(ctx context.Context, run string, limit int) ([]Item, error) {
	const doing = "list failures"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	items, err := collect(ctx, s.read, scanItemRow, `SELECT `+itemColumns+` FROM items
		WHERE run = ? AND state IN ('failed', 'in_doubt') ORDER BY id LIMIT ?`, seq, bound(limit))
	return items, s.fail(ctx, doing, err)
}

// Absent returns at most limit items (all if limit is 0) that were asked for and do not apply, because the service has no
// such thing, in the order of their keys, and how many there are. Items that were settled before they were asked for, or
// otherwise than by their answer, are not among them.
func (s *Store) Absent(ctx context.Context, run string, limit int) (items []Item, all int, err error) {
	const doing = "list what the service does not have"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, 0, s.fail(ctx, doing, err)
	}
	const which = ` FROM items WHERE run = ? AND state = 'skipped' AND op <> '' AND class = ''`
	items, err = collect(ctx, s.read, scanItemRow, `SELECT `+itemColumns+which+` ORDER BY key LIMIT ?`, seq, bound(limit))
	if err == nil {
		err = s.read.QueryRowContext(ctx, `SELECT count(*)`+which, seq).Scan(&all)
	}
	return items, all, s.fail(ctx, doing, err)
}

// DoneFor counts the items of a run that are done for a reason that begins with the given text.
func (s *Store) DoneFor(ctx context.Context, run, reason string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT count(*) FROM items WHERE run = (SELECT seq FROM runs WHERE id = ?1) AND state = 'done'
		AND substr(reason, 1, length(?2)) = ?2`, run, reason).Scan(&n)
	return n, s.fail(ctx, "count items that are done", err)
}

// FailureCount is how many items of one class have failed.
type FailureCount struct {
	Lane, Class string
	Items       int
}

// FailureCounts counts the failed items of a run by lane and class. The lane is empty for those that never were requests.
func (s *Store) FailureCounts(ctx context.Context, run string) ([]FailureCount, error) {
	const doing = "count failures"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	counts, err := collect(ctx, s.read, func(rows *sql.Rows) (c FailureCount, err error) {
		err = rows.Scan(&c.Lane, &c.Class, &c.Items)
		return c, err
	}, `SELECT lane, class, count(*) FROM items WHERE run = ? AND state = 'failed' GROUP BY lane, class ORDER BY lane, class`, seq)
	return counts, s.fail(ctx, doing, err)
}

// PendingCount is how many pending items of one lane and operation a run has.
type PendingCount struct {
	Lane, Op string
	Items    int
	Ending   int // those of them whose key has the ending that was asked for
	Held     int // further ones that wait to be released
	Unsure   int // those of all these that were sent and whose effect nobody knows
}

// Pending counts the pending items of a run by lane and operation, due or not. Beside all it counts those whose key ends
// with the given text. It takes a few milliseconds for each 10,000 items.
func (s *Store) Pending(ctx context.Context, run, ending string) ([]PendingCount, error) {
	const doing = "count pending items"
	seq, err := runSeq(ctx, s.read, run)
	if err != nil {
		return nil, s.fail(ctx, doing, err)
	}
	counts, err := collect(ctx, s.read, func(rows *sql.Rows) (c PendingCount, err error) {
		err = rows.Scan(&c.Lane, &c.Op, &c.Items, &c.Ending, &c.Held, &c.Unsure)
		return c, err
	}, `SELECT lane, op, sum(held = 0), sum(held = 0 AND substr(key, -length(?2)) = ?2), sum(held), sum(unsure)
		FROM items WHERE run = ?1 AND state = 'pending'
		GROUP BY lane, op ORDER BY lane, op`, seq, ending)
	return counts, s.fail(ctx, doing, err)
}
