package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// What an export remembers of its last published run.
//
// It belongs to the job and to what the job selects (jobs.ExportSpec.Selection). It moves once the files of a run are
// under their names, and in one step (checkpoint.Remember). A run that is killed before that step is unfinished: taken up
// again it publishes the same files anew, since its window and what was published before it are kept with the run
// itself; and a run that is begun in its place starts from the old memory, so nothing is left out in between.

// The parts of a memory that are kept in blocks.
const (
	partSeen = "seen" // of a list with since: what the next run must not publish again
	partRows = "rows" // of an export with changes: the published rows, by identity
)

// memoryNotes is what a memory says of its parts.
type memoryNotes struct {
	About    string         `json:"about"` // the selection
	Bookmark *jobs.Bookmark `json:"bookmark,omitempty"`
	Seen     int            `json:"seen,omitempty"`
	Rows     *snapshotNotes `json:"rows,omitempty"`
	Answers  int            `json:"answers,omitempty"`
}

// snapshotNotes describes the rows of a snapshot: the identity, then these cells.
type snapshotNotes struct {
	Count   int64          `json:"count"`
	Lead    int            `json:"lead"` // so many cells name the row
	Columns []columnOfNote `json:"columns"`
}

// columnOfNote is a cell of a snapshot. Two cells are the same if all of it is.
type columnOfNote struct {
	Header string `json:"header"`
	Path   string `json:"path"`
	Format string `json:"format,omitempty"`
}

func notesOf(m checkpoint.Memory) (memoryNotes, error) {
	var n memoryNotes
	if err := json.Unmarshal(m.Notes, &n); err != nil {
		return n, fmt.Errorf("what job %s remembers cannot be read: %w", m.JobName, err)
	}
	return n, nil
}

// memoryUse is what a run has taken over from the last published one. It is kept with the run.
type memoryUse struct {
	Selection string       `json:"selection,omitempty"`
	ID        int64        `json:"id,omitempty"`   // of the memory; 0 when there was none
	Full      bool         `json:"full,omitempty"` // there may have been one, but it was not to be used
	Reuse     bool         `json:"reuse,omitempty"`
	Window    *jobs.Window `json:"window,omitempty"`
	Seen      jobs.Seen    `json:"seen,omitempty"`
}

// remembers tells whether a job takes something from one run to the next.
func remembers(job *jobs.Job) bool {
	x := job.Export
	return x != nil && (x.Since != nil && x.Since.Last || x.Reuse || x.Changes != nil)
}

// isFull tells whether a run was begun without what earlier ones have left.
func isFull(r checkpoint.Run) bool {
	var about runSettings
	return json.Unmarshal(r.Settings, &about) == nil && about.Memory.Full
}

// recollect settles what a new run takes over, and with it the names of its files.
func (s *session) recollect(ctx context.Context) error {
	x := s.job.Export
	if x == nil {
		return nil
	}
	use, mark := memoryUse{Full: s.full}, jobs.Bookmark{}
	if remembers(s.job) {
		use.Reuse = x.Reuse
		var about string
		use.Selection, about = x.Selection()
		m, ok, err := s.st.store.Memory(ctx, s.jobKey(), use.Selection)
		switch {
		case err != nil:
			return err
		case s.full:
			s.note("a full run: what earlier runs have left is not used")
		case !ok:
			if err := s.noteFirst(ctx, about); err != nil {
				return err
			}
		default:
			use.ID = m.ID
			if mark, use.Seen, err = s.st.bookmark(ctx, m); err != nil {
				return err
			}
		}
	}
	if x.Since != nil {
		w, behind := x.Since.Window(s.began, mark)
		use.Window = &w
		if behind {
			s.note(fmt.Sprintf("the clock of this machine (%s) is behind what the last run has read (%s): nothing is lost, but set it right",
				s.began.UTC().Format(time.RFC3339), mark.Newest.Format(time.RFC3339)))
		}
	}
	s.about.Memory = use
	return s.expandTo(use.since())
}

// since is what {since} stands for in the paths of the run.
func (u memoryUse) since() string {
	if u.Window == nil {
		return ""
	}
	return output.SinceName(u.Window.From)
}

// noteFirst says that a run has no predecessor, and why.
func (s *session) noteFirst(ctx context.Context, about string) error {
	others, err := s.st.store.Memories(ctx, s.jobKey())
	if err != nil || len(others) == 0 {
		s.note("nothing is remembered of an earlier run: this one reads everything that it is to read")
		return err
	}
	before, err := notesOf(others[0])
	if err != nil {
		return err
	}
	s.note(fmt.Sprintf("the selection has changed (from %s to %s): this run is a first one", before.About, about))
	return nil
}

// note adds a line for people to the result.
func (s *session) note(text string) { s.notes = append(s.notes, text) }

// bookmark reads where the published part of a list ends.
func (s *state) bookmark(ctx context.Context, m checkpoint.Memory) (jobs.Bookmark, jobs.Seen, error) {
	notes, err := notesOf(m)
	if err != nil || notes.Bookmark == nil {
		return jobs.Bookmark{}, nil, err
	}
	seen := jobs.Seen{}
	for row, err := range output.DecodeRows(s.store.Blocks(ctx, m, partSeen)) {
		if err != nil {
			return jobs.Bookmark{}, nil, err
		}
		at, err := time.Parse(time.RFC3339Nano, row[1].Text)
		if err != nil {
			return jobs.Bookmark{}, nil, fmt.Errorf("what job %s remembers cannot be read: %w", m.JobName, err)
		}
		seen[row[0].Text] = at
	}
	return *notes.Bookmark, seen, nil
}

