package rmm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testKey    = "TESTKEY0123456789ABCDEF"
	testSecret = "S3cret+with/odd=chars0987"
	testHost   = "merlot-api.centrastage.net"
)

// say writes a test answer; one that does not arrive shows in the test.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// inProcess is a transport that calls a handler, without sockets.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

// roundTripper is a transport that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// account is a handler with a token endpoint, and one function for the rest.
// Tokens are t1, t2, …
type account struct {
	logins atomic.Int64
	api    http.HandlerFunc
	login  http.HandlerFunc // overrides the token endpoint
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != tokenPath {
		a.api(w, r)
		return
	}
	n := a.logins.Add(1)
	if a.login != nil {
		a.login(w, r)
		return
	}
	say(w, fmt.Sprintf(`{"access_token":"token-number-%d","token_type":"bearer","expires_in":360000}`, n))
}

func newClient(t testing.TB, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: &url.URL{Scheme: "https", Host: testHost}, Key: testKey, Secret: testSecret, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering is a client whose API answers everything in one way.
func answering(t testing.TB, status int, contentType, body string) *Client {
	return newClient(t, inProcess{&account{api: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		say(w, body)
	}}})
}

func asRMM(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is no *Error", err)
	}
	return e
}

var (
	devicesRead = Request{Op: "devices", Query: url.Values{"max": {"2"}}}
	udfWrite    = Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": "d1"}, Body: json.RawMessage(`{"udf9":"RECOVERY-123456"}`)}
	jobWrite    = Request{Op: "device-job-create", Path: map[string]string{"deviceUid": "d1"}, Body: json.RawMessage(`{"jobName":"restart"}`)}
)

const emptyDevices = `{"pageDetails":{"count":0,"totalCount":0,"nextPageUrl":null},"devices":[]}`

