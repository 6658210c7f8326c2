package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Outcome is what came of a claim. There is one constructor for each way an attempt can end and no other way to make
// one; the chain methods return a copy that says more.
type Outcome struct {
	state     State
	body      []byte
	class     string
	reason    string
	http      int
	notBefore int64 // milliseconds; 0: at once
	giveBack  bool  // the attempt does not count
	children  []NewItem
	reads     int
	writes    int
	throttled int
	unsure    bool
}

// Done ends the item well. The body is kept for Results; an empty one is as good as none.
func Done(body []byte) Outcome { return Outcome{state: StateDone, body: body} }

// Skipped ends the item as not applicable; http is the status that said so, or 0.
func Skipped(reason string, http int) Outcome {
	return Outcome{state: StateSkipped, reason: reason, http: http}
}

// Answered says with which status the item was answered well.
func (o Outcome) Answered(http int) Outcome {
	o.http = http
	return o
}

// Failed ends the item without success. The class is a word to count failures by, http the status or 0.
func Failed(class, reason string, http int) Outcome {
	return Outcome{state: StateFailed, class: class, reason: reason, http: http}
}

// RetryAt puts the item off until t. The attempt counts.
func RetryAt(t time.Time, reason string, http int) Outcome {
	return Outcome{state: StatePending, notBefore: millisUp(t), reason: reason, http: http}
}

// Released puts the item back as it was, to be done at once: the attempt does not count.
func Released(reason string) Outcome {
	return Outcome{state: StatePending, reason: reason, giveBack: true}
}

// InDoubt ends the item for now: it was sent, and only a person or another look can tell whether it took effect. The class
// is the kind of failure that has lost its answer, http the status of what came instead, or 0.
func InDoubt(class, reason string, http int) Outcome {
	return Outcome{state: StateInDoubt, class: class, reason: reason, http: http}
}

// Ack is the kind of an acknowledged request.
type Ack int

// The kinds that a run counts.
const (
	Read Ack = iota + 1
	Write
)

// With adds items that follow from this outcome. Those whose keys the run has already are left out.
func (o Outcome) With(children ...NewItem) Outcome {
	o.children = slices.Concat(o.children, children)
	return o
}

// Acked counts one request that the server acknowledged.
func (o Outcome) Acked(kind Ack) Outcome {
	switch kind {
	case Read:
		o.reads++
	case Write:
		o.writes++
	}
	return o
}

// Unsure says that the request was sent and that nobody knows whether it took effect. The item keeps that until it is done.
func (o Outcome) Unsure() Outcome {
	o.unsure = true
	return o
}

// Throttled counts one answer 429.
func (o Outcome) Throttled() Outcome {
	o.throttled++
	return o
}

