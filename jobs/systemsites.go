package jobs

import (
	"fmt"
	"slices"

	"rmmjob/internal/spell"
)

// systemSites are those that every account has and nobody made, by normalised name:
// what it means for a device to be in one.
var systemSites = map[string]string{
	"deleted devices": "the service keeps devices there that were deleted",
	"managed":         "it belongs to no customer",
	"ondemand":        "it belongs to no customer",
}

// noteSystemSites tells how many devices the plan moves to sites that nobody made, which
// is seldom meant.
func (p *plan) noteSystemSites() {
	if p.op.effect != moves {
		return
	}
	moved := map[string]int{} // by name of the site
	for _, t := range p.targets {
		for _, w := range t.changes(len(p.job.Update.Set)) {
			if name := p.sites.name[w.value]; p.due(t) && systemSites[normalise(name)] != "" {
				moved[name]++
			}
		}
	}
	var notes []string
	for name, n := range moved {
		notes = append(notes, fmt.Sprintf("warning: the plan moves %s to %q, a site of the system: %s", spell.Count(n, "device"), name, systemSites[normalise(name)]))
	}
	slices.Sort(notes)
	p.notes = append(p.notes, notes...)
}
