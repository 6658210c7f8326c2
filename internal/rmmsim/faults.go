package rmmsim

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"rmmjob/internal/rmm"
)

// Fault is something that goes wrong: for the requests that Match describes,
// Do happens. Several faults may meet one request; of two answers the first
// counts.
type Fault struct {
	// Name appears in the log. Optional.
	Name  string `yaml:"name"`
	Match Match  `yaml:"match"`
	Do    Action `yaml:"do"`
}

// Match chooses requests. All that is given must hold; the zero value matches
// every request. Counts are of requests that match everything but the counts.
type Match struct {
	// Operation is a name of the catalogue, or "token" for logins; "" and "*"
	// are any.
	Operation string `yaml:"operation"`
	Method    string `yaml:"method"`
	// Path is the path with or without /api; * stands for one segment.
	Path string `yaml:"path"`
	// Query holds parameters that must have these values. A page list
	// without page is page 0.
	Query map[string]string `yaml:"query"`
	// UID is the value of any placeholder of the path.
	UID string `yaml:"uid"`
	// Nth is one request, From and To a range, both included, Every each
	// n-th; counted from 1. 0 is no condition.
	Nth   int `yaml:"nth"`
	From  int `yaml:"from"`
	To    int `yaml:"to"`
	Every int `yaml:"every"`
	// Probability is a chance between 0 and 1, drawn from Seed; 0 is no
	// condition.
	Probability float64 `yaml:"probability"`
	Seed        uint64  `yaml:"seed"`
	// At is the earliest time since the account's start, For how long the
	// fault lasts from then; 0 is for good.
	At  time.Duration `yaml:"at"`
	For time.Duration `yaml:"for"`
}

// Action is what a fault does.
type Action struct {
	// Status, Body, Headers and HTML (the title of a page) make an answer.
	// The operation is not carried out, unless Apply. Status is 200 if only a
	// body is given; an error status without body has the API's error body.
	Status  int               `yaml:"status"`
	Body    string            `yaml:"body"`
	Headers map[string]string `yaml:"headers"`
	HTML    string            `yaml:"html"`
	Apply   bool              `yaml:"apply"`
	// Drop breaks the connection instead of an answer: "before" the
	// operation, which then costs no quota, or "after" it was carried out.
	Drop string `yaml:"drop"`
	// Cut breaks the connection in the middle of the body. Malformed sends
	// half a body as if it were whole.
	Cut       bool `yaml:"cut"`
	Malformed bool `yaml:"malformed"`
	// Delay makes the answer late.
	Delay time.Duration `yaml:"delay"`
	// Next spoils the nextPageUrl: "foreign" host, "loop" to the same page,
	// or "missing".
	Next string `yaml:"next"`
	// InvalidateToken ends all access tokens before the request is looked at.
	InvalidateToken bool `yaml:"invalidate_token"`
	// Block blocks the client's address from now on: 403 with an HTML page.
	Block time.Duration `yaml:"block"`
	// Flood is another client that sends so many requests a second between
	// At and At + For; of the operation FloodOperation, or reads.
	Flood          float64 `yaml:"flood"`
	FloodOperation string  `yaml:"flood_operation"`
	// DeleteDevice takes a device away after the answer: a uid, "first" or
	// "last". AddDevice adds one: "first" or "last" for a drawn device at
	// that place of the lists, or a JSON object.
	DeleteDevice string `yaml:"delete_device"`
	AddDevice    string `yaml:"add_device"`
	// Func runs before the request is looked at, and may call any method of
	// the account. For tests.
	Func func(*Account, *http.Request) `yaml:"-"`
}

const (
	dropBefore = "before"
	dropAfter  = "after"

	nextForeign = "foreign"
	nextLoop    = "loop"
	nextMissing = "missing"
)

func (do Action) answers() bool { return do.Status != 0 || do.Body != "" || do.HTML != "" }

func (do Action) idle() bool {
	return !do.answers() && len(do.Headers) == 0 && do.Drop == "" && !do.Cut && !do.Malformed && do.Delay == 0 && do.Next == "" &&
		!do.InvalidateToken && do.Block == 0 && do.Flood == 0 && do.DeleteDevice == "" && do.AddDevice == "" && do.Func == nil
}

