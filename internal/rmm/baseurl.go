package rmm

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// apiPrefix is where the API lives on its host; the token endpoint does not.
const (
	apiPrefix = "/api"
	tokenPath = "/auth/oauth/token"
	apiDomain = ".centrastage.net"
	apiSuffix = "-api"
)

// platforms are the regional installations known by name. The public sources
// agree on the names, not on the regions they stand for.
var platforms = []string{"concord", "merlot", "pinotage", "syrah", "vidal", "zinfandel"}

// Platforms returns the known platform names, sorted.
func Platforms() []string { return slices.Clone(platforms) }

// ParseBaseURL turns what people paste for the address of the API into its
// origin, such as https://merlot-api.centrastage.net: a platform name, a host
// with or without scheme, with or without /api, /api/v2 or a page of the API's
// own documentation behind it. The result has scheme and host only. Addresses
// of the portal are refused with the address that was meant. Plain http is for
// this computer only.
func ParseBaseURL(s string) (*url.URL, error) {
	text := trimBlanks(s)
	if name := strings.TrimRight(text, "."); !strings.ContainsAny(name, ".:/") {
		text = name // a platform and a slip of the pen; a host has an inner dot
	}
	if text == "" {
		return nil, errors.New("the API address is empty; give a platform name such as merlot, or an address")
	}
	if !strings.ContainsAny(text, ".:/") && !strings.EqualFold(text, "localhost") {
		return platformURL(text)
	}
	if !strings.Contains(text, "://") {
		text = defaultScheme(text) + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		// The cause would repeat the text, which may hold a password.
		return nil, errors.New("the API address is not a URL; it looks like https://merlot-api.centrastage.net")
	}
	if u.User != nil {
		return nil, errors.New("the API address must not hold a user or a password")
	}
	origin, err := canonicalOrigin(u)
	if err != nil {
		return nil, err
	}
	if hint := portalHint(origin.Hostname()); hint != "" {
		return nil, errors.New(hint)
	}
	if origin.Scheme == "http" && !loopback(origin.Hostname()) {
		return nil, fmt.Errorf("the API address uses http, which would send the secret in clear; use https://%s", origin.Host)
	}
	if !apiPath(u.Path) {
		return nil, fmt.Errorf("the API address has a path that is not the API's; use %s", origin)
	}
	return origin, nil
}

func platformURL(name string) (*url.URL, error) {
	name = strings.TrimSuffix(strings.ToLower(name), apiSuffix)
	if !slices.Contains(platforms, name) {
		return nil, fmt.Errorf("%q is not a known platform (%s); for another one give the whole address, https://NAME%s%s",
			name, strings.Join(platforms, ", "), apiSuffix, apiDomain)
	}
	return &url.URL{Scheme: "https", Host: name + apiSuffix + apiDomain}, nil
}

// defaultScheme is what a host without a scheme means: https, but http for
// this computer, where only simulators listen.
func defaultScheme(text string) string {
	host, _, _ := strings.Cut(text, "/")
	if u, err := url.Parse("//" + host); err == nil && loopback(u.Hostname()) {
		return "http"
	}
	return "https"
}

func loopback(host string) bool {
	host = strings.ToLower(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// canonicalOrigin reduces a URL to scheme and host: lower case, without the
// default port and without the dot that ends a full name.
func canonicalOrigin(u *url.URL) (*url.URL, error) {
	scheme := strings.ToLower(u.Scheme)
	if scheme != "https" && scheme != "http" {
		return nil, errors.New("the API address must start with https://")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) ||
		strings.ContainsAny(host, "/\\?#@%<>\"'") || strings.HasPrefix(host, ".") || strings.HasSuffix(host, ".") || strings.Contains(host, "..") {
		return nil, errors.New("the API address has no usable host name")
	}
	if strings.Contains(host, ":") {
		if net.ParseIP(host) == nil {
			return nil, errors.New("the API address has no usable host name")
		}
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, errors.New("the API address has a port outside 1 to 65535")
		}
		if (scheme != "https" || n != 443) && (scheme != "http" || n != 80) {
			host += ":" + strconv.FormatUint(n, 10)
		}
	}
	return &url.URL{Scheme: scheme, Host: host}, nil
}

// portalHint recognises the addresses that people see in their browser.
func portalHint(host string) string {
	name, ok := strings.CutSuffix(host, apiDomain)
	if !ok {
		name, ok = strings.CutSuffix(host, ".rmm.datto.com")
	}
	if !ok || strings.HasSuffix(host, apiSuffix+apiDomain) {
		return ""
	}
	if name = strings.TrimSuffix(name, apiSuffix); slices.Contains(platforms, name) || !strings.Contains(name, ".") {
		return fmt.Sprintf("this looks like the portal address; the API address is https://%s%s%s", name, apiSuffix, apiDomain)
	}
	return "this looks like the portal address; the API address looks like https://merlot-api.centrastage.net"
}

// apiPath tells whether a pasted path lies inside the API or is its token
// endpoint, so that dropping it loses nothing.
func apiPath(path string) bool {
	path = strings.Trim(path, "/")
	first, _, _ := strings.Cut(path, "/")
	return path == "" || first == "api" || first == "v2" || path == strings.Trim(tokenPath, "/")
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	ca, err := canonicalOrigin(a)
	if err != nil {
		return false
	}
	cb, err := canonicalOrigin(b)
	return err == nil && *ca == *cb
}

// trimBlanks cuts off what gets stuck to pasted text: blanks and line ends of
// every kind, byte order marks, zero-width characters.
func trimBlanks(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
}
