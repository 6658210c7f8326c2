package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// stopAt is a context that ends after some time of the test.
func stopAt(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, context.Canceled)
	t.Cleanup(cancel)
	return ctx
}

// The first stop waits for what is in flight and starts nothing more.
func TestSoftStopFinishesWhatIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 100, Latency: 5 * time.Second})
		b.work = handmade{list: append(b.udfWrites(50), b.quickJobs(50)...)}
		const stop = 23 * time.Second
		sum := b.runIn(stopAt(t, stop))
		b.want(sum, checkpoint.RunStopped)
		if took := time.Since(b.began); took < stop || took > stop+5*time.Second {
			t.Errorf("ended after %s", took)
		}
		inFlight := 0
		for _, r := range b.requests("") {
			if b.at(r) > stop {
				t.Errorf("%s left %s after the stop", r.Operation, b.at(r)-stop)
			}
			if r.Done.Sub(b.began) > stop {
				inFlight++
			}
		}
		if inFlight == 0 {
			t.Fatal("nothing was in flight; the test shows nothing")
		}
		if sum.Counts.Done != len(b.requests("")) || sum.Counts.InDoubt+sum.Counts.Failed != 0 {
			t.Errorf("%+v after %d requests", sum.Counts, len(b.requests("")))
		}
		if !errors.Is(sum.Err, errStopped) {
			t.Errorf("cause %v", sum.Err)
		}
		b.reopen()
		b.want(b.run(), checkpoint.RunOK)
		if b.account.Jobs() != 50 || b.tagged(50) != 50 {
			t.Errorf("%d jobs, %d tagged", b.account.Jobs(), b.tagged(50))
		}
	})
}

// slowItems are reads, repeatable and unrepeatable writes that hang, four each.
func (b *bench) slowItems() {
	b.t.Helper()
	list := append(b.udfWrites(4), b.quickJobs(4)...)
	for i, uid := range b.uids(4) {
		list = append(list, jobs.Item{Key: fmt.Sprintf("device/%d", i), Request: rmm.Request{Op: "device", Path: map[string]string{"deviceUid": uid}}})
	}
	b.work = handmade{list: list}
	for _, op := range []string{"device", "device-udf-set", "device-job-create"} {
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: op}, Do: rmmsim.Action{Delay: 50 * time.Second}})
	}
}

// The states of what was in flight do not depend on the way in which it was cut
// off: reads and repeatable writes are to be sent again, others are in doubt.
func TestCutOffStates(t *testing.T) {
	const stop = 10 * time.Second
	tests := []struct {
		name  string
		state checkpoint.RunState
		ends  time.Duration
		run   func(b *bench) Summary
	}{
		{"grace is over", checkpoint.RunStopped, stop + 15*time.Second, func(b *bench) Summary {
			return b.runIn(stopAt(b.t, stop), workers(16), func(cfg *Config) { cfg.Grace = 15 * time.Second })
		}},
		{"abort", checkpoint.RunAborted, stop, func(b *bench) Summary {
			ctx := stopAt(b.t, stop)
			return b.runIn(ctx, workers(16), func(cfg *Config) { cfg.Abort = ctx })
		}},
		{"stop, then abort", checkpoint.RunAborted, stop + 3*time.Second, func(b *bench) Summary {
			hard := stopAt(b.t, stop+3*time.Second)
			return b.runIn(stopAt(b.t, stop), workers(16), func(cfg *Config) { cfg.Abort = hard })
		}},
		{"abort alone", checkpoint.RunAborted, stop, func(b *bench) Summary {
			hard := stopAt(b.t, stop)
			return b.run(workers(16), func(cfg *Config) { cfg.Abort = hard })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 20})
				b.slowItems()
				sum := tt.run(b)
				b.want(sum, tt.state)
				if took := time.Since(b.began); took != tt.ends {
					t.Errorf("ended after %s, want %s", took, tt.ends)
				}
				for _, op := range []string{"device", "device-udf-set"} {
					if got := b.states(op); got[checkpoint.StatePending] != 4 {
						t.Errorf("%s: %v", op, got)
					}
				}
				if got := b.states("device-job-create"); got[checkpoint.StateInDoubt] != 4 {
					t.Errorf("jobs: %v", got)
				}
				for key, it := range b.items() {
					if it.State == checkpoint.StatePending && it.Attempts != 0 {
						t.Errorf("%s has %d attempts", key, it.Attempts)
					}
				}
				b.account.ClearFaults()
				b.reopen()
				b.want(b.run(), checkpoint.RunInDoubt)
				if b.account.Jobs() != 4 {
					t.Errorf("%d jobs", b.account.Jobs())
				}
			})
		})
	}
}