func TestDoSendsTheRequest(t *testing.T) {
	var got []string
	c := newClient(t, inProcess{&account{
		login: func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", user, ":", password, " ", r.PostForm.Encode(), " ", r.Header.Get("Authorization") != "", " ", r.Header.Get("Content-Type")))
			say(w, `{"access_token":"abc","expires_in":360000}`)
		},
		api: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Accept"), " ", r.Header.Get("User-Agent"), " ", r.Header.Get("Content-Type"), " ", string(body)))
		},
	}})
	if _, err := c.Do(t.Context(), udfWrite); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), Request{Op: "device-move", Path: map[string]string{"deviceUid": "a/b", "siteUid": "s"}}); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"grant_type": {"password"}, "username": {testKey}, "password": {testSecret}}
	want := []string{
		"POST https://" + testHost + "/auth/oauth/token public-client:public " + form.Encode() + " true application/x-www-form-urlencoded",
		"POST https://" + testHost + `/api/v2/device/d1/udf Bearer abc application/json rmmjob application/json {"udf9":"RECOVERY-123456"}`,
		"PUT https://" + testHost + "/api/v2/device/a%2Fb/site/s Bearer abc application/json rmmjob  ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNothingIsSentForAnImpossibleRequest(t *testing.T) {
	c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was sent", r.Method, r.URL)
		return nil, errors.New("no")
	}))
	for _, req := range []Request{
		{Op: "devcies"},
		{},
		{Op: "device"},
		{Op: "device", Path: map[string]string{"deviceUid": " "}},
		{Op: "device-udf-set", Path: map[string]string{"deviceUid": "d"}, Body: json.RawMessage(`{`)},
		{Op: "GET /v2/../x"},
	} {
		_, err := c.Do(t.Context(), req)
		var e *Error
		if err == nil || errors.As(err, &e) {
			t.Errorf("%+v: error %v", req, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(ctx, udfWrite)
	if e := asRMM(t, err); e.Sent || e.Kind != KindTransport || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %+v", e)
	}
}

func TestNewRefuses(t *testing.T) {
	base := &url.URL{Scheme: "https", Host: testHost}
	for name, cfg := range map[string]Config{
		"no address":   {Key: "k", Secret: "s"},
		"no key":       {BaseURL: base, Key: " \r\n", Secret: "s"},
		"no secret":    {BaseURL: base, Key: "k"},
		"clear text":   {BaseURL: &url.URL{Scheme: "http", Host: testHost}, Key: "k", Secret: "s"},
		"negative":     {BaseURL: base, Key: "k", Secret: "s", Timeout: -1},
		"no such file": {BaseURL: base, Key: "k", Secret: "s", CACert: "testdata/none.pem"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	cfg := Config{BaseURL: base, Key: testKey, Secret: testSecret}
	for _, s := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg)} {
		if strings.Contains(s, testSecret) || strings.Contains(s, testKey) {
			t.Errorf("the secret is in %s", s)
		}
	}
}

func TestKeyAndSecretAreTrimmed(t *testing.T) {
	a := &account{
		login: func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("username") != testKey || r.FormValue("password") != testSecret {
				t.Errorf("login as %q %q", r.FormValue("username"), r.FormValue("password"))
			}
			say(w, `{"access_token":"abc"}`)
		},
	}
	c, err := New(Config{BaseURL: &url.URL{Scheme: "https", Host: testHost}, Key: "\ufeff" + testKey + "\u00a0", Secret: "\t" + testSecret + "\r\n", Transport: inProcess{a}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Login(t.Context()); err != nil || a.logins.Load() != 1 {
		t.Errorf("%d logins, %v", a.logins.Load(), err)
	}
}

// Every answer to a read is either JSON of the right shape or an error.
func TestReadAnswers(t *testing.T) {
	tests := []struct {
		name        string
		status      int
		contentType string
		body        string
		kind        Kind // "" is success
		json        bool
		text        string
	}{
		{name: "page", status: 200, contentType: "application/json", body: emptyDevices},
		{name: "page of another charset", status: 200, contentType: "text/plain; charset=iso-8859-1", body: emptyDevices},
		{name: "byte order mark", status: 200, body: "\ufeff" + emptyDevices},
		{name: "HTML type but JSON", status: 200, contentType: "text/html", body: emptyDevices},
		{name: "empty", status: 200, kind: KindProtocol, text: "200 OK with an empty answer"},
		{name: "no content", status: 204, kind: KindProtocol, text: "204 No Content with an empty answer"},
		{name: "text", status: 200, contentType: "text/plain", body: "OK", kind: KindProtocol, text: "answer is not JSON"},
		{name: "wrong array", status: 200, body: `{"pageDetails":{},"items":[]}`, kind: KindProtocol, json: true, text: "expected devices array missing"},
		{name: "not found", status: 404, contentType: "application/json", body: `{"timestamp":1,"status":404,"error":"Not Found","path":"/v2/x"}`, kind: KindStatus, json: true, text: "404 Not Found"},
		{name: "block", status: 403, contentType: "text/html", body: "<html><head><TITLE>\n403 &amp; Forbidden</TITLE>", kind: KindStatus, text: "403 Forbidden: web page “403 & Forbidden”"},
		{name: "gateway", status: 502, body: "bad\r\n\x1b[31mgateway\u202e", kind: KindStatus, text: "502 Bad Gateway: bad [31mgateway"},
		{name: "empty 500", status: 500, kind: KindStatus, text: "500 Internal Server Error"},
		{name: "unknown status", status: 599, kind: KindStatus, text: "599"},
		{name: "message", status: 400, body: `{"error":"Bad Request","message":"filterId is wrong"}`, kind: KindStatus, json: true, text: "400 Bad Request: filterId is wrong"},
		{name: "nested message", status: 400, body: `{"error":{"message":"deep"}}`, kind: KindStatus, json: true, text: "400 Bad Request: deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := answering(t, tt.status, tt.contentType, tt.body).Do(t.Context(), devicesRead)
			if tt.kind == "" {
				if err != nil || string(res.Body) != emptyDevices || res.Status != tt.status {
					t.Errorf("got %+v, %v", res, err)
				}
				return
			}
			e := asRMM(t, err)
			if e.Kind != tt.kind || e.Status != tt.status || e.JSON != tt.json || !e.Sent || e.Message != tt.text || err.Error() != "devices: "+tt.text {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestCase_D13_WritesNeedNoBody(t *testing.T) {
	for _, tt := range []struct {
		status            int
		contentType, body string
	}{{200, "", ""}, {204, "", ""}, {200, "text/plain", "OK"}, {201, "application/json", `{"broken`}} {
		res, err := answering(t, tt.status, tt.contentType, tt.body).Do(t.Context(), udfWrite)
		if err != nil || res.Status != tt.status || string(res.Body) != tt.body {
			t.Errorf("%d %q: %+v, %v", tt.status, tt.body, res, err)
		}
	}
}

// A maintenance page that answers a write has not written anything.
func TestCase_N07_HTMLWith200(t *testing.T) {
	for _, req := range []Request{devicesRead, udfWrite, jobWrite} {
		_, err := answering(t, 200, "text/html", " <html><head><title>Maintenance</title></head>").Do(t.Context(), req)
		e := asRMM(t, err)
		if e.Kind != KindProtocol || !e.Sent || e.JSON || e.Message != "200 OK, but not from the API: web page “Maintenance”" {
			t.Errorf("%s: %+v", req.Op, e)
		}
	}
	_, err := answering(t, 200, "text/html", "<html><style>p{}</style><body><p>Please <b>log in</b></p>").Do(t.Context(), devicesRead)
	if e := asRMM(t, err); !strings.HasSuffix(e.Message, "web page: Please log in") {
		t.Errorf("without a title: %s", e.Message)
	}
}

func TestCase_N07_HTMLAtTheTokenEndpoint(t *testing.T) {
	for _, status := range []int{200, 403, 503} {
		c := newClient(t, inProcess{&account{login: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			say(w, "<html><title>Maintenance</title>")
		}}})
		_, err := c.Do(t.Context(), udfWrite)
		e := asRMM(t, err)
		if e.Kind != KindToken || e.Status != status || e.Sent || !strings.Contains(e.Message, "Maintenance") || e.Op != "login" {
			t.Errorf("%d: %+v", status, e)
		}
	}
}

func TestCase_D14_ServerMessageIsKept(t *testing.T) {
	_, err := answering(t, 400, "application/json", `{"errorMessage":"udf7 too long"}`).Do(t.Context(), udfWrite)
	if e := asRMM(t, err); e.Message != "400 Bad Request: udf7 too long" || !e.JSON {
		t.Errorf("%+v", e)
	}
	for _, page := range []string{strings.Repeat("<p>x\ny", 1<<20), strings.Repeat("ä ", 3<<20)} {
		_, err = answering(t, 400, "text/html", page).Do(t.Context(), udfWrite)
		e := asRMM(t, err)
		if n := len([]rune(e.Message)); n > 500 || strings.ContainsAny(e.Message, "\r\n") || !strings.HasPrefix(e.Message, "400 Bad Request: ") {
			t.Errorf("%d characters: %q", n, e.Message)
		}
	}
	_, err = answering(t, 400, "text/plain", strings.Repeat("ä ", 3<<20)).Do(t.Context(), udfWrite)
	if n := len([]rune(asRMM(t, err).Message)); n > 500 || n < 490 {
		t.Errorf("a long text became %d characters", n)
	}
}

func TestCase_D20_ValuesAndSecretsAreNotInErrors(t *testing.T) {
	const token = "token-number-1"
	long := strings.Repeat("Password with blanks & <signs> ", 8)
	body, _ := json.Marshal(map[string]any{"udf9": "RECOVERY-123456", "udf10": long, "udf11": "two\nlines", "nested": []any{map[string]string{"value": "deep-value"}}})
	for _, text := range []string{
		"udf9: RECOVERY-123456 is not allowed",
		"cannot read " + long,
		"cannot read " + long[:40],
		"got two\nlines here, and deep-value",
		`cannot parse {"value":"deep-value","x":"two\nlines"}`,
		"client " + testKey + " with " + testSecret + " or " + url.QueryEscape(testSecret),
		"Authorization: Bearer " + token,
		"Bearer abcdefghijklmnopqrstuvwxyz0123 expired",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
		`access_token=abcdefg&password=hunter22`,
	} {
		for _, answer := range []string{text, "<title>" + text + "</title>", `{"message":` + quote(text) + `}`} {
			c := answering(t, 400, "", answer)
			_, err := c.Do(t.Context(), Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": "d"}, Body: body})
			shown := fmt.Sprintf("%v %+v", err, *asRMM(t, err))
			for _, bad := range []string{
				"RECOVERY", "Password with", "two lines", `two\nlines`, "deep-value", testKey, testSecret, url.QueryEscape(testSecret),
				token, "abcdefg", "eyJ", "hunter22",
			} {
				if strings.Contains(shown, bad) {
					t.Errorf("%q is in %q", bad, shown)
				}
			}
			if !strings.Contains(shown, "[hidden]") || !strings.Contains(shown, "400 Bad Request") {
				t.Errorf("%q shows nothing", shown)
			}
		}
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// A value that is part of the status must not eat it.
func TestStatusSurvivesRedaction(t *testing.T) {
	_, err := answering(t, 400, "", "400 it is").Do(t.Context(), Request{Op: "device-udf-set", Path: map[string]string{"deviceUid": "d"}, Body: json.RawMessage(`{"udf1":"400","udf2":"Bad","udf3":"it"}`)})
	if e := asRMM(t, err); e.Message != "400 Bad Request: [hidden] it is" {
		t.Errorf("%q", e.Message)
	}
}

func TestCase_D01_HostContainsAPI(t *testing.T) {
	var paths []string
	c := newClient(t, inProcess{&account{api: func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		next, page := "null", r.URL.Query().Get("page")
		if page != "2" {
			number := map[string]string{"": "1", "1": "2"}[page]
			next = quote("https://" + testHost + "/api/v2/account/devices?max=2&page=" + number)
		}
		say(w, fmt.Sprintf(`{"pageDetails":{"totalCount":6,"nextPageUrl":%s},"devices":[{"uid":"%s1"},{"uid":"%s2"}]}`, next, page, page))
	}}})
	req, uids := devicesRead, map[string]bool{}
	for range 4 {
		res, err := c.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		page, err := ParsePage(lookup(t, "devices"), res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			uids[string(item)] = true
		}
		if page.Next == "" {
			break
		}
		if req.Query, err = NextQuery(req, page.Next); err != nil {
			t.Fatal(err)
		}
	}
	if len(uids) != 6 || strings.Join(paths, " ") != strings.Repeat("/api/v2/account/devices ", 2)+"/api/v2/account/devices" {
		t.Errorf("%d devices by way of %q", len(uids), paths)
	}
}

func TestForeignNextPage(t *testing.T) {
	for next, good := range map[string]bool{
		"https://" + testHost + "/api/v2/account/devices?page=1":                true,
		"https://" + testHost + ":443/api/v2/account/devices?page=1":            true,
		"https://" + strings.ToUpper(testHost) + "/api/v2/account/devices?page": true,
		"/api/v2/account/devices?page=1":                                        true,
		"https://evil.example/api/v2/account/devices?page=1":                    false,
		"//evil.example/api/v2/account/devices?page=1":                          false,
		"http://" + testHost + "/api/v2/account/devices?page=1":                 false,
		"https://" + testHost + ":8443/api/v2/account/devices?page=1":           false,
		"https://" + testHost + "@evil.example/api/v2/account/devices?page=1":   false,
		"https://" + testHost + "/api/v2/account/sites?page=1":                  false,
		"javascript:alert(1)": false,
	} {
		_, err := answering(t, 200, "", `{"pageDetails":{"nextPageUrl":`+quote(next)+`},"devices":[]}`).Do(t.Context(), devicesRead)
		if good {
			if err != nil {
				t.Errorf("%s: %v", next, err)
			}
			continue
		}
		if e := asRMM(t, err); e.Kind != KindProtocol || !strings.HasPrefix(e.Message, "next page: ") {
			t.Errorf("%s: %+v", next, e)
		}
	}
}

func TestCase_D23_SingleObjects(t *testing.T) {
	var query string
	c := newClient(t, inProcess{&account{api: func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		say(w, `{"uid":"d1"}`)
	}}})
	res, err := c.Do(t.Context(), Request{Op: "device", Path: map[string]string{"deviceUid": "d1"}})
	if err != nil || query != "" {
		t.Fatalf("query %q, %v", query, err)
	}
	page, err := ParsePage(lookup(t, "device"), res.Body)
	if err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestRedirects(t *testing.T) {
	tests := []struct {
		name, op, location string
		want               Kind
	}{
		{"own host", "account", "/api/v2/moved", ""},
		{"foreign host", "account", "https://evil.example/api/v2/moved", KindProtocol},
		{"other scheme", "account", "http://" + testHost + "/api/v2/moved", KindProtocol},
		{"endless", "account", "/api/v2/account", KindProtocol},
		{"write", "alert-resolve", "/api/v2/moved", KindProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requests := 0
			c := newClient(t, inProcess{&account{api: func(w http.ResponseWriter, r *http.Request) {
				requests++
				if r.URL.Host != testHost || r.URL.Scheme != "https" {
					t.Errorf("%s was asked, with %q", r.URL, r.Header.Get("Authorization"))
				}
				if strings.HasSuffix(r.URL.Path, "/moved") {
					say(w, `{}`)
					return
				}
				http.Redirect(w, r, tt.location, http.StatusFound)
			}}})
			req := Request{Op: tt.op}
			if tt.op == "alert-resolve" {
				req.Path = map[string]string{"alertUid": "a"}
			}
			_, err := c.Do(t.Context(), req)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := asRMM(t, err); e.Kind != tt.want || e.Status != 302 || !e.Sent || requests > 1+maxRedirects {
				t.Errorf("%+v after %d requests", e, requests)
			}
			if tt.op == "alert-resolve" && requests != 1 {
				t.Errorf("a write was sent %d times", requests)
			}
		})
	}
}

func TestRedirectedLoginIsRefused(t *testing.T) {
	c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != testHost {
			t.Errorf("the secret goes to %s", r.URL.Host)
		}
		w := httptest.NewRecorder()
		http.Redirect(w, r, "https://evil.example/login", http.StatusTemporaryRedirect)
		return w.Result(), nil
	}))
	if e := asRMM(t, c.Login(t.Context())); e.Kind != KindToken || !strings.Contains(e.Message, "evil.example") {
		t.Errorf("%+v", e)
	}
}

// cutBody is a body that breaks off with an error.
func cutBody(text string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), readerFunc(func([]byte) (int, error) { return 0, err })))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// withBody is a client whose API answers 200 with the given body.
func withBody(t *testing.T, answer func() (io.ReadCloser, int64, http.Header)) *Client {
	login := inProcess{&account{}}
	return newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == tokenPath {
			return login.RoundTrip(r)
		}
		body, length, header := answer()
		return &http.Response{StatusCode: 200, Header: header, Body: body, ContentLength: length, Request: r}, nil
	}))
}

