package jobs

import (
	"iter"
	"strconv"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/output"
)

// Explode makes a row of every element of a list.
type Explode struct {
	Path      string // of the list; empty for one row per item
	KeepEmpty bool   // an item without any element has one row all the same
}

// RowLimit is how many rows an export writes at most.
type RowLimit struct {
	Min   int  // fewer are not published
	Limit int  // 0 for all
	OK    bool // a file that was cut is what the job wants
}

// explode reads the list that rows are made of: software, or {path: software, keep_empty: true}.
func (d *decoder) explode(n *yaml.Node, e *ExportSpec) {
	at := n
	if n.Kind != yaml.MappingNode {
		e.Explode.Path, _ = d.word(n, "explode")
	} else {
		d.section(n, "explode", []field{
			{"path", need, func(n *yaml.Node) { at = n; e.Explode.Path, _ = d.word(n, "path") }},
			{"keep_empty", false, d.flag(&e.Explode.KeepEmpty, "keep_empty")},
		})
	}
	if e.Explode.Path == "" || e.From.Name == "" {
		return
	}
	f, err := output.FieldAt(e.Element, e.Explode.Path, e.With...)
	switch {
	case err != nil:
		d.fieldFault(at, "explode", e, e.Explode.Path, err)
	case f.Kind != output.KindList || f.InList:
		d.fault(at, d.listsOf(e), "explode needs a list, and %q is none", clip(e.Explode.Path, 40))
	}
}

// listsOf names the lists that an export can make rows of.
func (d *decoder) listsOf(e *ExportSpec) string {
	var names []string
	for _, f := range output.Fields(e.Element) {
		if f.Kind == output.KindList && !f.InList {
			names = append(names, f.Path)
		}
	}
	if len(names) == 0 {
		return "there are no lists in " + e.From.Name
	}
	return "lists: " + orList(names)
}

// fieldFault records that a path leads to no field that the export has.
func (d *decoder) fieldFault(n *yaml.Node, key string, e *ExportSpec, path string, err error) {
	fault, ok := err.(*output.ColumnError) //nolint:errorlint // FieldAt returns it bare
	switch {
	case ok && fault.NotAsked():
		d.fault(n, "add with: ["+output.DetailOf(e.Element, path)+"]", "%s: %q is a detail that the job does not ask for", key, clip(path, 60))
	case ok && fault.Suggestion != "":
		d.fault(n, "did you mean "+strconv.Quote(fault.Suggestion)+"?", "%s: there is no field %q", key, clip(path, 60))
	default:
		d.fault(n, "rmmjob catalogue "+e.From.Name+" lists the fields", "%s: there is no field %q", key, clip(path, 60))
	}
}

// sort reads the order of the rows: hostname, [siteName, {lastSeen: desc}].
func (d *decoder) sort(n *yaml.Node, e *ExportSpec) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 {
			d.fault(n, "remove the key for the usual order", "sort is empty")
		}
	}
	for _, item := range items {
		if item.Kind != yaml.MappingNode {
			if path, ok := d.word(item, "a field of sort"); ok {
				d.orderBy(item, e, path, false)
			}
			continue
		}
		if len(item.Content) != 2 {
			d.fault(item, "begin each with its own dash", "an entry of sort is one field, this has %d", len(item.Content)/2)
			continue
		}
		d.pairs(item, "sort", func(key, value *yaml.Node) {
			way := ""
			d.choice(&way, "the order", "asc", "desc")(value)
			if path, ok := d.word(key, "a field of sort"); ok && way != "" {
				d.orderBy(key, e, path, way == "desc")
			}
		})
	}
}

func (d *decoder) orderBy(n *yaml.Node, e *ExportSpec, path string, descending bool) {
	f, err := output.FieldAt(e.Element, path, e.With...)
	if err != nil {
		d.fieldFault(n, "sort", e, path, err)
		return
	}
	e.Sort = append(e.Sort, output.Order{Path: f.Path, Kind: f.Kind, Descending: descending})
}

// rowLimit reads how many rows there must be, and how many are written at most.
func (d *decoder) rowLimit(n *yaml.Node, e *ExportSpec) {
	d.section(n, "rows", []field{
		{"min", false, d.number(&e.Rows.Min, "min", 1, 1<<31-1)},
		{"limit", false, d.number(&e.Rows.Limit, "limit", 1, 1<<31-1)},
		{"on_limit", false, func(n *yaml.Node) {
			way := ""
			d.choice(&way, "on_limit", "partial", "ok")(n)
			e.Rows.OK = way == "ok"
		}},
	})
	switch r := e.Rows; {
	case n.Kind != yaml.MappingNode:
	case r.Limit > 0 && r.Min > r.Limit:
		d.fault(child(n, "min"), "", "min is more than limit, which is %d", r.Limit)
	case child(n, "on_limit") != nil && child(n, "limit") == nil:
		d.fault(child(n, "on_limit"), "remove it", "on_limit has no effect without limit")
	}
}

// Order is the order of the rows of the export: what the job says, and among rows that are equal in it the usual order
// of the list.
func (e *ExportSpec) Order() []output.Order {
	order := append([]output.Order(nil), e.Sort...)
	usual := output.Ascending(output.DefaultSort(e.Element)...)
	if e.Explode.Path != "" {
		usual = append(usual, output.Order{Path: e.Explode.Path + ".name"})
	}
	return append(order, usual...)
}

// Rows yields the rows of an export that a record of its list comes to: none if the condition does not want it, one,
// or one for each element of the list that is exploded. The function that it returns is for one goroutine.
func (e *ExportWork) Rows() func(output.Record) iter.Seq2[output.Record, error] {
	wanted := e.job.Export.Where.all(e.set.Now)
	explode := e.job.Export.Explode
	return func(rec output.Record) iter.Seq2[output.Record, error] {
		return func(yield func(output.Record, error) bool) {
			for row := range explode.rows(rec) {
				if wanted != nil {
					ok, err := wanted(row)
					if err != nil {
						yield(nil, err)
						return
					}
					if !ok {
						continue
					}
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Rowless tells of a record that it has no row only because the list that is exploded is empty or not there. The function
// that it returns is for one goroutine; it is nil if the job has no such records.
func (e *ExportWork) Rowless() func(output.Record) (bool, error) {
	list := e.job.Export.Explode
	if list.Path == "" || list.KeepEmpty {
		return nil
	}
	wanted := e.job.Export.Where.all(e.set.Now)
	return func(rec output.Record) (bool, error) {
		for range list.rows(rec) {
			return false, nil
		}
		if wanted == nil {
			return true, nil
		}
		return wanted(rec)
	}
}

func (x Explode) rows(rec output.Record) iter.Seq[output.Record] {
	if x.Path == "" {
		return func(yield func(output.Record) bool) { yield(rec) }
	}
	v, _ := rec.Lookup(x.Path)
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 {
		return func(yield func(output.Record) bool) {
			if x.KeepEmpty {
				yield(rec)
			}
		}
	}
	return rec.Explode(x.Path)
}
