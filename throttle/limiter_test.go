package throttle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// The goals of the profiles: throughput against somebody who knows the server's windows
// and stays at 90 % of the limit, 540 in 60 s.
func TestReferenceThroughput(t *testing.T) {
	goals := map[string]float64{"aggressive": 0.53, "medium": 0.37, "cautious": 0.32}
	for _, p := range Profiles() {
		if goals[p.Name] == 0 {
			continue
		}
		for _, workers := range []int{8, 32} {
			if raced && workers > 8 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", p.Name, workers), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newServer(uint64(workers))
					l := newLimiter(t, s, Config{Profile: p})
					if err := l.Start(context.Background()); err != nil {
						t.Fatal(err)
					}
					const n = 10_000
					took, err := pool(l, s, Read, n, workers)
					if err != nil {
						t.Fatal(err)
					}
					ratio := n / took.Seconds() / (540.0 / 60)
					t.Logf("ratio %.3f (goal %.2f), 429s %d, highest %d of 600, one calibration per %.1f requests",
						ratio, goals[p.Name], s.n429, s.peak["reads"], n/float64(s.probes))
					if goal := goals[p.Name]; ratio < 0.95*goal || ratio > 1.05*goal {
						t.Errorf("ratio %.3f is not within 5 %% of %.2f", ratio, goal)
					}
					if s.n429+s.n403 > 0 || s.peak["reads"] >= 540 {
						t.Errorf("%d × 429, %d × 403, highest use %d", s.n429, s.n403, s.peak["reads"])
					}
				})
			})
		}
	}
}
