package rmmsim

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// tokenPath lies outside /api.
	tokenPath = "/auth/oauth/token"
	// opToken is the name under which login requests appear in the log, the
	// counts and the matchers of faults.
	opToken = "token"

	clientID, clientSecret = "public-client", "public"
)

type token struct {
	key     string
	expires time.Time
}

func (a *Account) tokenGood(t string, now time.Time) bool {
	known, ok := a.tokens[t]
	return ok && now.Before(known.expires)
}

func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

// issueToken answers the password grant of the public client.
func (a *Account) issueToken(c *call) reply {
	refuse := func(status int, code, text string) reply {
		return reply{status: status, body: object("error", code, "error_description", text)}
	}
	if c.method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed", "Request method '"+c.method+"' not supported")
	}
	id, secret, _ := (&http.Request{Header: c.header}).BasicAuth()
	if id != clientID || secret != clientSecret {
		return refuse(http.StatusUnauthorized, "invalid_client", "Bad client credentials")
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil || form.Get("grant_type") != "password" {
		return refuse(http.StatusBadRequest, "unsupported_grant_type", "Unsupported grant type")
	}
	key := form.Get("username")
	if !a.pairGood(key, form.Get("password")) {
		return refuse(http.StatusUnauthorized, "invalid_grant", "Bad credentials")
	}
	if a.cfg.SingleToken {
		clear(a.tokens)
	}
	a.tokenCount++
	d := newDraw(a.seed, kindToken, uint64(a.tokenCount))
	access, refresh, jti := fmt.Sprintf("%016x%016x", d.next(), d.next()), fmt.Sprintf("%016x", d.next()), fmt.Sprintf("%016x", d.next())
	a.tokens[access] = token{key: key, expires: c.now.Add(a.cfg.TokenLifetime)}
	return answer(object("access_token", access, "token_type", "bearer", "refresh_token", refresh,
		"expires_in", int(a.cfg.TokenLifetime/time.Second), "scope", "read write", "jti", jti))
}

func (a *Account) pairGood(key, secret string) bool {
	if key == "" || secret == "" || a.revoked[key] {
		return false
	}
	if want, ok := a.keys[key]; ok {
		return want == secret
	}
	return a.cfg.Key == "" || key == a.cfg.Key && secret == a.cfg.Secret
}
