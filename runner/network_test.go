package runner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmmsim"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// After a 429 that names no time nothing at all is sent for the window of the
// limits, and the refused request costs its item no attempt.
func TestCase_N01_429WithoutHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20})
		b.faults(rmmsim.Fault{
			Match: rmmsim.Match{Operation: "devices", Nth: 1}, Do: rmmsim.Action{Status: 429, HTML: "Too Many Requests"},
		})
		b.export(250)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		sent := b.requests("devices")
		if len(sent) != 2 {
			t.Fatalf("%d requests for the list, want the refused one and one more", len(sent))
		}
		if gap := sent[1].Time.Sub(sent[0].Done); gap < time.Minute || gap > 3*time.Minute {
			t.Errorf("asked again after %s, want the default of 120 s", gap)
		}
		if n := b.between(sent[0].Done, sent[0].Done.Add(time.Minute)); n > 0 {
			t.Errorf("%d requests in the minute after the 429", n)
		}
		if it := b.item("devices"); it.Attempts != 1 {
			t.Errorf("%d attempts, the refused one must not count", it.Attempts)
		}
		rec, err := b.store.Run(t.Context(), runID)
		if err != nil || rec.Throttled != 1 {
			t.Errorf("the run counts %d answers 429, want 1 (%v)", rec.Throttled, err)
		}
		if sum.Held < time.Minute || sum.Retries != 0 {
			t.Errorf("held %s with %d retries; want the pause and no retry", sum.Held, sum.Retries)
		}
		b.sameElements(b.elements(), b.fleet())
	})
}

// One 429 stops all workers: what is in flight arrives, then there is silence,
// then one request alone, then spaced ones.
func TestCase_N03_OneRefusalStopsAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 2000, UDFs: 30, Latency: 700 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Nth: 60}, Do: rmmsim.Action{Status: 429}})
		b.export(10, "second_walk: never")
		b.want(b.run(workers(16)), checkpoint.RunOK)

		sent := b.requests("devices")
		var refused rmmsim.Record
		for _, r := range sent {
			if r.Status == 429 {
				refused = r
			}
		}
		// Whatever arrived after the answer had left was not sent before it.
		if n := b.between(refused.Done, refused.Done.Add(2*time.Minute)); n > 0 {
			t.Errorf("%d requests in the two minutes after the 429", n)
		}
		var after []rmmsim.Record
		for _, r := range sent {
			if r.Time.After(refused.Done) {
				after = append(after, r)
			}
		}
		if len(after) < 100 {
			t.Fatalf("only %d pages after the pause", len(after))
		}
		if after[1].Time.Before(after[0].Done) {
			t.Errorf("the second request after the pause left before the first was answered")
		}
		inMinute := 0
		for i, r := range after[1:] {
			if r.Time.Before(after[0].Done.Add(time.Minute)) {
				inMinute++
				if gap := r.Time.Sub(after[i].Time); gap < 190*time.Millisecond {
					t.Fatalf("request %d after the pause came %s after the one before", i+2, gap)
				}
			}
		}
		if inMinute > 300 || inMinute < 60 {
			t.Errorf("%d requests in the first minute after the pause", inMinute)
		}
		// 1 is the page that was refused.
		if again := repeated(sent); len(again) != 1 {
			t.Errorf("sent again: %v", again)
		}
		b.sameElements(b.elements(), b.fleet())
	})
}

// A block of the address is no lack of permission: nothing is sent while it
// lasts except one look for every five minutes, and no item fails.
func TestCase_N04_BlockedAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, Latency: 100 * time.Millisecond})
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", From: 10, To: 12}, Do: rmmsim.Action{Status: 429, HTML: "Too Many Requests"}},
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 13}, Do: rmmsim.Action{Block: 300 * time.Second}},
		)
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		var blocked rmmsim.Record
		for _, r := range b.account.Log() {
			if r.Blocked {
				blocked = r
				break
			}
		}
		if blocked.Seq == 0 {
			t.Fatal("the account has blocked nobody")
		}
		if n := b.between(blocked.Done, blocked.Done.Add(300*time.Second)); n > 0 {
			t.Errorf("%d requests during the block", n)
		}
		if n := b.account.Counts().Blocked; n > 8 {
			t.Errorf("%d requests met the block, more than were in flight", n)
		}
		ev, ok := b.event(throttle.EventBlock)
		if !ok || !strings.Contains(ev.Text, "blocked") || strings.Contains(ev.Text, "permission") {
			t.Errorf("the event of the block: %+v", ev)
		}
		if sum.Counts.Failed != 0 || sum.Retries != 0 || b.tagged(0) != 60 {
			t.Errorf("%+v, %d retries, %d devices tagged", sum.Counts, sum.Retries, b.tagged(0))
		}
		for path, n := range b.acked() {
			if n != 1 {
				t.Errorf("%s acknowledged %d times", path, n)
			}
		}
	})
}

