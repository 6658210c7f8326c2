package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// reply is what a pretend account answers: a body with 200, or a refusal.
type reply struct {
	status int // 0 means 200
	body   string
}

// account answers requests, one at a time.
type account func(rmm.Request) reply

// work is what both kinds of work have in common.
type work interface {
	Start() (string, []Item)
	Follow(Item, []byte) ([]Item, error)
	Settle(context.Context, string, Answers) (Step, error)
}

// memory stores the items of a run and their answers, as a checkpoint does.
type memory map[string]*record

type record struct {
	item    Item
	settled bool
	answer  Answer
}

func (m memory) Answers(_ context.Context, prefix string) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if strings.HasPrefix(key, prefix) && !yield(m[key].answer, nil) {
				return
			}
		}
	}
}

// Rows yields nothing: the driver keeps the rows of the plan itself.
func (m memory) Rows(context.Context) iter.Seq2[Row, error] {
	return func(func(Row, error) bool) {}
}

// add stores an item unless its key is there, and tells whether it is new.
func (m memory) add(it Item) bool {
	if m[it.Key] != nil {
		return false
	}
	m[it.Key] = &record{item: it, settled: it.Birth != Pending, answer: Answer{Key: it.Key, Request: it.Request, Reason: it.Reason}}
	return true
}

// pending lists the keys of the items that wait to be sent, sorted.
func (m memory) pending() []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !m[key].settled {
			keys = append(keys, key)
		}
	}
	return keys
}

// driver plays the runner: it sends what is pending in the order that choose
// says, stores the answers and asks the work what comes next.
type driver struct {
	t       testing.TB
	make    func() work // the work is made anew for every call: it holds no state
	account account
	choose  func(pending int) int // index of the one to send next; nil: the first
	lose    func() bool           // the answer is lost in a crash; nil: never

	memory memory
	sent   []rmm.Request
	rows   []Row
	notes  []string
	plan   map[RowClass]int
}

// run drives until nothing is left to do, the work holds, or an error ends it.
func (d *driver) run() error {
	d.t.Helper()
	d.memory = memory{}
	stage, items := d.make().Start()
	for _, it := range items {
		d.memory.add(it)
	}
	for range 100 {
		if err := d.drain(); err != nil {
			return err
		}
		step, err := d.make().Settle(context.Background(), stage, d.memory)
		if err != nil {
			return err
		}
		if step.Note != "" {
			d.notes = append(d.notes, step.Note)
		}
		if step.Plan != nil {
			d.plan = step.Plan
		}
		if step.Rows != nil {
			d.rows = slices.Collect(step.Rows)
		}
		if step.Guard != nil {
			return step.Guard
		}
		added := 0
		if step.Items != nil {
			for it := range step.Items {
				if !d.memory.add(it) {
					d.t.Fatalf("the step adds %q, which is there already", it.Key)
				}
				added++
			}
		}
		if step.Done || step.Hold {
			return nil
		}
		if added == 0 && step.Stage == stage {
			d.t.Fatalf("stage %q begins again with nothing to do", stage)
		}
		stage = step.Stage
	}
	d.t.Fatal("the work does not end")
	return nil
}

// drain sends until nothing is pending.
func (d *driver) drain() error {
	for n := 0; ; n++ {
		pending := d.memory.pending()
		if len(pending) == 0 {
			return nil
		}
		if n > 2000 {
			return errors.New("too many requests")
		}
		i := 0
		if d.choose != nil {
			i = d.choose(len(pending))
		}
		r := d.memory[pending[i]]
		d.sent = append(d.sent, r.item.Request)
		got := d.account(r.item.Request)
		if d.lose != nil && d.lose() {
			continue // still pending, as after a crash
		}
		r.settled = true
		if got.status != 0 {
			r.answer.Reason = strconv.Itoa(got.status) + " " + http.StatusText(got.status)
			r.answer.HTTP = got.status
			continue
		}
		children, err := d.make().Follow(r.item, []byte(got.body))
		if err != nil {
			return err
		}
		r.answer.OK, r.answer.Body = true, []byte(got.body)
		for _, it := range children {
			d.memory.add(it)
		}
	}
}

// keys are the keys of all items, sorted.
func (d *driver) keys() []string { return slices.Sorted(maps.Keys(d.memory)) }

// writes are the write requests that were sent.
func (d *driver) writes() []rmm.Request {
	return slices.DeleteFunc(slices.Clone(d.sent), func(r rmm.Request) bool {
		op, _ := rmm.Lookup(r.Op)
		return !op.IsWrite()
	})
}

// pageNumbers are the pages asked for of one operation, in order.
func (d *driver) pageNumbers(op string) []string {
	var pages []string
	for _, r := range d.sent {
		if r.Op == op {
			pages = append(pages, r.Query.Get("page"))
		}
	}
	return pages
}

