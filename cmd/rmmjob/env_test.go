package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCase_R25_OddCharacters(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"PC-01 東京 →WS", "PC-01 東京 →WS"},
		{"\x1b[31mred", `\x1b[31mred`},
		{"\u200cWS", `\u200cWS`},
		{"a\nb\r\tc", `a\nb\r\tc`},
		{"\u202eexe.txt", `\u202eexe.txt`},
		{"\u009b31m", `\x9b31m`},
		{"\xff\xfe", `\xff\xfe`},
		{"good \ufffd stays", "good \ufffd stays"},
		{"\U000e0041", `\U000e0041`},
		{"line\u2028end", `line\u2028end`},
	}
	for _, tt := range tests {
		if got := clean(tt.in); got != tt.want {
			t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestCleanLeavesNothingUnsafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "in"))
		got := clean(in)
		if !utf8.ValidString(got) || strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) }) >= 0 {
			t.Fatalf("clean(%q) = %q", in, got)
		}
		if clean(got) != got {
			t.Fatalf("clean is not stable on %q", got)
		}
	})
}

type badWriter struct{ err error }

func (w badWriter) Write([]byte) (int, error) { return 0, w.err }

func TestCase_R24_ClosedStreamsStopNothing(t *testing.T) {
	for _, err := range []error{errnoGone, errnoNever, io.ErrClosedPipe} {
		s := newStream(badWriter{err})
		if n, got := s.Write([]byte("abc")); n != 3 || got != nil {
			t.Errorf("%v: Write = %d, %v", err, n, got)
		}
		if s.lost() != nil {
			t.Errorf("%v: a reader that went away is no loss", err)
		}
	}
	s := newStream(badWriter{errnoFull})
	fmt.Fprint(s, "abc")
	if !errors.Is(s.lost(), errnoFull) {
		t.Error("a full disk went unnoticed")
	}
	if n, err := newStream(nil).Write([]byte("abc")); n != 3 || err != nil {
		t.Error("no stream at all must do no harm")
	}
}
