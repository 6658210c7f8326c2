package rmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// revoking is an account whose every new token kills the one before, and which
// kills the first by itself after a number of requests.
type revoking struct {
	mu       sync.Mutex
	logins   int
	requests int
	valid    string
	kill     int
}

func (a *revoking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Path == tokenPath {
		a.logins++
		a.valid = fmt.Sprintf("token-%d", a.logins)
		say(w, fmt.Sprintf(`{"access_token":%q,"expires_in":360000}`, a.valid))
		return
	}
	a.requests++
	if a.requests == a.kill {
		a.valid = ""
	}
	if r.Header.Get("Authorization") != "Bearer "+a.valid {
		w.WriteHeader(http.StatusUnauthorized)
		say(w, `{"status":401,"error":"Unauthorized"}`)
		return
	}
	say(w, emptyDevices)
}

func TestCase_N12_EightWorkersOneRefresh(t *testing.T) {
	a := &revoking{kill: 50}
	c := newClient(t, inProcess{a})
	var work atomic.Int64
	var refused, failed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for work.Add(1) <= 200 {
				for {
					_, err := c.Do(t.Context(), devicesRead)
					var e *Error
					if errors.As(err, &e) && e.Kind == KindStatus && e.Status == 401 {
						refused.Add(1)
						continue
					}
					if err != nil {
						failed.Add(1)
						t.Error(err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	if a.logins != 2 || failed.Load() != 0 {
		t.Errorf("%d logins instead of 2, %d failures", a.logins, failed.Load())
	}
	if n := refused.Load(); n < 1 || n > 8 {
		t.Errorf("%d requests were refused; with 8 workers 1 to 8 are possible", n)
	}
}

func TestFreshTokenRefusedIsAuth(t *testing.T) {
	c := answering(t, 401, "", `{"error":"Unauthorized"}`)
	_, err := c.Do(t.Context(), udfWrite)
	e := asRMM(t, err)
	if e.Kind != KindAuth || e.Status != 401 || !e.Sent || !strings.Contains(e.Message, "the login worked") {
		t.Errorf("%+v", e)
	}
}

// An error of the API proves that it took the token; a block page does not.
func TestWhatProvesAToken(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   Kind // of the 401 that follows
	}{
		{200, emptyDevices, KindStatus},
		{404, `{"error":"Not Found"}`, KindStatus},
		{404, `nothing here`, KindAuth},
		{403, `<html>blocked`, KindAuth},
		{200, `<html>log in`, KindAuth},
		{429, `{}`, KindAuth},
	} {
		first := true
		c := newClient(t, inProcess{&account{api: func(w http.ResponseWriter, _ *http.Request) {
			if first {
				first = false
				w.WriteHeader(tt.status)
				say(w, tt.body)
				return
			}
			w.WriteHeader(401)
		}}})
		_, _ = c.Do(t.Context(), devicesRead) // only its traces matter
		_, err := c.Do(t.Context(), devicesRead)
		if e := asRMM(t, err); e.Kind != tt.want {
			t.Errorf("after %d %s: %+v", tt.status, tt.body, e)
		}
	}
}

func TestLoginAnswers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   Kind
		text   string
	}{
		{"bad credentials", 401, `{"error":"invalid_grant","error_description":"Bad credentials"}`, KindAuth, "401 Unauthorized: Bad credentials; does the key belong to " + testHost},
		{"bad request", 400, `{"error":"invalid_grant"}`, KindAuth, "400 Bad Request: invalid_grant; does the key"},
		{"forbidden", 403, ``, KindAuth, "403 Forbidden; does the key"},
		{"block page", 403, `<!DOCTYPE html><title>Request blocked</title>`, KindToken, "403 Forbidden: web page “Request blocked”"},
		{"too many", 429, `{}`, KindToken, "429 Too Many Requests"},
		{"broken", 503, `oops`, KindToken, "503 Service Unavailable: oops"},
		{"no token", 200, `{}`, KindToken, "no usable token"},
		{"null token", 200, `{"access_token":null}`, KindToken, "no usable token"},
		{"header injection", 200, `{"access_token":"a\r\nX-Evil: 1"}`, KindToken, "no usable token"},
		{"token of another type", 200, `{"access_token":5}`, KindToken, "not a token"},
		{"array", 200, `[]`, KindToken, "not a token"},
		{"empty", 200, ``, KindToken, "not a token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, inProcess{&account{login: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
				say(w, tt.body)
			}}})
			_, err := c.Do(t.Context(), jobWrite)
			e := asRMM(t, err)
			if e.Kind != tt.want || e.Status != tt.status || e.Sent || !strings.Contains(e.Message, tt.text) || len(e.Message) > 500 {
				t.Errorf("%+v", e)
			}
			if tt.status >= 400 && (!e.HasRetryAfter || e.RetryAfter != 7*time.Second) {
				t.Errorf("Retry-After is lost: %+v", e)
			}
			if err := c.Login(t.Context()); asRMM(t, err).Kind != tt.want {
				t.Errorf("Login: %v", err)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	for in, want := range map[string]time.Duration{
		`360000`: 100 * time.Hour, `5`: 5 * time.Second, `"3600"`: time.Hour, `7200.0`: 2 * time.Hour,
		``: time.Hour, `null`: time.Hour, `0`: time.Hour, `-5`: time.Hour, `"soon"`: time.Hour, `1.5`: time.Hour,
		`9223372036854775807`: 100 * time.Hour, `9223372037`: 100 * time.Hour, `1e300`: time.Hour,
	} {
		if got := lifetime(json.RawMessage(in)); got != want {
			t.Errorf("lifetime(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestTokenIsRenewedAhead(t *testing.T) {
	for _, tt := range []struct {
		lifetime int           // seconds
		good     time.Duration // token still used
		renewed  time.Duration // replaced by now
	}{
		{360000, 100*time.Hour - 5*time.Minute - time.Second, 100*time.Hour - 5*time.Minute},
		{60, 44 * time.Second, 45 * time.Second},
		{5, 3700 * time.Millisecond, 3750 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &account{api: func(w http.ResponseWriter, _ *http.Request) { say(w, emptyDevices) }}
			a.login = func(w http.ResponseWriter, _ *http.Request) {
				say(w, fmt.Sprintf(`{"access_token":"t%d","expires_in":%d}`, a.logins.Load(), tt.lifetime))
			}
			c := newClient(t, inProcess{a})
			do := func(want int64) {
				if _, err := c.Do(t.Context(), devicesRead); err != nil || a.logins.Load() != want {
					t.Errorf("lifetime %d s: %d logins instead of %d, %v", tt.lifetime, a.logins.Load(), want, err)
				}
			}
			do(1)
			time.Sleep(tt.good)
			do(1)
			time.Sleep(tt.renewed - tt.good)
			do(2)
		})
	}
}

func TestCase_R15_ExpiryByWallClock(t *testing.T) {
	a := &account{api: func(w http.ResponseWriter, _ *http.Request) { say(w, emptyDevices) }}
	a.login = func(w http.ResponseWriter, _ *http.Request) {
		say(w, `{"access_token":"t","expires_in":3600}`)
	}
	c := newClient(t, inProcess{a})
	var slept time.Duration
	c.tokens.now = func() time.Time {
		// The machine slept: the wall clock is ahead, the monotonic is not.
		if slept > 0 {
			return time.Now().Round(0).Add(slept)
		}
		return time.Now()
	}
	if _, err := c.Do(t.Context(), devicesRead); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{c.tokens.current.renewAt, c.tokens.current.expiresAt} {
		if strings.Contains(at.String(), "m=") {
			t.Errorf("%s has a monotonic reading", at)
		}
	}
	slept = 9 * time.Hour
	if _, err := c.Do(t.Context(), devicesRead); err != nil || a.logins.Load() != 2 {
		t.Errorf("%d logins, %v", a.logins.Load(), err)
	}
}

// slowLogin answers logins after ten seconds, unless their context ends.
type slowLogin struct {
	account
	cancelled atomic.Int64
}

func (s *slowLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		select {
		case <-time.After(10 * time.Second):
		case <-r.Context().Done():
			s.cancelled.Add(1)
			return nil, r.Context().Err()
		}
	}
	return inProcess{&s.account}.RoundTrip(r)
}

func newSlowLogin() *slowLogin {
	s := &slowLogin{}
	s.api = func(w http.ResponseWriter, _ *http.Request) { say(w, emptyDevices) }
	return s
}

func TestCancelledWaiterLeavesTheLoginAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowLogin()
		c := newClient(t, s)
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Do(first, jobWrite)
			if e := asRMM(t, err); e.Sent || e.Kind != KindTransport || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the one who left: %+v", e)
			}
		})
		synctest.Wait() // the login under way is that of the first
		for range 7 {
			wg.Go(func() {
				if _, err := c.Do(t.Context(), devicesRead); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.logins.Load() != 1 || s.cancelled.Load() != 0 {
			t.Errorf("%d logins, %d cancelled", s.logins.Load(), s.cancelled.Load())
		}
	})
}

func TestLastWaiterEndsTheLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowLogin()
		c := newClient(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Login(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if s.cancelled.Load() != 1 {
			t.Error("a login nobody waits for goes on")
		}
		if err := c.Login(t.Context()); err != nil || s.logins.Load() != 1 {
			t.Errorf("the next login: %d, %v", s.logins.Load(), err)
		}
	})
}

// A renewal that meets a bad moment of the token endpoint is put off while the
// old token lives, and no longer.
func TestFailedRenewalKeepsTheOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{api: func(w http.ResponseWriter, r *http.Request) { say(w, emptyDevices) }}
		a.login = func(w http.ResponseWriter, _ *http.Request) {
			if a.logins.Load() > 1 {
				w.WriteHeader(503)
				return
			}
			say(w, `{"access_token":"t","expires_in":3600}`)
		}
		c := newClient(t, inProcess{a})
		for _, step := range []struct {
			wait   time.Duration
			logins int64
			ok     bool
		}{{0, 1, true}, {55 * time.Minute, 2, true}, {29 * time.Second, 2, true}, {time.Second, 3, true}, {5 * time.Minute, 4, false}} {
			time.Sleep(step.wait)
			_, err := c.Do(t.Context(), devicesRead)
			if (err == nil) != step.ok || a.logins.Load() != step.logins {
				t.Errorf("after %s more: %d logins, %v", step.wait, a.logins.Load(), err)
			}
		}
	})
}