// Requests that wait for a login have not been sent, unsafe ones neither.
func TestAbortDuringLogin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20, Latency: 100 * time.Millisecond})
		b.work = handmade{list: b.quickJobs(20)}
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-job-create", Nth: 5}, Do: rmmsim.Action{InvalidateToken: true}},
			rmmsim.Fault{Match: rmmsim.Match{Operation: "token", From: 2}, Do: rmmsim.Action{Delay: 40 * time.Second}},
		)
		hard := stopAt(t, 10*time.Second)
		sum := b.run(func(cfg *Config) { cfg.Abort = hard })
		b.want(sum, checkpoint.RunAborted)
		if sum.Counts.InDoubt != 0 || sum.Counts.Done != b.account.Jobs() || sum.Counts.Pending != 20-b.account.Jobs() {
			t.Errorf("%+v with %d jobs made", sum.Counts, b.account.Jobs())
		}
		b.account.ClearFaults()
		b.reopen()
		b.want(b.run(), checkpoint.RunOK)
		if b.account.Jobs() != 20 {
			t.Errorf("%d jobs", b.account.Jobs())
		}
	})
}

// A stop is not held up by a pause of the limits, a back-off or a login.
func TestStopWhileWaiting(t *testing.T) {
	tests := []struct {
		name string
		fail func(b *bench)
	}{
		{"for a limit", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices"}, Do: rmmsim.Action{Status: 429}})
		}},
		{"for a block", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Nth: 1}, Do: rmmsim.Action{Block: time.Hour}})
		}},
		{"for the next try", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices"}, Do: rmmsim.Action{Status: 503}})
		}},
		{"for a login", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "token"}, Do: rmmsim.Action{Status: 503}})
		}},
		{"for a slow login", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "token"}, Do: rmmsim.Action{Delay: 50 * time.Second}})
		}},
		{"for the first reading", func(b *bench) {
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "request-rate"}, Do: rmmsim.Action{Delay: 50 * time.Second}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 20})
				tt.fail(b)
				b.export(10)
				const stop = 17 * time.Second
				b.want(b.runIn(stopAt(t, stop)), checkpoint.RunStopped)
				if took := time.Since(b.began); took != stop {
					t.Errorf("ended after %s, want at once at %s", took, stop)
				}
			})
		})
	}
}

// The time limit of a run tells its own reason.
func TestStopReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 50, Latency: time.Second})
		b.tag(0)
		limit := errors.New("the time limit of 4s is reached")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, limit)
		defer cancel()
		sum := b.runIn(ctx)
		b.want(sum, checkpoint.RunStopped)
		if !errors.Is(sum.Err, limit) {
			t.Errorf("cause %v", sum.Err)
		}
	})
}

// Stops at every second of a run lose nothing and repeat nothing.
func TestStopAtEverySecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 120, Latency: 400 * time.Millisecond, Spread: 0.5})
		b.tag(0)
		calls := 0
		for calls < 100 {
			calls++
			sum := b.runIn(stopAt(t, 2*time.Second))
			if sum.State == checkpoint.RunOK {
				break
			}
			b.want(sum, checkpoint.RunStopped)
			b.reopen()
		}
		if calls < 5 || b.tagged(0) != 120 {
			t.Errorf("%d tagged after %d calls", b.tagged(0), calls)
		}
		if again := repeated(b.requests("device-udf-set")); len(again) > 0 {
			t.Errorf("sent again: %v", again)
		}
		rec, err := b.store.Run(t.Context(), runID)
		if err != nil || rec.Resumes != calls-1 || rec.Writes != 120 {
			t.Errorf("%d resumes, %d writes after %d calls (%v)", rec.Resumes, rec.Writes, calls, err)
		}
	})
}
