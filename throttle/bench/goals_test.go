package main

import (
	"io"
	"slices"
	"testing"
)

// The goals of the scenarios on a few seeds; `go run ./throttle/bench` tries more.
func TestGoals(t *testing.T) {
	long := []string{"S1-32", "S2", "S4", "S8"}
	quick := []string{"S1b", "S3", "S7"}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() && slices.Contains(long, s.name) || raced && !slices.Contains(quick, s.name) {
				t.Skip("takes some seconds")
			}
			t.Parallel()
			var field []contender
			for _, c := range contenders() {
				if slices.Contains([]string{"full", "adaptive"}, c.name) || c.name == "quick" && s.name == "S1b" {
					field = append(field, c)
				}
			}
			seeds := 5
			if slices.Contains(long, s.name) {
				seeds, field = 1, field[:1]
			}
			results := measure(s, field, 1, seeds)
			for i, c := range field {
				for _, g := range s.goals {
					if !g.met(c.name, results[i]) {
						t.Errorf("%s: %s is missed: %v", c.name, g.text, sorted(results[i], g.of))
					}
				}
			}
		})
	}
}

// A run depends on its seed and on nothing else.
func TestRunsAreRepeatable(t *testing.T) {
	for _, s := range scenarios() {
		if s.name != "S5-3" && s.name != "S6" || raced {
			continue
		}
		for _, c := range contenders() {
			if c.workers == 0 && s.run(7, c) != s.run(7, c) {
				t.Errorf("%s, %s: two runs differ", s.name, c.name)
			}
		}
	}
}

// Nobody beats the oracle by staying below the same bound.
func TestOracleStaysBelowTheCutOff(t *testing.T) {
	for _, s := range scenarios() {
		if s.name == "S10a" || s.name == "S10b" || s.name == "S8" || raced && s.name != "S6" {
			continue
		}
		f := s.run(3, contender{name: "oracle", make: newOracle})
		if f.refused > 0 || f.highest >= 0.9 && s.name != "S6" && s.name != "S7" && s.name != "V7" || f.strangers > 0 {
			t.Errorf("%s: %.0f refused, highest %.3f, %.3f of the others refused", s.name, f.refused, f.highest, f.strangers)
		}
	}
}

func TestReport(t *testing.T) {
	s := scenario{name: "S0", goals: []goal{no429()}}
	field := []contender{{name: "full"}, {name: "AIMD"}}
	rows := [][]figures{{{refused: 0}, {refused: 4}, {refused: 2}}, {{refused: 9}, {refused: 9}, {refused: 9}}}
	if missed := report(io.Discard, s, field, rows); missed != 1 {
		t.Errorf("%d goals missed, want 1: the median of full is 2, and AIMD has no goals", missed)
	}
}
