package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// runID is the run of every test: each has a checkpoint of its own.
const runID = "r1"

// bubble runs a scenario in virtual time, beside the others.
func bubble(t *testing.T, scenario func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, scenario)
}

// bubbleHere is bubble for scenarios that must follow each other.
func bubbleHere(t *testing.T, scenario func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, scenario)
}

// bench is one run against a simulated account: all that cmd wires together,
// without flags and terminal.
type bench struct {
	t       *testing.T
	account *rmmsim.Account
	net     *network
	client  *rmm.Client
	folder  string
	store   *checkpoint.Store
	work    Work
	job     *jobs.Job // nil with a handmade work
	profile string
	pause   time.Duration // budget of pauses; 0 for the default
	began   time.Time
	more    []string // further words that a scenario may name, in pairs

	mu     sync.Mutex
	events []throttle.Event
	seen   []Progress
}

// newBench opens a fresh checkpoint and an account. The work comes later.
func newBench(t *testing.T, cfg rmmsim.Config) *bench {
	t.Helper()
	account, err := rmmsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, account: account, folder: t.TempDir(), profile: "medium", began: time.Now()}
	b.net = &network{to: account.Transport()}
	b.connect("key", "secret")
	b.open(filepath.Join(b.folder, "state.db"))
	b.check(b.store.CreateRun(t.Context(), checkpoint.Run{ID: runID, JobKey: "job", Created: time.Now()}))
	return b
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// connect makes a new client, as a new process would.
func (b *bench) connect(key, secret string) {
	b.t.Helper()
	base, err := url.Parse(b.account.BaseURL())
	b.check(err)
	b.client, err = rmm.New(rmm.Config{BaseURL: base, Key: key, Secret: secret, Transport: b.net})
	b.check(err)
}

// open opens a checkpoint; it is closed inside the bubble, with the test.
func (b *bench) open(path string) {
	b.t.Helper()
	store, err := checkpoint.Open(b.t.Context(), path)
	b.check(err)
	b.store = store
	b.t.Cleanup(func() { _ = store.Close() })
}

// reopen is what a new process does: it opens the checkpoint and logs in.
func (b *bench) reopen() {
	b.t.Helper()
	path := b.store.Path()
	b.check(b.store.Close())
	b.open(path)
	b.connect("key", "secret")
}

// export gives the bench an export job. rest are further lines of its export.
func (b *bench) export(pageSize int, rest ...string) {
	b.t.Helper()
	b.exportOf("devices", pageSize, rest...)
}

func (b *bench) exportOf(list string, pageSize int, rest ...string) {
	b.t.Helper()
	lines := append([]string{"version: 1\nexport:", "from: " + list, "to: out.csv"}, rest...)
	b.parse(strings.Join(lines, "\n  "))
	b.work = jobs.NewExportWork(b.job, jobs.Settings{PageSize: pageSize})
}

// parse reads a job that lies in the folder of the bench.
func (b *bench) parse(text string) {
	b.t.Helper()
	job, err := jobs.Parse([]byte(text+"\n"), filepath.Join(b.folder, "job.yaml"))
	b.check(err)
	b.job = job
}

// update gives the bench an update job: the CSV is the header "uid," and the
// columns, then the rows; each column sets the field of its name.
func (b *bench) update(operation, columns string, rows []string, rest ...string) {
	b.t.Helper()
	csv := "uid," + columns + "\n" + strings.Join(rows, "\n") + "\n"
	b.check(os.WriteFile(filepath.Join(b.folder, "rows.csv"), []byte(csv), 0o600))
	var set []string
	for name := range strings.SplitSeq(columns, ",") {
		set = append(set, fmt.Sprintf("%s: '{%s}'", name, name))
	}
	b.parse(fmt.Sprintf("version: 1\nupdate:\n  operation: %s\n  rows: rows.csv\n  match: {uid: '{uid}'}\n  set: {%s}\n%s",
		operation, strings.Join(set, ", "), strings.Join(rest, "\n")))
	b.work = jobs.NewUpdateWork(b.job, jobs.Settings{})
}

