// Package output turns decoded elements of the API into rows and rows into
// finished files.
//
// The way of a value: an element of a list becomes a [Record] (numbers exact,
// any key allowed). [Resolve] turns the columns a job names into [Column]s, so
// set and order of the columns come from the job and never from the data.
// [Column.Cell] gives one typed [Value]. A [Sorter] brings the rows into an
// order that does not depend on arrival, with flat memory. A [Writer] for CSV
// or JSON lines writes them, and a [File] makes them visible under the final
// name in one step, or not at all.
//
// What a run has written can be kept as a snapshot ([EncodeRows]) and compared
// with that of the next one ([Diff]), again with flat memory.
//
// What a reader of the files may rely on:
//
//   - A value is quoted where the format needs it and otherwise left alone,
//     unless an option of [Style] says so.
//   - Missing, null and "no date" are empty cells; a value of an unexpected
//     kind is written as it came; neither fails a row.
//   - Integers are digits, never 1.5e+12.
//   - Dates are 2025-03-06T00:00:00Z unless another notation is chosen,
//     however the API sent them.
//   - Objects and lists are one cell of JSON text with sorted keys; the parts
//     of an object have their own columns under dotted names such as
//     antivirus.antivirusProduct.
//   - The final name holds the old file or the complete new one.
//
// The package knows names of the API's fields as data ([Fields], [Preset]), but
// neither the client nor the checkpoint. Nothing in it is safe for concurrent
// use by several goroutines unless said so. Cells may hold secrets (custom
// fields often do): no error text of this package quotes one.
package output
