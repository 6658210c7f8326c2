package jobs

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Defaults of since.
const (
	defaultOverlap = 10 * time.Minute
	// defaultFirst is where the first run of a log begins that goes back for ever.
	defaultFirst = 30 * 24 * time.Hour
	longestAgo   = 3660 * 24 * time.Hour
)

// since reads last, a time such as 30d, a date, or a mapping.
func (d *decoder) since(n *yaml.Node) *Since {
	s := &Since{Last: true, Overlap: defaultOverlap, Pos: d.pos(n.Line, n.Column)}
	if n.Kind != yaml.MappingNode {
		if n.Value != "last" {
			s.Last = false
			s.First = d.moment(n, "since", "last, ")
		}
		return s
	}
	d.section(n, "since", []field{
		{"last", false, d.flag(&s.Last, "last")},
		{"first", false, func(n *yaml.Node) {
			if n.Value == "all" && n.Kind == yaml.ScalarNode {
				s.First = Moment{}
				return
			}
			s.First = d.moment(n, "first", "all, ")
		}},
		{"overlap", false, d.duration(&s.Overlap, "overlap")},
	})
	if !s.Last {
		if child(n, "first") == nil {
			d.fault(n, "for example first: 7d", "since without last needs the key first")
		}
		if key := child(n, "overlap"); key != nil {
			d.fault(key, "remove it", "overlap has an effect only with last: true")
		}
	}
	return s
}

// reuse reads which answers of the last published run stand for questions of the next.
func (d *decoder) reuse(n *yaml.Node) bool {
	what := ""
	d.choice(&what, "reuse", "audits", "none")(n)
	return what == "audits"
}

// days is a number of days: 30d.
var days = regexp.MustCompile(`^([1-9][0-9]{0,3})d$`)

// moment reads a time before the run (12h, 30d) or a date (2026-03-01, 2026-03-01T08:00:00Z). A date without a time is
// midnight UTC, as the service counts. others names further words that are possible, for the message.
func (d *decoder) moment(n *yaml.Node, name, others string) Moment {
	s, ok := d.word(n, name)
	if !ok {
		return Moment{}
	}
	if m := days.FindStringSubmatch(s); m != nil {
		if count, err := strconv.Atoi(m[1]); err == nil && time.Duration(count)*24*time.Hour <= longestAgo {
			return Moment{Ago: time.Duration(count) * 24 * time.Hour}
		}
	}
	if ago, err := time.ParseDuration(s); err == nil && ago > 0 && ago <= longestAgo {
		return Moment{Ago: ago}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, s); err == nil {
			return Moment{At: at.UTC()}
		}
	}
	d.fault(n, "", "%s must be %sa time such as 12h or 30d, or a date such as 2026-03-01, not %s", name, others, kind(n))
	return Moment{}
}

// incremental checks what since, reuse and changes ask of the list, once it is known.
func (d *decoder) incremental(n *yaml.Node, e *ExportSpec, reuse, changes *yaml.Node) {
	if e.Since != nil {
		d.sinceFits(n, e)
	}
	if reuse != nil {
		e.Reuse = d.reuse(reuse)
	}
	switch {
	case !e.Reuse:
	case !e.readsAudits():
		d.fault(reuse, "remove it", "there are no audits to reuse: that is for %s, and for devices with: [audit, software]", strings.Join(audited, ", "))
	case e.Given != nil:
		d.fault(reuse, "remove it, or name the devices by the key devices", "reuse needs the list of devices, which tells when each was audited")
	}
	if changes != nil {
		e.Changes = d.changes(changes, e)
	}
	if e.Changes != nil && e.Since != nil {
		d.fault(child(n, "changes"), "remove one of them", "a run that reads only what is new cannot tell what was removed: changes and since exclude each other")
	}
	if e.Since == nil {
		for _, node := range pathNodes(child2(n, "to"), child2(n, "changes")) {
			if strings.Contains(node.Value, "{since}") {
				d.fault(node, "", "{since} has a value only in an export with the key since")
			}
		}
	}
}

// sinceFits checks since against the list and its filter.
func (d *decoder) sinceFits(n *yaml.Node, e *ExportSpec) {
	list, ok := dated[e.From.Name]
	if !ok {
		d.fault(child(n, "since"), "lists with dates: "+strings.Join(slices.Sorted(maps.Keys(dated)), ", "),
			"the elements of %q have no date to go by", e.From.Name)
		return
	}
	node := child2(n, "since")
	first := child(node, "first")
	switch {
	case list.server && first != nil && e.Since.First == (Moment{}):
		d.fault(child2(node, "first"), "name a date or a time, such as 90d", "the log has no beginning to read from")
	case list.server && first == nil && e.Since.Last:
		e.Since.First = Moment{Ago: defaultFirst}
	}
	for _, name := range []string{"from", "until"} {
		if list.server && e.Filter.Has(name) {
			d.fault(child(child2(n, "filter"), name), "remove it, or the key since", "the filter %q is set by since", name)
		}
	}
}

// child2 finds the value of a key of a mapping, or an empty node.
func child2(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Kind == yaml.MappingNode && n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return &yaml.Node{}
}

// pathNodes lists the nodes of paths in sections of outputs: a path, a mapping with one, or a list of these.
func pathNodes(sections ...*yaml.Node) (paths []*yaml.Node) {
	for _, n := range sections {
		switch n.Kind {
		case yaml.ScalarNode:
			paths = append(paths, n)
		case yaml.MappingNode:
			paths = append(paths, child2(n, "path"))
		case yaml.SequenceNode:
			paths = append(paths, pathNodes(n.Content...)...)
		}
	}
	return paths
}
