package rmm

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2025, 3, 6, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"120", 2 * time.Minute, true},
		{" 0 ", 0, true},
		{"007", 7 * time.Second, true},
		{"9223372037", maxRetryAfter, true},
		{"99999999999999999999999", maxRetryAfter, true},
		{"Thu, 06 Mar 2025 00:01:30 GMT", 90 * time.Second, true},
		{"Thursday, 06-Mar-25 00:01:30 GMT", 90 * time.Second, true},
		{"Wed, 05 Mar 2025 00:00:00 GMT", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", maxRetryAfter, true},
		{"", 0, false},
		{"-5", 0, false},
		{"+5", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"2025-03-06T00:01:30Z", 0, false},
	}
	for _, tt := range tests {
		got, ok := ParseRetryAfter(tt.in, now)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %s, %v, want %s, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

// The result is between 0 and 30 days, exact where it fits, and 0 when there is
// none; digits are always understood.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"0", "120", "9223372036854775808", "Thu, 06 Mar 2025 00:01:30 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "-1", "٣"} {
		f.Add(seed, int64(1741219200))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		got, ok := ParseRetryAfter(value, time.Unix(unix, 0))
		if got < 0 || got > maxRetryAfter || !ok && got != 0 {
			t.Fatalf("%q gave %s, %v", value, got, ok)
		}
		digits := strings.TrimSpace(value)
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return
		}
		want, _ := new(big.Int).SetString(digits, 10)
		if limit := big.NewInt(int64(maxRetryAfter / time.Second)); want.Cmp(limit) > 0 {
			want = limit
		}
		if !ok || int64(got/time.Second) != want.Int64() {
			t.Errorf("%q gave %s, %v", value, got, ok)
		}
	})
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		" a\r\n\tb  c ":  "a b c",
		"a\x00b\x1b[0m":  "a b [0m",
		"a\u202eb\ufeff": "ab",
		"0123456789":     "01234567…",
		"01234567":       "01234567",
		"0123456 89":     "0123456 …",
		"\xff":           "\ufffd",
	} {
		if got := oneLine(in, 10); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// Values that are found in the word that replaces them must not pile up.
func TestRedactionDoesNotGrow(t *testing.T) {
	r := redactor{values: []string{"hidden", "[hid", "idd", "den", "en]"}}
	for in, want := range map[string]string{
		"idd idd":                "[hidden] [hidden]",
		"a [hidden] b":           "a [hidden] b",
		"überhidden":             "über[hidden]",
		strings.Repeat("idd", 9): "[hidden]",
	} {
		if got := r.clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// A message is one line of at most 500 characters without the secret, whatever
// the server says.
func FuzzMessage(f *testing.F) {
	f.Add(`{"message":"bad "}`, "RECOVERY-123456")
	f.Add("<title>\xff</title>", "ä\n\x00")
	f.Add(strings.Repeat("x ", 300), "x x")
	c := newClient(f, inProcess{&account{}})
	f.Fuzz(func(t *testing.T, body, value string) {
		text := body + " " + testSecret + " " + value
		message := c.statusError("devices", reply{status: 400, header: http.Header{}, body: []byte(text)}, c.redactor([]byte(`{"udf1":`+quote(value)+`}`))).Message
		if n := len([]rune(message)); n > maxMessage {
			t.Errorf("%d characters", n)
		}
		if strings.ContainsFunc(message, unicode.IsControl) {
			t.Errorf("control characters in %q", message)
		}
		if strings.Contains(message, testSecret) {
			t.Errorf("the secret is in %q", message)
		}
	})
}
