package jobs

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// export reads what to read and where to write it.
func (d *decoder) export(n *yaml.Node) *ExportSpec {
	e := &ExportSpec{SecondWalk: "auto"}
	var filter *yaml.Node
	var columns []column
	d.section(n, "export", []field{
		{"from", need, func(n *yaml.Node) { e.FromPos = d.pos(n.Line, n.Column); e.From = d.from(n) }},
		{"filter", false, func(n *yaml.Node) { filter = n }},
		{"second_walk", false, d.choice(&e.SecondWalk, "second_walk", "auto", "always", "never")},
		{"columns", false, func(n *yaml.Node) { columns = d.columns(n) }},
		{"to", need, func(n *yaml.Node) { e.To = d.targets(n) }},
		{"where", false, nil},
		{"with", false, nil},
		{"manifest", false, func(n *yaml.Node) { e.Manifest = d.manifest(n) }},
	})
	if filter != nil && e.From.Name != "" {
		e.Filter = d.filter(filter, e.From)
	}
	if e.From.Name != "" {
		e.Element, _ = output.ElementOf(e.From.Name)
		e.Columns = d.resolve(e.Element, columns)
	}
	if len(e.Columns) > 0 {
		d.fits(e)
	}
	return e
}

// exportable tells whether an export can read an operation: a list that stands alone or is there once for each site or
// device.
func exportable(op rmm.Operation) bool {
	return op.Paging != rmm.PagingNone && !op.IsWrite() &&
		!slices.ContainsFunc(op.PathParams(), func(p string) bool { return p != "siteUid" && p != "deviceUid" })
}

// from finds the list to export.
func (d *decoder) from(n *yaml.Node) rmm.Operation {
	name, ok := d.word(n, "from")
	if !ok {
		return rmm.Operation{}
	}
	var lists []string
	for _, op := range rmm.Operations() {
		if exportable(op) {
			lists = append(lists, op.Name)
		}
	}
	hint := "lists: " + strings.Join(lists, ", ")
	op, known := rmm.Lookup(name)
	switch {
	case known && exportable(op):
		return op
	case !known:
		if near := spell.Nearest(name, lists); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		d.fault(n, hint, "there is no list %q", clip(name, 40))
	case op.IsWrite():
		d.fault(n, hint, "%q changes the account; an export reads a list", name)
	case op.Paging == rmm.PagingNone:
		d.fault(n, hint, "%q is a single object; an export reads a list", name)
	default:
		d.fault(n, hint, "%q needs a %s, which an export cannot give", name, strings.Join(op.PathParams(), " and a "))
	}
	return rmm.Operation{}
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
			if s, ok := d.param(value, op.Query[i]); ok {
				values.Set(key.Value, s)
			}
		}
	})
	return values
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
