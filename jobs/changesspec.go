package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
	"rmmjob/internal/spell"
)

// Changes says where to write what has changed since the last published run.
type Changes struct {
	Target Target
	Key    []output.Column // what tells the rows apart, beside the site or device that a list belongs to
	Ignore []string        // columns whose changes do not count: each with those below it
	Pos    Pos
}

// volatile are the fields whose changes are no news, by element: what a machine does by itself all day.
var volatile = map[string][]string{
	"devices": {
		"lastSeen", "lastReboot", "lastAuditDate", "online", "webRemoteUrl", "patchManagement.patchesApprovedPending",
		"patchManagement.patchesNotApproved", "patchManagement.patchesInstalled", "audit.webRemoteUrl", "audit.logicalDisks",
	},
	"sites":               {"devicesStatus.numberOfOnlineDevices", "devicesStatus.numberOfOfflineDevices"},
	"users":               {"lastAccess"},
	"device-audit":        {"webRemoteUrl", "logicalDisks"},
	"device-audit-by-mac": {"webRemoteUrl", "logicalDisks"},
	"printer-audit":       {"printer.printedPageCount", "printerMarkerSupplies", "snmpInfo.snmpUptime"},
	"esxi-audit":          {"datastores", "snmpInfo.snmpUptime"},
}

// Volatile returns the columns that a change file ignores by itself.
func Volatile(element string) []string { return slices.Clone(volatile[element]) }

// labels are the fields by which people know an element, beside its key: those of them that it has.
var labels = []string{"siteName", "hostname", "name", "alertSourceInfo.siteName", "alertSourceInfo.deviceName", "lastName", "firstName"}

func columnSpecs(paths []string) []output.ColumnSpec {
	specs := make([]output.ColumnSpec, len(paths))
	for i, p := range paths {
		specs[i].Path = p
	}
	return specs
}

// changes reads a path, or a mapping with one.
func (d *decoder) changes(n *yaml.Node, e *ExportSpec) *Changes {
	c := &Changes{Ignore: volatile[e.Element], Pos: d.pos(n.Line, n.Column)}
	var key []string
	if e.From.Key != "" && e.Explode.Path == "" {
		key = append(key, e.From.Key)
	}
	out := n
	if n.Kind == yaml.MappingNode {
		// What it has in common with other outputs is read like one.
		out = &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line, Column: n.Column, Style: n.Style}
		for i := 0; i+1 < len(n.Content); i += 2 {
			switch name := n.Content[i]; name.Value {
			case "key":
				key = d.words(n.Content[i+1], "key")
			case "ignore":
				c.Ignore = d.ignored(n.Content[i+1], e)
			case "dates", "timezone":
				d.fault(name, "remove it", "%q has no effect on a change file, whose dates are rfc3339 in UTC", name.Value)
			default:
				out.Content = append(out.Content, name, n.Content[i+1])
			}
		}
	}
	c.Target, _ = d.target(out)
	if c.Target.Path == "-" {
		d.fault(n, "name a file", "a change file cannot go to standard output")
	}
	for _, t := range e.To {
		if t.Path == c.Target.Path && t.Path != "" {
			d.fault(n, fmt.Sprintf("the first is in line %d", t.Pos.Line), "this output is there twice")
		}
	}
	if len(key) == 0 {
		switch {
		case len(d.faults) > 0:
		case e.Explode.Path != "":
			d.fault(n, fmt.Sprintf("for example key: [%s, %s.name]", cmp.Or(e.From.Key, "uid"), e.Explode.Path), "changes needs a key that tells the rows of %s apart", e.Explode.Path)
		default:
			d.fault(n, "for example key: name", "%q has no key of its own that could tell what has changed", e.From.Name)
		}
		return c
	}
	var err error
	if c.Key, err = output.Resolve(e.Element, columnSpecs(key), e.With...); err != nil {
		d.changesFault(child2(n, "key"), "key", err)
		return c
	}
	if c.Target.Format != "" && c.Target.Path != "" {
		e.Changes = c
		if err := e.ChangesSpec().Validate(c.Target.Format); err != nil {
			d.fault(n, "", "%s", err)
		}
	}
	return c
}

