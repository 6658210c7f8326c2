package checkpoint

import (
	"errors"
	"fmt"
	"slices"
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
		}, true}, // a request was sent; the person's word is in the class
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

// Whatever becomes of an item after a request of it was acknowledged, or was sent without
// an answer: it is done, in doubt, or known to be unsure. After each way to such a state
// it goes through all ways that lead on, two of them in a row.
func TestNothingSentIsForgotten(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	ctx := t.Context()
	type turn func(key string) error // every item has a lane of its own
	request := func(o Outcome) turn {
		return func(key string) error {
			c, ok, _, err := s.Claim(ctx, "r", key, t0)
			if !ok || err != nil {
				return err
			}
			return s.Finish(ctx, c, t0, o)
		}
	}
	dies := func(key string) error {
		if _, _, _, err := s.Claim(ctx, "r", key, t0); err != nil {
			return err
		}
		_, err := s.Recover(ctx, "r", t0)
		return err
	}
	learnt := func(state State, class string) turn {
		return func(key string) error {
			_, err := s.Settle(ctx, "r", t0, []Settled{{Key: key, State: state, Class: class, Reason: "so"}})
			return err
		}
	}
	said := func(how Resolution) turn {
		return func(key string) error {
			if _, err := s.Resolve(ctx, "r", t0, how, "so", key); !errors.Is(err, ErrNotFound) {
				return err
			}
			return nil // not in doubt
		}
	}
	retry := func(key string) error {
		_, err := s.Retry(ctx, "r", Again{Failed: true, InDoubt: true, Lane: key})
		return err
	}
	sent := []turn{
		request(Done(nil)), request(Failed("network", "EOF", 0).Unsure()), request(RetryAt(t0, "EOF", 0).Unsure()), request(InDoubt("network", "EOF", 0)), dies,
	}
	quiet := []turn{
		retry, learnt(StateDone, ""), learnt(StateUnchanged, ""), learnt(StateFailed, "so"), learnt(StateSkipped, "so"), learnt(StatePending, ""),
		said(ResolveDone), said(ResolveFailed), said(ResolveRetry),
	}
	further := append([]turn{request(Failed("rejected", "no", 400)), request(Released("429")), request(Skipped("gone", 404))}, quiet...)
	for i := range len(sent) * len(further) * len(quiet) {
		key := fmt.Sprint(i)
		item := []NewItem{{Key: key, Lane: key, Op: "device-udf-set"}}
		if _, err := s.AddItems(ctx, "r", t0, slices.Values(item)); err != nil {
			t.Fatal(err)
		}
		first, second, third := i%len(sent), i/len(sent)%len(further), i/len(sent)/len(further)
		for _, do := range []turn{sent[first], further[second], quiet[third]} {
			if err := do(key); err != nil {
				t.Fatal(err)
			}
		}
		it, err := s.Item(ctx, "r", key)
		if err != nil || it.State != StateDone && it.State != StateInDoubt && !it.Unsure {
			t.Errorf("by the ways %d, %d, %d: %s, and nothing tells that it may have taken effect; %v", first, second, third, it.State, err)
		}
	}
}
