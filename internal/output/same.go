package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SameFile tells whether two paths are one file, now or once they are written:
// after symbolic links, and where the file system of the folder takes capital
// and small letters for the same, also if they differ in these. What cannot be
// looked at counts as different; Check reports it.
func SameFile(a, b string) bool {
	a, b = settled(a), settled(b)
	if a == b {
		return true
	}
	if before, err := os.Stat(a); err == nil {
		if after, err := os.Stat(b); err == nil {
			return os.SameFile(before, after)
		}
	}
	return fold(a) == fold(b) && foldsNames(a)
}

// settled is a path with the links in it followed as far as it exists.
func settled(path string) string {
	target, err := resolveTarget(path)
	if err != nil {
		return path
	}
	dir, rest := filepath.Dir(target), filepath.Base(target)
	for {
		if behind, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(behind, rest)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return target
		}
		dir, rest = parent, filepath.Join(filepath.Base(dir), rest)
	}
}

// foldsNames tries out whether names in the folder of a path, or in the nearest
// one above it that exists, differ by the case of their letters.
func foldsNames(path string) bool {
	dir := filepath.Dir(path)
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	probe, err := os.CreateTemp(dir, tempName("case", "check-*"))
	if err != nil {
		return false
	}
	_ = probe.Close() // nothing was written
	defer func() { _ = os.Remove(probe.Name()) }()
	_, err = os.Lstat(filepath.Join(dir, strings.ToUpper(filepath.Base(probe.Name()))))
	return err == nil
}

// Within tells whether a file at path is in a folder or below it, now or once it
// is written: after symbolic links, and by whichever name the folder goes. The
// folder need not exist.
func Within(folder, path string) bool {
	folder = settled(folder)
	there, err := os.Stat(folder)
	for dir := filepath.Dir(settled(path)); ; dir = filepath.Dir(dir) {
		if dir == folder {
			return true
		}
		if err == nil {
			if info, err := os.Stat(dir); err == nil && os.SameFile(there, info) {
				return true
			}
		}
		if filepath.Dir(dir) == dir {
			return false
		}
	}
}
