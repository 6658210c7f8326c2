package rmmsim

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"rmmjob/internal/rmm"
)

// Config describes a simulated account. The zero value is a faithful account
// of 1,200 devices without latency; each switch turns on one oddity of the
// real service, or one of two answers where the truth is unknown.
type Config struct {
	// Devices is the size of the fleet: 0 is 1200, negative is none.
	Devices int
	// Seed decides every byte of the fleet. 0 is 1.
	Seed uint64
	// Latency is how long every answer takes. Spread, if above 0, makes it
	// the median of a lognormal distribution with that sigma.
	Latency time.Duration
	Spread  float64
	// Limits are the rate limits.
	Limits Limits
	// Legacy accounts have one bucket for everything and report no writes.
	Legacy bool
	// Faults are what goes wrong; see AddFaults.
	Faults []Fault
	// PageMax is the largest and default page size. 0 is 250.
	PageMax int
	// TokenLifetime is how long an access token is good. 0 is 100 hours.
	TokenLifetime time.Duration
	// Key and Secret are the API pair. An empty Key accepts any pair.
	Key, Secret string
	// SingleToken makes each new token end the ones before.
	SingleToken bool

	// ISODates sends dates as text instead of milliseconds.
	ISODates bool
	// UDFs is the number of UDF keys of a device: 0 is 300, older builds had
	// 30, negative leaves the udf object out.
	UDFs int
	// Software is the number of programs of each device; 0 draws 20 to 200.
	Software int
	// Sparse makes every device as empty as a network device.
	Sparse bool
	// UnknownValues mixes in device classes, states and alert contexts that
	// no client knows.
	UnknownValues bool
	// AlertTotals sends totalCount on open alerts, where the real service
	// leaves it out.
	AlertTotals bool
	// NextForgets leaves the filters out of nextPageUrl.
	NextForgets bool
	// NextForeign points nextPageUrl at another host.
	NextForeign bool

	// DuplicateNames accepts a second site or variable of the same name
	// instead of answering 409.
	DuplicateNames bool
	// NoConflicts answers overlapping writes to one record one after the
	// other instead of refusing the later with 409. Writes overlap only when
	// there is Latency.
	NoConflicts bool
	// FixedWriteWindow drops the write counts at once instead of sliding.
	FixedWriteWindow bool
	// NoDelay leaves out the delay of one second from 90 % of a limit on.
	NoDelay bool
	// RetryAfter, if above 0, is sent with every 429, in whole seconds.
	RetryAfter time.Duration
	// StaleRate is the age of the counts that request_rate reports.
	StaleRate time.Duration
	// LogLimit keeps only the newest requests in the log. 0 keeps all.
	LogLimit int
}

func (cfg Config) withDefaults() Config {
	switch {
	case cfg.Devices == 0:
		cfg.Devices = 1200
	case cfg.Devices < 0:
		cfg.Devices = 0
	}
	switch {
	case cfg.UDFs == 0:
		cfg.UDFs = rmm.MaxUDF
	case cfg.UDFs < 0:
		cfg.UDFs = 0
	}
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	if cfg.PageMax == 0 {
		cfg.PageMax = 250
	}
	if cfg.TokenLifetime == 0 {
		cfg.TokenLifetime = 100 * time.Hour
	}
	return cfg
}

func (cfg Config) validate() error {
	switch {
	case cfg.PageMax < 1:
		return errors.New("page size below 1")
	case cfg.UDFs > rmm.MaxUDF:
		return errors.New("more than 300 UDFs")
	case cfg.Latency < 0 || cfg.TokenLifetime < 0 || cfg.RetryAfter < 0 || cfg.StaleRate < 0:
		return errors.New("negative time")
	case cfg.Spread < 0 || cfg.Spread > 3:
		return errors.New("spread of the latency outside 0 to 3")
	case cfg.Limits.Read < 0 || cfg.Limits.Write < 0:
		return errors.New("negative limit")
	case cfg.Devices > 5_000_000:
		return errors.New("more than 5,000,000 devices")
	case cfg.Key == "" && cfg.Secret != "":
		return errors.New("a secret without a key")
	}
	for name, limit := range cfg.Limits.Ops {
		if op, ok := rmm.Lookup(name); !ok || op.Throttle == "" {
			return errors.New("limit of " + name + ", which has no bucket of its own")
		}
		if limit < 1 {
			return errors.New("limit of " + name + " below 1")
		}
	}
	return nil
}

