package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// runsVerb lists the runs of this state folder, newest first.
func runsVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	limit := f.Int("limit", 20, "how many runs at most")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if *limit < 1 {
		return usagef("--limit must be at least 1, not %d", *limit)
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // only read
	list, err := st.store.Runs(ctx, *limit, "")
	if err != nil {
		return err
	}
	infos := make([]runInfo, 0, len(list))
	describe := st.describer(ctx)
	for _, r := range list {
		info, err := describe(r)
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	if a.json {
		a.result.set("runs", infos)
		return nil
	}
	if len(infos) == 0 {
		a.say("no runs yet in %s", st.dir)
		if simulated := filepath.Join(st.dir, "sim"); !a.sim.on && isFolder(simulated) {
			a.say("those on simulated accounts: %s", a.nextCommand("runs", "--sim"))
		}
		return nil
	}
	t := newTable("run", "job", "state", "started", "took", "items", "done", "failed", "in doubt", "left")
	for _, r := range infos {
		c := r.Counts
		state := r.State
		if r.UndoneBy != nil {
			state += ", undone by " + *r.UndoneBy
		}
		t.add(r.Run, r.Job, state, clock(r.Started), took(r.duration(a.now())), num(c.Items),
			num(c.Done+c.Unchanged+c.Skipped), num(c.Failed), num(c.InDoubt), num(c.Pending))
	}
	t.write(a.stdout)
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// countLine tells the counts of a run in one line, leaving out what is zero.
func countLine(c counts) string {
	line := count(c.Items, "item")
	for _, part := range []struct {
		n         int64
		one, many string
	}{
		{c.Done, "done", "done"},
		{c.Unchanged, "unchanged", "unchanged"},
		{c.Skipped, "skipped", "skipped"},
		{c.Failed, "failed", "failed"},
		{c.InDoubt, "in doubt", "in doubt"},
		{c.Pending, "left", "left"},
		{c.Unanswered, "sent without an answer", "sent without an answer"},
		{c.Reused, "reused", "reused"},
		{c.Reads, "read", "reads"},
		{c.Writes, "write", "writes"},
		{c.Found, "found after a lost answer", "found after a lost answer"},
		{c.Throttled429, "answer 429", "answers 429"},
	} {
		if part.n > 0 {
			line += ", " + count(part.n, part.one, part.many)
		}
	}
	return line
}
