package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// recallBatch is how many items one transaction takes from memory.
const recallBatch = 100

// recall gives the items that were born recalled their answers. It happens before anything of the stage is sent, in
// batches: a crash in between leaves items that the next call finds.
func (r *run) recall(ctx, store context.Context) error {
	recalled := false
	for {
		items, err := r.Store.Waiting(store, r.RunID, recallBatch)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			break
		}
		if ctx.Err() != nil {
			r.stop(ctx)
			return nil //nolint:nilerr // the run was told to stop, and does
		}
		recalled = true
		batch := make([]checkpoint.Recollection, len(items))
		for i, it := range items {
			var req rmm.Request
			if err := json.Unmarshal(it.Payload, &req); err != nil {
				return fmt.Errorf("stored request of %s: %w", it.Key, err)
			}
			op, _ := rmm.Lookup(req.Op)
			batch[i] = checkpoint.Recollection{
				Key: it.Key, Topic: jobs.Topic(req), Lane: op.Lane(),
				Page: func(n int) string { return jobs.PageKey(it.Key, n) },
			}
		}
		if _, err := r.Store.Recall(store, r.RunID, r.Memory, time.Now(), batch); err != nil {
			return err
		}
	}
	if !recalled {
		return nil
	}
	var err error
	r.counts, err = r.Store.Counts(store, r.RunID)
	r.observe(time.Time{}, "")
	return err
}
