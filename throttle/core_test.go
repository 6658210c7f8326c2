package throttle

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is an instant of the schedules below, in seconds from their beginning.
func at(seconds float64) time.Time {
	return time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func testEngine(t testing.TB, profile string) *Core {
	e := newCore(Config{
		Profile: named(t, profile), MaxPause: 2 * time.Hour, RateLimitWait: 2 * time.Minute,
		BlockWait: 5 * time.Minute, PauseWait: 30 * time.Second, Legacy: LegacyAuto,
	})
	e.jitter = func() float64 { return 0 }
	return e
}

func modern(count int) Reading {
	return Reading{
		Window: time.Minute, Limit: 600, Count: count, HasWrite: true, WriteLimit: 600, CutOff: 0.9,
		Ops: map[string]OpReading{"device-udf-set": {Limit: 600}, "device-warranty-create": {Limit: 100}},
	}
}

// readNow gives the engine a reading that took no time.
func (e *Core) readNow(now time.Time, r Reading) {
	e.beginReading(now)
	e.endReading(now, r, nil, false)
}

// send lets n requests through at once whatever the gate says, and returns them.
func (e *Core) send(now time.Time, lane string, n int) []*Ticket {
	var out []*Ticket
	for range n {
		e.Enqueue(now, lane)
		out = append(out, e.grant(e.tick(now), e.lanes[lane], e.decide(now, e.lanes[lane])))
	}
	return out
}

func (e *Core) answer(now time.Time, r Result, tickets ...*Ticket) (v Verdict) {
	for _, t := range tickets {
		v = e.Done(now, t, r)
	}
	return v
}

var (
	ok200    = Result{Status: 200, JSON: true}
	html403  = Result{Status: 403}
	json403  = Result{Status: 403, JSON: true}
	plain429 = Result{Status: 429}
)

func TestWindow(t *testing.T) {
	var w window
	w.resize(at(0), time.Minute)
	steps := []struct {
		at   float64
		add  int
		want int
	}{
		{0, 3, 3},
		{0.05, 1, 4},
		{30, 10, 14},
		{59.9, 0, 14},  // nothing leaves early
		{60.05, 0, 14}, // a slot leaves as a whole, at the latest one slot late
		{60.1, 0, 10},
		{89.9, 5, 15},
		{90.1, 0, 5},
		{149.9, 0, 5},
		{150.01, 0, 0},
		{20_000, 7, 7},
		{19_000, 1, 8}, // a time that goes back counts as the newest
		{20_060.2, 0, 0},
	}
	for _, s := range steps {
		w.add(at(s.at), s.add)
		if got := w.at(at(s.at)); got != s.want {
			t.Errorf("at %v s: %d requests, want %d", s.at, got, s.want)
		}
	}
}

func TestWindowSpread(t *testing.T) {
	for _, n := range []int{0, 1, 7, 300, 600, 5000} {
		var w window
		w.resize(at(0), time.Minute)
		w.spread(at(0), n)
		for _, s := range []float64{0, 15, 30, 45, 59.9} {
			want := float64(n) * (1 - s/60)
			if got := w.at(at(s)); math.Abs(float64(got)-want) > float64(n)/600+1.01 {
				t.Errorf("%d spread, after %v s: %d left, want about %.0f", n, s, got, want)
			}
		}
		if got := w.at(at(60.1)); got != 0 {
			t.Errorf("%d spread: %d left after the window", n, got)
		}
	}
}

func TestWindowResizeKeepsUpperBound(t *testing.T) {
	var w window
	w.resize(at(0), time.Minute)
	w.add(at(0), 9)
	w.resize(at(10), 30*time.Second)
	if got := w.at(at(39.9)); got != 9 {
		t.Errorf("%d left within the new window, want 9", got)
	}
	if got := w.at(at(40.1)); got != 0 {
		t.Errorf("%d left after the new window, want 0", got)
	}
}

// A request counts from its grant until a window after its answer, whatever the status;
// one that was cancelled or never arrived does not.
func TestLocalCount(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	e.jitter = nil
	base := e.read.mine(at(0)) // the reading itself
	p := e.send(at(1), Read, 4)
	count := func(s float64) int { return e.read.mine(e.tick(at(s))) - base }
	if got := count(1); got != 4 {
		t.Fatalf("in flight: %d, want 4", got)
	}
	e.answer(at(5), ok200, p[0])
	e.answer(at(5), Result{Status: 500}, p[1])
	e.answer(at(5), Result{}, p[2])
	e.Cancel(at(5), p[3])
	e.Cancel(at(5), p[3])
	e.answer(at(5), ok200, p[3], p[0])
	for _, s := range []struct {
		at   float64
		want int
	}{{5, 2}, {59, 2}, {65.2, 0}} {
		if s.at > 60 {
			base = 0
		}
		if got := count(s.at); got != s.want {
			t.Errorf("at %v s: %d, want %d", s.at, got, s.want)
		}
	}
}

func TestWriteTouchesItsBuckets(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	before := e.read.mine(at(0))
	e.send(at(0), "device-warranty-create", 3)
	e.send(at(0), "alert-mute", 2)
	want := map[string]int{"reads": before, "writes": 5, "device-warranty-create": 3, "device-udf-set": 0}
	for _, b := range e.all {
		if got := b.mine(at(0)); got != want[b.name] {
			t.Errorf("%s: %d, want %d", b.name, got, want[b.name])
		}
	}
}

// The gate of the reference profiles, for a single request after a reading.
func TestDecide(t *testing.T) {
	tests := []struct {
		name    string
		profile string
		reading Reading
		lane    string
		space   time.Duration
		full    string
	}{
		{"below the onset", "aggressive", modern(290), Read, 0, ""},
		{"at the onset", "aggressive", modern(300), Read, 200 * time.Millisecond, ""},
		{"higher", "aggressive", modern(480), Read, 320 * time.Millisecond, ""},
		{"medium", "medium", modern(300), Read, 375 * time.Millisecond, ""},
		{"cautious", "cautious", modern(300), Read, 500 * time.Millisecond, ""},
		{"cut-off less overhead", "aggressive", modern(510), Read, 0, "reads"},
		{"just below it", "aggressive", modern(509), Read, 339333333, ""},
		{"cautious pauses at 82 %", "cautious", modern(492), Read, 0, "reads"},
		{"reads do not slow writes", "aggressive", modern(599), "device-udf-set", 0, ""},
		{"an unknown operation", "medium", modern(0), "site-create", 225 * time.Millisecond, ""},
	}
	op := func(r Reading, udf, warranty, writes int) Reading {
		r.WriteCount = writes
		r.Ops = map[string]OpReading{"device-udf-set": {600, udf}, "device-warranty-create": {100, warranty}}
		return r
	}
	more := []struct {
		name    string
		reading Reading
		lane    string
		space   time.Duration
		full    string
	}{
		{"an operation's delay is scaled", op(modern(0), 0, 60, 60), "device-warranty-create", 1440 * time.Millisecond, ""},
		{"and does not slow another", op(modern(0), 0, 60, 60), "device-udf-set", 0, ""},
		{"the highest counts", op(modern(0), 300, 50, 420), "device-warranty-create", 1200 * time.Millisecond, ""},
		{"the writes slow all", op(modern(0), 0, 0, 420), "device-warranty-create", 280 * time.Millisecond, ""},
		{"a full operation", op(modern(0), 0, 85, 85), "device-warranty-create", 0, "device-warranty-create"},
		{"full writes", op(modern(0), 0, 0, 510), "device-udf-set", 0, "writes"},
	}
	for _, m := range more {
		tests = append(tests, struct {
			name    string
			profile string
			reading Reading
			lane    string
			space   time.Duration
			full    string
		}{m.name, "aggressive", m.reading, m.lane, m.space, m.full})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, tt.profile)
			e.readNow(at(0), tt.reading)
			e.Enqueue(at(1), tt.lane)
			d := e.decide(at(1), e.lanes[tt.lane])
			full := ""
			if d.full != nil {
				full = d.full.name
			}
			if full != tt.full {
				t.Errorf("paused by %q, want %q", full, tt.full)
			}
			if got := d.space; got/1000 != tt.space/1000 && tt.full == "" {
				t.Errorf("space %v, want %v", got, tt.space)
			}
		})
	}
}

