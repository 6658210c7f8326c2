// Package jobs knows what a job means: its language, its input and the
// requests that it comes to.
//
// A job file (YAML, see docs/jobs.md) describes an export or an update. Load
// reads it strictly: every fault has a file, line and column. From a loaded job
// NewExportWork or NewUpdateWork makes the work of one run, which says
//
//   - Start: with which items a fresh run begins,
//   - Follow: which items an answer adds (the next pages of a list),
//   - Settle: what comes when no item is left to send: another walk over a list
//     that moved, the plan of an update, a look at writes whose answers were
//     lost, or the end.
//
// The operations that an update can send are the table of operations.go.
//
// An Item is exactly one API request. Its key is deterministic: the same job on
// the same account gives the same keys, whatever the number of workers and
// however often the run was interrupted. So adding an item twice adds it once,
// and answers can be read back in the order of their keys.
//
// A work holds no state between its calls. All it needs comes back to it from
// the answers stored so far, which is why a run can end at any instant and be
// taken up by another process.
//
// An export may build on the last published run of its job: Since narrows a
// growing list to a Window behind a Bookmark, Recalled items take over answers
// that an audit alone can change, and Changes compares rows. What is remembered
// belongs to the job and its Selection; keeping it is the caller's business.
//
// The package knows neither how items are stored nor when they are sent: that
// is the business of the packages checkpoint, throttle and runner.
package jobs
