package runner

import (
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
)

// Six hours of virtual time: a list of devices and thousands of writes of an
// operation with a tight limit, beside another program, through refusals, a
// block, the end of a token every hour, errors and lost answers. Nothing is lost
// and nothing acknowledged is sent again.
func TestSixHours(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	t.Parallel()
	began := time.Now() // of the real world
	bubbleHere(t, func(t *testing.T) {
		devices, limit := 2200, 18
		if raced {
			devices, limit = 600, 5
		}
		nth := func(share float64) int { return int(share * float64(devices)) }
		b := newBench(t, rmmsim.Config{
			Devices: devices, UDFs: 30, Latency: 250 * time.Millisecond, Spread: 0.6, TokenLifetime: time.Hour,
			Limits: rmmsim.Limits{Ops: map[string]int{"device-warranty-create": limit}},
		})
		hour := func(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
		write := func(m rmmsim.Match, do rmmsim.Action) rmmsim.Fault {
			m.Operation = "device-warranty-create"
			return rmmsim.Fault{Match: m, Do: do}
		}
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{At: hour(0.5), For: hour(0.7)}, Do: rmmsim.Action{Flood: 6}},
			rmmsim.Fault{Match: rmmsim.Match{At: hour(2.5), For: hour(0.5)}, Do: rmmsim.Action{Flood: 0.15, FloodOperation: "device-warranty-create"}},
			write(rmmsim.Match{Nth: nth(0.15)}, rmmsim.Action{Status: 429}),
			write(rmmsim.Match{Nth: nth(0.3)}, rmmsim.Action{Status: 429, Headers: map[string]string{"Retry-After": "90"}}),
			write(rmmsim.Match{From: nth(0.5), To: nth(0.5) + 1}, rmmsim.Action{Status: 429, HTML: "Too Many Requests"}),
			write(rmmsim.Match{Nth: nth(0.7)}, rmmsim.Action{Block: 5 * time.Minute}),
			write(rmmsim.Match{Every: nth(0.04)}, rmmsim.Action{Status: 503}),
			write(rmmsim.Match{Every: nth(0.09)}, rmmsim.Action{Drop: "before"}),
			write(rmmsim.Match{Every: nth(0.085)}, rmmsim.Action{Drop: "after"}),
			write(rmmsim.Match{Every: nth(0.18)}, rmmsim.Action{InvalidateToken: true}),
			rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Every: 9}, Do: rmmsim.Action{Status: 502, HTML: "Bad Gateway"}},
			rmmsim.Fault{Match: rmmsim.Match{At: hour(4), For: 4 * time.Minute}, Do: rmmsim.Action{Status: 504}},
		)
		var rows []string
		for _, uid := range b.uids(0) {
			rows = append(rows, uid+",2031-05-06")
		}
		b.update("device-warranty-create", "warrantyDate", rows)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)

		acked, lost := b.acked(), 0
		for _, r := range b.requests("device-warranty-create") {
			if r.Applied && r.Status == 0 {
				lost++
			}
		}
		if len(acked) != sum.Counts.Done-b.states("devices")[checkpoint.StateDone] {
			t.Errorf("%d devices written, %d items done", len(acked), sum.Counts.Done)
		}
		for path, n := range acked {
			if n != 1 {
				t.Errorf("%s acknowledged %d times", path, n)
			}
		}
		c := b.account.Counts()
		if c.Applied != len(acked)+lost {
			t.Errorf("%d writes carried out, %d acknowledged, %d lost their answer", c.Applied, len(acked), lost)
		}
		if c.Blocked > 9 || c.Throttled > 40 {
			t.Errorf("%d requests blocked, %d refused", c.Blocked, c.Throttled)
		}
		took := time.Since(b.began)
		if took < 6*time.Hour {
			t.Errorf("took only %s; the test means to last six hours", took)
		}
		t.Logf("%d writes and %d reads in %s of virtual time; %d retries, held %s, waited %s; refused %d, blocked %d, logins %d",
			c.Writes, c.Reads, took.Round(time.Second), sum.Retries, sum.Held.Round(time.Second), sum.Waited.Round(time.Second),
			c.Throttled, c.Blocked, len(b.requests("token")))
	})
	t.Logf("%s of real time", time.Since(began).Round(100*time.Millisecond))
}
