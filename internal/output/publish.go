package output

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// How long a rename that another program stands in the way of is tried again.
// Virus scanners let go within a second or two; a spreadsheet never does.
const (
	renameFor      = 10 * time.Second
	renamePause    = 50 * time.Millisecond
	renameMaxPause = time.Second
)

// maxLinks bounds a chain of symbolic links.
const maxLinks = 40

// Published tells what a finished file holds.
type Published struct {
	Path   string // where it is
	Size   int64  // bytes
	SHA256 string // of the whole file, in hexadecimal digits
}

// KeptError says that a complete file could not be put in its place and is
// kept under its temporary name.
type KeptError struct {
	Path string // where it should be
	Kept string // where it is
	Err  error  // why
}

// Error names both files.
func (e *KeptError) Error() string {
	return fmt.Sprintf("publish %s: %v; the complete file is kept as %s", e.Path, e.Err, e.Kept)
}

// Unwrap gives the cause.
func (e *KeptError) Unwrap() error { return e.Err }

// File is an output file on its way: everything is written to a temporary file
// in the target's folder, .<name>.<run>.tmp, which only its owner can read.
// Publish makes it the target; until then, and whenever anything fails, the
// target keeps its old content.
//
// The new file has the permissions of the one it replaces, or those of any new
// file. A target that is a symbolic link stays one: the file it points to is
// replaced.
type File struct {
	target, temp string
	f            *os.File
	sum          hash.Hash
	size         int64
	mode         fs.FileMode
	private      bool  // the mode was narrowed and has to be set in the end
	secret       bool  // and stays so
	err          error // first failed write
	state        fileState
	disk         disk
}

type fileState uint8

const (
	fileOpen      fileState = iota
	fileKept                // complete, closed, under the temporary name
	fileDone                // published
	fileDiscarded           // gone
)

// disk is what a test replaces to make the file system fail.
type disk struct {
	write     func(*os.File, []byte) (int, error)
	sync      func(*os.File) error
	close     func(*os.File) error
	rename    func(from, to string) error
	free      func(path string) error // why the file may not be replaced
	transient func(error) bool
}

var realDisk = disk{
	write:     (*os.File).Write,
	sync:      (*os.File).Sync,
	close:     (*os.File).Close,
	rename:    os.Rename,
	free:      checkReplaceable,
	transient: transient,
}

// Create starts a file that is to become path. run is the id of the run and
// may hold letters, digits, - and _. Missing folders are made. A temporary file
// that an earlier, interrupted try of the same run left behind is replaced.
func Create(path, run string) (*File, error) {
	if !isRunID(run) {
		return nil, fmt.Errorf("create %s: %q is no run id", path, run)
	}
	target, err := resolveTarget(path)
	if err != nil {
		return nil, troubleWith("create", path, err)
	}
	dir, name := filepath.Split(target)
	temp := filepath.Join(dir, tempName(name, run))
	if err := os.MkdirAll(filepath.Clean(dir), 0o777); err != nil {
		return nil, troubleWith("create", path, err)
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, troubleWith("create", path, err)
	}
	// Made with the mode of any new file, which the umask narrows, to learn that
	// mode; then closed to others until it is complete.
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, troubleWith("create", path, err)
	}
	file := &File{target: target, temp: temp, f: f, sum: sha256.New(), disk: realDisk}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(troubleWith("create", path, err), file.Abort())
	}
	file.mode = info.Mode().Perm()
	// A file system without modes of its own (FAT) refuses this.
	file.private = f.Chmod(0o600) == nil
	return file, nil
}

// KeepPrivate makes the published file readable by its owner only, whatever the
// mode of other files or of the one it replaces.
func (f *File) KeepPrivate() { f.secret = true }

// Target is the absolute path that the file is to have, behind symbolic links.
func (f *File) Target() string { return f.target }

// Write adds to the file. After a failed write, Publish fails too.
func (f *File) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.state != fileOpen {
		return 0, fmt.Errorf("write %s: %w", f.target, fs.ErrClosed)
	}
	n, err := f.disk.write(f.f, p)
	f.sum.Write(p[:n])
	f.size += int64(n)
	if err != nil {
		f.err = troubleWith("write", f.target, err)
	}
	return n, f.err
}

// Seal completes the temporary file: written through to the disk and closed, so
// that nothing is left to do but to rename it. Of several files that belong
// together all are sealed before the first is published. After an error the
// temporary file is gone and the target is what it was. Sealing twice does
// nothing.
func (f *File) Seal() error {
	if f.state == fileKept {
		return nil
	}
	return f.seal()
}

// Publish makes what was written the content of the target, in one step:
// sealed, renamed, and the folder written through.
// While another program holds the target, the rename is tried again for ten
// seconds; if it stays refused, the error is a *KeptError and PublishAside can
// still save the file under another name. After any other error the temporary
// file is gone and the target is what it was.
func (f *File) Publish() (Published, error) {
	if err := f.Seal(); err != nil {
		return Published{}, err
	}
	return f.moveTo(f.target)
}

// PublishInPlace is Publish for a target that has to stay the same file,
// because of its access rights, hard links or a mount: the content is copied
// into it. A reader can meet it half written. If the copy fails, the target is
// damaged, the error is a *KeptError and the complete file is kept. A target
// that does not exist yet is published by rename.
func (f *File) PublishInPlace() (Published, error) {
	if err := f.Seal(); err != nil {
		return Published{}, err
	}
	if _, err := os.Stat(f.target); errors.Is(err, fs.ErrNotExist) {
		return f.moveTo(f.target)
	}
	if err := f.copyToTarget(); err != nil {
		return Published{}, &KeptError{f.target, f.temp, bare(err)}
	}
	f.state = fileDone
	if err := os.Remove(f.temp); err != nil {
		return Published{}, fmt.Errorf("publish %s: the file is in place, but: %w", f.target, err)
	}
	return f.published(f.target), nil
}

