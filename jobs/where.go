package jobs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
)

// Where is the condition of an export: what chooses among its rows. The language is that of the library expr, with the
// fields of a row as names. It cannot do anything but compare: it has no input, no output and no loop but over the lists
// of its row. A field that a row does not have is nil, which equals nothing but nil, and every other comparison with it
// is false.
type Where struct {
	Text  string
	parts []conjunct // all of them must hold

	warnings []conditionFault
}

// conjunct is a part of a condition.
type conjunct struct {
	program *vm.Program
	fields  []conditionField
	late    bool // needs a detail, or the element of a list that has been exploded
}

// The bounds of a condition. An expression that people write has some dozen nodes.
const (
	maxConditionNodes = 500
	maxNesting        = 2 // of lists within lists
)

// nowName is the name of the present in the environment of a condition.
const nowName = "now "

// condition reads and compiles the where of an export, and reports what is wrong with it at the place in the file.
func (d *decoder) condition(n *yaml.Node, e *ExportSpec) *Where {
	text, ok := d.text(n, "where")
	if !ok {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		d.fault(n, "remove the key to export all rows", "where is empty")
		return nil
	}
	c, faults := compileCondition(text, e.Element, e.With, e.Explode.Path)
	for _, f := range faults {
		pos := d.within(n, f.at)
		d.faultAt(pos.Line, pos.Column, f.hint, "where: %s", f.message)
	}
	if c != nil {
		for _, w := range c.warnings {
			d.warn(d.within(n, w.at), w.hint, "where: %s", w.message)
		}
	}
	return c
}

// conditionFault is a fault of a condition and its place in the text, in characters.
type conditionFault struct {
	at            int
	message, hint string
}

// compileCondition reads a condition on the rows of an element with details, of which one list may be exploded.
func compileCondition(text, element string, with []string, explode string) (*Where, []conditionFault) {
	cfg := conditionConfig(true)
	tree, err := parser.ParseWithConfig(text, cfg)
	if err != nil {
		return nil, []conditionFault{libraryFault(err, text)}
	}
	c := &Where{Text: text}
	var faults []conditionFault
	for _, node := range conjuncts(tree.Node) {
		r := &resolver{element: element, with: with, explode: explode}
		tree.Node = r.expr(node)
		if len(r.faults) > 0 {
			faults = append(faults, r.faults...)
			continue
		}
		c.warnings = append(c.warnings, r.warnings...)
		program, fault := compileConjunct(tree, r)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		c.parts = append(c.parts, conjunct{program: program, fields: r.fields, late: r.late})
	}
	if faults != nil {
		return nil, faults
	}
	return c, nil
}

// conjuncts takes a condition apart where it is joined by and.
func conjuncts(n ast.Node) []ast.Node {
	if b, ok := n.(*ast.BinaryNode); ok && (b.Operator == "and" || b.Operator == "&&") {
		return append(conjuncts(b.Left), conjuncts(b.Right)...)
	}
	return []ast.Node{n}
}

// compileConjunct checks the types of a resolved condition, and compiles a form of it that no value can bring down.
func compileConjunct(tree *parser.Tree, r *resolver) (*vm.Program, *conditionFault) {
	typed, loose := types.Map{nowName: types.TypeOf(time.Time{})}, types.Map{nowName: types.Any}
	for i, f := range r.fields {
		typed[fieldName(i)], loose[fieldName(i)] = f.typ, types.Any
	}
	start := tree.Node.Location().From
	cfg := conditionConfig(true)
	cfg.WithEnv(typed)
	t, err := checker.Check(tree, cfg)
	if err != nil {
		fault := libraryFault(err, "")
		return nil, &fault
	}
	if t != nil && t.Kind() != reflect.Bool && t.Kind() != reflect.Interface {
		return nil, &conditionFault{at: start, message: fmt.Sprintf("it must be true or false, and this is %s", typeName(t.String())), hint: "compare it with something"}
	}
	ast.Walk(&tree.Node, safe{})
	tree.Node = call("truth", tree.Node)
	cfg = conditionConfig(false)
	cfg.WithEnv(loose)
	if _, err := checker.Check(tree, cfg); err != nil {
		fault := libraryFault(err, "")
		return nil, &fault
	}
	program, err := compiler.Compile(tree, cfg)
	if err != nil {
		fault := libraryFault(err, "")
		return nil, &fault
	}
	return program, nil
}

func fieldName(i int) string { return "f" + strconv.Itoa(i) }

// matcher returns a function that tells whether a row is wanted, or nil if the condition chooses nothing. The function
// is for one goroutine.
func (c *Where) matcher(now time.Time, wanted func(conjunct) bool) func(output.Record) (bool, error) {
	if c == nil {
		return nil
	}
	var parts []conjunct
	for _, p := range c.parts {
		if wanted(p) {
			parts = append(parts, p)
		}
	}
	if parts == nil {
		return nil
	}
	var machine vm.VM
	env := map[string]any{nowName: now}
	return func(rec output.Record) (bool, error) {
		for _, p := range parts {
			for i, f := range p.fields {
				env[fieldName(i)] = f.value(rec)
			}
			got, err := machine.Run(p.program, env)
			if err != nil {
				return false, fmt.Errorf("where: %w", err)
			}
			if got != true {
				return false, nil
			}
		}
		return true, nil
	}
}

// early returns a function that tells whether an element without its details can become a row at all, or nil.
func (c *Where) early(now time.Time) func(output.Record) (bool, error) {
	return c.matcher(now, func(p conjunct) bool { return !p.late })
}

// all returns a function that tells whether a row is wanted, or nil.
func (c *Where) all(now time.Time) func(output.Record) (bool, error) {
	return c.matcher(now, func(conjunct) bool { return true })
}

// conditionConfig is the configuration of the library: our functions, and of its own only those that walk over lists.
func conditionConfig(typed bool) *conf.Config {
	cfg := conf.CreateNew()
	cfg.MaxNodes = maxConditionNodes
	for name := range cfg.Builtins {
		if !listFunctions[name] {
			cfg.Disabled[name] = true
		}
	}
	for name := range cfg.Disabled {
		delete(cfg.Builtins, name)
	}
	addFunctions(cfg, typed)
	return cfg
}
