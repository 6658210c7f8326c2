package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// RunState says where a run stands. The names are those of the exit codes where there is one.
type RunState string

// The states of a run. Running means that a process began it and has not ended it: either that process is alive, or it
// crashed; only the lock of the job can tell.
const (
	RunPlanned     RunState = "planned"
	RunRunning     RunState = "running"
	RunStopped     RunState = "stopped"
	RunThrottled   RunState = "throttled"
	RunAuth        RunState = "auth"
	RunUnreachable RunState = "unreachable"
	RunLocalIO     RunState = "local_io"
	RunAborted     RunState = "aborted"
	RunSuperseded  RunState = "superseded"
	RunOK          RunState = "ok"
	RunPartial     RunState = "partial"
	RunInDoubt     RunState = "in_doubt"
	RunGuard       RunState = "guard"
	RunIncomplete  RunState = "incomplete"
	RunInternal    RunState = "internal"
)

// Run is one run of a job. CreateRun stores the upper part; the rest is kept by the Store and ignored there.
type Run struct {
	ID        string // unique and not empty; sortable ids make prefixes useful
	JobKey    string // what makes two runs runs of the same job; not empty
	JobName   string
	JobPath   string
	Kind      string // export, update, call: free text for the caller
	Account   string
	JobHash   string
	InputHash string
	Stage     string   // the first stage; Advance changes it
	State     RunState // RunPlanned when empty
	Settings  []byte   // opaque
	Created   time.Time

	Started   time.Time // when it first began; zero before
	Finished  time.Time // when it last ended; zero while running
	ExitCode  int       // of the last end
	Error     string    // of the last end
	Resumes   int       // how often it began again
	Reads     int64     // acknowledged requests, over all sessions of the run
	Writes    int64
	Throttled int64  // 429 answers
	Host      string // of the process that last began it; for messages only, never proof that it lives
	PID       int
}

const runColumns = `id, job_key, job_name, job_path, kind, account, job_hash, input_hash, stage, state, settings,
	created, started, finished, exit_code, error, resumes, reads, writes, throttled, host, pid`

func scanRun(row interface{ Scan(...any) error }) (Run, error) {
	var r Run
	var created, started, finished sql.NullInt64
	err := row.Scan(&r.ID, &r.JobKey, &r.JobName, &r.JobPath, &r.Kind, &r.Account, &r.JobHash, &r.InputHash, &r.Stage,
		&r.State, &r.Settings, &created, &started, &finished, &r.ExitCode, &r.Error, &r.Resumes, &r.Reads, &r.Writes,
		&r.Throttled, &r.Host, &r.PID)
	r.Created, r.Started, r.Finished = moment(created), moment(started), moment(finished)
	return r, err
}

func scanRunRow(rows *sql.Rows) (Run, error) { return scanRun(rows) }

// runSeq returns the number that the tables know a run by, or ErrNotFound.
func runSeq(ctx context.Context, q querier, id string) (seq int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq FROM runs WHERE id = ?`, id).Scan(&seq)
	return seq, missing(err, "run "+id)
}

// missing turns the absence of a row into ErrNotFound.
func missing(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return err
}

// CreateRun stores a new run. A taken id gives ErrExists.
func (s *Store) CreateRun(ctx context.Context, r Run) error {
	if r.State == "" {
		r.State = RunPlanned
	}
	doing := "create run " + r.ID
	_, err := s.write.ExecContext(ctx, `INSERT INTO runs (id, job_key, job_name, job_path, kind, account, job_hash,
		input_hash, stage, state, settings, created, exit_code, error, resumes, reads, writes, throttled, host, pid)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', 0, 0, 0, 0, '', 0)`,
		r.ID, r.JobKey, r.JobName, r.JobPath, r.Kind, r.Account, r.JobHash, r.InputHash, r.Stage, r.State, r.Settings,
		millis(r.Created))
	if code(err) == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return fmt.Errorf("%s: %w", doing, ErrExists)
	}
	return s.fail(ctx, doing, err)
}

// Run returns the run with that id, or ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	r, err := scanRun(s.read.QueryRowContext(ctx, `SELECT `+runColumns+` FROM runs WHERE id = ?`, id))
	return r, s.fail(ctx, "read the run", missing(err, "run "+id))
}

// FindRun returns the run with that id, or the only one whose id begins with it: else ErrNotFound or *AmbiguousError.
func (s *Store) FindRun(ctx context.Context, prefix string) (Run, error) {
	const doing, most = "find the run", 10
	r, err := s.Run(ctx, prefix)
	if !errors.Is(err, ErrNotFound) {
		return r, err
	}
	// Ids that begin with the prefix follow it directly in the order of the index.
	found, err := collect(ctx, s.read, scanRunRow,
		`SELECT `+runColumns+` FROM runs WHERE id >= ? AND substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT ?`, prefix, most)
	switch {
	case err != nil:
		return Run{}, s.fail(ctx, doing, err)
	case prefix == "" || len(found) == 0:
		return Run{}, fmt.Errorf("run %q: %w", prefix, ErrNotFound)
	case len(found) > 1:
		e := &AmbiguousError{Prefix: prefix}
		for _, r := range found {
			e.IDs = append(e.IDs, r.ID)
		}
		return Run{}, e
	}
	return found[0], nil
}

