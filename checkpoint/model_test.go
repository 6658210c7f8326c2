package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelItem is what the model knows of an item.
type modelItem struct {
	order     int
	lane      string
	replay    Replay
	state     State
	attempts  int
	notBefore time.Time
	sent      bool
	body      string
}

// model is the checkpoint as a map. Its methods are the actions of the state machine: each does the same to the store
// and to the map.
type model struct {
	store  *Store
	folder string
	now    time.Time
	items  map[string]*modelItem
	claims []Claim // held by workers
	spent  []Claim // finished, or cut off by a crash
	reads  int64
	stage  int
	rows   map[int]string
}

var modelLanes = []string{"read", "write"}

// TestModel runs random histories, crashes among them, against the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		}()
		m := &model{folder: folder, now: t0, items: map[string]*modelItem{}, rows: map[int]string{}}
		m.open(t)
		defer func() { m.store.Close() }()
		if err := m.store.CreateRun(t.Context(), Run{ID: "r", JobKey: "job", Stage: "0", Created: t0}); err != nil {
			t.Fatal(err)
		}
		m.AddItems(t)
		actions := rapid.StateMachineActions(m)
		for _, often := range []string{"Claim", "Finish"} { // or else few items live long enough to meet
			actions[often+"2"], actions[often+"3"] = actions[often], actions[often]
		}
		t.Repeat(actions)
		m.checkRest(t)
	})
}

func (m *model) open(t *rapid.T) {
	var err error
	if m.store, err = Open(t.Context(), filepath.Join(m.folder, "state.db")); err != nil {
		t.Fatal(err)
	}
}

// draw makes some new items, many of which exist already.
func (m *model) draw(t *rapid.T) []NewItem {
	var items []NewItem
	for range rapid.IntRange(0, 6).Draw(t, "items") {
		n := NewItem{
			Key:    fmt.Sprint("k", rapid.IntRange(0, 40).Draw(t, "key")),
			Lane:   rapid.SampledFrom(modelLanes).Draw(t, "lane"),
			Replay: rapid.SampledFrom([]Replay{ReplayFree, ReplayAsk}).Draw(t, "replay"),
			State:  rapid.SampledFrom([]State{"", "", "", StateUnchanged, StateSkipped, StateFailed}).Draw(t, "state"),
		}
		if n.State == StateSkipped || n.State == StateFailed {
			n.Reason = "born so"
		}
		items = append(items, n)
	}
	return items
}

// add does to the map what adding does and returns how many were new.
func (m *model) add(items []NewItem) (added int) {
	for _, n := range items {
		if m.items[n.Key] != nil {
			continue
		}
		state := n.State
		if state == "" {
			state = StatePending
		}
		m.items[n.Key] = &modelItem{order: len(m.items), lane: n.Lane, replay: n.Replay, state: state}
		added++
	}
	return added
}

func (m *model) AddItems(t *rapid.T) {
	items := m.draw(t)
	want := m.add(items)
	if added, err := m.store.AddItems(t.Context(), "r", m.now, slices.Values(items)); added != want || err != nil {
		t.Fatalf("added %d, want %d; %v", added, want, err)
	}
}

