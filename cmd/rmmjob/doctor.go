package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
)

// The states of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning" // runs work, but something should be looked at
	checkFault   = "fault"   // runs do not work
	checkSkipped = "skipped" // it could not be looked at, because of an earlier fault
)

// check is one thing that stands between a technician and a run.
type check struct {
	Name  string   `json:"name"`
	State string   `json:"state"`
	Text  string   `json:"text"`
	Next  []string `json:"next"` // what to do, one step each; empty when there is nothing
}

// doctor looks at one thing after another.
type doctor struct {
	*app
	checks []check
	code   exitCode // of the first fault
	wire   wire
	conn   *connection
	rate   *rmm.RateStatus
}

// doctorVerb checks everything that a run needs, and with --measure what the throttle assumes
// of the service.
func doctorVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	measured := f.Bool("measure", false, "also measure what the throttle assumes of the service, with some dozens of requests")
	yes := f.Bool("yes", false, "agree to the requests of --measure")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if *measured && !*yes && !a.sim.on {
		return usagef("--measure sends up to %d requests to the account within a minute", measureMost).
			withHint("none of them changes anything, and none is sent while the account is more than half full").
			withHint("to agree: %s", a.nextCommand("doctor", "--measure", "--yes"))
	}
	d := &doctor{app: a}
	a.wrap = d.wire.through
	d.program()
	d.config()
	d.account(ctx)
	d.network(ctx)
	d.login(ctx)
	d.clock()
	d.limits(ctx)
	d.state(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.result.set("checks", d.checks)
	d.print()
	if *measured {
		if err := d.measure(ctx); err != nil {
			return err
		}
	}
	faults := 0
	for _, c := range d.checks {
		if c.State == checkFault {
			faults++
		}
	}
	if faults > 0 {
		return fail(d.code, "%s: no run will work before that is mended", count(int64(faults), "fault"))
	}
	return nil
}

func (d *doctor) add(name, state, text string, next ...string) {
	d.checks = append(d.checks, check{Name: name, State: state, Text: clean(text), Next: append([]string{}, next...)})
}

func (d *doctor) ok(name, format string, args ...any) {
	d.add(name, checkOK, fmt.Sprintf(format, args...))
}

// fault adds what is wrong, with the hints that its error brings.
func (d *doctor) fault(name string, err error) {
	code, hint := classify(err, d.stop)
	if d.code == exitOK {
		d.code = code
	}
	var next []string
	for line := range strings.SplitSeq(hint, "\n") {
		if line != "" {
			next = append(next, clean(line))
		}
	}
	d.add(name, checkFault, err.Error(), next...)
}

// skip tells that a check needs one that has failed.
func (d *doctor) skip(names ...string) {
	for _, name := range names {
		d.add(name, checkSkipped, "not looked at, because of the fault above")
	}
}

func (d *doctor) print() {
	if d.json {
		return
	}
	t := newTable()
	for _, c := range d.checks {
		t.add(c.Name, c.State, c.Text)
		for _, next := range c.Next {
			t.add("", "", "  "+next)
		}
	}
	t.write(d.stdout)
}

// program tells which file this is.
func (d *doctor) program() {
	v := buildVersion()
	exe, err := os.Executable()
	if err != nil {
		exe = "its file is not known: " + err.Error()
	}
	d.ok("program", "rmmjob %s (%s, %s), %s", v.Version, v.Commit, v.Platform, exe)
}

// config tells which config files were read; a faulty one has ended the verb before.
func (d *doctor) config() {
	var read, absent []string
	for _, f := range []configFile{d.settings.user, d.settings.machine} {
		switch {
		case f.path == "":
		case f.exists:
			read = append(read, f.path)
		default:
			absent = append(absent, f.path)
		}
	}
	profile := d.settings.find("throttle.profile")
	text := "no config file (" + strings.Join(absent, ", ") + ")"
	if len(read) > 0 {
		text = "read " + strings.Join(read, ", ")
	}
	if _, err := d.profile(); err != nil {
		d.fault("config", err)
		return
	}
	d.ok("config", "%s; throttle profile %s (%s)", text, profile.text, profile.origin)
}

