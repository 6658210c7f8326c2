package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/rmm"
)

// Call is a request that the catalogue does not know, sent once for each row of the input, or once where there is none.
type Call struct {
	Method string
	Path   Template // begins with /v2/; a cell in it is one segment or a part of one
	Query  []Setting
	Body   *CallBody // nil for none
	Class  rmm.Class // read, idempotent or unsafe, as the job states it
	Pos    Pos

	pathPos Pos
}

// CallBody is JSON whose texts are templates.
type CallBody struct {
	raw    string // number, true, false or null
	text   *placed
	keys   []string // of an object
	values []*CallBody
	list   bool
}

// callName is the operation of an update that is a call.
const callName = "call"

var callMethods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// call reads a call. It is an update whose requests the job makes itself.
func (d *decoder) call(n *yaml.Node) *UpdateSpec {
	u := &UpdateSpec{Empty: "keep", OnNotFound: "fail", OnRowFault: "hold", Pos: d.pos(n.Line, n.Column)}
	c := &Call{Pos: u.Pos}
	u.Call = c
	class, rows := "", (*yaml.Node)(nil)
	d.section(n, callName, []field{
		{"method", need, d.choice(&c.Method, "method", callMethods...)},
		{"path", need, func(n *yaml.Node) { d.callPath(n, c) }},
		{"class", need, d.choice(&class, "class", "read", "idempotent", "unsafe")},
		{"query", false, func(n *yaml.Node) {
			d.pairs(n, "query", func(key, value *yaml.Node) {
				if t, ok := d.template(value, key.Value); ok {
					c.Query = append(c.Query, Setting{Field: key.Value, Value: t, Pos: d.pos(value.Line, value.Column)})
				}
			})
		}},
		{"body", false, func(n *yaml.Node) { c.Body = d.callBody(n) }},
		{"rows", false, func(n *yaml.Node) { rows = n; d.rows(n, &u.Rows) }},
		{"on_row_fault", false, d.choice(&u.OnRowFault, "on_row_fault", "hold", "stop")},
	})
	if n.Kind != yaml.MappingNode {
		return u
	}
	c.Class = rmm.Class(class)
	u.Operation = rmm.Operation{Name: callName, Method: c.Method, Class: c.Class, Summary: "a call of the job's own"}
	d.callClass(n, c)
	if key := child(n, "body"); key != nil && c.Method == "GET" {
		d.fault(key, "give parameters under query", "a GET has no body")
	}
	if rows == nil {
		u.Rows.once = true
		for _, t := range u.templates() {
			if columns := t.value.Columns(); len(columns) > 0 {
				d.faultAt(t.pos.Line, t.pos.Column, "add rows, or write '{{' for a brace", "{%s} names a column, and the call has no rows", columns[0])
			}
		}
		return u
	}
	if u.Rows.From != nil {
		d.selected(u, operationOf(callName))
	}
	if rows.Kind == yaml.MappingNode {
		d.usedAliases(rows, u)
		if key := child(rows, "date_format"); key != nil {
			d.fault(key, "remove it", "date_format has no effect: a call sends cells as they are")
		}
	}
	u.Rows.uses = u.uses()
	return u
}

// callPath reads the path of a call.
func (d *decoder) callPath(n *yaml.Node, c *Call) {
	t, ok := d.template(n, "path")
	switch {
	case !ok:
		return
	case len(t.parts) == 0 || t.parts[0].column || !strings.HasPrefix(t.parts[0].text, "/v2/"):
		d.fault(n, "the host is that of the account, and /api is added", "the path of a call begins with /v2/")
	case strings.ContainsAny(n.Value, "?#"):
		d.fault(n, "give parameters under query", "the path of a call has a query")
	default:
		c.Path, c.pathPos = t, d.pos(n.Line, n.Column)
	}
}

