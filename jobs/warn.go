package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"

	"rmmjob/internal/output"
	"rmmjob/internal/spell"
)

// warn records what is allowed in a job file and is seldom meant.
func (d *decoder) warn(at Pos, hint, format string, args ...any) {
	d.warnings = append(d.warnings, &Error{Pos: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// overwritten warns of files that hold only what is new in a run and that the next run replaces, whether anybody has
// collected them or not.
func (d *decoder) overwritten(e *ExportSpec) {
	const hint = "put {date}, {time}, {run} or {since} into the name, or merge into a SQLite table"
	if e.Since != nil && e.Since.Last {
		for _, t := range e.To {
			if t.overwrites(e.OutputSpec(t).Mode) {
				d.warn(t.Pos, hint, "each run replaces this file, which holds only what is new since the last one")
			}
		}
	}
	if c := e.Changes; c != nil && c.Target.overwrites(c.Target.Mode) {
		d.warn(c.Target.Pos, hint, "each run replaces this file, which holds only what has changed since the last one")
	}
}

// overwrites tells whether every run writes the same file anew.
func (t Target) overwrites(mode string) bool {
	if t.Path == "" || t.Path == "-" || t.Format == output.FileSQLite && mode != output.ModeReplace {
		return false
	}
	one, err := output.Expand(t.Path, time.Unix(0, 0), output.Vars{Job: "j", Account: "a", Run: "1", Since: "1"})
	other, err2 := output.Expand(t.Path, time.Unix(100_000, 0), output.Vars{Job: "j", Account: "a", Run: "2", Since: "2"})
	return err == nil && err2 == nil && one == other
}

// unheardOf warns of a comparison of a field with a text that the API does not know as its value. Such a condition fits
// nothing, or everything.
func (r *resolver) unheardOf(n *ast.BinaryNode) {
	if !slices.Contains([]string{"==", "!=", "in"}, n.Operator) {
		return
	}
	field, texts := r.fieldOf(n.Left), n.Right
	if field == nil {
		field, texts = r.fieldOf(n.Right), n.Left
	}
	if field == nil || len(field.enum) == 0 {
		return
	}
	list := []ast.Node{texts}
	if array, ok := texts.(*ast.ArrayNode); ok {
		list = array.Nodes
	}
	known := field.enum
	for _, node := range list {
		text, ok := node.(*ast.StringNode)
		if !ok || slices.Contains(known, text.Value) {
			continue
		}
		hint := "known: " + strings.Join(known, ", ")
		if near := spell.Nearest(text.Value, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.warnings = append(r.warnings, conditionFault{
			node.Location().From, fmt.Sprintf("%q is no known value of %s", clip(text.Value, 40), field.path), hint,
		})
	}
}
