package throttle

import (
	"math"
	"strings"
	"testing"
	"time"
)

func modelOf(t testing.TB, name string) (*Core, model) {
	e := testEngine(t, name)
	return e, e.pacing.(model)
}

func TestWindowLookingAheadAndBack(t *testing.T) {
	var w window
	w.resize(at(0), time.Minute)
	for s := range 60 {
		w.add(at(float64(s)), 1)
	}
	for _, tt := range []struct {
		now     float64
		d       time.Duration
		leaving int
		ago     int
		entered int
	}{
		{59.5, 0, 0, 60, 0},
		{59.5, 10 * time.Second, 10, 50, 10},
		{59.5, 20 * time.Second, 20, 50, 20}, // it remembers ten seconds of what was
		{59.5, time.Hour, 60, 50, 60},
		{64.5, 4 * time.Second, 4, 59, 0},
		{64.5, 10 * time.Second, 10, 55, 5},
		{130, 10 * time.Second, 0, 0, 0},
	} {
		if l, a, n := w.leaving(at(tt.now), tt.d), w.ago(at(tt.now), tt.d), w.entered(at(tt.now), tt.d); l != tt.leaving || a != tt.ago || n != tt.entered {
			t.Errorf("at %v s, %v: %d leave, %d before, %d entered; want %d, %d, %d", tt.now, tt.d, l, a, n, tt.leaving, tt.ago, tt.entered)
		}
	}
}

// What readings say about others, and what is made of it.
func TestCrowd(t *testing.T) {
	type reading struct{ at, x float64 }
	tests := []struct {
		name     string
		readings []reading
		at       float64
		left     float64
		expected float64
		rate     float64 // forecast, per second
	}{
		{"before any", nil, 0, 0, 0, 0},
		{"the first is spread evenly and goes on", []reading{{0, 300}}, 30, 150, 300, 5},
		{"nothing new", []reading{{0, 300}, {10, 250}}, 10, 250, 250, 5 * math.Exp(-2.5)},
		{"new ones stay for a window", []reading{{0, 0}, {10, 100}}, 65, 50, 600, 10},
		{"and are gone after it", []reading{{0, 0}, {10, 100}, {20, 100}}, 70.1, 0, 0, -1},
		{"fewer than foreseen shrink", []reading{{0, 300}, {30, 75}}, 45, 37.5, -1, -1},
		{"two phases", []reading{{0, 0}, {10, 50}, {20, 150}}, 65, 125, -1, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c crowd
			for i, r := range tt.readings {
				c.observe(at(r.at), r.x, time.Minute, i == 0)
			}
			check := func(what string, got, want float64) {
				if want >= 0 && math.Abs(got-want) > 0.01*max(1, want) {
					t.Errorf("%s %.3f, want %.3f", what, got, want)
				}
			}
			check("left", c.left(at(tt.at), time.Minute), tt.left)
			if tt.expected > 0 {
				check("expected", c.expected(at(tt.at), time.Minute), tt.expected)
			}
			check("forecast", c.forecast(), tt.rate)
		})
	}
}

func TestCrowdStaysSmall(t *testing.T) {
	var c crowd
	n := 0.0
	for s := range 10_000 {
		n += 3
		c.observe(at(float64(s)/5), n, time.Minute, s == 0)
	}
	if len(c.spans) > maxSpans {
		t.Errorf("%d spans, want at most %d", len(c.spans), maxSpans)
	}
	if left := c.left(at(2000), time.Minute); left < n*0.99 {
		t.Errorf("%.0f left of %.0f: joining spans must not lose any", left, n)
	}
}

