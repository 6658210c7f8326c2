package rmm

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a TLS server for the handler and returns its address and the
// file with its certificate. The certificate is good for example.com.
func serve(t *testing.T, h http.Handler) (addr, caFile string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = discardLog
	server.StartTLS()
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, caFile, "CERTIFICATE", server.Certificate().Raw)
	return server.Listener.Addr().String(), caFile
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dialTo makes every connection of a transport go to one address.
func dialTo(transport *http.Transport, addr string) *http.Transport {
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	return transport
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func clientOver(t *testing.T, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(Config{
		BaseURL: &url.URL{Scheme: "https", Host: "example.com"}, Key: testKey, Secret: testSecret,
		Transport: transport, Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func plainTransport(t *testing.T, caFile string, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	t.Helper()
	transport, err := newTransport(caFile, proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func TestCase_N20_CompanyCA(t *testing.T) {
	addr, caFile := serve(t, &account{api: func(w http.ResponseWriter, _ *http.Request) { say(w, emptyDevices) }})
	wrong := filepath.Join(t.TempDir(), "wrong.pem")
	if err := os.WriteFile(wrong, []byte(otherCA), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, caFile string
		ok           bool
	}{{"without", "", false}, {"with", caFile, true}, {"wrong", wrong, false}} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOver(t, dialTo(plainTransport(t, tt.caFile, noProxy), addr))
			_, err := c.Do(t.Context(), devicesRead)
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := asRMM(t, err)
			if e.Kind != KindToken || e.Sent || !e.BadCertificate() || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v", e)
			}
			for _, part := range []string{"unknown here", "issuer O=Acme Co", "--ca-cert"} {
				if !strings.Contains(e.Message, part) {
					t.Errorf("message %q lacks %q", e.Message, part)
				}
			}
		})
	}
}

func TestCertificateOfAnotherHost(t *testing.T) {
	addr, caFile := serve(t, &account{})
	transport := dialTo(plainTransport(t, caFile, noProxy), addr)
	c, err := New(Config{BaseURL: &url.URL{Scheme: "https", Host: testHost}, Key: testKey, Secret: testSecret, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	e := asRMM(t, c.Login(t.Context()))
	if !e.BadCertificate() || e.Sent || !strings.Contains(e.Message, "is not valid") {
		t.Errorf("%+v", e)
	}
}

func TestCAFiles(t *testing.T) {
	dir := t.TempDir()
	block, _ := pem.Decode([]byte(otherCA))
	files := map[string][]byte{
		"good.pem": []byte("some words before\n" + otherCA), "good.der": block.Bytes,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "empty": nil, "words": []byte("hello"),
	}
	for name, data := range files {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Transport(file); (err == nil) != strings.HasPrefix(name, "good") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Transport(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// connectProxy is a proxy that lets CONNECT requests with the right password
// through to one address, and counts them.
type connectProxy struct {
	target   string
	password string
	connects atomic.Int64
}

func (p *connectProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	given := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	if _, password, _ := given.BasicAuth(); password != p.password {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	p.connects.Add(1)
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		upstream.Close()
		return
	}
	say(conn, "HTTP/1.1 200 OK\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(upstream, buffered); upstream.Close() })
	wg.Go(func() { _, _ = io.Copy(conn, upstream); conn.Close() })
	wg.Wait()
}

func startProxy(t *testing.T, target, password string) (*connectProxy, string) {
	t.Helper()
	p := &connectProxy{target: target, password: password}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, server.Listener.Addr().String()
}

func TestCase_N22_EverythingGoesThroughTheProxy(t *testing.T) {
	a := &account{api: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		say(w, emptyDevices)
	}}
	a.login = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		say(w, `{"access_token":"t","expires_in":5}`)
	}
	addr, caFile := serve(t, a)
	proxy, proxyAddr := startProxy(t, addr, "pr0xy-pass")
	through := http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("jo", "pr0xy-pass"), Host: proxyAddr})
	c := clientOver(t, plainTransport(t, caFile, through))
	var ahead time.Duration
	c.tokens.now = func() time.Time { return time.Now().Add(ahead) }
	for range 3 {
		if _, err := c.Do(t.Context(), devicesRead); err != nil {
			t.Fatal(err)
		}
		ahead += 5 * time.Second
	}
	// example.com does not lead to the server: what has arrived came this way.
	if a.logins.Load() != 3 || proxy.connects.Load() != 6 {
		t.Errorf("%d logins, %d connections through the proxy", a.logins.Load(), proxy.connects.Load())
	}
}

func TestProxyRefuses(t *testing.T) {
	_, proxyAddr := startProxy(t, "127.0.0.1:1", "right")
	free := freeAddr(t)
	for _, tt := range []struct{ name, host, password, text string }{
		{"password", proxyAddr, "wr0ng-pass", "answered 407 Proxy Authentication Required; check user and password in HTTPS_PROXY"},
		{"upstream", proxyAddr, "right", "answered 502 Bad Gateway"},
		{"no proxy", free, "wr0ng-pass", "no connection to the proxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			through := http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("jo", tt.password), Host: tt.host})
			err := clientOver(t, plainTransport(t, "", through)).Login(t.Context())
			e := asRMM(t, err)
			shown := fmt.Sprintf("%v %+v %v", err, *e, e.Err)
			if e.Kind != KindToken || e.Sent || !strings.Contains(e.Message, tt.text) || strings.Contains(shown, "wr0ng") {
				t.Errorf("%s", shown)
			}
		})
	}
}

// freeAddr is an address at which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The environment is read once per process, so this test runs itself again.
func TestCase_N22_ProxyFromEnvironment(t *testing.T) {
	if os.Getenv("RMM_TEST_PROXY") == "1" {
		transport, err := Transport("")
		if err != nil {
			t.Fatal(err)
		}
		own := transport.(*http.Transport)
		dial := own.DialContext
		own.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "example.com:443" {
				return nil, errors.New("went there directly")
			}
			return dial(ctx, network, addr)
		}
		err = clientOver(t, transport).Login(t.Context())
		fmt.Printf("login: %v\n", err)
		return
	}
	_, proxyAddr := startProxy(t, "127.0.0.1:1", "right")
	for _, tt := range []struct{ name, proxy, noProxy, want string }{
		{"used", "http://jo:wr0ng-pass@" + proxyAddr, "", "proxy " + proxyAddr + " answered 407"},
		{"excepted", "http://jo:wr0ng-pass@" + proxyAddr, "example.com", "went there directly"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCase_N22_ProxyFromEnvironment$")
			cmd.Env = append(os.Environ(), "RMM_TEST_PROXY=1", "HTTPS_PROXY="+tt.proxy, "https_proxy="+tt.proxy, "NO_PROXY="+tt.noProxy, "no_proxy="+tt.noProxy)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), tt.want) || strings.Contains(string(out), "wr0ng") {
				t.Errorf("%s", out)
			}
		})
	}
}

