package runner

import (
	"errors"
	"net/http"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
)

// action is what becomes of an item after one request.
type action int

const (
	actDone    action = iota // settled well
	actFail                  // settled badly
	actRetry                 // pending again after a growing delay; counts as an attempt
	actRelease               // pending again at once; the attempt did not count
	actDoubt                 // sent, perhaps done, never to be repeated by itself
	actSkip                  // not applicable: settled, and no fault
)

// verdict is the decision on one item and what it means for the run.
type verdict struct {
	action  action
	class   string // error class for reports
	reason  string // one line for people, with the status
	status  int
	outage  bool // a fault of the network or the service: feeds the breaker
	offline bool // the service could not be reached at all
	halt    checkpoint.RunState
	unsure  bool // it is a write that was sent, and may have been carried out
}

// Error classes, which separate "fix your data" from "try again".
const (
	classRejected   = "rejected"              // 400 and other refusals of the request itself
	classPermission = "permission"            // 403 of one operation or object
	classNotFound   = "not_found"             // 404
	classConflict   = "conflict"              // 409 that did not pass
	classService    = "service"               // 5xx, 408
	classNetwork    = "network"               // no answer
	classProtocol   = "protocol"              // an answer that cannot be used
	classThrottled  = "throttled"             // 429 or a block
	classAuth       = "auth"                  // login refused
	classStopped    = checkpoint.ClassStopped // cut off by a stop
	classBug        = "internal"              // a panic or a fault of our own
)

// ErrorClasses are the classes of failed items that a run can have.
func ErrorClasses() []string {
	return append(TransientClasses(), append(DataClasses(), classAuth, classBug)...)
}

// TransientClasses are those that may pass by themselves: try again.
func TransientClasses() []string {
	return []string{classService, classNetwork, classProtocol, classConflict, classThrottled, classStopped}
}

// DataClasses are those that stay until somebody changes the data or the rights.
func DataClasses() []string { return []string{classRejected, classPermission, classNotFound} }

// attempts is how often an item may fail for the same transient reason before it
// is settled as failed. With the schedule of backoff, ten attempts last about four
// minutes. A conflict of two writers is over sooner, and an answer of the API that
// makes no sense seldom gets better.
func attempts(v verdict) int {
	switch {
	case v.class == classConflict:
		return 5
	case v.class == classProtocol && !v.outage:
		return 2
	}
	return 10
}

// classify is the one table from the outcome of a request to the next state of
// its item. It is pure: err is what the caller returned, returned says that the
// limiter took it for a rate limit or a block, and stopping that the run cut the
// request off.
func classify(op rmm.Operation, err error, returned, stopping bool) verdict {
	if err == nil {
		return verdict{action: actDone}
	}
	safe := op.Class == rmm.ClassRead || op.Class == rmm.ClassIdempotent

	var e *rmm.Error
	if !errors.As(err, &e) {
		if stopping {
			return verdict{action: actRelease, class: classStopped, reason: "stopped before it was sent"}
		}
		return verdict{action: actFail, class: classBug, reason: err.Error()}
	}
	v := verdict{reason: e.Message, status: e.Status}
	if v.reason == "" {
		v.reason = e.Error()
	}
	// repeat is the next state where the request may be sent again; lost where
	// nobody knows whether it was carried out.
	repeat := func(class string) verdict {
		v.action, v.class = actRetry, class
		return v
	}
	lost := func(class string) verdict {
		v.unsure = e.Sent && op.Class != rmm.ClassRead
		if safe || !e.Sent {
			return repeat(class)
		}
		v.action, v.class = actDoubt, class
		return v
	}

	if returned {
		v.action, v.class = actRelease, classThrottled
		return v
	}
	switch e.Kind {
	case rmm.KindAuth:
		v.action, v.class, v.halt = actRelease, classAuth, checkpoint.RunAuth
		return v
	case rmm.KindToken:
		v.action, v.class, v.outage, v.offline = actRelease, classNetwork, true, true
		return v
	case rmm.KindTransport:
		if stopping {
			if safe || !e.Sent {
				return verdict{action: actRelease, class: classStopped, reason: "cut off by a stop", unsure: e.Sent && op.Class != rmm.ClassRead}
			}
			return verdict{action: actDoubt, class: classStopped, reason: "cut off by a stop after it was sent; nobody knows whether it was carried out"}
		}
		v.outage = true
		v.offline = !e.Sent
		if !e.Sent {
			// It never left, so no attempt was made; the breaker decides how long
			// this may go on.
			v.action, v.class = actRelease, classNetwork
			return v
		}
		return lost(classNetwork)
	case rmm.KindProtocol:
		// A web page or half an answer is not the API speaking.
		v.outage = !e.JSON
		return lost(classProtocol)
	}

	switch s := e.Status; {
	case s == http.StatusUnauthorized:
		// The client has dropped its token and logs in again for all.
		v.action, v.class = actRelease, classAuth
	case s == http.StatusTooManyRequests:
		v.action, v.class = actRelease, classThrottled
	case s == http.StatusForbidden:
		v.action, v.class = actFail, classPermission
	case (s == http.StatusNotFound || s == http.StatusBadRequest) && op.Class == rmm.ClassRead && len(op.PathParams()) > 0:
		// What one object has is asked of many. This one has left meanwhile, or is
		// of a kind that has no such thing, as a printer has no programs.
		v.action = actSkip
	case s == http.StatusNotFound:
		v.action, v.class = actFail, classNotFound
	case s == http.StatusConflict:
		// Another writer held the record and nothing was done; a new name that
		// exists already also answers so, and ends as failed after a few tries.
		return repeat(classConflict)
	case s == http.StatusRequestTimeout, s >= 500:
		v.outage = true
		return lost(classService)
	default:
		v.action, v.class = actFail, classRejected
	}
	return v
}

// final tells whether trying again cannot help: a certificate that is not
// trusted stays so.
func final(err error) bool {
	e, ok := errors.AsType[*rmm.Error](err)
	return ok && e.BadCertificate()
}
