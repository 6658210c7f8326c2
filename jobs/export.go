package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmmjob/internal/rmm"
)

// Stages of a run, in the order in which they come.
const (
	StageParents = "parents" // an export walks the sites or devices that its list belongs to
	StageSource  = "source"  // an undo looks what its run has changed
	StageRead    = "read"    // lists are walked
	StageDetails = "details" // an export reads what it wants beside each element
	StagePlan    = "planned" // an update has a plan that nobody has applied yet
	StageGuarded = "guarded" // an update has a plan that a guard has stopped
	StageCheck   = "check"   // before a plan is applied, its targets are read again
	StageCanary  = "canary"  // the first writes of the plan are sent
	StageTried   = "tried"   // their targets are read back
	StageWait    = "wait"    // they are as wanted, and somebody must say whether the rest is to follow
	StageRetrial = "retrial" // a run is taken up in the middle of its first writes
	StageResumed = "resumed" // a run is taken up in the middle of its writes
	StageRecheck = "recheck" // the targets of the rest are read again
	StageApply   = "apply"   // writes are sent
	StageVerify  = "verify"  // their targets are read back
)

// Writes tells whether a stage sends what a plan has.
func Writes(stage string) bool { return stage == StageApply || stage == StageCanary }

// Planned tells whether a run in a stage has a plan.
func Planned(stage string) bool {
	switch stage {
	case "", StageParents, StageSource, StageRead, StageDetails:
		return false
	}
	return true
}

// Reads tells whether a stage only reads, so that what could not be read in it
// may be asked for again.
func Reads(stage string) bool {
	switch stage {
	case StageParents, StageRead, StageCheck, StageTried, StageRecheck, StageVerify:
		return true
	}
	return false
}

// Settings are what a work takes from outside its job file.
type Settings struct {
	PageSize int  // elements per page, 1 to 250; 0 means 250
	PlanOnly bool // an update stops when its plan is made

	// AllowPartial lets an export read all that it can: what cannot be proved
	// complete ends it as incomplete only when nothing is left to read.
	AllowPartial bool

	// InputHash, if set, is the [Table.Hash] of the input that the run was begun
	// with. An update whose input is another one by then makes no plan of it.
	InputHash string

	// Now is when the run began. It is the present of dates in the condition of an
	// export, so that a resumed run judges as it began.
	Now time.Time

	// Mark is a short name of the run, which the names of its quick jobs carry.
	Mark string

	// Window is what a run reads of a list with the key since, and Seen is what of
	// it was published before; nil for a whole list.
	Window *Window
	Seen   Seen

	// Remembered are answers that an earlier run has left, by topic.
	Remembered map[string]Remembered

	// Canary is how many writes of a plan are tried out before the rest, those of earlier
	// trials included; 0 for none.
	Canary int
	// AcceptDrift lets a plan overwrite what was edited since it was made, as far as the next
	// look finds it. Later looks hold back what was edited after that.
	AcceptDrift bool
}

func (s Settings) pageSize() int {
	if s.PageSize <= 0 {
		return defaultMaximum
	}
	return s.PageSize
}

// ExportWork is the work of an export job. It goes through up to three stages:
// the sites or devices that the answers belong to, the lists or single answers
// that the job reads, and the details that it wants beside each element.
type ExportWork struct {
	job   *Job
	set   Settings
	reach reach
}

const (
	parentsPrefix = "parents/"
	listPrefix    = "list/"
	detailPrefix  = "detail/"
)

// NewExportWork returns the work of a loaded export job.
func NewExportWork(job *Job, set Settings) *ExportWork {
	set.Now = set.Now.UTC().Truncate(time.Millisecond) // as the checkpoint remembers it
	return &ExportWork{job: job, set: set, reach: reachOf(job.Export.From)}
}

// listOf is what the job reads, for one path: the list or the single answer of a
// parent, or of what the job names. A nil path is that of a list which stands
// alone.
func (e *ExportWork) listOf(path map[string]string) list {
	op := e.job.Export.From
	l := list{op: op, id: listPrefix + op.Name, path: path, query: e.job.Export.Filter, again: e.job.Export.SecondWalk}
	if e.set.Window != nil {
		l.query = e.set.Window.query(op, l.query)
	}
	for _, param := range op.PathParams() {
		l.id += "/" + url.PathEscape(path[param])
		l.optional = true
	}
	if l.optional && l.again != "always" || op.Paging == rmm.PagingNone || op.Paging == rmm.PagingArray {
		l.again = "never" // one more walk for each of thousands of parents is no small price
	}
	return l
}