// PublishAside saves a sealed file, such as one that Publish or PublishInPlace
// had to keep, beside its target: as devices.20250306-020000.csv for
// devices.csv; at is the time in that name. No existing file is replaced.
func (f *File) PublishAside(at time.Time) (Published, error) {
	if f.state != fileKept {
		return Published{}, fmt.Errorf("publish %s: there is no kept file", f.target)
	}
	ext := filepath.Ext(f.target)
	stem := strings.TrimSuffix(f.target, ext) + "." + at.Local().Format("20060102-150405")
	side := stem + ext
	for n := 2; ; n++ {
		if _, err := os.Lstat(side); errors.Is(err, fs.ErrNotExist) {
			return f.moveTo(side)
		} else if err != nil {
			return Published{}, &KeptError{side, f.temp, bare(err)}
		}
		side = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
}

// awaitFree waits until nothing stands in the way of replacing the target, as
// long as Publish would try.
func (f *File) awaitFree() error {
	err := f.retry(func() error {
		err := f.disk.free(f.target)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return &KeptError{f.target, f.temp, bare(err)}
	}
	return nil
}

// Abort drops the temporary file. After Publish, successful or not, it does
// nothing, so it can be deferred.
func (f *File) Abort() error {
	if f.state != fileOpen {
		return nil
	}
	return f.discard()
}

// discard drops the temporary file whether it is sealed or not.
func (f *File) discard() error {
	if f.state == fileDone || f.state == fileDiscarded {
		return nil
	}
	f.state = fileDiscarded
	// What Close reports about a file that is thrown away does not matter.
	_ = f.f.Close()
	if err := os.Remove(f.temp); err != nil {
		return fmt.Errorf("remove temporary file: %w", err)
	}
	return nil
}

// seal completes the temporary file and closes it.
func (f *File) seal() error {
	if f.state != fileOpen {
		return fmt.Errorf("publish %s: %w", f.target, fs.ErrClosed)
	}
	err := f.err
	if err == nil {
		if err = f.finish(); err == nil {
			f.state = fileKept
			return nil
		}
		err = troubleWith("publish", f.target, err)
	}
	return errors.Join(err, f.Abort())
}

func (f *File) finish() error {
	if f.private && !f.secret {
		mode := f.mode
		if info, err := os.Stat(f.target); err == nil {
			mode = info.Mode().Perm()
		}
		if err := f.f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := f.disk.sync(f.f); err != nil {
		return err
	}
	return f.disk.close(f.f)
}

// moveTo renames the closed temporary file.
func (f *File) moveTo(path string) (Published, error) {
	if err := f.retry(func() error { return f.disk.rename(f.temp, path) }); err != nil {
		return Published{}, &KeptError{path, f.temp, bare(err)}
	}
	f.state = fileDone
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return Published{}, fmt.Errorf("publish %s: the file is in place, but its folder could not be written through: %w", path, err)
	}
	return f.published(path), nil
}

// retry tries again for ten seconds what fails for a reason that may pass.
func (f *File) retry(try func() error) error {
	return retry(renameFor, f.disk.transient, try)
}

// retry tries again, with growing pauses, for so long as what fails may pass.
func retry(limit time.Duration, passes func(error) bool, try func() error) error {
	pause := renamePause
	for waited := time.Duration(0); ; waited += pause {
		err := try()
		if err == nil || !passes(err) || waited >= limit {
			return err
		}
		if waited > 0 {
			pause = min(2*pause, renameMaxPause)
		}
		time.Sleep(pause)
	}
}

func (f *File) copyToTarget() error {
	from, err := os.Open(f.temp)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	to, err := os.OpenFile(f.target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(writerFunc(func(p []byte) (int, error) { return f.disk.write(to, p) }), from)
	if err == nil {
		err = to.Truncate(f.size)
	}
	if err == nil {
		err = f.disk.sync(to)
	}
	return errors.Join(err, f.disk.close(to))
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func (f *File) published(path string) Published {
	return Published{Path: path, Size: f.size, SHA256: hex.EncodeToString(f.sum.Sum(nil))}
}

// syncFolder makes a rename survive a power cut. Windows cannot do it and does
// not need it; some network file systems cannot either.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		// A folder that can be written but not read.
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// resolveTarget makes path absolute, follows symbolic links at its end, and refuses
// what can never be an output file.
func resolveTarget(path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	target, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range maxLinks {
		info, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil
		case err != nil:
			return "", err
		case info.IsDir():
			return "", errors.New("is a folder; name a file in it")
		case info.Mode()&fs.ModeSymlink != 0:
			next, err := os.Readlink(target)
			if err != nil {
				return "", err
			}
			if !filepath.IsAbs(next) {
				next = filepath.Join(filepath.Dir(target), next)
			}
			target = next
		case !info.Mode().IsRegular():
			return "", errors.New("is a device or a pipe, not a file that can be replaced")
		default:
			return target, nil
		}
	}
	return "", errors.New("too many symbolic links")
}

func tempName(name, run string) string { return "." + name + "." + run + ".tmp" }

func isRunID(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}
