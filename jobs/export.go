package jobs

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"rmmjob/internal/rmm"
)

// Stages of a run, in the order in which they come.
const (
	StageParents = "parents" // an export walks the sites or devices that its list belongs to
	StageRead    = "read"    // lists are walked
	StagePlan    = "planned" // an update has a plan that nobody has applied yet
	StageApply   = "apply"   // writes are sent
)

// Settings are what a work takes from outside its job file.
type Settings struct {
	PageSize int  // elements per page, 1 to 250; 0 means 250
	PlanOnly bool // an update stops when its plan is made

	// InputHash, if set, is the [Table.Hash] of the input that the run was begun
	// with. An update whose input is another one by then makes no plan of it.
	InputHash string

	// Mark is a short name of the run, which the names of its quick jobs carry.
	Mark string
}

func (s Settings) pageSize() int {
	if s.PageSize <= 0 {
		return defaultMaximum
	}
	return s.PageSize
}

// ExportWork is the work of an export job: it walks the list that the job names,
// and where that list belongs to a site or a device, the list of every one.
type ExportWork struct {
	job     *Job
	set     Settings
	parents *parents // nil for a list that stands alone
}

// parents are the objects that a list with a path parameter belongs to.
type parents struct {
	list  list
	param string // path parameter that takes the uid of one
	class string // device class that alone has the list; "" for all
}

const (
	parentsPrefix = "parents/"
	listPrefix    = "list/"
)

// auditPath is where the lists are that only one class of devices has.
const auditPath = "/v2/audit/device/"

// NewExportWork returns the work of a loaded export job.
func NewExportWork(job *Job, set Settings) *ExportWork {
	e := &ExportWork{job: job, set: set}
	from := job.Export.From
	for _, param := range from.PathParams() {
		name := map[string]string{"siteUid": "sites", "deviceUid": "devices"}[param]
		op, ok := rmm.Lookup(name)
		if !ok {
			continue
		}
		e.parents = &parents{list: list{op: op, id: parentsPrefix + name, again: "auto"}, param: param}
		if strings.HasPrefix(from.Path, auditPath) {
			e.parents.class = "device"
		}
	}
	return e
}

// list is the exported list that stands alone.
func (e *ExportWork) list() list {
	op := e.job.Export.From
	return list{op: op, id: listPrefix + op.Name, query: e.job.Export.Filter, again: e.job.Export.SecondWalk}
}

// listOf is the exported list of one parent.
func (e *ExportWork) listOf(uid string) list {
	l := e.list()
	l.path = map[string]string{e.parents.param: uid}
	l.id += "/" + url.PathEscape(uid)
	l.optional = true
	if l.again != "always" {
		l.again = "never" // one more walk for each of thousands of parents is no small price
	}
	return l
}

// lists yields the lists of the read stage.
func (e *ExportWork) lists(ctx context.Context, a Answers) iter.Seq2[list, error] {
	if e.parents == nil {
		return just(e.list())
	}
	return func(yield func(list, error) bool) {
		for uid, err := range e.parents.uids(ctx, a, nil) {
			if err != nil {
				yield(list{}, err)
				return
			}
			if !yield(e.listOf(uid), nil) {
				return
			}
		}
	}
}

// uids yields the uids of the parents that have the list, and counts the others
// in leftOut unless that is nil. A device that does not tell its class is asked.
func (p *parents) uids(ctx context.Context, a Answers, leftOut *int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for el, err := range elements(ctx, a, parentsPrefix) {
			if err != nil {
				yield("", err)
				return
			}
			uid, class := keyOf("uid", el.JSON), keyOf("deviceClass", el.JSON)
			if uid == "" || p.class != "" && class != "" && class != p.class {
				if leftOut != nil {
					*leftOut++
				}
				continue
			}
			if !yield(uid, nil) {
				return
			}
		}
	}
}

// Start returns the first stage and its items.
func (e *ExportWork) Start() (string, []Item) {
	if e.parents != nil {
		return StageParents, []Item{e.parents.list.first(1, e.set.pageSize())}
	}
	return StageRead, []Item{e.list().first(1, e.set.pageSize())}
}

// Follow returns the pages that an answer adds.
func (e *ExportWork) Follow(it Item, body []byte) ([]Item, error) { return followPage(it, body) }

// Settle says what comes when nothing of the stage is left to send. Its error is
// an *IncompleteError when the list cannot be proved complete. A site or device
// without such a list is left out and counted in the note of the step: it was
// deleted meanwhile (404) or is of a kind that has none (400).
func (e *ExportWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	var lists iter.Seq2[list, error]
	switch {
	case stage == StageParents && e.parents != nil:
		lists = just(e.parents.list)
	case stage == StageRead:
		lists = e.lists(ctx, a)
	default:
		return Step{}, fmt.Errorf("an export of %s has no stage %q", e.job.Export.From.Name, stage)
	}
	s, err := settleLists(ctx, a, lists, e.set.pageSize())
	switch {
	case err != nil:
		return Step{}, err
	case len(s.again) > 0:
		return Step{Stage: stage, Items: slices.Values(s.again), Note: s.why}, nil
	case stage == StageParents:
		return e.spread(ctx, a)
	}
	return Step{Done: true, Note: e.leftOut(s.absent, "the service has no such list for them (404 or 400)")}, nil
}

// spread begins the read stage with one list for each parent.
func (e *ExportWork) spread(ctx context.Context, a Answers) (Step, error) {
	var uids []string
	leftOut := 0
	for uid, err := range e.parents.uids(ctx, a, &leftOut) {
		if err != nil {
			return Step{}, err
		}
		uids = append(uids, uid)
	}
	first := func(yield func(Item) bool) {
		for _, uid := range uids {
			if !yield(e.listOf(uid).first(1, e.set.pageSize())) {
				return
			}
		}
	}
	why := "they have no uid"
	if e.parents.class != "" {
		why = "they are not of class " + e.parents.class
	}
	return Step{Stage: StageRead, Items: first, Note: e.leftOut(leftOut, why)}, nil
}

// leftOut says for people how many parents an export does without, and why.
func (e *ExportWork) leftOut(n int, why string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s leaves out %d of the %s: %s", e.job.Export.From.Name, n, e.parents.list.op.Name, why)
}

// Elements yields what a finished export read, each element once, in the order
// of the service. The caller sorts.
func (e *ExportWork) Elements(ctx context.Context, a Answers) iter.Seq2[Element, error] {
	return elements(ctx, a, listPrefix)
}
