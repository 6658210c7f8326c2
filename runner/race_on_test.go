//go:build race

package runner

// raced says that the race detector is at work, which makes SQLite ten times
// slower: the longest tests are smaller then.
const raced = true
