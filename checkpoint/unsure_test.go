package checkpoint

import (
	"testing"
)

// TestUnsure goes through what leaves an item whose effect nobody knows, and what ends
// that.
func TestUnsure(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	ctx := t.Context()
	finish := func(c Claim, o Outcome) {
		t.Helper()
		if err := s.Finish(ctx, c, t0, o); err != nil {
			t.Fatal(err)
		}
	}
	settle := func(key string, state State) {
		t.Helper()
		class := ""
		if state == StateFailed {
			class = "not_applied"
		}
		if n, err := s.Settle(ctx, "r", t0, []Settled{{Key: key, State: state, Class: class, Reason: "so"}}); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	for _, step := range []struct {
		name string
		do   func(key string)
		want bool
	}{
		{"untouched", func(string) {}, false},
		{"refused", func(string) { finish(mustClaim(t, s, t0), Failed("rejected", "no", 400)) }, false},
		{"put off without an answer", func(string) { finish(mustClaim(t, s, t0), RetryAt(t0, "EOF", 0).Unsure()) }, true},
		{"refused after that", func(string) {
			finish(mustClaim(t, s, t0), RetryAt(t0, "EOF", 0).Unsure())
			finish(mustClaim(t, s, t0), Failed("permission", "no", 403))
		}, true},
		{"in flight when the program died", func(string) {
			mustClaim(t, s, t0)
			if _, err := s.Recover(ctx, "r", t0); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"done and not there", func(key string) {
			finish(mustClaim(t, s, t0), Done(nil))
			settle(key, StateFailed)
		}, true},
		{"in doubt and to be sent again", func(key string) {
			finish(mustClaim(t, s, t0), InDoubt("network", "EOF", 0))
			settle(key, StatePending)
		}, true},
		{"in doubt, and a person knows that it was not done", func(key string) {
			finish(mustClaim(t, s, t0), InDoubt("network", "EOF", 0).Unsure())
			if _, err := s.Resolve(ctx, "r", t0, ResolveFailed, "", key); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		addPending(t, s, "r", step.name)
		step.do(step.name)
		it, err := s.Item(ctx, "r", step.name)
		if err != nil || it.Unsure != step.want {
			t.Errorf("%s: %v, %v", step.name, it.Unsure, err)
		}
		if it.State == StatePending { // out of the way of the next one
			settle(step.name, StateUnchanged)
		}
	}
}
