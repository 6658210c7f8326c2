package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmmjob/internal/rmm"
)

// complete runs an export that must succeed and compares what it read.
func (d *driver) complete(want []string) {
	d.t.Helper()
	if err := d.run(); err != nil {
		d.t.Fatal(err)
	}
	if got := d.elements(); !slices.Equal(got, want) {
		d.t.Errorf("got %d elements %.300q, want %d %.300q", len(got), got, len(want), want)
	}
}

// incomplete runs an export that must end so, and returns why.
func (d *driver) incomplete() string {
	d.t.Helper()
	err := d.run()
	var inc *IncompleteError
	if !errors.As(err, &inc) {
		d.t.Fatalf("ended with %v, want an IncompleteError", err)
	}
	return inc.Message
}

// The next page is on the same path, whatever the name of the host.
func TestCase_D01_HostNameWithAPI(t *testing.T) {
	f := &fleet{items: numbered("uid", 1, 6)}
	d := exporter(t, "devices", 2, f.page, "second_walk: never")
	d.complete(f.items)
	if got := d.pageNumbers("devices"); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("pages %v", got)
	}
	for _, r := range d.sent {
		if len(r.Path) != 0 {
			t.Errorf("request %+v has a path of its own", r)
		}
	}
}

func TestCase_D02_NextPageForgetsFilter(t *testing.T) {
	ours, theirs := numbered("uid", 1, 5), numbered("uid", 100, 120)
	d := exporter(t, "devices", 2, func(req rmm.Request) reply {
		f := fleet{items: theirs, forgets: true}
		if req.Query.Get("filterId") == "77" {
			f.items = ours
		}
		return f.page(req)
	}, "filter: {filterId: 77}")
	d.complete(ours)
	for _, r := range d.sent {
		if r.Query.Get("filterId") != "77" || r.Query.Get("max") != "2" {
			t.Errorf("page request %v lost its filter", r.Query)
		}
	}
}

func TestCase_D04_WrongArrayName(t *testing.T) {
	d := exporter(t, "devices", 2, func(rmm.Request) reply { return reply{body: envelope("items", []string{"{}", "{}"}, 2, "")} })
	if err := d.run(); err == nil || !strings.Contains(err.Error(), "expected devices array missing") {
		t.Errorf("ended with %v", err)
	}
}

// Strange elements are elements; only the envelope must be right.
func TestCase_D06_D09_StrangeElementsAreKept(t *testing.T) {
	items := []string{
		`{"uid":"a1","deviceClass":"device"}`,
		`{"uid":"b2","deviceClass":"rmmnetworkdevice","patchManagement":null}`,
		`{"uid":"c3","deviceClass":"flyingtoaster","antivirus":{"antivirusStatus":"Sideways"}}`,
		`{}`, `null`, `"text"`, `[1]`, `{"uid":null}`, `{"uid":{"a":1}}`, `{"uid":7}`, `{"uid":7.0}`, `{"UID":"a1"}`,
		`{"uid":"x1","alertContext":{"samples":{"":"Status","a.b":"1","A.B":"2"}}}`,
	}
	f := &fleet{items: items}
	exporter(t, "devices", 50, f.page).complete(items)
	exporter(t, "devices", 3, f.page).complete(items)
}

func TestCase_D16_HundredAndOnePages(t *testing.T) {
	f := &fleet{items: numbered("uid", 1, 101)}
	d := exporter(t, "devices", 1, f.page)
	d.complete(f.items)
	if len(d.sent) != 101 {
		t.Errorf("%d requests; a list of more than 100 pages is not read twice", len(d.sent))
	}
}

