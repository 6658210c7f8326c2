package rmm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Bounds of the parts of a request that have nothing to do with how long the
// API takes; the request as a whole is bounded by [Config].Timeout.
const (
	dialTimeout = 15 * time.Second
	tlsTimeout  = 15 * time.Second
	idleTimeout = 90 * time.Second
	// idleConns is how many connections stay open; more than workers exist.
	idleConns = 64
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 1 << 20
)

// Transport returns the HTTP transport for an account. Proxies are those of
// the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY. caFile, if not empty,
// names a file with certificates of further authorities (PEM, or one in DER),
// which are trusted besides those of the system.
func Transport(caFile string) (http.RoundTripper, error) {
	return newTransport(caFile, http.ProxyFromEnvironment)
}

func newTransport(caFile string, proxy func(*http.Request) (*url.URL, error)) (*http.Transport, error) {
	pool, err := rootPool(caFile)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		OnProxyConnectResponse: onProxyConnect,
	}, nil
}

// onProxyConnect turns a refusal into an error with a type. The address of the
// proxy is told without user and password.
func onProxyConnect(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return &proxyError{proxy: proxy.Host, status: res.StatusCode}
	}
	return nil
}

// rootPool returns the system's authorities and those of the file; nil means
// the system's alone.
func rootPool(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a bare container has none
	}
	if block, _ := pem.Decode(data); block != nil {
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("CA file %s holds no certificate that can be read", caFile)
		}
		return pool, nil
	}
	certificate, err := x509.ParseCertificate(bytes.TrimSpace(data))
	if err != nil {
		return nil, fmt.Errorf("CA file %s is neither PEM nor a DER certificate; export it as Base-64 X.509", caFile)
	}
	pool.AddCert(certificate)
	return pool, nil
}
