package rmmsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// burst takes n requests, step apart, and gives how many were admitted at
// once, admitted late, rejected and blocked.
func burst(q *Quota, from time.Time, step time.Duration, n int, op string) (got [4]int) {
	for i := range n {
		d := q.Take(from.Add(time.Duration(i)*step), "192.0.2.1", op)
		switch {
		case d.Verdict == Rejected:
			got[2]++
		case d.Verdict == Blocked:
			got[3]++
		case d.Delay > 0:
			got[1]++
		default:
			got[0]++
		}
	}
	return got
}

func TestQuota(t *testing.T) {
	ops := QuotaRules{Operations: []string{"device-move", "device-udf-set"}}
	with := func(f func(*QuotaRules)) QuotaRules { r := ops; f(&r); return r }
	for _, tt := range []struct {
		name   string
		limits Limits
		rules  QuotaRules
		step   time.Duration
		n      int
		op     string
		want   [4]int // at once, one second late, 429, 403
	}{
		{"539 reads are free, the 540th comes late", Limits{}, ops, 0, 540, "", [4]int{539, 1, 0, 0}},
		{"the 601st read is refused", Limits{}, ops, 0, 601, "", [4]int{539, 61, 1, 0}},
		{"30 rejections block the address", Limits{}, ops, 0, 640, "", [4]int{539, 61, 30, 10}},
		{"8 reads a second never reach the cut-off", Limits{}, ops, time.Second / 8, 5000, "", [4]int{5000, 0, 0, 0}},
		{"9 reads a second come late for good", Limits{}, ops, time.Second / 9, 5000, "", [4]int{539, 4461, 0, 0}},
		{"most writes have a limit of 100", Limits{}, ops, 0, 101, "device-move", [4]int{89, 11, 1, 0}},
		{"UDFs have 600", Limits{}, ops, 0, 601, "device-udf-set", [4]int{539, 61, 1, 0}},
		{"a write without a bucket has 600", Limits{}, ops, 0, 601, "alert-mute", [4]int{539, 61, 1, 0}},
		{"given limits", Limits{Read: 10}, ops, 0, 11, "", [4]int{8, 2, 1, 0}},
		{"a given operation limit", Limits{Ops: map[string]int{"device-move": 20}}, ops, 0, 21, "device-move", [4]int{17, 3, 1, 0}},
		{"off", Limits{Off: true}, ops, 0, 5000, "device-move", [4]int{5000, 0, 0, 0}},
		{"no delay", Limits{}, with(func(r *QuotaRules) { r.NoDelay = true }), 0, 601, "", [4]int{600, 0, 1, 0}},
		{"a legacy account has no operation limits", Limits{}, with(func(r *QuotaRules) { r.Legacy = true }), 0, 600, "device-move", [4]int{539, 61, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := burst(NewQuota(tt.limits, tt.rules), t0, tt.step, tt.n, tt.op)
			if got != tt.want {
				t.Errorf("got %v, want %v (at once, late, 429, 403)", got, tt.want)
			}
		})
	}
}

func TestReadsAndWritesAreIndependent(t *testing.T) {
	q := NewQuota(Limits{}, QuotaRules{Operations: []string{"device-udf-set", "device-move"}})
	burst(q, t0, 0, 600, "")
	if got := burst(q, t0, 0, 100, "device-udf-set"); got[0] != 100 {
		t.Errorf("writes after 600 reads: %v", got)
	}
	if r := q.Reading(t0); r.ReadCount != 600 || r.WriteCount != 100 || r.Ops["device-udf-set"] != (OpReading{100, 600}) || r.Ops["device-move"] != (OpReading{0, 100}) {
		t.Errorf("reading %+v", r)
	}
	legacy := NewQuota(Limits{}, QuotaRules{Legacy: true})
	burst(legacy, t0, 0, 600, "")
	if got := burst(legacy, t0, 0, 1, "device-udf-set"); got[2] != 1 {
		t.Errorf("a write after 600 reads of a legacy account: %v", got)
	}
}

func TestRejectedRequestsCountAndKeepTheWindowFull(t *testing.T) {
	q := NewQuota(Limits{Read: 100}, QuotaRules{})
	burst(q, t0, 0, 100, "")
	if got := burst(q, at(30), 0, 20, ""); got[2] != 20 {
		t.Fatalf("over the limit: %v", got)
	}
	if r := q.Reading(at(61)); r.ReadCount != 20 {
		t.Errorf("after the first minute %d are left, want the 20 rejected", r.ReadCount)
	}
	if got := burst(q, at(61), 0, 81, ""); got[2] != 1 {
		t.Errorf("80 are free again: %v", got)
	}
}