// Start returns the first stage and its items.
func (e *ExportWork) Start() (string, []Item) {
	stage, lists := StageParents, e.parentLists()
	switch given := e.job.Export.Given; {
	case lists != nil:
	case given != nil:
		stage = StageRead
		for _, path := range given {
			lists = append(lists, e.listOf(path))
		}
	default:
		stage, lists = StageRead, []list{e.listOf(nil)}
	}
	items := make([]Item, len(lists))
	for i, l := range lists {
		items[i] = l.first(1, e.set.pageSize())
	}
	return stage, items
}

// Follow returns the pages that an answer adds.
func (e *ExportWork) Follow(it Item, body []byte) ([]Item, error) { return followPage(it, body) }

// Settle says what comes when nothing of the stage is left to send. Its error is
// an *IncompleteError when a list cannot be proved complete, and [Errors] when the
// job names a site or device that the account does not have. A site or device
// without such a list is left out and counted in the note of the step: it was
// deleted meanwhile (404) or is of a kind that has none (400).
func (e *ExportWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	s, err := e.survey(ctx, stage, a)
	if err == nil && !e.set.AllowPartial {
		err = s.incomplete()
	}
	if err != nil {
		return Step{}, err
	}
	var step Step
	switch {
	case len(s.again) > 0:
		return Step{Stage: stage, Items: slices.Values(s.again), Note: s.why}, nil
	case stage == StageParents:
		step, err = e.spread(ctx, a)
		if _, unknown := errors.AsType[Errors](err); unknown && s.open > 0 {
			err = s.incomplete() // what the job names may be in the part that is missing
		}
		return step, err
	case stage == StageDetails:
		step = Step{Done: true, Note: e.withoutDetail(s.absent)}
	default:
		note, err := e.withoutList(ctx, a, s)
		if err != nil && !e.set.AllowPartial {
			return Step{}, err
		}
		if len(e.job.Export.With) > 0 {
			return e.detailStep(ctx, a, note)
		}
		step = Step{Done: true, Note: note}
	}
	return step, e.complete(ctx, a, stage, s)
}

// survey judges what a stage has read.
func (e *ExportWork) survey(ctx context.Context, stage string, a Answers) (survey, error) {
	prefix, of := listPrefix, func(_ string, req rmm.Request) list { return e.listOf(req.Path) }
	switch stage {
	case StageParents:
		prefix, of = parentsPrefix, func(_ string, req rmm.Request) list { return wholeList(parentsPrefix, req.Op) }
	case StageDetails:
		prefix, of = detailPrefix, e.detailList
	case StageRead:
	default:
		return survey{}, fmt.Errorf("an export of %s has no stage %q", e.job.Export.From.Name, stage)
	}
	s, err := settleUnder(ctx, a, prefix, of, e.set.pageSize())
	if err == nil && s.fault != nil {
		s.fault, err = e.nameFault(ctx, a, stage, s.faulty, s.fault)
	}
	return s, err
}

// nameFault puts the name of what a list belongs to into the fault of the list, before
// its uid.
func (e *ExportWork) nameFault(ctx context.Context, a Answers, stage string, l list, fault *IncompleteError) (*IncompleteError, error) {
	owner := l.owner()
	if owner == "" || stage == StageParents || stage == StageRead && len(e.parentLists()) == 0 {
		return fault, nil
	}
	of := e.Elements(ctx, a)
	if stage == StageRead {
		of = elements(ctx, a, parentsPrefix+e.reach.parents+"/")
	}
	for el, err := range of {
		if err != nil {
			return nil, err
		}
		if keyOf("uid", el.JSON) != owner && (e.reach.field == "" || keyOf(e.reach.field, el.JSON) != owner) {
			continue
		}
		who := aTarget{name: cmp.Or(keyOf("hostname", el.JSON), keyOf("name", el.JSON)), site: keyOf("siteName", el.JSON)}
		if who.name != "" {
			return &IncompleteError{Message: strings.Replace(fault.Message, " of "+owner, fmt.Sprintf(" of %s (%s)", who, owner), 1)}, nil
		}
	}
	return fault, nil
}

