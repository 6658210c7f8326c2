package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/throttle"
)

// TestClassify is the whole table: every kind of outcome with every class of
// operation, sent or not, in the middle of a stop or not.
func TestClassify(t *testing.T) {
	// What a row expects: the same for all, or one for requests that may be
	// repeated (read, idempotent, never sent) and one for those that may not.
	type expect struct {
		action  action
		class   string
		outage  bool
		offline bool
		halt    checkpoint.RunState
	}
	var (
		fail    = func(class string) expect { return expect{action: actFail, class: class} }
		release = func(class string) expect { return expect{action: actRelease, class: class} }
		retry   = func(class string) expect { return expect{action: actRetry, class: class} }
		doubt   = func(class string) expect { return expect{action: actDoubt, class: class} }
		down    = func(e expect) expect { e.outage = true; return e }
		gone    = func(e expect) expect { e.outage, e.offline = true, true; return e }
	)
	type row struct {
		name          string
		kind          rmm.Kind
		json          bool
		statuses      []int
		safe          expect // may be repeated
		lost          expect // must not be repeated
		unsent        expect // never left, whatever the class
		stopping      *expect
		stoppingLost  *expect
		stoppedUnsent *expect
	}
	same := func(e expect) (expect, expect, expect) { return e, e, e }
	rows := []row{}
	add := func(r row, safe, lost, unsent expect) {
		r.safe, r.lost, r.unsent = safe, lost, unsent
		rows = append(rows, r)
	}
	status := func(e expect, codes ...int) {
		safe, lost, unsent := same(e)
		for _, json := range []bool{false, true} {
			add(row{name: "status", kind: rmm.KindStatus, json: json, statuses: codes}, safe, lost, unsent)
		}
	}
	status(fail(classRejected), 400, 402, 405, 406, 410, 413, 415, 418, 422, 451, 499)
	status(fail(classPermission), 403)
	status(fail(classNotFound), 404)
	status(retry(classConflict), 409)
	status(release(classAuth), 401)
	status(release(classThrottled), 429)
	for _, json := range []bool{false, true} {
		add(row{name: "server", kind: rmm.KindStatus, json: json, statuses: []int{408, 500, 501, 502, 503, 504, 520, 599}},
			down(retry(classService)), down(doubt(classService)), down(retry(classService)))
	}
	auth := release(classAuth)
	auth.halt = checkpoint.RunAuth
	safe, lost, unsent := same(auth)
	add(row{name: "login refused", kind: rmm.KindAuth, statuses: []int{400, 401}}, safe, lost, unsent)
	safe, lost, unsent = same(gone(release(classNetwork)))
	add(row{name: "no login", kind: rmm.KindToken, statuses: []int{0, 200, 503}}, safe, lost, unsent)
	stopped, stoppedLost := release(classStopped), doubt(classStopped)
	add(row{
		name: "no answer", kind: rmm.KindTransport, statuses: []int{0},
		stopping: &stopped, stoppingLost: &stoppedLost, stoppedUnsent: &stopped,
	}, down(retry(classNetwork)), down(doubt(classNetwork)), gone(release(classNetwork)))
	add(row{name: "web page", kind: rmm.KindProtocol, statuses: []int{200, 302}},
		down(retry(classProtocol)), down(doubt(classProtocol)), down(retry(classProtocol)))
	add(row{name: "odd JSON", kind: rmm.KindProtocol, json: true, statuses: []int{200}},
		retry(classProtocol), doubt(classProtocol), retry(classProtocol))

	check := func(t *testing.T, name string, got verdict, want expect) {
		t.Helper()
		have := expect{got.action, got.class, got.outage, got.offline, got.halt}
		if have != want {
			t.Errorf("%s: %+v, want %+v", name, have, want)
		}
		if got.reason == "" {
			t.Errorf("%s: no reason", name)
		}
	}
	cells := 0
	for _, r := range rows {
		for _, code := range r.statuses {
			for _, class := range []rmm.Class{rmm.ClassRead, rmm.ClassIdempotent, rmm.ClassVerify, rmm.ClassUnsafe} {
				for _, sent := range []bool{true, false} {
					for _, stopping := range []bool{false, true} {
						repeatable := class == rmm.ClassRead || class == rmm.ClassIdempotent
						want := r.lost
						switch {
						case stopping && r.stopping != nil && !sent:
							want = *r.stoppedUnsent
						case stopping && r.stopping != nil && repeatable:
							want = *r.stopping
						case stopping && r.stopping != nil:
							want = *r.stoppingLost
						case !sent:
							want = r.unsent
						case repeatable:
							want = r.safe
						}
						err := &rmm.Error{Op: "x", Kind: r.kind, Status: code, Message: "text", JSON: r.json, Sent: sent}
						name := fmt.Sprintf("%s %d json=%v %s sent=%v stopping=%v", r.name, code, r.json, class, sent, stopping)
						op := rmm.Operation{Class: class}
						check(t, name, classify(op, fmt.Errorf("wrapped: %w", err), false, stopping), want)
						// Whatever the limiter takes for a limit goes back unspent.
						check(t, name+" returned", classify(op, err, true, stopping), release(classThrottled))
						cells += 2
					}
				}
			}
		}
	}
	if cells < 1000 {
		t.Errorf("only %d cells", cells)
	}

	// What is no error of the client.
	for _, class := range []rmm.Class{rmm.ClassRead, rmm.ClassIdempotent, rmm.ClassVerify, rmm.ClassUnsafe} {
		op := rmm.Operation{Class: class}
		for _, stopping := range []bool{false, true} {
			if v := classify(op, nil, false, stopping); v.action != actDone || v.outage || v.halt != "" {
				t.Errorf("%s: a good answer gives %+v", class, v)
			}
		}
		check(t, "foreign error", classify(op, errors.New("bug"), false, false), fail(classBug))
		check(t, "foreign error in a stop", classify(op, context.Canceled, false, true), release(classStopped))
	}
}

