package main

import (
	"os"
	"sync"
	"syscall"
	"testing"
)

// makeReadOnly takes the right to write in a folder away, from root too.
func makeReadOnly(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		chmodReadOnly(t, dir)
		return
	}
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("cannot mount read-only: %v", err)
	}
}

// tinyDisk makes a folder on a file system of the given size.
func tinyDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("rmmjob", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a tiny file system: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
}

func growDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount("rmmjob", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
		t.Fatal(err)
	}
}

// holdFile keeps a file from being replaced until release is called, as a program
// does that has it open on other systems.
func holdFile(t *testing.T, path string) (release func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can hold a file")
	}
	if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	release = sync.OnceFunc(func() { unmount(t, path) })
	t.Cleanup(release)
	return release
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Errorf("unmount: %v", err)
	}
}
