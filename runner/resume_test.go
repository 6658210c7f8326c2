package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// crashAt runs and cuts the power at request n: before it leaves, or when it has
// been answered and nobody knows yet. What is left is a copy of the files as
// they were in that moment, which the bench goes on with.
func (b *bench) crashAt(n int, answered bool, width int) {
	b.t.Helper()
	left := b.t.TempDir()
	ctx, abort := context.WithCancel(b.t.Context())
	defer abort()
	cut := func() {
		for _, file := range []string{"state.db-wal", "state.db"} {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(b.store.Path()), file))
			if err != nil {
				b.t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(left, file), data, 0o600); err != nil {
				b.t.Error(err)
			}
		}
		abort()
	}
	var mu sync.Mutex
	count, off := 0, false
	next := func() (mine, gone bool) {
		mu.Lock()
		defer mu.Unlock()
		if off {
			return false, true
		}
		count++
		return count == n, false
	}
	client := b.client
	sum, err := b.try(ctx, workers(width), func(cfg *Config) {
		cfg.Abort = ctx
		cfg.Caller = caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
			mine, gone := next()
			if gone || mine && !answered {
				if mine {
					cut()
					mu.Lock()
					off = true
					mu.Unlock()
				}
				return rmm.Response{}, &rmm.Error{Op: req.Op, Kind: rmm.KindTransport, Err: context.Canceled}
			}
			resp, err := client.Do(ctx, req)
			if mine {
				cut()
				mu.Lock()
				off = true
				mu.Unlock()
			}
			return resp, err
		})
	})
	b.check(err)
	b.want(sum, checkpoint.RunAborted)
	b.check(b.store.Close())
	b.open(filepath.Join(left, "state.db"))
	b.connect("key", "secret")
}

// Wherever the power is cut, the run goes on to the same result, and sends again
// at most what was in flight.
func TestCase_R01_PowerCut(t *testing.T) {
	for _, width := range []int{1, 4} {
		for _, n := range []int{1, 5, 22, 40} {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d workers, request %d, answered %v", width, n, answered), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						b := newBench(t, rmmsim.Config{Devices: 100, UDFs: 30, Latency: 50 * time.Millisecond})
						b.export(5)
						b.crashAt(n, answered, width)
						sum := b.run(workers(width))
						b.want(sum, checkpoint.RunOK)
						b.sameElements(b.elements(), b.fleet())
						// Two walks of 20 pages, and what was in flight.
						if n := len(b.requests("devices")); n < 40 || n > 40+width {
							t.Errorf("%d requests for 40 pages", n)
						}
					})
				})
			}
		}
	}
}

// The same for writes: what may be repeated is, what must not be is in doubt.
func TestCase_R23_KilledInTheMiddleOfWrites(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprintf("answered %v", answered), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 60, Latency: 50 * time.Millisecond})
				b.work = handmade{list: append(b.udfWrites(20), b.quickJobs(40)...)}
				b.crashAt(25, answered, 1)
				sum := b.run()
				doubts := b.states("device-job-create")[checkpoint.StateInDoubt]
				b.want(sum, map[bool]checkpoint.RunState{true: checkpoint.RunInDoubt, false: checkpoint.RunOK}[doubts > 0])
				if doubts > 1 || sum.Counts.Failed > 0 {
					t.Errorf("%+v", sum.Counts)
				}
				if n := b.account.Jobs(); n != 40 && n != 40-doubts {
					t.Errorf("%d jobs of 40 made with %d in doubt", n, doubts)
				}
				if again := repeated(b.requests("device-job-create")); len(again) > 0 {
					t.Errorf("jobs sent again: %v", again)
				}
				if again := repeated(b.requests("device-udf-set")); len(again) > 1 {
					t.Errorf("sent again: %v", again)
				}
				if b.tagged(20) != 20 {
					t.Errorf("%d tagged", b.tagged(20))
				}
			})
		})
	}
}

// What the checkpoint calls done has its answer with it, at any moment.
func TestCase_R02_DoneMeansKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 100, UDFs: 30, Latency: 50 * time.Millisecond})
		b.export(5)
		for _, n := range []int{3, 8, 11} {
			b.crashAt(n, true, 4)
			done := 0
			for res, err := range b.store.Results(t.Context(), runID, "") {
				b.check(err)
				if res.State == checkpoint.StateDone {
					done++
					if !strings.Contains(string(res.Body), `"devices"`) {
						t.Errorf("%s is done without its answer", res.Key)
					}
				}
			}
			rec, err := b.store.Run(t.Context(), runID)
			b.check(err)
			if int64(done) != rec.Reads || done == 0 {
				t.Errorf("%d items done, %d reads counted", done, rec.Reads)
			}
		}
		b.want(b.run(), checkpoint.RunOK)
		b.sameElements(b.elements(), b.fleet())
	})
}

