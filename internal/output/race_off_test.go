//go:build !race

package output

const raceDetector = false
