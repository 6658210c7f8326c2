package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// CheckWork looks what became of the writes of a run that are in doubt, and sends
// no write: things with a name or an id are looked for in their lists, quick jobs
// in the activity log.
type CheckWork struct {
	set         Settings
	from, until time.Time // the writes were sent between these
	round       int       // of this look; 0 before it began
}

// NewCheckWork returns the work that looks for writes which were sent within a
// stretch of time.
func NewCheckWork(set Settings, from, until time.Time) *CheckWork {
	return &CheckWork{set: set, from: from, until: until}
}

const resolvePrefix = "resolve/"

// clockSlack is how far the clocks of this machine and of the service may differ.
const clockSlack = time.Hour

// Start is never called: the run has begun before.
func (c *CheckWork) Start() (string, []Item) { return StageApply, nil }

// Follow returns the pages that an answer adds.
func (c *CheckWork) Follow(it Item, body []byte) ([]Item, error) { return followRead(it, body) }

// Last tells that no stage follows.
func (c *CheckWork) Last(string) bool { return true }

// Settle reads first and decides then.
func (c *CheckWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	writes, err := loadWrites(ctx, a, func(ans Answer) bool { return ans.Doubt })
	if err != nil || len(writes) == 0 {
		return Step{Done: true}, err
	}
	if c.round == 0 {
		last, err := lastRound(ctx, a, resolvePrefix)
		if err != nil {
			return Step{}, err
		}
		c.round = last.number + 1
		l := c.look(writes)
		if l.empty() {
			return Step{Done: true, Note: "none of the writes in doubt leaves something that could be looked up"}, nil
		}
		lookups, err := lastRound(ctx, a, lookupPrefix) // of the run itself
		if err != nil {
			return Step{}, err
		}
		return Step{Stage: stage, Items: l.items(c.set.pageSize()), Decisions: append(last.superseded(), lookups.superseded()...)}, nil
	}
	l := c.look(writes)
	if step, again, err := l.settle(ctx, stage, a, c.set.pageSize()); err != nil || again {
		return step, err
	}
	if err := l.show(ctx, a, writes); err != nil {
		return Step{}, err
	}
	made, err := c.made(ctx, a, l)
	if err != nil {
		return Step{}, err
	}
	return c.decide(writes, made), nil
}

// look is the round of reads: the lists of what can be looked up, and the part of
// the activity log in which the quick jobs would be.
func (c *CheckWork) look(writes []*write) look {
	l := newLook(resolvePrefix, c.round, slices.Values(slices.DeleteFunc(slices.Clone(writes), func(w *write) bool { return classOf(w.req) != rmm.ClassVerify })))
	if slices.ContainsFunc(writes, (*write).isJob) {
		op, _ := rmm.Lookup("activity-logs")
		l.lists = append(l.lists, list{op: op, id: l.prefix + op.Name, again: "never", query: url.Values{
			"from": {logTime(c.from.Add(-clockSlack))}, "until": {logTime(c.until.Add(clockSlack))},
			"entities": {"device"}, "categories": {"job"}, "order": {"asc"},
		}})
	}
	return l
}

func logTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (w *write) isJob() bool { return w.req.Op == "device-job-create" }

// made are the quick jobs of the activity log by device and name.
func (c *CheckWork) made(ctx context.Context, a Answers, l look) (map[string]bool, error) {
	made := map[string]bool{}
	for el, err := range elements(ctx, a, l.prefix+"activity-logs/") {
		if err != nil {
			return nil, err
		}
		details := gjson.GetBytes(el.JSON, "details")
		if details.Type == gjson.String { // an object written as a text
			details = gjson.Parse(details.Str)
		}
		made[joinKey([]string{details.Get(`device\.uid`).String(), details.Get(`job\.name`).String()})] = true
	}
	return made, nil
}

// decide settles what was found. A quick job that is not in the log stays in doubt:
// only a person can say that it is to be made.
func (c *CheckWork) decide(writes []*write, made map[string]bool) Step {
	step := Step{Done: true}
	found, missing, others, untold := 0, 0, 0, 0
	for _, w := range writes {
		d, known := w.settleDoubt()
		if w.isJob() {
			if !made[joinKey([]string{w.req.Path["deviceUid"], jobName(w.req.Body)})] {
				missing++
				continue
			}
			d.Fate, d.Reason, known = FateDone, Found+"the job is in the activity log", true
		}
		switch {
		case !known:
			untold++
			continue
		case d.Fate == FateDone:
			found++
		case d.Fate == FateFailed:
			others++
		default:
			missing++
		}
		step.Decisions = append(step.Decisions, d)
	}
	step.Note = fmt.Sprintf("of %s in doubt: %d carried out, %d not found", spell.Count(len(writes), "write"), found, missing)
	if others > 0 {
		step.Note += fmt.Sprintf(", %d that found something else there", others)
	}
	if untold > 0 {
		step.Note += fmt.Sprintf(", %d cannot be looked up", untold)
	}
	return step
}

func jobName(body json.RawMessage) string { return gjson.GetBytes(body, "jobName").String() }