// Bursts that strangers can live with: from an empty window 174 of 600 with a guard of 0.7.
func TestBurst(t *testing.T) {
	for _, tt := range []struct {
		profile string
		own     int     // answered
		at      float64 // seconds after that
		want    int
	}{
		{"full", 0, 0, 173}, // the reading itself is one
		{"quick", 0, 0, 293},
		{"full", 100, 1, 73},
		{"full", 170, 1, 3},
		{"full", 170, 55, 174}, // strangers who start now have five seconds with them
		{"full", 170, 61, 174},
	} {
		e, p := modelOf(t, tt.profile)
		e.readNow(at(0), modern(0))
		e.answer(at(0), ok200, e.send(at(0), Read, tt.own)...)
		e.now = at(tt.at)
		if got := p.burst(e, e.read.bucket, at(tt.at), 1000, 1); got < tt.want-1 || got > tt.want+1 {
			t.Errorf("%s, %d own %v s ago: %d at once, want %d", tt.profile, tt.own, tt.at, got, tt.want)
		}
	}
}

// An empty account: batches of 10, 20, 40 …, each behind a reading.
func TestBatches(t *testing.T) {
	e, _ := modelOf(t, "full")
	for range 400 {
		e.Enqueue(at(0), Read)
	}
	var sizes []int
	now, own := 0.0, 0
	for range 8 {
		out := e.Step(at(now))
		if n := len(out.Granted); n > 1 {
			sizes = append(sizes, n)
		}
		own += len(out.Granted)
		e.answer(at(now+0.2), ok200, out.Granted...)
		now += 0.3
		if out.Probe {
			own++
			e.endReading(at(now), modern(own), nil, false)
		}
	}
	if len(sizes) < 4 || sizes[0] != 10 || sizes[1] != 20 || sizes[2] != 40 || sizes[3] != 80 {
		t.Errorf("batches %v, want 10, 20, 40, 80 …", sizes)
	}
}

// A short job goes at once, if it is known to be one and there is nobody else.
func TestShortJob(t *testing.T) {
	for _, tt := range []struct {
		name   string
		others int
		expect int
		queued int
		want   int
	}{
		{"known and small", 0, 120, 120, 120},
		{"only a part waits", 0, 150, 40, 40},
		{"unknown: a batch", 0, -1, 120, 10},
		{"too many: a batch", 0, 400, 400, 10},
		{"others are there: one", 60, 100, 100, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := modelOf(t, "full")
			e.Expect(Read, tt.expect)
			e.readNow(at(0), modern(tt.others+1))
			for range tt.queued {
				e.Enqueue(at(1), Read)
			}
			if got := len(e.Step(at(1)).Granted); got != tt.want {
				t.Errorf("%d at once, want %d", got, tt.want)
			}
		})
	}
}

// All programs see the same free room; what each may take of it adds up to no more.
func TestSharesAddUp(t *testing.T) {
	_, p := modelOf(t, "full")
	for _, counts := range [][]int{{250, 250}, {100, 200, 150}, {90, 90, 90, 90, 90}, {20, 400}, {0, 300}} {
		total, growth := 0, 0.0
		for _, n := range counts {
			total += n
		}
		var free float64
		for _, n := range counts {
			e := testEngine(t, "full")
			e.answer(at(0), ok200, e.send(at(0), Read, n)...)
			e.readNow(at(1), modern(total+1))
			own, x := float64(n+1), float64(total-n)
			growth += p.growth(e, e.read.bucket, own, x) - 2
			free = p.top(e, e.read.bucket) - own - x
		}
		if growth > 1.11*free {
			t.Errorf("%v: together they may grow by %.0f, and %.0f are free", counts, growth, free)
		}
	}
}

// Slow answers mean that the account is at 90 %, a 429 that it is full.
func TestMarks(t *testing.T) {
	e, p := modelOf(t, "full")
	e.readNow(at(0), modern(1))
	e.answer(at(0), ok200, e.send(at(0), Read, 200)...)
	for i := range 20 {
		e.read.slow.add(time.Duration(240+i) * time.Millisecond)
	}
	for _, tk := range e.send(at(2), Read, 3) {
		e.Done(at(3.3), tk, Result{Status: 200, JSON: true, Latency: 1300 * time.Millisecond})
	}
	if u := p.use(e, e.read.bucket, at(3.3)); u < 0.895 || u > 0.91 {
		t.Errorf("after slow answers: %.3f in use, want 0.90", u)
	}
	if e.read.urgent == "" || e.read.alone {
		t.Error("no reading is due, or nobody is suspected")
	}
	if !p.over(e, e.read.bucket, at(3.3)) {
		t.Error("more may be sent")
	}
	e.answer(at(4), plain429, e.send(at(4), Read, 1)...)
	if u := p.use(e, e.read.bucket, at(4)); u < 0.99 {
		t.Errorf("after a 429: %.3f in use, want 1", u)
	}
	if hold := e.read.stop.until.Sub(at(4)); hold < leastHold || hold > longestHold {
		t.Errorf("closed for %v", hold)
	}
	if m := e.read.margin; m < marginOfMark+marginOfRefusal-1e-9 {
		t.Errorf("the margin is %.3f", m)
	}
}

