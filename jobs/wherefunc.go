package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"

	"rmmjob/internal/output"
)

// listFunctions are the functions of the library that walk over a list.
var listFunctions = map[string]bool{"any": true, "all": true, "none": true, "one": true, "count": true, "filter": true, "map": true}

// function is a function for conditions: its type for the check, and what it does. A missing value makes no function
// fail: the result is missing as well.
type function struct {
	typ any // a nil pointer to a function type
	do  func(args []any) any
}

var functions = map[string]function{
	"now":   {new(func() time.Time), func(args []any) any { return args[0] }},
	"ago":   {new(func(string) time.Time), fromNow(-1)},
	"ahead": {new(func(string) time.Time), fromNow(1)},
	"date": {new(func(any) time.Time), func(args []any) any {
		if t := instantOf(args[0]); !t.IsZero() {
			return t
		}
		return nil
	}},
	"duration": {new(func(string) time.Duration), func(args []any) any {
		text, _ := args[0].(string)
		if span, err := timeSpan(text); err == nil {
			return span
		}
		return nil
	}},
	"len": {new(func(any) int), func(args []any) any {
		switch v := args[0].(type) {
		case string:
			return utf8.RuneCountInString(v)
		case []any:
			return len(v)
		case map[string]any:
			return len(v)
		}
		return 0
	}},
	"lower": {new(func(string) string), ofText(strings.ToLower)},
	"upper": {new(func(string) string), ofText(strings.ToUpper)},
	"trim":  {new(func(string) string), ofText(strings.TrimSpace)},
	"int": {new(func(any) int), func(args []any) any {
		if f, ok := numberOf(args[0]); ok && math.Abs(f) < 1<<53 {
			return int(f)
		}
		return nil
	}},
	"float": {new(func(any) float64), func(args []any) any {
		if f, ok := numberOf(args[0]); ok {
			return f
		}
		return nil
	}},
	"string": {new(func(any) string), func(args []any) any {
		switch v := args[0].(type) {
		case nil:
			return nil
		case time.Time:
			return v.Format(time.RFC3339)
		default:
			return fmt.Sprint(v)
		}
	}},
}

// fromNow is an instant before (-1) or after (1) the present, by a span of time.
func fromNow(sign time.Duration) func([]any) any {
	return func(args []any) any {
		text, ok := args[0].(string)
		now, ok2 := args[1].(time.Time)
		span, err := timeSpan(text)
		if !ok || !ok2 || err != nil {
			return nil
		}
		return now.Add(sign * span)
	}
}

// presentFunctions are those that take the present as a further argument.
var presentFunctions = []string{"ago", "ahead", "now"}

// functionNames are the functions that a condition can call, sorted.
func functionNames() []string {
	names := append(slices.Collect(maps.Keys(functions)), "field")
	return slices.Sorted(slices.Values(append(names, slices.Collect(maps.Keys(listFunctions))...)))
}

// checkConstant reports an argument that a function can make nothing of.
func checkConstant(function, text string) error {
	switch function {
	case "ago", "ahead", "duration":
		span, err := timeSpan(text)
		other := map[string]string{"ago": "ahead", "ahead": "ago"}[function]
		if later := strings.TrimPrefix(text, "-"); later != text && other != "" {
			return fmt.Errorf("%q is a negative span of time: write %s(%q)", clip(text, 40), other, clip(later, 40))
		}
		if err == nil && span < 0 {
			return fmt.Errorf("%q is a negative span of time", clip(text, 40))
		}
		return err
	case "date":
		if t, ok := output.ParseDate(text); !ok || t.IsZero() {
			return fmt.Errorf("%q is no date such as 2025-03-06 or 2025-03-06T02:00:00Z", clip(text, 40))
		}
	}
	return nil
}

