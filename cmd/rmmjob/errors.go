package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// classify is the one place that maps an error, whichever package it comes
// from, to the exit code of the process and to hints, one a line.
func classify(err error, stop stopSignals) (exitCode, string) {
	if err == nil {
		return exitOK, ""
	}
	if xe, ok := errors.AsType[*exitError](err); ok {
		_, hint := causeOf(xe.err, stop)
		switch {
		case hint == "" || strings.Contains(xe.hint, hint):
			hint = xe.hint
		case xe.hint != "":
			hint += "\n" + xe.hint
		}
		return xe.code, hint
	}
	return causeOf(err, stop)
}

func causeOf(err error, stop stopSignals) (exitCode, string) {
	var (
		jobFaults  jobs.Errors
		jobFault   *jobs.Error
		guard      *jobs.GuardError
		incomplete *jobs.IncompleteError
		exhausted  *throttle.ExhaustedError
		corrupt    *checkpoint.CorruptError
		version    *checkpoint.VersionError
		stateIO    *checkpoint.IOError
		ambiguous  *checkpoint.AmbiguousError
		api        *rmm.Error
		path       *fs.PathError
	)
	switch {
	case err == nil:
		return exitInternal, ""
	case errors.As(err, &jobFaults), errors.As(err, &jobFault):
		return exitUsage, ""
	case errors.As(err, &guard):
		return exitGuard, ""
	case errors.As(err, &incomplete):
		return exitIncomplete, ""
	case errors.As(err, &exhausted):
		return exitThrottled, ""
	case errors.As(err, &corrupt), errors.As(err, &version), errors.As(err, &stateIO):
		return exitLocalIO, ""
	case errors.As(err, &ambiguous):
		return exitUsage, ""
	case errors.Is(err, checkpoint.ErrNotFound):
		return exitUsage, "rmmjob runs lists the runs"
	case errors.Is(err, context.Canceled) && stop.hard != nil && stop.hard.Err() != nil:
		return exitAborted, ""
	case errors.Is(err, context.Canceled) && stop.soft != nil && stop.soft.Err() != nil:
		return exitStopped, ""
	case errors.As(err, &api):
		return apiCode(api)
	case errors.As(err, &path), output.DiskFull(err):
		return exitLocalIO, ""
	}
	return exitInternal, ""
}

// apiCode maps an error of the client, for verbs that ask the API themselves.
func apiCode(e *rmm.Error) (exitCode, string) {
	switch e.Kind {
	case rmm.KindAuth:
		return exitAuth, "check key, secret and address; a key of another platform is refused like a wrong one"
	case rmm.KindToken, rmm.KindTransport:
		return exitUnreachable, networkHint(e)
	case rmm.KindProtocol:
		return exitUnreachable, "the answer is not the API's; check the address and any proxy between"
	}
	switch e.Status {
	case 401, 403:
		return exitAuth, ""
	case 429:
		return exitThrottled, ""
	}
	if e.Status >= 500 {
		return exitUnreachable, ""
	}
	return exitPartial, ""
}

// networkHint names the next step for the faults that have one.
func networkHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		hint := "if your network inspects TLS, give its certificate with --ca-cert FILE"
		if c := unknown.Cert; c != nil && c.Issuer.String() != "" {
			hint = fmt.Sprintf("the certificate was issued by %q; %s", c.Issuer.String(), hint)
		}
		return hint
	case errors.As(err, &host):
		return "the certificate is for another host; check the address"
	case isProxyFault(err):
		return "the proxy does not answer; check HTTPS_PROXY, or set NO_PROXY for the address if it needs none"
	case connectionRefused(err):
		return "nothing listens there; check the address and the port"
	}
	return "check the network, the address and HTTPS_PROXY"
}

// isProxyFault tells whether it was the proxy that could not be reached.
func isProxyFault(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "proxyconnect"
}

// messages returns the separate faults in err, each one message.
func messages(err error) []string {
	var list jobs.Errors
	var xe *exitError
	if errors.As(err, &list) && (errors.As(err, &xe) && xe.err.Error() == list.Error() || err.Error() == list.Error()) {
		out := make([]string, len(list))
		for i, e := range list {
			out[i] = e.Error()
		}
		return out
	}
	return []string{err.Error()}
}
