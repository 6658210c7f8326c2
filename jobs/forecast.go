package jobs

import (
	"strings"

	"rmmjob/internal/rmm"
)

// This file says what is known beforehand about how many requests a run will make.

// FirstPageEnding is how the keys of first pages end, and no others.
const FirstPageEnding = "/0000000"

// OpenEnded tells whether nobody knows how many items will follow from an item before it has
// been answered: it is the first page of a list, which states how long the list is, or a page
// of a list that never states it.
func OpenEnded(op rmm.Operation, key string) bool {
	switch op.Paging {
	case rmm.PagingPages:
		return strings.HasSuffix(key, FirstPageEnding)
	case rmm.PagingCursor:
		return true
	}
	return false
}

// Last tells whether no stage with further requests follows.
func (e *ExportWork) Last(stage string) bool { return stage == StageRead }

// Last tells whether no stage with further requests follows.
func (u *UpdateWork) Last(stage string) bool {
	return stage == StageApply || stage == StagePlan || stage == StageRead && u.set.PlanOnly
}