// What a calibration stores is held until the next one, however much leaves the window;
// own requests beyond it count at once.
func TestStoredUtilisationIsHeld(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(360))
	if got := e.utilisation(e.read.bucket, e.tick(at(25))); got != 0.6 {
		t.Errorf("after 25 s: %v, want 0.6", got)
	}
	e.send(at(26), Read, 400)
	if got := e.utilisation(e.read.bucket, at(26)); got < 1 {
		t.Errorf("with 400 own requests on top of what remains: %v, want more than 1", got)
	}
}

func TestCalibrationInterval(t *testing.T) {
	tests := []struct {
		name     string
		profile  string
		count    int // reported
		own      int // answered before it
		stable   int
		since    int
		interval time.Duration // 0: due at once
	}{
		{"no own requests: the minimum", "aggressive", 0, 0, 0, 0, 500 * time.Millisecond},
		{"half the confidence", "aggressive", 18, 17, 0, 0, 2571 * time.Millisecond}, // the reading counts as one
		{"full confidence", "aggressive", 101, 100, 0, 0, 5 * time.Second},
		{"four stable ones are not enough", "aggressive", 101, 100, 4, 0, 5 * time.Second},
		{"five double it", "aggressive", 101, 100, 5, 0, 10 * time.Second},
		{"up to the maximum", "aggressive", 101, 100, 5000, 0, 10 * time.Second},
		{"medium", "medium", 101, 100, 4, 0, 12 * time.Second},
		{"medium, maximum", "medium", 101, 100, 8, 0, 20 * time.Second},
		{"cautious, maximum", "cautious", 101, 100, 9, 0, 30 * time.Second},
		{"low confidence: ten own requests", "aggressive", 18, 17, 0, 10, 0},
		{"nine are not enough", "aggressive", 18, 17, 0, 9, 2571 * time.Millisecond},
		{"full confidence: 0.4 of the count", "aggressive", 101, 100, 0, 14, 0},
		{"above the onset no request gate", "aggressive", 361, 360, 0, 1000, 4444 * time.Millisecond},
		{"ten delays", "cautious", 481, 480, 0, 0, 8017 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, tt.profile)
			e.answer(at(0), ok200, e.send(at(0), Read, tt.own)...)
			e.readNow(at(0), modern(tt.count))
			e.read.stable, e.read.since = tt.stable, tt.since
			due, why := e.pacing.due(e, e.read, at(0))
			if got := due.Sub(at(0)); got.Round(time.Millisecond) != tt.interval {
				t.Errorf("due after %v (%s), want %v", got, why, tt.interval)
			}
		})
	}
}

