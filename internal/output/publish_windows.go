package output

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	errorSharingViolation = syscall.Errno(32)
	errorLockViolation    = syscall.Errno(33)
	accessDelete          = 0x10000
)

// transient reports whether a rename may succeed a little later. Access denied
// is what a scanner that has just opened the target causes.
func transient(err error) bool {
	return errors.Is(err, syscall.ERROR_ACCESS_DENIED) || errors.Is(err, errorSharingViolation)
}

// held reports whether another program has the file open, maybe only for a moment.
func held(err error) bool {
	return errors.Is(err, errorSharingViolation) || errors.Is(err, errorLockViolation)
}

// checkReplaceable reports why the file at path cannot be replaced. It asks
// for the rights a rename and a rewrite need while allowing others everything,
// so it fails exactly if somebody else does not allow it.
func checkReplaceable(path string) error {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	const all = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	h, err := syscall.CreateFile(name, syscall.GENERIC_WRITE|accessDelete, all, nil,
		syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case held(err):
		return fmt.Errorf("the file is open in another program; close it there and start again: %w", err)
	case errors.Is(err, syscall.ERROR_ACCESS_DENIED):
		return fmt.Errorf("the file may not be written; is it marked read-only? %w", err)
	case err != nil:
		return err
	}
	return syscall.CloseHandle(h)
}
