package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"

	"rmmjob/internal/output"
	"rmmjob/internal/spell"
)

// conditionField is a field that a condition uses.
type conditionField struct {
	name  string // in the compiled condition
	path  string
	enum  []string // its known values; nil if any will do
	kind  output.Kind
	typ   types.Type
	dates map[string]bool // paths of dates within the elements of a list
}

// value gives the field of a row as conditions have it: dates as instants, numbers as numbers, nil for what is not
// there.
func (f conditionField) value(rec output.Record) any {
	v, _ := rec.Lookup(f.path)
	switch f.kind {
	case output.KindDate:
		t, ok := output.ParseDate(v)
		if _, list := v.([]any); list || !ok {
			return plainValue(v, f.dates, "")
		}
		if t.IsZero() {
			return nil
		}
		return t
	case output.KindText:
		if n, ok := v.(json.Number); ok {
			return n.String()
		}
	}
	return plainValue(v, f.dates, "")
}

// plainValue turns a decoded value into one of plain numbers, texts and instants.
func plainValue(v any, dates map[string]bool, at string) any {
	if dates[at] {
		if t, ok := output.ParseDate(v); ok {
			if t.IsZero() {
				return nil
			}
			return t
		}
	}
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
		return v.String()
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = plainValue(element, dates, at)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, value := range v {
			object[name] = plainValue(value, dates, strings.TrimPrefix(at+"."+name, "."))
		}
		return object
	}
	return v
}

// resolver finds the fields that the names of a condition mean, and refuses what a condition cannot have.
type resolver struct {
	element string
	with    []string
	explode string
	fields  []conditionField
	faults  []conditionFault

	warnings []conditionFault

	late  bool
	lists []string // the lists that are walked over around the present place; "" for one that is not a field
}

func (r *resolver) fault(n ast.Node, hint, format string, args ...any) {
	r.faults = append(r.faults, conditionFault{n.Location().From, fmt.Sprintf(format, args...), hint})
}

// expr resolves a part of a condition and returns what stands in its place.
func (r *resolver) expr(n ast.Node) ast.Node {
	if path, ok := r.chain(n); ok {
		return r.field(n, path)
	}
	switch n := n.(type) {
	case *ast.UnaryNode:
		n.Node = r.expr(n.Node)
	case *ast.BinaryNode:
		r.binary(n)
	case *ast.ConditionalNode:
		n.Cond, n.Exp1, n.Exp2 = r.expr(n.Cond), r.expr(n.Exp1), r.expr(n.Exp2)
	case *ast.ArrayNode:
		for i := range n.Nodes {
			n.Nodes[i] = r.expr(n.Nodes[i])
		}
	case *ast.ChainNode:
		return r.expr(n.Node)
	case *ast.MemberNode:
		r.member(n)
	case *ast.CallNode:
		return r.call(n)
	case *ast.BuiltinNode:
		r.builtin(n)
	case *ast.PointerNode:
		if n.Name != "" {
			r.fault(n, "", "#%s is not for conditions", n.Name)
		}
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
	default:
		r.fault(n, "", "this part of the language is not for conditions")
	}
	return n
}

func (r *resolver) binary(n *ast.BinaryNode) {
	n.Left, n.Right = r.expr(n.Left), r.expr(n.Right)
	r.unheardOf(n)
	r.dated(n)
	switch n.Operator {
	case "..":
		r.fault(n, "", "a range is not for conditions")
	case "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			r.fault(n.Right, "", "the pattern of matches must be a text in quotes")
			return
		}
		if _, err := regexp.Compile(pattern.Value); err != nil {
			r.fault(pattern, "", "%s", err)
		}
	}
}

