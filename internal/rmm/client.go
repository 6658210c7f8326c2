package rmm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// DefaultTimeout bounds one request when [Config] does not.
	DefaultTimeout = 60 * time.Second
	// MaxBody is the largest answer that is accepted, in bytes.
	MaxBody = 64 << 20
	// maxErrorBody is how much of the body of an error is read.
	maxErrorBody = 1 << 20
	// maxRedirects within the account's own origin.
	maxRedirects = 3
)

// Config is what a [Client] needs. BaseURL, Key and Secret are required.
type Config struct {
	// BaseURL is the origin of the account's API, from [ParseBaseURL]. A path
	// is ignored.
	BaseURL *url.URL
	// Key and Secret are the pair from the account's user page. Blanks and line
	// ends around them are cut off.
	Key, Secret string
	// Transport carries all requests, logins included. Defaults to
	// [Transport](CACert).
	Transport http.RoundTripper
	// CACert names a file with the certificate of a private authority. It is
	// not used when Transport is given.
	CACert string
	// Timeout bounds each request, from connecting to the last byte of the
	// answer. Defaults to [DefaultTimeout].
	Timeout time.Duration
	// UserAgent is sent with each request. Defaults to "rmmjob".
	UserAgent string
}

// String keeps the secret out of logs.
func (c Config) String() string { return fmt.Sprintf("rmm.Config{BaseURL: %v}", c.BaseURL) }

// GoString keeps the secret out of %#v.
func (c Config) GoString() string { return c.String() }

// Client sends requests to one account. It is safe for concurrent use; all its
// users share one token and one pool of connections.
type Client struct {
	base        *url.URL
	key, secret string
	userAgent   string
	timeout     time.Duration
	http        *http.Client
	tokens      tokenSource
}

// New makes a client. Nothing is sent yet.
func New(cfg Config) (*Client, error) {
	if cfg.BaseURL == nil || cfg.BaseURL.Host == "" {
		return nil, errors.New("the API address is missing")
	}
	base, err := canonicalOrigin(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if cfg.Transport == nil && base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, errors.New("the API address uses http, which would send the secret in clear")
	}
	c := &Client{base: base, key: trimBlanks(cfg.Key), secret: trimBlanks(cfg.Secret), userAgent: cfg.UserAgent, timeout: cfg.Timeout}
	if c.key == "" || c.secret == "" {
		return nil, errors.New("the API key or the API secret is empty")
	}
	if c.userAgent == "" {
		c.userAgent = "rmmjob"
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.timeout < 0 {
		return nil, errors.New("the timeout is negative")
	}
	transport := cfg.Transport
	if transport == nil {
		if transport, err = Transport(cfg.CACert); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: c.checkRedirect}
	c.tokens = tokenSource{login: c.login, timeout: c.timeout, now: time.Now}
	return c, nil
}

// checkRedirect lets reads follow the account's own host about. Everything else
// stays where it is and is judged as an answer: a write must not turn into
// something else on its way, and the token must not go abroad.
func (c *Client) checkRedirect(next *http.Request, via []*http.Request) error {
	if via[0].Method == http.MethodGet && sameOrigin(next.URL, c.base) && len(via) <= maxRedirects {
		return nil
	}
	return http.ErrUseLastResponse
}

// Login fetches a token now, unless a good one is at hand. It is for those who
// want to know early.
func (c *Client) Login(ctx context.Context) error {
	if _, err := c.tokens.get(ctx); err != nil {
		return c.loginError("login", ctx.Err(), err)
	}
	return nil
}

// loginError makes an *Error of what tokenSource.get returns.
func (c *Client) loginError(op string, ended, err error) *Error {
	var e *Error
	if asError(err, &e) {
		return e
	}
	return c.transportError(op, ended, err)
}

func asError(err error, target **Error) bool { return errors.As(err, target) }

// Do sends one API request, after a login if one is due. It returns an answer
// for any 2xx whose body is fit for use: of a read, JSON of the operation's
// shape; of a write, anything. All other outcomes are an [*Error].
//
// A 401 forgets the token it was sent with, so that the next request logs in,
// once for all users of the client; sending the refused request again is up to
// the caller. A 401 on a token that never worked is of [KindAuth].
//
// Requests that cannot be sent at all (unknown operation, missing path
// parameter, broken body) give an error that is no *Error.
func (c *Client) Do(ctx context.Context, req Request) (Response, error) {
	op, err := Resolve(req.Op)
	if err != nil {
		return Response{}, err
	}
	hreq, err := c.newRequest(op, req)
	if err != nil {
		return Response{}, err
	}
	if ctx.Err() != nil {
		return Response{}, c.transportError(op.Name, ctx.Err(), ctx.Err())
	}
	var t *token
	if !op.Public {
		if t, err = c.tokens.get(ctx); err != nil {
			return Response{}, c.loginError(op.Name, ctx.Err(), err)
		}
		hreq.Header.Set("Authorization", "Bearer "+t.value)
	}

	sendCtx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.roundTrip(hreq.WithContext(sendCtx))
	if err != nil {
		e := c.transportError(op.Name, ctx.Err(), err)
		e.Sent = r.sent
		return Response{}, e
	}
	if err := c.judge(ctx, op, req, r, t); err != nil {
		return Response{}, err
	}
	return Response{Status: r.status, Body: r.body, Latency: r.latency}, nil
}

// newRequest builds the HTTP request, without token and context.
func (c *Client) newRequest(op Operation, req Request) (*http.Request, error) {
	path, err := op.expand(req.Path)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if len(req.Body) > 0 {
		if !json.Valid(req.Body) {
			return nil, fmt.Errorf("%s: the body is not JSON", op.Name)
		}
		body = bytes.NewReader(req.Body)
	}
	target := c.base.String() + apiPrefix + path
	if len(req.Query) > 0 {
		target += "?" + req.Query.Encode()
	}
	hreq, err := http.NewRequestWithContext(context.Background(), op.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: build request: %w", op.Name, err)
	}
	if body != nil {
		hreq.Header.Set("Content-Type", "application/json")
	}
	return hreq, nil
}

// reply is an answer as it came over the wire.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	bodyErr error // the body is not whole
	latency time.Duration
	sent    bool // set even when there is no answer
}

