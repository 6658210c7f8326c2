package jobs

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a timezone is known or not whatever the machine has installed

	"gopkg.in/yaml.v3"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// need marks the keys that a section cannot do without.
const need = true

// job reads the whole file.
func (d *decoder) job(root *yaml.Node) *Job {
	j := &Job{}
	d.section(root, "the job", []field{
		{"version", need, d.version},
		{"name", false, d.into(&j.Name, "name")},
		{"account", false, d.into(&j.Account, "account")},
		{"export", false, func(n *yaml.Node) { j.Export = d.export(n) }},
		{"update", false, func(n *yaml.Node) { j.Update = d.update(n) }},
		{"guard", false, func(n *yaml.Node) { d.guard(n, &j.Guard) }},
		{"throttle", false, func(n *yaml.Node) { d.throttle(n, &j.Throttle) }},
		{"workers", false, d.number(&j.Workers, "workers", 1, 64)},
		{"timeout", false, d.duration(&j.Timeout, "timeout")},
		{"grace", false, d.duration(&j.Grace, "grace")},
		{"confirm", false, d.flag(&j.Confirm, "confirm")},
		{"results", false, func(n *yaml.Node) { j.Results = d.path(n, "results") }},
		{"call", false, nil},
	})
	if root.Kind != yaml.MappingNode {
		return j
	}
	export, update := child(root, "export"), child(root, "update")
	for _, name := range []string{"guard", "results", "confirm"} {
		if key := child(root, name); key != nil && export != nil && update == nil && len(d.faults) == 0 {
			d.fault(key, "remove it", "%q has no effect on an export, which changes nothing", name)
		}
	}
	switch {
	case export != nil && update != nil:
		d.fault(update, "make two jobs of it", "a job is an export or an update, not both")
	case export == nil && update == nil:
		d.fault(root, "add the key export or the key update", "the job does nothing")
	}
	return j
}

// child finds the key of a mapping, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return nil
}

func (d *decoder) version(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Value != "1" {
		d.fault(n, "this rmmjob reads version: 1", "version must be the number 1, not %s", kind(n))
	}
}

