package runner

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
)

// pages are the page numbers that were asked for, in the order of their arrival.
func pages(records []rmmsim.Record) []int {
	var list []int
	for _, r := range records {
		q, _ := url.ParseQuery(r.Query)
		n, _ := strconv.Atoi(q.Get("page"))
		list = append(list, n)
	}
	return list
}

// six gives the account six devices, one.. six.
func (b *bench) six() {
	b.t.Helper()
	var objects []string
	for i := 1; i <= 6; i++ {
		objects = append(objects, fmt.Sprintf(`{"uid":"dev-%d","id":%d,"hostname":"H%d"}`, i, i, i))
	}
	b.check(b.account.SetDevices(objects...))
}

// A parameter that nextPageUrl forgets is put back on every page.
func TestCase_D02_NextPageForgetsFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, NextForgets: true})
		b.export(7, "filter: {filterId: 77}")
		b.want(b.run(), checkpoint.RunOK)
		sent := b.requests("devices")
		for _, r := range sent {
			if q, _ := url.ParseQuery(r.Query); q.Get("filterId") != "77" || q.Get("max") != "7" {
				t.Errorf("page request %q lost its filter", r.Query)
			}
		}
		if got := len(b.elements()); got != 20 || len(sent) < 3 {
			t.Errorf("%d devices over %d pages, want every third of 60", got, len(sent))
		}
	})
}

// There is no cap on pages.
func TestCase_D16_HundredAndOnePages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 101})
		b.export(1)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		if sum.Counts.Done != 101 {
			t.Errorf("%d pages", sum.Counts.Done)
		}
		b.sameElements(b.elements(), b.fleet())
	})
}

// A device that goes while pages are read shifts the rest; the list is read
// until it holds still.
func TestCase_N14_DeviceDeletedBetweenPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{})
		b.six()
		b.faults(rmmsim.Fault{
			Match: rmmsim.Match{Operation: "devices", Query: map[string]string{"page": "0"}, Nth: 1},
			Do:    rmmsim.Action{DeleteDevice: "first"},
		})
		b.export(2)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		if got := b.elements(); len(got) != 5 {
			t.Fatalf("%d devices: %v", len(got), got)
		}
		b.sameElements(b.elements(), b.fleet())
		if len(sum.Notes) == 0 {
			t.Error("nobody is told that the list was read again")
		}
		events, err := b.store.Events(t.Context(), runID, 10)
		b.check(err)
		if !slices.ContainsFunc(events, func(e checkpoint.Event) bool { return e.Kind == "note" }) {
			t.Error("the history of the run does not tell it either")
		}
	})
}

// A nextPageUrl that is absent before the end gives the whole list or none.
func TestCase_N16_NextPageAbsent(t *testing.T) {
	for page, whole := range map[string]bool{"0": false, "1": true} {
		t.Run("page "+page, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{})
				b.six()
				b.account.RemoveDevice("dev-6")
				b.faults(rmmsim.Fault{
					Match: rmmsim.Match{Operation: "devices", Query: map[string]string{"page": page}},
					Do:    rmmsim.Action{Next: "missing"},
				})
				b.export(2)
				sum := b.run()
				if whole {
					// All pages are asked for once the first has told the total.
					b.want(sum, checkpoint.RunOK)
					b.sameElements(b.elements(), b.fleet())
					return
				}
				b.want(sum, checkpoint.RunIncomplete)
				if sum.Err == nil || !strings.Contains(sum.Err.Error(), "2 of 5") {
					t.Errorf("the reason: %v", sum.Err)
				}
			})
		})
	}
}

// A page that cannot be read stops the run; the next call asks for it and for
// what lies behind, and what was read is kept.
func TestCase_N19_FailureOnPage40(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 500, Latency: 50 * time.Millisecond})
		b.faults(rmmsim.Fault{
			Match: rmmsim.Match{Operation: "devices", Query: map[string]string{"page": "39"}},
			Do:    rmmsim.Action{Status: 500},
		})
		b.export(10)
		b.want(b.run(), checkpoint.RunUnreachable)
		first := len(b.requests("devices"))
		if first < 50 || first > 50+12 {
			t.Errorf("%d requests in the first call", first)
		}

		b.account.ClearFaults()
		b.reopen()
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		second := pages(b.requests("devices")[first:])
		if second[0] != 39 {
			t.Errorf("the second call begins with page %d", second[0])
		}
		// The rest is the walk that confirms the first: each page once.
		rest := slices.Sorted(slices.Values(second[1:]))
		for i, n := range rest {
			if i != n {
				t.Fatalf("after page 39 the second call asks for %v", rest)
			}
		}
		if len(rest) != 50 {
			t.Errorf("%d pages in the second walk", len(rest))
		}
		b.sameElements(b.elements(), b.fleet())
	})
}

// A nextPageUrl that leads abroad or nowhere is never followed.
func TestStrangeNextPage(t *testing.T) {
	for _, next := range []string{"foreign", "loop"} {
		t.Run(next, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 30})
				b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices"}, Do: rmmsim.Action{Next: next}})
				b.export(10)
				sum := b.run()
				if sum.State == checkpoint.RunOK {
					t.Fatal("ended well")
				}
				for _, r := range b.account.Log() {
					if !strings.HasPrefix(r.Host, "sim-api.") {
						t.Errorf("a request went to %s", r.Host)
					}
				}
				if n := len(b.requests("devices")); n > 10 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// Elements are the same whatever the number of workers.
func TestWorkersDoNotChangeTheResult(t *testing.T) {
	var want []string
	for _, n := range []int{1, 16} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			bubbleHere(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 230, Latency: 80 * time.Millisecond, Spread: 1})
				b.export(10)
				b.want(b.run(workers(n)), checkpoint.RunOK)
				got := b.elements()
				b.sameElements(got, b.fleet())
				if want == nil {
					want = got
				}
				b.sameElements(got, want)
			})
		})
	}
}

// A list that belongs to every site is read for every site.
func TestListOfParents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 300, Latency: 50 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "site-devices", Every: 5}, Do: rmmsim.Action{Status: 503}})
		b.exportOf("site-devices", 100)
		b.want(b.run(), checkpoint.RunOK)
		sites, lists := 0, 0
		for key, it := range b.items() {
			if it.State != checkpoint.StateDone {
				t.Errorf("%s is %s", key, it.State)
			}
			switch it.Op {
			case "sites":
				sites++
			case "site-devices":
				lists++
			}
		}
		if sites == 0 || lists < 5 {
			t.Errorf("%d pages of sites, %d lists", sites, lists)
		}
	})
}