// callClass checks what is known of the path of a call, and the class that it states against that and its method.
func (d *decoder) callClass(n *yaml.Node, c *Call) {
	if c.Method == "" {
		return
	}
	sample := c.path(func(string) string { return "x" })
	if sample != "" {
		if fault := c.refused(sample); fault != "" {
			d.faultAt(c.pathPos.Line, c.pathPos.Column, "", "%s", fault)
			return
		}
	}
	at := valueOf(n, "class")
	switch {
	case at == nil || c.Class == "":
	case (c.Method == "GET") != (c.Class == rmm.ClassRead):
		d.fault(at, "a GET is read, everything else is idempotent or unsafe", "a %s cannot be of the class %s", c.Method, c.Class)
	case sample != "":
		if fault := c.misstated(sample); fault != "" {
			d.fault(at, "", "%s", fault)
		}
	}
}

// callBody reads a body.
func (d *decoder) callBody(n *yaml.Node) *CallBody {
	switch n.Kind {
	case yaml.MappingNode:
		b := &CallBody{keys: []string{}}
		d.pairs(n, "body", func(key, value *yaml.Node) {
			b.keys = append(b.keys, key.Value)
			b.values = append(b.values, d.callBody(value))
		})
		return b
	case yaml.SequenceNode:
		b := &CallBody{list: true}
		for _, item := range n.Content {
			b.values = append(b.values, d.callBody(item))
		}
		return b
	}
	null := &CallBody{raw: "null"}
	switch {
	case n.Kind != yaml.ScalarNode || n.Style != 0:
	case n.Tag == "!!bool":
		return &CallBody{raw: strings.ToLower(n.Value)}
	case json.Valid([]byte(n.Value)):
		return &CallBody{raw: n.Value} // a number or null as JSON has them
	case n.Tag == "!!int" || n.Tag == "!!float":
		d.fault(n, "write plain digits, or put it in quotes for a text", "JSON has no number %s", clip(n.Value, 40))
		return null
	}
	t, ok := d.template(n, "body")
	if !ok {
		return null
	}
	return &CallBody{text: &placed{t, d.pos(n.Line, n.Column)}}
}

// templates are the templates of a body.
func (b *CallBody) templates() []placed {
	switch {
	case b == nil:
		return nil
	case b.text != nil:
		return []placed{*b.text}
	}
	var list []placed
	for _, v := range b.values {
		list = append(list, v.templates()...)
	}
	return list
}

// append writes the body for one row.
func (b *CallBody) append(to []byte, cell func(string) string) []byte {
	switch {
	case b.text != nil:
		return append(to, quoted(b.text.value.Expand(cell))...)
	case b.raw != "":
		return append(to, b.raw...)
	}
	opening, closing := byte('{'), byte('}')
	if b.list {
		opening, closing = '[', ']'
	}
	to = append(to, opening)
	for i, v := range b.values {
		if i > 0 {
			to = append(to, ',')
		}
		if !b.list {
			to = append(append(to, quoted(b.keys[i])...), ':')
		}
		to = v.append(to, cell)
	}
	return append(to, closing)
}

// templates are all templates of a call.
func (c *Call) templates() []placed {
	list := []placed{{c.Path, c.pathPos}}
	for _, q := range c.Query {
		list = append(list, placed{q.Value, q.Pos})
	}
	return append(list, c.Body.templates()...)
}

// path is the path for one row. A cell is a part of a segment, whatever it holds.
func (c *Call) path(cell func(string) string) string {
	return c.Path.Expand(func(column string) string { return url.PathEscape(cell(column)) })
}

// plainPath is a path as a server may take it that is generous: without escapes, empty
// parts and blanks around parts.
func plainPath(path string) string {
	for range 3 { // an escape may be escaped
		plain, err := url.PathUnescape(path)
		if err != nil || plain == path {
			break
		}
		path = plain
	}
	var parts []string
	for _, part := range strings.Split(path, "/") {
		if part = trimBlank(part); part != "" {
			parts = append(parts, url.PathEscape(part))
		}
	}
	return "/" + strings.Join(parts, "/")
}

// refused says why no job may send a call to a path; "" when it may.
func (c *Call) refused(path string) string {
	if _, err := rmm.Resolve(c.Method + " " + path); err != nil {
		return err.Error()
	}
	plain := plainPath(path)
	op, err := rmm.Resolve(c.Method + " " + plain)
	switch {
	case err != nil:
		return err.Error()
	case op.Name == "user-reset-keys", strings.EqualFold(plain, "/v2/user/resetApiKeys"):
		return "a reset of keys is refused in jobs: " + notForJobs["user-reset-keys"]
	}
	return ""
}

