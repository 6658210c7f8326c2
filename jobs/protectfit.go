package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// selectorFit remembers what the selectors of a guard have met in the account. One that
// is misspelt protects nothing, and nobody would notice before it is too late.
type selectorFit struct {
	selectors []Selector
	met       []bool // by selector
	sites     []string
}

func newSelectorFit(g Guard) *selectorFit {
	return &selectorFit{selectors: g.Protected, met: make([]bool, len(g.Protected))}
}

// see notes what a thing of the account falls under.
func (f *selectorFit) see(t traits) {
	for i, s := range f.selectors {
		if !f.met[i] && s.fits(t) {
			f.met[i] = true
		}
	}
}

// seeSite notes what a site falls under, and that it is there.
func (f *selectorFit) seeSite(name, uid string) {
	if len(f.selectors) == 0 {
		return
	}
	f.sites = append(f.sites, normalise(name), normalise(uid))
	f.see(siteTraits(name, uid))
}

// notes says which selectors have met nothing.
func (f *selectorFit) notes(thing string) []string {
	var notes []string
	for i, s := range f.selectors {
		if !f.met[i] {
			notes = append(notes, fmt.Sprintf("selector %d of protected (%s) fits no %s: it protects nothing", i+1, s, thing))
		}
	}
	return notes
}

// faults are the sites that selectors name in full and that are not there.
func (f *selectorFit) faults(on subject) Errors {
	var faults Errors
	for _, s := range f.selectors {
		for _, c := range s.Conditions {
			if c.Field != bySite && (c.Field != byUID || on != aSite) {
				continue
			}
			for _, v := range c.Values {
				if !strings.ContainsAny(v, "*?") && !slices.Contains(f.sites, normalise(v)) {
					faults = append(faults, &Error{Pos: s.Pos, Message: "protected: there is no site " + strconv.Quote(clip(v, 60)), Hint: "mend the name; an asterisk in it is for sites that may not be there"})
				}
			}
		}
	}
	return faults
}

// note is what people should know of the plan.
func (p *plan) note() string {
	notes := p.notes
	if p.op.warning != "" {
		notes = append([]string{p.op.warning}, notes...)
	}
	return strings.Join(notes, "; ")
}

// checkSelectors looks whether the selectors of the guard fit anything of the account.
// It is an error if one names a site that is not among all the sites that were read.
// The open alerts of a moment tell nothing, nor do the sites before one is made.
func (p *plan) checkSelectors(fit *selectorFit) error {
	if len(fit.selectors) == 0 || p.op.on == anAlert || p.op.on == aSite && p.op.effect == creates {
		return nil
	}
	thing := p.op.thing()
	if p.sites != nil {
		for uid, name := range p.sites.name {
			fit.seeSite(name, uid)
		}
	}
	if p.op.on == aSiteVariable {
		thing = "site"
	}
	if p.op.on == aSite || p.sites != nil {
		if err := fit.faults(p.op.on).err(); err != nil {
			return err
		}
	}
	p.notes = append(p.notes, fit.notes(thing)...)
	return nil
}
