package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// operationInfo is one operation as --json shows it.
type operationInfo struct {
	Name     string      `json:"name"`
	Method   string      `json:"method"`
	Path     string      `json:"path"`
	Class    string      `json:"class"`
	Paging   string      `json:"paging"`
	Element  string      `json:"element"`
	Key      string      `json:"key"`
	Throttle string      `json:"throttle"`
	Summary  string      `json:"summary"`
	Query    []paramInfo `json:"query"`
	Body     []paramInfo `json:"body"`
	Export   *exportInfo `json:"export,omitempty"` // of a read
}

// exportInfo is how an export reads an operation and what it can write of it.
type exportInfo struct {
	Per     string       `json:"per"`   // sites or devices, if it is read for each
	Class   string       `json:"class"` // of the devices that alone have it
	Takes   []string     `json:"takes"` // keys that say what it is read for
	Needs   string       `json:"needs"` // the one of them that must be there
	Columns []columnInfo `json:"columns"`
	With    []detailInfo `json:"with"`
	Explode []string     `json:"explode"`
	Example string       `json:"example"`
}

type columnInfo struct {
	Path    string   `json:"path"`
	Type    string   `json:"type"`
	Presets []string `json:"presets"`
	Values  []string `json:"values,omitempty"`
}

type detailInfo struct {
	Name       string   `json:"name"`
	Operations []string `json:"operations"`
}

// describeExport tells what an export can do with a read.
func describeExport(op rmm.Operation) *exportInfo {
	r := jobs.DescribeReading(op)
	info := &exportInfo{
		Per: r.Per, Class: r.Class, Takes: append([]string{}, r.Takes...), Needs: r.Needs, Columns: []columnInfo{},
		With: []detailInfo{}, Explode: append([]string{}, r.Lists...), Example: jobs.ExampleExport(op),
	}
	for _, d := range r.Details {
		info.With = append(info.With, detailInfo(d))
	}
	in := map[string][]string{}
	for _, name := range output.PresetNames() {
		columns, _ := output.Preset(r.Element, name)
		for _, c := range columns {
			in[c.Path] = append(in[c.Path], name)
		}
	}
	for _, f := range output.Fields(r.Element) {
		c := columnInfo{Path: f.Path, Type: f.Kind.String(), Presets: append([]string{}, in[f.Path]...), Values: f.Enum}
		if f.Path == "udf" {
			c.Path, c.Type, c.Presets = fmt.Sprintf("udf1 to udf%d", rmm.MaxUDF), "text", in["udf.udf1"]
		}
		info.Columns = append(info.Columns, c)
	}
	return info
}

type paramInfo struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Required bool     `json:"required"`
	Values   []string `json:"values,omitempty"`
	Help     string   `json:"help"`
}

func describe(op rmm.Operation) operationInfo {
	info := operationInfo{
		Name: op.Name, Method: op.Method, Path: op.Path, Class: string(op.Class), Paging: string(op.Paging),
		Element: op.Element, Key: op.Key, Throttle: op.Throttle, Summary: op.Summary,
		Query: []paramInfo{}, Body: []paramInfo{},
	}
	for _, p := range op.Query {
		info.Query = append(info.Query, paramInfo{Name: p.Name, Type: string(p.Type), Values: p.Values, Help: p.Help})
	}
	for _, p := range op.Body {
		info.Body = append(info.Body, paramInfo{p.Name, string(p.Type), p.Required, p.Values, p.Help})
	}
	if !op.IsWrite() {
		info.Export = describeExport(op)
	}
	return info
}

// catalogueVerb lists the operations of the API, or explains one.
func catalogueVerb(_ context.Context, a *app, args []string) error {
	f := a.newFlags()
	rest, err := f.parse(args, 0, 1)
	if err != nil {
		return err
	}
	if len(rest) == 1 {
		op, ok := rmm.Lookup(rest[0])
		if !ok {
			err := usagef("no operation %q in the catalogue", rest[0])
			if near := rmm.Suggest(rest[0]); near != "" {
				err = err.withHint("did you mean %s?", near)
			}
			return err.withHint("rmmjob catalogue lists them")
		}
		if a.json {
			a.result.set("operations", []operationInfo{describe(op)})
			return nil
		}
		a.explain(describe(op))
		return nil
	}
	if a.json {
		var list []operationInfo
		for _, op := range rmm.Operations() {
			list = append(list, describe(op))
		}
		a.result.set("operations", list)
		return nil
	}
	t := newTable("name", "method", "path", "class", "paging", "throttle")
	for _, op := range rmm.Operations() {
		t.add(op.Name, op.Method, op.Path, string(op.Class), cmp.Or(string(op.Paging), "-"), cmp.Or(op.Throttle, "-"))
	}
	t.write(a.stdout)
	return nil
}