// parse reads a job from YAML.
func parse(t testing.TB, text string) *Job {
	t.Helper()
	job, err := Parse([]byte("version: 1\n"+text), filepath.Join(t.TempDir(), "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// exporter drives the export of a list. More are lines of the export section.
func exporter(t testing.TB, from string, pageSize int, a account, more ...string) *driver {
	t.Helper()
	job := parse(t, "export:\n  from: "+from+"\n  to: out.csv\n  "+strings.Join(more, "\n  ")+"\n")
	return &driver{t: t, account: a, make: func() work { return NewExportWork(job, Settings{PageSize: pageSize}) }}
}

// elements is what the export read: the elements as text.
func (d *driver) elements() []string {
	d.t.Helper()
	var got []string
	for el, err := range d.make().(*ExportWork).Elements(context.Background(), d.memory) {
		if err != nil {
			d.t.Fatal(err)
		}
		got = append(got, string(el.JSON))
	}
	return got
}

// fleet is a list of the account that a test may change between requests.
type fleet struct {
	items   []string
	cut     int  // largest page that is given; 0: as asked
	silent  bool // no total
	forgets bool // nextPageUrl has page and max only
}

const host = "https://merlot-api.localhost"

// page answers one page of the fleet.
func (f *fleet) page(req rmm.Request) reply {
	op, _ := rmm.Lookup(req.Op)
	number, _ := strconv.Atoi(req.Query.Get("page"))
	size, _ := strconv.Atoi(req.Query.Get("max"))
	if f.cut > 0 {
		size = min(size, f.cut)
	}
	from := min(number*size, len(f.items))
	to := min(from+size, len(f.items))
	next := ""
	if to < len(f.items) {
		q := maps.Clone(req.Query)
		if f.forgets {
			q = url.Values{}
		}
		q.Set("page", strconv.Itoa(number+1))
		q.Set("max", strconv.Itoa(size))
		next = nextURL(op, req.Path, q)
	}
	total := len(f.items)
	if f.silent {
		total = -1
	}
	return reply{body: envelope(op.Element, f.items[from:to], total, next)}
}

// nextURL is the address of a page as the service writes it.
func nextURL(op rmm.Operation, path map[string]string, q url.Values) string {
	p := op.Path
	for name, value := range path {
		p = strings.ReplaceAll(p, "{"+name+"}", url.PathEscape(value))
	}
	return host + "/api" + p + "?" + q.Encode()
}

// envelope is the body of a page. A total below 0 and an empty next are null.
func envelope(element string, items []string, total int, next string) string {
	details := fmt.Sprintf(`{"count":%d,"totalCount":%d,"prevPageUrl":null,"nextPageUrl":%q}`, len(items), total, next)
	if total < 0 {
		details = strings.Replace(details, `"totalCount":-1`, `"totalCount":null`, 1)
	}
	if next == "" {
		details = strings.Replace(details, `"nextPageUrl":""`, `"nextPageUrl":null`, 1)
	}
	return fmt.Sprintf(`{"pageDetails":%s,%q:[%s]}`, details, element, strings.Join(items, ","))
}

// numbered makes elements with a key field.
func numbered(key string, from, to int) []string {
	var items []string
	for i := from; i <= to; i++ {
		items = append(items, fmt.Sprintf(`{%q:"n%d"}`, key, i))
	}
	return items
}

// dev is one device of a pretend account, with all that its UDFs hold. A value
// may be nil.
type dev struct {
	uid, hostname, site string
	udf                 map[string]any
	warranty            any
}

// The devices of the cases.
func caseFleet() []dev {
	return []dev{
		{uid: deviceA, hostname: "WS-ALFA", site: "Depot North"},
		{uid: deviceB, hostname: "WS-BRAVO", site: "Depot North"},
		{uid: deviceC, hostname: "SRV-CHARLIE", site: "Depot North"},
		{uid: "44444444-4444-4444-8444-4444444444d4", hostname: "WS-ALFA", site: "Depot South"},
	}
}

func (d dev) json() string {
	udf := map[string]any{}
	for i := range rmm.MaxUDF {
		udf["udf"+strconv.Itoa(i+1)] = nil
	}
	maps.Copy(udf, d.udf)
	b, err := json.Marshal(map[string]any{
		"uid": d.uid, "id": 7, "hostname": d.hostname, "siteName": d.site, "udf": udf, "warrantyDate": d.warranty, "deviceClass": "device",
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// writable is an account whose devices take writes.
func writable(devices []dev) account {
	return func(req rmm.Request) reply {
		if req.Op == "devices" {
			f := fleet{}
			for _, d := range devices {
				f.items = append(f.items, d.json())
			}
			return f.page(req)
		}
		i := slices.IndexFunc(devices, func(d dev) bool { return d.uid == req.Path["deviceUid"] })
		var body map[string]any
		if err := json.Unmarshal(req.Body, &body); err != nil || i < 0 {
			return reply{status: http.StatusNotFound}
		}
		d := &devices[i]
		if day, ok := body[warrantyDate]; ok {
			if day == "" {
				return reply{status: http.StatusBadRequest}
			}
			d.warranty = day
			return reply{}
		}
		d.udf = maps.Clone(d.udf) // the test may have another device with this map
		if d.udf == nil {
			d.udf = map[string]any{}
		}
		for name, v := range body {
			if v == "" {
				v = nil
			}
			d.udf[name] = v
		}
		return reply{}
	}
}

// updater drives an update. The text is the update section and what follows; CSV
// in it stands for the path of the rows.
func updater(t testing.TB, csv, text string, a account, set Settings) *driver {
	t.Helper()
	abs, err := filepath.Abs(csv)
	if err != nil {
		t.Fatal(err)
	}
	job := parse(t, "update:\n"+strings.ReplaceAll(text, "CSV", "'"+abs+"'"))
	return &driver{t: t, account: a, make: func() work { return NewUpdateWork(job, set) }}
}

// file writes an input for one test.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