// tag gives the bench an update that sets udf1 of the first n devices (all when
// n is 0) to a value of its own.
func (b *bench) tag(n int, rest ...string) {
	b.t.Helper()
	var rows []string
	for i, uid := range b.uids(n) {
		rows = append(rows, fmt.Sprintf("%s,tag %d", uid, i))
	}
	b.update("device-udf-set", "udf1", rows, rest...)
}

func (b *bench) uids(n int) []string {
	all := b.account.DeviceUIDs()
	if n > 0 {
		all = all[:n]
	}
	return all
}

// tagged counts the devices that carry the value that tag gave them.
func (b *bench) tagged(n int) (tagged int) {
	for i, uid := range b.uids(n) {
		if b.account.UDF(uid, "udf1") == fmt.Sprintf("tag %d", i) {
			tagged++
		}
	}
	return tagged
}

// limiter is a fresh one, as every process has.
func (b *bench) limiter() *throttle.Limiter {
	b.t.Helper()
	profile, ok := throttle.Lookup(b.profile)
	if !ok {
		b.t.Fatalf("no profile %q", b.profile)
	}
	l, err := throttle.New(throttle.Config{
		Profile: profile, MaxPause: b.pause,
		Probe: func(ctx context.Context) (throttle.Reading, error) {
			s, err := b.client.RequestRate(ctx)
			if err != nil {
				return throttle.Reading{}, &throttle.ProbeError{Result: ResultOf(0, err), Err: err}
			}
			r := throttle.Reading{
				Window: s.Window, Limit: s.Limit, Count: s.Count, CutOff: s.CutOff, Ops: map[string]throttle.OpReading{},
			}
			if s.WriteLimit != nil && s.WriteCount != nil {
				r.HasWrite, r.WriteLimit, r.WriteCount = true, *s.WriteLimit, *s.WriteCount
			}
			for name, op := range s.Operations {
				r.Ops[name] = throttle.OpReading{Limit: op.Limit, Count: op.Count}
			}
			return r, nil
		},
		Event: func(ev throttle.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, ev)
		},
	})
	b.check(err)
	return l
}

// config is a call of Run as cmd makes it.
func (b *bench) config() Config {
	cfg := Config{
		Store: b.store, RunID: runID, Work: b.work, Caller: b.client, Login: b.client.Login, Limiter: b.limiter(),
		Observe: func(p Progress) { b.seen = append(b.seen, p) },
	}
	if b.job != nil && b.job.Update != nil {
		cfg.MaxErrors = b.job.MaxErrors
	}
	return cfg
}

// run is one call of Run. A day of virtual time bounds it, so that a run that
// hangs is a failure and not an endless test.
func (b *bench) run(change ...func(*Config)) Summary {
	b.t.Helper()
	return b.runIn(b.t.Context(), change...)
}

func (b *bench) runIn(ctx context.Context, change ...func(*Config)) Summary {
	b.t.Helper()
	sum, err := b.try(ctx, change...)
	b.check(err)
	return sum
}

// errHung is the cause with which a run that never ends is stopped.
var errHung = errors.New("the run hangs")

func (b *bench) try(ctx context.Context, change ...func(*Config)) (Summary, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 24*time.Hour, errHung)
	defer cancel()
	cfg := b.config()
	for _, c := range change {
		c(&cfg)
	}
	sum, err := Run(ctx, cfg)
	if errors.Is(sum.Err, errHung) {
		b.t.Fatalf("the run hangs: %+v", sum.Counts)
	}
	if err == nil && sum.Counts.Running != 0 {
		b.t.Fatalf("items are left running: %+v", sum.Counts)
	}
	return sum, err
}

// want fails the test unless the run ended in this state.
func (b *bench) want(sum Summary, state checkpoint.RunState) {
	b.t.Helper()
	if sum.State != state {
		b.t.Fatalf("state %q (%v), want %q; %+v", sum.State, sum.Err, state, sum.Counts)
	}
}

