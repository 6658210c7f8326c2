package rmmsim

import (
	"maps"
	"slices"
	"time"
)

// The rules of the real service, as far as they are known.
const (
	// Span is the length of every rate window.
	Span = 60 * time.Second
	// CutOff is the utilisation from which answers come SlowDown late.
	CutOff = 0.9
	// SlowDown is how late an answer comes at or above CutOff.
	SlowDown = time.Second
	// BlockAfter rejections of one address within Span block that address.
	BlockAfter = 30
	// BlockFor is how long an address stays blocked.
	BlockFor = 300 * time.Second
	// DefaultLimit is the account's limit for reads, for writes and for
	// setting UDFs, in requests per Span.
	DefaultLimit = 600
	// DefaultOperationLimit is the limit of the other write operations.
	DefaultOperationLimit = 100
)

// Limits are the rate limits of the account, in requests per Span. Zero
// values mean the defaults above.
type Limits struct {
	// Off counts and reports requests, and refuses, delays and blocks none.
	Off bool
	// Read limits reads, Write all writes together.
	Read, Write int
	// Ops limits single write operations, by the server's operation names.
	Ops map[string]int
}

// Verdict is what the rate rules say about one request.
type Verdict int

// The verdicts.
const (
	// Admitted: the request is answered.
	Admitted Verdict = iota
	// Rejected: the request counts and gets 429.
	Rejected
	// Blocked: the address gets 403 and the request does not count.
	Blocked
)

// Decision is the answer of Quota.Take.
type Decision struct {
	Verdict Verdict
	// Delay is how much later than usual the answer comes.
	Delay time.Duration
}

// Flood is another client of the same account: Rate requests a second from
// From until To, spread evenly. Op is a write operation or "" for reads.
type Flood struct {
	From, To time.Time
	Rate     float64
	Op       string
}

// Quota holds the rate windows of one account and judges requests by them.
// Like Window it is pure: the caller gives the time. It is not safe for
// concurrent use.
//
// Reads touch the read bucket. Writes touch the write bucket and the bucket
// of their operation, if there is one. A rejected request counts too, so a
// client that goes on hammering stays over the limit, and is blocked.
type Quota struct {
	limits   Limits
	legacy   bool
	noDelay  bool
	stale    time.Duration
	buckets  map[string]*bucket
	rejected map[string]*Window   // by address
	blocked  map[string]time.Time // by address: until
	floods   []*flood
}

type bucket struct {
	window  *Window
	limit   int
	highest float64
}

type flood struct {
	Flood
	sent int
}

// Names of the two account-wide buckets, among those of the operations.
const (
	bucketRead  = "read"
	bucketWrite = "write"
)

// QuotaRules are the switches of a Quota beside its limits.
type QuotaRules struct {
	// Operations are the write operations that have a bucket.
	Operations []string
	// Legacy puts everything into the read bucket.
	Legacy bool
	// FixedWrites makes the windows of writes drop at once instead of sliding.
	FixedWrites bool
	// NoDelay answers without delay above CutOff.
	NoDelay bool
	// Stale is the age of the counts that Reading reports.
	Stale time.Duration
}

// NewQuota returns empty windows under the given limits and rules.
func NewQuota(limits Limits, rules QuotaRules) *Quota {
	q := &Quota{
		limits: limits, legacy: rules.Legacy, noDelay: rules.NoDelay, stale: rules.Stale,
		buckets:  map[string]*bucket{},
		rejected: map[string]*Window{},
		blocked:  map[string]time.Time{},
	}
	add := func(name string, limit, fallback int, fixed bool) {
		if limit == 0 {
			limit = fallback
		}
		q.buckets[name] = &bucket{window: NewWindow(Span, rules.Stale, fixed), limit: limit}
	}
	add(bucketRead, limits.Read, DefaultLimit, false)
	if rules.Legacy {
		return q
	}
	add(bucketWrite, limits.Write, DefaultLimit, rules.FixedWrites)
	// The operations keep their share of the writes when that limit is another.
	writes := limits.Write
	if writes == 0 {
		writes = DefaultLimit
	}
	for _, op := range rules.Operations {
		fallback := max(1, writes*DefaultOperationLimit/DefaultLimit)
		if op == "device-udf-set" {
			fallback = writes
		}
		add(op, limits.Ops[op], fallback, rules.FixedWrites)
	}
	return q
}