// misstated says why a call to a path that is not refused is not of the class that it states; "" when it may be.
func (c *Call) misstated(path string) string {
	op, err := rmm.Resolve(c.Method + " " + plainPath(path))
	if err != nil || op.Known == "" || c.Class == rmm.ClassUnsafe || op.Class != rmm.ClassVerify && op.Class != rmm.ClassUnsafe {
		return ""
	}
	return fmt.Sprintf("this is %s, which is not safe to repeat: state class: unsafe, or use operation: %s", op.Known, op.Known)
}

// holes says which cell of a row leaves a hole in the request: nothing in it can be left
// alone, so a blank cell is a fault, and an empty text is asked for by the word that
// empties a field. In the path, and beside other text, there is none.
func (c *Call) holes(cell func(string) string) string {
	for i, t := range c.templates() {
		path := i == 0
		if path || t.value.mixed() {
			if _, fault := t.value.word(cell); fault != "" {
				return fault
			}
		}
		blank := t.value.holes(cell)
		switch {
		case len(blank) == 0:
		case path:
			return fmt.Sprintf("{%s} in the path is blank", blank[0])
		case t.value.mixed():
			return fmt.Sprintf("%s is blank within %q", braced(blank), t.value)
		default:
			return fmt.Sprintf("{%s} is blank: for an empty text write %s", blank[0], ClearWord)
		}
		if v := t.value.Expand(cell); len(t.value.Columns()) > 0 && nearlyClears(v) {
			return fmt.Sprintf("%s is %q: for an empty text write %s, for something else remove the brackets", t.value, clip(v, 20), ClearWord)
		}
	}
	return ""
}

// emptied reads the word that empties a field as an empty text.
func emptied(cell func(string) string) func(string) string {
	return func(column string) string {
		if v := cell(column); v != ClearWord {
			return v
		}
		return ""
	}
}

// request makes the request of one row, or says why it cannot be made.
func (c *Call) request(cell func(string) string) (req rmm.Request, fault string) {
	if fault := c.holes(cell); fault != "" {
		return req, fault
	}
	cell = emptied(cell)
	path := c.path(cell)
	if fault := cmp.Or(c.refused(path), c.misstated(path)); fault != "" {
		return req, fault
	}
	req = rmm.Request{Op: c.Method + " " + path, Class: c.Class}
	for _, q := range c.Query {
		if req.Query == nil {
			req.Query = url.Values{}
		}
		req.Query.Set(q.Field, q.Value.Expand(cell))
	}
	if c.Body != nil {
		req.Body = c.Body.append(nil, cell)
	}
	return req, ""
}

// readCalls makes the plan of a call: each row is a target of its own. Rows that come to the same request share it, so that
// it is sent once.
func (p *plan) readCalls() {
	same := map[string]*target{}
	for row := range p.eachRow() {
		req, fault := p.job.Update.Call.request(p.reader.cells(Record{Cells: p.cells.of(int(row.number))}))
		if fault != "" {
			row.judge(ClassInvalid, fault)
			continue
		}
		key := strings.Join([]string{req.Op, req.Query.Encode(), string(req.Body)}, "\x00")
		t := same[key]
		if t == nil {
			t = &target{object: &object{name: req.Op}, request: &req}
			same[key] = t
			p.targets = append(p.targets, t)
			if p.job.Update.Call.Class != rmm.ClassRead {
				p.writes++
			}
		}
		row.judge(ClassChange, "")
		t.add(row)
	}
}

// callChanges shows the body of a call in the plan.
func callChanges(req *rmm.Request) []Change {
	var changes []Change
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range req.Query {
			if !yield(name) {
				return
			}
		}
	}) {
		changes = append(changes, Change{Field: name, New: req.Query.Get(name), Made: true})
	}
	if len(req.Body) > 0 {
		changes = append(changes, Change{Field: "body", New: string(req.Body), Made: true})
	}
	return changes
}