// export reads what to read and where to write it.
func (d *decoder) export(n *yaml.Node) *ExportSpec {
	e := &ExportSpec{SecondWalk: "auto"}
	var filter *yaml.Node
	d.section(n, "export", []field{
		{"from", need, func(n *yaml.Node) { e.FromPos = d.pos(n.Line, n.Column); e.From = d.from(n) }},
		{"filter", false, func(n *yaml.Node) { filter = n }},
		{"second_walk", false, d.choice(&e.SecondWalk, "second_walk", "auto", "always", "never")},
		{"columns", false, func(n *yaml.Node) { d.columns(n, e) }},
		{"to", need, func(n *yaml.Node) { e.To = d.targets(n) }},
		{"where", false, nil},
		{"with", false, nil},
		{"manifest", false, nil},
	})
	if filter != nil && e.From.Name != "" {
		e.Filter = d.filter(filter, e.From)
	}
	if e.Preset == "" && len(e.Columns) == 0 {
		e.Preset = "default"
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

// formats are the words that say how the values of a column are written.
var formats = []string{"date", "rfc3339", "excel", "ms", "raw", "json", "join"}

// columns reads the name of a preset or a list of columns.
func (d *decoder) columns(n *yaml.Node, e *ExportSpec) {
	if n.Kind != yaml.SequenceNode {
		e.Preset, _ = d.word(n, "columns")
		return
	}
	if len(n.Content) == 0 {
		d.fault(n, "remove the key for the default", "columns is empty")
	}
	first := make(map[string]int)
	for _, item := range n.Content {
		c, ok := d.column(item)
		if !ok {
			continue
		}
		head := c.Header
		if head == "" {
			head = c.Path
		}
		if line, twice := first[head]; twice {
			d.fault(item, fmt.Sprintf("the first is in line %d", line), "the column %q is there twice", head)
		}
		first[head] = item.Line
		e.Columns = append(e.Columns, c)
	}
}

// column reads hostname, {lastSeen: rfc3339}, {Tag: udf.udf1} or {Seen: {path: lastSeen, format: excel}}.
func (d *decoder) column(n *yaml.Node) (Column, bool) {
	c := Column{Pos: d.pos(n.Line, n.Column)}
	if n.Kind != yaml.MappingNode {
		s, ok := d.word(n, "a column")
		c.Path = s
		return c, ok
	}
	before := len(d.faults)
	if len(n.Content) != 2 {
		d.fault(n, "begin each with its own dash", "an entry of columns is one column, this has %d", len(n.Content)/2)
		return c, false
	}
	d.pairs(n, "a column", func(key, value *yaml.Node) {
		head, _ := d.word(key, "the header of a column")
		if value.Kind == yaml.MappingNode {
			c.Header = head
			d.section(value, "a column", []field{
				{"path", need, d.into(&c.Path, "path")},
				{"format", false, d.choice(&c.Format, "format", formats...)},
				{"explode", false, nil},
			})
			return
		}
		word, ok := d.word(value, "a column")
		switch {
		case !ok:
		case slices.Contains(formats, word):
			c.Path, c.Format = head, word
		default:
			c.Header, c.Path = head, word
		}
	})
	return c, len(d.faults) == before
}

// endings are the file name endings that tell a format.
var endings = map[string]string{".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

// later are formats that people know from elsewhere, by ending and by name.
var later = []string{"xlsx", "xls", "parquet", "sqlite", "db", "json", "xml", "html"}

// targets reads the outputs: a list, or a single one.
func (d *decoder) targets(n *yaml.Node) []Target {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
		if len(items) == 0 {
			d.fault(n, "name a file", "to is empty")
		}
	}
	var targets []Target
	first := make(map[string]int)
	for _, item := range items {
		t, ok := d.target(item)
		if !ok {
			continue
		}
		if line, twice := first[t.Path]; twice {
			d.fault(item, fmt.Sprintf("the first is in line %d", line), "this output is there twice")
		}
		first[t.Path] = item.Line
		targets = append(targets, t)
	}
	return targets
}

// target reads one output: a path, or a mapping with options.
func (d *decoder) target(n *yaml.Node) (Target, bool) {
	before := len(d.faults)
	t := Target{
		Delimiter: ',', EOL: "crlf", Dates: "rfc3339", Timezone: "UTC", Formulas: "keep", Newlines: "keep",
		Pos: d.pos(n.Line, n.Column),
	}
	where := n
	readPath := func(n *yaml.Node) {
		where = n
		if n.Value == "-" {
			t.Path = "-"
			return
		}
		t.Path = d.path(n, "the path of an output")
	}
	if n.Kind != yaml.MappingNode {
		readPath(n)
	} else {
		d.section(n, "an output", []field{
			{"path", need, readPath},
			{"format", false, func(n *yaml.Node) { t.Format = d.format(n) }},
			{"bom", false, d.flag(&t.BOM, "bom")},
			{"delimiter", false, func(n *yaml.Node) { t.Delimiter = d.delimiter(n) }},
			{"eol", false, d.choice(&t.EOL, "eol", "crlf", "lf")},
			{"dates", false, d.choice(&t.Dates, "dates", "rfc3339", "excel", "ms")},
			{"timezone", false, func(n *yaml.Node) { d.timezone(n, &t) }},
			{"formulas", false, d.choice(&t.Formulas, "formulas", "keep", "guard")},
			{"newlines", false, d.choice(&t.Newlines, "newlines", "keep", "space", "escape")},
			{"publish", false, d.publish},
		})
	}
	if t.Path != "" && child(n, "format") == nil {
		t.Format = d.formatOf(where, t.Path)
	}
	if t.Format == "jsonl" && n.Kind == yaml.MappingNode {
		for _, name := range []string{"bom", "delimiter", "eol", "formulas", "newlines"} {
			if key := child(n, name); key != nil {
				d.fault(key, "remove it", "%q has no effect on jsonl", name)
			}
		}
	}
	return t, len(d.faults) == before
}

// publish reads how a finished output takes the place of the old one. There is one way so far, so it is only checked.
func (d *decoder) publish(n *yaml.Node) {
	way := ""
	if n.Value == "inplace" {
		d.fault(n, "write replace or remove the key", "publish: inplace is not available in this version of rmmjob")
		return
	}
	d.choice(&way, "publish", "replace")(n)
}

// format reads the name of an output format.
func (d *decoder) format(n *yaml.Node) string {
	s, ok := d.word(n, "format")
	switch {
	case !ok || s == "csv" || s == "jsonl":
		return s
	case slices.Contains(later, s):
		d.fault(n, "write csv or jsonl", "the format %q is not available in this version of rmmjob", s)
	default:
		d.fault(n, suggestion(s, []string{"csv", "jsonl"}), "format must be csv or jsonl, not %q", clip(s, 40))
	}
	return ""
}

// formatOf tells the format of an output by the ending of its name.
func (d *decoder) formatOf(n *yaml.Node, path string) string {
	if path == "-" {
		return "csv"
	}
	ending := strings.ToLower(filepath.Ext(path))
	switch format := endings[ending]; {
	case format != "":
		return format
	case slices.Contains(later, strings.TrimPrefix(ending, ".")):
		d.fault(n, "write .csv or .jsonl", "%s files are not available in this version of rmmjob", ending)
	case ending == "":
		d.fault(n, "end it with .csv or .jsonl, or add format: csv", "the output has no ending that tells its format")
	default:
		d.fault(n, "end it with .csv or .jsonl, or add format: csv", "the ending %s tells no format", clip(ending, 20))
	}
	return ""
}

// delimiters are the names of delimiters that are hard to write or to see.
var delimiters = map[string]rune{"comma": ',', "semicolon": ';', "tab": '\t', "pipe": '|', `\t`: '\t'}

// delimiter reads the character between cells.
func (d *decoder) delimiter(n *yaml.Node) rune {
	s, ok := d.text(n, "delimiter")
	if !ok {
		return 0
	}
	if r, named := delimiters[s]; named {
		return r
	}
	if len(s) == 1 && (s == "\t" || strings.ContainsAny(s, "!#$%&*+,-./:;<=>?@^_|~")) {
		return rune(s[0])
	}
	d.fault(n, "comma, semicolon, tab and pipe are names for the usual ones", "delimiter must be one sign, not %q", clip(s, 40))
	return 0
}

func (d *decoder) timezone(n *yaml.Node, t *Target) {
	s, ok := d.word(n, "timezone")
	if !ok {
		return
	}
	if _, err := time.LoadLocation(s); err != nil {
		d.fault(n, "names look like Europe/Berlin; Local is that of this machine", "there is no timezone %q", clip(s, 40))
		return
	}
	t.Timezone = s
}

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
		{"on_not_found", false, d.choice(&u.OnNotFound, "on_not_found", "fail", "skip")},
		{"on_row_fault", false, d.choice(&u.OnRowFault, "on_row_fault", "hold", "stop")},
		{"protected", false, nil},
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
	case child(n, "match") == nil && len(op.matchFields()) > 0:
		d.fault(n, "", "update lacks the key %q", "match")
	}
	switch {
	case set != nil && !op.hasSet():
		d.fault(child(n, "set"), "remove it", "%s takes no values", op.name)
	case set != nil:
		u.Set = d.settings(set, op)
	case child(n, "set") == nil && op.hasSet():
		d.fault(n, "", "update lacks the key %q", "set")
	}
	if u.Rows.DateFormat != "" && op.name != "device-warranty-create" {
		d.fault(child(rows, "date_format"), "remove it", "date_format has no effect: %s writes no date", op.name)
	}
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
		if near := rmm.Suggest(name); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		d.fault(n, hint, "there is no operation %q", clip(name, 40))
	}
	return rmm.Operation{}
}

