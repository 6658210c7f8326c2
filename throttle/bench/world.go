package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"rmmjob/internal/rmmsim"
	"rmmjob/throttle"
)

// world is one run in virtual time: the windows of the simulated account, the clients that
// share them, and the events still to come.
type world struct {
	now       time.Time
	start     time.Time
	end       time.Time // nothing happens after it; zero: when all work is done
	quota     *rmmsim.Quota
	limits    map[string]int // by lane, and "write" for all writes
	legacy    bool
	disguised bool
	rng       *rand.Rand
	todo      agenda
	seq       int

	clients []*client
	open    int           // clients that have work left
	strange *outsiders    // other programs, if there are any
	median  time.Duration // of the response time
}

// settings of the account and its network.
type settings struct {
	legacy    bool
	limits    map[string]int
	stale     time.Duration // age of what request_rate reports
	latency   time.Duration // median response time; 0 means 250 ms
	disguised bool          // a legacy account reports a limit for writes and counts none
	fixed     bool          // the windows of writes drop at once instead of sliding
}

// The spread of the response time: one answer in 40 takes more than twice the median.
const latencySigma = 0.4

func newWorld(seed uint64, s settings) *world {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seed%977) * 61 * time.Millisecond)
	w := &world{
		now: start, start: start, legacy: s.legacy, disguised: s.disguised, median: 250 * time.Millisecond,
		rng:    rand.New(rand.NewPCG(seed, 7)),
		limits: map[string]int{throttle.Read: 600, "write": 600, udf: 600, warranty: 100},
	}
	if s.latency > 0 {
		w.median = s.latency
	}
	for name, limit := range s.limits {
		w.limits[name] = limit
	}
	w.quota = rmmsim.NewQuota(
		rmmsim.Limits{Read: w.limits[throttle.Read], Write: w.limits["write"], Ops: map[string]int{udf: w.limits[udf], warranty: w.limits[warranty]}},
		rmmsim.QuotaRules{Operations: []string{udf, warranty}, Legacy: s.legacy, Stale: s.stale, FixedWrites: s.fixed},
	)
	return w
}

// The lanes of the scenarios, beside throttle.Read.
const (
	udf      = "device-udf-set"
	warranty = "device-warranty-create"
)

// buckets returns the quotas that a request of a lane touches.
func (w *world) buckets(lane string) []string {
	switch {
	case lane == throttle.Read || w.legacy:
		return []string{throttle.Read}
	case w.limits[lane] > 0:
		return []string{"write", lane}
	}
	return []string{"write"}
}

// take lets a request arrive at the server.
func (w *world) take(addr, lane string) rmmsim.Decision {
	op := lane
	if lane == throttle.Read {
		op = ""
	}
	return w.quota.Take(w.now, addr, op)
}

// responseTime draws a time from sending to answer, without the delay of a full account.
func (w *world) responseTime() time.Duration {
	return time.Duration(float64(w.median) * math.Exp(latencySigma*w.rng.NormFloat64()))
}

// reading is what request_rate says now.
func (w *world) reading() throttle.Reading {
	q := w.quota.Reading(w.now)
	r := throttle.Reading{
		Window: rmmsim.Span, CutOff: rmmsim.CutOff, Limit: q.ReadLimit, Count: q.ReadCount,
		HasWrite: q.WriteLimit > 0, WriteLimit: q.WriteLimit, WriteCount: q.WriteCount,
		Ops: make(map[string]throttle.OpReading, len(q.Ops)),
	}
	for name, op := range q.Ops {
		r.Ops[name] = throttle.OpReading{Limit: op.Limit, Count: op.Count}
	}
	if w.disguised {
		r.HasWrite, r.WriteLimit = true, w.limits["write"]
	}
	return r
}

// run lets time pass until all work is done or the end has come.
func (w *world) run() {
	for _, c := range w.clients {
		w.open++
		w.at(c.begin, c.start)
	}
	for w.open > 0 && len(w.todo) > 0 {
		next := w.todo.pop()
		w.now = time.Unix(0, next.at).UTC()
		if !w.end.IsZero() && w.now.After(w.end) {
			return
		}
		next.do()
	}
}

func (w *world) at(t time.Time, do func()) {
	if t.Before(w.now) {
		t = w.now
	}
	w.seq++
	w.todo.push(appointment{t.UnixNano(), w.seq, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now.Add(d), do) }

// appointment is something that happens at a time; agenda is a heap of them.
type appointment struct {
	at  int64 // nanoseconds since the epoch
	seq int
	do  func()
}

type agenda []appointment

func (a agenda) before(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}

func (a *agenda) push(x appointment) {
	*a = append(*a, x)
	h := *a
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(i, parent) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (a *agenda) pop() appointment {
	h := *a
	first, n := h[0], len(h)-1
	h[0], h[n] = h[n], appointment{}
	h = h[:n]
	*a = h
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < n && h.before(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// outsiders are other programs of the same account: requests of one kind at a rate, while
// they are on. Each few come from another address, so that a block never hides them.
type outsiders struct {
	w       *world
	lane    string
	rate    float64 // per second
	phases  []phase
	sent    int
	refused int
}

// phase is a span of time in which outsiders are on, since the start of the world.
type phase struct{ from, to time.Duration }

// strangers lets outsiders work, evenly but not like a clock.
func (w *world) strangers(lane string, rate float64, phases []phase) {
	o := &outsiders{w: w, lane: lane, rate: rate, phases: phases}
	w.strange = o
	for _, p := range phases {
		for t := p.from; t < p.to; t += time.Duration((0.5 + w.rng.Float64()) / rate * float64(time.Second)) {
			w.at(w.start.Add(t), o.send)
		}
	}
}

func (o *outsiders) send() {
	o.sent++
	if o.w.take("outsider-"+strconv.Itoa(o.sent/20), o.lane).Verdict != rmmsim.Admitted {
		o.refused++
	}
}

// within returns how many requests of the outsiders are in the window that ends at t, in
// the future too.
func (o *outsiders) within(t time.Time) float64 {
	n, to := 0.0, t.Sub(o.w.start)
	for _, p := range o.phases {
		if d := min(to, p.to) - max(to-rmmsim.Span, p.from); d > 0 {
			n += o.rate * d.Seconds()
		}
	}
	return n
}