func TestBlockEndsAfterFiveMinutesAndIsOfOneAddress(t *testing.T) {
	q := NewQuota(Limits{Read: 10}, QuotaRules{})
	burst(q, t0, 0, 40, "") // 10 + 30 rejections
	for _, tt := range []struct {
		at   float64
		addr string
		want Verdict
	}{
		{1, "192.0.2.1", Blocked}, {1, "192.0.2.2", Rejected}, {299.9, "192.0.2.1", Blocked}, {300, "192.0.2.1", Admitted},
	} {
		if got := q.Take(at(tt.at), tt.addr, "").Verdict; got != tt.want {
			t.Errorf("at %v s from %s: verdict %d, want %d", tt.at, tt.addr, got, tt.want)
		}
	}
	if r := q.Reading(at(300)); r.ReadCount != 1 {
		t.Errorf("blocked requests count: %d", r.ReadCount)
	}
}

func TestSlowRejectionsDoNotBlock(t *testing.T) {
	q := NewQuota(Limits{Read: 1}, QuotaRules{})
	if got := burst(q, t0, 2100*time.Millisecond, 300, ""); got[3] != 0 || got[2] < 290 {
		t.Errorf("28 rejections a minute: %v", got)
	}
}

func TestFlood(t *testing.T) {
	q := NewQuota(Limits{}, QuotaRules{Operations: []string{"device-move"}})
	q.Flood(Flood{From: at(10), To: at(70), Rate: 9})
	q.Flood(Flood{From: at(0), To: at(1000), Rate: 1, Op: "device-move"})
	for _, tt := range []struct {
		at          float64
		reads, move int
	}{{0, 0, 1}, {9, 0, 10}, {10, 1, 11}, {20, 91, 21}, {69.99, 540, 60}, {90, 359, 60}, {130, 0, 60}, {900, 0, 60}, {1100, 0, 0}} {
		r := q.Reading(at(tt.at))
		if r.ReadCount != tt.reads || r.Ops["device-move"].Count != tt.move || r.WriteCount != tt.move {
			t.Errorf("at %v s: %d reads, %d moves, %d writes; want %d, %d", tt.at, r.ReadCount, r.Ops["device-move"].Count, r.WriteCount, tt.reads, tt.move)
		}
	}
}

func TestStaleReading(t *testing.T) {
	q := NewQuota(Limits{}, QuotaRules{Stale: 3 * time.Second})
	burst(q, t0, time.Second, 10, "") // 0 to 9 s
	for _, tt := range []struct {
		at   float64
		want int
	}{{9, 7}, {12, 10}, {62, 10}, {63, 9}, {72, 0}} {
		if got := q.Reading(at(tt.at)).ReadCount; got != tt.want {
			t.Errorf("reading at %v s: %d, want %d", tt.at, got, tt.want)
		}
	}
}

func TestHighest(t *testing.T) {
	q := NewQuota(Limits{Read: 100}, QuotaRules{Operations: []string{"device-move"}})
	burst(q, t0, 0, 50, "")
	burst(q, at(200), 0, 5, "")
	burst(q, at(200), 0, 3, "device-move")
	if got := fmt.Sprint(q.Highest()); got != "map[device-move:0.03 read:0.5 write:0.005]" {
		t.Error(got)
	}
}

// The same rules through the account, in virtual time.

func TestDelayIsOneSecondOfVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 10, Latency: 200 * time.Millisecond, Limits: Limits{Read: 10}})
		for i := range 10 {
			start := time.Now()
			c.get("/v2/system/pagination")
			want := 200 * time.Millisecond
			if i >= 8 { // the 9th reaches 90 %
				want += time.Second
			}
			if got := time.Since(start); got != want {
				t.Errorf("request %d took %v, want %v", i+1, got, want)
			}
		}
		c.want(http.StatusTooManyRequests, http.MethodGet, "/v2/system/pagination", "")
		time.Sleep(time.Minute)
		c.get("/v2/system/pagination")
		if n := c.a.Counts(); n.Throttled != 1 || n.Delayed != 2 || n.Highest["read"] != 1.1 {
			t.Errorf("counts %+v", n)
		}
	})
}