// An operation without pages is asked for without page and max.
func TestCase_D23_SingleObjectIsNoList(t *testing.T) {
	op, _ := rmm.Lookup("device")
	l := list{op: op, id: "one", path: map[string]string{"deviceUid": deviceA}}
	it := l.first(1, 250)
	if len(it.Request.Query) != 0 {
		t.Errorf("query %v", it.Request.Query)
	}
	body := []byte(`{"uid":"` + deviceA + `"}`)
	if more, err := followPage(it, body); more != nil || err != nil {
		t.Errorf("followed by %v, %v", more, err)
	}
	m := memory{it.Key: {item: it, settled: true, answer: Answer{Key: it.Key, Request: it.Request, OK: true, Body: body}}}
	n := 0
	for el, err := range elements(context.Background(), m, "one") {
		if n++; err != nil || string(el.JSON) != string(body) {
			t.Errorf("element %s, %v", el.JSON, err)
		}
	}
	if n != 1 {
		t.Errorf("%d elements", n)
	}
}

func TestCase_N14_DeviceDeletedWhilePagesAreRead(t *testing.T) {
	f := &fleet{items: numbered("uid", 1, 6)}
	n := 0
	d := exporter(t, "devices", 2, func(req rmm.Request) reply {
		defer func() {
			if n++; n == 1 {
				f.items = f.items[1:]
			}
		}()
		return f.page(req)
	})
	d.complete(numbered("uid", 2, 6))
	if !slices.Equal(d.notes, []string{
		"devices is read again: the total changed while it was read",
		"devices is read again: it changed between two walks",
	}) {
		t.Errorf("notes %q", d.notes)
	}
}

// A total of 5 is the measure, wherever nextPageUrl is missing. Page 2 is there
// for who asks for it by number, and is asked for.
func TestCase_N16_NextPageMissing(t *testing.T) {
	for _, tc := range []struct {
		name       string
		without    string // page without a nextPageUrl
		last       []string
		incomplete string
	}{
		{"on page 1", "1", numbered("uid", 5, 5), ""},
		{"on page 1 and page 2 is empty", "1", nil, "devices is incomplete after 4 walks: 4 of 5 elements came"},
		{"on page 0", "0", numbered("uid", 5, 5), "devices is incomplete after 4 walks: 2 of 5 elements came"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := numbered("uid", 1, 5)
			d := exporter(t, "devices", 2, func(req rmm.Request) reply {
				number, _ := strconv.Atoi(req.Query.Get("page"))
				items, next := [][]string{all[:2], all[2:4], tc.last}[number], ""
				if number < 2 && req.Query.Get("page") != tc.without {
					next = fmt.Sprintf("%s/api/v2/account/devices?max=2&page=%d", host, number+1)
				}
				body := envelope("devices", items, 5, next)
				return reply{body: strings.Replace(body, `,"nextPageUrl":null`, "", 1)}
			})
			if tc.incomplete == "" {
				d.complete(all)
			} else if why := d.incomplete(); !strings.HasSuffix(why, tc.incomplete) {
				t.Errorf("incomplete because %q, want %q", why, tc.incomplete)
			}
		})
	}
}

func TestSecondWalk(t *testing.T) {
	for _, tc := range []struct {
		from     string
		key      string
		elements int
		option   string
		requests int
	}{
		{"devices", "uid", 0, "auto", 1},
		{"devices", "uid", 3, "auto", 1}, // one page is one moment
		{"devices", "uid", 4, "auto", 4},
		{"devices", "uid", 4, "never", 2},
		{"devices", "uid", 3, "always", 2},
		{"devices", "uid", 300, "auto", 200},
		{"devices", "uid", 301, "auto", 101},
		{"devices", "uid", 301, "always", 202},
		{"alerts-open", "alertUid", 4, "auto", 4}, // no total, but pages that shift
	} {
		t.Run(fmt.Sprintf("%s/%d/%s", tc.from, tc.elements, tc.option), func(t *testing.T) {
			f := &fleet{items: numbered(tc.key, 1, tc.elements), silent: tc.from == "alerts-open"}
			d := exporter(t, tc.from, 3, f.page, "second_walk: "+tc.option)
			d.complete(f.items)
			if len(d.sent) != tc.requests {
				t.Errorf("%d requests, want %d", len(d.sent), tc.requests)
			}
		})
	}
}

