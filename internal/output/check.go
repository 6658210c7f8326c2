package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A scanner or a preview lets go of a file within this time; who has it open in Excel should not wait long for the answer.
const checkFor = 2 * time.Second

// Check finds out, before any request is sent, whether a file can be published
// at path: the folder can be written to (or made), and what is there already is
// a file that can be replaced and that no other program holds. It leaves
// nothing behind, not even a folder, and does not touch the old file's content
// or times. Where a program holds a file only by advice, as under Unix, the
// holder cannot be seen and does not stand in the way of a rename either.
func Check(path string) error {
	return troubleWith("check output", path, check(path))
}

func check(path string) (err error) {
	target, err := resolveTarget(path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(target); err == nil {
		if err := retry(checkFor, held, func() error { return checkReplaceable(target) }); err != nil {
			return err
		}
	}
	dir, name := filepath.Split(target)
	made, err := makeFolders(filepath.Clean(dir))
	defer func() {
		for _, d := range made {
			// Fails on a folder that somebody has used meanwhile, which is right.
			_ = os.Remove(d)
		}
	}()
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, tempName(name, "check-*"))
	if err != nil {
		return err
	}
	err = probe.Close()
	if gone := os.Remove(probe.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// makeFolders makes dir and what is missing above it, and lists what it made,
// the innermost first.
func makeFolders(dir string) (made []string, err error) {
	_, err = os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if made, err = makeFolders(parent); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return made, err
	}
	return append([]string{dir}, made...), nil
}

// Sweep removes the temporary files that runs which no longer exist have left
// in the folder of path, whatever their target was called, because a name with
// a date differs every night. dead is asked for the run id in each name and
// must say true only for runs it knows to have ended: other machines may be at
// work in the same folder. It gives the files it removed; a missing folder has
// none.
func Sweep(path string, dead func(run string) bool) (removed []string, err error) {
	target, err := resolveTarget(path)
	if err != nil {
		return nil, fmt.Errorf("clean up beside %s: %w", path, err)
	}
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("clean up beside %s: %w", path, err)
	}
	var problems error
	for _, entry := range entries {
		run, ok := runOf(entry.Name())
		if !ok || !entry.Type().IsRegular() || !dead(run) {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		switch err := os.Remove(name); {
		case err == nil:
			removed = append(removed, name)
		case !errors.Is(err, fs.ErrNotExist):
			problems = errors.Join(problems, err)
		}
	}
	if problems != nil {
		return removed, fmt.Errorf("clean up beside %s: %w", path, problems)
	}
	return removed, nil
}

// runOf gives the run id in the name of a temporary file.
func runOf(name string) (run string, ok bool) {
	rest, ok := strings.CutSuffix(name, ".tmp")
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 2 || rest[0] != '.' {
		return "", false
	}
	run = rest[i+1:]
	return run, isRunID(run)
}
