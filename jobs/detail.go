package jobs

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// detailOps tells which operation reads a detail of an element: by the class of the device where that matters, else
// under the empty name.
var detailOps = map[string]map[string]map[string]string{
	"devices": {
		"audit":           {"device": "device-audit", "printer": "printer-audit", "esxihost": "esxi-audit"},
		"software":        {"device": "device-software"},
		"alerts-open":     {"": "device-alerts-open"},
		"alerts-resolved": {"": "device-alerts-resolved"},
	},
	"sites": {
		"settings": {"": "site-settings"}, "variables": {"": "site-variables"}, "filters": {"": "site-filters"},
		"devices": {"": "site-devices"}, "network-interfaces": {"": "site-network-interfaces"},
		"alerts-open": {"": "site-alerts-open"}, "alerts-resolved": {"": "site-alerts-resolved"},
	},
	"jobs": {"components": {"": "job-components"}},
}

// detailOp is the operation that reads a detail of an element, and false if its class has none. An element that does not
// tell its class is asked as if it were of class device.
func detailOp(element, detail, class string) (rmm.Operation, bool) {
	ops := detailOps[element][detail]
	name, ok := ops[""]
	if !ok {
		if class == "" {
			class = "device"
		}
		name, ok = ops[class]
	}
	op, known := rmm.Lookup(name)
	return op, ok && known
}

// baseElement is the element whose details an export can ask for: devices that are found by MAC address are devices.
func baseElement(element string) string {
	if element == "device-by-mac" {
		return "devices"
	}
	return element
}

// owner is an element that details are read of.
type owner struct {
	number int // its place among all elements
	uid    string
	class  string
	stamp  string // of the last audit of a device
}

// detailID is the list of one detail of an element. Its number comes first, so that the details lie in the order of the
// elements and both can be read side by side.
func (o owner) detailID(detail string) string {
	return fmt.Sprintf("%s%07d/%s/%s", detailPrefix, o.number, url.PathEscape(o.uid), detail)
}

// parseDetailID gives the number of the element and the detail.
func parseDetailID(id string) (number int, detail string, err error) {
	parts := strings.Split(strings.TrimPrefix(id, detailPrefix), "/")
	number, err = strconv.Atoi(parts[0])
	if err != nil || len(parts) != 3 {
		return 0, "", fmt.Errorf("item key %q is not that of a detail", id)
	}
	return number, parts[2], nil
}

// Subject tells what a request of an export was about, by the key of its item: the detail or the list, and the uid of what
// it belongs to, empty for a list that stands alone.
func Subject(key string) (what, of string) {
	id, _, _, err := parseWalkKey(key)
	parts := strings.Split(id, "/")
	switch {
	case err != nil || len(parts) < 2:
		return key, ""
	case strings.HasPrefix(id, detailPrefix) && len(parts) == 4:
		parts = []string{"", parts[3], parts[2]}
	}
	for i, part := range parts {
		if text, err := url.PathUnescape(part); err == nil {
			parts[i] = text
		}
	}
	return parts[1], strings.Join(parts[2:], " on ")
}

// RequestName is a request of an export for people, by the key of its item: what it was about, of what, and which page, from
// the second on.
func RequestName(key string) string {
	name, of := Subject(key)
	if of != "" {
		name += " of " + of
	}
	if _, _, page, err := parseWalkKey(key); err == nil && page > 0 {
		name += fmt.Sprintf(", page %d", page+1)
	}
	return name
}

// Told tells whether a message names the failure of a request already, by the key of
// its item.
func Told(message, key, reason string) bool {
	name, of := Subject(key)
	for _, part := range []string{name, of, reason} {
		if !strings.Contains(message, part) {
			return false
		}
	}
	_, _, page, err := parseWalkKey(key)
	return err == nil && (page == 0 || strings.Contains(message, fmt.Sprintf("page %d ", page+1)))
}

// detailList is the list of one detail again, from what the checkpoint has of it.
func (e *ExportWork) detailList(id string, req rmm.Request) list {
	op, _ := rmm.Lookup(req.Op)
	l := list{op: op, id: id, path: req.Path, again: "never", optional: true}
	if e.job.Export.SecondWalk == "always" && op.Paging == rmm.PagingPages {
		l.again = "always"
	}
	return l
}