// complete is the error of what the last stage and, where they could be passed
// with something missing, those before it could not prove complete.
func (e *ExportWork) complete(ctx context.Context, a Answers, last string, s survey) error {
	if !e.set.AllowPartial {
		return nil
	}
	all := survey{}
	for _, stage := range []string{StageParents, StageRead, StageDetails} {
		part, err := s, error(nil)
		if stage != last {
			if part, err = e.survey(ctx, stage, a); err != nil {
				return err
			}
		}
		all.join(part)
		if stage == StageRead {
			_, err := e.withoutList(ctx, a, part)
			if fault, missing := errors.AsType[*IncompleteError](err); missing {
				all.join(survey{open: 1, fault: fault})
			} else if err != nil {
				return err
			}
		}
		if stage == last {
			break
		}
	}
	return all.incomplete()
}

// spread begins the read stage with one list or answer for each parent. A parent
// that cannot have it gets an item that is settled from the start, so that it is
// counted.
func (e *ExportWork) spread(ctx context.Context, a Answers) (Step, error) {
	var all []parent
	var faults Errors
	leftOut := 0
	for p, err := range e.parents(ctx, a) {
		switch {
		case err != nil:
			return Step{}, err
		case p.reason != "" && p.word != nil:
			faults = append(faults, e.unfit(p))
		case p.reason != "":
			leftOut++
		}
		all = append(all, p)
	}
	if err := faults.err(); err != nil {
		return Step{}, err
	}
	items := func(yield func(Item) bool) {
		for i, p := range all {
			path := map[string]string{e.reach.param: p.fills}
			if p.fills == "" {
				path[e.reach.param] = fmt.Sprintf("?%d", i) // no uid looks so
			}
			it := e.listOf(path).first(1, e.set.pageSize())
			if p.reason != "" {
				it = it.skipped(p.reason)
			}
			if !yield(e.recall(it, p.stamp)) {
				return
			}
		}
	}
	why := "they have no " + e.reach.field
	if e.reach.class != "" {
		why = "they are not of class " + e.reach.class
	}
	return Step{Stage: StageRead, Items: items, Note: e.leftOut(leftOut, why)}, nil
}

// skipped is an item that needs no request, with the reason.
func (it Item) skipped(reason string) Item {
	return Item{Key: it.Key, Birth: Skipped, Reason: reason}
}

// withoutList says how many of the parents have no such list or answer. What the
// job names must be there: the error tells which is not.
func (e *ExportWork) withoutList(ctx context.Context, a Answers, s survey) (note string, err error) {
	named, key := e.named()
	switch {
	case s.absent == 0:
		return "", nil
	case named == 0:
		return e.leftOut(s.absent, "the service has no such list for them (404 or 400)"), nil
	}
	names := s.gone
	if e.job.Export.Given == nil {
		if names, err = e.wordsOf(ctx, a, s.gone); err != nil {
			return "", err
		}
	}
	text := strings.Join(names, ", ")
	if more := s.absent - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "", &IncompleteError{Message: fmt.Sprintf("%s: the service has nothing (404 or 400) for %d of the %d that %s names: %s", e.job.Export.From.Name, s.absent, named, key, text)}
}

// named is how many the job names of what it reads, one request each, and the key
// that does so; 0 if it reads what there is.
func (e *ExportWork) named() (n int, key string) {
	switch x := e.job.Export; {
	case x.Given != nil:
		return len(x.Given), e.reach.given
	case e.reach.parents == "devices":
		return len(x.Devices), "devices"
	case e.reach.parents == "sites":
		return len(x.Sites), "sites"
	}
	return 0, ""
}

// wordsOf are the names that the job has for parents.
func (e *ExportWork) wordsOf(ctx context.Context, a Answers, fills []string) ([]string, error) {
	var words []string
	for p, err := range e.parents(ctx, a) {
		if err != nil {
			return nil, err
		}
		if p.word != nil && slices.Contains(fills, p.fills) {
			words = append(words, p.word.Text)
		}
	}
	return words, nil
}

// leftOut says for people how many parents an export does without, and why.
func (e *ExportWork) leftOut(n int, why string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s leaves out %d of the %s: %s", e.job.Export.From.Name, n, e.reach.parents, why)
}

// Elements yields what a finished export publishes, each element once, in the
// order of the service: what it read, without what an earlier run of a list with
// the key since has published. The caller sorts.
func (e *ExportWork) Elements(ctx context.Context, a Answers) iter.Seq2[Element, error] {
	return e.fresh(elements(ctx, a, listPrefix))
}
