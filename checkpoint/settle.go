package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Settled gives an item another state for what was learnt about it, without a request of its own.
type Settled struct {
	Key string
	// State is StateDone for an item that is in doubt or pending, StatePending for one in doubt, StateUnchanged for one that is
	// pending, StateFailed for one that is pending, done, unchanged or in doubt, StateSkipped for one that has failed and does not
	// matter any more. An item in any other state stays as it is.
	State  State
	Class  string // of StateFailed and StateSkipped
	Reason string // required for StateFailed and StateSkipped
}

// settlements are the statements by the new state. Their parameters are class, reason, the time, the run and the key.
var settlements = map[State]string{
	StateDone:      settled + ` AND state IN ('pending', 'in_doubt')`,
	StateUnchanged: settled + ` AND state = 'pending'`,
	StateFailed:    settled + ` AND state IN ('pending', 'done', 'unchanged', 'in_doubt')`,
	StateSkipped:   settled + ` AND state = 'failed'`,
	StatePending:   again + ` WHERE run = ?5 AND key = ?6 AND state = 'in_doubt'`,
}

const settled = `UPDATE items SET state = ?1, class = ?2, reason = ?3, finished = ?4, held = 0, not_before = 0,
	unsure = CASE WHEN state IN ('done', 'in_doubt') THEN 1 ELSE unsure END WHERE run = ?5 AND key = ?6`

// Settle gives items other states, all of them or none, and returns how many it changed.
func (s *Store) Settle(ctx context.Context, run string, now time.Time, items []Settled) (n int, err error) {
	err = s.inTx(ctx, "settle items", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		n, err = settleItems(ctx, tx, seq, now, slices.Values(items))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func settleItems(ctx context.Context, tx *sql.Tx, run int64, now time.Time, items iter.Seq[Settled]) (n int, err error) {
	prepared := map[State]*sql.Stmt{}
	defer func() {
		for _, stmt := range prepared {
			stmt.Close()
		}
	}()
	for it := range items {
		text, ok := settlements[it.State]
		if !ok || (it.State == StateFailed || it.State == StateSkipped) && it.Reason == "" {
			return 0, fmt.Errorf("item %q: cannot be settled as %s with the reason %q", it.Key, it.State, it.Reason)
		}
		stmt := prepared[it.State]
		if stmt == nil {
			if stmt, err = tx.PrepareContext(ctx, text); err != nil {
				return 0, err
			}
			prepared[it.State] = stmt
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		changed, err := affected(stmt.ExecContext(context.WithoutCancel(ctx), it.State, it.Class, it.Reason, millis(now), run, it.Key)) // as in inserter.add
		if err != nil {
			return 0, fmt.Errorf("item %q: %w", it.Key, err)
		}
		n += changed
	}
	return n, nil
}

// Again says which items of a run are to be done once more, with all their attempts.
type Again struct {
	Failed  bool
	InDoubt bool
	Lane    string   // only of this lane; "" for all
	Classes []string // of the failed ones only those of these classes; nil for all
	Except  []string // and none of these
}

// Retry makes items of a run pending again and returns how many. Items that failed at birth without a lane never were
// requests and stay.
func (s *Store) Retry(ctx context.Context, run string, what Again) (n int, err error) {
	var states []string
	var args []any
	list := func(values []string) string {
		for _, v := range values {
			args = append(args, v)
		}
		return "(" + strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ") + ")"
	}
	if what.Failed {
		failed := `state = 'failed'`
		if what.Classes != nil {
			failed += ` AND class IN ` + list(what.Classes)
		}
		if len(what.Except) > 0 {
			failed += ` AND class NOT IN ` + list(what.Except)
		}
		states = append(states, failed)
	}
	if what.InDoubt {
		states = append(states, `state = 'in_doubt'`)
	}
	if len(states) == 0 {
		return 0, nil
	}
	where := ` WHERE lane <> '' AND (` + strings.Join(states, " OR ") + `)`
	if what.Lane != "" {
		where += ` AND lane = ?`
		args = append(args, what.Lane)
	}
	err = s.inTx(ctx, "retry the run", func(tx *sql.Tx) error {
		seq, err := runSeq(ctx, tx, run)
		if err != nil {
			return err
		}
		n, err = affected(tx.ExecContext(ctx, again+where+` AND run = ?`, append(args, seq)...))
		return err
	})
	return n, err
}
