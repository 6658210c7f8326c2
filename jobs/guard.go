package jobs

import (
	"fmt"
	"math"
	"strings"

	"rmmjob/internal/spell"
)

// FreeClears is how many fields a plan may empty unless somebody allows more.
const FreeClears = 10

// guard refuses a plan that goes further than the job allows. Nothing has been
// written when it speaks.
func (p *plan) guard() error {
	g, u, rows := p.job.Guard, p.job.Update, len(p.rows)
	missing, held := p.counts[ClassNotFound], 0
	for class, n := range p.counts {
		if class.Held() {
			held += n
		}
	}
	if u.OnNotFound == "skip" {
		held -= missing
	}
	maxRejected, maxClears := orDefault(g.MaxRejected, 10, 5, rows), orDefault(g.MaxClears, FreeClears, 0, rows)
	refuse := func(guard, format string, args ...any) error {
		return &GuardError{Guard: guard, Message: fmt.Sprintf(format, args...) + "; nothing was written" + p.firstReasons(), Headings: p.heading, Held: p.held()}
	}
	switch {
	case u.OnRowFault == "stop" && held > 0:
		return refuse("on_row_fault", "%d of %s cannot be applied and on_row_fault is stop", held, spell.Count(rows, "row"))
	case !g.MaxNotFound.Allows(missing, rows):
		return refuse("max_not_found", "%d of %s no %s, max_not_found is %s", missing, spell.Count(rows, "row has", "rows have"), p.op.thing(), g.MaxNotFound)
	case !maxRejected.Allows(held, rows):
		return refuse("max_rejected", "%d of %s cannot be applied, max_rejected is %s", held, spell.Count(rows, "row"), maxRejected)
	case !g.MaxPercent.Allows(p.writes, p.fleet):
		return refuse("max_percent", "the plan changes %d of %s (%.1f%%), max_percent is %s", p.writes, spell.Count(p.fleet, p.op.thing()), 100*float64(p.writes)/float64(p.fleet), g.MaxPercent)
	case !g.MaxChanges.Allows(p.writes, rows):
		return refuse("max_changes", "the plan changes %s, max_changes is %s", spell.Count(p.writes, p.op.thing()), g.MaxChanges)
	case !maxClears.Allows(p.clears, rows):
		return refuse("max_clears", "the plan clears %s, max_clears is %s", spell.Count(p.clears, "field"), maxClears)
	}
	return nil
}

// firstReasons names the first rows that are held back, and says where the others are.
func (p *plan) firstReasons() string {
	const show = 5
	var b strings.Builder
	n := 0
	for row := range p.eachRow() {
		if !row.class().Held() {
			continue
		}
		if n++; n > show {
			continue
		}
		fmt.Fprintf(&b, "\n  line %d: %s: %s", row.line, row.class(), row.reason())
	}
	if n > show {
		fmt.Fprintf(&b, "\n  and %d more: rejected.csv has all of them", n-show)
	}
	return b.String()
}

// orDefault returns the limit, or where none is set the larger of a number and a
// share of the total.
func orDefault(l Limit, number, percent float64, total int) Limit {
	if l.Set {
		return l
	}
	return Limit{Set: true, Value: max(number, math.Floor(percent*float64(total)/100))}
}

// MaxErrors is the number of failed writes that a run of total writes may have:
// the job's own limit, else the larger of 25 and 5 %.
func (j *Job) MaxErrors(total int) int {
	l := orDefault(j.Guard.MaxErrors, 25, 5, total)
	if l.Percent {
		return int(l.Value * float64(total) / 100)
	}
	return int(l.Value)
}
