package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// update reads what to write.
func (d *decoder) update(n *yaml.Node) *UpdateSpec {
	u := &UpdateSpec{Empty: "keep", OnNotFound: "fail", OnRowFault: "hold", Pos: d.pos(n.Line, n.Column)}
	var match, set, rows *yaml.Node
	d.section(n, "update", []field{
		{"operation", need, func(n *yaml.Node) { u.Operation = d.operation(n) }},
		{"rows", need, func(n *yaml.Node) { rows = n; d.rows(n, &u.Rows) }},
		{"match", false, func(n *yaml.Node) { match = n }},
		{"set", false, func(n *yaml.Node) { set = n }},
		{"empty", false, d.choice(&u.Empty, "empty", "keep", "clear")},
		{"lookup", false, d.choice(&u.Lookup, "lookup", "audits")},
		{"on_not_found", false, d.choice(&u.OnNotFound, "on_not_found", "fail", "skip")},
		{"on_row_fault", false, d.choice(&u.OnRowFault, "on_row_fault", "hold", "stop")},
		{"verify", false, func(n *yaml.Node) {
			how := ""
			d.choice(&how, "verify", "none", "read_back")(n)
			u.Verify = how == "read_back"
		}},
	})
	if u.Operation.Name == "" || n.Kind != yaml.MappingNode {
		return u
	}
	op := operationOf(u.Operation.Name)
	switch {
	case match != nil && len(op.matchFields()) == 0:
		d.fault(child(n, "match"), "remove it", "%s has no target that exists before: the name is in set", op.name)
	case match != nil:
		u.Match = d.match(match, op)
	case child(n, "match") == nil && len(op.matchFields()) > 0 && !u.Rows.selects(subjects[op.on].list):
		d.fault(n, "", "update lacks the key %q", "match")
	}
	switch at := child(n, "lookup"); {
	case u.besideList() == bySerial && at == nil:
		d.fault(child(match, bySerial), "agree to that with lookup: audits under update", "serial numbers are in the audits, which cost one request for each device")
	case at != nil && u.besideList() != bySerial:
		d.fault(at, "remove it", "lookup has no effect: only a match by serial reads the audits")
	}
	switch {
	case set != nil && !op.hasSet():
		d.fault(child(n, "set"), "remove it", "%s takes no values", op.name)
	case set != nil:
		u.Set = d.settings(set, op)
		d.constants(u, op)
	case child(n, "set") == nil && op.hasSet():
		d.fault(n, "", "update lacks the key %q", "set")
	}
	if u.Rows.From != nil {
		d.selected(u, op)
	}
	if rows != nil && rows.Kind == yaml.MappingNode {
		d.usedAliases(rows, u)
		if key := child(rows, "date_format"); key != nil && op.name != "device-warranty-create" {
			d.fault(key, "remove it", "date_format has no effect: %s writes no date", op.name)
		}
	}
	u.Rows.uses = u.uses()
	return u
}

// operation finds the write of an update.
func (d *decoder) operation(n *yaml.Node) rmm.Operation {
	name, ok := d.word(n, "operation")
	if !ok {
		return rmm.Operation{}
	}
	var writes []string
	for _, w := range updatable {
		writes = append(writes, w.name)
	}
	op, known := rmm.Lookup(name)
	if own := operationOf(name); own.name == name && own.effect == ensures {
		// Made of two operations of the API. A create whose answer is lost is looked up.
		return rmm.Operation{Name: name, Class: rmm.ClassVerify, Summary: "set " + own.thing() + "s by name"}
	}
	switch {
	case known && slices.Contains(writes, name):
		return op
	case notForJobs[name] != "":
		d.fault(n, "available: "+strings.Join(writes, ", "), "%s is refused in jobs: %s", name, notForJobs[name])
	case known && op.IsWrite():
		d.fault(n, "available: "+strings.Join(writes, ", "), "updates by %q are not available in this version of rmmjob", name)
	case known:
		d.fault(n, "available: "+strings.Join(writes, ", "), "%q only reads", name)
	default:
		hint := "available: " + strings.Join(writes, ", ")
		if near := cmp.Or(spell.Nearest(name, writes), rmm.Suggest(name)); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		d.fault(n, hint, "there is no operation %q", clip(name, 40))
	}
	return rmm.Operation{}
}

// inputKinds are the keys that name an input; rows have one of them.
var inputKinds = []string{"csv", "xlsx", "jsonl", "from"}

