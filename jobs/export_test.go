package jobs

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// tree is an account of parents with a list each.
type tree struct {
	parents *fleet
	param   string
	list    func(uid string) reply
}

func (tr tree) serve(req rmm.Request) reply {
	if uid, ok := req.Path[tr.param]; ok {
		return tr.list(uid)
	}
	return tr.parents.page(req)
}

// byParent groups what was read by the parent in its path.
func (d *driver) byParent(param string) map[string][]string {
	d.t.Helper()
	got := map[string][]string{}
	for el, err := range d.make().(*ExportWork).Elements(context.Background(), d.memory) {
		if err != nil {
			d.t.Fatal(err)
		}
		got[el.Path[param]] = append(got[el.Path[param]], string(el.JSON))
	}
	return got
}

// A variable is read for each site, and each row knows its site. Sites without
// such a list are left out and counted.
func TestVariablesOverSites(t *testing.T) {
	tr := tree{
		parents: &fleet{items: []string{
			`{"uid":"s1","name":"Depot North"}`, `{"uid":"Deleted Devices"}`, `{"uid":"on demand","onDemand":true}`, `{"uid":"a/b%2F"}`, `{"uid":"gone"}`,
		}},
		param: "siteUid",
		list: func(uid string) reply {
			switch uid {
			case "on demand":
				return reply{status: 400}
			case "gone":
				return reply{status: 404}
			}
			return reply{body: envelope("variables", []string{`{"id":1,"name":"` + uid + `"}`, `{"id":2}`}, 2, "")}
		},
	}
	d := exporter(t, "site-variables", 2, tr.serve)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, uid := range []string{"s1", "Deleted Devices", "a/b%2F"} {
		want[uid] = []string{`{"id":1,"name":"` + uid + `"}`, `{"id":2}`}
	}
	if got := d.byParent("siteUid"); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
	if note := d.notes[len(d.notes)-1]; note != "site-variables leaves out 2 of the sites: the service has no such list for them (404 or 400)" {
		t.Errorf("note %q", note)
	}
}

// The audit is asked for devices of class device only, and for those that do not
// tell their class.
func TestCase_D17_AuditListsByClass(t *testing.T) {
	var items []string
	for _, class := range []string{`"device"`, `"printer"`, `"esxihost"`, `"unknown"`, `"rmmnetworkdevice"`, "null"} {
		items = append(items, fmt.Sprintf(`{"uid":"d%d","deviceClass":%s}`, len(items), class))
	}
	for _, tc := range []struct {
		from, element string
		want          []string
		note          string
	}{
		{"device-software", "software", []string{"d0", "d5"}, "device-software leaves out 4 of the devices: they are not of class device"},
		{"device-alerts-open", "alerts", []string{"d0", "d1", "d2", "d3", "d4", "d5"}, ""},
	} {
		t.Run(tc.from, func(t *testing.T) {
			d := exporter(t, tc.from, 50, tree{&fleet{items: items}, "deviceUid", func(string) reply {
				return reply{body: envelope(tc.element, []string{`{"name":"x"}`}, 1, "")}
			}}.serve)
			if err := d.run(); err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(d.byParent("deviceUid"))); !slices.Equal(got, tc.want) {
				t.Errorf("read for %v, want %v", got, tc.want)
			}
			if got := strings.Join(d.notes, "\n"); got != tc.note {
				t.Errorf("notes %q, want %q", got, tc.note)
			}
		})
	}
}

// Only a refusal for good says that there is no list.
func TestOtherFailuresOfOneParentAreFailuresOfTheExport(t *testing.T) {
	for _, status := range []int{403, 405, 500} {
		d := exporter(t, "site-variables", 2, tree{&fleet{items: []string{`{"uid":"s1"}`}}, "siteUid", func(string) reply { return reply{status: status} }}.serve)
		if why := d.incomplete(); !strings.Contains(why, strconv.Itoa(status)) {
			t.Errorf("%d: %s", status, why)
		}
	}
}