func TestDriftShortensTheInterval(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.answer(at(0), ok200, e.send(at(0), Read, 330)...)
	e.readNow(at(0), modern(331))
	for _, tt := range []struct {
		count int
		want  time.Duration
	}{
		{332, 4 * time.Second},             // none, but two readings of 600
		{338, 2500 * time.Millisecond},     // five unknown ones and three readings
		{393, 10 * 262 * time.Millisecond}, // many: ten delays
	} {
		e.readNow(at(0), modern(tt.count))
		due, _ := e.pacing.due(e, e.read, at(0))
		if got := due.Sub(at(0)).Round(time.Millisecond); got != tt.want {
			t.Errorf("%d reported: due after %v, want %v", tt.count, got, tt.want)
		}
	}
}

func TestStability(t *testing.T) {
	e := testEngine(t, "aggressive")
	now := 0.0
	calm := func() {
		now += 5
		e.answer(at(now), ok200, e.send(at(now), Read, 40)...)
		e.readNow(at(now), modern(e.read.mine(at(now))))
	}
	calm()
	for range 3 {
		calm()
	}
	if e.read.stable != 4 {
		t.Fatalf("stable %d, want 4", e.read.stable)
	}
	e.readNow(at(now+1), modern(e.read.mine(at(now+1))+30)) // 5 % more than we know of
	if e.read.stable != 0 {
		t.Errorf("stable %d after a drift, want 0", e.read.stable)
	}
	calm()
	e.send(at(now+1), Read, 300)
	if e.read.stable != 0 {
		t.Errorf("stable %d with a delay, want 0", e.read.stable)
	}
}

