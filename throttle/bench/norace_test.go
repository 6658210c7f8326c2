//go:build !race

package main

// raced tells whether the race detector, which makes tests ten times slower, is on.
const raced = false
