package jobs

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// export reads what to read and where to write it.
func (d *decoder) export(n *yaml.Node) *ExportSpec {
	e := &ExportSpec{SecondWalk: "auto"}
	later := map[string]*yaml.Node{} // what needs to know the list, or the details
	keep := func(name string) field {
		return field{name, false, func(n *yaml.Node) { later[name] = n }}
	}
	fields := []field{
		{"from", need, func(n *yaml.Node) { e.FromPos = d.pos(n.Line, n.Column); e.From = d.from(n) }},
		{"second_walk", false, d.choice(&e.SecondWalk, "second_walk", "auto", "always", "never")},
		{"to", need, func(n *yaml.Node) { e.To = d.targets(n) }},
		{"manifest", false, func(n *yaml.Node) { e.Manifest = d.manifest(n) }},
		{"since", false, func(n *yaml.Node) { e.Since = d.since(n) }},
	}
	for _, name := range append([]string{"filter", "with", "where", "columns", "explode", "sort", "rows", "reuse", "changes"}, scopeKeys...) {
		fields = append(fields, keep(name))
	}
	d.section(n, "export", fields)
	if e.From.Name == "" {
		if columns := later["columns"]; columns != nil {
			d.columns(columns)
		}
		return e
	}
	e.Element, _ = output.ElementOf(e.From.Name)
	e.Scope = d.scope(n, later, e.From, e.FromPos)
	for _, part := range []struct {
		name string
		read func(*yaml.Node)
	}{
		{"filter", func(n *yaml.Node) { e.Filter = d.filter(n, e.From) }},
		{"with", func(n *yaml.Node) { e.With = d.with(n, e) }},
		{"explode", func(n *yaml.Node) { d.explode(n, e) }},
		{"where", func(n *yaml.Node) { e.Where = d.condition(n, e) }},
		{"sort", func(n *yaml.Node) { d.sort(n, e) }},
		{"rows", func(n *yaml.Node) { d.rowLimit(n, e) }},
	} {
		if n := later[part.name]; n != nil {
			part.read(n)
		}
	}
	var columns []column
	if n := later["columns"]; n != nil {
		if columns = d.columns(n); columns == nil {
			return e // reported already
		}
	}
	e.Columns = d.columnsOf(e, columns)
	d.incremental(n, e, later["reuse"], later["changes"])
	if len(e.Columns) > 0 {
		d.fits(e)
	}
	d.overwritten(e)
	return e
}

// from finds the operation to export.
func (d *decoder) from(n *yaml.Node) rmm.Operation {
	name, ok := d.word(n, "from")
	if !ok {
		return rmm.Operation{}
	}
	op, known := rmm.Lookup(name)
	switch {
	case known && !op.IsWrite():
		return op
	case known:
		d.fault(n, "rmmjob catalogue tells what can be read", "%q changes the account: it is nothing to read", name)
	default:
		hint := "rmmjob catalogue lists what there is"
		if near := spell.Nearest(name, reads()); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		d.fault(n, hint, "there is no list %q", clip(name, 40))
	}
	return rmm.Operation{}
}

// with reads the details that are wanted beside each item.
func (d *decoder) with(n *yaml.Node, e *ExportSpec) []string {
	known := output.Details(e.Element)
	if len(known) == 0 {
		d.fault(n, "devices, sites and jobs have details", "%s has no details for with", e.From.Name)
		return nil
	}
	var names []string
	for _, w := range d.places(n, "with") {
		if !slices.Contains(known, w.Text) {
			d.faultAt(w.Pos.Line, w.Pos.Column, suggestion(w.Text, known), "%s has no detail %q", e.From.Name, clip(w.Text, 40))
			continue
		}
		names = append(names, w.Text)
	}
	return names
}

// turning are parameters of the activity log that say where to go on reading. The program sets them itself.
var turning = []string{"page", "max", "searchAfter"}

// filter reads the query of a list. A filter that the server would ignore turns one site into everything, so each key
// must be one that the list has, in its exact spelling.
func (d *decoder) filter(n *yaml.Node, op rmm.Operation) url.Values {
	values := url.Values{}
	var known []string
	for _, p := range op.Query {
		if !slices.Contains(turning, p.Name) {
			known = append(known, p.Name)
		}
	}
	d.pairs(n, "filter", func(key, value *yaml.Node) {
		i := slices.IndexFunc(op.Query, func(p rmm.Param) bool { return p.Name == key.Value })
		switch {
		case slices.Contains(turning, key.Value):
			d.fault(key, "remove it", "%q is not for jobs: rmmjob turns the pages itself", key.Value)
		case len(known) == 0:
			d.fault(key, "", "%q has no filters", op.Name)
		case i < 0:
			d.fault(key, suggestion(key.Value, known), "unknown filter %q of %q", clip(key.Value, 40), op.Name)
		default:
			if s, ok := d.param(value, op.Query[i]); ok && d.instant(value, op, key.Value, s) {
				values.Set(key.Value, s)
			}
		}
	})
	return values
}

// instant checks the ends of a period that the service filters by: it takes them in one form only.
func (d *decoder) instant(n *yaml.Node, op rmm.Operation, name, text string) bool {
	if !dated[op.Name].server || name != "from" && name != "until" {
		return true
	}
	const layout = "2006-01-02T15:04:05Z"
	if _, err := time.Parse(layout, text); err == nil {
		return true
	}
	hint := ""
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		hint = "write " + day.Format(layout)
	}
	d.fault(n, hint, "%s must be a time in UTC such as 2026-03-06T02:00:00Z, not %q", name, clip(text, 40))
	return false
}

// param reads the value of a query parameter and checks it against the type.
func (d *decoder) param(n *yaml.Node, p rmm.Param) (string, bool) {
	items := []*yaml.Node{n}
	if p.Type == rmm.TypeStrings && n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var list []string
	for _, item := range items {
		s, ok := d.word(item, p.Name)
		if !ok {
			return "", false
		}
		if p.Type == rmm.TypeStrings {
			for part := range strings.SplitSeq(s, ",") {
				list = append(list, strings.TrimSpace(part))
			}
		} else {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		d.fault(n, nullHint, "%s is empty", p.Name)
		return "", false
	}
	for _, s := range list {
		switch {
		case s == "":
			d.fault(n, nullHint, "%s has an empty part", p.Name)
		case len(p.Values) > 0 && !slices.Contains(p.Values, s):
			d.fault(n, suggestion(s, p.Values), "%s must be %s, not %q", p.Name, orList(p.Values), clip(s, 40))
		case p.Type == rmm.TypeInt && !isInt64(s):
			d.fault(n, "", "%s must be a whole number, not %q", p.Name, clip(s, 40))
		case p.Type == rmm.TypeBool && s != "true" && s != "false":
			d.fault(n, "", "%s must be true or false, not %q", p.Name, clip(s, 40))
		default:
			continue
		}
		return "", false
	}
	return strings.Join(list, ","), true
}

func isInt64(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil && digits.MatchString(s)
}
