package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// env is what the program takes from its surroundings, as a value, so that a
// test can build the whole command with other surroundings.
type env struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	// getenv returns the value of an environment variable, "" when it is unset.
	getenv func(string) string

	// isTerminal tells whether stderr is a terminal. It decides about the
	// progress bar and about nothing else.
	isTerminal bool

	// stdoutTerminal tells whether stdout is a terminal, which binary data is not
	// for.
	stdoutTerminal bool

	// canAsk tells whether a person can be asked: stdin is a terminal as well.
	canAsk bool

	// width is the number of columns of that terminal, 0 when unknown.
	width int

	// now is the wall clock.
	now func() time.Time

	// abort ends when the user asks a second time to stop. Nil: never.
	abort context.Context
}

// systemEnv is the env of the real process.
func systemEnv() *env {
	e := &env{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		now:    time.Now,
	}
	// A process without a console has invalid handles here; both calls
	// then say "no terminal", which is the answer wanted.
	fd := int(os.Stderr.Fd())
	e.isTerminal = term.IsTerminal(fd)
	e.canAsk = e.isTerminal && term.IsTerminal(int(os.Stdin.Fd()))
	e.stdoutTerminal = term.IsTerminal(int(os.Stdout.Fd()))
	if w, _, err := term.GetSize(fd); err == nil {
		e.width = w
	}
	return e
}

// stream is an output that never fails its writer: a closed console or a
// reader that went away must not stop a run of hours. It keeps the first
// error that means lost data (a full disk behind a redirection), for the
// exit code.
type stream struct {
	mu   sync.Mutex
	w    io.Writer
	err  error
	gone bool // it was closed from the start
}

func newStream(w io.Writer) *stream { return &stream{w: w} }

// Write passes p on and always reports success.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return len(p), nil
	}
	_, err := s.w.Write(p)
	switch {
	case err == nil:
	case isClosed(err):
		s.gone = s.gone || !readerGone(err)
	case s.err == nil:
		s.err = err
	}
	return len(p), nil
}

// lost returns the first error that lost data, nil if there was none.
func (s *stream) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// closed tells whether something was written to a stream that nobody had opened:
// no harm to messages, but a loss of data.
func (s *stream) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// isClosed tells whether a write failed because nobody listens.
func isClosed(err error) bool {
	return errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		readerGone(err) || badHandle(err) || errors.Is(err, os.ErrInvalid)
}

// clean makes text from outside safe for a console and for a log file: every
// control character, every invisible formatting character (which can turn
// the direction of a line) and every byte that is not UTF-8 becomes a visible
// escape. It returns s itself when there is nothing to do.
func clean(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !unsafeRune(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// unsafeRune tells whether r must not reach a console as it is.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// cleanLines is clean for text of several lines, which stays several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(strings.TrimSuffix(l, "\r"))
	}
	return strings.Join(lines, "\n")
}