// sendTo sends one write over a real connection to a server that does what it
// is told once the token is there.
func sendTo(ctx context.Context, t *testing.T, transport http.RoundTripper) *Error {
	t.Helper()
	c := clientOver(t, transport)
	c.tokens.current = c.tokens.newToken("good", time.Hour)
	_, err := c.Do(ctx, jobWrite)
	return asRMM(t, err)
}

// Sent decides whether a write may be repeated, so it must be false only when
// the request has certainly not left.
func TestSent(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		e := sendTo(t.Context(), t, dialTo(plainTransport(t, "", noProxy), freeAddr(t)))
		if e.Sent || e.Kind != KindTransport || !strings.HasPrefix(e.Message, "no connection to example.com: ") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("no such host", func(t *testing.T) {
		transport := plainTransport(t, "", noProxy)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "example.com", IsNotFound: true}}
		}
		if e := sendTo(t.Context(), t, transport); e.Sent || !strings.Contains(e.Message, "host example.com not found") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("cancelled while connecting", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		transport := plainTransport(t, "", noProxy)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if e := sendTo(ctx, t, transport); e.Sent || !errors.Is(e, context.Canceled) {
			t.Errorf("%+v", e)
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = discardLog
		server.Start()
		defer server.Close()
		e := sendTo(t.Context(), t, dialTo(plainTransport(t, "", noProxy), server.Listener.Addr().String()))
		if e.Sent || e.Kind != KindTransport {
			t.Errorf("%+v", e)
		}
	})
	t.Run("dropped after the request", func(t *testing.T) {
		addr, caFile := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		if e := sendTo(t.Context(), t, dialTo(plainTransport(t, caFile, noProxy), addr)); !e.Sent || e.Kind != KindTransport {
			t.Errorf("%+v", e)
		}
	})
	t.Run("cancelled after the request", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		addr, caFile := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			// A server notices that its client is gone once it has read all.
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		}))
		if e := sendTo(ctx, t, dialTo(plainTransport(t, caFile, noProxy), addr)); !e.Sent || !errors.Is(e, context.Canceled) {
			t.Errorf("%+v", e)
		}
	})
	t.Run("transport without connections", func(t *testing.T) {
		fail := roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
		if e := sendTo(t.Context(), t, fail); !e.Sent {
			t.Errorf("%+v", e)
		}
	})
}

// A body that ends before its announced length, over a real connection.
func TestCutBodyOverTheWire(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"pageDetails\":",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"pag\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer listener.Close()
			wg.Go(func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					say(conn, answer)
				}
			})
			transport := plainTransport(t, "", noProxy)
			c, err := New(Config{BaseURL: &url.URL{Scheme: "http", Host: listener.Addr().String()}, Key: testKey, Secret: testSecret, Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			c.tokens.current = c.tokens.newToken("good", time.Hour)
			_, err = c.Do(t.Context(), devicesRead)
			if e := asRMM(t, err); e.Kind != KindProtocol || e.Status != 200 || e.Message != "answer was cut off" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// gzip is asked for and undone by the transport.
func TestGzipOverTheWire(t *testing.T) {
	var asked atomic.Value
	addr, caFile := serve(t, &account{api: func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Accept-Encoding"))
		say(w, emptyDevices)
	}})
	if _, err := clientOver(t, dialTo(plainTransport(t, caFile, noProxy), addr)).Do(t.Context(), devicesRead); err != nil || asked.Load() != "gzip" {
		t.Errorf("asked for %v, %v", asked.Load(), err)
	}
}