// LastRun returns the run of a job that was created last; false when there is none.
func (s *Store) LastRun(ctx context.Context, jobKey string) (Run, bool, error) {
	runs, err := s.Runs(ctx, 1, jobKey)
	if err != nil || len(runs) == 0 {
		return Run{}, false, err
	}
	return runs[0], true, nil
}

// Runs returns at most limit runs (all of them if limit is 0), the newest first: those of one job, or of all jobs when jobKey is empty.
func (s *Store) Runs(ctx context.Context, limit int, jobKey string) ([]Run, error) {
	where, args := "", []any{bound(limit)}
	if jobKey != "" {
		where, args = "WHERE job_key = ?", []any{jobKey, bound(limit)}
	}
	runs, err := collect(ctx, s.read, scanRunRow, `SELECT `+runColumns+` FROM runs `+where+` ORDER BY seq DESC LIMIT ?`, args...)
	return runs, s.fail(ctx, "list runs", err)
}

// changeRun executes an UPDATE that must hit exactly the run id.
func (s *Store) changeRun(ctx context.Context, doing, id, update string, args ...any) error {
	return s.inTx(ctx, doing, func(tx *sql.Tx) error {
		if _, err := runSeq(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, update+` WHERE id = ?`, append(args, id)...)
		return err
	})
}

// BeginRun marks a run as running in this process. A run that had begun before counts a resume, whatever became of it;
// one that is superseded is refused with ErrSuperseded. The caller holds the lock of the job; call Recover next.
func (s *Store) BeginRun(ctx context.Context, id string, now time.Time, host string, pid int) error {
	const doing = "begin the run"
	return s.inTx(ctx, doing, func(tx *sql.Tx) error {
		var state RunState
		if err := tx.QueryRowContext(ctx, `SELECT state FROM runs WHERE id = ?`, id).Scan(&state); err != nil {
			return missing(err, "run "+id)
		}
		if state == RunSuperseded {
			return fmt.Errorf("run %s: %w", id, ErrSuperseded)
		}
		_, err := tx.ExecContext(ctx, `UPDATE runs SET state = 'running', resumes = resumes + (started IS NOT NULL),
			started = coalesce(started, ?), finished = NULL, exit_code = 0, error = '', host = ?, pid = ? WHERE id = ?`,
			millis(now), host, pid, id)
		return err
	})
}

// EndRun records how a run, or this session of it, ended. The state is any but RunRunning; the exit code is 0..255.
func (s *Store) EndRun(ctx context.Context, id string, now time.Time, state RunState, exitCode int, errText string) error {
	return s.changeRun(ctx, "end the run as "+string(state), id,
		`UPDATE runs SET state = ?, finished = ?, exit_code = ?, error = ?`, state, millis(now), exitCode, errText)
}

// SetInputHash records the hash of the input file once it is known.
func (s *Store) SetInputHash(ctx context.Context, id, hash string) error {
	return s.changeRun(ctx, "set the input hash", id, `UPDATE runs SET input_hash = ?`, hash)
}

// SetJobKey makes a run one of another job, as that of another key of its account.
func (s *Store) SetJobKey(ctx context.Context, id, key, account string) error {
	return s.changeRun(ctx, "set the job of the run", id, `UPDATE runs SET job_key = ?, account = ?`, key, account)
}

// SetSettings replaces what a run remembers for its caller.
func (s *Store) SetSettings(ctx context.Context, id string, settings []byte) error {
	return s.changeRun(ctx, "set the settings of the run", id, `UPDATE runs SET settings = ?`, settings)
}

// deleteBatch is how many rows one transaction of DeleteRun removes.
const deleteBatch = 1000

// DeleteRun removes a run with all that belongs to it. The space is used again by later runs; the file does not shrink.
// It works in several transactions, to keep the log small; the first closes the run as superseded, so that a half
// deleted run can never be resumed, only deleted again.
func (s *Store) DeleteRun(ctx context.Context, id string, now time.Time) error {
	doing := "delete run " + id
	if err := s.EndRun(ctx, id, now, RunSuperseded, 0, "deleted"); err != nil {
		return err
	}
	seq, err := runSeq(ctx, s.read, id)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	for _, statement := range []string{
		`DELETE FROM items WHERE id IN (SELECT id FROM items WHERE run = ? LIMIT ?)`,
		`DELETE FROM plan_rows WHERE (run, number) IN (SELECT run, number FROM plan_rows WHERE run = ? LIMIT ?)`,
		`DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE run = ? LIMIT ?)`,
		`DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE seq = ? LIMIT ?)`,
	} {
		for {
			n, err := affected(s.write.ExecContext(ctx, statement, seq, deleteBatch))
			if err != nil {
				return s.fail(ctx, doing, err)
			}
			if n < deleteBatch {
				break
			}
		}
	}
	return nil
}

// clean reports why a name cannot be stored and found again, "" when it can: SQLite ends texts at a zero byte in places.
func clean(name string) string {
	switch {
	case name == "":
		return "is empty"
	case strings.ContainsRune(name, 0):
		return "holds a zero byte"
	}
	return ""
}

// bound is a limit as SQLite takes it, for which a negative one is none.
func bound(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}