// validate refuses what could never happen, so that a misspelt fault does not
// pass for a test that nothing disturbs.
func (f Fault) validate() error {
	m, do := f.Match, f.Do
	if err := checkOperation(m.Operation, true); err != nil {
		return err
	}
	if err := checkOperation(do.FloodOperation, false); err != nil {
		return err
	}
	_, badPath := path.Match(m.Path, "")
	counted := m.Nth != 0 || m.From != 0 || m.To != 0 || m.Every != 0 || m.Probability != 0
	chosen := m.Operation != "" || m.Method != "" || m.Path != "" || len(m.Query) > 0 || m.UID != "" || counted
	switch {
	case badPath != nil:
		return fmt.Errorf("path %q is not a pattern", m.Path)
	case m.Nth < 0 || m.From < 0 || m.To < 0 || m.Every < 0:
		return errors.New("nth, from, to and every count from 1")
	case m.To != 0 && m.To < m.From:
		return fmt.Errorf("to %d lies before from %d", m.To, m.From)
	case m.Probability < 0 || m.Probability > 1:
		return fmt.Errorf("probability %v is not between 0 and 1", m.Probability)
	case m.At < 0 || m.For < 0 || do.Delay < 0 || do.Block < 0:
		return errors.New("negative time")
	case do.idle():
		return errors.New("nothing to do")
	case do.Status != 0 && (do.Status < 200 || do.Status > 599):
		return fmt.Errorf("status %d is not between 200 and 599", do.Status)
	case do.Body != "" && do.HTML != "":
		return errors.New("body and html exclude each other")
	case !slices.Contains([]string{"", dropBefore, dropAfter}, do.Drop):
		return fmt.Errorf("drop %q is neither before nor after", do.Drop)
	case !slices.Contains([]string{"", nextForeign, nextLoop, nextMissing}, do.Next):
		return fmt.Errorf("next %q is none of foreign, loop, missing", do.Next)
	case do.Flood < 0 || do.Flood > 10000:
		return fmt.Errorf("flood of %v requests a second is not between 0 and 10000", do.Flood)
	case do.Flood > 0 && m.For == 0:
		return errors.New("flood needs match.for")
	case do.Flood > 0 && chosen:
		return errors.New("flood is another client's; match can only say at and for")
	case do.FloodOperation != "" && do.Flood == 0:
		return errors.New("flood_operation without flood")
	}
	if strings.HasPrefix(do.AddDevice, "{") {
		_, err := parseGiven(do.AddDevice)
		return err
	}
	if do.AddDevice != "" && do.AddDevice != "first" && do.AddDevice != "last" {
		return fmt.Errorf("add_device %q is neither first nor last nor a JSON object", do.AddDevice)
	}
	return nil
}

func checkOperation(name string, matcher bool) error {
	if name == "" || matcher && (name == "*" || name == opToken) {
		return nil
	}
	op, ok := rmm.Lookup(name)
	if !ok {
		if near := rmm.Suggest(name); near != "" {
			return fmt.Errorf("unknown operation %q, did you mean %q?", name, near)
		}
		return fmt.Errorf("unknown operation %q", name)
	}
	if !matcher && !op.IsWrite() {
		return fmt.Errorf("flood_operation %q is a read; leave it out", name)
	}
	return nil
}

// armed is a fault at work.
type armed struct {
	Fault
	seen int
	dice draw
}