func TestCutBodies(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: errTimeout{}}
	tests := []struct {
		name   string
		body   string
		length int64
		err    error
		want   Kind
	}{
		{"unexpected EOF", emptyDevices[:20], -1, io.ErrUnexpectedEOF, KindProtocol},
		{"reset", emptyDevices[:20], -1, errors.New("connection reset"), KindProtocol},
		{"reset after the last byte", emptyDevices, -1, errors.New("connection reset"), KindProtocol},
		{"shorter than announced", emptyDevices, int64(len(emptyDevices)) + 1, io.EOF, KindProtocol},
		{"longer than announced", emptyDevices, 3, io.EOF, KindProtocol},
		{"timeout", emptyDevices[:20], -1, timeout, KindTransport},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := withBody(t, func() (io.ReadCloser, int64, http.Header) { return cutBody(tt.body, tt.err), tt.length, http.Header{} })
			_, err := c.Do(t.Context(), devicesRead)
			if e := asRMM(t, err); e.Kind != tt.want || !e.Sent {
				t.Errorf("%+v", e)
			}
			// The status line has told that the write is done.
			if res, err := c.Do(t.Context(), udfWrite); err != nil || res.Status != 200 {
				t.Errorf("write: %v", err)
			}
		})
	}
}

type errTimeout struct{}