func workers(n int) func(*Config) { return func(cfg *Config) { cfg.Workers = n } }

// faults lets things go wrong from now on.
func (b *bench) faults(list ...rmmsim.Fault) {
	b.t.Helper()
	b.check(b.account.AddFaults(list...))
}

// requests is the account's log of one operation; "" for everything but logins
// and readings of the limits.
func (b *bench) requests(op string) []rmmsim.Record {
	return slices.DeleteFunc(b.account.Log(), func(r rmmsim.Record) bool {
		if op == "" {
			return r.Operation == "token" || r.Operation == "request-rate"
		}
		return r.Operation != op
	})
}

// at is when a request arrived, since the test began.
func (b *bench) at(r rmmsim.Record) time.Duration { return r.Time.Sub(b.began) }

// between counts the requests of the log, of whatever kind, that arrived in a
// stretch of time.
func (b *bench) between(from, to time.Time) (n int) {
	for _, r := range b.account.Log() {
		if r.Time.After(from) && r.Time.Before(to) {
			n++
		}
	}
	return n
}

// acked counts the acknowledged writes by path: the 2xx answers that reached us
// or might have.
func (b *bench) acked() map[string]int {
	n := map[string]int{}
	for _, r := range b.account.Log() {
		if op, ok := rmm.Lookup(r.Operation); ok && op.IsWrite() && r.Status >= 200 && r.Status < 300 {
			n[r.Path]++
		}
	}
	return n
}

// items are the items of the run by key.
func (b *bench) items() map[string]checkpoint.Item {
	b.t.Helper()
	all := map[string]checkpoint.Item{}
	for res, err := range b.store.Results(b.t.Context(), runID, "") {
		b.check(err)
		it, err := b.store.Item(b.t.Context(), runID, res.Key)
		b.check(err)
		all[it.Key] = it
	}
	return all
}

// states counts the items of an operation by state.
func (b *bench) states(op string) map[checkpoint.State]int {
	n := map[checkpoint.State]int{}
	for _, it := range b.items() {
		if it.Op == op {
			n[it.State]++
		}
	}
	return n
}

