package jobs

import (
	"context"
	"fmt"
	"slices"

	"rmmjob/internal/rmm"
)

// UpdateWork is the work of an update job: it reads the targets in bulk, makes the
// plan, and sends one write for each target that must change.
type UpdateWork struct {
	job *Job
	set Settings
}

// NewUpdateWork returns the work of a loaded update job.
func NewUpdateWork(job *Job, set Settings) *UpdateWork { return &UpdateWork{job: job, set: set} }

const targetsPrefix = "targets/"

// targets is the list in which the targets of the job are found.
func (u *UpdateWork) targets() list {
	op, _ := rmm.Lookup("devices")
	return list{op: op, id: targetsPrefix + op.Name, again: "auto"}
}

// Start returns the first stage and its items.
func (u *UpdateWork) Start() (string, []Item) {
	return StageRead, []Item{u.targets().first(1, u.set.pageSize())}
}

// Follow returns the pages that an answer adds; a write adds nothing.
func (u *UpdateWork) Follow(it Item, body []byte) ([]Item, error) {
	if op, ok := rmm.Lookup(it.Request.Op); ok && op.IsWrite() {
		return nil, nil
	}
	return followPage(it, body)
}

// Settle makes the plan once the targets are read, and ends the run once the
// writes are sent. Its error is Errors when the input has a fault, a *GuardError
// when the plan goes too far, and an *IncompleteError when the targets could not
// be read whole.
func (u *UpdateWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	switch stage {
	case StageRead:
		found, err := settleLists(ctx, a, just(u.targets()), u.set.pageSize())
		switch {
		case err != nil:
			return Step{}, err
		case len(found.again) > 0:
			return Step{Stage: stage, Items: slices.Values(found.again), Note: found.why}, nil
		}
		p, err := makePlan(ctx, u.job, u.set.InputHash, elements(ctx, a, targetsPrefix))
		if err != nil {
			return Step{}, err
		}
		if err := p.guard(); err != nil {
			return Step{}, err
		}
		step := Step{Stage: StageApply, Items: p.items(), Rows: p.planRows(), Plan: p.counts}
		if u.set.PlanOnly {
			step.Stage, step.Hold = StagePlan, true
		}
		return step, nil
	case StageApply:
		return Step{Done: true}, nil
	}
	return Step{}, fmt.Errorf("an update has no stage %q", stage)
}
