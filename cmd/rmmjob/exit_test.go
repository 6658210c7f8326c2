package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// The promise to schedulers and scripts, word for word.
const promisedExits = `
| 0 | ok | every item done, unchanged or skipped |
| 1 | internal | a bug |
| 2 | usage | flags, job file, config or CSV; nothing was sent |
| 3 | partial | finished, some items failed |
| 4 | in_doubt | some writes need a decision (wins over 3) |
| 5 | guard | stopped by a guard before harm |
| 6 | throttled | pause budget spent; resumable |
| 7 | auth | login refused or a right is missing; resumable |
| 8 | stopped | asked to stop, time limit, window closed; resumable |
| 9 | unreachable | no connection (DNS, TCP, TLS, proxy) or a token endpoint that stays broken; resumable |
| 10 | local_io | state, disk, share or output file |
| 11 | busy | another run of the job holds the lock |
| 12 | incomplete | an export that cannot prove it is complete; nothing published |
| 13 | overdue | ` + "`status --max-age 26h`" + `: the last success is older |
| 20 | changes | ` + "`plan --detailed-exitcode`" + ` found changes |
| 21 | canary_wait | the first writes of ` + "`--canary`" + ` are as wanted; the rest waits for ` + "`apply`" + ` |
| 130 | aborted | second Ctrl-C |
`

func TestExitTableIsThePromise(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n")
	for _, row := range exitTable {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", row.code, row.name, row.meaning)
	}
	if got := b.String(); got != promisedExits {
		t.Errorf("the table differs from the promise:\n%s\nwant:\n%s", got, promisedExits)
	}
}

func TestClassify(t *testing.T) {
	live := stopSignals{soft: context.Background(), hard: context.Background()}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	soft := stopSignals{soft: gone, hard: context.Background()}
	hard := stopSignals{soft: gone, hard: gone}

	api := func(kind rmm.Kind, status int) error {
		return &rmm.Error{Op: "devices", Kind: kind, Status: status, Message: "no"}
	}
	tests := []struct {
		name string
		err  error
		stop stopSignals
		want exitCode
		hint string // part of it
	}{
		{"nothing", nil, live, exitOK, ""},
		{"unknown", errors.New("what"), live, exitInternal, ""},
		{"own code", fail(exitBusy, "busy"), live, exitBusy, ""},
		{"own code wrapped", fmt.Errorf("start: %w", fail(exitBusy, "busy").withHint("wait")), live, exitBusy, "wait"},
		{"own code wins", fail(exitUsage, "x: %w", fs.ErrNotExist), live, exitUsage, ""},
		{"job faults", jobs.Errors{{Message: "bad"}}, live, exitUsage, ""},
		{"one job fault", &jobs.Error{Message: "bad"}, live, exitUsage, ""},
		{"guard", &jobs.GuardError{Guard: "max_changes"}, live, exitGuard, ""},
		{"incomplete", &jobs.IncompleteError{Message: "5 of 6"}, live, exitIncomplete, ""},
		{"pause budget", fmt.Errorf("wait: %w", &throttle.ExhaustedError{}), live, exitThrottled, ""},
		{"damaged", &checkpoint.CorruptError{Path: "x", Err: errors.New("y")}, live, exitLocalIO, ""},
		{"newer", &checkpoint.VersionError{Path: "x"}, live, exitLocalIO, ""},
		{"state", &checkpoint.IOError{Path: "x", Err: errors.New("y")}, live, exitLocalIO, ""},
		{"no run", fmt.Errorf("run x: %w", checkpoint.ErrNotFound), live, exitUsage, "rmmjob runs"},
		{"several runs", &checkpoint.AmbiguousError{Prefix: "2"}, live, exitUsage, ""},
		{"login refused", api(rmm.KindAuth, 401), live, exitAuth, "check key"},
		{"token endpoint", api(rmm.KindToken, 500), live, exitUnreachable, ""},
		{"no connection", api(rmm.KindTransport, 0), live, exitUnreachable, "HTTPS_PROXY"},
		{"not the API", api(rmm.KindProtocol, 200), live, exitUnreachable, "check the address"},
		{"403", api(rmm.KindStatus, 403), live, exitAuth, ""},
		{"429", api(rmm.KindStatus, 429), live, exitThrottled, ""},
		{"503", api(rmm.KindStatus, 503), live, exitUnreachable, ""},
		{"404", api(rmm.KindStatus, 404), live, exitPartial, ""},
		{"disk full", fmt.Errorf("write: %w", errnoFull), live, exitLocalIO, ""},
		{"file", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, live, exitLocalIO, ""},
		{"first Ctrl-C", fmt.Errorf("read: %w", context.Canceled), soft, exitStopped, ""},
		{"second Ctrl-C", fmt.Errorf("read: %w", context.Canceled), hard, exitAborted, ""},
		{"cancelled inside a request", &rmm.Error{Kind: rmm.KindTransport, Err: context.Canceled}, soft, exitStopped, ""},
		{"cancelled by nobody", context.Canceled, live, exitInternal, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, hint := classify(tt.err, tt.stop)
			if code != tt.want || !strings.Contains(hint, tt.hint) {
				t.Errorf("got %d %q, want %d with hint %q", code, hint, tt.want, tt.hint)
			}
		})
	}
}

// A wrong certificate is a matter of one option, and the message says which.
func TestCase_N20_UnknownAuthorityNamesTheOption(t *testing.T) {
	err := &rmm.Error{Kind: rmm.KindTransport, Err: x509.UnknownAuthorityError{}}
	code, hint := classify(err, stopSignals{})
	if code != exitUnreachable || !strings.Contains(hint, "--ca-cert") {
		t.Errorf("got %d %q", code, hint)
	}
}

func TestHintsAreNotRepeated(t *testing.T) {
	inner := &rmm.Error{Kind: rmm.KindAuth, Status: 401}
	_, hint := causeOf(inner, stopSignals{})
	_, got := classify(&exitError{code: exitAuth, err: inner, hint: hint}, stopSignals{})
	if hint == "" || got != hint {
		t.Errorf("got %q, want %q", got, hint)
	}
}

func TestMessagesOneForEachFault(t *testing.T) {
	list := jobs.Errors{{Message: "first"}, {Message: "second"}}
	for _, err := range []error{list, &exitError{code: exitUsage, err: list}} {
		if got := messages(err); len(got) != 2 {
			t.Errorf("%T: %q", err, got)
		}
	}
	if got := messages(fmt.Errorf("plan: %w", list)); len(got) != 1 || !strings.HasPrefix(got[0], "plan: ") {
		t.Errorf("a wrapped list lost its context: %q", got)
	}
}
