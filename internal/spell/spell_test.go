package spell

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"devices", "sites", "alerts-open", "alerts-resolved", "max_changes", "run", "runs"}
	for _, c := range []struct{ word, want string }{
		{"device", "devices"},
		{"devcies", "devices"},
		{"Alerts_Open", "alerts-open"},
		{"maxchanges", "max_changes"},
		{"rnu", "run"},
		{"ru", "run"},
		{"si", ""},
		{"run", "run"},
		{"zebra", ""},
		{"", ""},
		{strings.Repeat("devices", 20), ""},
	} {
		if got := Nearest(c.word, known); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestDistanceIsAMetricOfEdits(t *testing.T) {
	word := rapid.StringMatching(`[ab_]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := Distance(a, b)
		switch {
		case d != Distance(b, a):
			t.Fatalf("Distance(%q, %q) is not symmetric", a, b)
		case (d == 0) != (a == b):
			t.Fatalf("Distance(%q, %q) = %d", a, b, d)
		case d > max(len(a), len(b)) || d < len(a)-len(b) || d < len(b)-len(a):
			t.Fatalf("Distance(%q, %q) = %d is out of bounds", a, b, d)
		}
	})
}