// The reason of an item names the status once and falls back to something.
func TestClassifyReason(t *testing.T) {
	v := classify(rmm.Operation{Class: rmm.ClassIdempotent}, &rmm.Error{Op: "device-udf-set", Kind: rmm.KindStatus, Status: 400, Message: "400 Bad Request: udf7 too long", JSON: true, Sent: true}, false, false)
	if got := v.reason; strings.Count(got, "400") != 1 || !strings.Contains(got, "udf7 too long") {
		t.Errorf("reason %q", got)
	}
	v = classify(rmm.Operation{}, &rmm.Error{Op: "devices", Kind: rmm.KindTransport}, false, false)
	if v.reason == "" {
		t.Error("no reason")
	}
}

func TestResultOf(t *testing.T) {
	tests := []struct {
		name   string
		status int
		err    error
		want   throttle.Result
	}{
		{"good", 204, nil, throttle.Result{Status: 204, JSON: true}},
		{"refused", 0, &rmm.Error{Kind: rmm.KindStatus, Status: 429, HasRetryAfter: true, RetryAfter: 7, JSON: true}, throttle.Result{Status: 429, JSON: true, RetryAfter: 7, HasRetryAfter: true}},
		{"blocked", 0, &rmm.Error{Kind: rmm.KindStatus, Status: 403}, throttle.Result{Status: 403}},
		{"login blocked", 0, &rmm.Error{Kind: rmm.KindToken, Status: 403}, throttle.Result{Status: 403}},
		{"never left", 0, &rmm.Error{Kind: rmm.KindTransport}, throttle.Result{}},
		{"no answer", 0, &rmm.Error{Kind: rmm.KindTransport, Sent: true}, throttle.Result{Status: 504}},
		{"web page", 0, &rmm.Error{Kind: rmm.KindProtocol, Status: 200, Sent: true}, throttle.Result{Status: 200}},
		{"wrapped", 0, fmt.Errorf("x: %w", &rmm.Error{Kind: rmm.KindStatus, Status: 500}), throttle.Result{Status: 500}},
		{"foreign", 0, errors.New("x"), throttle.Result{}},
	}
	for _, tt := range tests {
		if got := ResultOf(tt.status, tt.err); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestFinal(t *testing.T) {
	if !final(&rmm.Error{Err: &tls.CertificateVerificationError{Err: errors.New("x")}}) {
		t.Error("a bad certificate is tried again")
	}
	if final(&rmm.Error{Err: errRefused}) || final(nil) {
		t.Error("a refused connection is final")
	}
}

func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		v    verdict
		want int
	}{
		{verdict{class: classConflict}, 5},
		{verdict{class: classProtocol}, 2},
		{verdict{class: classProtocol, outage: true}, 10},
		{verdict{class: classService, outage: true}, 10},
		{verdict{class: classNetwork, outage: true}, 10},
	} {
		if got := attempts(tt.v); got != tt.want {
			t.Errorf("%+v: %d attempts, want %d", tt.v, got, tt.want)
		}
	}
}