// Finish settles a claim: the item's state, its answer, the items that follow and the counters of the run, all or
// nothing. A claim that does not hold any more gives ErrLost and changes nothing.
func (s *Store) Finish(ctx context.Context, c Claim, now time.Time, o Outcome) error {
	const doing = "record an outcome"
	if o.state == "" {
		return fmt.Errorf("%s: item %q: empty outcome", doing, c.Key)
	}
	encoding, body := encode(o.body) // before the transaction: compressing takes longer than writing
	return s.inTx(ctx, doing, func(tx *sql.Tx) error {
		pending := o.state == StatePending
		finished := millis(now)
		if pending {
			finished = nil
		}
		var run int64
		err := tx.QueryRowContext(ctx, `UPDATE items SET state = ?, lease = NULL, not_before = ?, attempts = attempts - ?,
			class = ?, reason = ?, http = ?, sent = CASE WHEN ? THEN NULL ELSE sent END, finished = ?, unsure = max(unsure, ?)
			WHERE id = ? AND lease = ? RETURNING run`,
			o.state, o.notBefore, o.giveBack, o.class, o.reason, o.http, pending, finished, o.unsure, c.ID, c.lease).Scan(&run)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("item %q: %w", c.Key, ErrLost)
		}
		if err != nil {
			return fmt.Errorf("item %q: %w", c.Key, err)
		}
		if len(o.body) > 0 {
			// An item that was done before and was set to run again has an older answer.
			if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO results (item, encoding, size, body) VALUES (?, ?, ?, ?)`,
				c.ID, encoding, len(o.body), body); err != nil {
				return fmt.Errorf("item %q: %w", c.Key, err)
			}
		}
		if len(o.children) > 0 {
			if _, err := insertItems(ctx, tx, run, now, o.children); err != nil {
				return err
			}
		}
		if o.reads+o.writes+o.throttled > 0 {
			_, err = tx.ExecContext(ctx, `UPDATE runs SET reads = reads + ?, writes = writes + ?, throttled = throttled + ? WHERE seq = ?`,
				o.reads, o.writes, o.throttled, run)
		}
		return err
	})
}

// Recovered says what Recover found.
type Recovered struct {
	Returned int // pending again
	InDoubt  int // sent, and not to be repeated without asking
}

// Recover settles the items that a crash left running; what becomes of each is said by its Replay. Those that may be
// repeated are pending again and unsure: nobody has noted whether they were sent. It takes every
// running item of the run for a leftover, so the caller must hold the lock of the job and have no workers yet.
func (s *Store) Recover(ctx context.Context, run string, now time.Time) (Recovered, error) {
	var r Recovered
	err := s.inTx(ctx, "recover the run", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		if r.InDoubt, err = affected(tx.ExecContext(ctx, `UPDATE items SET state = 'in_doubt', lease = NULL, class = ?,
			reason = 'sent, and the program ended before the answer came', finished = ?
			WHERE run = ? AND state = 'running' AND replay = 'ask' AND sent IS NOT NULL`, ClassStopped, millis(now), seq)); err != nil {
			return err
		}
		r.Returned, err = affected(tx.ExecContext(ctx, `UPDATE items SET state = 'pending', lease = NULL, sent = NULL,
			attempts = attempts - 1, unsure = CASE WHEN replay = 'free' THEN 1 ELSE unsure END,
			reason = 'the program ended before the answer came' WHERE run = ? AND state = 'running'`, seq))
		return err
	})
	return r, err
}

// again starts an UPDATE that makes finished items pending. Those that were sent before keep a reason.
const again = `UPDATE items SET state = 'pending', attempts = 0, not_before = 0, class = '',
	reason = CASE WHEN attempts > 0 THEN 'tried before' ELSE '' END, http = 0, sent = NULL, finished = NULL,
	unsure = CASE WHEN state = 'in_doubt' THEN 1 ELSE unsure END`

// Resolution is a person's word on an item in doubt.
type Resolution string

// The classes that the checkpoint gives by itself: of failed items that a person has settled so, and of items in doubt
// whose program died.
const (
	ClassGivenUp = "given_up"
	ClassStopped = "stopped"
)

// What can be said: it took effect, it did not and shall not, or it shall be sent again.
const (
	ResolveDone   Resolution = "done"
	ResolveFailed Resolution = "failed"
	ResolveRetry  Resolution = "retry"
)

// Resolve settles items in doubt: those with the given keys, or all of the run when none is given. It returns how many
// it settled; a key that is not in doubt is an error (ErrNotFound) and then nothing is changed.
func (s *Store) Resolve(ctx context.Context, run string, now time.Time, how Resolution, note string, keys ...string) (n int, err error) {
	var update string
	var args []any
	switch how {
	case ResolveDone:
		update, args = `UPDATE items SET state = 'done', class = '', reason = ?, finished = ?`, []any{note, millis(now)}
	case ResolveFailed:
		update = `UPDATE items SET state = 'failed', class = 'given_up', unsure = 1, reason = coalesce(nullif(?, ''), reason), finished = ?`
		args = []any{note, millis(now)}
	case ResolveRetry:
		update = again
	default:
		return 0, fmt.Errorf("resolve: %q is none of done, failed, retry", how)
	}
	err = s.inTx(ctx, "resolve items in doubt", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		update += ` WHERE run = ? AND state = 'in_doubt'`
		if len(keys) == 0 {
			n, err = affected(tx.ExecContext(ctx, update, append(args, seq)...))
			return err
		}
		for _, key := range keys {
			hit, err := affected(tx.ExecContext(ctx, update+` AND key = ?`, append(slices.Clone(args), seq, key)...))
			if err != nil {
				return err
			}
			if hit == 0 {
				return fmt.Errorf("item %q in doubt: %w", key, ErrNotFound)
			}
			n += hit
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// affected is the number of rows that a statement changed.
func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