// Flood lets another client send requests from now on.
func (q *Quota) Flood(f Flood) { q.floods = append(q.floods, &flood{Flood: f}) }

// Block blocks an address until the given time.
func (q *Quota) Block(addr string, until time.Time) { q.blocked[addr] = until }

// IsBlocked tells whether an address is blocked at now.
func (q *Quota) IsBlocked(now time.Time, addr string) bool {
	until, ok := q.blocked[addr]
	if ok && !now.Before(until) {
		delete(q.blocked, addr)
		return false
	}
	return ok
}

// Take judges one request of an address at now, and counts it unless the
// address is blocked. op is the name of the write operation; "" is a read,
// and a name without a bucket counts as a write only.
func (q *Quota) Take(now time.Time, addr, op string) Decision {
	q.advance(now)
	if q.IsBlocked(now, addr) {
		return Decision{Verdict: Blocked}
	}
	util, over := q.count(now, op)
	switch {
	case q.limits.Off:
		return Decision{}
	case over:
		w := q.rejected[addr]
		if w == nil {
			w = NewWindow(Span, 0, false)
			q.rejected[addr] = w
		}
		w.Add(now)
		if w.Count(now) >= BlockAfter {
			q.Block(addr, now.Add(BlockFor))
			delete(q.rejected, addr)
		}
		return Decision{Verdict: Rejected}
	case util >= CutOff && !q.noDelay:
		return Decision{Delay: SlowDown}
	}
	return Decision{}
}

// count adds a request to its buckets and gives the highest utilisation of
// them after it, and whether one is over its limit.
func (q *Quota) count(now time.Time, op string) (util float64, over bool) {
	for _, b := range q.touched(op) {
		b.window.Add(now)
		n := b.window.Count(now)
		u := float64(n) / float64(b.limit)
		b.highest = max(b.highest, u)
		util = max(util, u)
		over = over || n > b.limit
	}
	return util, over
}

func (q *Quota) touched(op string) []*bucket {
	if op == "" || q.legacy {
		return []*bucket{q.buckets[bucketRead]}
	}
	touched := []*bucket{q.buckets[bucketWrite]}
	if b := q.buckets[op]; b != nil && op != bucketRead && op != bucketWrite {
		touched = append(touched, b)
	}
	return touched
}

// advance counts what the floods have sent up to now.
func (q *Quota) advance(now time.Time) {
	for _, f := range q.floods {
		// What has left the windows since the last look need not be counted.
		if gone := now.Add(-Span - q.stale).Sub(f.From); gone > 0 {
			f.sent = max(f.sent, int(gone.Seconds()*f.Rate))
		}
		for {
			at := f.From.Add(time.Duration(float64(f.sent) / f.Rate * float64(time.Second)))
			if at.After(now) || !at.Before(f.To) {
				break
			}
			f.sent++
			q.count(at, f.Op)
		}
	}
	q.floods = slices.DeleteFunc(q.floods, func(f *flood) bool { return !now.Before(f.To) })
}

// Reading is what the account reports about its windows.
type Reading struct {
	ReadCount, ReadLimit   int
	WriteCount, WriteLimit int
	Ops                    map[string]OpReading
}

// OpReading is the state of one write operation's bucket.
type OpReading struct{ Count, Limit int }

// Reading reports the windows as they were Stale before now.
func (q *Quota) Reading(now time.Time) Reading {
	q.advance(now)
	at := now.Add(-q.stale)
	r := Reading{Ops: map[string]OpReading{}}
	for name, b := range q.buckets {
		n := b.window.CountAt(at)
		switch name {
		case bucketRead:
			r.ReadCount, r.ReadLimit = n, b.limit
		case bucketWrite:
			r.WriteCount, r.WriteLimit = n, b.limit
		default:
			r.Ops[name] = OpReading{Count: n, Limit: b.limit}
		}
	}
	return r
}

// Highest is the highest utilisation that each bucket has seen, by name:
// "read", "write" and the write operations. Untouched buckets are left out.
func (q *Quota) Highest() map[string]float64 {
	highest := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(q.buckets)) {
		if h := q.buckets[name].highest; h > 0 {
			highest[name] = h
		}
	}
	return highest
}
