package jobs

import (
	"fmt"
	"slices"
)

// This file keeps the names of sites apart: a name that two sites have is of no use to
// any job that names one.

// renames tells whether an operation can give a site another name.
func (op operation) renames() bool { return op.on == aSite && op.effect == sets && !op.proxy }

// nameSetting is the setting that gives a site its name; -1 for none.
func (op operation) nameSetting(set []Setting) int {
	if !op.renames() {
		return -1
	}
	return slices.IndexFunc(set, func(s Setting) bool { return s.Field == "name" })
}

// clashes tells of which sites the rows want a name that another site has, or gets by
// the same plan, and which.
func (p *plan) clashes() map[*target]string {
	setting := p.op.nameSetting(p.job.Update.Set)
	if setting < 0 {
		return nil
	}
	names := map[*target]string{}
	sites := map[string][]*target{} // by the name that they are to get
	for _, t := range p.targets {
		for _, w := range t.changes(len(p.job.Update.Set)) {
			if int(w.setting) == setting {
				names[t] = w.value
				sites[normalise(w.value)] = append(sites[normalise(w.value)], t)
			}
		}
	}
	clashes := map[*target]string{}
	for t, name := range names {
		reason := p.sites.taken(t.uid, name)
		if same := sites[normalise(name)]; reason == "" && len(same) > 1 {
			reason = fmt.Sprintf("lines %d and %d give two sites the name %q", same[0].first.line, same[1].first.line, clip(name, 60))
		}
		if reason != "" {
			clashes[t] = reason
		}
	}
	return clashes
}

// taken says that another site than the one of the uid has a name; "" if none has.
func (s *siteIndex) taken(uid, name string) string {
	for _, other := range s.all("name", name) {
		if other != uid {
			return fmt.Sprintf("another site has the name %q: %s", clip(s.name[other], 60), other)
		}
	}
	return ""
}

// newName is the name that a write gives a site; "" for none.
func (w *write) newName() string {
	if !w.listed || !w.op.renames() {
		return ""
	}
	for _, c := range w.changes {
		if c.Field == "name" && c.real() {
			return c.New
		}
	}
	return ""
}
