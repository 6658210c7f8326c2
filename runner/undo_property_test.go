package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
)

// tale is a run, its undo, and the undo of that, with somebody at work beside them.
type tale struct {
	old, want [][2]string // by device: before, and in the input; "" in the input keeps
	workers   int
	acts      [3]act // of the run and of the undos
}

// act is one run of a tale.
type act struct {
	planned bool            // it is planned first, and carried out by a further call
	stops   []time.Duration // after which calls are stopped; the last call is not
	abort   bool
	between [][]hand       // what somebody does before each call
	during  map[int]hand   // and while a write of that number is under way
	bad     map[int]string // what goes wrong with the write of that number
	again   bool           // what has failed is tried once more
}

// hand is a value that somebody gives a field.
type hand struct {
	device, field int
	value         string
}

func drawTale(t *rapid.T) tale {
	value := rapid.SampledFrom([]string{"", "a", "b", "c"})
	pair := func(name string) [2]string { return [2]string{value.Draw(t, name), value.Draw(t, name)} }
	s := tale{workers: rapid.SampledFrom([]int{1, 3}).Draw(t, "workers")}
	n := rapid.IntRange(1, 5).Draw(t, "devices")
	for range n {
		s.old = append(s.old, pair("old"))
		want := pair("want")
		for i := range want {
			if want[i] == "" && rapid.Bool().Draw(t, "clear") {
				want[i] = jobs.ClearWord
			}
		}
		s.want = append(s.want, want)
	}
	edit := func() hand {
		return hand{rapid.IntRange(0, n-1).Draw(t, "device"), rapid.IntRange(0, 1).Draw(t, "field"), rapid.SampledFrom([]string{"", "a", "by hand"}).Draw(t, "value")}
	}
	for i := range s.acts {
		a := act{
			planned: rapid.Bool().Draw(t, "planned"), abort: rapid.Bool().Draw(t, "abort"), again: rapid.Bool().Draw(t, "again"),
			during: map[int]hand{}, bad: map[int]string{},
		}
		for range rapid.IntRange(0, 2).Draw(t, "stops") {
			a.stops = append(a.stops, time.Duration(rapid.IntRange(0, 80).Draw(t, "stop"))*100*time.Millisecond)
		}
		for range len(a.stops) + 3 {
			var edits []hand
			for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "edits") {
				edits = append(edits, edit())
			}
			a.between = append(a.between, edits)
		}
		for range rapid.IntRange(0, 2).Draw(t, "during") {
			a.during[rapid.IntRange(1, 5).Draw(t, "write")] = edit()
		}
		for range rapid.IntRange(0, 2).Draw(t, "bad") {
			a.bad[rapid.IntRange(1, 5).Draw(t, "write")] = rapid.SampledFrom([]string{"lost", "refused", "never sent"}).Draw(t, "how")
		}
		s.acts[i] = a
	}
	return s
}

// teller plays a tale and notes in what the laws were broken.
type teller struct {
	*bench
	wrong func(format string, args ...any)

	mu    sync.Mutex
	shown map[string][2]string // what the last read has shown, by device
	plan  map[string]planned   // of the run under way, by device
	sent  int                  // writes of the run under way
}

// planned is what a plan says of a device.
type planned struct {
	class   jobs.RowClass
	changes map[string]jobs.Change
}

func (w *teller) values(uid string) [2]string {
	return [2]string{w.account.UDF(uid, "udf1"), w.account.UDF(uid, "udf2")}
}

func (w *teller) edit(h hand) {
	w.check(w.account.SetUDF(w.uids(0)[h.device], fmt.Sprintf("udf%d", h.field+1), h.value))
}

// readPlan reads what the plan of a run says of each device.
func (w *teller) readPlan(id string) {
	plan := map[string]planned{}
	for row, err := range w.store.Rows(context.Background(), id) {
		w.check(err)
		var d jobs.RowDetail
		w.check(json.Unmarshal(row.Payload, &d))
		p := planned{class: jobs.RowClass(row.Class), changes: map[string]jobs.Change{}}
		for _, c := range d.Changes {
			p.changes[c.Field] = c
		}
		plan[d.UID] = p
	}
	w.plan = plan
}

// write looks at a write before it is sent: it is in the plan as it is, and what was
// seen last in its fields was there when the plan was made, or is what it gives them.
func (w *teller) write(id string, req rmm.Request) {
	if w.plan == nil {
		w.readPlan(id)
	}
	uid := req.Path["deviceUid"]
	var body map[string]string
	w.check(json.Unmarshal(req.Body, &body))
	p := w.plan[uid]
	if p.class != jobs.ClassChange && p.class != jobs.ClassClear {
		w.wrong("%s: a row of the class %q is written", id, p.class)
	}
	for field, value := range body {
		c, ok := p.changes[field]
		if !ok || c.New != value {
			w.wrong("%s: %s of %s is not written as planned: %+v", id, field, uid, c)
		}
		seen := w.shown[uid][int(field[3]-'1')]
		if seen != c.Old && seen != c.New {
			w.wrong("%s: %s of %s was seen to be %q, is planned as %q -> %q, and is written", id, field, uid, seen, c.Old, c.New)
		}
	}
}

