package main

import (
	"fmt"
	"testing"
	"time"

	"rmmjob/runner"
)

func TestWordsOfNumbers(t *testing.T) {
	for got, want := range map[string]string{
		count(1, "row"): "1 row", count(0, "row"): "0 rows", count(1234567, "read"): "1,234,567 reads",
		number(999): "999", number(1000): "1,000", number(-1234): "-1,234", number(-123): "-123",
		brief(0): "0s", brief(1240 * time.Millisecond): "1.2s", brief(59*time.Second + 990*time.Millisecond): "1m0s",
		brief(3*time.Hour + 1500*time.Millisecond): "3h0m2s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The line of the bar never reaches the last column of the terminal, at any width
// that a terminal has.
func TestBarFitsTheTerminal(t *testing.T) {
	for _, columns := range []int{40, 48, 60, 80, 132} {
		for _, items := range []int{1, 1210, 123456} {
			m := &meter{app: &app{env: &env{width: columns}}}
			p := runner.Progress{Items: items}
			words := m.fit("writing, 1234 failed, service not available, next try 23:59:59", p)
			line := words + " 100% |" + fmt.Sprintf("%*s", barWidth(columns), "") + fmt.Sprintf("| (%d/%d) ", items, items)
			if len(line) >= columns {
				t.Errorf("%d columns: %q has %d", columns, line, len(line))
			}
			if len(words) < 4 {
				t.Errorf("%d columns: nothing is said but %q", columns, words)
			}
		}
	}
	if got := (&meter{app: &app{env: &env{}}}).fit("writing", runner.Progress{}); got != "writing" {
		t.Errorf("%q where the width is unknown", got)
	}
}
