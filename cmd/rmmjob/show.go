package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// failureInfo is one item that failed or is in doubt.
type failureInfo struct {
	Item     string `json:"item"`
	Op       string `json:"operation"`
	State    string `json:"state"`
	Class    string `json:"class"`
	HTTP     int    `json:"http"`
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason"`

	Target *target `json:"target"` // of an update; null otherwise
}

// eventInfo is one line of a run's history.
type eventInfo struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

// showVerb shows one run whole.
func showVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	all := f.Bool("all", false, "all failures and events, not only the first 20")
	plan := f.Bool("plan", false, "show the plan of an update")
	values := f.Bool("show-values", false, "with --plan: show field values, which may be secrets")
	paths := f.planPaths()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if !*plan && (*values || len(*paths) > 0) {
		return usagef("--show-values and --output are about the plan: add --plan")
	}
	planFiles, err := a.checkPlanPaths(*paths)
	if err != nil {
		return err
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // only read
	r, err := st.store.FindRun(ctx, rest[0])
	if err != nil {
		return err
	}
	if *plan {
		if err := a.mayWritePlan(r, planFiles); err != nil {
			return err
		}
		return a.showPlan(ctx, st, r, planFiles, *values, *all)
	}
	info, err := st.describeRun(ctx, r)
	if err != nil {
		return err
	}
	most := 20
	if *all {
		most = 0 // no limit
	}
	items, err := st.store.Failures(ctx, r.ID, most)
	if err != nil {
		return err
	}
	rows, err := st.store.RowCounts(ctx, r.ID)
	if err != nil {
		return err
	}
	delete(rows, string(jobs.ClassHeading)) // of the input; no row of it
	events, err := st.store.Events(ctx, r.ID, most)
	if err != nil {
		return err
	}
	targets, err := st.targetsOf(ctx, r.ID, items)
	if err != nil {
		return err
	}
	var groups *failureGroups
	if r.Kind != kindExport && len(items) > 0 {
		if groups, err = st.failuresOf(ctx, r.ID); err != nil {
			return err
		}
	}
	files := st.runFiles(r)
	var missing output.Missing
	if r.Kind == kindExport {
		if missing, err = st.missing(ctx, r.ID, most); err != nil {
			return err
		}
	}

	a.result.Run, a.result.Job, a.result.State, a.result.Counts = info.Run, info.Job, info.State, info.Counts
	if a.result.Next, err = a.goingOn(ctx, st, info); err != nil {
		return err
	}
	if a.json {
		a.result.set("details", info)
		a.result.set("rows", rows)
		a.result.set("failures", failureInfos(items, targets))
		if groups != nil {
			a.result.set("failure_groups", groups.sorted())
		}
		a.result.set("events", eventInfos(events))
		if r.Kind == kindExport {
			a.result.set("missing", missing)
		}
		a.result.set("run_files", files)
		return nil
	}
	a.printRun(info, rows)
	if len(items) > 0 {
		if groups != nil {
			fmt.Fprintln(a.stdout)
			groups.print(a.stdout)
		}
		fmt.Fprintf(a.stdout, "\nfailures (%d of %d):\n", len(items), info.Counts.Failed+info.Counts.InDoubt)
		a.printFailures(items, targets)
	}
	if missing.Count > 0 {
		fmt.Fprintf(a.stdout, "\nnot there (%d of %d):\n", len(missing.First), missing.Count)
		t := newTable()
		for _, m := range missing.First {
			t.add(m.What, m.Of, m.Reason)
		}
		t.writeIndented(a.stdout, "  ")
	}
	if len(events) > 0 {
		fmt.Fprint(a.stdout, "\nevents:\n")
		t := newTable()
		for _, e := range events {
			t.add(clock(&e.At), e.Kind, e.Text)
		}
		t.writeIndented(a.stdout, "  ")
	}
	if len(files) > 0 {
		fmt.Fprint(a.stdout, "\nfiles:\n")
		for _, path := range files {
			fmt.Fprintf(a.stdout, "  %s\n", clean(path))
		}
	}
	return nil
}

