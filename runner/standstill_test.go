package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// looks are the walks through the list of devices: one request each.
func (b *bench) looks() int { return len(b.requests("devices")) }

// An update that has stood still looks at the targets of the writes that are left before it
// sends the next one, as one that is resumed: what somebody has edited meanwhile stays.
func TestStandstill(t *testing.T) {
	const n = 60
	hold := func(after, d time.Duration) func(*bench, *throttle.Limiter) {
		return func(_ *bench, l *throttle.Limiter) {
			time.Sleep(after)
			l.Hold(true)
			time.Sleep(d)
			l.Hold(false)
		}
	}
	refusal := func(at int, wait time.Duration) func(*bench, *throttle.Limiter) {
		return func(b *bench, _ *throttle.Limiter) {
			b.faults(rmmsim.Fault{
				Match: rmmsim.Match{Operation: "device-udf-set", Nth: at},
				Do:    rmmsim.Action{Status: 429, Headers: map[string]string{"Retry-After": fmt.Sprint(int(wait.Seconds()))}},
			})
		}
	}
	tests := []struct {
		name    string
		set     jobs.Settings
		stop    func(*bench, *throttle.Limiter)
		edit    time.Duration // when somebody edits the last device
		looks   int           // walks through the list
		drifted bool
	}{
		{name: "no pause", stop: func(*bench, *throttle.Limiter) {}, edit: 100 * time.Hour, looks: 1},
		{name: "pause by a person", stop: hold(5*time.Second, 3*time.Second), edit: 7 * time.Second, looks: 2, drifted: true},
		{name: "pause over night", stop: hold(5*time.Second, 9*time.Hour), edit: time.Hour, looks: 2, drifted: true},
		{name: "pause while the plan is made", stop: hold(1300*time.Millisecond, time.Hour), edit: time.Minute, looks: 2, drifted: true},
		{name: "short wait of the limits", stop: refusal(10, 9*time.Minute), edit: 100 * time.Hour, looks: 1},
		{name: "long wait of the limits", stop: refusal(10, 20*time.Minute), edit: 15 * time.Minute, looks: 2, drifted: true},
		{
			name: "long block", edit: 8 * time.Minute, looks: 2, drifted: true,
			stop: func(b *bench, _ *throttle.Limiter) {
				time.Sleep(5 * time.Second)
				b.faults(rmmsim.Fault{
					Match: rmmsim.Match{At: time.Since(b.began), For: 11 * time.Minute}, Do: rmmsim.Action{Status: 403, HTML: "blocked"},
				})
			},
		},
		{name: "first writes", set: jobs.Settings{Canary: n}, stop: hold(5*time.Second, time.Hour), edit: time.Minute, looks: 3, drifted: true},
	}
	for _, tt := range tests {
		for _, width := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d workers", tt.name, width), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := newBench(t, rmmsim.Config{Devices: n, Sparse: true, UDFs: 30, Latency: 500 * time.Millisecond})
					b.pause = 6 * time.Hour
					b.tag(n)
					b.work = jobs.NewUpdateWork(b.job, tt.set)
					last := b.uids(n)[n-1]
					edit := time.AfterFunc(tt.edit, func() { b.check(b.account.SetUDF(last, "udf1", "PRECIOUS")) })
					sum := b.run(workers(width), func(cfg *Config) { go tt.stop(b, cfg.Limiter) })
					edit.Stop()
					want, tagged := checkpoint.RunOK, n
					if tt.drifted {
						want, tagged = checkpoint.RunPartial, n-1
					}
					b.want(sum, want)
					if got := b.tagged(n); got != tagged || tt.drifted && b.account.UDF(last, "udf1") != "PRECIOUS" {
						t.Errorf("%d tagged, want %d; the edited one has %q", got, tagged, b.account.UDF(last, "udf1"))
					}
					if got := b.looks(); got != tt.looks {
						t.Errorf("the list was read %d times, want %d", got, tt.looks)
					}
					if again := repeated(b.requests("device-udf-set")); len(again) > 2 {
						t.Errorf("sent again: %v", again)
					}
					if got := strings.Contains(strings.Join(sum.Notes, "\n"), "had stood still"); got != (tt.looks > 1) {
						t.Errorf("notes %q", sum.Notes)
					}
				})
			})
		}
	}
}
