package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmmjob/internal/rmm"
)

func TestSinceWindow(t *testing.T) {
	start := time.Date(2026, 3, 6, 2, 0, 0, 500e6, time.UTC)
	day := func(d, h, m int) time.Time { return time.Date(2026, 3, d, h, m, 0, 0, time.UTC) }
	last := Since{Last: true, First: Moment{Ago: 7 * 24 * time.Hour}, Overlap: 10 * time.Minute}
	long := last
	long.Overlap = 2 * time.Hour
	tests := []struct {
		name  string
		since Since
		mark  Bookmark
		want  Window
		back  bool
	}{
		{"first run", last, Bookmark{}, Window{From: day(27, 2, 0).AddDate(0, -1, 0), Until: day(6, 2, 0), Start: start}, false},
		{"first run, everything", Since{Last: true, Overlap: time.Minute}, Bookmark{}, Window{Until: day(6, 2, 0), Start: start}, false},
		{
			"next run", last,
			Bookmark{Newest: day(5, 2, 30), Known: day(5, 2, 20)},
			Window{From: day(5, 2, 20), Until: day(6, 2, 0), Start: start, Newest: day(5, 2, 30)},
			false,
		},
		{
			"the overlap has grown", long,
			Bookmark{Newest: day(5, 2, 30), Known: day(5, 2, 20)},
			Window{From: day(5, 2, 20), Until: day(6, 2, 0), Start: start, Newest: day(5, 2, 30)},
			false,
		},
		{
			"the clock was set back", last,
			Bookmark{Newest: day(6, 5, 0), Known: day(6, 4, 50)},
			Window{From: day(6, 4, 50), Start: start, Newest: day(6, 5, 0)},
			true,
		},
		{"no memory", Since{First: Moment{At: day(1, 0, 0)}}, Bookmark{Newest: day(5, 2, 30)}, Window{From: day(1, 0, 0), Until: day(6, 2, 0), Start: start}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, back := tt.since.Window(start, tt.mark)
			if got != tt.want || back != tt.back {
				t.Errorf("got %+v %v\nwant %+v %v", got, back, tt.want, tt.back)
			}
			// It is kept as JSON and means the same afterwards.
			data, err := json.Marshal(got)
			var kept Window
			if err != nil || json.Unmarshal(data, &kept) != nil || kept != got {
				t.Errorf("kept as %s: %+v", data, kept)
			}
		})
	}
}

// The query of a window is UTC, whatever the zone of this machine, and does not touch the filter of the job.
func TestSinceQuery(t *testing.T) {
	op, _ := rmm.Lookup("activity-logs")
	zone := time.FixedZone("east", 3*3600)
	w := Window{From: time.Date(2026, 3, 6, 2, 0, 0, 0, zone), Until: time.Date(2026, 3, 6, 3, 0, 0, 0, zone)}
	filter := map[string][]string{"entities": {"device"}}
	got := w.query(op, filter)
	if got.Get("from") != "2026-03-05T23:00:00Z" || got.Get("until") != "2026-03-06T00:00:00Z" || got.Get("entities") != "device" || len(filter) != 1 {
		t.Errorf("%v, the filter is now %v", got, filter)
	}
	if got := (Window{From: w.From}).query(op, nil); got.Has("until") {
		t.Errorf("without an end: %v", got)
	}
	alerts, _ := rmm.Lookup("alerts-resolved")
	if got := w.query(alerts, filter); len(got) != 1 {
		t.Errorf("a list that the service cannot narrow: %v", got)
	}
}

// resolved is an alert with a date; nil for none.
func resolved(uid string, at any) string {
	date, _ := json.Marshal(at)
	return fmt.Sprintf(`{"alertUid":%q,"resolvedOn":%s}`, uid, date)
}

// logs is what a run of resolved alerts has read: one page.
func logs(elements ...string) memory {
	it := Item{Key: walkKey("list/alerts-resolved", 1, 0), Request: rmm.Request{Op: "alerts-resolved"}}
	body := fmt.Sprintf(`{"pageDetails":{"count":%d,"totalCount":%d,"nextPageUrl":null},"alerts":[%s]}`, len(elements), len(elements), strings.Join(elements, ","))
	return memory{it.Key: {item: it, settled: true, answer: Answer{Key: it.Key, Request: it.Request, OK: true, Body: []byte(body)}}}
}

// sinceRun is one run over a list: what it publishes, and what the next one builds on.
func sinceRun(t interface {
	Helper()
	Fatal(...any)
}, since *Since, start time.Time, mark Bookmark, seen Seen, read memory,
) (keys []string, next Bookmark, nextSeen Seen) {
	t.Helper()
	op, _ := rmm.Lookup("alerts-resolved")
	w, _ := since.Window(start, mark)
	work := NewExportWork(&Job{Export: &ExportSpec{From: op, Since: since, SecondWalk: "auto"}}, Settings{Window: &w, Seen: seen})
	for el, err := range work.Elements(context.Background(), read) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, keyOf("alertUid", el.JSON))
	}
	next, nextSeen, err := work.Bookmark(context.Background(), read)
	if err != nil {
		t.Fatal(err)
	}
	return keys, next, nextSeen
}

