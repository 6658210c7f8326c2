package jobs

import (
	"context"
	"fmt"
	"iter"

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
	job *Job
	set Settings
}

// NewExportWork returns the work of a loaded export job.
func NewExportWork(job *Job, set Settings) *ExportWork { return &ExportWork{job: job, set: set} }

const (
	parentsPrefix = "parents/"
	listPrefix    = "list/"
)

// parent is the list that a list with a path parameter belongs to.
func (e *ExportWork) parent() (list, string, bool) {
	for _, p := range e.job.Export.From.PathParams() {
		switch p {
		case "siteUid":
			op, _ := rmm.Lookup("sites")
			return list{op: op, id: parentsPrefix + op.Name, again: "auto"}, p, true
		case "deviceUid":
			op, _ := rmm.Lookup("devices")
			return list{op: op, id: parentsPrefix + op.Name, again: "auto"}, p, true
		}
	}
	return list{}, "", false
}

// listOf is the exported list, of one parent where it has parents.
func (e *ExportWork) listOf(path map[string]string) list {
	op := e.job.Export.From
	id := listPrefix + op.Name
	again := e.job.Export.SecondWalk
	if len(path) > 0 {
		id += "/" + sortedParams(path)
		if again == "" || again == "auto" {
			again = "never" // one more walk for each of thousands of parents is no small price
		}
	}
	return list{op: op, id: id, path: path, query: e.job.Export.Filter, again: again}
}

// lists yields the lists of the read stage.
func (e *ExportWork) lists(ctx context.Context, a Answers) iter.Seq2[list, error] {
	return func(yield func(list, error) bool) {
		_, param, nested := e.parent()
		if !nested {
			yield(e.listOf(nil), nil)
			return
		}
		for el, err := range elements(ctx, a, parentsPrefix) {
			if err != nil {
				yield(list{}, err)
				return
			}
			uid := keyOf("uid", el.JSON)
			if uid == "" {
				continue
			}
			if !yield(e.listOf(map[string]string{param: uid}), nil) {
				return
			}
		}
	}
}

// Start returns the first stage and its items.
func (e *ExportWork) Start() (string, []Item) {
	if l, _, nested := e.parent(); nested {
		return StageParents, []Item{l.first(1, e.set.pageSize())}
	}
	return StageRead, []Item{e.listOf(nil).first(1, e.set.pageSize())}
}

// Follow returns the pages that an answer adds.
func (e *ExportWork) Follow(it Item, body []byte) ([]Item, error) { return followPage(it, body) }

// Settle says what comes when nothing of the stage is left to send. Its error is
// an *IncompleteError when the list cannot be proved complete.
func (e *ExportWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	switch stage {
	case StageParents:
		l, _, _ := e.parent()
		one := func(yield func(list, error) bool) { yield(l, nil) }
		again, why, err := settleLists(ctx, a, one, e.set.pageSize())
		if err != nil || len(again) > 0 {
			return Step{Stage: stage, Items: sequence(again), Note: why}, err
		}
		var first []Item
		for l, err := range e.lists(ctx, a) {
			if err != nil {
				return Step{}, err
			}
			first = append(first, l.first(1, e.set.pageSize()))
		}
		return Step{Stage: StageRead, Items: sequence(first)}, nil
	case StageRead:
		again, why, err := settleLists(ctx, a, e.lists(ctx, a), e.set.pageSize())
		if err != nil || len(again) > 0 {
			return Step{Stage: stage, Items: sequence(again), Note: why}, err
		}
		return Step{Done: true}, nil
	}
	return Step{}, fmt.Errorf("an export has no stage %q", stage)
}

// Elements yields what a finished export read, each element once, in the order
// of the service. The caller sorts.
func (e *ExportWork) Elements(ctx context.Context, a Answers) iter.Seq2[Element, error] {
	return elements(ctx, a, listPrefix)
}

// sequence is a slice as a sequence.
func sequence(items []Item) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, it := range items {
			if !yield(it) {
				return
			}
		}
	}
}
