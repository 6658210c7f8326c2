package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// trouble is what stands in the way of an output file: what was being done, the file
// by its own name, why, and what to do. The names of temporary files are left out.
type trouble struct {
	doing, path string
	err         error
}

// troubleWith is the error of doing something with the file of a path. One that says
// so already stays as it is.
func troubleWith(doing, path string, err error) error {
	if _, told := errors.AsType[*trouble](err); told || err == nil {
		return err
	}
	return &trouble{doing, path, err}
}

// Error names the file once.
func (t *trouble) Error() string {
	text := fmt.Sprintf("%s %s: %v", t.doing, t.path, bare(t.err))
	switch err := t.err; {
	case errors.Is(err, errReadOnly): // says it
	case DiskFull(err):
		text += ": make room there, or name a file on another disk"
	case errors.Is(err, fs.ErrPermission):
		text += ": whoever runs this must be allowed to write in " + filepath.Dir(t.path)
	case errors.Is(err, fs.ErrNotExist):
		text += ": is the drive or the share there?"
	}
	return text
}

// Unwrap gives the cause.
func (t *trouble) Unwrap() error { return t.err }

// errReadOnly is for a file that may not be replaced although others may be made
// beside it.
var errReadOnly = errors.New("the file may not be written; is it marked read-only?")

// bare drops the paths that the system puts before a cause: the caller names the file
// better.
func bare(err error) error {
	switch e := err.(type) { //nolint:errorlint // one layer after the other
	case *fs.PathError:
		return bare(e.Err)
	case *os.LinkError:
		return bare(e.Err)
	case *os.SyscallError:
		return bare(e.Err)
	}
	return err
}