func TestSinceOddElements(t *testing.T) {
	since := &Since{Last: true, Overlap: 10 * time.Minute}
	start := time.Date(2026, 3, 6, 2, 0, 0, 0, time.UTC)
	ms := func(t time.Time) int64 { return t.UnixMilli() }
	first := []string{
		resolved("a", ms(start.Add(-time.Hour))), resolved("b", ms(start.Add(-time.Minute))),
		resolved("twice", ms(start.Add(-2*time.Minute))), resolved("twice", ms(start.Add(-2*time.Minute))),
		resolved("undated", nil), resolved("strange", "soon"), resolved("future", ms(start.AddDate(70, 0, 0))),
	}
	keys, mark, seen := sinceRun(t, since, start, Bookmark{}, nil, logs(first...))
	if want := []string{"a", "b", "twice", "undated", "strange", "future"}; !slices.Equal(keys, want) {
		t.Errorf("first run: %v, want %v", keys, want)
	}
	if !mark.Newest.Equal(start.Add(-time.Minute)) {
		t.Errorf("the end is %v: an alert of the year 2096 has moved it", mark.Newest)
	}
	if _, old := seen["a"]; old || len(seen) != 5 {
		t.Errorf("seen: %v", seen)
	}
	// The same list again, with one that comes late, one that is resolved again, and one in the overlap twice.
	second := append(slices.Clone(first), resolved("late", ms(start.Add(-8*time.Minute))), resolved("older", ms(start.Add(-40*time.Minute))),
		resolved("new", ms(start.Add(time.Hour))), resolved("new", ms(start.Add(time.Hour))))
	second[1] = resolved("b", ms(start.Add(2*time.Hour)))
	keys, mark, seen = sinceRun(t, since, start.Add(24*time.Hour), mark, seen, logs(second...))
	if want := []string{"b", "late", "new"}; !slices.Equal(keys, want) {
		t.Errorf("second run: %v, want %v", keys, want)
	}
	if keys, _, _ = sinceRun(t, since, start.Add(48*time.Hour), mark, seen, logs(second...)); len(keys) != 0 {
		t.Errorf("nothing is new: %v", keys)
	}
}

// Whatever happens, each element that comes within the overlap is published once, however the clock of this machine jumps.
func TestSinceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		since := &Since{Last: true, Overlap: 10 * time.Minute}
		now := time.Date(2026, 3, 6, 2, 0, 0, 0, time.UTC) // of the service
		var all []string
		want, published := map[string]int{}, map[string]int{}
		var mark Bookmark
		var seen Seen
		for run := range rapid.IntRange(1, 8).Draw(t, "runs") {
			for range rapid.IntRange(0, 6).Draw(t, "events") {
				now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "pause")) * time.Second)
				late := time.Duration(rapid.IntRange(0, 599).Draw(t, "late")) * time.Second
				uid := fmt.Sprintf("u%d", len(all))
				// Late behind the newest entry, which is what a run goes by.
				all = append(all, resolved(uid, now.Add(-late).UnixMilli()))
				want[uid] = 1
			}
			clock := now.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "clock")) * time.Second)
			keys, next, nextSeen := sinceRun(t, since, clock, mark, seen, logs(all...))
			for _, k := range keys {
				published[k]++
			}
			// A run that is killed before its state moves is repeated by another one; its file counts for nothing.
			if run > 0 && rapid.Bool().Draw(t, "killed") {
				for _, k := range keys {
					published[k]--
				}
				continue
			}
			mark, seen = next, nextSeen
		}
		keys, _, _ := sinceRun(t, since, now.Add(time.Hour), mark, seen, logs(all...))
		for _, k := range keys {
			published[k]++
		}
		if !maps.Equal(published, want) {
			t.Fatalf("published %v, want %v", published, want)
		}
	})
}

