package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"rmmjob/internal/rmm"
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