// A login that meets the block is treated the same way.
func TestBlockedAtLogin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 5})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "token", Nth: 1}, Do: rmmsim.Action{Block: 300 * time.Second}})
		b.export(250)
		b.want(b.run(), checkpoint.RunOK)
		log := b.account.Log()
		early := 0
		for _, r := range log {
			if b.at(r) < 299*time.Second {
				early++
			}
		}
		if early > 2 {
			t.Errorf("%d requests during the block, want the login and at most one look", early)
		}
	})
}

// The delays of a retry really happen and grow, and the summary tells them.
func TestCase_N06_BackOffHappens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 20})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", To: 4}, Do: rmmsim.Action{Status: 503}})
		b.export(250)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		sent := b.requests("devices")
		if len(sent) != 5 {
			t.Fatalf("%d requests, want 5", len(sent))
		}
		for i, want := range []time.Duration{1, 2, 4, 8} {
			want *= time.Second
			gap := sent[i+1].Time.Sub(sent[i].Time)
			if gap < want*8/10 || gap > want*12/10+10*time.Millisecond {
				t.Errorf("gap %d is %s, want %s ± 20 %%", i+1, gap, want)
			}
		}
		if sum.Retries != 4 {
			t.Errorf("%d retries, want 4", sum.Retries)
		}
		if took := sent[4].Time.Sub(sent[0].Time); sum.Waited < took-time.Second || sum.Waited > took+time.Second || sum.Down != sum.Waited {
			t.Errorf("waited %s by the summary, %s for the service, %s by the clock", sum.Waited, sum.Down, took)
		}
	})
}

// A web page with status 200 is no answer: tried again, and given up in a way
// that the next call can take up.
func TestCase_N07_WebPageWith200(t *testing.T) {
	page1 := rmmsim.Match{Operation: "devices", Query: map[string]string{"page": "1"}}
	maintenance := rmmsim.Action{Status: 200, HTML: "Maintenance"}
	t.Run("twice", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 30})
			twice := page1
			twice.To = 2
			b.faults(rmmsim.Fault{Match: twice, Do: maintenance})
			b.export(10)
			sum := b.run()
			b.want(sum, checkpoint.RunOK)
			if sum.Retries != 2 {
				t.Errorf("%d retries, want 2", sum.Retries)
			}
			b.sameElements(b.elements(), b.fleet())
		})
	})
	t.Run("endless", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 30})
			b.faults(rmmsim.Fault{Match: page1, Do: maintenance})
			b.export(10)
			sum := b.run()
			b.want(sum, checkpoint.RunUnreachable)
			if sum.Err == nil || !strings.Contains(sum.Err.Error(), "Maintenance") {
				t.Errorf("the reason does not name the page: %v", sum.Err)
			}
			if n := len(b.requests("devices")); n > 20 {
				t.Errorf("%d requests until it gave up", n)
			}
			b.account.ClearFaults()
			b.reopen()
			b.want(b.run(), checkpoint.RunOK)
			b.sameElements(b.elements(), b.fleet())
		})
	})
	// Writes are held back by a maintenance page, not failed one after the other.
	t.Run("on writes", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 200, Latency: 50 * time.Millisecond})
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", At: 5 * time.Second, For: 90 * time.Second}, Do: maintenance})
			b.tag(0)
			sum := b.run()
			b.want(sum, checkpoint.RunOK)
			if n := b.account.Counts().Requests; n > 200+80 {
				t.Errorf("%d requests for 200 writes", n)
			}
			if b.tagged(0) != 200 {
				t.Errorf("%d devices tagged", b.tagged(0))
			}
		})
	})
}