func TestIncrementalFaults(t *testing.T) {
	job := func(lines string) string {
		return "version: 1\nexport:\n  to: out.csv\n  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\n"
	}
	tests := []struct{ name, job, want string }{
		{"no dates", job("from: devices\nsince: last"), `j.yaml:5:3: the elements of "devices" have no date to go by (lists with dates: `},
		{"misspelt", job("from: activity-logs\nsince: lst"), `j.yaml:5:10: since must be last, a time such as 12h or 30d, or a date such as 2026-03-01, not the text "lst"`},
		{"no beginning", job("from: activity-logs\nsince: {first: all}"), `the log has no beginning to read from (name a date or a time, such as 90d)`},
		{"set twice", job("from: activity-logs\nsince: last\nfilter: {from: '2026-03-01T00:00:00Z'}"), `the filter "from" is set by since (remove it, or the key since)`},
		{"overlap without last", job("from: alerts-resolved\nsince: {last: false, first: 7d, overlap: 5m}"), `overlap has an effect only with last: true`},
		{"without last and first", job("from: alerts-resolved\nsince: {last: false}"), `since without last needs the key first`},
		{"since and changes", job("from: alerts-resolved\nsince: last\nchanges: c.csv"), `changes and since exclude each other`},
		{"placeholder", "version: 1\nexport: {from: devices, to: 'out-{since}.csv'}\n", `{since} has a value only in an export with the key since`},
		{"no audits", job("from: sites\nreuse: audits"), `there are no audits to reuse`},
		{"no audits beside", job("from: devices\nreuse: audits"), `there are no audits to reuse`},
		{"given", job("from: device-software\nuids: [a]\nreuse: audits"), `reuse needs the list of devices`},
		{"reuse what", job("from: device-software\nreuse: all"), `reuse must be audits or none, not "all"`},
		{"no key", job("from: device-software\nchanges: c.csv"), `"device-software" has no key of its own that could tell what has changed (for example key: name)`},
		{"unknown key", job("from: devices\nchanges: {path: c.csv, key: uuid}"), `key: there is no field "uuid" (did you mean "uid"?)`},
		{"unknown column", job("from: devices\nchanges: {path: c.csv, ignore: [lastSen]}"), `ignore: there is no column "lastSen" (did you mean "lastSeen"?)`},
		{"standard output", job("from: devices\nchanges: '-'"), `a change file cannot go to standard output`},
		{"no effect", job("from: devices\nchanges: {path: c.csv, dates: ms}"), `"dates" has no effect on a change file, whose dates are rfc3339 in UTC`},
		{"one path", job("from: devices\nchanges: out.csv"), `this output is there twice (the first is in line 3)`},
		{"exploded", job("from: devices\nwith: [software]\nexplode: software\nchanges: c.csv"), `changes needs a key that tells the rows of software apart (for example key: [uid, software.name])`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := faults(t, tt.job); !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	for _, good := range []string{
		job("from: activity-logs\nsince: last"), job("from: alerts-resolved\nsince: 2026-03-01"), job("from: alerts-open\nsince: {first: all, overlap: 2h}"),
		job("from: devices\nchanges: {path: c.xlsx, ignore: []}"), job("from: device-software\nreuse: audits\nchanges: {path: c.csv, key: name}"),
		job("from: devices\nwith: [software]\nexplode: software\nchanges: {path: c.sqlite, key: [uid, software.name]}\nreuse: none"),
	} {
		if _, err := Parse([]byte(good), "j.yaml"); err != nil {
			t.Errorf("%v in\n%s", err, good)
		}
	}
}

// What a job remembers belongs to what it selects, and not to how it writes it.
func TestSelection(t *testing.T) {
	hash := func(lines string) string {
		t.Helper()
		j, err := Parse([]byte("version: 1\nexport:\n  "+strings.ReplaceAll(lines, "\n", "\n  ")+"\n"), "j.yaml")
		if err != nil {
			t.Fatal(err)
		}
		h, _ := j.Export.Selection()
		return h
	}
	base := hash("from: devices\nto: a.csv\nfilter: {siteName: A, hostname: h}\nchanges: c.csv")
	for _, same := range []string{
		"from: devices\nto: b.xlsx\ncolumns: [uid]\nfilter: {hostname: h, siteName: A}\nchanges: {path: d.csv, ignore: [online]}",
		"from: devices\nto: a.csv\nsort: hostname\nsecond_walk: never\nfilter: {siteName: A, hostname: h}\nchanges: c.csv",
	} {
		if hash(same) != base {
			t.Errorf("another selection:\n%s", same)
		}
	}
	seen := map[string]string{base: "base"}
	for _, other := range []string{
		"from: devices\nto: a.csv\nfilter: {siteName: B, hostname: h}\nchanges: c.csv",
		"from: devices\nto: a.csv\nchanges: c.csv",
		"from: devices\nto: a.csv\nchanges: {path: c.csv, key: hostname}",
		"from: devices\nto: a.csv\nwhere: online\nchanges: c.csv",
		"from: device-software\nto: a.csv\nreuse: audits",
		"from: device-software\nsites: [A]\nto: a.csv\nreuse: audits",
		"from: device-software\nsites: [A, B]\nto: a.csv\nreuse: audits",
	} {
		h := hash(other)
		if before, twice := seen[h]; twice {
			t.Errorf("the same selection:\n%s\n%s", other, before)
		}
		seen[h] = other
	}
}
