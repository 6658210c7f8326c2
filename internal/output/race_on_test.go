//go:build race

package output

// raceDetector is set where everything takes ten times as long.
const raceDetector = true
