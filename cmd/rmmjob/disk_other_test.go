//go:build !linux

package main

import "testing"

func makeReadOnly(t *testing.T, dir string) {
	t.Helper()
	chmodReadOnly(t, dir)
}

func tinyDisk(t *testing.T, _, _ string) {
	t.Helper()
	t.Skip("needs a tiny file system")
}

func growDisk(t *testing.T, _, _ string) { t.Helper() }

func holdFile(t *testing.T, _ string) (release func()) {
	t.Helper()
	t.Skip("needs a file that cannot be replaced")
	return nil
}