// The holds of the window model: until the model is under 90 %, five seconds at least,
// doubling to 35 s; never shorter than the server says.
func TestHolds(t *testing.T) {
	header := func(d time.Duration) Result { return Result{Status: 429, RetryAfter: d, HasRetryAfter: true} }
	e, _ := modelOf(t, "adaptive")
	now := at(0)
	e.readNow(now, modern(560)) // all but one are of others, and a tenth of them leaves in six seconds
	for i, tt := range []struct {
		r         Result
		want, max float64
	}{{plain429, 5, 10}, {plain429, 10, 20}, {plain429, 20, 35}, {plain429, 35, 35}, {header(90 * time.Second), 90, 90}, {header(0), 35, 35}} {
		e.answer(now, tt.r, e.send(now, Read, 1)...)
		if got := e.read.stop.until.Sub(now).Seconds(); got < tt.want || got > tt.max {
			t.Errorf("429 number %d: closed for %v s, want %v to %v", i+1, got, tt.want, tt.max)
		}
		now = e.read.stop.until
		e.now = now.Add(-time.Second)
		e.readNow(now, modern(560))
	}
}

// A count in which answered requests are missing is an old one.
func TestAge(t *testing.T) {
	for _, tt := range []struct {
		name     string
		reported int
		want     time.Duration
	}{
		{"fresh", 50, 0},
		{"with others", 90, 0},
		{"three seconds old", 20, 3 * time.Second},
		{"nothing yet", 0, 5 * time.Second},
	} {
		e, _ := modelOf(t, "full")
		e.readNow(at(0), modern(0))
		e.read.own.clear()
		for i := range 50 { // ten a second, for five seconds
			e.answer(at(10+float64(i)/10), ok200, e.send(at(10+float64(i)/10), Read, 1)...)
		}
		e.readNow(at(15), modern(tt.reported))
		if d := e.age - tt.want; d < -200*time.Millisecond || d > 200*time.Millisecond {
			t.Errorf("%s: %v, want %v", tt.name, e.age, tt.want)
		}
	}
}

func TestModelProfiles(t *testing.T) {
	for _, name := range []string{"full", "adaptive", "neighbour", "quick"} {
		p := named(t, name)
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		if _, ok := pacingOf(p).(model); !ok {
			t.Errorf("%s is not of the window model", name)
		}
	}
	p, err := Custom("adaptive", map[string]float64{"util": 0.6, "guard": 0.5})
	if err != nil || p.Util != 0.6 || p.Guard != 0.5 || p.Base != "adaptive" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []struct {
		base, key string
		v         float64
		want      string
	}{
		{"adaptive", "onset", 0.4, "no meaning for the base adaptive"},
		{"medium", "util", 0.8, "no meaning for the base medium"},
		{"adaptive", "util", 0, "util must be"},
		{"adaptive", "util", 0.99, "util must be"},
		{"adaptive", "util", math.NaN(), "util must be"},
		{"adaptive", "util", -1, "util must be"},
		{"adaptive", "guard", 1, "guard must be"},
		{"adaptive", "guard", math.NaN(), "guard must be"},
	} {
		if _, err := Custom(bad.base, map[string]float64{bad.key: bad.v}); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s with %s=%v: %v, want %q", bad.base, bad.key, bad.v, err, bad.want)
		}
	}
}

