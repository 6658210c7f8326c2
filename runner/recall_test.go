package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// software are items for the lists of the first n devices, which an earlier run may have left.
func (b *bench) software(n int) (items []jobs.Item, keep []checkpoint.Keep) {
	for i, uid := range b.uids(0)[:n] {
		it := jobs.Item{Key: fmt.Sprintf("list/device-software/%03d/99/0000000", i), Birth: jobs.Recalled, Request: rmm.Request{
			Op: "device-software", Path: map[string]string{"deviceUid": uid},
		}}
		items = append(items, it)
		keep = append(keep, checkpoint.Keep{Topic: jobs.Topic(it.Request), Stamp: "1", Keys: []string{it.Key}})
	}
	return items, keep
}

// What is remembered is not asked; what is not, or not any more, is sent like any other item.
func TestRecalledItems(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 30, Software: 5})
		items, keep := b.software(3)
		b.work = handmade{list: items}
		sum := b.run() // no memory at all
		b.want(sum, checkpoint.RunOK)
		if n := len(b.requests("device-software")); n != 3 {
			t.Fatalf("%d requests without a memory", n)
		}
		m, err := b.store.OpenMemory(t.Context(), checkpoint.Memory{JobKey: "job", Selection: "all"}, time.Now())
		b.check(err)
		b.check(b.store.KeepAnswers(t.Context(), m, runID, func(yield func(checkpoint.Keep, error) bool) {
			for _, k := range keep[:2] {
				if !yield(k, nil) {
					return
				}
			}
		}))
		next := func(id string) func(*Config) {
			b.check(b.store.CreateRun(t.Context(), checkpoint.Run{ID: id, JobKey: "job", Created: time.Now()}))
			return func(cfg *Config) { cfg.RunID, cfg.Memory = id, m.ID }
		}

		// Stopped before it has recalled anything: nothing is sent, and the items wait.
		second := next("r2")
		stopped, stop := context.WithCancel(t.Context())
		stop()
		b.want(b.runIn(stopped, second), checkpoint.RunStopped)
		if n := len(b.requests("device-software")); n != 3 {
			t.Errorf("a stopped run has sent %d requests", n-3)
		}
		sum = b.run(second)
		b.want(sum, checkpoint.RunOK)
		if n := len(b.requests("device-software")) - 3; n != 1 || sum.Counts.Done != 3 {
			t.Errorf("%d requests, want the one that is not remembered: %+v", n, sum.Counts)
		}
		if n, err := b.store.Recalled(t.Context(), "r2"); err != nil || n != 2 {
			t.Errorf("%d answers recalled, %v", n, err)
		}
		var bodies [2][]string
		for i, run := range []string{runID, "r2"} {
			for res, err := range b.store.Results(t.Context(), run, "") {
				b.check(err)
				bodies[i] = append(bodies[i], string(res.Body))
			}
		}
		if !slices.Equal(bodies[0], bodies[1]) {
			t.Error("the answers are others")
		}

		// The memory was reset while a run was under way.
		b.check(b.store.Forget(t.Context(), m))
		b.want(b.run(next("r3")), checkpoint.RunOK)
		if n := len(b.requests("device-software")) - 4; n != 3 {
			t.Errorf("%d requests after a reset, want 3", n)
		}
	})
}