func TestRateLimitWaits(t *testing.T) {
	header := func(d time.Duration) Result { return Result{Status: 429, RetryAfter: d, HasRetryAfter: true} }
	m := func(ds ...float64) (out []time.Duration) {
		for _, d := range ds {
			out = append(out, time.Duration(d*float64(time.Second)))
		}
		return out
	}
	tests := []struct {
		name    string
		answers []Result
		want    []time.Duration
	}{
		{"no header", []Result{plain429, plain429, plain429, plain429, plain429}, m(120, 240, 480, 600, 600)},
		{"zero is a second", []Result{header(0), header(0), header(0)}, m(1, 2, 4)},
		{"negative is a second", []Result{header(-time.Hour)}, m(1)},
		{"a header is obeyed", []Result{header(45 * time.Second)}, m(45)},
		{"up to an hour", []Result{header(time.Hour)}, m(3600)},
		{"a header may be longer than the doubling", []Result{header(10 * time.Second), header(50 * time.Second)}, m(10, 50)},
		{"without a header again", []Result{header(10 * time.Second), plain429}, m(10, 120)},
		{"nothing overflows", []Result{header(math.MaxInt64)}, m(24 * 3600)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, "aggressive")
			now := at(0)
			e.readNow(now, modern(0))
			for i, r := range tt.answers {
				v := e.answer(now, r, e.send(now, Read, 1)...)
				if !v.Returned || v.Blocked {
					t.Fatalf("verdict %+v, want returned", v)
				}
				if got := e.read.stop.until.Sub(now); got != tt.want[i] {
					t.Errorf("429 number %d: closed for %v, want %v", i+1, got, tt.want[i])
				}
				now = e.read.stop.until
				e.now = now.Add(-time.Second) // not a gap
				e.readNow(now, modern(0))
				if e.read.stop.cause != "" {
					t.Fatalf("still closed: %s", e.read.stop.cause)
				}
			}
		})
	}
}

// The answers of requests that were on their way when the gate closed do not double the
// wait, and a quiet window ends the doubling.
func TestRateLimitOnlyRepetitionsDouble(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	p := e.send(at(0), Read, 16)
	e.answer(at(1), plain429, p...)
	if got := e.read.stop.until; !got.Equal(at(121)) {
		t.Errorf("closed until %v, want 121 s", got.Sub(at(0)))
	}
	for s := 10.0; s < 121; s += 10 {
		e.tick(at(s))
	}
	e.readNow(at(121), modern(0))
	for s := 130.0; s < 200; s += 10 {
		e.tick(at(s))
	}
	e.answer(at(200), plain429, e.send(at(200), Read, 1)...)
	if got := e.read.stop.until.Sub(at(200)); got != 2*time.Minute {
		t.Errorf("a 429 after a quiet window closes for %v, want 2m", got)
	}
}

