//go:build !windows

package main

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes this user may still write in a folder.
func freeSpace(dir string) (free uint64, known bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true //nolint:gosec,unconvert // the types differ between systems
}
