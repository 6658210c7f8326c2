package checkpoint

import (
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