func (errTimeout) Error() string { return "too late" }
func (errTimeout) Timeout() bool { return true }

func TestHugeBodies(t *testing.T) {
	for name, length := range map[string]int64{"announced": MaxBody + 1, "unannounced": -1} {
		c := withBody(t, func() (io.ReadCloser, int64, http.Header) {
			return io.NopCloser(readerFunc(func(p []byte) (int, error) { return len(p), nil })), length, http.Header{}
		})
		_, err := c.Do(t.Context(), devicesRead)
		if e := asRMM(t, err); e.Kind != KindProtocol || e.Message != "answer is larger than 64 MiB" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestBodiesInOddDress(t *testing.T) {
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	say(zw, emptyDevices)
	zw.Close()
	gz := http.Header{"Content-Encoding": {"gzip"}}
	whole := withBody(t, func() (io.ReadCloser, int64, http.Header) {
		return io.NopCloser(bytes.NewReader(zipped.Bytes())), int64(zipped.Len()), gz
	})
	if res, err := whole.Do(t.Context(), devicesRead); err != nil || string(res.Body) != emptyDevices {
		t.Errorf("gzip: %q, %v", res.Body, err)
	}
	for _, cut := range []int{3, zipped.Len() - 5} {
		c := withBody(t, func() (io.ReadCloser, int64, http.Header) {
			return io.NopCloser(bytes.NewReader(zipped.Bytes()[:cut])), -1, gz
		})
		_, err := c.Do(t.Context(), devicesRead)
		if e := asRMM(t, err); e.Kind != KindProtocol || e.Message != "answer was cut off" {
			t.Errorf("gzip cut at %d: %+v", cut, e)
		}
	}
	res, err := answering(t, 200, "application/json; charset=windows-1252", "{\"pageDetails\":{},\"devices\":[{\"hostname\":\"M\xfcller \\u0000\"}]}").Do(t.Context(), devicesRead)
	if err != nil || !strings.Contains(string(res.Body), "M\ufffdller \\u0000") {
		t.Errorf("invalid UTF-8: %q, %v", res.Body, err)
	}
	_, err = answering(t, 200, "", "{\"pageDetails\":{},\"devices\":[\"\x00\"]}").Do(t.Context(), devicesRead)
	if e := asRMM(t, err); e.Kind != KindProtocol {
		t.Errorf("NUL: %+v", e)
	}
}

func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := inProcess{&account{}}
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == tokenPath {
				return login.RoundTrip(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		start := time.Now()
		_, err := c.Do(t.Context(), jobWrite)
		e := asRMM(t, err)
		if time.Since(start) != DefaultTimeout || e.Kind != KindTransport || !e.Sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v after %s", e, time.Since(start))
		}
		if e.Message != "no complete answer from "+testHost+" within 1m0s" {
			t.Errorf("message %q", e.Message)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Do(ctx, jobWrite)
		if e := asRMM(t, err); !e.Sent || e.Message != "time is up before the answer was complete" {
			t.Errorf("%+v", e)
		}
	})
}

func TestStatusNeedsNoToken(t *testing.T) {
	a := &account{api: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token was sent")
		}
		say(w, `{"status":"OK"}`)
	}}
	if _, err := newClient(t, inProcess{a}).Do(t.Context(), Request{Op: "system-status"}); err != nil || a.logins.Load() != 0 {
		t.Errorf("%d logins, %v", a.logins.Load(), err)
	}
}

