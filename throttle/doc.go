// Package throttle decides when a request to a Datto RMM account may be sent.
//
// The limits of an account are rolling windows of 60 seconds that all its users and
// programs share: one for reads, one for writes, and one more for each write operation
// that the server names. Going over a limit is answered with 429, going on after that
// with a block of the address. The package counts what this process sends, asks the
// server now and then what everybody has sent (a calibration), and spaces the requests
// so that the account stays below the point where the server slows down.
//
// A [Limiter] is one gate for all workers of a process. [Limiter.Wait] blocks until one
// request of a lane may be sent and returns a [Permit]; [Permit.Done] tells what came
// back. A lane is [Read] or the server's name of a write operation. Requests of a lane
// leave in the order in which they arrived, and a lane that must wait never holds
// another. A delay is the space between two requests of a lane or track, not something
// that each worker sleeps.
//
// A person can bound a working Limiter further: [Limiter.SetReserve], [Limiter.SetMax] and
// [Limiter.Hold]. [Limiter.Expect] tells it what is still to come, from which it knows the
// [Limiter.TimeLeft].
//
// The pacing follows a [Profile]. Adaptive, full, neighbour and quick keep a picture of each
// window, own requests and those of others, and fill it up to a share of the limit; alone
// they use nearly all that there is, together they share it equally. Aggressive, medium and
// cautious mean what they mean in the PowerShell modules for this API: a delay that grows
// with the utilisation. Own values on top of any of them are possible. Limits, window and
// operation names always come from the server.
//
// The package is in two layers. The [Core] is arithmetic: every method takes the time as
// an argument, there is no goroutine, lock or clock in it. The Limiter adds the lock, the
// timer, the context and the wall clock around it.
package throttle
