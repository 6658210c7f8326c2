package main

import (
	"fmt"
	"io"
)

// exitCode is the status the process ends with. Its values and names are a
// promise to schedulers and scripts.
type exitCode int

// The exit codes. exitTable says what each of them means.
const (
	exitOK          exitCode = 0
	exitInternal    exitCode = 1
	exitUsage       exitCode = 2
	exitPartial     exitCode = 3
	exitInDoubt     exitCode = 4
	exitGuard       exitCode = 5
	exitThrottled   exitCode = 6
	exitAuth        exitCode = 7
	exitStopped     exitCode = 8
	exitUnreachable exitCode = 9
	exitLocalIO     exitCode = 10
	exitBusy        exitCode = 11
	exitIncomplete  exitCode = 12
	exitOverdue     exitCode = 13
	exitChanges     exitCode = 20
	exitCanary      exitCode = 21
	exitAborted     exitCode = 130
)

// exitRow is one line of the table of exit codes.
type exitRow struct {
	code    exitCode
	name    string
	meaning string
}

// exitTable is the one table of exit codes: help, documentation and JSON
// names are taken from it.
var exitTable = []exitRow{
	{exitOK, "ok", "every item done, unchanged or skipped"},
	{exitInternal, "internal", "a bug"},
	{exitUsage, "usage", "flags, job file, config or CSV; nothing was sent"},
	{exitPartial, "partial", "finished, some items failed"},
	{exitInDoubt, "in_doubt", "some writes need a decision (wins over 3)"},
	{exitGuard, "guard", "stopped by a guard before harm"},
	{exitThrottled, "throttled", "pause budget spent; resumable"},
	{exitAuth, "auth", "login refused or a right is missing; resumable"},
	{exitStopped, "stopped", "asked to stop, time limit, window closed; resumable"},
	{exitUnreachable, "unreachable", "no connection (DNS, TCP, TLS, proxy) or a token endpoint that stays broken; resumable"},
	{exitLocalIO, "local_io", "state, disk, share or output file"},
	{exitBusy, "busy", "another run of the job holds the lock"},
	{exitIncomplete, "incomplete", "an export that cannot prove it is complete; nothing published"},
	{exitOverdue, "overdue", "`status --max-age 26h`: the last success is older"},
	{exitChanges, "changes", "`plan --detailed-exitcode` found changes"},
	{exitCanary, "canary_wait", "the first writes of `--canary` are as wanted; the rest waits for `apply`"},
	{exitAborted, "aborted", "second Ctrl-C"},
}

// name returns the name of c in the table.
func (c exitCode) name() string {
	for _, row := range exitTable {
		if row.code == c {
			return row.name
		}
	}
	return exitInternal.name()
}

// exitError is an error that knows its exit code and, where there is one, the
// next step for the user.
type exitError struct {
	code exitCode
	err  error
	hint string // one hint a line; "" for none

	// silent keeps the message off standard error: the verb has shown it
	// already, in its own words. The JSON result still carries it.
	silent bool
}

func (e *exitError) Error() string {
	if e.err == nil {
		return e.code.name()
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// fail builds an exitError from a format.
func fail(code exitCode, format string, args ...any) *exitError {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// usagef is fail for the user's own input.
func usagef(format string, args ...any) *exitError {
	return fail(exitUsage, format, args...)
}

// withHint adds a hint and returns e.
func (e *exitError) withHint(format string, args ...any) *exitError {
	h := fmt.Sprintf(format, args...)
	if e.hint != "" {
		h = e.hint + "\n" + h
	}
	e.hint = h
	return e
}

// writeExitTable prints the table of exit codes for people.
func writeExitTable(w io.Writer) {
	t := newTable("exit", "name", "meaning")
	for _, row := range exitTable {
		t.add(fmt.Sprint(int(row.code)), row.name, row.meaning)
	}
	t.write(w)
}
