package output

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCase_R03_TinyDisk publishes to a file system that is smaller than the
// file.
func TestCase_R03_TinyDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("rmmjob", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a tiny file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path := filepath.Join(dir, "devices.csv")
	put(t, path, "last night")
	if err := Check(path); err != nil {
		t.Fatal(err)
	}
	export := func(rows int) error {
		f, err := Create(path, "r1")
		if err != nil {
			return err
		}
		w, err := NewCSV(f, []string{"uid", "text"}, CSVOptions{})
		if err != nil {
			return err
		}
		for range rows {
			_ = w.Row(textRow("a", strings.Repeat("x", 100)))
		}
		_ = w.Close() // Publish must find it out
		_, err = f.Publish()
		return err
	}
	err := export(5000)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("Publish on a full disk = %v", err)
	}
	if got := names(t, dir); len(got) != 1 || read(t, path) != "last night" {
		t.Errorf("the folder holds %q", got)
	}
	if err := export(100); err != nil || len(read(t, path)) < 10_000 {
		t.Errorf("after there is space again: %v", err)
	}

	s := NewSorter(dir, 0)
	defer s.Close()
	var failed error
	for failed == nil && len(s.runs) < 10 {
		failed = s.Add([]byte("k"), textRow(strings.Repeat("x", 1000)))
	}
	if !errors.Is(failed, syscall.ENOSPC) || !strings.Contains(failed.Error(), dir) {
		t.Errorf("sorting on a full disk = %v", failed)
	}
}