// changesFault reports a name that is no field.
func (d *decoder) changesFault(n *yaml.Node, what string, err error) {
	hint, name := "", ""
	if fault, ok := errors.AsType[*output.ColumnError](err); ok {
		name = fault.Name
		if fault.Suggestion != "" {
			hint = fmt.Sprintf("did you mean %q?", fault.Suggestion)
		}
	}
	d.fault(n, hint, "%s: there is no field %q", what, name)
}

// ignored reads the columns whose changes do not count. The word default stands for those that are ignored anyway.
func (d *decoder) ignored(n *yaml.Node, e *ExportSpec) []string {
	var paths []string
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		return paths // every change counts
	}
	for _, name := range d.words(n, "ignore") {
		at := n
		for _, item := range n.Content {
			if item.Value == name {
				at = item
			}
		}
		switch {
		case name == "default":
			paths = append(paths, volatile[e.Element]...)
		case e.matches(name):
			paths = append(paths, name)
		default:
			if _, err := output.Resolve(e.Element, columnSpecs([]string{name}), e.With...); err != nil {
				var known []string
				for _, c := range e.Columns {
					known = append(known, c.Header)
				}
				hint := ""
				if near := spell.Nearest(name, known); near != "" {
					hint = fmt.Sprintf("did you mean %q?", near)
				}
				d.fault(at, hint, "ignore: there is no column %q", clip(name, 40))
				continue
			}
			paths = append(paths, name)
		}
	}
	return paths
}

// matches tells whether a name is that of a column of the export, or leads to some.
func (e *ExportSpec) matches(name string) bool {
	return slices.ContainsFunc(e.Columns, func(c output.Column) bool { return isBelow(c, name) })
}

// isBelow tells whether a column bears a name, is at a path, or below it.
func isBelow(c output.Column, name string) bool {
	return c.Header == name || c.Path == name || strings.HasPrefix(c.Path, name+".") || c.Path == "udf."+name
}

// Ignores tells whether changes in a column do not count.
func (c *Changes) Ignores(column output.Column) bool {
	return slices.ContainsFunc(c.Ignore, func(name string) bool { return isBelow(column, name) })
}

// Lead returns the columns that name a row in a change file: its key, then what people know it by.
func (e *ExportSpec) Lead() []output.Column {
	lead := slices.Clone(e.Changes.Key)
	for _, path := range labels {
		if slices.ContainsFunc(lead, func(k output.Column) bool { return k.Path == path }) {
			continue
		}
		if c, err := output.Resolve(e.Element, columnSpecs([]string{path}), e.With...); err == nil {
			lead = append(lead, c...)
		}
	}
	return lead
}

// The columns of a change file beside those of Lead. The names of what leads are prefixed in its records, so that a field
// called change or old cannot be taken for one of these.
const (
	ChangeKind  = "change"
	ChangeField = "field"
	ChangeOld   = "old"
	ChangeNew   = "new"
	LeadPrefix  = "lead/"
)

// ChangesSpec is what the change file is to hold.
func (e *ExportSpec) ChangesSpec() output.Spec {
	t := e.Changes.Target
	spec := output.Spec{Source: e.From.Name + "-changes", Style: t.Style, CSV: t.CSV, Mode: t.Mode}
	if t.Format == output.FileSQLite && spec.Mode == "" {
		spec.Mode = output.ModeReplace // one change has no key
	}
	add := func(header, path string) {
		spec.Columns = append(spec.Columns, output.Column{Header: header, Path: path, Format: output.FormatRaw})
	}
	add(ChangeKind, ChangeKind)
	for _, c := range e.Lead() {
		add(c.Header, LeadPrefix+c.Path)
	}
	for _, name := range []string{ChangeField, ChangeOld, ChangeNew} {
		add(name, name)
	}
	return spec
}