// 40 seconds of gateway errors lose nothing and cost few requests.
func TestCase_N11_BurstOfGatewayErrors(t *testing.T) {
	for name, at := range map[string]time.Duration{"in the middle": 10 * time.Second, "from the start": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, rmmsim.Config{Devices: 200, UDFs: 30, Latency: 200 * time.Millisecond})
				during := func(p float64, seed uint64) rmmsim.Match {
					return rmmsim.Match{Operation: "*", At: at, For: 40 * time.Second, Probability: p, Seed: seed}
				}
				b.faults(
					rmmsim.Fault{Name: "out", Match: during(1.0/3, 1), Do: rmmsim.Action{Status: 502, HTML: "Bad Gateway"}},
					rmmsim.Fault{Name: "out", Match: during(0.5, 2), Do: rmmsim.Action{Status: 503}},
					rmmsim.Fault{Name: "out", Match: during(0, 0), Do: rmmsim.Action{Status: 504}},
				)
				b.tag(0)
				sum := b.run()
				b.want(sum, checkpoint.RunOK)
				met := 0
				for _, r := range b.account.Log() {
					if r.Fault == "out" {
						met++
					}
				}
				if met < 4 || met > 40 {
					t.Errorf("%d requests met the outage", met)
				}
				if b.tagged(0) != 200 || sum.Counts.Failed+sum.Counts.InDoubt != 0 {
					t.Errorf("%d of 200 tagged; %+v", b.tagged(0), sum.Counts)
				}
				for path, n := range b.acked() {
					if n != 1 {
						t.Errorf("%s acknowledged %d times", path, n)
					}
				}
			})
		})
	}
}

// Eight workers meet the end of their token: one login for all of them.
func TestCase_N12_OneLoginForAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 200, Latency: 900 * time.Millisecond, SingleToken: true})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 50}, Do: rmmsim.Action{InvalidateToken: true}})
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunOK)
		if n := len(b.requests("token")); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
		if refused := b.account.Counts().Operations["device-udf-set"][401]; refused < 2 || refused > 8 {
			t.Errorf("%d requests were refused; the test means to refuse several at once", refused)
		}
		if sum.Counts.Failed != 0 || b.tagged(0) != 200 {
			t.Errorf("%+v, %d tagged", sum.Counts, b.tagged(0))
		}
		for key, it := range b.items() {
			if it.Attempts > 1 {
				t.Errorf("%s: %d attempts, a 401 is none", key, it.Attempts)
			}
		}
	})
}

// An operation that answers 401 for good ends the run as auth, and does not log
// in over and over.
func TestRefusedForGoodIsAuth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 300, Latency: 100 * time.Millisecond})
		uid := b.uids(1)[0]
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", UID: uid}, Do: rmmsim.Action{Status: 401}})
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunAuth)
		if n := len(b.requests("token")); n > 4 {
			t.Errorf("%d logins", n)
		}
		b.account.ClearFaults()
		b.reopen()
		b.want(b.run(), checkpoint.RunOK)
		if b.tagged(0) != 300 {
			t.Errorf("%d tagged", b.tagged(0))
		}
	})
}

