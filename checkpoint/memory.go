package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Memory is what a job remembers of its last published run, for one selection of what it reads. Remember makes it; it
// is not touched by the deletion of runs, only by Forget.
type Memory struct {
	ID        int64  // given by the Store, never twice
	JobKey    string // as that of the runs
	Selection string // a name of what the job reads; not empty
	JobName   string
	JobPath   string
	Account   string
	Run       string // the run that was published; it may have been deleted since
	Updated   time.Time
	Notes     []byte // small and opaque: the caller's own description of the rest

	generation int64
}

// Block is a piece of a long list that a memory holds. The blocks of a part come back in the order in which they were
// given.
type Block struct {
	Part string
	Body []byte // not empty
}

const memoryColumns = `seq, job_key, selection, job_name, job_path, account, run, updated, generation, notes`

func scanMemory(row interface{ Scan(...any) error }) (Memory, error) {
	var m Memory
	var updated sql.NullInt64
	err := row.Scan(&m.ID, &m.JobKey, &m.Selection, &m.JobName, &m.JobPath, &m.Account, &m.Run, &updated, &m.generation, &m.Notes)
	m.Updated = moment(updated)
	return m, err
}

// Memory returns what a job remembers of a selection; false when that is nothing.
func (s *Store) Memory(ctx context.Context, jobKey, selection string) (Memory, bool, error) {
	m, err := scanMemory(s.read.QueryRowContext(ctx,
		`SELECT `+memoryColumns+` FROM memories WHERE job_key = ? AND selection = ? AND run <> ''`, jobKey, selection))
	if errors.Is(err, sql.ErrNoRows) {
		return Memory{}, false, nil
	}
	return m, err == nil, s.fail(ctx, "read the memory of the job", err)
}

// Memories returns everything that is remembered, in the order of the job files, the newest first: of one job, or of
// all of them when jobKey is empty.
func (s *Store) Memories(ctx context.Context, jobKey string) ([]Memory, error) {
	all, err := collect(ctx, s.read, func(rows *sql.Rows) (Memory, error) { return scanMemory(rows) },
		`SELECT `+memoryColumns+` FROM memories WHERE run <> '' AND (?1 = '' OR job_key = ?1)
			ORDER BY job_path, account, updated DESC, seq DESC`, jobKey)
	return all, s.fail(ctx, "list memories", err)
}

// OpenMemory returns the memory of a selection for a change of it, made when there is none; the names are those of m. A
// new one counts as nothing until Remember.
func (s *Store) OpenMemory(ctx context.Context, m Memory, now time.Time) (Memory, error) {
	err := s.inTx(ctx, "open the memory of the job", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO memories (job_key, selection, job_name, job_path, account, run, updated, generation, notes)
			VALUES (?, ?, ?, ?, ?, '', ?, 0, x'') ON CONFLICT (job_key, selection) DO NOTHING`,
			m.JobKey, m.Selection, m.JobName, m.JobPath, m.Account, millis(now)); err != nil {
			return err
		}
		var err error
		m, err = scanMemory(tx.QueryRowContext(ctx, `SELECT `+memoryColumns+` FROM memories WHERE job_key = ? AND selection = ?`,
			m.JobKey, m.Selection))
		return err
	})
	return m, err
}

// Remember replaces notes, run and all blocks of a memory that OpenMemory returned: its names, Run and Notes are those
// of m. The blocks are written in batches beside the old ones; a single small transaction at the end makes them the ones
// that count. So after an error or a crash the old ones are remembered, and what was written is cleared away by the
// next call.
func (s *Store) Remember(ctx context.Context, m Memory, now time.Time, blocks iter.Seq2[Block, error]) error {
	const doing, mostBytes = "remember a run", 4 << 20
	if m.Run == "" {
		return fmt.Errorf("%s: it has no id", doing)
	}
	if err := s.clearBlocks(ctx, doing, m.ID); err != nil {
		return err
	}
	next := m.generation + 1
	numbers := map[string]int{}
	var batch []Block
	size := 0
	flush := func() error {
		err := s.inTx(ctx, doing, func(tx *sql.Tx) error {
			for _, b := range batch {
				encoding, body := encode(b.Body)
				if _, err := tx.ExecContext(ctx, `INSERT INTO memory_blocks (memory, generation, part, number, encoding, size, body)
					VALUES (?, ?, ?, ?, ?, ?, ?)`, m.ID, next, b.Part, numbers[b.Part], encoding, len(b.Body), body); err != nil {
					return err
				}
				numbers[b.Part]++
			}
			return nil
		})
		batch, size = batch[:0], 0
		return err
	}
	if blocks != nil {
		for b, err := range blocks {
			if err != nil {
				return err
			}
			batch = append(batch, b)
			if size += len(b.Body); size >= mostBytes {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := s.inTx(ctx, doing, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE memories SET generation = ?, run = ?, updated = ?, notes = ?, job_name = ?, job_path = ?,
			account = ? WHERE seq = ?`, next, m.Run, millis(now), append([]byte{}, m.Notes...), m.JobName, m.JobPath, m.Account, m.ID)
		return err
	}); err != nil {
		return err
	}
	// What is in the way of clearing up now does not matter: the next call does it.
	_ = s.clearBlocks(context.WithoutCancel(ctx), doing, m.ID)
	return nil
}