// play carries one run through and returns what the last call has come to.
func (w *teller) play(id string, a act, width int, work func(jobs.Settings) Work) (sum Summary) {
	w.plan, w.sent = nil, 0
	client := w.client
	do := caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
		w.mu.Lock()
		how := ""
		switch req.Op {
		case "devices":
			w.shown = map[string][2]string{}
			for _, uid := range w.uids(0) {
				w.shown[uid] = w.values(uid)
			}
		case "device-udf-set":
			w.sent++
			if h, ok := a.during[w.sent]; ok {
				w.edit(h)
			}
			w.write(id, req)
			how = a.bad[w.sent]
		}
		w.mu.Unlock()
		switch how {
		case "refused":
			return rmm.Response{}, &rmm.Error{Kind: rmm.KindStatus, Status: 400, Op: req.Op, Sent: true}
		case "never sent":
			return rmm.Response{}, &rmm.Error{Kind: rmm.KindTransport, Op: req.Op}
		}
		resp, err := client.Do(ctx, req)
		if how == "lost" && err == nil {
			return rmm.Response{}, &rmm.Error{Kind: rmm.KindTransport, Op: req.Op, Sent: true}
		}
		return resp, err
	})
	calls := 0
	call := func(ctx context.Context, set jobs.Settings) Summary {
		for _, h := range a.between[calls] {
			w.edit(h)
		}
		calls++
		return w.runIn(ctx, workers(width), func(cfg *Config) {
			cfg.RunID, cfg.Caller, cfg.Work, cfg.Grace = id, do, work(set), time.Second
			if a.abort {
				cfg.Abort = ctx
			}
		})
	}
	if a.planned {
		call(w.t.Context(), jobs.Settings{PlanOnly: true})
	}
	for _, d := range a.stops {
		ctx, cancel := context.WithTimeoutCause(w.t.Context(), d, context.Canceled)
		sum = call(ctx, jobs.Settings{})
		cancel()
	}
	if len(a.stops) == 0 || sum.State != checkpoint.RunOK && sum.State != checkpoint.RunPartial {
		sum = call(w.t.Context(), jobs.Settings{})
	}
	if a.again {
		if n, err := w.store.Retry(w.t.Context(), id, checkpoint.Again{Failed: true, Except: []string{jobs.ClassDrifted}}); err != nil || n > 0 {
			w.check(err)
			sum = call(w.t.Context(), jobs.Settings{})
		}
	}
	if sum.State != checkpoint.RunOK && sum.State != checkpoint.RunPartial {
		w.wrong("%s is %s: %v", id, sum.State, sum.Err)
	}
	return sum
}

// changed counts the rows of a run that it has carried out, or may have.
func (w *teller) changed(id string) (n int) {
	for row, err := range w.store.Rows(context.Background(), id) {
		w.check(err)
		if class := jobs.RowClass(row.Class); (row.ItemState == checkpoint.StateDone || row.ItemUnsure) && (class == jobs.ClassChange || class == jobs.ClassClear) {
			n++
		}
	}
	return n
}

// accounts compares what an undo says of its rows with what its source has changed.
func (w *teller) accounts(source, id string) {
	count := map[string]int{}
	sum := 0
	for row, err := range w.store.Rows(context.Background(), id) {
		w.check(err)
		if row.Number == 0 {
			continue
		}
		sum++
		switch class := jobs.RowClass(row.Class); {
		case class == jobs.ClassKept, class == jobs.ClassIrreversible, class == jobs.ClassUnchanged:
			count[row.Class]++
		case row.ItemState == checkpoint.StateDone, row.ItemState == checkpoint.StateUnchanged, row.ItemState == checkpoint.StateFailed:
			count[string(row.ItemState)]++
		default:
			w.wrong("%s: row %d of class %s is %s", id, row.Number, class, row.ItemState)
		}
	}
	if want := w.changed(source); sum != want {
		w.wrong("%s has changed %d rows, and %s tells of %d: %v", source, want, id, sum, count)
	}
}

func (s tale) play(t *testing.T) (broken []string) {
	b := newBench(t, rmmsim.Config{Devices: len(s.old), UDFs: 30, Latency: 700 * time.Millisecond})
	w := &teller{bench: b, wrong: func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }}
	var rows []string
	for i, uid := range b.uids(0) {
		for k, v := range s.old[i] {
			w.edit(hand{i, k, v})
		}
		rows = append(rows, fmt.Sprintf("%s,%s,%s", uid, s.want[i][0], s.want[i][1]))
	}
	b.update("device-udf-set", "udf1,udf2", rows)
	w.play(runID, s.acts[0], s.workers, func(set jobs.Settings) Work { return jobs.NewUpdateWork(b.job, set) })
	source := runID
	for i, id := range []string{"u1", "u2"} {
		b.check(b.store.CreateRun(t.Context(), checkpoint.Run{ID: id, JobKey: "undo " + source, Created: time.Now()}))
		w.play(id, s.acts[i+1], s.workers, func(set jobs.Settings) Work { return jobs.NewUndoWork(AnswersOf(b.store, source), set, b.job) })
		w.accounts(source, id)
		source = id
	}
	return slices.Compact(broken)
}

// Whatever somebody else does before, between and while a run, its undo and the undo of
// that go on, and however often they are stopped and resumed: only what is in the plan is
// written, and nothing of what a look has shown to be edited. So all that can be lost is
// what was written after the last look. Of each changed row the undo says what became of it.
func TestUndoBesideOthers(t *testing.T) { playAll(t, drawTale) }
