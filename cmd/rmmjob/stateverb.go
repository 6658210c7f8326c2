package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/internal/spell"
	"rmmjob/jobs"
)

// stateActions are what can be done with what jobs remember.
var stateActions = []string{"show", "export", "reset"}

// stateVerb shows, exports and resets what jobs remember of their last published run.
func stateVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	yes := f.Bool("yes", false, "agree to a reset")
	selection := f.String("selection", "", "only this selection of the job, by the beginning of its name")
	to := f.String("to", "-", "file for an export, - for standard output")
	rest, err := f.parse(args, 0, 2)
	if err != nil {
		return err
	}
	action, path := "list", ""
	switch {
	case len(rest) == 2:
		action, path = rest[0], rest[1]
	case len(rest) == 1 && slices.Contains(stateActions, rest[0]):
		return usagef("state %s needs a job file", rest[0]).withHint("usage: rmmjob state %s JOB.yaml", rest[0])
	case len(rest) == 1:
		path = rest[0]
	}
	if action != "list" && !slices.Contains(stateActions, action) {
		err := usagef("unknown verb %q of state", action)
		if near := spell.Nearest(action, stateActions); near != "" {
			err = err.withHint("did you mean %q?", "state "+near)
		}
		return err
	}
	if *to != "-" {
		if err := a.mayWrite("--to", absolute(*to)); err != nil {
			return err
		}
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // a reset has its changes on the disk
	found, err := st.memories(ctx, path, *selection)
	if err != nil {
		return err
	}
	if path != "" && len(found) == 0 && (action != "list" || *selection != "") {
		return usagef("nothing is remembered of %s", path).withHint("what is remembered: %s", a.nextCommand("state"))
	}
	for _, m := range found {
		if *to == "-" {
			break
		}
		if err := a.mayWrite("--to", absolute(*to), &jobs.Job{Path: m.JobPath}); err != nil {
			return err
		}
	}
	switch action {
	case "show":
		return a.printMemories(ctx, st, found, a.showMemories)
	case "export":
		return a.exportMemories(ctx, st, found, *to)
	case "reset":
		return a.resetMemories(ctx, st, found, path, *yes)
	}
	return a.printMemories(ctx, st, found, a.listMemories)
}

// memories finds what is remembered: of all jobs, or of the jobs of one file, under whatever account they ran.
func (s *state) memories(ctx context.Context, path, selection string) ([]checkpoint.Memory, error) {
	all, err := s.store.Memories(ctx, "")
	if err != nil {
		return nil, err
	}
	account := s.a.settings.text("account")
	return slices.DeleteFunc(all, func(m checkpoint.Memory) bool {
		return path != "" && m.JobPath != absolute(path) || account != "" && m.Account != account || !strings.HasPrefix(m.Selection, selection)
	}), nil
}

// memoryInfo is one memory as state tells it.
type memoryInfo struct {
	Job       string         `json:"job"`
	JobPath   string         `json:"job_path"`
	Account   string         `json:"account"`
	Selection string         `json:"selection"`
	About     string         `json:"about"` // the selection in words
	Run       string         `json:"run"`   // the last one published; it may have been deleted since
	Updated   time.Time      `json:"updated"`
	Bookmark  *jobs.Bookmark `json:"bookmark"` // since: where the next run begins
	Seen      int            `json:"seen"`     // since: elements near the bookmark that are not published again
	Rows      int64          `json:"rows"`     // changes: what the next run is compared with
	Columns   []string       `json:"columns"`  // changes: of these rows
	Answers   int            `json:"answers"`  // reuse: lists and audits
	Bytes     int64          `json:"bytes"`    // in the file, roughly
	memory    checkpoint.Memory
	notes     memoryNotes
}

func (s *state) describeMemory(ctx context.Context, m checkpoint.Memory) (memoryInfo, error) {
	notes, err := notesOf(m)
	if err != nil {
		return memoryInfo{}, err
	}
	blocks, answers, err := s.store.MemorySize(ctx, m)
	info := memoryInfo{
		Job: m.JobName, JobPath: m.JobPath, Account: m.Account, Selection: m.Selection, About: notes.About, Run: m.Run,
		Updated: m.Updated, Bookmark: notes.Bookmark, Seen: notes.Seen, Answers: notes.Answers, Bytes: blocks + answers,
		Columns: []string{}, memory: m, notes: notes,
	}
	if notes.Rows != nil {
		info.Rows = notes.Rows.Count
		info.Columns = headersOf(notes.Rows.Columns[min(notes.Rows.Lead, len(notes.Rows.Columns)):])
	}
	return info, err
}

// printMemories prints what is known of memories, as an object or for people.
func (a *app) printMemories(ctx context.Context, st *state, list []checkpoint.Memory, show func([]memoryInfo)) error {
	infos := make([]memoryInfo, len(list))
	for i, m := range list {
		var err error
		if infos[i], err = st.describeMemory(ctx, m); err != nil {
			return err
		}
	}
	switch {
	case a.json:
		a.result.set("memories", infos)
	case len(infos) == 0:
		a.say("nothing is remembered in %s", st.dir)
	default:
		show(infos)
	}
	return nil
}