// Account is one simulated account: state, rules and log. It is an
// http.Handler and safe for concurrent use.
type Account struct {
	*fleet
	cfg     Config
	router  router
	buckets []string // names of the write operations with a bucket
	start   time.Time

	mu          sync.Mutex // guards everything below, and the fleet
	quota       *Quota
	cache       map[string]any
	logged      []*device // the fleet that the drawn activity log is about
	variables   []variable
	resolutions map[string]resolution
	jobs        map[string]*job
	events      []event
	tokens      map[string]token
	tokenCount  int
	keys        map[string]string // further pairs, made by a reset
	revoked     map[string]bool
	keyResets   int
	writing     map[string]bool // records that a write is at
	faults      []*armed
	log         requestLog
	requests    uint64
}

// New lays out an account. The error names what is impossible in the Config.
func New(cfg Config) (*Account, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, errors.New("simulated account: " + err.Error())
	}
	a := &Account{
		fleet: newFleet(cfg.Seed, cfg.Devices), cfg: cfg, start: time.Now(),
		cache: map[string]any{}, resolutions: map[string]resolution{}, jobs: map[string]*job{}, tokens: map[string]token{},
		keys: map[string]string{}, revoked: map[string]bool{}, writing: map[string]bool{},
	}
	a.log.limit = cfg.LogLimit
	for _, op := range rmm.Operations() {
		a.router.add(op)
		if op.Throttle != "" {
			a.buckets = append(a.buckets, op.Throttle)
		}
	}
	a.quota = NewQuota(cfg.Limits, QuotaRules{Operations: a.buckets, Legacy: cfg.Legacy, FixedWrites: cfg.FixedWriteWindow, NoDelay: cfg.NoDelay, Stale: cfg.StaleRate})
	a.logged = a.devices
	for i, name := range []string{"CompanyName", "SupportMail", "LicenceKey", "DefaultGateway", "BackupTarget", "Größe"} {
		a.variables = append(a.variables, variable{id: int64(1000 + i), name: name, value: variableValues[i%len(variableValues)], masked: name == "LicenceKey"})
	}
	if err := a.AddFaults(cfg.Faults...); err != nil {
		return nil, err
	}
	return a, nil
}

// call is one request on its way through the account.
type call struct {
	now     time.Time
	method  string
	path    string // below /api, as sent
	base    string // scheme and host
	op      rmm.Operation
	params  map[string]string
	query   url.Values
	header  http.Header
	body    []byte
	addr    string
	token   string
	noTotal bool
	next    string // what a fault does to the nextPageUrl
	effects []Action
	faked   bool // a fault made the answer
}

// reply is an answer before it is put on the wire.
type reply struct {
	status int
	header http.Header
	body   []byte
	drop   bool // no answer: the connection breaks
	cut    bool // the connection breaks in the middle of the body
}

func answer(body json.RawMessage) reply { return reply{status: http.StatusOK, body: body} }

// done is the empty answer of most writes.
func done() reply { return reply{status: http.StatusOK} }

// fail is the error body of the newer builds of the service.
func (c *call) fail(status int) reply {
	return reply{status: status, body: object("timestamp", c.now.UnixMilli(), "status", status, "error", http.StatusText(status), "path", c.path)}
}

const blockPage = "<html>\n<head><title>403 Forbidden</title></head>\n<body>\n<h1>Request blocked</h1>\n<p>Your request was blocked. Try again later.</p>\n</body>\n</html>\n"

func htmlReply(status int, page string) reply {
	return reply{status: status, header: http.Header{"Content-Type": {"text/html"}}, body: []byte(page)}
}

// exchange answers one request. base is the scheme and host for absolute
// URLs, addr the address of the client.
//
// The order is that of a request's life: IP block, faults, token, quota,
// waiting, the operation itself. A request whose client gives up while it
// waits is carried out all the same, for the server has it.
func (a *Account) exchange(ctx context.Context, r *http.Request, body []byte, base, addr string) reply {
	c, rec, hooks := a.arrive(r, body, base, addr)
	for _, hook := range hooks {
		hook(a, r)
	}
	early, hold, record := a.admit(c, rec)
	sleep(ctx, hold)
	return a.finish(c, rec, early, record)
}