func TestRequestRate(t *testing.T) {
	rate, err := answering(t, 200, "", `{"accountRateLimit":600,"accountCount":4}`).RequestRate(t.Context())
	if err != nil || rate.Limit != 600 || rate.Count != 4 {
		t.Errorf("%+v, %v", rate, err)
	}
	_, err = answering(t, 200, "", `{}`).RequestRate(t.Context())
	if e := asRMM(t, err); e.Kind != KindProtocol || !strings.Contains(e.Message, "accountRateLimit missing") {
		t.Errorf("%+v", e)
	}
	_, err = answering(t, 429, "", ``).RequestRate(t.Context())
	if e := asRMM(t, err); e.Kind != KindStatus || e.Status != 429 {
		t.Errorf("%+v", e)
	}
}

func TestRetryAfterHeader(t *testing.T) {
	c := newClient(t, inProcess{&account{api: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Thu, 06 Mar 2025 00:00:00 GMT")
		w.Header().Set("Retry-After", "Thu, 06 Mar 2025 00:01:30 GMT")
		w.WriteHeader(429)
	}}})
	_, err := c.Do(t.Context(), udfWrite)
	if e := asRMM(t, err); !e.HasRetryAfter || e.RetryAfter != 90*time.Second || e.JSON {
		t.Errorf("%+v", e)
	}
}

// Decisions rest on types and numbers only; the texts may be in any language.
func TestCase_N23_TextDecidesNothing(t *testing.T) {
	german := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("Es konnte keine Verbindung hergestellt werden")}
	c := newClient(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, german }))
	_, err := c.Do(t.Context(), jobWrite)
	if e := asRMM(t, err); e.Kind != KindToken || e.Sent || !errors.Is(err, german) {
		t.Errorf("%+v", e)
	}
	_, err = answering(t, 429, "", "Zu viele Anfragen, bitte timeout 503").Do(t.Context(), jobWrite)
	if e := asRMM(t, err); e.Kind != KindStatus || e.Status != 429 {
		t.Errorf("%+v", e)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := answering(t, 200, "", emptyDevices)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if _, err := c.Do(t.Context(), devicesRead); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