// Without a total the pages are followed one by one.
func TestListWithoutTotal(t *testing.T) {
	f := &fleet{items: numbered("alertUid", 1, 9), silent: true}
	d := exporter(t, "alerts-open", 2, f.page, "second_walk: never")
	d.complete(f.items)
	if got := strings.Join(d.pageNumbers("alerts-open"), ""); got != "01234" {
		t.Errorf("pages %s", got)
	}
	n := 0
	d = exporter(t, "alerts-open", 2, func(req rmm.Request) reply {
		defer func() {
			if n++; n == 2 {
				f.items = f.items[1:] // resolved between pages 1 and 2
			}
		}()
		return f.page(req)
	})
	d.complete(numbered("alertUid", 2, 9))
}

func TestPageSizeCutByServer(t *testing.T) {
	all := numbered("uid", 1, 950)
	for _, echo := range []string{"100", "250", ""} { // what nextPageUrl says of the size
		t.Run("max "+echo, func(t *testing.T) {
			asked := 0
			d := exporter(t, "devices", 250, func(req rmm.Request) reply {
				asked++
				f := fleet{items: all, cut: 100}
				body := f.page(req).body
				switch echo {
				case "250":
					body = strings.ReplaceAll(body, "max=100", "max=250")
				case "":
					body = strings.ReplaceAll(body, "max=100&", "")
				}
				return reply{body: body}
			}, "second_walk: never")
			d.complete(all)
			if asked != 10 {
				t.Errorf("%d requests for 10 pages", asked)
			}
		})
	}
}

// A first page with few elements says nothing of the size of the others.
func TestSparseFirstPageIsNoMeasure(t *testing.T) {
	all := numbered("uid", 1, 501)
	d := exporter(t, "devices", 250, func(req rmm.Request) reply {
		number, _ := strconv.Atoi(req.Query.Get("page"))
		return reply{body: envelope("devices", [][]string{all[:1], all[1:251], all[251:]}[number], 501, nextIf(number < 2, number+1))}
	}, "second_walk: never")
	d.complete(all)
	if len(d.sent) != 3 {
		t.Errorf("%d requests", len(d.sent))
	}
}

func nextIf(more bool, page int) string {
	if !more {
		return ""
	}
	return fmt.Sprintf("%s/api/v2/account/devices?max=250&page=%d", host, page)
}

func TestPagesThatDoNotLeadToTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		from string
		next func(page int, q url.Values) string
		want string
	}{
		{"to itself", "devices", func(page int, q url.Values) string { return "?max=2&page=" + strconv.Itoa(page) }, "back to the page just read"},
		{"back", "devices", func(page int, q url.Values) string {
			return "?max=2&page=" + strconv.Itoa([]int{1, 2, 1}[min(page, 2)])
		}, `page 2 of devices names page "1"`},
		{"to the first", "devices", func(page int, q url.Values) string { return "?max=2&page=" + strconv.Itoa((page+1)%3) }, `page 2 of devices names page "0"`},
		{"jumps", "devices", func(page int, q url.Values) string { return "?max=2&page=" + strconv.Itoa(page+2) }, `page 0 of devices names page "2"`},
		{"no number", "devices", func(int, url.Values) string { return "?max=2" }, "no page number"},
		{"not a number", "devices", func(int, url.Values) string { return "?max=2&page=next" }, `names page "next"`},
		{"negative", "devices", func(int, url.Values) string { return "?max=2&page=-1" }, `names page "-1"`},
		{"another path", "devices", func(int, url.Values) string { return "/api/v2/account/sites?page=1" }, "another path"},
		{"for ever", "devices", func(page int, q url.Values) string { return "?max=2&page=" + strconv.Itoa(page+1) }, "names a next one, for 6 elements in all"},
		{"to itself without total", "alerts-open", func(page int, q url.Values) string { return "?page=" + strconv.Itoa(page) }, "back to the page just read"},
		{"cursor to itself", "activity-logs", func(_ int, q url.Values) string { return "?" + q.Encode() }, "back to the page just read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := exporter(t, tc.from, 2, func(req rmm.Request) reply {
				op, _ := rmm.Lookup(req.Op)
				page, _ := strconv.Atoi(req.Query.Get("page"))
				total := 6
				if tc.from != "devices" {
					total = -1
				}
				next := tc.next(page, req.Query)
				if strings.HasPrefix(next, "?") {
					next = host + "/api" + op.Path + next
				}
				return reply{body: envelope(op.Element, numbered("id", page*2, page*2+1), total, next)}
			})
			err := d.run()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ended with %v, want %q", err, tc.want)
			}
			if len(d.sent) > 20 {
				t.Errorf("%d requests before it was noticed", len(d.sent))
			}
		})
	}
}

