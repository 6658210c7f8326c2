package runner

import (
	"context"
	"encoding/json"

	"rmmjob/jobs"
)

// who names the target of an item for people, as the plan of the run knows it; by the
// key of the item where no row does.
func (r *run) who(store context.Context, key string) string {
	rows, err := r.Store.RowsOf(store, r.RunID, []string{key})
	var detail jobs.RowDetail
	if row, ok := rows[key]; err != nil || !ok || json.Unmarshal(row.Payload, &detail) != nil {
		return key // a name is not worth stopping the run in another way
	}
	return detail.FullTarget()
}
