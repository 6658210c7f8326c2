// Package runner drains the items of one run.
//
// Run claims items from the checkpoint, sends each through the shared limiter
// as one API request, classifies what came of it and records the outcome, with
// the items that it adds, in one transaction. When no item of a stage is left it
// asks the work (an export or an update) what comes next, until the work is done
// or something stops the run.
//
// Three rules carry the rest:
//
//   - Permit before claim. A lane (reads, or one kind of write) asks the limiter
//     first and claims an item only when it may be sent at once. So waiting for
//     quota is no attempt, holds no worker, and a lane that must wait never holds
//     up another.
//   - Everything is in the checkpoint. The runner keeps nothing that a crash would
//     lose except requests in flight; a resumed run is the same call again.
//   - One table decides. classify turns the outcome of a request and the class of
//     its operation into the next state of its item (classify.go). Nothing else
//     retries.
//
// Stopping has two stages. When the context of Run ends, nothing is claimed any
// more and what is in flight may finish, for at most Config.Grace. When
// Config.Abort ends too, requests in flight are cut off. Both leave the same
// states: a request that certainly never left goes back to pending, a read or a
// write that is safe to repeat as well, and any other write is in doubt.
//
// A write in doubt whose effect can be looked up is looked up once nothing else
// of the stage is left: the work adds reads, and its decisions on their answers
// settle the write as done or make it pending again.
//
// The package knows no YAML, no flags and no terminal. Progress is reported
// through Config.Observe.
package runner