func TestWhatA429Closes(t *testing.T) {
	reading := func(writes, warranty int) Reading {
		r := modern(0)
		r.WriteCount = writes
		r.Ops["device-warranty-create"] = OpReading{Limit: 100, Count: warranty}
		return r
	}
	tests := []struct {
		name    string
		reading Reading
		lane    string
		want    string
	}{
		{"a read", modern(0), Read, "reads"},
		{"an operation at its limit", reading(80, 80), "device-warranty-create", "device-warranty-create"},
		{"full writes", reading(520, 84), "device-warranty-create", "writes"},
		{"writes fuller than the operation", reading(480, 10), "device-warranty-create", "writes"},
		{"an unknown operation", modern(0), "alert-mute", "writes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, "aggressive")
			e.readNow(at(0), tt.reading)
			e.answer(at(1), plain429, e.send(at(1), tt.lane, 1)...)
			for _, b := range e.all {
				if closed := b.stop.cause != ""; closed != (b.name == tt.want) {
					t.Errorf("%s closed: %v", b.name, closed)
				}
			}
		})
	}
}

func TestWhatA403Means(t *testing.T) {
	type step struct {
		lane string
		r    Result
		want Verdict
	}
	blocked, permission, returned := Verdict{true, true}, Verdict{}, Verdict{Returned: true}
	tests := []struct {
		name  string
		steps []step
	}{
		{"one operation", []step{{"site-create", json403, permission}, {"site-create", json403, permission}, {Read, ok200, Verdict{}}}},
		{"not the API", []step{{Read, html403, blocked}}},
		{"after a 429", []step{{Read, plain429, returned}, {"site-create", json403, blocked}}},
		{"a success between", []step{{"device-udf-set", plain429, returned}, {Read, ok200, Verdict{}}, {Read, json403, permission}}},
		{"different operations in a row", []step{{"site-create", json403, permission}, {Read, json403, blocked}}},
		{"not in a row", []step{{"site-create", json403, permission}, {Read, ok200, Verdict{}}, {"device-move", json403, permission}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, "aggressive")
			e.readNow(at(0), modern(0))
			for i, s := range tt.steps {
				now := at(float64(i + 1))
				if got := e.answer(now, s.r, e.send(now, s.lane, 1)...); got != s.want {
					t.Errorf("answer %d: %+v, want %+v", i+1, got, s.want)
				}
			}
		})
	}
}

// Two operations without the right look like a block once; after the probe has shown that
// it was none, they are what they are.
func TestTwoForbiddenOperationsBlockOnce(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	e.answer(at(1), json403, e.send(at(1), "site-create", 1)...)
	e.answer(at(1), json403, e.send(at(1), "device-move", 1)...)
	for s := 10.0; s <= 300; s += 10 {
		e.tick(at(s))
	}
	e.readNow(at(301), modern(0))
	for i, lane := range []string{"site-create", "device-move", "site-create"} {
		now := at(302 + float64(i))
		if v := e.answer(now, json403, e.send(now, lane, 1)...); v != (Verdict{}) {
			t.Errorf("%s: %+v, want a permission failure", lane, v)
		}
	}
}

func TestBlockDoubles(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	e.answer(at(0), html403, e.send(at(0), Read, 1)...)
	now := at(0)
	refused := &ProbeError{Result: html403, Err: errors.New("refused")}
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if got := e.block.until.Sub(now); got != want {
			t.Errorf("closed for %v, want %v", got, want)
		}
		now = e.block.until
		e.now = now.Add(-time.Second)
		e.beginReading(now)
		e.endReading(now, Reading{}, refused, false)
	}
	now = e.block.until
	e.now = now.Add(-time.Second)
	e.readNow(now, modern(0))
	if e.block.cause != "" {
		t.Error("a good probe did not open the gate")
	}
}

