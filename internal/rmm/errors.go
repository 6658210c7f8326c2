package rmm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Kind says what went wrong, as far as the caller's next step depends on it.
type Kind string

// The kinds of errors.
const (
	// KindStatus: the server answered with an error status.
	KindStatus Kind = "status"
	// KindTransport: there was no complete answer: no connection, a timeout, a
	// cancelled context.
	KindTransport Kind = "transport"
	// KindProtocol: there was an answer, but not one of this API: a web page
	// with status 200, a cut body, a list without its array, a redirect, a next
	// page on a foreign host, more than 64 MiB.
	KindProtocol Kind = "protocol"
	// KindAuth: the login was refused, or a fresh token was.
	KindAuth Kind = "auth"
	// KindToken: the token endpoint could not be reached or is out of order.
	KindToken Kind = "token"
)

// Error is what [Client.Do] returns for a request that was not answered as
// wished. Its texts hold no secret, no token and no value of the request's body.
type Error struct {
	Op            string        // operation, or "login"
	Kind          Kind          // what went wrong
	Status        int           // HTTP status, 0 if there was none
	Message       string        // one line of at most 500 characters, with the status
	RetryAfter    time.Duration // the server's wish, 0 or more; at most 30 days
	HasRetryAfter bool          // whether the server stated one
	JSON          bool          // the body was a JSON object, as the API's own errors are
	Sent          bool          // the API request may have reached the server; a login does not count
	Err           error         // cause, if any: net, TLS and context errors
}

// Error returns the operation and the message.
func (e *Error) Error() string { return e.Op + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// BadCertificate tells whether the server's certificate was refused. Sending
// the request again will not help; see the --ca-cert option.
func (e *Error) BadCertificate() bool {
	var bad *tls.CertificateVerificationError
	return errors.As(e.Err, &bad)
}

// proxyError is the answer of a proxy that does not let us through.
type proxyError struct {
	proxy  string // host and port, no credentials
	status int
}

func (e *proxyError) Error() string {
	text := fmt.Sprintf("proxy %s answered %s", e.proxy, statusText(e.status))
	if e.status == http.StatusProxyAuthRequired {
		text += "; check user and password in HTTPS_PROXY"
	}
	return text
}

// transportError describes the failure of a request without an answer; ended
// is why the caller's context ended, if it did. Types decide, never texts:
// these are in the language of the system.
func (c *Client) transportError(op string, ended, err error) *Error {
	e := &Error{Op: op, Kind: KindTransport}
	// *url.Error repeats method and URL; the query is the caller's business.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e.Err = err
	if ended != nil {
		e.Err = ended
		e.Message = "cancelled before the answer was complete"
		if errors.Is(ended, context.DeadlineExceeded) {
			e.Message = "time is up before the answer was complete"
		}
		return e
	}
	red := c.redactor(nil)
	e.Message = red.clean(c.explain(err))
	if clean := red.secrets(err.Error()); clean != err.Error() {
		e.Err = errors.New(clean)
	}
	return e
}

// explain turns a transport failure into a sentence with the next step.
func (c *Client) explain(err error) string {
	host := c.base.Host
	var (
		certificate *tls.CertificateVerificationError
		notTLS      tls.RecordHeaderError
		dns         *net.DNSError
		dial        *net.OpError
		proxy       *proxyError
		netError    net.Error
	)
	switch {
	case errors.As(err, &proxy):
		return proxy.Error()
	case errors.As(err, &certificate):
		return explainCertificate(host, certificate)
	case errors.As(err, &notTLS):
		return host + " does not speak TLS on this port; check the address and the proxy"
	case errors.As(err, &dns):
		if dns.IsTimeout {
			return "no answer from DNS for " + dns.Name
		}
		return fmt.Sprintf("host %s not found; check the address and the network", dns.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no complete answer from %s within %s", host, c.timeout)
	case errors.As(err, &dial) && dial.Op == "proxyconnect":
		return fmt.Sprintf("no connection to the proxy: %v", dial.Err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Sprintf("no connection to %s: %v", host, dial.Err)
	case errors.As(err, &netError) && netError.Timeout():
		return fmt.Sprintf("no answer from %s in time: %v", host, err)
	}
	return fmt.Sprintf("no answer from %s: %v", host, err)
}

func explainCertificate(host string, err *tls.CertificateVerificationError) string {
	issuer := ""
	if len(err.UnverifiedCertificates) > 0 {
		issuer = err.UnverifiedCertificates[0].Issuer.String()
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err.Err, &unknown) {
		return fmt.Sprintf("certificate of %s is signed by an authority unknown here (issuer %s); "+
			"if a company proxy inspects TLS, give its CA file with --ca-cert", host, issuer)
	}
	return fmt.Sprintf("certificate of %s is not valid (issuer %s): %v; a private CA is given with --ca-cert", host, issuer, err.Err)
}

// unsent tells from a transport error alone that the request cannot have left:
// there was no connection to send it on.
func unsent(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		notTLS      tls.RecordHeaderError
		dns         *net.DNSError
		op          *net.OpError
		proxy       *proxyError
	)
	return errors.As(err, &certificate) || errors.As(err, &notTLS) || errors.As(err, &dns) || errors.As(err, &proxy) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// statusError describes an answer with an error status. A redirect is no answer
// of the API.
func (c *Client) statusError(op string, r reply, red redactor) *Error {
	e := &Error{Op: op, Kind: KindStatus, Status: r.status, Sent: true, JSON: isObject(r.body)}
	e.RetryAfter, e.HasRetryAfter = retryAfter(r.header)
	e.Message = statusText(r.status)
	if r.status < 400 {
		e.Kind = KindProtocol
		e.Message += ": redirects are not followed here"
		if u, err := url.Parse(r.header.Get("Location")); err == nil && u.Host != "" {
			e.Message += "; this one leads to " + u.Host
		}
	} else if text := red.clean(serverText(r.header, r.body, http.StatusText(r.status))); text != "" {
		e.Message += ": " + text
	}
	e.Message = oneLine(e.Message, maxMessage)
	return e
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return strconv.Itoa(status)
}

// maxRetryAfter bounds what a server can ask for; it leaves room to add to any
// time without overflow.
const maxRetryAfter = 30 * 24 * time.Hour

// retryAfter reads the header of that name: seconds, or a date, which is
// measured against the server's own clock where it states it.
func retryAfter(h http.Header) (time.Duration, bool) {
	now := time.Now()
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return ParseRetryAfter(h.Get("Retry-After"), now)
}

// ParseRetryAfter reads the value of a Retry-After header, either form. The
// result is between 0 and 30 days: a date in the past means now, more means 30
// days. It is false when the value is neither a number nor a date.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			seconds = math.MaxInt64
		}
		return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// Sub saturates, so that no date overflows.
	return min(max(date.Sub(now), 0), maxRetryAfter), true
}
