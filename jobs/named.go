package jobs

import (
	"fmt"
	"strings"
)

// This file says how people know what a write is about: by the host name and the
// site, the name of a site or of a variable, and the uid behind it.

// aTarget is how people know a target.
type aTarget struct {
	line            int
	name, site, uid string
}

// String is its name, and the site unless it is one; the uid where nothing has a name.
func (t aTarget) String() string {
	switch {
	case t.name != "" && t.site != "" && t.name != t.site:
		return t.name + " in " + t.site
	case t.name != "":
		return t.name
	}
	return t.uid
}

// full has the uid as well.
func (t aTarget) full() string {
	if text := t.String(); t.uid != "" && text != t.uid {
		return text + " (" + t.uid + ")"
	}
	return t.String()
}

// Target is how people know what a row is about: by name and site, or by the uid where
// nothing has a name. A row of a free call is known by its line.
func (d RowDetail) Target() string {
	return orLine(aTarget{d.Line, d.Hostname, d.Site, d.UID}.String(), d.Line)
}

// FullTarget is that with the uid behind it.
func (d RowDetail) FullTarget() string {
	return orLine(aTarget{d.Line, d.Hostname, d.Site, d.UID}.full(), d.Line)
}

func orLine(name string, line int) string {
	if name == "" {
		return fmt.Sprintf("line %d", line)
	}
	return name
}

// Found begins the reason of a write that is done though its answer was lost: a look has
// found its effect.
const Found = "found: "

const foundLost = Found + "it was carried out, though its answer was lost"

// who names the target of a write together with what kind of thing it is.
func (w *write) who() string {
	switch {
	case !w.planned:
		return w.req.Op
	case !w.listed:
		return fmt.Sprintf("%s of line %d", w.req.Op, w.target.line)
	}
	return strings.TrimSpace(w.op.thing() + " " + w.target.full())
}

// fate is what became of a write that is not done.
func (w *write) fate() string {
	if w.doubt {
		return "is in doubt"
	}
	return "failed"
}