// A site that is deleted while its pages are read ends as one that is left out,
// with none of its elements.
func TestParentGoneBetweenItsPages(t *testing.T) {
	asked := 0
	sites := &fleet{items: []string{`{"uid":"s1"}`, `{"uid":"s2"}`}}
	d := exporter(t, "site-variables", 2, func(req rmm.Request) reply {
		uid := req.Path["siteUid"]
		if uid == "" {
			return sites.page(req)
		}
		if uid == "s1" {
			if asked++; asked > 2 {
				return reply{status: 404}
			}
		}
		return (&fleet{items: numbered("id", 1, 5)}).page(req)
	})
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	got := d.byParent("siteUid")
	if len(got["s1"]) != 0 || len(got["s2"]) != 5 {
		t.Errorf("got %q", got)
	}
	if note := d.notes[len(d.notes)-1]; !strings.Contains(note, "leaves out 1 of the sites") {
		t.Errorf("notes %q", d.notes)
	}
}

// The list of one parent is walked twice only on request, or when it changed.
func TestSecondWalkOfNestedLists(t *testing.T) {
	for option, want := range map[string]int{"auto": 2 * 3, "never": 2 * 3, "always": 2 * 2 * 3} {
		d := exporter(t, "site-variables", 2, func(req rmm.Request) reply {
			if req.Op == "sites" {
				return (&fleet{items: []string{`{"uid":"s1"}`, `{"uid":"s2"}`}}).page(req)
			}
			return (&fleet{items: numbered("id", 1, 5)}).page(req)
		}, "second_walk: "+option)
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		if got := len(d.pageNumbers("site-variables")); got != want {
			t.Errorf("%s: %d requests, want %d", option, got, want)
		}
	}
}

// The filter is one of the exported list, not of its parents.
func TestFilterOfNestedList(t *testing.T) {
	d := exporter(t, "site-devices", 2, func(req rmm.Request) reply {
		if req.Op == "sites" {
			return (&fleet{items: []string{`{"uid":"s1"}`}}).page(req)
		}
		return (&fleet{items: numbered("uid", 1, 3), forgets: true}).page(req)
	}, "filter: {filterId: 7}")
	d.complete(numbered("uid", 1, 3))
	for _, r := range d.sent {
		if got := r.Query.Get("filterId"); got != map[string]string{"sites": "", "site-devices": "7"}[r.Op] {
			t.Errorf("%s with filterId %q", r.Op, got)
		}
	}
}

// streamed is the answers of a walk over many devices, made as they are read, so
// that what is held in memory is what the work holds.
type streamed struct{ devices, size int }

func (s streamed) body(page int) []byte {
	var items []string
	for i := page * s.size; i < min((page+1)*s.size, s.devices); i++ {
		items = append(items, dev{uid: fmt.Sprintf("%08x-1111-4111-8111-1111111111a1", i), hostname: fmt.Sprintf("WS-%06d", i), site: "Depot"}.json())
	}
	next := ""
	if (page+1)*s.size < s.devices {
		next = host + "/api/v2/account/devices?max=" + strconv.Itoa(s.size) + "&page=" + strconv.Itoa(page+1)
	}
	return []byte(envelope("devices", items, s.devices, next))
}

// peak is the largest live heap that a function meets at the points where it
// calls the function given, in bytes above what was there before.
func peak(do func(sample func())) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, top := m.HeapAlloc, uint64(0)
	do(func() {
		runtime.GC()
		runtime.ReadMemStats(&m)
		top = max(top, m.HeapAlloc)
	})
	return top - min(before, top)
}

// The walk of a large fleet holds one page and an identity for each device.
func BenchmarkWalk(b *testing.B) {
	pages := streamed{devices: 20_000, size: 250}
	var bodies [][]byte
	for p := range pages.devices / pages.size {
		bodies = append(bodies, pages.body(p))
	}
	job := parse(b, "export:\n  from: devices\n  to: out.csv\n")
	w := NewExportWork(job, Settings{})
	m := memory{}
	for p, body := range bodies {
		it := w.listOf(nil).first(1, pages.size)
		it.Key = walkKey(w.listOf(nil).id, 1, p)
		m[it.Key] = &record{settled: true, answer: Answer{Key: it.Key, Request: it.Request, OK: true, Body: body}}
	}
	b.ReportAllocs()
	for b.Loop() {
		top := peak(func(sample func()) {
			if step, err := w.Settle(b.Context(), StageRead, m); err != nil || step.Note == "" {
				b.Fatal(step, err)
			}
			n := 0
			for _, err := range w.Elements(b.Context(), m) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n%5000 == 0 {
					sample()
				}
			}
			if n != pages.devices {
				b.Fatal(n)
			}
		})
		b.ReportMetric(float64(top)/(1<<20), "peak-MiB")
	}
}