// Even a list without a total ends.
func TestListLongerThanAnyIsAnError(t *testing.T) {
	op, _ := rmm.Lookup("alerts-open")
	it := Item{Key: walkKey("list/alerts-open", 1, maxPages-1), Request: rmm.Request{Op: op.Name, Query: url.Values{"page": {strconv.Itoa(maxPages - 1)}}}}
	body := envelope("alerts", numbered("alertUid", 1, 1), -1, nextURL(op, nil, url.Values{"page": {strconv.Itoa(maxPages)}}))
	if _, err := followPage(it, []byte(body)); !errors.Is(err, errLoop) {
		t.Errorf("page %d is followed: %v", maxPages-1, err)
	}
}

func TestGrowingList(t *testing.T) {
	f := &fleet{items: numbered("uid", 1, 5)}
	n := 0
	d := exporter(t, "devices", 2, func(req rmm.Request) reply {
		defer func() {
			if n++; n == 2 { // after the last page is known, before it is read
				f.items = append(f.items, numbered("uid", 6, 9)...)
			}
		}()
		return f.page(req)
	})
	d.complete(numbered("uid", 1, 9))
	if !slices.Contains(d.pageNumbers("devices"), "4") {
		t.Error("the pages that came in addition were not followed")
	}
}

// A page that the list does not have any more is a reason to read it again, not
// to give up. A refused first page is one to give up.
func TestRefusedPages(t *testing.T) {
	for _, tc := range []struct {
		page   string
		status int
		want   string
	}{
		{"2", 404, ""},
		{"2", 400, ""},
		{"2", 403, "devices is incomplete: page 3 could not be read: 403 Forbidden; 4 of 5 elements came"},
		{"2", 500, "devices is incomplete: page 3 could not be read: 500 Internal Server Error; 4 of 5 elements came"},
		{"0", 404, "devices is incomplete: it could not be read: 404 Not Found"},
		{"0", 400, "devices is incomplete: it could not be read: 400 Bad Request"},
	} {
		t.Run(fmt.Sprintf("%d on page %s", tc.status, tc.page), func(t *testing.T) {
			f := &fleet{items: numbered("uid", 1, 5)}
			d := exporter(t, "devices", 2, func(req rmm.Request) reply {
				if req.Query.Get("page") == tc.page {
					f.items = numbered("uid", 1, 3)
					return reply{status: tc.status}
				}
				return f.page(req)
			})
			if tc.want == "" {
				d.complete(numbered("uid", 1, 3))
			} else if why := d.incomplete(); why != tc.want {
				t.Errorf("incomplete because %q, want %q", why, tc.want)
			}
		})
	}
	// The first page that is missing counts, whatever is missing behind it.
	f := &fleet{items: numbered("uid", 1, 5)}
	why := exporter(t, "devices", 2, func(req rmm.Request) reply {
		if page := req.Query.Get("page"); page != "0" {
			return reply{status: map[string]int{"1": 500, "2": 404}[page]}
		}
		return f.page(req)
	}).incomplete()
	if want := "devices is incomplete: page 2 could not be read: 500 Internal Server Error; 2 of 5 elements came"; why != want {
		t.Errorf("two pages are missing: %q, want %q", why, want)
	}
	why = exporter(t, "devices", 2, func(req rmm.Request) reply {
		if req.Query.Get("page") == "2" {
			return reply{status: 404}
		}
		return f.page(req)
	}).incomplete()
	if want := "devices is incomplete after 4 walks: page 3 could not be read: 404 Not Found; 4 of 5 elements came"; why != want {
		t.Errorf("a page that is never there: %q, want %q", why, want)
	}
}