// AddFaults lets faults happen from now on. Times count from the start of the
// account. On an error none is added.
func (a *Account) AddFaults(faults ...Fault) error {
	for i, f := range faults {
		if err := f.validate(); err != nil {
			return fmt.Errorf("fault %s: %w", cmp.Or(f.Name, fmt.Sprint(i+1)), err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range faults {
		if f.Do.Flood > 0 {
			op := f.Do.FloodOperation
			if op != "" {
				found, _ := rmm.Lookup(op)
				op = cmp.Or(found.Throttle, bucketWrite)
			}
			from := a.start.Add(f.Match.At)
			a.quota.Flood(Flood{From: from, To: from.Add(f.Match.For), Rate: f.Do.Flood, Op: op})
			continue
		}
		a.faults = append(a.faults, &armed{Fault: f, dice: draw(f.Match.Seed)})
	}
	return nil
}

// ClearFaults ends all faults. Blocks that they made and floods stay.
func (a *Account) ClearFaults() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = nil
}

// firing gives the faults that a request meets, and counts it.
func (a *Account) firing(c *call, fullPath string) (list []Fault) {
	since := c.now.Sub(a.start)
	for _, f := range a.faults {
		m := f.Match
		if since < m.At || m.For > 0 && since >= m.At+m.For || !m.chooses(c, fullPath) {
			continue
		}
		f.seen++
		if m.Nth != 0 && f.seen != m.Nth || f.seen < m.From || m.To != 0 && f.seen > m.To || m.Every != 0 && f.seen%m.Every != 0 {
			continue
		}
		if m.Probability > 0 && f.dice.unit() >= m.Probability {
			continue
		}
		list = append(list, f.Fault)
	}
	return list
}

func (m Match) chooses(c *call, fullPath string) bool {
	if m.Operation != "" && m.Operation != "*" && m.Operation != c.op.Name {
		return false
	}
	if m.Method != "" && !strings.EqualFold(m.Method, c.method) {
		return false
	}
	if m.Path != "" {
		short, _ := path.Match(m.Path, c.path)
		full, _ := path.Match(m.Path, fullPath)
		if !short && !full {
			return false
		}
	}
	for name, want := range m.Query {
		got := c.query.Get(name)
		if name == "page" && got == "" && c.op.Paging == rmm.PagingPages {
			got = "0"
		}
		if got != want {
			return false
		}
	}
	if m.UID == "" {
		return true
	}
	for _, v := range c.params {
		if v == m.UID {
			return true
		}
	}
	return false
}

// replaced gives the answer that a fault makes instead of the operation.
func replaced(c *call) (reply, bool) {
	for _, do := range c.effects {
		if do.answers() && !do.Apply {
			c.faked = true
			return do.reply(c), true
		}
	}
	return reply{}, false
}

func (do Action) reply(c *call) reply {
	status := cmp.Or(do.Status, http.StatusOK)
	r := reply{status: status, body: []byte(do.Body)}
	switch {
	case do.HTML != "":
		r = htmlReply(status, "<html>\n<head><title>"+do.HTML+"</title></head>\n<body><h1>"+do.HTML+"</h1></body>\n</html>\n")
	case do.Body == "" && status >= 400:
		r = c.fail(status)
	}
	return r
}

// after does to an answer what faults do once the operation is carried out.
func (a *Account) after(c *call, r reply) reply {
	for _, do := range c.effects {
		if do.answers() && do.Apply && !c.faked {
			c.faked = true
			r = do.reply(c)
		}
		for name, value := range do.Headers {
			if r.header == nil {
				r.header = http.Header{}
			}
			r.header.Set(name, value)
		}
		r.drop = r.drop || do.Drop == dropAfter
		r.cut = r.cut || do.Cut
		if do.Malformed {
			r.body = r.body[:len(r.body)/2]
		}
		a.disturb(do)
	}
	return r
}

// disturb deletes and adds devices between two pages.
func (a *Account) disturb(do Action) {
	list := a.devices
	if do.DeleteDevice != "" {
		dev := a.device(do.DeleteDevice)
		switch {
		case do.DeleteDevice == "first" && len(list) > 0:
			dev = list[0]
		case do.DeleteDevice == "last" && len(list) > 0:
			dev = list[len(list)-1]
		}
		if dev != nil {
			a.remove(dev)
			clear(a.cache)
		}
	}
	switch {
	case do.AddDevice == "":
		return
	case strings.HasPrefix(do.AddDevice, "{"):
		_ = a.addGiven(do.AddDevice) // a second time it is there already
	default:
		dev := a.addDrawn()
		if do.AddDevice == "first" {
			last := len(a.devices) - 1
			a.devices = append([]*device{dev}, a.devices[:last]...)
		}
	}
	clear(a.cache)
}
