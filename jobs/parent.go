package jobs

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"rmmjob/internal/output"
	"rmmjob/internal/spell"
)

// parent is a site or device that a list or an answer belongs to.
type parent struct {
	uid   string
	fills string // value of the path parameter
	class string // of a device; "" if it does not tell
	// names are the fields that its rows get: whose they are.
	siteUid, siteName, hostname string
	reason                      string // why it is left out; "" for one that has what is read
	stamp                       string // of the last audit of a device
	word                        *Word  // by which the job names it; nil for one of all
}

// parentLists are what the stage of the parents walks: the sites or devices, and for devices that are chosen by their
// sites also the sites, which tells a site without devices from one that does not exist.
func (e *ExportWork) parentLists() []list {
	if e.reach.parents == "" || e.job.Export.Given != nil {
		return nil
	}
	names := []string{e.reach.parents}
	if e.reach.parents == "devices" && len(e.job.Export.Sites) > 0 {
		names = append(names, "sites")
	}
	lists := make([]list, len(names))
	for i, name := range names {
		lists[i] = wholeList(parentsPrefix, name)
	}
	return lists
}

// parents yields the sites or devices that the list is to be read for. Those that have none come with the reason, and so
// do devices that the job names and that are not at the sites that it names.
func (e *ExportWork) parents(ctx context.Context, a Answers) iter.Seq2[parent, error] {
	return func(yield func(parent, error) bool) {
		chosen, err := e.chosen(ctx, a)
		if err != nil {
			yield(parent{}, err)
			return
		}
		for el, err := range elements(ctx, a, parentsPrefix+e.reach.parents+"/") {
			if err != nil {
				yield(parent{}, err)
				return
			}
			p := e.parentOf(el)
			if !chosen.choose(&p, e.reach.parents == "devices") {
				continue
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (e *ExportWork) parentOf(el Element) parent {
	p := parent{uid: keyOf("uid", el.JSON), fills: keyOf(e.reach.field, el.JSON)}
	if e.reach.parents == "sites" {
		p.siteUid, p.siteName = p.uid, keyOf("name", el.JSON)
	} else {
		p.siteUid, p.siteName, p.hostname = keyOf("siteUid", el.JSON), keyOf("siteName", el.JSON), keyOf("hostname", el.JSON)
		p.class, p.stamp = keyOf("deviceClass", el.JSON), auditStamp(el.JSON)
	}
	switch {
	case p.fills == "":
		p.reason = "it has no " + e.reach.field
	case e.reach.class != "" && p.class != "" && p.class != e.reach.class:
		// One that does not tell its class is asked.
		p.reason = fmt.Sprintf("not applicable to a device of class %s", clip(p.class, 40))
	}
	return p
}

// chosen is what a job reads of all sites or devices, and how it names them. Nil maps choose all.
type chosen struct{ sites, devices map[string]*Word } // by uid

// choose tells whether a parent is chosen, and notes by which word.
func (c chosen) choose(p *parent, device bool) bool {
	site := c.sites[p.siteUid]
	elsewhere := c.sites != nil && site == nil
	if !device {
		p.word = site
		return !elsewhere
	}
	p.word = c.devices[p.uid]
	switch {
	case c.devices == nil:
		return !elsewhere
	case p.word != nil && elsewhere:
		p.reason = "it is at none of the sites that the job names"
	}
	return p.word != nil
}

// chosen looks the names of the job up in the lists of sites and devices. A name that is unknown or fits several is a
// fault of the job file.
func (e *ExportWork) chosen(ctx context.Context, a Answers) (c chosen, err error) {
	var faults Errors
	for _, by := range []struct {
		words      []Word
		list, name string
		to         *map[string]*Word
	}{
		{e.job.Export.Sites, "sites", "name", &c.sites}, {e.job.Export.Devices, "devices", "hostname", &c.devices},
	} {
		if len(by.words) == 0 {
			continue
		}
		found, missing, err := lookUp(elements(ctx, a, parentsPrefix+by.list+"/"), by.words, by.list, by.name)
		if err != nil {
			return c, err
		}
		*by.to, faults = found, append(faults, missing...)
	}
	return c, faults.err()
}

// lookUp finds the uids that words mean, by uid or by name, without regard to case, as the rows of updates are matched.
func lookUp(list iter.Seq2[Element, error], words []Word, what, field string) (map[string]*Word, Errors, error) {
	wanted := make(map[string][]string, len(words)) // uids that fit
	for _, w := range words {
		wanted[normalise(w.Text)] = nil
	}
	var names []string
	for el, err := range list {
		if err != nil {
			return nil, nil, err
		}
		uid, name := keyOf("uid", el.JSON), keyOf(field, el.JSON)
		names = append(names, name)
		for _, text := range []string{uid, name} {
			text = normalise(text)
			if fits, ok := wanted[text]; ok && uid != "" && !slices.Contains(fits, uid) {
				wanted[text] = append(fits, uid)
			}
		}
	}
	found := make(map[string]*Word, len(words))
	var faults Errors
	for i, w := range words {
		switch fits := wanted[normalise(w.Text)]; len(fits) {
		case 1:
			found[fits[0]] = &words[i]
		case 0:
			e := &Error{Pos: w.Pos, Message: fmt.Sprintf("the account has no %s %q", what[:len(what)-1], clip(w.Text, 60))}
			if near := spell.Nearest(w.Text, names); near != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", clip(near, 60))
			}
			faults = append(faults, e)
		default:
			faults = append(faults, &Error{
				Pos: w.Pos, Message: fmt.Sprintf("%d %s are called %q", len(fits), what, clip(w.Text, 60)),
				Hint: "name the one by its uid",
			})
		}
	}
	return found, faults, nil
}

// unfit is the fault of a parent that the job names and that cannot have what is read.
func (e *ExportWork) unfit(p parent) *Error {
	from := e.job.Export.From
	fault := &Error{Pos: p.word.Pos, Message: fmt.Sprintf("%q has no %s: %s", clip(p.word.Text, 60), from.Name, p.reason), Hint: "remove it"}
	if isAudit := slices.Contains(auditReads(), from.Name); isAudit && audits[p.class].op != "" && p.class != e.reach.class {
		fault.Hint = "from: " + audits[p.class].op + " reads its audit"
	}
	return fault
}

// lineage tells rows what they belong to.
type lineage struct {
	param string
	by    map[string]parent // by what fills the path
}

// lineage reads the parents of the rows, if the rows have fields for them.
func (e *ExportWork) lineage(ctx context.Context, a Answers) (lineage, error) {
	l := lineage{param: e.reach.param}
	// An element that tells these things itself is not named after the operation.
	if len(e.parentLists()) == 0 || e.job.Export.Element != e.job.Export.From.Name {
		return l, nil
	}
	l.by = map[string]parent{}
	for p, err := range e.parents(ctx, a) {
		if err != nil {
			return l, err
		}
		l.by[p.fills] = p
	}
	return l, nil
}

// mark puts into a record what its request was for, without touching what it says itself.
func (l lineage) mark(rec output.Record, path map[string]string) {
	put := func(name, value string) {
		if _, has := rec[name]; !has && value != "" {
			rec[name] = value
		}
	}
	for name, value := range path {
		if name != "deviceId" {
			put(name, value)
		}
	}
	if p, ok := l.by[path[l.param]]; ok {
		put("siteUid", p.siteUid)
		put("siteName", p.siteName)
		put("hostname", p.hostname)
	}
}
