package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// script is what goes wrong in one example of the property.
type script struct {
	devices, quickJobs, workers int
	latency                     time.Duration
	faults                      []rmmsim.Fault
	calls                       []call
}

// call is one call of Run: it is stopped after a while, softly or at once, with
// its network cut for some seconds.
type call struct {
	after time.Duration
	abort bool
	grace time.Duration
	cut   time.Duration
}

func drawScript(t *rapid.T) script {
	seconds := func(name string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Second
	}
	s := script{
		devices:   rapid.IntRange(1, 12).Draw(t, "devices"),
		quickJobs: rapid.IntRange(0, 4).Draw(t, "quick jobs"),
		workers:   rapid.SampledFrom([]int{1, 2, 8, 16}).Draw(t, "workers"),
		latency:   time.Duration(rapid.SampledFrom([]int{0, 50, 700, 3000}).Draw(t, "latency")) * time.Millisecond,
	}
	actions := map[string]rmmsim.Action{
		"429": {Status: 429}, "429 with time": {Status: 429, Headers: map[string]string{"Retry-After": "7"}},
		"401": {Status: 401}, "409": {Status: 409}, "500": {Status: 500}, "503 page": {Status: 503, HTML: "Down"},
		"200 page": {HTML: "Maintenance"}, "applied 504": {Status: 504, Apply: true},
		"lost before": {Drop: "before"}, "lost after": {Drop: "after"}, "late": {Delay: 90 * time.Second}, "slow": {Delay: 20 * time.Second},
		"token gone": {InvalidateToken: true}, "blocked": {Block: 5 * time.Minute}, "403": {Status: 403, HTML: "Blocked"},
	}
	names := slices.Sorted(maps.Keys(actions))
	for range rapid.IntRange(0, 6).Draw(t, "faults") {
		from := rapid.IntRange(1, 12).Draw(t, "from")
		name := rapid.SampledFrom(names).Draw(t, "action")
		s.faults = append(s.faults, rmmsim.Fault{
			Name: name,
			Match: rmmsim.Match{
				Operation: rapid.SampledFrom([]string{"*", "token", "device-udf-set", "device-job-create", "request-rate"}).Draw(t, "operation"),
				From:      from, To: from + rapid.IntRange(0, 3).Draw(t, "more"),
			},
			Do: actions[name],
		})
	}
	for range rapid.IntRange(0, 4).Draw(t, "calls") {
		s.calls = append(s.calls, call{
			after: seconds("stop after", 0, 90), abort: rapid.Bool().Draw(t, "abort"), grace: seconds("grace", 1, 30),
			cut: seconds("cut", 0, 20),
		})
	}
	return s
}

// play runs a script and returns in what the laws were broken.
func (s script) play(t *testing.T) (broken []string) {
	wrong := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	b := newBench(t, rmmsim.Config{Devices: s.devices + s.quickJobs, UDFs: 30, Latency: s.latency})
	b.faults(s.faults...)
	b.work = handmade{list: append(b.udfWrites(s.devices), b.quickJobs(s.quickJobs)...)}

	// What was acknowledged to us, whatever the account thinks.
	var mu sync.Mutex
	acked := map[string]int{}
	run := func(ctx context.Context, change func(*Config)) Summary {
		client := b.client
		return b.runIn(ctx, workers(s.workers), func(cfg *Config) {
			cfg.Caller = caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
				resp, err := client.Do(ctx, req)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					acked[req.Op+" "+req.Path["deviceUid"]]++
				}
				return resp, err
			})
		}, change)
	}
	for _, c := range s.calls {
		now := time.Now()
		b.net.set(unplugged(now.Add(time.Second), now.Add(time.Second+c.cut)))
		ctx, cancel := context.WithTimeout(t.Context(), c.after)
		run(ctx, func(cfg *Config) {
			cfg.Grace = c.grace
			if c.abort {
				cfg.Abort = ctx
			}
		})
		cancel()
		b.reopen()
	}
	b.net.set(nil)
	b.account.ClearFaults()
	sum := run(t.Context(), func(*Config) {})

	items := b.items()
	if len(items) != s.devices+s.quickJobs {
		wrong("%d items of %d", len(items), s.devices+s.quickJobs)
	}
	doubts := 0
	for key, it := range items {
		switch it.State {
		case checkpoint.StateDone:
		case checkpoint.StateInDoubt:
			doubts++
			if it.Op != "device-job-create" {
				wrong("%s is in doubt, though it may be repeated", key)
			}
		default:
			wrong("%s is %s: %s", key, it.State, it.Reason)
		}
	}
	if want := (map[bool]checkpoint.RunState{true: checkpoint.RunInDoubt, false: checkpoint.RunOK})[doubts > 0]; sum.State != want {
		wrong("the run is %s (%v) with %d in doubt", sum.State, sum.Err, doubts)
	}
	for what, n := range acked {
		if n != 1 {
			wrong("%s was acknowledged %d times", what, n)
		}
	}
	if len(acked) != s.devices+s.quickJobs-doubts {
		wrong("%d acknowledged of %d, %d in doubt", len(acked), s.devices+s.quickJobs, doubts)
	}
	if b.tagged(s.devices) != s.devices {
		wrong("%d of %d devices have their value", b.tagged(s.devices), s.devices)
	}
	carried := map[string]int{}
	for _, r := range b.requests("device-job-create") {
		if r.Applied {
			carried[r.Path]++
		}
	}
	for path, n := range carried {
		if n > 1 {
			wrong("%s was carried out %d times", path, n)
		}
	}
	if made := b.account.Jobs(); made < s.quickJobs-doubts || made > s.quickJobs {
		wrong("%d jobs of %d made, %d in doubt", made, s.quickJobs, doubts)
	}
	rec, err := b.store.Run(t.Context(), runID)
	if err != nil || rec.Writes != int64(len(acked)) {
		wrong("the run counts %d writes, %d were acknowledged (%v)", rec.Writes, len(acked), err)
	}
	return broken
}

// Whatever goes wrong and however often the run is stopped: in the end each item
// has one final state, no acknowledged write was sent again, nothing that must
// not be repeated was carried out twice, and the devices are as planned.
func TestAnyFaultsAndStops(t *testing.T) { playAll(t, drawScript) }

// playAll plays what is drawn, each in a bubble of its own, and fewer under the race detector.
func playAll[S interface{ play(*testing.T) []string }](t *testing.T, draw func(*rapid.T) S) {
	t.Helper()
	t.Parallel()
	played := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := draw(rt)
		if played++; raced && played > 30 {
			return
		}
		var broken []string
		ok := t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { broken = s.play(t) })
		})
		if !ok || len(broken) > 0 {
			rt.Fatalf("%q", broken)
		}
	})
}