var spanOf = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*(d|w)$`)

// timeSpan reads a span of time: 30d and 2w beside what Go knows (90m, 1h30m). A day has 24 hours.
func timeSpan(text string) (time.Duration, error) {
	if m := spanOf.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		days := map[string]float64{"d": 1, "w": 7}[m[2]]
		if err == nil && n*days <= 36_500 {
			return time.Duration(n * days * 24 * float64(time.Hour)), nil
		}
	} else if span, err := time.ParseDuration(text); err == nil {
		return span, nil
	}
	return 0, fmt.Errorf("%q is no span of time such as 30d, 2w, 12h or 90m", clip(text, 40))
}

func ofText(do func(string) string) func([]any) any {
	return func(args []any) any {
		if s, ok := args[0].(string); ok {
			return do(s)
		}
		return nil
	}
}

// instantOf is the date that a value stands for; zero for none.
func instantOf(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v
	case string:
		t, _ := output.ParseDate(v)
		return t
	case int:
		t, _ := output.ParseDate(strconv.Itoa(v))
		return t
	case float64:
		t, _ := output.ParseDate(strconv.FormatFloat(v, 'f', -1, 64))
		return t
	}
	return time.Time{}
}

// numberOf is the number that a value stands for.
func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case time.Duration:
		return float64(v), true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	return 0, false
}

// order compares two values; ok is false where they cannot be compared, as with one that is missing.
func order(a, b any) (c int, ok bool) {
	ta, aDate := a.(time.Time)
	tb, bDate := b.(time.Time)
	if aDate != bDate { // a date and how somebody writes one
		ta, tb = instantOf(a), instantOf(b)
	}
	if aDate || bDate {
		return ta.Compare(tb), !ta.IsZero() && !tb.IsZero()
	}
	switch a := a.(type) {
	case int:
		if b, ok := b.(int); ok {
			return cmp.Compare(a, b), true
		}
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case time.Duration:
		b, ok := b.(time.Duration)
		return cmp.Compare(a, b), ok
	}
	_, aText := a.(string)
	_, bText := b.(string)
	x, ok := numberOf(a)
	y, ok2 := numberOf(b)
	return cmp.Compare(x, y), ok && ok2 && !aText && !bText
}

func equal(a, b any) bool {
	if c, ok := order(a, b); ok {
		return c == 0
	}
	return reflect.DeepEqual(a, b)
}

// calculate does the arithmetic of conditions; nil where there is nothing to calculate with.
func calculate(op string, a, b any) any {
	ta, aDate := a.(time.Time)
	tb, bDate := b.(time.Time)
	da, aSpan := a.(time.Duration)
	db, bSpan := b.(time.Duration)
	sa, aText := a.(string)
	sb, bText := b.(string)
	switch {
	case op == "+" && aText && bText:
		return sa + sb
	case op == "-" && aDate && bDate:
		return ta.Sub(tb)
	case op == "-" && aDate && bSpan:
		return ta.Add(-db)
	case op == "+" && aDate && bSpan:
		return ta.Add(db)
	case op == "+" && aSpan && bDate:
		return tb.Add(da)
	case aSpan && bSpan && op == "+":
		return da + db
	case aSpan && bSpan && op == "-":
		return da - db
	}
	x, ok := numberOf(a)
	y, ok2 := numberOf(b)
	if !ok || !ok2 || aText || bText {
		return nil
	}
	var f float64
	switch op {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "/":
		f = x / y
	case "%":
		f = math.Mod(x, y)
	default:
		f = math.Pow(x, y)
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil
	case aSpan || bSpan:
		return time.Duration(f)
	case f == math.Trunc(f) && math.Abs(f) < 1<<53 && op != "/":
		return int(f)
	}
	return f
}

// operators are what the operators of a condition become: functions that a missing value, or one of another kind than
// the API promises, cannot bring down.
var operators = map[string]func(a, b any) any{
	"==": func(a, b any) any { return equal(a, b) },
	"!=": func(a, b any) any { return !equal(a, b) },
	"<":  func(a, b any) any { c, ok := order(a, b); return ok && c < 0 },
	"<=": func(a, b any) any { c, ok := order(a, b); return ok && c <= 0 },
	">":  func(a, b any) any { c, ok := order(a, b); return ok && c > 0 },
	">=": func(a, b any) any { c, ok := order(a, b); return ok && c >= 0 },
	"in": func(a, b any) any {
		if list, ok := b.([]any); ok && a != nil {
			return slices.ContainsFunc(list, func(v any) bool { return equal(a, v) })
		}
		object, _ := b.(map[string]any)
		name, _ := a.(string)
		_, ok := object[name]
		return ok
	},
	"contains":   ofTexts(strings.Contains),
	"startsWith": ofTexts(strings.HasPrefix),
	"endsWith":   ofTexts(strings.HasSuffix),
	"matches": func(a, b any) any {
		text, ok := a.(string)
		pattern, _ := b.(*regexp.Regexp)
		return ok && pattern != nil && pattern.MatchString(text)
	},
}

func ofTexts(test func(a, b string) bool) func(a, b any) any {
	return func(a, b any) any {
		x, ok := a.(string)
		y, ok2 := b.(string)
		return ok && ok2 && test(x, y)
	}
}

// helpers are what other parts of a condition become.
var helpers = map[string]func(args []any) any{
	"truth": func(args []any) any { return args[0] == true },
	"list": func(args []any) any {
		if list, ok := args[0].([]any); ok {
			return list
		}
		return []any{}
	},
	"negate": func(args []any) any { return calculate("-", 0, args[0]) },
	"member": func(args []any) any {
		name, ok := args[1].(string)
		if i, number := args[1].(int); number {
			name, ok = strconv.Itoa(i), true
		}
		if !ok {
			return nil
		}
		v, _ := output.Record{"": args[0]}.Lookup("." + name)
		return v
	},
}

// arithmetic are the operators that calculate.
var arithmetic = []string{"+", "-", "*", "/", "%", "**", "^"}

// addFunctions gives the functions to the library. The typed ones are for the check alone.
func addFunctions(cfg *conf.Config, typed bool) {
	add := func(name string, typ any, do func(args []any) any) {
		f := &builtin.Function{Name: name, Func: func(args ...any) (any, error) { return do(args), nil }}
		if typed && typ != nil {
			f.Types = []reflect.Type{reflect.TypeOf(typ).Elem()}
		}
		cfg.Functions[name] = f
	}
	for name, f := range functions {
		add(name, f.typ, f.do)
	}
	if typed {
		return
	}
	for name, do := range helpers {
		add(name+" ", nil, do)
	}
	for op, do := range operators {
		add(op, nil, func(args []any) any { return do(args[0], args[1]) })
	}
	for _, op := range arithmetic {
		add(op, nil, func(args []any) any { return calculate(op, args[0], args[1]) })
	}
}

// call is a call of a helper or an operator.
func call(name string, args ...ast.Node) ast.Node {
	if _, helper := helpers[name]; helper {
		name += " " // no name of a condition has a blank
	}
	n := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
	n.SetLocation(args[0].Location())
	return n
}

// safe puts calls in the place of the operators of the library, which take values of known types only.
type safe struct{}

// Visit implements ast.Visitor.
func (safe) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||":
			n.Left, n.Right = call("truth", n.Left), call("truth", n.Right)
			return
		case "matches":
			if pattern, ok := n.Right.(*ast.StringNode); ok {
				n.Right = &ast.ConstantNode{Value: regexp.MustCompile(pattern.Value)}
			}
		}
		if _, ok := operators[n.Operator]; ok || slices.Contains(arithmetic, n.Operator) {
			*node = call(n.Operator, n.Left, n.Right)
		}
	case *ast.UnaryNode:
		switch n.Operator {
		case "!", "not":
			n.Node = call("truth", n.Node)
		case "-":
			*node = call("negate", n.Node)
		case "+":
			*node = n.Node
		}
	case *ast.ConditionalNode:
		n.Cond = call("truth", n.Cond)
	case *ast.MemberNode:
		*node = call("member", n.Node, n.Property)
	case *ast.BuiltinNode:
		n.Arguments[0] = call("list", n.Arguments[0])
		if len(n.Arguments) > 1 && n.Name != "map" {
			if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
				p.Node = call("truth", p.Node)
			}
		}
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return
		}
		args := n.Arguments
		if slices.Contains(presentFunctions, callee.Value) {
			args = append(args, &ast.IdentifierNode{Value: nowName})
		}
		// A new node, because the old one has the types of the check.
		*node = &ast.CallNode{Callee: &ast.IdentifierNode{Value: callee.Value}, Arguments: args}
	}
}