// listMemories prints a line for each memory.
func (a *app) listMemories(infos []memoryInfo) {
	t := newTable("job", "account", "selection", "updated", "bookmark", "rows", "answers", "size")
	for _, m := range infos {
		mark := "-"
		if m.Bookmark != nil {
			mark = clock(&m.Bookmark.Newest)
		}
		t.add(m.Job, m.Account, m.Selection, clock(&m.Updated), mark, num(m.Rows), num(int64(m.Answers)), sizeText(m.Bytes))
	}
	t.write(a.stdout)
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%d MiB", (n+1<<19)>>20)
}

// showMemories prints each memory whole, without the values of its rows.
func (a *app) showMemories(infos []memoryInfo) {
	for i, m := range infos {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		t := newTable()
		t.add("job", m.Job)
		t.add("file", m.JobPath)
		t.add("account", m.Account)
		t.add("selection", fmt.Sprintf("%s (%s)", m.Selection, m.About))
		t.add("published", fmt.Sprintf("%s by run %s", clock(&m.Updated), m.Run))
		if m.Bookmark != nil {
			t.add("since", fmt.Sprintf("the newest element is of %s; %s before it known", m.Bookmark.Newest.UTC().Format(time.RFC3339Nano), count(int64(m.Seen), "element")))
		}
		if m.notes.Rows != nil {
			t.add("changes", fmt.Sprintf("%s of %s", count(m.Rows, "row"), count(int64(len(m.Columns)), "column")))
		}
		if m.Answers > 0 {
			t.add("reuse", count(int64(m.Answers), "answer"))
		}
		t.add("size", sizeText(m.Bytes))
		t.write(a.stdout)
	}
}

// exportMemories writes memories as JSON lines: a line about each, then one for each element, row and answer.
func (a *app) exportMemories(ctx context.Context, st *state, list []checkpoint.Memory, to string) error {
	if to == "-" {
		if a.json {
			return usagef("the export goes to standard output, which --json needs").withHint("name a file with --to")
		}
		return st.writeMemories(ctx, list, a.stdout)
	}
	done, err := publishPrivate(absolute(to), newRunID(a.now(), "state"), output.FileJSONL, func(w io.Writer) (int64, error) {
		return 0, st.writeMemories(ctx, list, w) // the lines of the file are no rows
	})
	if err != nil {
		return fail(exitLocalIO, "%w", err)
	}
	a.result.Files = append(a.result.Files, done)
	if !a.json {
		fmt.Fprintf(a.stdout, "%s\n", clean(done.Path))
	}
	return nil
}

func (s *state) writeMemories(ctx context.Context, list []checkpoint.Memory, w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, m := range list {
		info, err := s.describeMemory(ctx, m)
		if err != nil {
			return err
		}
		if err := enc.Encode(info); err != nil {
			return err
		}
		if err := s.writeParts(ctx, info, enc); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) writeParts(ctx context.Context, info memoryInfo, enc *json.Encoder) error {
	for row, err := range output.DecodeRows(s.store.Blocks(ctx, info.memory, partSeen)) {
		if err == nil {
			err = enc.Encode(map[string]string{"seen": row[0].Text, "date": row[1].Text})
		}
		if err != nil {
			return err
		}
	}
	for row, err := range output.DecodeRows(s.store.Blocks(ctx, info.memory, partRows)) {
		if err == nil {
			err = enc.Encode(map[string]json.RawMessage{"row": json.RawMessage(wholeRow(row[1+info.notes.Rows.Lead:], info.Columns))})
		}
		if err != nil {
			return err
		}
	}
	topics, err := s.store.Topics(ctx, info.memory)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if err := enc.Encode(map[string]any{"answer": t.Name, "last_audit": t.Stamp, "pages": t.Pages, "bytes": t.Bytes, "none": t.Skipped}); err != nil {
			return err
		}
	}
	return nil
}

// resetMemories forgets memories. The next run of the job is a first one.
func (a *app) resetMemories(ctx context.Context, st *state, list []checkpoint.Memory, path string, yes bool) error {
	if !yes {
		e := usagef("a reset makes the next run of %s a first one: add --yes", path)
		for _, m := range list {
			e = e.withHint("would be forgotten: selection %s, published %s", m.Selection, clock(&m.Updated))
		}
		return e
	}
	forgotten := make([]string, 0, len(list))
	for _, m := range list {
		unlock, err := st.lockJob(m.JobKey)
		if err != nil {
			return err
		}
		err = st.store.Forget(ctx, m)
		unlock()
		if err != nil {
			return err
		}
		forgotten = append(forgotten, m.Selection)
	}
	a.result.set("forgotten", forgotten)
	if !a.json {
		fmt.Fprintf(a.stdout, "forgotten: %s of %s\n", count(int64(len(forgotten)), "selection"), clean(path))
	}
	return nil
}