// After a stop one request goes first, then spaced ones.
func TestReentry(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	e.answer(at(1), plain429, e.send(at(1), Read, 8)...)
	for s := 10.0; s <= 120; s += 10 {
		e.Step(at(s))
	}
	for range 5 {
		e.Enqueue(at(121), Read)
	}
	if out := e.Step(at(121)); !out.Probe || len(out.Granted) > 0 {
		t.Fatalf("after the wait: probe %v, %d granted; want the probe alone", out.Probe, len(out.Granted))
	}
	e.endReading(at(121.2), modern(0), nil, false)
	first := e.Step(at(121.2)).Granted
	if len(first) != 1 {
		t.Fatalf("%d granted after the calibration, want 1", len(first))
	}
	if n := len(e.Step(at(125)).Granted); n != 0 {
		t.Fatalf("%d granted before the first answer, want 0", n)
	}
	// The first one was not sent after all: there is another first.
	e.Cancel(at(126), first[0])
	first = e.Step(at(126)).Granted
	if len(first) != 1 {
		t.Fatalf("%d granted after a cancelled first, want 1", len(first))
	}
	e.answer(at(127), ok200, first...)
	if n := len(e.Step(at(127)).Granted); n != 1 {
		t.Errorf("%d granted after the first answer, want 1", n)
	}
	if n := len(e.Step(at(127.1)).Granted); n != 0 {
		t.Errorf("%d granted 0.1 s later, want 0: spaced", n)
	}
	if n := len(e.Step(at(127.2)).Granted); n != 1 {
		t.Errorf("%d granted 0.2 s later, want 1", n)
	}
}

// After a gap nothing goes before a reading; if that fails, or must not be sent because
// the reads are rate limited, the beginning is slow.
func TestGap(t *testing.T) {
	tests := []struct {
		name    string
		limited bool
		lane    string
		probe   bool
		fail    bool
		granted int // in the first second after it
	}{
		{"read", false, Read, true, false, 20},
		{"failed", false, Read, true, true, 1},
		{"silent", true, "device-udf-set", false, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, "aggressive")
			e.readNow(at(0), modern(0))
			if tt.limited {
				e.answer(at(1), plain429, e.send(at(1), Read, 1)...)
			}
			for range 20 {
				e.Enqueue(at(50), tt.lane)
			}
			out := e.Step(at(50))
			if out.Probe != tt.probe || tt.probe && len(out.Granted) > 0 {
				t.Fatalf("probe %v, %d granted", out.Probe, len(out.Granted))
			}
			n := len(out.Granted)
			if tt.fail {
				e.endReading(at(50.1), Reading{}, errors.New("no route to host"), false)
			} else if tt.probe {
				e.endReading(at(50.1), modern(0), nil, false)
			}
			for s := 50.2; s < 51; s += 0.1 {
				n += len(e.Step(at(s)).Granted)
			}
			if n != tt.granted {
				t.Errorf("%d granted, want %d", n, tt.granted)
			}
		})
	}
}

// The monotonic part of a time stands still while a machine sleeps.
func TestClockIsWallClock(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.tick(time.Now())
	e.tick(time.Now().Add(time.Second))
	if strings.Contains(e.now.String(), "m=") {
		t.Errorf("%v has a monotonic part", e.now)
	}
}

