package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"rmmjob/internal/spell"
)

// componentsPrefix begins the keys of the list of components, which the plan of a quick job is made from.
const componentsPrefix = "components/"

// The settings of a quick job that are no variables.
const (
	jobNameField   = "jobName"
	componentField = "componentUid"
)

// component is what a quick job runs.
type component struct {
	uid, name string
	variables map[string]bool // by name: a job must give it a value, since the component has none of its own
}

// components are those of the account, by normalised uid.
type components map[string]*component

// readComponents reads the list of components.
func readComponents(ctx context.Context, a Answers) (components, error) {
	all := components{}
	for el, err := range elements(ctx, a, componentsPrefix) {
		if err != nil {
			return nil, err
		}
		c := &component{uid: keyOf("uid", el.JSON), name: keyOf("name", el.JSON), variables: map[string]bool{}}
		for _, v := range gjson.GetBytes(el.JSON, "variables").Array() {
			own := v.Get("defaultVal")
			// What is not told is no reason to warn, and a variable that goes out of a component needs no value.
			needed := own.Exists() && own.Type == gjson.Null && v.Get("direction").Type != gjson.False
			c.variables[strings.Clone(v.Get("name").String())] = needed
		}
		all[normalise(c.uid)] = c
	}
	return all, nil
}

// of finds a component; nil if the account does not have it.
func (c components) of(uid string) *component { return c[normalise(uid)] }

// checkComponents holds back the rows whose component the account does not have, and notes what is odd about variables.
// A component that all rows share and that is not there is a fault of the job.
func (p *plan) checkComponents() error {
	set := p.job.Update.Set
	at := slices.IndexFunc(set, func(s Setting) bool { return s.Field == componentField })
	if p.op.effect != starts || at < 0 {
		return nil
	}
	if s := set[at]; len(s.Value.Columns()) == 0 && p.components.of(s.Value.Expand(nil)) == nil {
		return Errors{{Pos: s.Pos, Message: "the account has no component " + fmt.Sprintf("%q", clip(trimBlank(s.Value.Expand(nil)), 60)), Hint: componentHint}}
	}
	odd := newOddVariables()
	for row := range p.eachRow() {
		if row.verdict != nil {
			continue
		}
		w, _ := row.wants.of(uint16(at)) //nolint:gosec // a job has a few hundred settings at most
		c := p.components.of(w.value)
		if c == nil {
			row.judge(ClassInvalid, fmt.Sprintf("the account has no component %q", clip(w.value, 60)))
			continue
		}
		odd.look(c, row.wants, set)
	}
	p.notes = append(p.notes, odd.notes()...)
	return nil
}

const componentHint = "export: {from: components} lists them"

// oddVariables counts the rows that set a variable which their component does not have, or set none that it needs.
type oddVariables struct {
	rows  map[oddVariable]int
	order []oddVariable
}

type oddVariable struct {
	of      *component
	name    string
	missing bool
}

func newOddVariables() *oddVariables { return &oddVariables{rows: map[oddVariable]int{}} }

// look compares what a row wants with what its component has.
func (o *oddVariables) look(c *component, wants packedWants, set []Setting) {
	given := map[string]bool{}
	for w := range wants.all() {
		name, ok := strings.CutPrefix(set[w.setting].Field, variableOfJob)
		if !ok {
			continue
		}
		given[name] = true
		if _, known := c.variables[name]; !known {
			o.add(oddVariable{of: c, name: name})
		}
	}
	for name, needed := range c.variables {
		if needed && !given[name] {
			o.add(oddVariable{of: c, name: name, missing: true})
		}
	}
}

func (o *oddVariables) add(v oddVariable) {
	if o.rows[v]++; o.rows[v] == 1 {
		o.order = append(o.order, v)
	}
}

// notes are for people, one for each variable of each component, ten at most.
func (o *oddVariables) notes() []string {
	const most = 10
	slices.SortFunc(o.order, oddVariable.compare)
	var notes []string
	for _, v := range o.order[:min(len(o.order), most)] {
		notes = append(notes, v.note(o.rows[v]))
	}
	if left := len(o.order) - most; left > 0 {
		notes = append(notes, fmt.Sprintf("and %d more variables of components that are unknown or not set", left))
	}
	return notes
}

func (v oddVariable) compare(w oddVariable) int {
	return strings.Compare(joinKey([]string{v.of.name, v.of.uid, v.name}), joinKey([]string{w.of.name, w.of.uid, w.name}))
}

// note puts it into words.
func (v oddVariable) note(rows int) string {
	times := "1 row sets"
	if rows > 1 {
		times = fmt.Sprintf("%d rows set", rows)
	}
	if v.missing {
		return fmt.Sprintf("the component %q has no value of its own for its variable %q: %s none", clip(v.of.name, 60), clip(v.name, 60), times)
	}
	var known []string
	for name := range v.of.variables {
		known = append(known, name)
	}
	slices.Sort(known)
	hint := ""
	if near := spell.Nearest(v.name, known); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Sprintf("the component %q has no variable %q: %s it%s", clip(v.of.name, 60), clip(v.name, 60), times, hint)
}

// jobChange completes a change of a quick job. Its name and its component are no secrets; a component is shown by its
// name. What a variable is set to stays hidden.
func (p *plan) jobChange(c Change) Change {
	switch c.Field {
	case jobNameField:
		c.Open = true
	case componentField:
		c.Open, c.NewUID = true, c.New
		if known := p.components.of(c.New); known != nil {
			c.New, c.NewUID = known.name, known.uid
		}
	}
	return c
}