func TestListThatNeverSettles(t *testing.T) {
	n := 0
	churning := &fleet{}
	d := exporter(t, "devices", 2, func(req rmm.Request) reply {
		if req.Query.Get("page") == "0" {
			n++
			churning.items = numbered("uid", n, n+5) // one leaves and one joins between the walks
		}
		return churning.page(req)
	})
	if why := d.incomplete(); why != "devices is incomplete after 4 walks: no two walks agreed" {
		t.Errorf("incomplete because %q", why)
	}
	if len(d.sent) != 4*3 || len(d.notes) != 2 {
		t.Errorf("%d requests, notes %q", len(d.sent), d.notes)
	}
	twice := append(numbered("uid", 1, 3), numbered("uid", 3, 4)...)
	d = exporter(t, "devices", 3, (&fleet{items: twice}).page)
	if why := d.incomplete(); why != "devices is incomplete after 4 walks: 1 of its elements came twice" {
		t.Errorf("incomplete because %q", why)
	}
}

// Elements of a list without a key may be alike: they are all kept.
func TestElementsWithoutKeyMayRepeat(t *testing.T) {
	items := []string{`{"name":"a"}`, `{"name":"a"}`, `{"name":"b"}`, `{"name":"a"}`}
	soft := &fleet{items: items}
	devices := &fleet{items: []string{`{"uid":"d1","deviceClass":"device"}`}}
	d := exporter(t, "device-software", 3, func(req rmm.Request) reply {
		if req.Op == "devices" {
			return devices.page(req)
		}
		return soft.page(req)
	})
	d.complete(items)
}

// activities is an activity log: the position is opaque, and the last page that
// has records still names a next one.
func activities(all []string, size int, nextOnLast bool) account {
	return func(req rmm.Request) reply {
		op, _ := rmm.Lookup(req.Op)
		at, _ := strconv.Atoi(strings.TrimPrefix(req.Query.Get("searchAfter"), "after-"))
		to := min(at+size, len(all))
		next := nextURL(op, nil, url.Values{"searchAfter": {fmt.Sprintf("after-%d", to)}, "page": {"next"}})
		if to == len(all) && !nextOnLast {
			next = ""
		}
		return reply{body: envelope("activities", all[at:to], -1, next)}
	}
}

func TestActivityLog(t *testing.T) {
	for _, tc := range []struct {
		records    int
		nextOnLast bool
		requests   int
	}{
		{0, true, 1},
		{0, false, 1},
		{4, true, 3},
		{4, false, 2}, // the last page is kept when it names no next one
		{5, true, 4},
		{5, false, 3},
	} {
		t.Run(fmt.Sprintf("%d/%v", tc.records, tc.nextOnLast), func(t *testing.T) {
			all := numbered("id", 1, tc.records)
			d := exporter(t, "activity-logs", 2, activities(all, 2, tc.nextOnLast), "filter: {entities: [device], from: '2026-01-01T00:00:00Z'}")
			d.complete(all)
			if len(d.sent) != tc.requests {
				t.Errorf("%d requests, want %d", len(d.sent), tc.requests)
			}
			for _, r := range d.sent {
				if r.Query.Get("size") != "2" || r.Query.Get("entities") != "device" || r.Query.Get("from") != "2026-01-01T00:00:00Z" || r.Query.Has("max") {
					t.Errorf("request %v", r.Query)
				}
			}
		})
	}
	// The empty last page may name itself.
	d := exporter(t, "activity-logs", 2, func(req rmm.Request) reply {
		op, _ := rmm.Lookup(req.Op)
		return reply{body: envelope("activities", nil, -1, nextURL(op, nil, req.Query))}
	})
	d.complete(nil)
}