// account tells which account, address and credentials a run would use.
func (d *doctor) account(ctx context.Context) {
	if !d.sim.on {
		cred, err := d.credentials(ctx)
		if err != nil {
			d.fault("credentials", err)
			d.skip("address")
			return
		}
		name := "an account without a name"
		if cred.name != "" {
			name = "account " + cred.name
		}
		d.ok("credentials", "%s, key and secret from %s", name, cred.from)
		if _, err := rmm.ParseBaseURL(cred.url); err != nil {
			d.fault("address", usagef("%s: %w", cred.urlFrom, err).withHint("correct the address there; the portal shows it where the API key was made"))
			return
		}
	}
	conn, err := d.openAccount(ctx)
	if err != nil {
		d.fault("address", err)
		return
	}
	d.conn = conn
	d.ok("address", "%s", conn.baseURL)
}

// network tells how the address is reached: through a proxy, or by the addresses of its name.
func (d *doctor) network(ctx context.Context) {
	switch {
	case d.conn == nil:
		d.skip("network")
		return
	case d.conn.sim != nil:
		d.ok("network", "none is needed, the account is simulated in this process")
		return
	}
	host := d.conn.baseURL.Hostname()
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: d.conn.baseURL})
	if err != nil {
		d.fault("network", fail(exitUnreachable, "the proxy of the environment: %w", err).withHint("correct HTTPS_PROXY"))
		return
	}
	if proxy != nil {
		d.ok("network", "through the proxy %s", (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		d.fault("network", fail(exitUnreachable, "the name %s cannot be resolved: %w", host, err).
			withHint("check the address and the name server; behind a proxy, set HTTPS_PROXY"))
		return
	}
	d.ok("network", "no proxy; %s is %s", host, strings.Join(addrs, ", "))
}

// login tries key and secret, which also shows whether TLS works.
func (d *doctor) login(ctx context.Context) {
	if d.conn == nil {
		d.skip("login", "TLS")
		return
	}
	began := time.Now()
	if err := d.conn.client.Login(ctx); err != nil {
		d.fault("login", err)
		d.conn = nil
		return
	}
	d.ok("login", "accepted after %v", time.Since(began).Round(time.Millisecond))
	state := d.wire.tls()
	if state == nil || len(state.PeerCertificates) == 0 {
		if d.conn.sim == nil {
			d.add("TLS", checkWarning, "none: key and secret go over the network in the clear", "use an https address")
		}
		return
	}
	cert := state.PeerCertificates[0]
	text := fmt.Sprintf("%s, certificate issued by %q, valid until %s", tls.VersionName(state.Version), cert.Issuer.String(), cert.NotAfter.Format(time.DateOnly))
	if left := cert.NotAfter.Sub(d.now()); left < 7*24*time.Hour {
		d.add("TLS", checkWarning, text, "it ends within a week: whoever issues it should renew it")
		return
	}
	d.ok("TLS", "%s", text)
}

// How far the clock of this machine may be from that of the service. Tokens last some hours
// and nothing is signed by time, so only a clock that is far off does harm.
const (
	clockWarning = 2 * time.Minute
	clockFine    = 5 * time.Second
)

// clock compares the clock with the Date of the answers.
func (d *doctor) clock() {
	off, known := d.wire.offset()
	switch {
	case d.conn == nil && !known:
		d.skip("clock")
	case !known:
		d.ok("clock", "the answers bear no date to compare it with")
	case off.Abs() > clockWarning:
		d.add("clock", checkWarning, fmt.Sprintf("%v away from that of the service", off.Round(time.Second)),
			"set the clock of this machine: dates in files and the times of a schedule follow it")
	case off.Abs() > clockFine:
		d.ok("clock", "%v away from that of the service, which does no harm", off.Round(time.Second))
	default:
		d.ok("clock", "agrees with that of the service")
	}
}

// limits reads the rate limits once.
func (d *doctor) limits(ctx context.Context) {
	if d.conn == nil {
		d.skip("rate limits")
		return
	}
	rate, err := d.conn.client.RequestRate(ctx)
	if err != nil {
		d.fault("rate limits", err)
		return
	}
	d.rate = &rate
	r := readingOf(rate)
	text := fmt.Sprintf("reads %d of %d, writes %d of %d in %v, %d operations with limits of their own",
		r.Count, r.Limit, r.WriteCount, r.WriteLimit, r.Window, len(r.Ops))
	if !r.HasWrite || r.WriteLimit == 0 {
		text = fmt.Sprintf("a legacy account with one limit: %d of %d in %v", r.Count, r.Limit, r.Window)
	}
	if 10*r.Count >= 8*r.Limit || r.HasWrite && r.WriteLimit > 0 && 10*r.WriteCount >= 8*r.WriteLimit {
		d.add("rate limits", checkWarning, text, "other programs use the account at this moment; a run will be slow beside them")
		return
	}
	d.ok("rate limits", "%s", text)
}

// Below so much free space a run may not end, or is not begun at all.
const (
	spaceWarning = 1 << 30
	spaceFault   = 100 << 20
)

// state looks at the state folder and what is in it. It makes the folder, as a run would.
func (d *doctor) state(ctx context.Context) {
	st, err := d.openState(ctx)
	if err != nil {
		d.fault("state folder", err)
		d.skip("checkpoint", "ledger")
		return
	}
	defer func() { _ = st.Close() }()
	d.folder(st.dir)
	if err := st.store.Verify(ctx); err != nil {
		d.fault("checkpoint", err)
	} else {
		d.ok("checkpoint", "%s is sound", st.store.Path())
	}
	path := filepath.Join(st.dir, "sends.db")
	ledger, err := checkpoint.OpenLedger(ctx, path)
	if err == nil {
		_, _, err = ledger.Since(ctx, "", "", 0)
		err = errors.Join(err, ledger.Close())
	}
	if err != nil {
		d.add("ledger", checkWarning, err.Error(), "runs at the same time know less of each other; delete "+path+" while no run is at work")
		return
	}
	d.ok("ledger", "runs at the same time share the limits through %s", path)
}

// folder tries to write in the state folder and asks for the space that is left.
func (d *doctor) folder(dir string) {
	probe, err := os.CreateTemp(dir, ".doctor-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		d.fault("state folder", fail(exitLocalIO, "write in the state folder: %w", err).withHint("name a folder that can be written with --state-dir"))
		return
	}
	text := dir + " can be written"
	free, known := freeSpace(dir)
	if known {
		text += fmt.Sprintf(", %.1f GiB free", float64(free)/(1<<30))
	}
	switch client := checkpoint.CloudFolder(dir); {
	case known && free < spaceFault:
		d.fault("state folder", fail(exitLocalIO, "%s", text).withHint("free some space: a large export needs some hundred MiB"))
	case known && free < spaceWarning:
		d.add("state folder", checkWarning, text, "free some space: a large export needs some hundred MiB")
	case client != "":
		d.add("state folder", checkWarning, text+", but is in a folder of "+client, "use a local folder: that program may lock or copy files in use")
	default:
		d.ok("state folder", "%s", text)
	}
}

// wire notes what answers say beside their content.
type wire struct {
	mu    sync.Mutex
	off   time.Duration
	dated bool
	state *tls.ConnectionState
}

// through puts the wire before a transport.
func (w *wire) through(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		sent := time.Now()
		res, err := next.RoundTrip(req)
		if err == nil {
			w.note(res, sent, time.Now())
		}
		return res, err
	})
}

func (w *wire) note(res *http.Response, sent, got time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if res.TLS != nil {
		w.state = res.TLS
	}
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return
	}
	// The header has whole seconds, and was written somewhere between.
	switch from, to := sent.Round(0).Add(-time.Second), got.Round(0); {
	case date.Before(from):
		w.off = to.Sub(date)
	case date.After(to):
		w.off = from.Add(time.Second).Sub(date)
	default:
		w.off = 0
	}
	w.dated = true
}

func (w *wire) tls() *tls.ConnectionState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// offset returns how far the clock of this machine is ahead of that of the service.
func (w *wire) offset() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off, w.dated
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
