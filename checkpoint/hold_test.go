package checkpoint

import (
	"errors"
	"slices"
	"testing"
)

// A change can put what is pending on hold, but for one lane, and give items that
// are still to be sent another payload.
func TestHoldAndRevise(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	_, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{
		{Key: "done", Lane: "write", Payload: []byte("as sent")},
		{Key: "left", Lane: "write", Payload: []byte("before")},
		{Key: "read", Lane: "read"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, err := s.Claim(t.Context(), "r", "write", t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), c, t0, Done(nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Advance(t.Context(), "r", t0, "", "resumed", Change{
		Hold: true, Spare: "read", Revise: slices.Values([]Revised{{"left", []byte("after")}, {"done", []byte("after")}}),
	}); err != nil {
		t.Fatal(err)
	}
	if lanes, err := s.Lanes(t.Context(), "r"); !slices.Equal(lanes, []string{"read"}) || err != nil {
		t.Errorf("%q, %v", lanes, err)
	}
	for key, want := range map[string]string{"done": "as sent", "left": "after"} {
		if it, err := s.Item(t.Context(), "r", key); string(it.Payload) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", key, it.Payload, err, want)
		}
	}
	if err := s.Advance(t.Context(), "r", t0, "resumed", "apply", Change{Release: -1}); err != nil {
		t.Fatal(err)
	}
	if lanes, err := s.Lanes(t.Context(), "r"); !slices.Equal(lanes, []string{"read", "write"}) || err != nil {
		t.Errorf("%q, %v", lanes, err)
	}
}

// Held items are released in the order in which they were added, so many at a time.
func TestRelease(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	_, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{
		{Key: "b", Lane: "write", Held: true}, {Key: "a", Lane: "write", Held: true}, {Key: "c", Lane: "write", Held: true},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		release int
		want    []string
	}{{0, nil}, {1, []string{"b"}}, {-1, []string{"a", "c"}}} {
		if err := s.Release(t.Context(), "r", step.release); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			c, ok, _, err := s.Claim(t.Context(), "r", "write", t0)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			got = append(got, c.Key)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after a release of %d: %q, want %q", step.release, got, step.want)
		}
	}
	if err := s.Release(t.Context(), "none", 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}

// What is parked is left out of every release until it is unparked.
func TestPark(t *testing.T) {
	s := openNew(t, t.TempDir())
	newRun(t, s, "r")
	_, err := s.AddItems(t.Context(), "r", t0, slices.Values([]NewItem{
		{Key: "failed", Lane: "write"}, {Key: "left", Lane: "write"}, {Key: "page", Lane: "read"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, err := s.Claim(t.Context(), "r", "write", t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), c, t0, Failed("permission", "403", 403)); err != nil {
		t.Fatal(err)
	}
	if err := s.Park(t.Context(), "r", "read"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Retry(t.Context(), "r", Again{Failed: true}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		free int
		do   func() error
	}{
		{1, func() error { return s.Release(t.Context(), "r", -1) }},
		{1, func() error { return s.Unpark(t.Context(), "r") }},
		{2, func() error { return s.Release(t.Context(), "r", -1) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		lanes, err := s.Pending(t.Context(), "r", "")
		if err != nil || len(lanes) != 2 || lanes[0].Items != 1 || lanes[1].Items != step.free {
			t.Errorf("%+v, %v; want %d writes", lanes, err, step.free)
		}
	}
}