// chain gives the dotted path that a chain of names means, if it begins with a name: antivirus.antivirusStatus,
// nics[0].ipv4, alertContext["@class"]. A name with a hyphen, as alerts-open, looks like a difference.
func (r *resolver) chain(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, true
	case *ast.ChainNode:
		return r.chain(n.Node)
	case *ast.MemberNode:
		path, ok := r.chain(n.Node)
		step, plain := stepOf(n.Property)
		return path + "." + step, ok && plain && !n.Method
	case *ast.BinaryNode:
		if n.Operator != "-" {
			return "", false
		}
		left, ok := n.Left.(*ast.IdentifierNode)
		right, ok2 := r.chain(n.Right)
		if !ok || !ok2 {
			return "", false
		}
		path := left.Value + "-" + right
		return path, output.DetailOf(r.element, path) != ""
	}
	return "", false
}

// stepOf is a step of a path: a name, or the number of an element.
func stepOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode:
		return strconv.Itoa(n.Value), n.Value >= 0
	}
	return "", false
}

// field takes a field into the condition, once, and returns its name there.
func (r *resolver) field(n ast.Node, path string) ast.Node {
	f, err := output.FieldAt(r.element, path, r.with...)
	if err != nil {
		r.unknown(n, path, err)
		return n
	}
	if output.DetailOf(r.element, f.Path) != "" || r.exploded(f.Path) {
		r.late = true
	}
	i := slices.IndexFunc(r.fields, func(known conditionField) bool { return known.path == f.Path })
	if i < 0 {
		i = len(r.fields)
		known := r.typed(f)
		known.name, known.enum = fieldName(i), f.Enum
		r.fields = append(r.fields, known)
	}
	id := &ast.IdentifierNode{Value: fieldName(i)}
	id.SetLocation(n.Location())
	return id
}

func (r *resolver) unknown(n ast.Node, path string, err error) {
	root := n
	for {
		m, ok := root.(*ast.MemberNode)
		if !ok {
			break
		}
		root = m.Node
	}
	var fault *output.ColumnError
	switch {
	case errors.As(err, &fault) && fault.NotAsked():
		detail := output.DetailOf(r.element, path)
		r.fault(root, fmt.Sprintf("add with: [%s]", detail), "%q is a detail that the job does not ask for", path)
	case errors.As(err, &fault) && fault.Suggestion != "":
		r.fault(root, fmt.Sprintf("did you mean %q?", fault.Suggestion), "there is no field %q", path)
	case strings.EqualFold(path, "null") || strings.EqualFold(path, "none"):
		r.fault(root, "a field that is not there is nil", "there is no field %q", path)
	default:
		r.fault(root, "texts need quotes of their own: siteName == \"Contoso\"", "there is no field %q", path)
	}
}

// exploded tells whether a path leads to the element of the list that makes the rows.
func (r *resolver) exploded(path string) bool {
	return r.explode != "" && (path == r.explode || strings.HasPrefix(path, r.explode+"."))
}

// typed is a field with what its values can be.
func (r *resolver) typed(f output.Field) conditionField {
	c := conditionField{path: f.Path, kind: f.Kind, typ: types.Any}
	prefix := f.Path + "."
	for _, inner := range output.Fields(r.element) {
		if rest, ok := strings.CutPrefix(inner.Path, prefix); ok && inner.Kind == output.KindDate {
			if c.dates == nil {
				c.dates = map[string]bool{}
			}
			c.dates[rest] = true
		}
	}
	steps := strings.Split(f.Path, ".")
	numbered := slices.ContainsFunc(steps, func(s string) bool { _, err := strconv.Atoi(s); return err == nil })
	switch {
	case f.Path == r.explode || numbered:
	case f.InList && !r.exploded(f.Path):
		c.typ = types.TypeOf([]any{})
	case f.InList && strings.Count(strings.TrimPrefix(f.Path, r.explode), ".") > 1:
		// A list within the exploded one, perhaps.
	default:
		c.typ = typeOf(f.Kind)
	}
	return c
}

