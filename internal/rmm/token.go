package rmm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Client credentials of the token endpoint; public and the same for everybody.
const (
	publicClient   = "public-client"
	publicPassword = "public"
)

const (
	// maxLifetime bounds expires_in: the documented lifetime of a token.
	maxLifetime = 100 * time.Hour
	// defaultLifetime is assumed when the server does not say.
	defaultLifetime = time.Hour
	// renewAhead is how long before its expiry a token is replaced; of a short
	// lifetime a quarter.
	renewAhead = 5 * time.Minute
	// renewAgain is the pause after a renewal that failed while the token at
	// hand still lives.
	renewAgain = 30 * time.Second
)

// token is one access token. Its times are wall-clock times: the monotonic
// clock stands still while a laptop sleeps, the server's does not.
type token struct {
	value     string
	expiresAt time.Time
	renewAt   time.Time   // guarded by tokenSource.mu
	proven    atomic.Bool // the API has accepted it at least once
}

// tokenSource holds the one current token and sees to it that at most one login
// is under way, whoever waits for it.
type tokenSource struct {
	login   func(context.Context) (*token, error)
	timeout time.Duration
	now     func() time.Time

	mu      sync.Mutex
	current *token
	flight  *flight // the login under way, if any
}

// flight is one login and those who wait for it.
type flight struct {
	cancel  context.CancelFunc
	waiters int           // guarded by tokenSource.mu
	done    chan struct{} // closed when token and err are set
	token   *token
	err     error
}

// get returns a token that is good for a while, logging in if need be. A caller
// whose context ends leaves the others' login alone; the last one to leave ends
// it. Errors are *Error or the context's.
func (s *tokenSource) get(ctx context.Context) (*token, error) {
	s.mu.Lock()
	if t := s.current; t != nil && s.wall().Before(t.renewAt) {
		s.mu.Unlock()
		return t, nil
	}
	f := s.flight
	if f == nil {
		loginCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		f = &flight{cancel: cancel, done: make(chan struct{})}
		s.flight = f
		go s.fly(loginCtx, f)
	}
	f.waiters++
	s.mu.Unlock()

	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 && s.flight == f {
		s.flight = nil
		f.cancel()
	}
	return nil, ctx.Err()
}

// fly does the login of a flight and publishes its result.
func (s *tokenSource) fly(ctx context.Context, f *flight) {
	defer f.cancel()
	f.token, f.err = s.login(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.done)
	if s.flight != f {
		return // everybody left; a later login may have been faster
	}
	s.flight = nil
	if f.err == nil {
		s.current = f.token
		return
	}
	// Renewal comes early enough to get over a bad moment of the endpoint.
	var e *Error
	if old := s.current; old != nil && asError(f.err, &e) && e.Kind == KindToken && s.wall().Before(old.expiresAt) {
		old.renewAt = s.wall().Add(renewAgain)
		f.token, f.err = old, nil
	}
}

// drop forgets a token that the API has refused, unless it has been replaced.
func (s *tokenSource) drop(t *token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == t {
		s.current = nil
	}
}

// value returns the text of the current token, or "".
func (s *tokenSource) value() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return ""
	}
	return s.current.value
}

// wall is the wall clock, without the monotonic reading.
func (s *tokenSource) wall() time.Time { return s.now().Round(0) }

// newToken computes when a token granted now is to be renewed.
func (s *tokenSource) newToken(value string, lifetime time.Duration) *token {
	now := s.wall()
	ahead := min(renewAhead, lifetime/4)
	return &token{value: value, expiresAt: now.Add(lifetime), renewAt: now.Add(lifetime - ahead)}
}

// login asks the token endpoint for a token. It uses the same HTTP client as
// everything else, so that proxy and certificates are the same.
func (c *Client) login(ctx context.Context) (*token, error) {
	form := url.Values{"grant_type": {"password"}, "username": {c.key}, "password": {c.secret}}
	u := *c.base
	u.Path = tokenPath
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, &Error{Op: "login", Kind: KindToken, Message: "request cannot be made", Err: err}
	}
	hreq.SetBasicAuth(publicClient, publicPassword)
	hreq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r, err := c.roundTrip(hreq)
	if err != nil {
		// Not the context's end: a flight is cancelled only when nobody is left
		// to hear why, and its deadline is that of a request.
		e := c.transportError("login", nil, err)
		e.Kind = KindToken
		return nil, e
	}
	if r.status < 200 || r.status > 299 {
		return nil, c.loginRefused(r)
	}
	return c.readToken(r)
}

func (c *Client) loginRefused(r reply) *Error {
	e := c.statusError("login", r, c.redactor(nil))
	e.Sent = false
	e.Kind = KindToken
	passing := r.status < 400 || r.status > 499 || r.status == http.StatusRequestTimeout ||
		r.status == http.StatusTooManyRequests || r.status == http.StatusProxyAuthRequired
	if !passing && (e.JSON || !isHTML(r.header, r.body)) {
		e.Kind = KindAuth
		e.Message = fmt.Sprintf("%s; does the key belong to %s, and not to another platform? "+
			"are key and secret whole, without a line end or a blank inside?", oneLine(e.Message, 250), c.base.Host)
	}
	return e
}

func (c *Client) readToken(r reply) (*token, error) {
	broken := &Error{Op: "login", Kind: KindToken, Status: r.status, JSON: isObject(r.body), Err: r.bodyErr}
	if r.bodyErr != nil {
		broken.Message = "answer was cut off"
		return nil, broken
	}
	var grant struct {
		AccessToken string          `json:"access_token"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
	}
	if !broken.JSON || json.Unmarshal(r.body, &grant) != nil {
		broken.Message = "the answer is not a token"
		if isHTML(r.header, r.body) {
			broken.Message += " but a " + pageTitle(r.body)
		}
		broken.Message = c.redactor(nil).clean(broken.Message)
		return nil, broken
	}
	// Only visible ASCII can be sent in a header.
	if grant.AccessToken == "" || strings.ContainsFunc(grant.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		broken.Message = "the answer holds no usable token"
		return nil, broken
	}
	return c.tokens.newToken(grant.AccessToken, lifetime(grant.ExpiresIn)), nil
}

// lifetime reads expires_in, in seconds. What makes no sense is replaced.
func lifetime(raw json.RawMessage) time.Duration {
	seconds, ok, err := wholeNumber(raw)
	if err != nil || !ok || seconds <= 0 {
		return defaultLifetime
	}
	return time.Duration(min(seconds, int64(maxLifetime/time.Second))) * time.Second
}
