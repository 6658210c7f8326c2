// Command bench measures the throttle in virtual time: every profile, and what other
// programs do, on every scenario, against an oracle that knows the windows of the server.
//
//	go run ./throttle/bench                   # all scenarios with goals, 20 seeds, as Markdown
//	go run ./throttle/bench -scenario V       # variations: what the formulas were not made for
//	go run ./throttle/bench -scenario S5 -profile full -seeds 100 -first 1000
//
// The accounts are the windows of the simulator (internal/rmmsim), the gate of our profiles
// is throttle.Core, the arithmetic that throttle.Limiter itself is made of. A program is a
// number of workers, each of which waits for the gate, sends, and waits for the answer;
// nothing sleeps, so that an hour takes milliseconds.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"rmmjob/throttle"
)

// contender is a way to decide when a request is sent.
type contender struct {
	name    string
	make    func(*client) gate
	ours    bool
	workers int // 1: sends one by one, whatever the scenario says
}

func contenders() []contender {
	var out []contender
	for _, p := range throttle.Profiles() {
		out = append(out, contender{name: p.Name, make: profile(p), ours: true})
	}
	for _, p := range throttle.Profiles() {
		if p.Onset > 0 {
			out = append(out, contender{name: p.Name + ", one worker", make: profile(p), ours: true, workers: 1})
		}
	}
	return append(out,
		contender{name: "token bucket 10/s", make: tokenBucket},
		contender{name: "AIMD", make: aimd},
		contender{name: "AWS adaptive", make: cubic},
		contender{name: "backoff with jitter", make: backoff},
		contender{name: "none, 120 s after 429", make: noLimit},
	)
}

func main() {
	seeds := flag.Int("seeds", 20, "how many seeds")
	first := flag.Uint64("first", 1, "the first seed")
	only := flag.String("scenario", "", "only these scenarios, by the beginning of their names, comma separated")
	names := flag.String("profile", "", "only these profiles or rivals, comma separated")
	flag.Parse()
	if flag.NArg() > 0 || *seeds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	began := time.Now()
	var missed int
	for _, s := range scenarios() {
		if !chosen(*only, s.name, strings.HasPrefix) || *only == "" && s.extra {
			continue
		}
		var field []contender
		for _, c := range contenders() {
			if chosen(*names, c.name, func(a, b string) bool { return a == b }) && (c.ours && c.workers == 0 || s.rivals && (c.workers == 0 || s.name == "S1")) {
				field = append(field, c)
			}
		}
		n := *seeds
		if s.seeds > 0 {
			n = min(n, s.seeds)
		}
		missed += report(os.Stdout, s, field, measure(s, field, *first, n))
	}
	fmt.Printf("%d goals missed. %d seeds from %d, %.0f s of computing on %d cores.\n",
		missed, *seeds, *first, time.Since(began).Seconds(), runtime.GOMAXPROCS(0))
}

func chosen(list, name string, match func(string, string) bool) bool {
	if list == "" {
		return true
	}
	for _, want := range strings.Split(list, ",") {
		if match(name, want) {
			return true
		}
	}
	return false
}

// measure runs a scenario for each contender and seed, on all cores.
func measure(s scenario, field []contender, first uint64, seeds int) [][]figures {
	type job struct{ who, seed int }
	results := make([][]figures, len(field)+1) // the oracle comes last
	var jobs []job
	for who := range results {
		results[who] = make([]figures, seeds)
		for seed := range seeds {
			jobs = append(jobs, job{who, seed})
		}
	}
	next := make(chan job)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for j := range next {
				who := contender{name: "oracle", make: newOracle}
				if j.who < len(field) {
					who = field[j.who]
				}
				results[j.who][j.seed] = s.run(first+uint64(j.seed), who)
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wg.Wait()
	for who := range field {
		for seed := range seeds {
			results[who][seed].ratio = results[who][seed].score / results[len(field)][seed].score
		}
	}
	return results[:len(field)]
}
