//go:build !windows

package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// transient reports whether a rename may succeed a little later: a share whose
// server says that somebody has the file open.
func transient(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ETXTBSY)
}

// held reports whether another program has the file open: only a share tells.
func held(err error) bool { return transient(err) }

// DiskFull tells whether nothing more can be written to the disk, or by this user.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// checkReplaceable reports why the file at path should not be replaced. A file
// that is marked read-only is left alone although a rename would succeed.
func checkReplaceable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w %w", errReadOnly, bare(err))
	case err != nil:
		return err
	}
	return f.Close()
}
