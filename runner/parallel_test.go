package runner

import (
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// chain follows the next page of each page, as a loop does, and gives the pages and the time
// that it took.
func (b *bench) chain(list string) (requests int, took time.Duration) {
	b.t.Helper()
	op, _ := rmm.Lookup(list)
	began := time.Now()
	for req := (rmm.Request{Op: list}); ; requests++ {
		resp, err := b.client.Do(b.t.Context(), req)
		b.check(err)
		page, err := rmm.ParsePage(op, resp.Body)
		b.check(err)
		if page.Next == "" {
			return requests + 1, time.Since(began)
		}
		req.Query, err = rmm.NextQuery(req, page.Next)
		b.check(err)
	}
}

// A list of 10,000 devices where each page takes a second: once the first page has told the
// total, the others come side by side.
func TestPagesSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const latency = time.Second
		cfg := rmmsim.Config{Devices: 10_000, Latency: latency}
		b := newBench(t, cfg)
		b.check(b.client.Login(t.Context()))
		pages, chained := b.chain("devices")
		if pages != 40 || chained != time.Duration(pages)*latency {
			t.Fatalf("the chain took %d pages and %s", pages, chained)
		}
		for walks, option := range map[int]string{1: "never", 2: "always"} {
			b := newBench(t, cfg)
			b.profile = "adaptive" // the default of the program
			b.export(250, "second_walk: "+option)
			b.want(b.run(workers(8)), checkpoint.RunOK)
			sent := b.requests("devices")
			took := sent[len(sent)-1].Time.Sub(sent[0].Time) + latency
			t.Logf("pages read %d times: %d requests in %s, as a chain in %s", walks, len(sent), took, time.Duration(walks)*chained)
			if len(sent) != walks*pages || len(b.elements()) != 10_000 {
				t.Errorf("%d walks took %d pages for %d devices", walks, len(sent), len(b.elements()))
			}
			if 4*took > time.Duration(walks)*chained {
				t.Errorf("%d walks side by side took %s, one page after the other %s", walks, took, time.Duration(walks)*chained)
			}
		}
	})
}