// rows reads the input: a path, or a mapping with options.
func (d *decoder) rows(n *yaml.Node, r *Rows) {
	r.Pos = d.pos(n.Line, n.Column)
	r.keys = map[string]Pos{"csv": r.Pos}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		r.keys[n.Content[i].Value] = d.pos(n.Content[i+1].Line, n.Content[i+1].Column)
	}
	file := func(path *string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if n.Value == "-" {
				d.fault(n, "name a file", "the rows are read more than once and cannot come from stdin")
				return
			}
			*path = d.path(n, "the path of the rows")
		}
	}
	if n.Kind != yaml.MappingNode {
		file(&r.CSV)(n)
		return
	}
	d.section(n, "rows", []field{
		{"csv", false, file(&r.CSV)},
		{"xlsx", false, file(&r.XLSX)},
		{"jsonl", false, file(&r.JSONL)},
		{"sheet", false, d.into(&r.Sheet, "sheet")},
		{"encoding", false, func(n *yaml.Node) {
			s, ok := d.word(n, "encoding")
			if _, known := encodingOf(s); ok && !known {
				d.fault(n, suggestion(s, Encodings()), "unknown encoding %q", clip(s, 40))
			}
			r.Encoding = s
		}},
		{"delimiter", false, func(n *yaml.Node) { r.Delimiter = d.delimiter(n) }},
		{"skip_lines", false, d.number(&r.SkipLines, "skip_lines", 0, 10000)},
		{"allow_empty", false, d.flag(&r.AllowEmpty, "allow_empty")},
		{"date_format", false, func(n *yaml.Node) {
			s, ok := d.word(n, "date_format")
			if _, err := DateLayout(s); ok && err != nil {
				d.fault(n, "", "date_format: %s", err)
				return
			}
			r.DateFormat = s
		}},
		{"aliases", false, func(n *yaml.Node) { r.Aliases = d.aliases(n) }},
		{"from", false, func(v *yaml.Node) { r.From = d.selection(n, v) }},
		{"filter", false, func(*yaml.Node) {}}, // read with from, which it belongs to
		{"where", false, func(*yaml.Node) {}},  // likewise
	})
	d.inputKind(n)
}

// inputKind checks that rows name one input, and no option that another kind of input has.
func (d *decoder) inputKind(n *yaml.Node) {
	kind := ""
	for _, name := range inputKinds {
		key := child(n, name)
		switch {
		case key != nil && kind != "":
			d.fault(key, "make two jobs of it", "rows come from one input: %s or %s", kind, name)
		case key != nil:
			kind = name
		}
	}
	if kind == "" {
		d.fault(n, "", "rows lacks the key %q: it takes %s", "csv", orList(inputKinds))
		return
	}
	for _, only := range []struct {
		key   string
		kinds []string
	}{
		{"sheet", []string{"xlsx"}},
		{"encoding", []string{"csv"}},
		{"delimiter", []string{"csv"}},
		{"skip_lines", []string{"csv", "xlsx"}},
		{"aliases", []string{"csv", "xlsx", "jsonl"}},
		{"allow_empty", []string{"csv", "xlsx", "jsonl"}},
		{"filter", []string{"from"}},
		{"where", []string{"from"}},
	} {
		if key := child(n, only.key); key != nil && !slices.Contains(only.kinds, kind) {
			d.fault(key, "remove it", "%q has no effect on %s", only.key, kind)
		}
	}
}

// aliases reads the other headings that columns may have.
func (d *decoder) aliases(n *yaml.Node) map[string][]string {
	all := map[string][]string{}
	of := map[string]string{}
	d.pairs(n, "aliases", func(key, value *yaml.Node) {
		items := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			items = value.Content
		}
		column := trimBlank(key.Value)
		for _, item := range items {
			name, ok := d.word(item, "an alias of "+key.Value)
			if !ok {
				continue
			}
			if first, twice := of[columnKey(name)]; twice {
				d.fault(item, "", "%q is an alias of %s and of %s", clip(name, 40), first, column)
				continue
			}
			of[columnKey(name)] = column
			all[column] = append(all[column], name)
		}
	})
	return all
}

// usedAliases checks that each alias is one of a column that the job uses.
func (d *decoder) usedAliases(rows *yaml.Node, u *UpdateSpec) {
	n := child(rows, "aliases")
	if n == nil {
		return
	}
	used := u.columns()
	for i := 0; i+1 < len(rows.Content); i += 2 {
		if rows.Content[i] != n {
			continue
		}
		list := rows.Content[i+1]
		for k := 0; k+1 < len(list.Content); k += 2 {
			if name := trimBlank(list.Content[k].Value); !slices.Contains(used, name) {
				d.fault(list.Content[k], suggestion(name, used), "the job uses no column %q", clip(name, 40))
			}
			for _, other := range u.Rows.Aliases[trimBlank(list.Content[k].Value)] {
				if slices.ContainsFunc(used, func(c string) bool { return columnKey(c) == columnKey(other) }) {
					d.fault(list.Content[k+1], "", "%q is a column that the job uses itself", clip(other, 40))
				}
			}
		}
	}
}