// clearBlocks removes the blocks that do not count.
func (s *Store) clearBlocks(ctx context.Context, doing string, memory int64) error {
	return s.batches(ctx, doing, `DELETE FROM memory_blocks WHERE rowid IN (SELECT b.rowid FROM memory_blocks b
		JOIN memories m ON m.seq = b.memory WHERE b.memory = ? AND b.generation <> m.generation LIMIT ?)`, memory)
}

// batches repeats a DELETE with a limit until it finds no more.
func (s *Store) batches(ctx context.Context, doing, statement string, args ...any) error {
	const most = 200 // of rows that may hold many kilobytes each
	for {
		n, err := affected(s.write.ExecContext(ctx, statement, append(args[:len(args):len(args)], most)...))
		if err != nil || n < most {
			return s.fail(ctx, doing, err)
		}
	}
}

// Blocks walks one part of a memory. An error is the last thing it yields. It reads a block at a time.
func (s *Store) Blocks(ctx context.Context, m Memory, part string) iter.Seq2[[]byte, error] {
	const doing = "read the memory of the job"
	return func(yield func([]byte, error) bool) {
		for number := 0; ; number++ {
			var encoding string
			var size int
			var body []byte
			err := s.read.QueryRowContext(ctx, `SELECT encoding, size, body FROM memory_blocks
				WHERE memory = ? AND generation = ? AND part = ? AND number = ?`, m.ID, m.generation, part, number).Scan(&encoding, &size, &body)
			if errors.Is(err, sql.ErrNoRows) {
				return
			}
			if err == nil {
				body, err = decode(encoding, body, size)
			}
			if err != nil {
				yield(nil, s.fail(ctx, doing, fmt.Errorf("block %d of %s: %w", number, part, err)))
				return
			}
			if !yield(body, nil) {
				return
			}
		}
	}
}

// MemorySize returns the bytes that a memory takes in the file, roughly.
func (s *Store) MemorySize(ctx context.Context, m Memory) (blocks, answers int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT
		(SELECT coalesce(sum(length(body)), 0) FROM memory_blocks WHERE memory = ?1 AND generation = ?2),
		(SELECT coalesce(sum(length(coalesce(body, x'')) + length(topic) + length(coalesce(payload, x''))), 0) FROM memory_answers WHERE memory = ?1)`,
		m.ID, m.generation).Scan(&blocks, &answers)
	return blocks, answers, s.fail(ctx, "measure the memory of the job", err)
}

// Forget removes a memory with everything in it. The first of its transactions makes it nothing, so that one that was
// half removed is never taken for a memory.
func (s *Store) Forget(ctx context.Context, m Memory) error {
	const doing = "forget what the job remembers"
	err := s.inTx(ctx, doing, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `UPDATE memories SET run = '', notes = x'', generation = generation + 1 WHERE seq = ?`, m.ID))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.clearBlocks(ctx, doing, m.ID); err != nil {
		return err
	}
	if err := s.batches(ctx, doing, `DELETE FROM memory_answers WHERE rowid IN (SELECT rowid FROM memory_answers WHERE memory = ? LIMIT ?)`, m.ID); err != nil {
		return err
	}
	_, err = s.write.ExecContext(ctx, `DELETE FROM memories WHERE seq = ?`, m.ID)
	return s.fail(ctx, doing, err)
}