func TestGoingOnAfter429BlocksTheAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 10, Limits: Limits{Read: 10}, NoDelay: true, RetryAfter: 1500 * time.Millisecond})
		for range 10 {
			c.get("/v2/system/pagination")
		}
		res, err := c.client.Do(c.request(http.MethodGet, "/v2/system/pagination", ""))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "2" {
			t.Fatalf("status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
		for range 29 {
			c.want(http.StatusTooManyRequests, http.MethodGet, "/v2/system/pagination", "")
		}
		page := c.want(http.StatusForbidden, http.MethodGet, "/v2/system/pagination", "")
		if !strings.Contains(page, "<html>") || !strings.Contains(page, "Request blocked") {
			t.Errorf("block page %q", page)
		}
		if got := c.login("key", "secret2"); got != http.StatusForbidden {
			t.Errorf("login from a blocked address: %d", got)
		}
		other := *c
		other.client = &http.Client{Transport: c.a.TransportFrom("198.51.100.7")}
		other.want(http.StatusTooManyRequests, http.MethodGet, "/v2/system/pagination", "")
		time.Sleep(BlockFor)
		c.get("/v2/system/pagination")
	})
}

func TestRequestRateReportsItself(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		c := newTester(t, Config{Devices: 3, Legacy: legacy})
		uid := c.a.DeviceUIDs()[0]
		c.get("/v2/account")
		c.want(http.StatusOK, http.MethodPost, "/v2/device/"+uid+"/udf", `{"udf1":"x"}`)
		c.want(http.StatusNotFound, http.MethodPost, "/v2/device/nobody/udf", `{"udf1":"x"}`)
		var got map[string]any
		decode(t, c.get("/v2/system/request_rate"), &got)
		if legacy {
			if len(got) != 5 || got["accountCount"] != 4.0 {
				t.Errorf("legacy: %v", got)
			}
			continue
		}
		ops := got["operationWriteStatus"].(map[string]any)
		udf := ops["device-udf-set"].(map[string]any)
		if got["accountCount"] != 2.0 || got["accountWriteCount"] != 2.0 || len(ops) != 16 || udf["count"] != 2.0 || udf["limit"] != 600.0 {
			t.Errorf("modern: %v", got)
		}
	}
}

func TestLimitsOffStillCounts(t *testing.T) {
	c := newTester(t, Config{Devices: 1, Limits: Limits{Off: true, Read: 10}})
	for range 50 {
		c.get("/v2/system/pagination")
	}
	var got map[string]any
	decode(t, c.get("/v2/system/request_rate"), &got)
	if got["accountCount"] != 51.0 || got["accountRateLimit"] != 10.0 {
		t.Errorf("rate %v", got)
	}
}

func TestOverlappingWritesToOneDeviceConflict(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newTester(t, Config{Devices: 3, Latency: 100 * time.Millisecond, NoConflicts: off})
			uids := c.a.DeviceUIDs()
			var wg sync.WaitGroup
			status := make([]int, 3)
			for i, uid := range []string{uids[0], uids[0], uids[1]} {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					status[i], _, _ = c.do(http.MethodPost, "/v2/device/"+uid+"/udf", fmt.Sprintf(`{"udf%d":"x"}`, i+1))
				})
			}
			wg.Wait()
			want := "[200 409 200]"
			if off {
				want = "[200 200 200]"
			}
			if fmt.Sprint(status) != want {
				t.Errorf("conflicts off %v: %v, want %v", off, status, want)
			}
			c.want(http.StatusOK, http.MethodPost, "/v2/device/"+uids[0]+"/udf", `{"udf2":"x"}`)
		})
	}
}

func TestAClientThatGivesUpHasSentItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1, Latency: time.Minute})
		uid := c.a.DeviceUIDs()[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		send := func(method, path, body string) error {
			res, err := c.client.Do(c.request(method, path, body).WithContext(ctx))
			if err == nil {
				res.Body.Close()
			}
			return err
		}
		err := send(http.MethodPost, "/v2/device/"+uid+"/udf", `{"udf1":"late"}`)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		if got := c.a.UDF(uid, "udf1"); got != "late" {
			t.Errorf("udf1 = %q", got)
		}
		n := len(c.a.Log())
		if err := send(http.MethodGet, "/v2/account", ""); err == nil || len(c.a.Log()) != n {
			t.Errorf("a request of a context that is over arrived (%v)", err)
		}
	})
}

func TestLatencySpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTester(t, Config{Devices: 1, Latency: 250 * time.Millisecond, Spread: 0.4, Limits: Limits{Off: true}})
		below := 0
		for range 500 {
			start := time.Now()
			c.get("/v2/system/pagination")
			if time.Since(start) < 250*time.Millisecond {
				below++
			}
		}
		if below < 210 || below > 290 {
			t.Errorf("%d of 500 answers faster than the median", below)
		}
	})
}
