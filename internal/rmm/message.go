package rmm

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxMessage is the length of an error message in characters.
	maxMessage = 500
	// maxRawText is how much of a server's text is looked at to make one.
	maxRawText = 8 << 10
	// hidden stands for text that must not be shown; while a text is worked on,
	// mark stands for hidden, which could itself hold a value.
	hidden = "[hidden]"
	mark   = "\ue000"
)

// serverText finds what a body says to people: the message of an error of the
// API, the title of a web page, or the text itself. It drops a text that only
// repeats the status.
func serverText(h http.Header, body []byte, statusText string) string {
	text := ""
	switch {
	case isObject(body):
		text = jsonMessage(body, statusText)
	case isHTML(h, body):
		text = pageTitle(body)
	default:
		text = string(body[:min(len(body), maxRawText)])
	}
	if text = strings.TrimSpace(text); strings.EqualFold(text, statusText) {
		return ""
	}
	return text
}

// jsonMessage looks for the fields in which servers put their message.
func jsonMessage(body []byte, statusText string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	for _, name := range []string{"errorMessage", "message", "error_description", "detail", "error"} {
		raw, ok := fields[name]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && strings.TrimSpace(text) != "" && !strings.EqualFold(text, statusText) {
			return text
		}
		if isObject(raw) {
			if text := jsonMessage(raw, statusText); text != "" {
				return text
			}
		}
	}
	return ""
}

func isObject(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && body[0] == '{' && json.Valid(body)
}

func isHTML(h http.Header, body []byte) bool {
	if strings.Contains(strings.ToLower(h.Get("Content-Type")), "html") {
		return true
	}
	return startsHTML(body)
}

func startsHTML(body []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 512)]))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

var (
	titleTag = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title`)
	noText   = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->|<[^>]*>`)
)

// pageTitle returns the title of a web page, or else its first words.
func pageTitle(body []byte) string {
	body = body[:min(len(body), maxRawText)]
	if m := titleTag.FindSubmatch(body); m != nil && len(bytes.TrimSpace(m[1])) > 0 {
		return "web page “" + oneLine(html.UnescapeString(string(m[1])), 120) + "”"
	}
	words := oneLine(html.UnescapeString(string(noText.ReplaceAll(body, []byte(" ")))), 120)
	if words == "" {
		return "web page without text"
	}
	return "web page: " + words
}

// oneLine puts a text on one line: every run of blanks, line ends and control
// characters becomes one space, invisible characters go, and the text is cut
// so that it has at most limit characters, or one or two less.
func oneLine(s string, limit int) string {
	var b strings.Builder
	count, gap := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = count > 0
			continue
		case unicode.Is(unicode.Cf, r):
			continue
		}
		if gap {
			b.WriteByte(' ')
			count++
			gap = false
		}
		if count >= limit-2 {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

// redactor takes out of texts what must not be seen.
type redactor struct {
	exact  []string // key, secret, token; in every spelling
	values []string // values of the request's body, longest first
}

// redactor returns the redactor for a request with the given body.
func (c *Client) redactor(body []byte) redactor {
	var exact []string
	for _, s := range []string{c.secret, c.key, c.tokens.value()} {
		// Real ones have 30 characters and more; a shorter word than this
		// stands for a test, and would be found everywhere.
		if len(s) >= 4 {
			exact = append(exact, s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s))
		}
	}
	return redactor{exact: exact, values: bodyValues(body)}
}

// Patterns of secrets that are not our own: tokens of any kind, and the
// credentials in the URL of a proxy.
var (
	bearerPattern = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}`)
	jwtPattern    = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}(\.[A-Za-z0-9_-]*){1,2}`)
	tokenPattern  = regexp.MustCompile(`(?i)\b((?:access|refresh)_?token|password|api_?secret(?:_?key)?)("?\s*[:=]\s*"?)[^\s"&,;}]+`)
	userPattern   = regexp.MustCompile(`[^\s/"'@:]*:[^\s/"'@]*@`)
)

// secrets hides credentials.
func (r redactor) secrets(text string) string {
	return strings.ReplaceAll(r.markSecrets(text), mark, hidden)
}

func (r redactor) markSecrets(text string) string {
	for _, s := range r.exact {
		text = strings.ReplaceAll(text, s, mark)
	}
	text = bearerPattern.ReplaceAllString(text, "$1 "+mark)
	text = jwtPattern.ReplaceAllString(text, mark)
	text = tokenPattern.ReplaceAllString(text, "$1$2"+mark)
	return userPattern.ReplaceAllString(text, mark+"@")
}

// clean makes a text fit to be shown: credentials and values hidden, on one
// line, at most 500 characters.
func (r redactor) clean(text string) string {
	if len(text) > maxRawText {
		text = strings.ToValidUTF8(text[:maxRawText], "")
	}
	// Before and after the line is made: a value may itself hold line ends.
	text = markValues(r.markSecrets(text), r.values)
	text = oneLine(text, maxRawText)
	text = markValues(r.markSecrets(text), r.values)
	return oneLine(strings.ReplaceAll(text, mark, hidden), maxMessage)
}

const (
	// minValue is the shortest value worth hiding; shorter ones are found in
	// any sentence.
	minValue = 3
	// minEcho is how much of a longer value has to be there to hide it: servers
	// shorten what they repeat.
	minEcho = 8
)

// markValues marks the values, and starts of them, wherever they are repeated.
func markValues(text string, values []string) string {
	covered := make([]bool, len(text))
	found := false
	for _, value := range values {
		start := value[:min(len(value), minEcho)]
		for from := 0; ; {
			i := strings.Index(text[from:], start)
			if i < 0 {
				break
			}
			i += from
			from = i + commonPrefix(text[i:], value)
			for from < len(text) && !utf8.RuneStart(text[from]) {
				from++
			}
			for ; i < from; i++ {
				covered[i] = true
			}
			found = true
		}
	}
	if !found {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			b.WriteByte(text[i])
		case i == 0 || !covered[i-1]:
			b.WriteString(mark)
		}
	}
	return b.String()
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// bodyValues collects the strings of a JSON body in the spellings in which a
// server may repeat them, longest first.
func bodyValues(body []byte) []string {
	var root any
	if len(body) == 0 || json.Unmarshal(body, &root) != nil {
		return nil
	}
	var values []string
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= minValue {
			values = append(values, s)
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
			add(oneLine(v, utf8.RuneCountInString(v)+3))
			add(html.EscapeString(v))
			if quoted, err := json.Marshal(v); err == nil {
				add(strings.Trim(string(quoted), `"`))
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(root)
	slices.SortFunc(values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(values)
}