func (m *model) Advance(t *rapid.T) {
	items := m.draw(t)
	row := NewRow{Number: rapid.IntRange(0, 9).Draw(t, "row"), Class: rapid.SampledFrom([]string{"change", "invalid"}).Draw(t, "class")}
	from := m.stage - rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "behind")
	err := m.store.Advance(t.Context(), "r", m.now, fmt.Sprint(from), fmt.Sprint(from+1), Change{Items: slices.Values(items), Rows: slices.Values([]NewRow{row})})
	if from != m.stage {
		if _, ok := errors.AsType[*StageError](err); !ok {
			t.Fatalf("advance from stage %d in stage %d: %v", from, m.stage, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.add(items)
	m.rows[row.Number] = row.Class
	m.stage++
}

func (m *model) TimePasses(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
}

// due returns the keys of a lane in the order in which they are to be claimed, and the moment of the one after the first
// unless it is due as well.
func (m *model) due(lane string) (keys []string, next time.Time) {
	for key, it := range m.items {
		if it.state != StatePending || it.lane != lane {
			continue
		}
		if it.notBefore.After(m.now) {
			if next.IsZero() || it.notBefore.Before(next) {
				next = it.notBefore
			}
			continue
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := m.items[a], m.items[b]
		if x.notBefore.IsZero() != y.notBefore.IsZero() {
			if x.notBefore.IsZero() {
				return 1
			}
			return -1
		}
		if c := x.notBefore.Compare(y.notBefore); c != 0 {
			return c
		}
		return x.order - y.order
	})
	if len(keys) > 1 {
		next = time.Time{} // the claim says that there is more
	}
	return keys, next
}

func (m *model) Claim(t *rapid.T) {
	lane := rapid.SampledFrom(modelLanes).Draw(t, "lane")
	keys, wantNext := m.due(lane)
	c, ok, next, err := m.store.Claim(t.Context(), "r", lane, m.now)
	if err != nil || ok != (len(keys) > 0) || !next.Equal(wantNext) {
		t.Fatalf("claimed %v %q, next %v, %v; want %q, next %v", ok, c.Key, next, err, keys, wantNext)
	}
	if !ok {
		return
	}
	it := m.items[keys[0]]
	it.state, it.notBefore = StateRunning, time.Time{}
	it.attempts++
	if c.Key != keys[0] || c.More != (len(keys) > 1) || c.Attempts != it.attempts {
		t.Fatalf("claimed %q, more %v, attempt %d; want %q of %d, attempt %d", c.Key, c.More, c.Attempts, keys[0], len(keys), it.attempts)
	}
	m.claims = append(m.claims, c)
}

func (m *model) MarkSent(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip("nothing is claimed")
	}
	c := rapid.SampledFrom(m.claims).Draw(t, "claim")
	if err := m.store.MarkSent(t.Context(), c, m.now); err != nil {
		t.Fatal(err)
	}
	m.items[c.Key].sent = true
}

func (m *model) Finish(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip("nothing is claimed")
	}
	i := rapid.IntRange(0, len(m.claims)-1).Draw(t, "claim")
	c := m.claims[i]
	it := m.items[c.Key]
	children := m.draw(t)
	var o Outcome
	switch rapid.IntRange(0, 5).Draw(t, "outcome") {
	case 0:
		body := rapid.SampledFrom([]string{"", "short", strings.Repeat("long ", 200)}).Draw(t, "body")
		o, it.state = Done([]byte(body)), StateDone
		it.body = body
	case 1:
		o, it.state = Skipped("why", 404), StateSkipped
	case 2:
		o, it.state = Failed("class", "why", 404), StateFailed
	case 3:
		it.notBefore = m.now.Add(time.Duration(rapid.IntRange(-1000, 4000).Draw(t, "ms")) * time.Millisecond)
		o, it.state, it.sent = RetryAt(it.notBefore, "why", 500), StatePending, false
	case 4:
		o, it.state, it.sent = Released("why"), StatePending, false
		it.attempts--
	case 5:
		o, it.state = InDoubt("network", "why", 0), StateInDoubt
	}
	if err := m.store.Finish(t.Context(), c, m.now, o.With(children...).Acked(Read)); err != nil {
		t.Fatal(err)
	}
	m.add(children)
	m.reads++
	m.claims = slices.Delete(m.claims, i, i+1)
	m.spent = append(m.spent, c)
}