// item is the only item of an operation.
func (b *bench) item(op string) checkpoint.Item {
	b.t.Helper()
	var found []checkpoint.Item
	for _, it := range b.items() {
		if it.Op == op {
			found = append(found, it)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("%d items of %s, want 1", len(found), op)
	}
	return found[0]
}

// elements is what the export would write, in the order of the service.
func (b *bench) elements() []string {
	b.t.Helper()
	work, ok := b.work.(*jobs.ExportWork)
	if !ok {
		b.t.Fatal("not an export")
	}
	var all []string
	for el, err := range work.Elements(b.t.Context(), AnswersOf(b.store, runID)) {
		b.check(err)
		all = append(all, string(el.JSON))
	}
	return all
}

// fleet is every device as the account would send it.
func (b *bench) fleet() []string {
	b.t.Helper()
	var all []string
	for _, uid := range b.account.DeviceUIDs() {
		raw, _ := b.account.Device(uid)
		all = append(all, string(raw))
	}
	return all
}

// sameElements compares what an export read with what it should have.
func (b *bench) sameElements(got, want []string) {
	b.t.Helper()
	if slices.Equal(got, want) {
		return
	}
	b.t.Fatalf("%d elements, want %d; or they differ", len(got), len(want))
}

func (b *bench) event(kind string) (throttle.Event, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range b.events {
		if ev.Kind == kind {
			return ev, true
		}
	}
	return throttle.Event{}, false
}

// network lies between the client and the account.
type network struct {
	to http.RoundTripper

	mu   sync.Mutex
	fail func(*http.Request) error // decides whether a request gets through; nil lets all
	lost int                       // requests that never left
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	fail := n.fail
	n.mu.Unlock()
	if fail != nil {
		if err := fail(r); err != nil {
			n.mu.Lock()
			n.lost++
			n.mu.Unlock()
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return n.to.RoundTrip(r)
}

func (n *network) set(fail func(*http.Request) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = fail
}

// unplugged is a network without connection from one moment to another.
func unplugged(from, to time.Time) func(*http.Request) error {
	return func(*http.Request) error {
		if now := time.Now(); now.Before(from) || !now.Before(to) {
			return nil
		}
		return errRefused
	}
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// handmade is a work of one stage with given items.
type handmade struct {
	list   []jobs.Item
	follow func(jobs.Item, []byte) ([]jobs.Item, error)
}

func (h handmade) Start() (string, []jobs.Item) { return jobs.StageApply, h.list }

func (h handmade) Follow(it jobs.Item, body []byte) ([]jobs.Item, error) {
	if h.follow == nil {
		return nil, nil
	}
	return h.follow(it, body)
}

func (h handmade) Settle(context.Context, string, jobs.Answers) (jobs.Step, error) {
	return jobs.Step{Done: true}, nil
}

// caller is a Caller made of a function.
type caller func(context.Context, rmm.Request) (rmm.Response, error)

func (c caller) Do(ctx context.Context, req rmm.Request) (rmm.Response, error) { return c(ctx, req) }

// quickJobs are items of the one operation that must never be repeated. They are
// for the last devices of the fleet, so that other writes can keep out of their way.
func (b *bench) quickJobs(n int) []jobs.Item {
	var list []jobs.Item
	all := b.uids(0)
	for i, uid := range all[len(all)-n:] {
		list = append(list, jobs.Item{Key: fmt.Sprintf("job/%03d", i), Request: rmm.Request{
			Op: "device-job-create", Path: map[string]string{"deviceUid": uid},
			Body: json.RawMessage(fmt.Sprintf(`{"jobName":"clean up","jobComponent":{"componentUid":%q}}`, b.account.ComponentUID(0))),
		}})
	}
	return list
}

// udfWrites are items that set udf1 of n devices.
func (b *bench) udfWrites(n int) []jobs.Item {
	var list []jobs.Item
	for i, uid := range b.uids(n) {
		list = append(list, jobs.Item{Key: fmt.Sprintf("udf/%05d", i), Request: rmm.Request{
			Op: "device-udf-set", Path: map[string]string{"deviceUid": uid},
			Body: json.RawMessage(fmt.Sprintf(`{"udf1":"tag %d"}`, i)),
		}})
	}
	return list
}

// warrantyWrites are items that set the warranty of n devices.
func (b *bench) warrantyWrites(n int) []jobs.Item {
	var list []jobs.Item
	for i, uid := range b.uids(n) {
		list = append(list, jobs.Item{Key: fmt.Sprintf("warranty/%05d", i), Request: rmm.Request{
			Op: "device-warranty-create", Path: map[string]string{"deviceUid": uid},
			Body: json.RawMessage(`{"warrantyDate":"2030-01-31"}`),
		}})
	}
	return list
}

// repeated names what was sent more than once.
func repeated(records []rmmsim.Record) []string {
	n := map[string]int{}
	for _, r := range records {
		n[r.Path+"?"+r.Query]++
	}
	return slices.Sorted(func(yield func(string) bool) {
		for key := range maps.Keys(n) {
			if n[key] > 1 && !yield(fmt.Sprintf("%s ×%d", key, n[key])) {
				return
			}
		}
	})
}

// most is the largest number of requests in any 60 seconds.
func most(records []rmmsim.Record) (n int) {
	first := 0
	for i, r := range records {
		for r.Time.Sub(records[first].Time) >= time.Minute {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// planOnly is tag for a run that stops when its plan is made.
func (b *bench) planOnly(n int) {
	b.t.Helper()
	b.tag(n)
	b.work = jobs.NewUpdateWork(b.job, jobs.Settings{PlanOnly: true})
}
