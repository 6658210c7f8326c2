package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// Reading tells people how an export reads an operation.
type Reading struct {
	Element string   // the name under which the columns are known; see output.Fields
	Per     string   // sites or devices, if there is one answer for each; "" if it stands alone or is named by the job
	Class   string   // class of the devices that alone have it; "" for all
	Takes   []string // keys of the export that say what it is read for
	Needs   string   // the one of them that it cannot do without; ""
	Details []Detail // for with
	Lists   []string // for explode
}

// Detail is what an export can ask for beside each item.
type Detail struct {
	Name       string
	Operations []string // that read it; one for each class of devices that has it
}

// DescribeReading tells how an export reads an operation; it is no write.
func DescribeReading(op rmm.Operation) Reading {
	way := reachOf(op)
	r := Reading{Per: way.parents, Class: way.class, Takes: way.takes()}
	r.Element, _ = output.ElementOf(op.Name)
	if way.parents == "" {
		r.Needs = way.given
	}
	for _, name := range output.Details(r.Element) {
		ops := detailOps[baseElement(r.Element)][name]
		r.Details = append(r.Details, Detail{name, slices.Sorted(maps.Values(ops))})
	}
	for _, f := range output.Fields(r.Element) {
		if f.Kind == output.KindList && !f.InList {
			r.Lists = append(r.Lists, f.Path)
		}
	}
	return r
}

// takes are the keys of an export that say what the operation is read for.
func (r reach) takes() []string {
	var keys []string
	switch r.parents {
	case "sites":
		keys = []string{"sites"}
	case "devices":
		keys = []string{"sites", "devices"}
	}
	if r.given != "" {
		keys = append(keys, r.given)
	}
	return keys
}

// examples of what a job can name.
var exampleScope = map[string]string{
	"sites": "[Contoso, Fabrikam]", "devices": "[FILESERVER01]", "ids": "[1234567]", "macs": "['00:15:5D:01:02:03']",
	"uids": "['7d3c0b1e-5a1f-4e0e-9f7e-0c2a4b6d8e10']",
	"jobs": "{'e2aa7c31-90a4-4a3c-8a52-1f0b6a2d9c77': ['7d3c0b1e-5a1f-4e0e-9f7e-0c2a4b6d8e10']}",
}

// exampleFilter are filters that an example may show.
var exampleFilter = map[string]string{"siteName": "Contoso", "muted": "false", "entities": "device"}

// ExampleExport is a job file that exports an operation, as a beginning for one's own. It can be loaded as it is.
func ExampleExport(op rmm.Operation) string {
	r := DescribeReading(op)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	b.WriteString("version: 1\nexport:\n")
	line("from: %s", op.Name)
	for _, key := range r.Takes {
		if key == r.Needs {
			line("%s: %s", key, exampleScope[key])
		}
	}
	if r.Per != "" {
		line("# %s: %s    # without it all %s", r.Takes[0], exampleScope[r.Takes[0]], r.Per)
	}
	for _, p := range op.Query {
		if v, ok := exampleFilter[p.Name]; ok {
			line("filter: {%s: %s}", p.Name, v)
			break
		}
	}
	if len(r.Details) > 0 {
		line("# with: [%s]    # one more request for each item", r.Details[0].Name)
	}
	if where := exampleWhere(r.Element); where != "" {
		line("# where: '%s'", where)
	}
	line("columns: default")
	line("to: '%s-{date}.csv'", op.Name)
	return b.String()
}

// isIdentifier tells whether a field says which thing this is and nothing of it.
func isIdentifier(path string) bool {
	path = strings.ToLower(path)
	return strings.HasSuffix(path, "id")
}

// exampleWhere is a condition on the first field of an element that lends itself to one.
func exampleWhere(element string) string {
	fields := output.Fields(element)
	for _, kind := range []output.Kind{output.KindDate, output.KindBool, output.KindInt, output.KindText} {
		i := slices.IndexFunc(fields, func(f output.Field) bool {
			return f.Kind == kind && !f.InList && output.DetailOf(element, f.Path) == "" && !isIdentifier(f.Path)
		})
		if i < 0 {
			continue
		}
		switch kind {
		case output.KindDate:
			return fields[i].Path + ` > ago("7d")`
		case output.KindBool:
			return fields[i].Path + " == true"
		case output.KindInt:
			return fields[i].Path + " > 0"
		default:
			return fields[i].Path + ` contains "x"`
		}
	}
	return ""
}
