package rmmsim

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"time"

	"rmmjob/internal/rmm"
)

// Record is one request in the log of the account.
type Record struct {
	// Seq counts requests from 1.
	Seq int `json:"seq"`
	// Time is when the request arrived, Done when its answer went out; Done
	// is zero while it is still being answered.
	Time time.Time `json:"time"`
	Done time.Time `json:"done"`
	// Addr is the client's address. Host is the host that it asked.
	Addr string `json:"addr"`
	Host string `json:"host"`
	// Path is the path as sent, with /api; Query the raw query.
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	// Operation is the name in the catalogue, "token" for a login, or "".
	Operation string `json:"operation,omitempty"`
	// Status is what was answered; 0 is a connection that broke without one.
	Status int `json:"status"`
	// Applied tells that a write was carried out.
	Applied bool `json:"applied"`
	// Delayed: the answer was one second late for the quota. Blocked: the
	// 403 was an IP block.
	Delayed bool `json:"delayed,omitempty"`
	Blocked bool `json:"blocked,omitempty"`
	// Fault is the name of the last fault that met the request.
	Fault string `json:"fault,omitempty"`
	// BodySize and BodyHash (SHA-256, hex) are of the request's body. Body is
	// the body itself; only writes of the API keep it, never a login.
	BodySize   int    `json:"body_size,omitempty"`
	BodyHash   string `json:"body_sha256,omitempty"`
	Body       string `json:"body,omitempty"`
	AnswerSize int    `json:"answer_size,omitempty"`
}

// Counts sums the log up. It covers all requests, also those that a bounded
// log has dropped.
type Counts struct {
	Requests int `json:"requests"`
	// Operations counts by operation and status. Requests of no operation
	// stand under "", answers that never came under status 0.
	Operations map[string]map[int]int `json:"operations"`
	// Reads and Writes were answered with success; Applied writes were
	// carried out, answered or not.
	Reads   int `json:"reads"`
	Writes  int `json:"writes"`
	Applied int `json:"applied"`
	// Throttled is the number of 429s, Blocked of 403s of an IP block,
	// Delayed of answers that were late for the quota.
	Throttled int `json:"throttled_429"`
	Blocked   int `json:"blocked_403"`
	Delayed   int `json:"delayed"`
	// Highest is the highest utilisation of each bucket, other clients
	// included: 1 is at the limit.
	Highest map[string]float64 `json:"highest_utilisation"`
}

// requestLog keeps records, the newest limit of them, or all if limit is 0.
type requestLog struct {
	limit   int
	records []*Record
	seq     int
	counts  Counts
}

func (l *requestLog) add(c *call, r *http.Request) *Record {
	l.seq++
	rec := &Record{
		Seq: l.seq, Time: c.now, Addr: c.addr, Host: r.Host, Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Operation: c.op.Name, BodySize: len(c.body),
	}
	if rec.Host == "" {
		rec.Host = r.URL.Host
	}
	if c.op.Name != opToken && len(c.body) > 0 {
		sum := sha256.Sum256(c.body)
		rec.BodyHash, rec.Body = hex.EncodeToString(sum[:]), string(c.body)
	}
	l.records = append(l.records, rec)
	if l.limit > 0 && len(l.records) > 2*l.limit {
		l.records = append([]*Record(nil), l.records[len(l.records)-l.limit:]...)
	}
	return rec
}

func (l *requestLog) count(rec *Record) {
	c := &l.counts
	c.Requests++
	if c.Operations == nil {
		c.Operations = map[string]map[int]int{}
	}
	byStatus := c.Operations[rec.Operation]
	if byStatus == nil {
		byStatus = map[int]int{}
		c.Operations[rec.Operation] = byStatus
	}
	byStatus[rec.Status]++
	if op, ok := rmm.Lookup(rec.Operation); ok && rec.Status >= 200 && rec.Status < 300 {
		if op.IsWrite() {
			c.Writes++
		} else {
			c.Reads++
		}
	}
	for _, one := range []struct {
		n  *int
		is bool
	}{{&c.Applied, rec.Applied}, {&c.Throttled, rec.Status == http.StatusTooManyRequests}, {&c.Blocked, rec.Blocked}, {&c.Delayed, rec.Delayed}} {
		if one.is {
			*one.n++
		}
	}
}

// Log gives the requests in the order in which they arrived.
func (a *Account) Log() []Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	records := a.log.records
	if l := a.log.limit; l > 0 && len(records) > l {
		records = records[len(records)-l:]
	}
	list := make([]Record, len(records))
	for i, rec := range records {
		list[i] = *rec
	}
	return list
}

// Counts sums up all requests that were answered so far.
func (a *Account) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.log.counts
	c.Operations = map[string]map[int]int{}
	for op, byStatus := range a.log.counts.Operations {
		c.Operations[op] = maps.Clone(byStatus)
	}
	c.Highest = a.quota.Highest()
	return c
}
