package rmmsim

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

// simHost is the host of in-process requests. Like the real hosts it ends its
// first label in -api.
const simHost = "sim-api.localhost"

// BaseURL is the address to give a client that uses Transport.
func (a *Account) BaseURL() string { return "https://" + simHost }

// Transport reaches the account without sockets or goroutines: a request is
// answered by the goroutine that sends it, and waits with timers only, so
// inside a testing/synctest bubble all waiting is virtual. Every host is the
// account, except those under .invalid, which do not exist.
//
// A request whose context ends while it waits returns the context's error;
// the account has it and carries it out, as a real server would.
func (a *Account) Transport() http.RoundTripper { return a.TransportFrom("192.0.2.1") }

// TransportFrom is Transport for a client of another address, which matters
// for IP blocks.
func (a *Account) TransportFrom(addr string) http.RoundTripper { return &transport{a, addr} }

type transport struct {
	account *Account
	addr    string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.URL.Hostname(), ".invalid") {
		return nil, t.account.noHost(r, t.addr)
	}
	rep := t.account.exchange(ctx, r, body, r.URL.Scheme+"://"+r.URL.Host, t.addr)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if rep.drop {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	res := &http.Response{
		Status: strconv.Itoa(rep.status) + " " + http.StatusText(rep.status), StatusCode: rep.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rep.fullHeader(), ContentLength: int64(len(rep.body)), Request: r,
	}
	res.Body = io.NopCloser(bytes.NewReader(rep.body))
	if rep.cut {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(rep.body[:len(rep.body)/2]), brokenReader{}))
	}
	return res, nil
}

// noHost notes a request that went astray, so that a test can find it.
func (a *Account) noHost(r *http.Request, addr string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &call{addr: addr}
	rec := a.log.add(c, r)
	a.log.count(rec)
	return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// fullHeader is the header of a reply with the usual fields filled in.
func (r reply) fullHeader() http.Header {
	h := http.Header{}
	for name, values := range r.header {
		h[name] = values
	}
	if len(r.body) > 0 && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json") // without charset, like the real service
	}
	if r.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	return h
}