// A request that never left costs no attempt; the service is tried for a while,
// and given up in a resumable way.
func TestNoConnection(t *testing.T) {
	t.Run("never any", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 5})
			b.net.set(func(*http.Request) error { return errRefused })
			b.export(250)
			sum := b.run()
			b.want(sum, checkpoint.RunUnreachable)
			if took := time.Since(b.began); took > firstGiveUp {
				t.Errorf("took %s to give up on an address that never answered", took)
			}
			if b.net.lost < 3 {
				t.Errorf("tried only %d times", b.net.lost)
			}
			if sum.Waited == 0 || sum.Waited > time.Since(b.began) {
				t.Errorf("waited %s by the summary, %s by the clock", sum.Waited, time.Since(b.began))
			}
			b.net.set(nil)
			b.reopen()
			b.want(b.run(), checkpoint.RunOK)
		})
	})
	t.Run("comes back", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 100, Latency: 100 * time.Millisecond})
			b.net.set(unplugged(b.began.Add(time.Second), b.began.Add(4*time.Minute)))
			b.work = handmade{list: b.quickJobs(100)}
			sum := b.run()
			b.want(sum, checkpoint.RunOK)
			if b.account.Jobs() != 100 {
				t.Errorf("%d jobs made, want 100", b.account.Jobs())
			}
			if b.net.lost < 5 || b.net.lost > 30 {
				t.Errorf("%d requests tried in four minutes without a network", b.net.lost)
			}
			for key, it := range b.items() {
				if it.Attempts != 1 {
					t.Errorf("%s: %d attempts", key, it.Attempts)
				}
			}
		})
	})
	t.Run("stays away", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 100, Latency: 100 * time.Millisecond})
			cut := b.began.Add(time.Second)
			b.net.set(unplugged(cut, cut.Add(24*time.Hour)))
			b.tag(0)
			sum := b.run(func(cfg *Config) { cfg.GiveUp = 5 * time.Minute })
			b.want(sum, checkpoint.RunUnreachable)
			if took := time.Since(cut); took < 2*time.Minute || took > 5*time.Minute {
				t.Errorf("gave up after %s, want close to 5 min", took)
			}
			if sum.Counts.Failed != 0 || sum.Counts.Pending == 0 {
				t.Errorf("%+v", sum.Counts)
			}
			b.net.set(nil)
			b.reopen()
			b.want(b.run(), checkpoint.RunOK)
			if b.tagged(0) != 100 || len(repeated(b.requests("device-udf-set"))) > 0 {
				t.Errorf("%d tagged, sent again: %v", b.tagged(0), repeated(b.requests("device-udf-set")))
			}
		})
	})
	// Two kinds of outage after each other must not confuse the breaker.
	t.Run("then 503", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 50, Latency: 100 * time.Millisecond})
			b.net.set(unplugged(b.began.Add(time.Second), b.began.Add(1500*time.Millisecond)))
			b.faults(rmmsim.Fault{Match: rmmsim.Match{At: 1500 * time.Millisecond, For: 10 * time.Second}, Do: rmmsim.Action{Status: 503}})
			b.tag(0)
			b.want(b.run(workers(1)), checkpoint.RunOK)
			if b.tagged(0) != 50 || b.net.lost == 0 {
				t.Errorf("%d tagged, %d requests lost", b.tagged(0), b.net.lost)
			}
			if took := time.Since(b.began); took > 5*time.Minute {
				t.Errorf("took %s", took)
			}
		})
	})
}

// A certificate that is not trusted stays so: one try.
func TestUntrustedCertificateStopsAtOnce(t *testing.T) {
	bad := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	t.Run("at login", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 5})
			b.net.set(func(*http.Request) error { return bad })
			b.export(250)
			sum := b.run()
			b.want(sum, checkpoint.RunUnreachable)
			if b.net.lost != 1 || time.Since(b.began) > time.Second {
				t.Errorf("%d tries in %s", b.net.lost, time.Since(b.began))
			}
			if !errors.As(sum.Err, new(*tls.CertificateVerificationError)) {
				t.Errorf("the cause is lost: %v", sum.Err)
			}
		})
	})
	t.Run("later", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 50, Latency: 100 * time.Millisecond})
			b.net.set(func(*http.Request) error {
				if time.Since(b.began) < 3*time.Second {
					return nil
				}
				return bad
			})
			b.tag(0)
			b.want(b.run(workers(1)), checkpoint.RunUnreachable)
			if b.net.lost != 1 {
				t.Errorf("%d tries", b.net.lost)
			}
		})
	})
}

// A refused login ends the run before anything else is asked.
func TestRefusedLogin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 5, Key: "right", Secret: "right"})
		b.export(250)
		sum := b.run()
		b.want(sum, checkpoint.RunAuth)
		if log := b.account.Log(); len(log) != 1 || log[0].Operation != "token" {
			t.Errorf("%d requests, want one login", len(log))
		}
		if sum.Counts.Pending != 1 || sum.Err == nil {
			t.Errorf("%+v, %v", sum.Counts, sum.Err)
		}
		b.connect("right", "right")
		b.want(b.run(), checkpoint.RunOK)
	})
}

// Credentials that are refused in the middle of a run stop it as auth, with
// everything else intact.
func TestRefusedRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 100, Latency: 100 * time.Millisecond})
		b.faults(
			rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 30}, Do: rmmsim.Action{InvalidateToken: true}},
			rmmsim.Fault{Match: rmmsim.Match{Operation: "token", From: 2}, Do: rmmsim.Action{Status: 400, Body: `{"error":"invalid_grant"}`}},
		)
		b.tag(0)
		sum := b.run()
		b.want(sum, checkpoint.RunAuth)
		if n := len(b.requests("token")); n > 4 {
			t.Errorf("%d logins", n)
		}
		if sum.Counts.Failed != 0 || sum.Counts.Pending < 60 {
			t.Errorf("%+v", sum.Counts)
		}
	})
}