// What an export reads, and under which keys, does not depend on the order of
// the answers, nor on where it was cut off.
func TestCase_O08_AnyOrderAndAnyCrashGiveTheSame(t *testing.T) {
	site := &fleet{items: []string{`{"uid":"s1"}`, `{"uid":"deleted-devices"}`, `{"uid":"s 3/x%"}`, `{"uid":"gone"}`, `{"name":"no uid"}`}}
	for _, tc := range []struct {
		name, from string
		account    account
	}{
		{"pages", "devices", (&fleet{items: numbered("uid", 1, 11)}).page},
		{"without total", "alerts-open", (&fleet{items: numbered("alertUid", 1, 7), silent: true}).page},
		{"cursor", "activity-logs", activities(numbered("id", 1, 7), 2, true)},
		{"nested", "site-variables", func(req rmm.Request) reply {
			if req.Op == "sites" {
				return site.page(req)
			}
			if req.Path["siteUid"] == "gone" {
				return reply{status: 404}
			}
			return (&fleet{items: numbered("id", len(req.Path["siteUid"]), len(req.Path["siteUid"])+4)}).page(req)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			straight := exporter(t, tc.from, 2, tc.account)
			if err := straight.run(); err != nil {
				t.Fatal(err)
			}
			want, keys := straight.elements(), straight.keys()
			rapid.Check(t, func(rt *rapid.T) {
				order := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 0))
				crashes := rapid.Float64Range(0, 0.5).Draw(rt, "crashes")
				d := exporter(t, tc.from, 2, tc.account)
				d.choose = order.IntN
				d.lose = func() bool { return order.Float64() < crashes }
				d.complete(want)
				if !slices.Equal(d.keys(), keys) {
					rt.Fatalf("keys %q, want %q", d.keys(), keys)
				}
			})
		})
	}
}

// Whatever comes and goes while a list is read: if the export is called complete,
// then everything that was there all the time is in it, once.
func TestNothingIsMissedSilently(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "page size")
		f := &fleet{items: numbered("uid", 1, rapid.IntRange(0, 12).Draw(rt, "devices")), silent: rapid.Bool().Draw(rt, "silent")}
		stayed := map[string]bool{}
		for _, it := range f.items {
			stayed[it] = true
		}
		changes := rapid.IntRange(0, 8).Draw(rt, "changes")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		fresh := 1000
		d := exporter(t, "devices", size, func(req rmm.Request) reply {
			for changes > 0 && rng.IntN(3) == 0 {
				changes--
				if rng.IntN(2) == 0 && len(f.items) > 0 {
					i := rng.IntN(len(f.items))
					delete(stayed, f.items[i])
					f.items = slices.Delete(slices.Clone(f.items), i, i+1)
				} else {
					fresh++
					f.items = slices.Insert(slices.Clone(f.items), rng.IntN(len(f.items)+1), fmt.Sprintf(`{"uid":"n%d"}`, fresh))
				}
			}
			return f.page(req)
		})
		d.choose = rng.IntN
		err := d.run()
		var inc *IncompleteError
		if errors.As(err, &inc) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		got := d.elements()
		for it := range stayed {
			if !slices.Contains(got, it) {
				rt.Fatalf("%s was there all the time and is missing", it)
			}
		}
		slices.Sort(got)
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			rt.Fatalf("twice in %q", got)
		}
	})
}