// Whatever limits and counts a server reports, the model neither divides by nothing nor
// gives up for good.
func TestModelOnOddAccounts(t *testing.T) {
	for _, limit := range []int{3, 7, 60, 100_000} {
		e, p := modelOf(t, "adaptive")
		r := modern(0)
		r.Limit, r.CutOff = limit, 0.05
		e.readNow(at(0), r)
		for range 3 {
			e.Enqueue(at(0), Read)
		}
		sent := 0
		for s := 0.0; s < 600; s += 0.5 {
			out := e.Step(at(s))
			sent += len(out.Granted)
			e.answer(at(s+0.1), ok200, out.Granted...)
			if out.Probe {
				r.Count = e.mine(e.read.bucket, at(s+0.1))
				e.endReading(at(s+0.1), r, nil, false)
			}
		}
		if sent != 3 {
			t.Errorf("limit %d: %d of 3 sent in ten minutes", limit, sent)
		}
		if u := p.use(e, e.read.bucket, at(600)); math.IsNaN(u) || math.IsInf(u, 0) {
			t.Errorf("limit %d: utilisation %v", limit, u)
		}
	}
}

// A change of the profile in the middle keeps the counts, and reads the account first where
// the new one needs to know it.
func TestChangeToTheModel(t *testing.T) {
	e := testEngine(t, "medium")
	e.readNow(at(0), modern(1))
	e.answer(at(1), ok200, e.send(at(1), Read, 100)...)
	e.setProfile(at(2), named(t, "adaptive"))
	e.Enqueue(at(2), Read)
	out := e.Step(at(2))
	if !out.Probe || len(out.Granted) > 0 {
		t.Fatalf("probe %v, %d granted; want the reading first", out.Probe, len(out.Granted))
	}
	e.endReading(at(2.2), modern(402), nil, false)
	if x := e.read.crowd.count; x < 299 || x > 301 {
		t.Errorf("%.0f others, want 300", x)
	}
}

// Own requests that leave the window while a reading is on its way may still be in its count:
// the end of a burst is not taken for others.
func TestModelOwnThatLeaveMeanwhile(t *testing.T) {
	e, _ := modelOf(t, "adaptive")
	e.readNow(at(0), modern(0))
	e.answer(at(1), ok200, e.send(at(0.9), Read, 10)...)
	e.answer(at(2), ok200, e.send(at(1.5), Read, 6)...)
	e.readNow(at(20), modern(17))
	if !e.read.alone || e.read.own.gone(at(61.5), 2*time.Second) != 11 {
		t.Fatalf("alone %v, %d have left", e.read.alone, e.read.own.gone(at(61.5), 2*time.Second))
	}
	e.beginReading(at(60.9))
	e.endReading(at(61.4), modern(11), nil, false) // ten left at 61.1
	if !e.read.alone || e.read.crowd.count > 0 {
		t.Errorf("alone %v, others %v", e.read.alone, e.read.crowd.count)
	}
	e.beginReading(at(61.9))
	e.endReading(at(62.1), modern(21), nil, false)
	if e.read.alone {
		t.Errorf("fifteen others are not heard: %+v, own %d, age %v", e.read.crowd, e.read.mine(at(62.1)), e.age)
	}
}

// A window that is full of own requests is read before strangers at half the limit can fill
// the rest of it.
func TestModelReadsBeforeStrangersFillTheWindow(t *testing.T) {
	for _, name := range []string{"full", "adaptive", "neighbour", "quick"} {
		e, p := modelOf(t, name)
		e.readNow(at(0), modern(0))
		for s := range 180 {
			now := at(float64(s))
			e.answer(now, ok200, e.send(now, Read, 8)...)
			if s%5 == 0 {
				e.readNow(now, modern(e.read.mine(now)))
			}
		}
		free := 600 - e.read.mine(at(179))
		due, _ := p.due(e, e.read, at(179))
		if wait := due.Sub(at(175)); wait > time.Duration(free)*time.Second/5 {
			t.Errorf("%s: the next reading after %v, %d are free", name, wait, free)
		}
	}
}