// rows reads the input: a path, or a mapping with options.
func (d *decoder) rows(n *yaml.Node, r *Rows) {
	r.Pos = d.pos(n.Line, n.Column)
	csv := func(n *yaml.Node) {
		if n.Value == "-" {
			d.fault(n, "name a file", "the rows are read more than once and cannot come from stdin")
			return
		}
		r.CSV = d.path(n, "the path of the rows")
	}
	if n.Kind != yaml.MappingNode {
		csv(n)
		return
	}
	d.section(n, "rows", []field{
		{"csv", need, csv},
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
			}
			r.DateFormat = s
		}},
		{"from", false, nil},
	})
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
		d.fault(n, "", "match needs uid, id or hostname")
	case keys > 1:
		d.fault(n, "", "match takes one of uid, id and hostname")
	case sites > 1:
		d.fault(n, "", "match takes one of siteName and siteUid")
	case sites > 0 && unique:
		d.fault(n, "remove the site", "a uid or id needs no site in match")
	}
}

// settings reads the fields to write.
func (d *decoder) settings(n *yaml.Node, op operation) []Setting {
	var settings []Setting
	add := func(field string, key, value *yaml.Node) {
		if isNull(value) || value.Kind == yaml.ScalarNode && value.Value == "" {
			d.fault(key, "to clear a field write '(clear)'", "%q has no value", key.Value)
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

func (d *decoder) guard(n *yaml.Node, g *Guard) {
	d.section(n, "guard", []field{
		{"max_changes", false, d.limit(&g.MaxChanges, "max_changes")},
		{"max_clears", false, d.limit(&g.MaxClears, "max_clears")},
		{"max_errors", false, d.limit(&g.MaxErrors, "max_errors")},
		{"max_not_found", false, d.limit(&g.MaxNotFound, "max_not_found")},
		{"max_rejected", false, d.limit(&g.MaxRejected, "max_rejected")},
	})
}

// customKeys are the numbers of the profile custom.
var customKeys = []string{
	"onset", "delay_multiplier", "calibration_base", "calibration_max", "calibration_min", "confidence_count",
	"stability_threshold", "drift_threshold", "drift_scaling", "safety_overhead", "unknown_operation_factor",
}

func (d *decoder) throttle(n *yaml.Node, t *Throttle) {
	t.Pos = d.pos(n.Line, n.Column)
	fields := []field{
		{"profile", false, d.into(&t.Profile, "profile")},
		{"base", false, d.into(&t.Base, "base")},
		{"max_pause", false, d.duration(&t.MaxPause, "max_pause")},
		{"rate_limit_wait", false, d.duration(&t.RateLimitWait, "rate_limit_wait")},
		{"block_wait", false, d.duration(&t.BlockWait, "block_wait")},
		{"pause_wait", false, d.duration(&t.PauseWait, "pause_wait")},
		{"reserve", false, func(n *yaml.Node) {
			r, at, err := ReserveOf(n)
			if err != nil {
				d.fault(at, "", "reserve: %v", err)
			}
			t.Reserve = r
		}},
		{"max", false, func(n *yaml.Node) {
			text, ok := d.word(n, "max")
			if !ok {
				return
			}
			r, err := ParseRate(text)
			if err != nil {
				d.fault(n, "", "max: %v", err)
			}
			t.Max = r
		}},
		{"legacy", false, d.choice(&t.Legacy, "legacy", "auto", "on", "off")},
	}
	for _, name := range customKeys {
		fields = append(fields, field{name, false, func(n *yaml.Node) {
			v, ok := d.fraction(n, name)
			if !ok {
				return
			}
			if t.Custom == nil {
				t.Custom = make(map[string]float64)
			}
			t.Custom[name] = v
		}})
	}
	d.section(n, "throttle", fields)
	if n.Kind != yaml.MappingNode || t.Profile == "custom" {
		if t.Profile == "custom" && child(n, "base") == nil {
			d.fault(n, "for example base: medium", "the profile custom needs a base")
		}
		return
	}
	for _, name := range append([]string{"base"}, customKeys...) {
		if key := child(n, name); key != nil {
			d.fault(key, "add profile: custom", "%q has an effect only on the profile custom", name)
		}
	}
}