// sleep waits, but not longer than somebody is interested.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// arrive notes a request and finds the faults that it meets.
func (a *Account) arrive(r *http.Request, body []byte, base, addr string) (c *call, rec *Record, hooks []func(*Account, *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c = &call{now: time.Now(), method: r.Method, base: base, query: r.URL.Query(), header: r.Header, body: body, addr: addr}
	path := r.URL.EscapedPath()
	if path == tokenPath {
		c.op = rmm.Operation{Name: opToken, Method: http.MethodPost, Path: tokenPath}
	} else if below, ok := strings.CutPrefix(path, "/api"); ok {
		c.path = below
		c.op, c.params = a.router.find(r.Method, below)
	}
	a.requests++
	rec = a.log.add(c, r)
	for _, f := range a.firing(c, path) {
		rec.Fault = f.Name
		c.effects = append(c.effects, f.Do)
		if f.Do.Next != "" {
			c.next = f.Do.Next
		}
		if f.Do.InvalidateToken {
			clear(a.tokens)
		}
		if f.Do.Func != nil {
			hooks = append(hooks, f.Do.Func)
		}
	}
	return c, rec, hooks
}

// admit decides whether a request gets as far as its operation. early is the
// answer if it does not. hold is how long it waits, and record, if not "",
// the record that the write has locked meanwhile.
func (a *Account) admit(c *call, rec *Record) (early *reply, hold time.Duration, record string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hold = a.latency()
	refuse := func(r reply) (*reply, time.Duration, string) { return &r, hold, "" }
	blocked := a.quota.IsBlocked(c.now, c.addr)
	for _, do := range c.effects {
		hold += do.Delay
		if do.Block > 0 {
			a.quota.Block(c.addr, c.now.Add(do.Block))
			blocked = true
		}
	}
	if blocked {
		rec.Blocked = true
		return refuse(htmlReply(http.StatusForbidden, blockPage))
	}
	for _, do := range c.effects {
		if do.Drop == dropBefore {
			return refuse(reply{drop: true})
		}
	}
	if c.op.Name == opToken {
		if r, ok := replaced(c); ok {
			return refuse(r)
		}
		return nil, hold, ""
	}
	c.token, _ = strings.CutPrefix(c.header.Get("Authorization"), "Bearer ")
	known := a.tokenGood(c.token, c.now)
	if !known && !c.op.Public {
		return refuse(c.fail(http.StatusUnauthorized))
	}
	if known { // else the account is not known, and its quota not touched
		bucket := ""
		if c.method != http.MethodGet {
			bucket = bucketWrite
			if c.op.Throttle != "" {
				bucket = c.op.Throttle
			}
		}
		d := a.quota.Take(c.now, c.addr, bucket)
		hold += d.Delay
		rec.Delayed = d.Delay > 0
		if d.Verdict == Rejected {
			r := c.fail(http.StatusTooManyRequests)
			if a.cfg.RetryAfter > 0 {
				r.header = http.Header{"Retry-After": {seconds(a.cfg.RetryAfter)}}
			}
			return refuse(r)
		}
	}
	if r, ok := replaced(c); ok {
		return refuse(r)
	}
	if c.op.Name == "" {
		if a.router.knows(c.path) {
			return refuse(c.fail(http.StatusMethodNotAllowed))
		}
		return refuse(c.fail(http.StatusNotFound))
	}
	if c.op.IsWrite() && len(c.params) > 0 && hold > 0 && !a.cfg.NoConflicts {
		record = c.lockKey()
		if a.writing[record] {
			return refuse(c.fail(http.StatusConflict))
		}
		a.writing[record] = true
	}
	return nil, hold, record
}

// lockKey names the record that a write changes: kind and uid or id.
func (c *call) lockKey() string {
	parts := strings.SplitN(c.path, "/", 5) // "", v2, kind, uid, rest
	if parts[2] == "account" {
		return parts[2] + "/" + c.params["variableId"]
	}
	return parts[2] + "/" + parts[3]
}

// finish carries the operation out, unless there is an early answer, and
// writes the outcome down.
func (a *Account) finish(c *call, rec *Record, early *reply, record string) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	if record != "" {
		delete(a.writing, record)
	}
	var r reply
	switch {
	case early != nil:
		r = *early
	case c.op.Name == opToken:
		r = a.issueToken(c)
	default:
		r = handlers[c.op.Name](a, c)
		rec.Applied = c.op.IsWrite() && r.status < 300
		if rec.Applied {
			clear(a.cache)
		}
	}
	if early == nil || c.faked {
		r = a.after(c, r)
	}
	rec.Status, rec.AnswerSize, rec.Done = r.status, len(r.body), time.Now()
	if r.drop {
		rec.Status = 0
	}
	a.log.count(rec)
	return r
}

// latency is the time that the next answer takes.
func (a *Account) latency() time.Duration {
	if a.cfg.Spread == 0 {
		return a.cfg.Latency
	}
	d := newDraw(a.cfg.Seed, kindLatency, a.requests)
	normal := math.Sqrt(-2*math.Log(1-d.unit())) * math.Cos(2*math.Pi*d.unit())
	return time.Duration(float64(a.cfg.Latency) * math.Exp(a.cfg.Spread*normal))
}