func typeOf(k output.Kind) types.Type {
	switch k {
	case output.KindText:
		return types.String
	case output.KindInt:
		return types.Int
	case output.KindNumber:
		return types.Float64
	case output.KindBool:
		return types.Bool
	case output.KindDate:
		return types.TypeOf(time.Time{})
	case output.KindList:
		return types.TypeOf([]any{})
	case output.KindObject:
		return types.TypeOf(map[string]any{})
	case output.KindNull:
	}
	return types.Any
}

// member resolves what is looked up in something that is no field: an element of the list that is walked over.
func (r *resolver) member(n *ast.MemberNode) {
	if n.Method {
		r.fault(n, "", "methods are not for conditions")
		return
	}
	if path, ok := inPointer(n); ok && len(r.lists) > 0 && r.lists[len(r.lists)-1] != "" {
		list := r.lists[len(r.lists)-1]
		if _, err := output.FieldAt(r.element, list+"."+path, r.with...); err != nil {
			var fault *output.ColumnError
			hint := ""
			if errors.As(err, &fault) && strings.HasPrefix(fault.Suggestion, list+".") {
				hint = fmt.Sprintf("did you mean %q?", strings.TrimPrefix(fault.Suggestion, list))
			}
			r.fault(n, hint, "the elements of %s have no field %q", list, path)
		}
		return
	}
	n.Node = r.expr(n.Node)
	if _, plain := stepOf(n.Property); !plain {
		r.fault(n.Property, "", "what is in brackets must be a number or a text")
	}
}

// inPointer gives the path below the element of a list: .name, .dataExtents.size.
func inPointer(n ast.Node) (string, bool) {
	m, ok := n.(*ast.MemberNode)
	if !ok {
		return "", false
	}
	step, plain := stepOf(m.Property)
	if _, root := m.Node.(*ast.PointerNode); root {
		return step, plain
	}
	path, ok := inPointer(m.Node)
	return path + "." + step, ok && plain
}

// call resolves a call of one of our functions.
func (r *resolver) call(n *ast.CallNode) ast.Node {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		r.fault(n, "", "methods are not for conditions")
		return n
	}
	known := functionNames()
	if !slices.Contains(known, callee.Value) {
		hint := "functions: " + strings.Join(known, ", ")
		if near := spell.Nearest(callee.Value, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.fault(n, hint, "there is no function %q", callee.Value)
		return n
	}
	var constant *ast.StringNode
	if len(n.Arguments) == 1 {
		constant, _ = n.Arguments[0].(*ast.StringNode)
	}
	if callee.Value == "field" {
		if constant == nil {
			r.fault(n, `for example field("alertContext.@class")`, "field takes the name of a field in quotes")
			return n
		}
		return r.field(constant, constant.Value)
	}
	if constant != nil {
		if err := checkConstant(callee.Value, constant.Value); err != nil {
			r.fault(constant, "", "%s", err)
		}
	}
	for i := range n.Arguments {
		n.Arguments[i] = r.expr(n.Arguments[i])
	}
	return n
}

// builtin resolves a walk over a list.
func (r *resolver) builtin(n *ast.BuiltinNode) {
	if !listFunctions[n.Name] {
		r.fault(n, "functions: "+strings.Join(functionNames(), ", "), "the function %q is not for conditions", n.Name)
		return
	}
	list := ""
	if path, ok := r.chain(n.Arguments[0]); ok {
		list = path
	} else if path, ok := inPointer(n.Arguments[0]); ok && len(r.lists) > 0 && r.lists[len(r.lists)-1] != "" {
		list = r.lists[len(r.lists)-1] + "." + path
	}
	n.Arguments[0] = r.expr(n.Arguments[0])
	if len(n.Arguments) < 2 {
		return
	}
	if len(r.lists) == maxNesting {
		r.fault(n, "", "lists within lists within lists are not for conditions")
		return
	}
	r.lists = append(r.lists, list)
	if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
		p.Node = r.expr(p.Node)
	}
	r.lists = r.lists[:len(r.lists)-1]
}