func (m *model) FinishSpentClaim(t *rapid.T) {
	if len(m.spent) == 0 {
		t.Skip("no claim is spent")
	}
	c := rapid.SampledFrom(m.spent).Draw(t, "claim")
	if err := m.store.Finish(t.Context(), c, m.now, Done([]byte("x")).With(NewItem{Key: "never", Lane: "read"}).Acked(Read)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
}

// CancelledFinish tries to finish with a context that has ended: nothing may happen.
func (m *model) CancelledFinish(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip("nothing is claimed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := rapid.SampledFrom(m.claims).Draw(t, "claim")
	if err := m.store.Finish(ctx, c, m.now, Done(nil)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// Crash closes the file with items in flight, opens it again and recovers.
func (m *model) Crash(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t)
	var want Recovered
	for _, it := range m.items {
		switch {
		case it.state != StateRunning:
		case it.replay == ReplayAsk && it.sent:
			it.state = StateInDoubt
			want.InDoubt++
		default:
			it.state, it.sent = StatePending, false
			it.attempts--
			want.Returned++
		}
	}
	if r, err := m.store.Recover(t.Context(), "r", m.now); r != want || err != nil {
		t.Fatalf("recovered %+v, want %+v; %v", r, want, err)
	}
	m.spent = append(m.spent, m.claims...)
	m.claims = nil
}

func (m *model) Retry(t *rapid.T) {
	inDoubt := rapid.Bool().Draw(t, "in doubt")
	want := 0
	for _, it := range m.items {
		if it.state == StateFailed || inDoubt && it.state == StateInDoubt {
			it.state, it.attempts, it.sent = StatePending, 0, false
			want++
		}
	}
	if n, err := m.store.Retry(t.Context(), "r", Again{Failed: true, InDoubt: inDoubt}); n != want || err != nil {
		t.Fatalf("%d pending again, want %d; %v", n, want, err)
	}
}

// Check compares the items after each action.
func (m *model) Check(t *rapid.T) {
	var want Counts
	for _, it := range m.items {
		want.Items++
		switch it.state {
		case StatePending:
			want.Pending++
		case StateRunning:
			want.Running++
		case StateDone:
			want.Done++
		case StateUnchanged:
			want.Unchanged++
		case StateSkipped:
			want.Skipped++
		case StateFailed:
			want.Failed++
		case StateInDoubt:
			want.InDoubt++
		}
	}
	if got, err := m.store.Counts(t.Context(), "r"); got != want || err != nil {
		t.Fatalf("counts %+v, want %+v; %v", got, want, err)
	}
	items, err := collect(t.Context(), m.store.read, scanItemRow, `SELECT `+itemColumns+` FROM items`)
	if err != nil || len(items) != len(m.items) {
		t.Fatalf("%d items, want %d; %v", len(items), len(m.items), err)
	}
	for _, got := range items {
		it := m.items[got.Key]
		if it == nil || got.State != it.state || got.Attempts != it.attempts || !got.NotBefore.Equal(it.notBefore) || got.Sent.IsZero() == it.sent {
			t.Fatalf("item %+v; want %+v", got, it)
		}
	}
}

// checkRest compares what is too slow to compare after each action: it is done once, at the end.
func (m *model) checkRest(t *rapid.T) {
	lanes := map[string]bool{}
	for _, it := range m.items {
		if it.state == StatePending {
			lanes[it.lane] = true
		}
	}
	if got, err := m.store.Lanes(t.Context(), "r"); !slices.Equal(got, slices.Sorted(maps.Keys(lanes))) || err != nil {
		t.Fatalf("lanes %q, want %v; %v", got, lanes, err)
	}
	keys := slices.Sorted(maps.Keys(m.items))
	for r, err := range m.store.Results(t.Context(), "r", "") {
		if err != nil || len(keys) == 0 || r.Key != keys[0] || string(r.Body) != m.items[r.Key].body {
			t.Fatalf("result %q with %d bytes, %v; want %q", r.Key, len(r.Body), err, keys)
		}
		keys = keys[1:]
	}
	if len(keys) > 0 {
		t.Fatalf("no results of %q", keys)
	}
	rows := map[int]string{}
	for r, err := range m.store.Rows(t.Context(), "r") {
		if err != nil {
			t.Fatal(err)
		}
		rows[r.Number] = r.Class
	}
	if !maps.Equal(rows, m.rows) {
		t.Fatalf("rows %v, want %v", rows, m.rows)
	}
	if r, err := m.store.Run(t.Context(), "r"); err != nil || r.Reads != m.reads || r.Stage != fmt.Sprint(m.stage) {
		t.Fatalf("run %+v, %v; want %d reads, stage %d", r, err, m.reads, m.stage)
	}
}