// recall fills in what a run takes over.
func (s *state) recall(ctx context.Context, use memoryUse, set *jobs.Settings) error {
	set.Window, set.Seen = use.Window, use.Seen
	if !use.Reuse || use.ID == 0 {
		return nil
	}
	topics, err := s.store.Topics(ctx, checkpoint.Memory{ID: use.ID})
	if err != nil {
		return err
	}
	set.Remembered = make(map[string]jobs.Remembered, len(topics))
	for _, t := range topics {
		set.Remembered[t.Name] = jobs.Remembered{Stamp: t.Stamp, Refused: t.Skipped}
	}
	return nil
}

// remember makes the run what the next one builds on, once its files are under their names. Rows that a limit has left
// out are in no file, so a run that was cut is none to build on.
func (s *session) remember(ctx context.Context, p *projection) error {
	if p.cut > 0 {
		s.note("what the job remembers has not moved, because the limit of rows has left some out")
		return nil
	}
	feed := p.feed
	x, use := s.job.Export, s.about.Memory
	work := s.work.(*jobs.ExportWork) //nolint:errcheck // an export has an export's work
	answers := runner.AnswersOf(s.st.store, s.rec.ID)
	names := checkpoint.Memory{JobKey: s.jobKey(), Selection: use.Selection, JobName: s.job.Name, JobPath: s.job.Path, Account: s.conn.name}
	m, err := s.st.store.OpenMemory(ctx, names, s.now())
	if err != nil {
		return err
	}
	m.JobName, m.JobPath, m.Account, m.Run = names.JobName, names.JobPath, names.Account, s.rec.ID
	_, about := x.Selection()
	notes := memoryNotes{About: about}
	var seen jobs.Seen
	if x.Since != nil && x.Since.Last {
		mark, found, err := work.Bookmark(ctx, answers)
		if err != nil {
			return err
		}
		seen, notes.Bookmark, notes.Seen = found, &mark, len(found)
	}
	if notes.Answers, err = s.keepAnswers(ctx, m, work.Kept(ctx, answers)); err != nil {
		return err
	}
	if feed != nil {
		notes.Rows = feed.snapshotNotes()
	}
	if m.Notes, err = json.Marshal(notes); err != nil {
		return fmt.Errorf("encode what is to be remembered: %w", err)
	}
	s.result.set("incremental", s.incrementalInfo(notes, feed))
	return s.st.store.Remember(ctx, m, s.now(), func(yield func(checkpoint.Block, error) bool) {
		put := func(part string, rows iter.Seq2[[]output.Value, error]) bool {
			for body, err := range output.EncodeRows(rows) {
				if !yield(checkpoint.Block{Part: part, Body: body}, err) || err != nil {
					return false
				}
			}
			return true
		}
		if put(partSeen, seenRows(seen)) && feed != nil {
			put(partRows, feed.rows.Rows())
		}
	})
}

// seenRows are keys and dates in the order of the keys.
func seenRows(seen jobs.Seen) iter.Seq2[[]output.Value, error] {
	return func(yield func([]output.Value, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(seen)) {
			date := output.Value{Kind: output.KindDate, Text: seen[key].UTC().Format(time.RFC3339Nano)}
			if !yield([]output.Value{{Kind: output.KindText, Text: key}, date}, nil) {
				return
			}
		}
	}
}

// keepAnswers takes over what a later run may reuse, drops what is out of date, and returns how many topics there are
// now. What did not change since an earlier run is there already.
func (s *session) keepAnswers(ctx context.Context, m checkpoint.Memory, kept iter.Seq2[jobs.Kept, error]) (int, error) {
	current := map[string]bool{}
	if s.job.Export.Reuse {
		if err := s.st.store.KeepAnswers(ctx, m, s.rec.ID, func(yield func(checkpoint.Keep, error) bool) {
			for k, err := range kept {
				current[k.Topic] = true
				if err == nil && k.Known && s.about.Memory.ID == m.ID {
					continue
				}
				if !yield(checkpoint.Keep{Topic: k.Topic, Stamp: k.Stamp, Keys: k.Keys}, err) {
					return
				}
			}
		}); err != nil {
			return 0, err
		}
	}
	topics, err := s.st.store.Topics(ctx, m)
	if err != nil {
		return 0, err
	}
	var gone []string
	for _, t := range topics {
		if !current[t.Name] {
			gone = append(gone, t.Name)
		}
	}
	return len(topics) - len(gone), s.st.store.DropTopics(ctx, m, gone)
}

// incrementalInfo is what --json tells of a run that builds on others.
type incrementalInfo struct {
	First     bool           `json:"first"` // nothing was remembered, or it was not to be used
	Selection string         `json:"selection"`
	Since     *time.Time     `json:"since"`    // null for a run that reads everything
	Bookmark  *jobs.Bookmark `json:"bookmark"` // where the next run begins
	Changes   *changeCounts  `json:"changes"`
}

func (s *session) incrementalInfo(notes memoryNotes, feed *changeFeed) incrementalInfo {
	use := s.about.Memory
	info := incrementalInfo{First: use.ID == 0, Selection: use.Selection, Bookmark: notes.Bookmark}
	if use.Window != nil && !use.Window.From.IsZero() {
		info.Since = &use.Window.From
	}
	if feed != nil {
		info.Changes = &feed.counts
	}
	return info
}
