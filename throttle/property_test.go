package throttle

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Alone on an account, with any profile, number of workers, limits and latency, no bucket
// is ever over its limit, nobody gets a 429, and everything is sent in the end.
func TestPropertyAloneIsNeverOverALimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		profile := rapid.SampledFrom(profiles).Draw(rt, "profile")
		s := newServer(rapid.Uint64().Draw(rt, "seed"))
		s.latency = rapid.Float64Range(0.02, 3).Draw(rt, "latency")
		s.limits["reads"] = rapid.IntRange(50, 700).Draw(rt, "reads limit")
		s.limits["writes"] = rapid.IntRange(50, 700).Draw(rt, "writes limit")
		s.limits["device-udf-set"] = rapid.IntRange(30, 300).Draw(rt, "operation limit")
		s.bare = rapid.Bool().Draw(rt, "legacy")
		s.legacy = s.bare
		lanes := map[string]int{}
		for _, lane := range []string{Read, "device-udf-set", "alert-mute"} {
			lanes[lane] = rapid.IntRange(0, 250).Draw(rt, lane)
		}
		workers := rapid.IntRange(1, 24).Draw(rt, "workers")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, s, Config{Profile: profile, MaxPause: 24 * time.Hour})
			var wg sync.WaitGroup
			errs := make([]error, 0, 3)
			var mu sync.Mutex
			for lane, n := range lanes {
				wg.Go(func() {
					if _, err := pool(l, s, lane, n, workers); err != nil {
						mu.Lock()
						errs = append(errs, err)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if want := lanes[Read] + lanes["device-udf-set"] + lanes["alert-mute"]; len(errs) > 0 || len(s.sent) != want {
				problem = fmt.Sprintf("%d of %d sent, %v", len(s.sent), want, errs)
			}
		})
		if s.n429+s.n403 > 0 {
			problem = fmt.Sprintf("%d × 429, %d × 403, highest use %v of %v", s.n429, s.n403, s.peak, s.limits)
		}
		if problem != "" {
			rt.Fatalf("%s", problem)
		}
	})
}

// Any schedule of arrivals, cancellations and answers, against a list that counts one by
// one: the local count is never too low and at most a slot too high, what was cancelled or
// never arrived is given back, each lane keeps its order, and in the end everybody has
// been let through.
func TestPropertyQueueAndCount(t *testing.T) {
	lanes := []string{Read, "device-udf-set", "device-warranty-create", "alert-mute"}
	rapid.Check(t, func(rt *rapid.T) {
		e := testEngine(t, rapid.SampledFrom([]string{"aggressive", "medium", "cautious", "full", "adaptive", "quick"}).Draw(rt, "profile"))
		now := at(0)
		last := map[string]uint64{}
		var waiting, flying []*Ticket
		var answered []time.Time // of reads
		var step func()
		step = func() {
			out := e.Step(now)
			for _, tk := range out.Granted {
				if tk.seq < last[tk.lane.name] {
					rt.Fatalf("%v: request %d was let through after %d", tk.lane, tk.seq, last[tk.lane.name])
				}
				last[tk.lane.name] = tk.seq
				flying = append(flying, tk)
			}
			if out.Probe {
				e.endReading(now, modern(0), nil, false)
				answered = append(answered, now)
				step()
			}
		}
		take := func(from *[]*Ticket, name string) *Ticket {
			i := rapid.IntRange(0, len(*from)-1).Draw(rt, name)
			tk := (*from)[i]
			*from = append((*from)[:i:i], (*from)[i+1:]...)
			return tk
		}
		settle := func(tk *Ticket, r Result) {
			e.Done(now, tk, r)
			if r.Status != 0 && tk.lane.name == Read {
				answered = append(answered, now)
			}
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0, 1:
				for range rapid.IntRange(1, 20).Draw(rt, "arrivals") {
					waiting = append(waiting, e.Enqueue(now, rapid.SampledFrom(lanes).Draw(rt, "lane")))
				}
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(rt, "ms")) * time.Millisecond)
			case 3:
				if len(waiting) > 0 {
					tk := take(&waiting, "who leaves")
					if !tk.granted {
						e.Cancel(now, tk)
					}
				}
			default:
				if len(flying) > 0 {
					settle(take(&flying, "who is answered"), Result{Status: rapid.SampledFrom([]int{0, 200, 404, 500}).Draw(rt, "status"), JSON: true})
				}
			}
			step()
			least, most := 0, 0
			for _, tk := range flying {
				if tk.lane.name == Read {
					least, most = least+1, most+1
				}
			}
			for _, a := range answered {
				if now.Sub(a) < time.Minute {
					least++
				}
				if now.Sub(a) <= time.Minute+100*time.Millisecond {
					most++
				}
			}
			if n := e.read.mine(now); n < least || n > most {
				rt.Fatalf("%d own reads counted, want %d to %d", n, least, most)
			}
		}
		for until := now.Add(3 * time.Hour); e.waiting > 0; {
			for len(flying) > 0 {
				settle(flying[0], ok200)
				flying = flying[1:]
			}
			now = now.Add(time.Second)
			if now.After(until) {
				rt.Fatalf("%d requests are still waiting after 3 h", e.waiting)
			}
			step()
		}
		for _, tk := range flying {
			e.Cancel(now, tk)
		}
		for _, b := range e.all {
			if b.inFlight != 0 {
				rt.Fatalf("%d requests of %s are still in flight", b.inFlight, b.name)
			}
		}
	})
}