// Progress is kept for each item: one that hangs is done later, and the others
// are not sent again.
func TestCase_R04_NoPrefix(t *testing.T) {
	for _, abort := range []bool{true, false} {
		t.Run(fmt.Sprintf("abort %v", abort), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 40})
				third := b.uids(3)[2]
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: third, Nth: 1}, Do: rmmsim.Action{Delay: 10 * time.Second}})
				b.tag(0)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				hard, kill := context.WithCancel(t.Context())
				defer kill()
				sum := b.runIn(ctx, func(cfg *Config) {
					cfg.Abort = hard
					cfg.Observe = func(p Progress) {
						if p.Settled == 40 { // the list and 39 writes
							if abort {
								kill()
							}
							stop()
						}
					}
				})
				if abort {
					b.want(sum, checkpoint.RunAborted)
					if sum.Counts.Pending != 1 || sum.Counts.Done != 40 {
						t.Fatalf("%+v", sum.Counts)
					}
				} else {
					b.want(sum, checkpoint.RunStopped)
					if sum.Counts.Done != 41 {
						t.Fatalf("%+v", sum.Counts)
					}
				}
				b.reopen()
				b.want(b.run(), checkpoint.RunOK)
				for _, uid := range b.uids(0) {
					n := 0
					for _, r := range b.requests("device-udf-set") {
						if strings.Contains(r.Path, uid) {
							n++
						}
					}
					// Also the slow one, which was carried out though its answer was cut off.
					if n != 1 {
						t.Errorf("%s was sent %d times", uid, n)
					}
				}
				if b.tagged(0) != 40 {
					t.Errorf("%d tagged", b.tagged(0))
				}
			})
		})
	}
}

// A finished run that is run again sends nothing.
func TestFinishedRunSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20})
		b.tag(0)
		b.want(b.run(), checkpoint.RunOK)
		before := len(b.account.Log())
		b.reopen()
		b.want(b.run(), checkpoint.RunOK)
		if n := len(b.account.Log()) - before; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A plan waits for its decision, and what was read for it is not read again.
func TestPlanHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20})
		b.planOnly(20)
		sum := b.run()
		b.want(sum, checkpoint.RunPlanned)
		if b.account.Counts().Writes != 0 || sum.Plan["change"] != 20 || sum.Counts.Pending != 20 {
			t.Errorf("%d writes, plan %v, %+v", b.account.Counts().Writes, sum.Plan, sum.Counts)
		}
	})
}

// The checkpoint fails in the middle: Run says so and ends, and nothing that
// was answered before is lost.
func TestCheckpointFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, Latency: 2 * time.Second})
		b.work = handmade{list: append(b.udfWrites(30), b.quickJobs(30)...)}
		path := b.store.Path()
		// Answers come at even seconds, so requests are out at this moment.
		time.AfterFunc(5*time.Second, func() {
			if err := b.store.Close(); err != nil {
				t.Error(err)
			}
		})
		_, err := b.try(t.Context())
		if err == nil {
			t.Fatal("no error, though the checkpoint was gone")
		}
		b.open(path)
		b.connect("key", "secret")
		sum := b.run()
		made, doubts := b.account.Jobs(), b.states("device-job-create")[checkpoint.StateInDoubt]
		if doubts > 0 {
			b.want(sum, checkpoint.RunInDoubt)
		} else { // only writes that may be repeated were out at that moment
			b.want(sum, checkpoint.RunOK)
		}
		if doubts > 8 || made < 30-doubts || made > 30 {
			t.Errorf("%d jobs of 30 made, %d in doubt", made, doubts)
		}
		if again := repeated(b.requests("device-job-create")); len(again) > 0 {
			t.Errorf("jobs sent again: %v", again)
		}
		if again := repeated(b.requests("device-udf-set")); len(again) > 8 || b.tagged(30) != 30 {
			t.Errorf("%d tagged, sent again: %v", b.tagged(30), again)
		}
	})
}
