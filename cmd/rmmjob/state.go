package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"rmmjob/checkpoint"
)

// state is the folder in which rmmjob keeps everything of its own: the
// checkpoint, the locks and the result files of runs.
type state struct {
	dir   string // absolute
	store *checkpoint.Store
	kept  []func() // give locks back that are held until Close
	a     *app
}

// stateDir returns the state folder. Simulated accounts have one of their own
// inside it, so that no trial is ever taken for the real thing.
func (a *app) stateDir() (string, error) {
	dir, err := a.stateRoot()
	if err == nil && a.sim.on {
		dir = filepath.Join(dir, "sim")
	}
	return dir, err
}

// stateRoot is the state folder with all that is in it.
func (a *app) stateRoot() (string, error) {
	dir := a.settings.path("state_dir")
	if dir == "" {
		base := a.getenv("XDG_STATE_HOME")
		if home := a.getenv("HOME"); base == "" && home != "" {
			base = filepath.Join(home, ".local", "state")
		}
		if runtime.GOOS == "windows" {
			base = a.getenv("LOCALAPPDATA")
		}
		if base == "" {
			return "", usagef("no place for the state: the environment names no home folder").
				withHint("set state_dir: --state-dir, RMMJOB_STATE_DIR, or state_dir in the config file")
		}
		dir = absolute(filepath.Join(base, "rmmjob"))
	}
	return dir, nil
}

// openState makes the state folder if need be, readable by its owner only,
// and opens the checkpoint in it. Close it when done.
func (a *app) openState(ctx context.Context) (*state, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "locks"), 0o700); err != nil {
		return nil, fail(exitLocalIO, "make the state folder: %w", err).
			withHint("name a folder that can be written with --state-dir")
	}
	if client := checkpoint.CloudFolder(dir); client != "" {
		a.warn("the state folder %s is in a folder of %s, which may lock or copy files in use; use a local one", dir, client)
	}
	store, err := checkpoint.Open(ctx, filepath.Join(dir, "rmmjob.db"))
	if err != nil {
		return nil, err
	}
	return &state{dir: dir, store: store, a: a}, nil
}

// Close gives the checkpoint back, and the locks that were kept.
func (s *state) Close() error {
	for _, unlock := range s.kept {
		unlock()
	}
	s.kept = nil
	return s.store.Close()
}

// runDir returns the folder of a run's own files.
func (s *state) runDir(run string) string { return filepath.Join(s.dir, "runs", run) }

// runFolder is runDir, made if it is not there.
func (s *state) runFolder(run string) (string, error) {
	dir := s.runDir(run)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fail(exitLocalIO, "make the folder of the run: %w", err)
	}
	return dir, nil
}

// lockPath is where the lock of a job lies, without the ending.
func (s *state) lockPath(jobKey string) string {
	sum := sha256.Sum256([]byte(jobKey))
	return filepath.Join(s.dir, "locks", hex.EncodeToString(sum[:16]))
}

// holder is who holds a lock. It serves messages only: the lock itself is held
// by the kernel and ends with its process, however that ends.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (h holder) String() string {
	return fmt.Sprintf("process %d on %s since %s", h.PID, h.Host, h.Since.Local().Format("2006-01-02 15:04:05"))
}

// lockJob takes the lock of a job, so that two processes never work on it at
// a time. While another process has it, the error has exit code busy. unlock
// gives it back; it is safe to call it twice.
func (s *state) lockJob(jobKey string) (unlock func(), err error) {
	base := s.lockPath(jobKey)
	lock := flock.New(base+".lock", flock.SetPermissions(0o600))
	// Somebody who only looks whether the job is at work holds the lock for an
	// instant; that must not turn a start away.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	got, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil && ctx.Err() == nil {
		return nil, fail(exitLocalIO, "lock the job: %w", err)
	}
	last, known := readHolder(base + ".json")
	if !got {
		_ = lock.Close()
		busy := fail(exitBusy, "another run of this job is at work")
		if known {
			busy = fail(exitBusy, "another run of this job is at work: %s", last)
		}
		return nil, busy.withHint("nothing was started; the other run goes on")
	}
	if known {
		s.a.say("note: the last run of this job ended without giving its lock back (%s); that does no harm", last)
	}
	host, _ := os.Hostname() //nolint:errcheck // for a message only
	me, _ := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: s.a.now().Truncate(time.Second)})
	if err := os.WriteFile(base+".json", me, 0o600); err != nil {
		_ = lock.Close()
		return nil, fail(exitLocalIO, "note the holder of the lock: %w", err)
	}
	return func() {
		if lock.Locked() {
			// The file goes first: behind the lock nobody else can have
			// written it. The lock file stays, because removing it would let
			// two processes lock two files of one name.
			_ = os.Remove(base + ".json")
			_ = lock.Close()
		}
	}, nil
}

func readHolder(path string) (holder, bool) {
	var h holder
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &h) != nil || h.PID == 0 {
		return holder{}, false
	}
	return h, true
}