// Lanes that share a bucket take their turns in the order of arrival.
func TestLanesTakeTurns(t *testing.T) {
	e := testEngine(t, "aggressive")
	r := modern(0)
	r.WriteCount = 360
	e.readNow(at(0), r)
	e.send(at(0), "device-udf-set", 1)
	e.send(at(0), "device-warranty-create", 1)
	want := []string{"device-warranty-create", "device-udf-set", "device-udf-set", "device-warranty-create"}
	for _, lane := range want {
		e.Enqueue(at(0), lane)
	}
	var got []string
	for s := 0.1; s < 2; s += 0.1 {
		out := e.Step(at(s))
		for _, tk := range out.Granted {
			got = append(got, tk.lane.name)
		}
		if out.Probe {
			e.endReading(at(s), r, nil, false)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

func TestFindLegacy(t *testing.T) {
	tests := []struct {
		name    string
		writes  int
		reading Reading
		mode    LegacyMode
		want    bool
	}{
		{"modern", 20, Reading{Limit: 600, Count: 1, HasWrite: true, WriteLimit: 600, WriteCount: 20}, LegacyAuto, false},
		{"fields absent", 0, Reading{Limit: 600}, LegacyAuto, true},
		{"fields zero", 0, Reading{Limit: 600, HasWrite: true}, LegacyAuto, true},
		{"writes counted as reads", 20, Reading{Limit: 600, Count: 21, HasWrite: true, WriteLimit: 600}, LegacyAuto, true},
		{"too few to tell", 9, Reading{Limit: 600, Count: 10, HasWrite: true, WriteLimit: 600}, LegacyAuto, false},
		{"a counter that is only late", 20, Reading{Limit: 600, Count: 1, HasWrite: true, WriteLimit: 600}, LegacyAuto, false},
		{"switched on", 0, Reading{Limit: 600, HasWrite: true, WriteLimit: 600}, LegacyOn, true},
		{"switched off", 20, Reading{Limit: 600, Count: 21}, LegacyOff, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, "aggressive")
			e.cfg.Legacy, e.legacy = tt.mode, tt.mode == LegacyOn
			e.answer(at(0), ok200, e.send(at(0), "device-udf-set", tt.writes)...)
			e.readNow(at(0), tt.reading)
			e.readNow(at(1), tt.reading)
			if e.legacy != tt.want {
				t.Errorf("legacy %v, want %v", e.legacy, tt.want)
			}
			notices := 0
			for _, ev := range e.events {
				if ev.Kind == EventLegacy {
					notices++
				}
			}
			if want := tt.want && tt.mode == LegacyAuto; notices > 1 || want != (notices == 1) {
				t.Errorf("%d notices", notices)
			}
		})
	}
}

// Nonsense from the server changes nothing.
func TestReadingNonsense(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), Reading{
		Window: -time.Second, Limit: -5, Count: math.MinInt, HasWrite: true, WriteLimit: 1, WriteCount: math.MaxInt,
		CutOff: math.NaN(), Ops: map[string]OpReading{"x": {Limit: 0, Count: 5}, "y": {Limit: math.MaxInt, Count: math.MaxInt}},
	})
	if e.window != time.Minute || e.cutOff != 0.9 || e.read.limit != 600 || e.read.reported != 0 || e.byName["x"] != nil {
		t.Errorf("window %v, cut-off %v, limit %d, count %d", e.window, e.cutOff, e.read.limit, e.read.reported)
	}
	for _, b := range e.all {
		if u := e.utilisation(b, at(1)); math.IsNaN(u) || math.IsInf(u, 0) || u < 0 {
			t.Errorf("%s: utilisation %v", b.name, u)
		}
	}
}

func TestSlowAnswers(t *testing.T) {
	var l latencies
	for i := range 40 {
		if l.add(time.Duration(200+i) * time.Millisecond) {
			t.Fatal("noticed without cause")
		}
	}
	var noticed []int
	for i, ms := range []int{1300, 250, 1400, 1300, 1250, 1300, 1300, 250, 250, 250} {
		if l.add(time.Duration(ms) * time.Millisecond) {
			noticed = append(noticed, i)
		}
	}
	if !slices.Equal(noticed, []int{3, 8}) {
		t.Errorf("noticed at %v, want at the third slow one, and after five more again", noticed)
	}
}

// Slow answers make a reading due although the last one was only just taken.
func TestSlowAnswersCalibrate(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	for i := range 40 {
		now := at(float64(i) / 10)
		e.answer(now.Add(200*time.Millisecond), ok200, e.send(now, Read, 1)...)
	}
	p := e.send(at(5), Read, 3)
	e.readNow(at(5), modern(43))
	e.Enqueue(at(5), Read)
	if e.wantReading(at(5)) {
		t.Fatal("a reading is due already")
	}
	e.answer(at(6.3), ok200, p...)
	if at, _ := e.nextDue(at(6.3)); e.read.urgent == "" || at.After(e.now) {
		t.Errorf("due at %v, because %q", at, e.read.urgent)
	}
}

