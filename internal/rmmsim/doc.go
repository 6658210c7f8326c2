// Package rmmsim is a simulated Datto RMM account: a product part, so that
// jobs can be tried without an account, and the test bed of everything else.
//
// New lays out an Account: a fleet of sites, devices, alerts, audits, users
// and so on, drawn from a seed. The same seed and size give the same bytes on
// every machine and day; only the activity log, the age of jobs and the rate
// windows follow the clock. A fleet of 100,000 devices takes some megabytes,
// because a device is drawn anew whenever it is asked for.
//
// An Account is an http.Handler that answers the login and all operations of
// the catalogue in package rmm. Transport gives it to an http.Client without
// sockets or goroutines, so whole runs can take place inside a testing/synctest
// bubble, hours in milliseconds. Serve puts it on a listener. Both reach the
// same state: writes change what later reads show, a second quick job is a
// second job.
//
// The rules of the real service hold unless a switch says otherwise: rolling
// windows of 60 seconds for reads, writes and single write operations, answers
// a second late from 90 % on, 429 over the limit, and a blocked address for
// clients that do not listen. What the documentation leaves open is a field of
// Config. Faults (lost replies, HTML pages, floods by other clients, devices
// that vanish between pages) are values of type Fault, in Go or in YAML.
//
// Log and Counts tell what really arrived and what was carried out.
package rmmsim