// explain prints one operation with everything that a job can give it.
func (a *app) explain(op operationInfo) {
	fmt.Fprintf(a.stdout, "%s: %s\n\n", op.Name, op.Summary)
	t := newTable()
	t.add("request", op.Method+" "+op.Path)
	t.add("class", op.Class)
	t.add("paging", cmp.Or(op.Paging, "-"))
	t.add("key", cmp.Or(op.Key, "-"))
	t.add("throttle", cmp.Or(op.Throttle, "-"))
	t.writeIndented(a.stdout, "  ")
	for _, part := range []struct {
		title string
		list  []paramInfo
	}{{"query", op.Query}, {"body", op.Body}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(a.stdout, "\n%s:\n", part.title)
		t := newTable()
		for _, p := range foldRanges(part.list) {
			kind := p.Type
			if p.Required {
				kind += ", required"
			}
			help := p.Help
			if len(p.Values) > 0 {
				help = strings.TrimPrefix(help+"; ", "; ") + "one of " + strings.Join(p.Values, ", ")
			}
			t.add(p.Name, kind, help)
		}
		t.writeIndented(a.stdout, "  ")
	}
	if op.Export != nil {
		a.explainExport(op)
	}
}

// explainExport prints what an export can do with a read.
func (a *app) explainExport(op operationInfo) {
	x := op.Export
	if how := howRead(x); how != "" {
		fmt.Fprintf(a.stdout, "\nread %s\n", how)
	}
	if len(x.With) > 0 {
		fmt.Fprint(a.stdout, "\ndetails for with, one more request for each item:\n")
		t := newTable()
		for _, d := range x.With {
			t.add(d.Name, strings.Join(d.Operations, ", "))
		}
		t.writeIndented(a.stdout, "  ")
	}
	if len(x.Explode) > 0 {
		fmt.Fprintf(a.stdout, "\nlists for explode: %s\n", strings.Join(x.Explode, ", "))
	}
	fmt.Fprint(a.stdout, "\ncolumns, with the presets that have them:\n")
	t := newTable()
	for _, c := range x.Columns {
		if detail, _, inside := strings.Cut(c.Path, "."); inside && slices.ContainsFunc(x.With, func(d detailInfo) bool { return d.Name == detail }) {
			continue // shown by the operation that reads it
		}
		t.add(c.Path, c.Type, strings.Join(c.Presets, " "), strings.Join(c.Values, ", "))
	}
	t.writeIndented(a.stdout, "  ")
	fmt.Fprint(a.stdout, "\nexample:\n\n")
	for line := range strings.Lines(x.Example) {
		fmt.Fprint(a.stdout, "  "+line)
	}
}

// howRead says for what an export reads an operation.
func howRead(x *exportInfo) string {
	switch {
	case x.Needs != "":
		return "for what the job names: " + x.Needs
	case x.Per == "":
		return ""
	}
	text := "for each of the " + x.Per
	if x.Class != "" {
		text += " of class " + x.Class
	}
	return text + ", or for those that the job names: " + strings.Join(x.Takes, ", ")
}

// foldRanges makes one line of numbered fields that are alike: udf1 to udf300.
func foldRanges(list []paramInfo) []paramInfo {
	stem := func(p paramInfo) (string, paramInfo) {
		s := strings.TrimRight(p.Name, "0123456789")
		p.Name = s
		return s, p
	}
	var out []paramInfo
	for i := 0; i < len(list); {
		first, like := stem(list[i])
		j := i + 1
		for ; j < len(list); j++ {
			if _, other := stem(list[j]); first == list[j].Name || !reflect.DeepEqual(other, like) {
				break
			}
		}
		p := list[i]
		if j > i+1 {
			p.Name += " to " + list[j-1].Name
		}
		out = append(out, p)
		i = j
	}
	return out
}
