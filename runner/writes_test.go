package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// Success of a write is its status; the body may be anything.
func TestCase_D13_WriteWithoutBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 3})
		uid := b.uids(3)
		on := func(uid string, do rmmsim.Action) rmmsim.Fault {
			do.Apply = true
			return rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uid}, Do: do}
		}
		b.faults(
			on(uid[1], rmmsim.Action{Status: 204}),
			on(uid[2], rmmsim.Action{Status: 200, Body: "OK", Headers: map[string]string{"Content-Type": "text/plain"}}),
		)
		b.tag(0)
		b.want(b.run(), checkpoint.RunOK)
		sent := b.requests("device-udf-set")
		if len(sent) != 3 || b.tagged(0) != 3 {
			t.Errorf("%d requests, %d tagged", len(sent), b.tagged(0))
		}
		for _, r := range sent {
			if r.AnswerSize > 2 {
				t.Errorf("the test means to answer with next to nothing, not %d bytes", r.AnswerSize)
			}
		}
	})
}

// Rows of one device make one request; a 409 is tried again.
func TestCase_D12_Conflict(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 3, Latency: 500 * time.Millisecond})
		uid := b.uids(3)
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uid[1], Nth: 1}, Do: rmmsim.Action{Status: 409}})
		b.update("device-udf-set", "udf1,udf2,udf3", []string{
			uid[0] + ",a,,", uid[1] + ",b,,", uid[0] + ",,c,", uid[2] + ",,,d",
		})
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		if sum.Retries != 1 {
			t.Errorf("%d retries, want 1", sum.Retries)
		}
		sent := b.requests("device-udf-set")
		if len(sent) != 4 {
			t.Errorf("%d requests, want one each and the retry", len(sent))
		}
		for i, r := range sent {
			for _, other := range sent[:i] {
				if other.Path == r.Path && r.Time.Before(other.Done) {
					t.Errorf("two requests for %s at once", r.Path)
				}
			}
		}
		rows := 0
		for row, err := range b.store.Rows(t.Context(), runID) {
			b.check(err)
			if row.Number > 0 {
				rows++
				if row.ItemState != checkpoint.StateDone {
					t.Errorf("row %d is %s", row.Number, row.ItemState)
				}
			}
		}
		got := b.account.UDF(uid[0], "udf1") + b.account.UDF(uid[1], "udf1") + b.account.UDF(uid[0], "udf2") + b.account.UDF(uid[2], "udf3")
		if rows != 4 || got != "abcd" {
			t.Errorf("%d rows, values %q", rows, got)
		}
	})
}

// A record that stays in use fails that row only, after a few tries.
func TestConflictThatStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 10})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: b.uids(1)[0]}, Do: rmmsim.Action{Status: 409}})
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunPartial)
		if sum.Counts.Failed != 1 || sum.Retries != 4 || b.tagged(0) != 9 {
			t.Errorf("%+v, %d retries, %d tagged", sum.Counts, sum.Retries, b.tagged(0))
		}
		if sum.Waited < 10*time.Second || sum.Down != 0 {
			t.Errorf("waited %s, of that %s for a service that has always answered", sum.Waited, sum.Down)
		}
	})
}

// A write that was carried out and whose answer was lost is repeated only where
// that does no harm.
func TestCase_N09_AnswerLostAfterTheWrite(t *testing.T) {
	tests := []struct {
		name string
		do   rmmsim.Action
	}{
		{"dropped", rmmsim.Action{Drop: "after"}},
		{"timed out", rmmsim.Action{Delay: 2 * time.Minute}},
		{"gateway", rmmsim.Action{Status: 504, Apply: true}},
		{"web page", rmmsim.Action{HTML: "Login", Apply: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 10})
				for _, op := range []string{"device-udf-set", "device-job-create"} {
					b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: op, Nth: 2}, Do: tt.do})
				}
				b.work = handmade{list: append(b.udfWrites(5), b.quickJobs(5)...)}
				sum := b.run()
				b.want(sum, checkpoint.RunInDoubt)
				if got := b.states("device-udf-set"); got[checkpoint.StateDone] != 5 {
					t.Errorf("UDFs: %v", got)
				}
				if got := b.states("device-job-create"); got[checkpoint.StateDone] != 4 || got[checkpoint.StateInDoubt] != 1 {
					t.Errorf("jobs: %v", got)
				}
				if b.account.Jobs() != 5 || len(b.requests("device-job-create")) != 5 {
					t.Errorf("%d jobs made by %d requests", b.account.Jobs(), len(b.requests("device-job-create")))
				}
				if n := len(b.requests("device-udf-set")); n != 6 || sum.Retries != 1 {
					t.Errorf("%d UDF requests, %d retries", n, sum.Retries)
				}
				// It stays in doubt, however often the run is resumed.
				b.account.ClearFaults()
				b.reopen()
				b.want(b.run(), checkpoint.RunInDoubt)
				if b.account.Jobs() != 5 {
					t.Errorf("%d jobs after a resume", b.account.Jobs())
				}
			})
		})
	}
}

// A write that certainly was not carried out is no doubt: refused by a limit or
// by a connection that never came about.
func TestUnsafeButNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 5})
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-job-create", Nth: 2}, Do: rmmsim.Action{Status: 429}},
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-job-create", Nth: 4}, Do: rmmsim.Action{Status: 401}},
		)
		b.work = handmade{list: b.quickJobs(5)}
		b.want(b.run(), checkpoint.RunOK)
		if b.account.Jobs() != 5 {
			t.Errorf("%d jobs", b.account.Jobs())
		}
	})
}