// showPlan shows the plan of a run, whatever has become of it since.
func (a *app) showPlan(ctx context.Context, st *state, r checkpoint.Run, paths []string, values, all bool) error {
	v, err := st.viewPlan(ctx, r, values)
	if err != nil {
		return err
	}
	a.result.Run, a.result.Job, a.result.State, a.result.Counts = r.ID, r.JobName, string(r.State), v.Counts
	if a.result.Files, err = v.save(paths); err != nil {
		return err
	}
	if a.json {
		var b bytes.Buffer
		if _, err := v.writeJSON(&b); err != nil {
			return err
		}
		a.result.set("plan", json.RawMessage(b.Bytes()))
		return v.err
	}
	most := planLines
	if all || a.verbose > 0 {
		most = 0
	}
	if err := v.print(a.stdout, most); err != nil {
		return err
	}
	for _, f := range a.result.Files {
		fmt.Fprintf(a.stdout, "plan written to %s\n", clean(f.Path))
	}
	return nil
}

// printRun prints the head of a run.
func (a *app) printRun(r runInfo, rows map[string]int) {
	t := newTable()
	t.add("run", r.Run)
	t.add("job", r.Job)
	t.add("file", r.JobPath)
	t.add("account", r.Account)
	t.add("kind", r.Kind)
	if r.UndoOf != nil {
		t.add("undo of", *r.UndoOf)
	}
	if r.UndoneBy != nil {
		t.add("undone by", *r.UndoneBy)
	}
	t.add("state", r.stateText())
	t.add("stage", r.Stage)
	t.add("started", clock(r.Started))
	t.add("finished", clock(r.Finished))
	t.add("took", took(r.duration(a.now())))
	if r.Resumes > 0 {
		t.add("resumed", count(r.Resumes, "time"))
	}
	t.add("counts", countLine(r.Counts))
	if len(rows) > 0 {
		line := ""
		for _, class := range slices.Sorted(maps.Keys(rows)) {
			line += fmt.Sprintf(", %d %s", rows[class], class)
		}
		t.add("rows", line[2:])
	}
	if r.Error != nil {
		t.add("error", *r.Error)
	}
	t.write(a.stdout)
}

// runFiles lists the files of a run that are there: its own folder, and what
// a finished export has published. A later run may have replaced these.
func (s *state) runFiles(r checkpoint.Run) []string {
	files := []string{}
	var about runSettings
	if r.State == checkpoint.RunOK && json.Unmarshal(r.Settings, &about) == nil {
		for _, path := range append(about.Targets, about.Changes) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				files = append(files, path)
			}
		}
	}
	entries, err := os.ReadDir(s.runDir(r.ID))
	if err != nil {
		return files // no folder, no files
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			files = append(files, filepath.Join(s.runDir(r.ID), e.Name()))
		}
	}
	return files
}

// printFailures lists items that failed or are in doubt: those of a plan by what they
// are about, others by their keys.
func (a *app) printFailures(items []checkpoint.Item, targets map[string]target) {
	t := newTable()
	for _, it := range items {
		if of, ok := targets[it.Key]; ok {
			t.add(of.Name, of.Site, string(it.State), it.Class, it.Reason, of.UID)
		} else {
			t.add(it.Key, "", string(it.State), it.Class, it.Reason)
		}
	}
	t.writeIndented(a.stdout, "  ")
}

func failureInfos(items []checkpoint.Item, targets map[string]target) []failureInfo {
	out := make([]failureInfo, len(items))
	for i, it := range items {
		out[i] = failureInfo{it.Key, it.Op, string(it.State), it.Class, it.HTTP, it.Attempts, it.Reason, nil}
		if of, ok := targets[it.Key]; ok {
			out[i].Target = &of
		}
	}
	return out
}

func eventInfos(events []checkpoint.Event) []eventInfo {
	out := make([]eventInfo, len(events))
	for i, e := range events {
		out[i] = eventInfo{e.At.UTC(), e.Kind, e.Text}
	}
	return out
}
