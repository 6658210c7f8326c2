package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// This file translates between what a job means and what the checkpoint keeps.

// newItem turns an item of the job into a row of the checkpoint.
func newItem(it jobs.Item) checkpoint.NewItem {
	n := checkpoint.NewItem{Key: it.Key, Op: it.Request.Op, Reason: it.Reason, Class: it.Class, Replay: checkpoint.ReplayFree}
	switch it.Birth {
	case jobs.Unchanged:
		n.State = checkpoint.StateUnchanged
	case jobs.Skipped:
		n.State = checkpoint.StateSkipped
	case jobs.Failed:
		n.State = checkpoint.StateFailed
	case jobs.Pending, jobs.Recalled:
		op, _ := it.Request.Operation() // the work makes no request that has none
		n.Lane, n.Replay, n.Held = op.Lane(), replay(op), it.Held
		n.Payload = encode(it.Request)
		if it.Birth == jobs.Recalled {
			n.Lane = checkpoint.LaneMemory
		}
	}
	return n
}

// newRows turns plan rows into rows of the checkpoint.
func newRows(rows iter.Seq[jobs.Row]) iter.Seq[checkpoint.NewRow] {
	return func(yield func(checkpoint.NewRow) bool) {
		if rows == nil {
			return
		}
		for row := range rows {
			if !yield(checkpoint.NewRow{
				Number: row.Number, Class: string(row.Class), ItemKey: row.ItemKey, Payload: encode(row.Detail),
			}) {
				return
			}
		}
	}
}

// revised turns changed requests into payloads of the checkpoint.
func revised(requests map[string]rmm.Request) iter.Seq[checkpoint.Revised] {
	return func(yield func(checkpoint.Revised) bool) {
		for key, req := range requests {
			if !yield(checkpoint.Revised{Key: key, Payload: encode(req)}) {
				return
			}
		}
	}
}

// encode is the JSON of a request or a row, which are made of strings and numbers
// only and cannot fail to encode.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// answers lets a work read what its run was answered.
type answers struct {
	store *checkpoint.Store
	run   string
}

// AnswersOf returns the answers of a run as its work reads them, for making its
// files.
func AnswersOf(store *checkpoint.Store, run string) jobs.Answers { return answers{store, run} }

func (a answers) Answers(ctx context.Context, prefix string) iter.Seq2[jobs.Answer, error] {
	return func(yield func(jobs.Answer, error) bool) {
		for res, err := range a.store.Results(ctx, a.run, prefix) {
			var ans jobs.Answer
			if err == nil {
				ans = jobs.Answer{
					Key: res.Key, OK: res.State == checkpoint.StateDone, Class: res.Class, Reason: res.Reason, HTTP: res.HTTP, Body: res.Body,
					Doubt: res.State == checkpoint.StateInDoubt, Unsure: res.Unsure, Parked: res.Parked, Settled: res.Finished,
				}
				// An item that was born settled asks for nothing.
				if uerr := json.Unmarshal(res.Payload, &ans.Request); len(res.Payload) > 0 && uerr != nil {
					err = fmt.Errorf("stored request of %s: %w", res.Key, uerr)
				}
			}
			if !yield(ans, err) || err != nil {
				return
			}
		}
	}
}

// Rows yields the rows of the plan of the run.
func (a answers) Rows(ctx context.Context) iter.Seq2[jobs.Row, error] {
	return func(yield func(jobs.Row, error) bool) {
		for stored, err := range a.store.Rows(ctx, a.run) {
			row := jobs.Row{Number: stored.Number, Class: jobs.RowClass(stored.Class), ItemKey: stored.ItemKey}
			if err == nil {
				if err = json.Unmarshal(stored.Payload, &row.Detail); err != nil {
					err = fmt.Errorf("row %d of the plan: %w", stored.Number, err)
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// fates are the states that decisions give to items.
var fates = map[jobs.Fate]checkpoint.State{
	jobs.FateDone: checkpoint.StateDone, jobs.FateAgain: checkpoint.StatePending,
	jobs.FateUnchanged: checkpoint.StateUnchanged, jobs.FateFailed: checkpoint.StateFailed,
	jobs.FateSuperseded: checkpoint.StateSkipped,
}

// settled are the decisions of a step for the checkpoint.
func settled(decisions []jobs.Decision) []checkpoint.Settled {
	items := make([]checkpoint.Settled, len(decisions))
	for i, d := range decisions {
		items[i] = checkpoint.Settled{Key: d.Key, State: fates[d.Fate], Class: d.Class, Reason: d.Reason}
	}
	return items
}