var errTooLarge = fmt.Errorf("answer is larger than %d MiB", MaxBody>>20)

// roundTrip sends a request and reads its answer once. An error means that
// there was no answer; a body that breaks off is a reply with bodyErr.
func (c *Client) roundTrip(hreq *http.Request) (reply, error) {
	hreq.Header.Set("Accept", "application/json")
	hreq.Header.Set("User-Agent", c.userAgent)
	if err := hreq.Context().Err(); err != nil {
		return reply{}, err
	}
	// A request that asked for a connection and got none has not left. A
	// transport that reports neither is one without connections.
	var waiting atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { waiting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { waiting.Store(false) },
	}
	start := time.Now()
	res, err := c.http.Do(hreq.WithContext(httptrace.WithClientTrace(hreq.Context(), trace)))
	if err != nil {
		return reply{sent: !waiting.Load() && !unsent(err)}, err
	}
	defer res.Body.Close()
	r := reply{status: res.StatusCode, header: res.Header, sent: true}
	r.body, r.bodyErr = readBody(res)
	r.latency = time.Since(start)
	return r, nil
}

// readBody reads the body of an answer and checks that it is whole. JSON is
// UTF-8 whatever the header says; a byte order mark is dropped, and bytes that
// are not UTF-8 become the replacement character.
func readBody(res *http.Response) ([]byte, error) {
	limit := int64(maxErrorBody)
	success := res.StatusCode >= 200 && res.StatusCode <= 299
	if success {
		limit = MaxBody
		if res.ContentLength > limit {
			return nil, errTooLarge
		}
	}
	var in io.Reader = res.Body
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") && !res.Uncompressed {
		unzipped, err := gzip.NewReader(res.Body)
		if err != nil {
			return nil, err
		}
		in, res.ContentLength = unzipped, -1
	}
	var buf bytes.Buffer
	if res.ContentLength > 0 {
		buf.Grow(int(min(res.ContentLength, limit)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(in, limit+1))
	switch {
	case !success:
		// The start of an error's text is enough.
		return decodeText(buf.Bytes()[:min(n, limit)]), nil
	case err != nil:
		return decodeText(buf.Bytes()), err
	case n > limit:
		return nil, errTooLarge
	case res.ContentLength >= 0 && n != res.ContentLength:
		return decodeText(buf.Bytes()), io.ErrUnexpectedEOF
	}
	return decodeText(buf.Bytes()), nil
}

func decodeText(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if utf8.Valid(body) {
		return body
	}
	return bytes.ToValidUTF8(body, []byte("\ufffd"))
}

// judge decides whether a reply is an answer of the API to this request.
func (c *Client) judge(ctx context.Context, op Operation, req Request, r reply, t *token) error {
	if r.status < 200 || r.status > 299 {
		return c.refused(op, req, r, t)
	}
	if err := c.unfit(ctx, op, req, r); err != nil {
		return err
	}
	if t != nil {
		t.proven.Store(true)
	}
	return nil
}

// unfit describes an answer with a status of success that is of no use, or
// returns nil. Of a write only a web page is refused: that was a proxy or a
// maintenance page talking, not the API. Otherwise the status has told that the
// write is done, and what follows, whole or not, is decoration.
func (c *Client) unfit(ctx context.Context, op Operation, req Request, r reply) error {
	var text string
	var cause error
	switch {
	case op.IsWrite():
		if !startsHTML(r.body) {
			return nil
		}
		text = statusText(r.status) + ", but not from the API: " + pageTitle(r.body)
	case r.bodyErr != nil:
		return c.cutOff(ctx, op, r)
	default:
		if text, cause = c.misread(op, req, r); text == "" {
			return nil
		}
	}
	return &Error{
		Op: op.Name, Kind: KindProtocol, Status: r.status, JSON: isObject(r.body), Sent: true,
		Message: c.redactor(req.Body).clean(text), Err: cause,
	}
}

// refused describes an answer with an error status and deals with the token.
func (c *Client) refused(op Operation, req Request, r reply, t *token) error {
	e := c.statusError(op.Name, r, c.redactor(req.Body))
	if t == nil {
		return e
	}
	switch {
	case r.status == http.StatusUnauthorized:
		c.tokens.drop(t)
		if !t.proven.Load() {
			e.Kind = KindAuth
			e.Message = oneLine(e.Message, 250) + "; the login worked, but the API does not accept its token: is API access enabled for this user?"
		}
	case e.JSON && r.status >= 400 && r.status < 500 && r.status != http.StatusForbidden && r.status != http.StatusTooManyRequests:
		t.proven.Store(true) // the API itself has looked at the request
	}
	return e
}

// cutOff describes a body that is not whole.
func (c *Client) cutOff(ctx context.Context, op Operation, r reply) error {
	var timeout interface{ Timeout() bool }
	late := ctx.Err() != nil || errors.Is(r.bodyErr, context.DeadlineExceeded) || errors.As(r.bodyErr, &timeout) && timeout.Timeout()
	if late {
		e := c.transportError(op.Name, ctx.Err(), r.bodyErr)
		e.Sent = true
		return e
	}
	e := &Error{Op: op.Name, Kind: KindProtocol, Status: r.status, Sent: true, Err: r.bodyErr, Message: "answer was cut off"}
	if errors.Is(r.bodyErr, errTooLarge) {
		e.Message = errTooLarge.Error()
	}
	return e
}

// misread says in what respect the body of a read is not the API's, or "".
func (c *Client) misread(op Operation, req Request, r reply) (string, error) {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return statusText(r.status) + " with an empty answer", nil
	}
	if isHTML(r.header, r.body) && !json.Valid(r.body) {
		return statusText(r.status) + ", but not from the API: " + pageTitle(r.body), nil
	}
	page, err := ParsePage(op, r.body)
	if err != nil {
		return err.Error(), err
	}
	if page.Next == "" {
		return "", nil
	}
	next, _, err := followUp(op, req, page.Next)
	if err != nil {
		return err.Error(), err
	}
	if next.Host != "" && !sameOrigin(next, c.base) {
		return fmt.Sprintf("next page: leads to %s, away from %s; not followed", next.Host, c.base.Host), nil
	}
	return "", nil
}