// Each kind of write has a bucket of its own, and a slow one does not hold up
// the others.
func TestCase_D10_Buckets(t *testing.T) {
	t.Run("udf", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 300, Latency: 100 * time.Millisecond})
			b.work = handmade{list: b.udfWrites(300)}
			b.want(b.run(), checkpoint.RunOK)
			took := time.Since(b.began)
			t.Logf("300 UDF writes took %s", took)
			if took > time.Minute {
				t.Errorf("300 UDF writes took %s", took)
			}
			b.calm()
		})
	})
	t.Run("warranty", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 300, Latency: 100 * time.Millisecond})
			b.work = handmade{list: b.warrantyWrites(300)}
			b.want(b.run(), checkpoint.RunOK)
			took := time.Since(b.began)
			t.Logf("300 warranty writes took %s", took)
			// The profile medium comes to about 40 a minute where 100 are allowed.
			if took < 2*time.Minute || took > 9*time.Minute {
				t.Errorf("300 warranty writes took %s", took)
			}
			b.calm()
			if n := most(b.requests("device-warranty-create")); n > 100 {
				t.Errorf("%d in a minute", n)
			}
		})
	})
	t.Run("both", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 300, Latency: 100 * time.Millisecond})
			b.work = handmade{list: append(b.warrantyWrites(300), b.udfWrites(300)...)}
			b.want(b.run(), checkpoint.RunOK)
			last := map[string]time.Duration{}
			for _, r := range b.requests("") {
				last[r.Operation] = b.at(r)
			}
			t.Logf("both together: %v", last)
			if last["device-udf-set"] > 2*time.Minute {
				t.Errorf("the last UDF write came after %s", last["device-udf-set"])
			}
			if last["device-warranty-create"] > 9*time.Minute {
				t.Errorf("the last warranty write came after %s", last["device-warranty-create"])
			}
			b.calm()
			if n := most(b.requests("device-warranty-create")); n > 100 {
				t.Errorf("%d warranty writes in a minute", n)
			}
		})
	})
	t.Run("legacy", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 300, Latency: 100 * time.Millisecond, Legacy: true})
			b.work = handmade{list: append(b.warrantyWrites(300), b.udfWrites(300)...)}
			b.want(b.run(), checkpoint.RunOK)
			b.calm()
			if n := most(b.account.Log()); n > 600 {
				t.Errorf("%d requests in a minute", n)
			}
		})
	})
}

// calm fails the test if the account refused, blocked or slowed anything down.
func (b *bench) calm() {
	b.t.Helper()
	if c := b.account.Counts(); c.Throttled+c.Blocked+c.Delayed > 0 {
		b.t.Errorf("%d requests refused, %d blocked, %d slowed down", c.Throttled, c.Blocked, c.Delayed)
	}
}

// A panic in the caller or in the work fails the item that it belongs to, says
// so, and leaves the others alone.
func TestPanicFailsOneItem(t *testing.T) {
	bad := "device-udf-set"
	tests := []struct {
		name string
		op   string // of the item that panics
		in   string
		want checkpoint.State
	}{
		{"a write that may be repeated, in the caller", bad, "caller", checkpoint.StateFailed},
		{"a write that may be repeated, in the work", bad, "work", checkpoint.StateFailed},
		{"a quick job, in the caller", "device-job-create", "caller", checkpoint.StateInDoubt},
		{"a quick job, in the work", "device-job-create", "work", checkpoint.StateInDoubt},
		{"a read, in the caller", "device", "caller", checkpoint.StateFailed},
		{"a read, in the work", "device", "work", checkpoint.StateFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 12})
				list := append(b.udfWrites(6), b.quickJobs(6)...)
				for i, uid := range b.uids(6) {
					list = append(list, jobs.Item{Key: fmt.Sprintf("device/%d", i), Request: rmm.Request{Op: "device", Path: map[string]string{"deviceUid": uid}}})
				}
				uid := b.uids(4)[3]
				if tt.op == "device-job-create" {
					uid = b.uids(0)[9]
				}
				hit := func(req rmm.Request) bool { return req.Op == tt.op && req.Path["deviceUid"] == uid }
				b.work = handmade{list: list, follow: func(it jobs.Item, _ []byte) ([]jobs.Item, error) {
					if tt.in == "work" && hit(it.Request) {
						panic("index out of range")
					}
					return nil, nil
				}}
				client := b.client
				sum := b.run(func(cfg *Config) {
					cfg.Caller = caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
						if tt.in == "caller" && hit(req) {
							panic("index out of range")
						}
						return client.Do(ctx, req)
					})
				})
				if sum.Counts.Done != 17 || sum.Counts.Failed+sum.Counts.InDoubt != 1 {
					t.Fatalf("%+v", sum.Counts)
				}
				failures, err := b.store.Failures(t.Context(), runID, 5)
				b.check(err)
				it := failures[0]
				if it.State != tt.want || it.Op != tt.op {
					t.Errorf("%s is %s, want %s", it.Key, it.State, tt.want)
				}
				if it.State == checkpoint.StateFailed && it.Class != classBug {
					t.Errorf("class %q", it.Class)
				}
				for _, part := range []string{"panic: index out of range", "writes_test.go:"} {
					if !strings.Contains(it.Reason, part) {
						t.Errorf("reason %q lacks %q", it.Reason, part)
					}
				}
			})
		})
	}
}

// A panic of a failed item under a breaker, or of all of them, still ends.
func TestEverythingPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 30})
		b.work = handmade{list: b.udfWrites(30)}
		sum := b.run(func(cfg *Config) {
			cfg.Caller = caller(func(context.Context, rmm.Request) (rmm.Response, error) { panic(fmt.Errorf("always")) })
		})
		b.want(sum, checkpoint.RunPartial)
		if sum.Counts.Failed != 30 {
			t.Errorf("%+v", sum.Counts)
		}
	})
}