// A token endpoint that is out of order for a while is waited for, at the start
// and later.
func TestTokenEndpointOutOfOrder(t *testing.T) {
	t.Run("at the start", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 20})
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "token", For: time.Minute}, Do: rmmsim.Action{Status: 503}})
			b.export(250)
			b.want(b.run(), checkpoint.RunOK)
			if n := len(b.requests("token")); n > 10 {
				t.Errorf("%d logins", n)
			}
		})
	})
	t.Run("for good", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 20})
			b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "token"}, Do: rmmsim.Action{Status: 503}})
			b.export(250)
			b.want(b.run(func(cfg *Config) { cfg.GiveUp = 3 * time.Minute }), checkpoint.RunUnreachable)
			if took := time.Since(b.began); took > 3*time.Minute {
				t.Errorf("took %s", took)
			}
		})
	})
	t.Run("later", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, rmmsim.Config{Devices: 100, Latency: 100 * time.Millisecond})
			b.faults(
				rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", Nth: 30}, Do: rmmsim.Action{InvalidateToken: true}},
				rmmsim.Fault{Match: rmmsim.Match{Operation: "token", From: 2, To: 8}, Do: rmmsim.Action{Status: 503}},
			)
			b.tag(0)
			sum := b.run()
			b.want(sum, checkpoint.RunOK)
			if n := len(b.requests("token")); n != 9 {
				t.Errorf("%d logins, want the first, seven bad ones and a good one", n)
			}
			if b.tagged(0) != 100 {
				t.Errorf("%d tagged", b.tagged(0))
			}
		})
	})
}

// When the budget of pauses is spent the run ends as throttled, and a later call
// finishes it.
func TestPauseBudgetSpent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 60, Latency: 100 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "device-udf-set", From: 20}, Do: rmmsim.Action{Status: 429}})
		b.tag(0)
		b.pause = 10 * time.Minute
		sum := b.run()
		b.want(sum, checkpoint.RunThrottled)
		if !errors.As(sum.Err, new(*throttle.ExhaustedError)) {
			t.Errorf("cause %v", sum.Err)
		}
		if took := time.Since(b.began); took > 12*time.Minute {
			t.Errorf("took %s with a budget of ten minutes", took)
		}
		if sum.Counts.Failed != 0 || sum.Counts.Pending < 30 {
			t.Errorf("%+v", sum.Counts)
		}
		for key, it := range b.items() {
			if it.State == checkpoint.StatePending && it.Attempts != 0 {
				t.Errorf("%s has %d attempts", key, it.Attempts)
			}
		}
		b.account.ClearFaults()
		b.reopen()
		b.want(b.run(), checkpoint.RunOK)
		for path, n := range b.acked() {
			if n != 1 {
				t.Errorf("%s acknowledged %d times", path, n)
			}
		}
	})
}

// A 403 of one operation is a lack of rights, not a block: reads stop as auth.
func TestForbiddenReadIsAuth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 5})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices"}, Do: rmmsim.Action{Status: 403}})
		b.export(250)
		sum := b.run()
		b.want(sum, checkpoint.RunAuth)
		if n := len(b.requests("devices")); n != 1 {
			t.Errorf("%d requests", n)
		}
		if strings.Contains(sum.Err.Error(), "block") {
			t.Errorf("%v", sum.Err)
		}
	})
}

// Progress never runs backwards and ends complete.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 95, Latency: 100 * time.Millisecond})
		b.faults(rmmsim.Fault{Match: rmmsim.Match{Operation: "devices", Every: 4}, Do: rmmsim.Action{Status: 502}})
		b.export(10)
		b.want(b.run(), checkpoint.RunOK)
		var last Progress
		for i, p := range b.seen {
			if p.Settled < last.Settled || p.Items < last.Items || p.Settled > p.Items || p.InFlight < 0 || p.InFlight > 8 {
				t.Fatalf("step %d: %+v after %+v", i, p, last)
			}
			last = p
		}
		if last.Settled != last.Items || last.Items != 20 || last.Stage != jobs.StageRead {
			t.Errorf("ended with %+v", last)
		}
	})
}

// A context that has ended before the call sends nothing.
func TestStoppedBeforeItBegan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, rmmsim.Config{Devices: 5})
		b.export(250)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.want(b.runIn(ctx), checkpoint.RunStopped)
		if n := len(b.account.Log()); n != 0 {
			t.Errorf("%d requests", n)
		}
		b.want(b.run(), checkpoint.RunOK)
	})
}