// match reads how a row finds its target. The site of a thing comes first, whatever the order in the file.
func (d *decoder) match(n *yaml.Node, op operation) []Match {
	var matches []Match
	known := op.matchFields()
	keys, sites := 0, 0
	ok := d.pairs(n, "match", func(key, value *yaml.Node) {
		if !slices.Contains(known, key.Value) {
			d.fault(key, suggestion(key.Value, known), "unknown field %q in match", clip(key.Value, 40))
			return
		}
		site := strings.HasPrefix(key.Value, "site")
		if site {
			sites++
		} else {
			keys++
		}
		t, ok := d.template(value, key.Value)
		switch {
		case !ok:
		case trimBlank(value.Value) == "":
			d.fault(value, nullHint, "%s is empty", key.Value)
		case !site && op.on != aSiteVariable && len(t.Columns()) == 0:
			d.fault(value, fmt.Sprintf("name a column in braces: '{%s}'", value.Value),
				"%s names no column: every row would have the same %s", key.Value, op.thing())
		default:
			matches = append(matches, Match{Field: key.Value, Value: t, Pos: d.pos(value.Line, value.Column)})
		}
	})
	if !ok {
		return matches
	}
	switch op.on {
	case aDevice:
		d.deviceMatch(n, keys, sites)
	case aSiteVariable:
		switch {
		case sites != 1:
			d.fault(n, "", "match needs one of siteUid, siteId and siteName")
		case keys == 0 && op.effect != creates:
			d.fault(n, "", "match needs the name of the variable")
		}
		slices.SortStableFunc(matches, func(a, b Match) int { return strings.Compare(b.Field, a.Field) })
	default:
		if keys != 1 {
			d.fault(n, "", "match takes %s", oneOf(known))
		}
	}
	return matches
}

// oneOf asks for exactly one of some words.
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// deviceMatch checks that devices are found by uid, by id, or by host name, the last also within a site.
func (d *decoder) deviceMatch(n *yaml.Node, keys, sites int) {
	unique := child(n, "uid") != nil || child(n, "id") != nil
	switch {
	case keys == 0:
		d.fault(n, "", "match needs uid, id, hostname, mac or serial")
	case keys > 1:
		d.fault(n, "", "match takes one of uid, id, hostname, mac and serial")
	case sites > 1:
		d.fault(n, "", "match takes one of siteName and siteUid")
	case sites > 0 && unique:
		d.fault(n, "remove the site", "a uid or id needs no site in match")
	}
}

const clearHint = "to clear a field write '" + ClearWord + "'"

// settings reads the fields to write.
func (d *decoder) settings(n *yaml.Node, op operation) []Setting {
	var settings []Setting
	add := func(field string, key, value *yaml.Node) {
		if isNull(value) || value.Kind == yaml.ScalarNode && value.Value == "" {
			d.fault(key, clearHint, "%q has no value", key.Value)
			return
		}
		if t, ok := d.template(value, key.Value); ok {
			settings = append(settings, Setting{Field: field, Value: t, Pos: d.pos(value.Line, value.Column)})
		}
	}
	ok := d.pairs(n, "set", func(key, value *yaml.Node) {
		fault, hint := op.checkField(key.Value)
		switch {
		case fault != "":
			d.fault(key, hint, "%s", fault)
		case op.effect == starts && key.Value == "variables":
			d.pairs(value, "variables", func(key, value *yaml.Node) { add(variableOfJob+key.Value, key, value) })
		default:
			add(key.Value, key, value)
		}
	})
	switch {
	case !ok:
	case len(n.Content) == 0:
		d.fault(n, "", "set is empty")
	case op.effect == moves && child(n, "siteUid") != nil && child(n, "siteName") != nil:
		d.fault(n, "", "set takes one of siteUid and siteName")
	}
	for _, name := range op.need {
		if ok && len(n.Content) > 0 && child(n, name) == nil {
			d.fault(n, "", "set lacks the key %q, which %s needs", name, op.name)
		}
	}
	return settings
}

// constants checks the values that are the same for all rows, as those of rows are.
func (d *decoder) constants(u *UpdateSpec, op operation) {
	for _, s := range u.Set {
		if len(s.Value.Columns()) > 0 {
			continue
		}
		value := s.Value.Expand(nil)
		if trimBlank(value) == "" {
			d.faultAt(s.Pos.Line, s.Pos.Column, clearHint, "%s is blank", s.Field)
		} else if _, _, fault := u.want(op, s, value); fault != "" {
			d.faultAt(s.Pos.Line, s.Pos.Column, "", "%s", fault)
		}
	}
}

func (d *decoder) guard(n *yaml.Node, g *Guard) {
	d.section(n, "guard", []field{
		{"max_changes", false, d.limit(&g.MaxChanges, "max_changes")},
		{"max_clears", false, d.limit(&g.MaxClears, "max_clears")},
		{"max_errors", false, d.limit(&g.MaxErrors, "max_errors")},
		{"max_not_found", false, d.limit(&g.MaxNotFound, "max_not_found")},
		{"max_rejected", false, d.limit(&g.MaxRejected, "max_rejected")},
		{"max_percent", false, func(n *yaml.Node) {
			d.limit(&g.MaxPercent, "max_percent")(n)
			if g.MaxPercent.Percent = true; g.MaxPercent.Value > 100 {
				d.fault(n, "", "max_percent is a percentage from 0 to 100, not %s", n.Value)
			}
		}},
		{"protected", false, func(n *yaml.Node) { g.Protected = d.protected(n) }},
	})
}