func TestWalkKeys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		id := "list/devices/" + url.PathEscape(rapid.String().Draw(rt, "uid"))
		walk, page := rapid.IntRange(1, maxWalks).Draw(rt, "walk"), rapid.IntRange(0, maxPages).Draw(rt, "page")
		gotID, gotWalk, gotPage, err := parseWalkKey(walkKey(id, walk, page))
		if gotID != id || gotWalk != walk || gotPage != page || err != nil {
			rt.Fatalf("%s %d %d became %s %d %d %v", id, walk, page, gotID, gotWalk, gotPage, err)
		}
		if newer := walkKey(id, walk+1, maxPages); walkKey(id, walk, page) <= newer {
			rt.Fatal("an older walk comes before a newer one")
		}
	})
	for _, key := range []string{"", "a", "a/b", "a/b/c", "a/1/", "/", "a//1", "a/1/1x"} {
		if _, _, _, err := parseWalkKey(key); err == nil {
			t.Errorf("%q is taken for the key of a page", key)
		}
	}
}

var errDisk = errors.New("disk is gone")

// brokenAnswers ends with an error after the first answer.
type brokenAnswers struct{ memory }

func (b brokenAnswers) Answers(ctx context.Context, prefix string) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		for a, err := range b.memory.Answers(ctx, prefix) {
			_ = yield(a, err) && yield(Answer{}, errDisk)
			return
		}
	}
}

func TestErrorsOfTheStoreAreNotAnEnd(t *testing.T) {
	d := exporter(t, "site-variables", 2, (&fleet{items: numbered("uid", 1, 5)}).page)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	broken := brokenAnswers{d.memory}
	for _, stage := range []string{StageParents, StageRead} {
		if _, err := d.make().Settle(context.Background(), stage, broken); !errors.Is(err, errDisk) {
			t.Errorf("stage %s: %v", stage, err)
		}
	}
	var last error
	for _, err := range d.make().(*ExportWork).Elements(context.Background(), broken) {
		last = err
	}
	if !errors.Is(last, errDisk) {
		t.Errorf("elements end with %v", last)
	}
	if _, err := d.make().Settle(context.Background(), StageApply, d.memory); err == nil {
		t.Error("an export settles the stage apply")
	}
}

func FuzzFollowPage(f *testing.F) {
	ops := []string{"devices", "alerts-open", "activity-logs", "device-software", "device-by-mac", "account"}
	for i := range ops {
		f.Add(uint8(i), uint32(0), []byte(envelope("devices", numbered("uid", 1, 2), 5, host+"/api/v2/account/devices?max=2&page=1")))
		f.Add(uint8(i), uint32(3), []byte(envelope("activities", numbered("id", 1, 2), -1, host+"/api/v2/activity-logs?searchAfter=x")))
		f.Add(uint8(i), uint32(0), []byte(`{"pageDetails":{"count":1,"totalCount":9223372036854775807,"nextPageUrl":"?page=1&max=9223372036854775807"},"devices":[]}`))
		f.Add(uint8(i), uint32(1), []byte(`[{"uid":"a"}]`))
	}
	f.Fuzz(func(t *testing.T, op uint8, page uint32, body []byte) {
		name := ops[int(op)%len(ops)]
		o, _ := rmm.Lookup(name)
		path := map[string]string{}
		for _, p := range o.PathParams() {
			path[p] = "x"
		}
		n := int(page % maxPages)
		it := Item{Key: walkKey("list/"+name, 1, n), Request: rmm.Request{Op: name, Path: path, Query: url.Values{"page": {strconv.Itoa(n)}, "max": {"250"}}}}
		items, err := followPage(it, body)
		if err != nil {
			if items != nil {
				t.Fatal("items and an error")
			}
			return
		}
		if len(items) > maxPages {
			t.Fatalf("%d pages", len(items))
		}
		for i, next := range items {
			if _, _, got, err := parseWalkKey(next.Key); err != nil || got != n+1+i {
				t.Fatalf("page %d is followed by %q", n, next.Key)
			}
		}
		// What is followed is also read.
		m := memory{it.Key: {answer: Answer{Key: it.Key, Request: it.Request, OK: true, Body: body}}}
		for _, err := range elements(context.Background(), m, "") {
			if err != nil && o.Paging == rmm.PagingPages {
				t.Fatal(err)
			}
		}
	})
}
