package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// column is one figure of the table.
type column struct {
	title string
	of    func(figures) float64
	scale float64
	form  string
	show  func(scenario) bool
}

func always(scenario) bool { return true }

func named(names ...string) func(scenario) bool {
	return func(s scenario) bool {
		for _, n := range names {
			if strings.HasPrefix(s.name, n) {
				return true
			}
		}
		return false
	}
}

var columns = []column{
	{"ratio", ratioOf, 1, "%.2f", always},
	{"429", refusedOf, 1, "%.0f", always},
	{"403", func(f figures) float64 { return f.blocked }, 1, "%.0f", always},
	{"highest %", highestOf, 100, "%.0f", always},
	{"calibrations %", func(f figures) float64 { return f.readings }, 100, "%.1f", always},
	{"Jain", func(f figures) float64 { return f.jain }, 1, "%.3f", named("S5", "V6")},
	{"others refused %", func(f figures) float64 { return f.strangers }, 100, "%.1f", named("S6", "V7")},
	{"found after writes", func(f figures) float64 { return f.found }, 1, "%.0f", named("S9")},
	{"resumes after s", func(f figures) float64 { return min(f.resumed, 999) }, 1, "%.0f", named("S10a")},
	{"sent while blocked", func(f figures) float64 { return f.into }, 1, "%.0f", named("S10b")},
	{"lost s", func(f figures) float64 { return f.lost }, 1, "%.0f", named("S10b")},
}

// report prints the table of a scenario and returns how many goals were missed.
func report(out io.Writer, s scenario, field []contender, results [][]figures) (missed int) {
	var goals []string
	for _, g := range s.goals {
		text := g.text
		if len(g.only) == 1 {
			text += " for " + g.only[0]
		}
		goals = append(goals, text)
	}
	if len(goals) == 0 {
		goals = []string{"none"}
	}
	fmt.Fprintf(out, "### %s: %s\n\nGoals: %s.\n\n| |", s.name, s.about, strings.Join(goals, "; "))
	line := "|---|"
	for _, c := range columns {
		if c.show(s) {
			fmt.Fprintf(out, " %s |", c.title)
			line += "---|"
		}
	}
	fmt.Fprintf(out, " |\n%s---|\n", line)
	for i, who := range field {
		fmt.Fprintf(out, "| %s |", who.name)
		for _, c := range columns {
			if c.show(s) {
				fmt.Fprintf(out, " %s |", spread(results[i], c))
			}
		}
		var bad []string
		for _, g := range s.goals {
			if !g.met(who.name, results[i]) {
				bad = append(bad, g.text)
			}
		}
		missed += len(bad)
		note := ""
		if len(bad) > 0 {
			note = "missed: " + strings.Join(bad, ", ")
		}
		fmt.Fprintf(out, " %s |\n", note)
	}
	fmt.Fprintln(out)
	return missed
}

// spread shows the median, and the extremes where they differ from it.
func spread(rows []figures, c column) string {
	values := sorted(rows, c.of)
	text := func(v float64) string { return fmt.Sprintf(c.form, v*c.scale) }
	low, mid, high := text(values[0]), text(median(values)), text(values[len(values)-1])
	if low == high {
		return mid
	}
	return fmt.Sprintf("**%s** (%s–%s)", mid, low, high)
}

func sorted(rows []figures, of func(figures) float64) []float64 {
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// met tells whether a profile reaches a goal in the median of the seeds, or is not asked to.
func (g goal) met(name string, rows []figures) bool {
	held := g.only
	if held == nil {
		held = []string{"full", "adaptive"}
	}
	if !slices.Contains(held, name) {
		return true
	}
	least := g.least
	if name == "adaptive" {
		least -= g.loose
	}
	v := median(sorted(rows, g.of))
	return v >= least && v <= g.most
}
