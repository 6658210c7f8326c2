package output

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	errorSharingViolation = syscall.Errno(32)
	errorLockViolation    = syscall.Errno(33)
	errorHandleDiskFull   = syscall.Errno(39)
	errorDiskFull         = syscall.Errno(112)
	errorDiskQuota        = syscall.Errno(1295)
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

// DiskFull tells whether nothing more can be written to the disk, or by this user.
func DiskFull(err error) bool {
	return errors.Is(err, errorDiskFull) || errors.Is(err, errorHandleDiskFull) || errors.Is(err, errorDiskQuota)
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
		return fmt.Errorf("%w %w", errReadOnly, err)
	case err != nil:
		return err
	}
	return syscall.CloseHandle(h)
}
