// Package checkpoint keeps runs and their work items in one SQLite file, so that a program which is stopped, killed or
// cut off from power goes on where it was.
//
// A run is a set of items; an item is one request with a key that is unique in its run. Claim hands an item to a worker
// under a lease, Finish records what came of it: the new state, the answer, the items that follow from it and the
// counters of the run, all in one transaction. So at any instant the file tells the whole truth about the run, except
// for the requests in flight; Recover settles those when the run begins again. Payloads and answers are bytes: what an
// item means is the caller's business.
//
//	pending ──Claim──► running ──Finish──► done | skipped | failed | in_doubt
//	   ▲                  │
//	   └─RetryAt,Released─┘      (unchanged, and skipped or failed at birth, never run)
//
// A run also moves through named stages. Advance takes it from one to the next and adds all the items and plan rows of
// the new stage, or does nothing.
//
// While a run works, other processes may leave controls for it (PostControl), which it takes in order and once each, and
// look at what it last told of itself (SetLive, Live).
//
// A Memory is what a job takes from one run to the next: lists in blocks, which Remember replaces as a whole, and answers
// that Recall puts into a later run in place of a request. It outlives the runs it is made of.
//
// Durability: every method that returns nil has its change on the disk (write-ahead log, synchronous=full). A result
// that must not be lost because somebody pressed Ctrl-C is written under context.WithoutCancel; the methods simply obey
// the context they are given.
//
// Concurrency: a Store may be used by any number of goroutines and several processes may open the same file. A Store
// writes through one connection and reads through a few others. The iterators read a page at a time and hold nothing
// between pages, so they may be consumed slowly, left early, and mixed with writes.
//
// Time is an argument everywhere and is kept in milliseconds; the package never asks a clock.
package checkpoint
