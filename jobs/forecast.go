package jobs

// This file says what is known beforehand about how many requests a run will make.

// FirstPageEnding is how the keys of first pages end, and no others.
const FirstPageEnding = "/0000000"

// Last tells whether no stage with further requests follows.
func (e *ExportWork) Last(stage string) bool {
	return stage == StageDetails || stage == StageRead && len(e.job.Export.With) == 0
}

// Last tells whether no stage with further requests follows.
func (u *UpdateWork) Last(stage string) bool {
	switch stage {
	case StageApply:
		return !u.job.Update.Verify
	case StageRead:
		return u.set.PlanOnly
	}
	return stage == StagePlan || stage == StageWait || stage == StageResumed || stage == StageRetrial || stage == StageVerify
}

// Last tells whether no stage with further requests follows.
func (u *UndoWork) Last(stage string) bool {
	switch stage {
	case StageRead:
		return u.set.PlanOnly
	}
	return stage == StagePlan || stage == StageResumed || stage == StageRetrial || stage == StageApply
}