// detailStep begins the stage of the details: one request for each element and detail. An element whose class has no
// such detail gets an item that is settled from the start. Elements that the condition of the job is sure to leave out
// need none.
func (e *ExportWork) detailStep(ctx context.Context, a Answers, note string) (Step, error) {
	owners, err := e.owners(ctx, a)
	if err != nil {
		return Step{}, err
	}
	element := baseElement(e.job.Export.Element)
	items := func(yield func(Item) bool) {
		for _, o := range owners {
			for _, detail := range e.job.Export.With {
				if !yield(e.detailItem(element, o, detail)) {
					return
				}
			}
		}
	}
	return Step{Stage: StageDetails, Items: items, Note: note}, nil
}

func (e *ExportWork) detailItem(element string, o owner, detail string) Item {
	op, ok := detailOp(element, detail, o.class)
	if !ok || o.uid == "" {
		reason := fmt.Sprintf("not applicable: a device of class %s has no %s", clip(o.class, 40), detail)
		if o.uid == "" {
			reason = "it has no uid"
		}
		return list{id: o.detailID(detail)}.first(1, 1).skipped(reason)
	}
	path := map[string]string{op.PathParams()[0]: o.uid}
	it := e.detailList(o.detailID(detail), rmm.Request{Op: op.Name, Path: path}).first(1, e.set.pageSize())
	return e.recall(it, o.stamp)
}

// owners lists the elements that need details.
func (e *ExportWork) owners(ctx context.Context, a Answers) ([]owner, error) {
	early := e.job.Export.Where.early(e.set.Now)
	var owners []owner
	number := -1
	for rec, err := range e.bare(ctx, a) {
		if err != nil {
			return nil, err
		}
		number++
		if early != nil {
			if can, err := early(rec); err != nil {
				return nil, err
			} else if !can {
				continue
			}
		}
		owners = append(owners, owner{number, rec.Text("uid"), rec.Text("deviceClass"), rec.Text(auditField)})
	}
	return owners, nil
}

// withoutDetail says for people how many of the details are missing.
func (e *ExportWork) withoutDetail(n int) string {
	if n == 0 {
		return ""
	}
	return spell.Count(n, "detail is", "details are") + " missing: the service has none (404 or 400), as for a device that was never audited"
}

// bare yields the elements as records, with what they belong to and without details.
func (e *ExportWork) bare(ctx context.Context, a Answers) iter.Seq2[output.Record, error] {
	return func(yield func(output.Record, error) bool) {
		from, err := e.lineage(ctx, a)
		if err != nil {
			yield(nil, err)
			return
		}
		for el, err := range e.Elements(ctx, a) {
			var rec output.Record
			if err == nil {
				rec, err = output.ParseRecord(el.JSON)
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", e.job.Export.From.Name, err))
				return
			}
			from.mark(rec, el.Path)
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Records yields what a finished export read as records, in the order of the service: each element once, with the
// fields of what it belongs to and with its details under their own names. Only one element is held at a time.
func (e *ExportWork) Records(ctx context.Context, a Answers) iter.Seq2[output.Record, error] {
	if len(e.job.Export.With) == 0 {
		return e.bare(ctx, a)
	}
	return func(yield func(output.Record, error) bool) {
		next, stop := iter.Pull2(elementsAndLists(ctx, a, detailPrefix))
		defer stop()
		d := details{next: next}
		if err := d.advance(); err != nil {
			yield(nil, err)
			return
		}
		number := -1
		for rec, err := range e.bare(ctx, a) {
			if number++; err == nil {
				err = d.addTo(rec, number)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// details walks over the elements of all details, beside the elements that they belong to.
type details struct {
	next   func() (Element, error, bool)
	at     Element
	number int // of the element that at belongs to; -1 at the end
	name   string
}

func (d *details) advance() error {
	el, err, ok := d.next()
	if !ok {
		d.number = -1
		return nil
	}
	if err != nil {
		return err
	}
	d.at = el
	d.number, d.name, err = parseDetailID(el.list)
	return err
}

// addTo puts the details of an element into its record.
func (d *details) addTo(rec output.Record, number int) error {
	for d.number == number {
		single := d.at.op.Paging == rmm.PagingNone
		var v any
		if d.at.JSON != nil {
			var err error
			if v, err = output.ParseValue(d.at.JSON); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
		switch list, _ := rec[d.name].([]any); {
		case single && v != nil:
			rec[d.name] = v
		case !single && d.at.JSON == nil:
			rec[d.name] = []any{}
		case !single:
			rec[d.name] = append(list, v)
		}
		if err := d.advance(); err != nil {
			return err
		}
	}
	return nil
}