// A write that was sent before the account was found to be legacy closes the one bucket.
func TestLegacy429OfAnEarlierWrite(t *testing.T) {
	e := testEngine(t, "aggressive")
	e.readNow(at(0), modern(0))
	p := e.send(at(0), "device-udf-set", 1)
	e.readNow(at(1), Reading{Limit: 600})
	e.answer(at(2), plain429, p...)
	if e.read.stop.cause == "" {
		t.Error("the one bucket is open")
	}
}

func TestTimelineMergesAndKeepsSums(t *testing.T) {
	var tl timeline
	for s := range 24 * 3600 {
		tl.point(at(float64(s))).Reads++
	}
	sum := 0
	for i, p := range tl.points {
		sum += p.Reads
		if i > 0 && !p.At.After(tl.points[i-1].At) {
			t.Fatalf("point %d is not later than the one before", i)
		}
	}
	if sum != 24*3600 || len(tl.points) > maxPoints {
		t.Errorf("%d requests in %d points", sum, len(tl.points))
	}
}

func TestCustomProfile(t *testing.T) {
	p, err := Custom("medium", map[string]float64{"onset": 0.4, "calibration_max_s": 25, "delay_multiplier_ms": 500})
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "custom" || p.Base != "medium" || p.Onset != 0.4 || p.CalibrationMax != 25*time.Second ||
		p.DelayMultiplier != 500*time.Millisecond || p.ConfidenceCount != 50 {
		t.Errorf("got %+v", p)
	}
	bad := []struct {
		base string
		key  string
		v    float64
		want string
	}{
		{"fast", "onset", 0.5, `"fast" is unknown`},
		{"medium", "onsett", 0.5, `"onsett" is unknown; the settings are util, guard, onset,`},
		{"medium", "onset", 1.5, "onset must be above 0 and below 1"},
		{"medium", "onset", math.NaN(), "onset must"},
		{"medium", "delay_multiplier_ms", 0, "delay_multiplier_ms must"},
		{"medium", "delay_multiplier_ms", math.Inf(1), "delay_multiplier_ms must"},
		{"medium", "calibration_max_s", 1, "calibration_max_s must"},
		{"medium", "calibration_min_s", 0, "calibration_min_s must"},
		{"medium", "calibration_base_s", 0.2, "calibration_base_s must"},
		{"medium", "confidence_count", 2.5, "confidence_count must"},
		{"medium", "stability_threshold", 0, "stability_threshold must"},
		{"medium", "drift_threshold", 0, "drift_threshold must"},
		{"medium", "drift_scaling", -1, "drift_scaling must"},
		{"medium", "safety_overhead", 0.6, "safety_overhead must"},
		{"medium", "unknown_operation_safety_factor", -0.1, "unknown_operation_safety_factor must"},
	}
	for _, b := range bad {
		if _, err := Custom(b.base, map[string]float64{b.key: b.v}); err == nil || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s with %s=%v: %v, want %q", b.base, b.key, b.v, err, b.want)
		}
	}
	for _, p := range Profiles() {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// One decision of a gate behind which 10,000 requests have been logged.
func BenchmarkDecision(b *testing.B) {
	e := testEngine(b, "aggressive")
	r := modern(0)
	r.Limit, r.WriteLimit = 100_000, 100_000
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"} {
		r.Ops[name] = OpReading{Limit: 100_000}
	}
	e.readNow(at(0), r)
	for i := range 10_000 {
		now := at(float64(i) * 0.006)
		e.answer(now, ok200, e.send(now, Read, 1)...)
	}
	now := at(60)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(6 * time.Millisecond)
		e.Enqueue(now, Read)
		out := e.Step(now)
		if out.Probe {
			e.endReading(now, r, nil, false)
			out.Granted = append(out.Granted, e.Step(now).Granted...)
		}
		for _, t := range out.Granted {
			e.Done(now, t, ok200)
		}
	}
}
