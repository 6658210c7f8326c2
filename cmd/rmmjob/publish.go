package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// sortBudget is the memory that sorting the rows of an export may take; what is
// more goes through a temporary file in the folder of the run.
const sortBudget = 8 << 20

// projection makes the files of an export from the stored answers of its run.
type projection struct {
	*app
	st       *state
	rec      checkpoint.Run
	job      *jobs.Job
	paths    []string    // of the outputs, expanded
	manifest string      // of the one manifest for all of them, expanded; "" for none
	gaps     []string    // what is missing; nil if the run is complete
	temp     string      // what the names of temporary files have as the run
	cut      int64       // rows that the limit of the job has left out
	rowless  int64       // elements whose exploded list is empty
	feed     *changeFeed // what has changed since the last published run; nil if nobody wants to know
}

// project makes the projection of this run.
func (s *session) project() *projection {
	return &projection{
		app: s.app, st: s.st, rec: s.rec, job: s.job, paths: s.about.Targets, manifest: s.about.Manifest, temp: s.rec.ID,
	}
}

// publish makes all files whole under temporary names before the first gets its
// own, and adds them to the result. Their manifests come last.
func (p *projection) publish(ctx context.Context) error {
	dir, err := p.st.runFolder(p.rec.ID)
	if err != nil {
		return err
	}
	set, err := output.NewSet(p.temp, dir, sortBudget, p.outputs())
	if err != nil {
		return err
	}
	defer func() { _ = set.Close() }() // what is left behind is swept by the next run
	if err := p.collect(ctx, set); err != nil {
		return err
	}
	if n, least := set.Rows(), int64(p.job.Export.Rows.Min); n < least && p.gaps == nil {
		return &jobs.GuardError{Guard: "rows.min", Message: fmt.Sprintf(
			"the export has %s, and rows.min wants %d: nothing was published, the last files are untouched", count(n, "row"), least)}
	}
	limit := int64(p.job.Export.Rows.Limit)
	if err := set.Write(limit); err != nil {
		return writeFault(err)
	}
	if limit > 0 {
		p.cut = max(0, set.Rows()-limit)
	}
	if p.feed != nil {
		if err := p.feed.write(ctx, dir); err != nil {
			return fail(exitLocalIO, "%w", err)
		}
	}
	if err := p.heard(); err != nil {
		return err
	}
	made, err := set.Publish(p.now())
	for i, m := range made {
		p.result.Files = append(p.result.Files, p.describe(i, m))
	}
	if err != nil {
		return fail(exitLocalIO, "%w", err)
	}
	if p.feed != nil {
		changes, err := p.feed.publish()
		p.result.Files = append(p.result.Files, changes)
		if err != nil {
			return err
		}
	}
	return p.manifests(ctx, made)
}

// heard is the error of standard output that did not take what went there, as on
// a full disk: then the files, which belong together with it, get no names. A
// reader that has gone away has what it wanted.
func (p *projection) heard() error {
	err := p.stdout.lost()
	if p.stdout.closed() {
		err = os.ErrClosed
	}
	if err == nil || !slices.Contains(p.paths, "-") {
		return nil
	}
	return fail(exitLocalIO, "write standard output: %w", err).withHint("what goes there belongs together with the files: nothing was published")
}

// writeFault is the fault of files that could not be made.
func writeFault(err error) error {
	if _, ok := errors.AsType[*output.KeyError](err); ok {
		return fail(exitGuard, "%w", err).
			withHint("nothing was published; name a key that tells the rows apart, such as key: [uid, software.name]")
	}
	return fail(exitLocalIO, "%w", err)
}

// leftOut says what the limit of the job has left out; "" for nothing.
func (p *projection) leftOut() string {
	if p.cut == 0 {
		return ""
	}
	limit := p.job.Export.Rows.Limit
	return fmt.Sprintf("the limit of rows leaves out %d of %d rows", p.cut, p.cut+int64(limit))
}

// notes are what a person should know of the rows.
func (p *projection) notes() []string {
	if p.rowless == 0 {
		return nil
	}
	path := p.job.Export.Explode.Path
	return []string{fmt.Sprintf("%d of %s have no row, because their %s is empty or not there (explode: {path: %s, keep_empty: true} gives them one)",
		p.rowless, p.job.Export.From.Name, path, path)}
}

// outputs are the files to be made.
func (p *projection) outputs() []output.Output {
	var list []output.Output
	for i, to := range p.job.Export.To {
		o := output.Output{Path: p.paths[i], Format: to.Format, InPlace: to.InPlace && p.gaps == nil, Spec: p.job.Export.OutputSpec(to)}
		if o.Path == "-" {
			o.To = p.stdout
		}
		list = append(list, o)
	}
	return list
}

// describe is an output in the result.
func (p *projection) describe(i int, m output.Made) file {
	for _, warning := range m.Warnings {
		p.warn("%s: %s", p.paths[i], warning)
	}
	f := file{Path: m.Path, Rows: m.Rows, SHA256: m.SHA256, Limited: p.cut, Format: p.job.Export.To[i].Format, Warnings: m.Warnings}
	f.Partial = p.gaps != nil
	if p.paths[i] == "-" {
		f.Path = "-"
	}
	return f
}

// collect gives the rows of the run to the set.
func (p *projection) collect(ctx context.Context, set *output.Set) error {
	export := p.job.Export
	var about runSettings
	if err := json.Unmarshal(p.rec.Settings, &about); err != nil {
		return fmt.Errorf("settings of run %s: %w", p.rec.ID, err)
	}
	work := jobs.NewExportWork(p.job, jobs.Settings{Now: p.rec.Created, Window: about.Memory.Window, Seen: about.Memory.Seen})
	order, unknowns, rows, rowless := export.Order(), output.NewUnknowns(export.Element), work.Rows(), work.Rowless()
	for rec, err := range work.Records(ctx, runner.AnswersOf(p.st.store, p.rec.ID)) {
		if err != nil {
			return err
		}
		used := false
		for row, err := range rows(rec) {
			if err != nil {
				return err
			}
			used = true
			if err := set.Add(output.SortKey(row, order), row); err != nil {
				return fail(exitLocalIO, "%w", err)
			}
			if p.feed != nil {
				if err := p.feed.add(row); err != nil {
					return fail(exitLocalIO, "%w", err)
				}
			}
		}
		if used {
			unknowns.Observe(rec)
		} else if rowless != nil {
			without, err := rowless(rec)
			if err != nil {
				return err
			}
			if without {
				p.rowless++
			}
		}
	}
	if len(unknowns.List()) > 0 {
		p.warn("%s", unknowns)
	}
	return nil
}

// standardOutput refuses an output that cannot go to standard output, and with
// partial any, because nothing there could tell that it is incomplete.
func (a *app) standardOutput(job *jobs.Job, partial bool) error {
	for _, to := range job.Export.To {
		if to.Path != "-" {
			continue
		}
		format, _ := output.FileFormatNamed(to.Format)
		switch {
		case partial:
			return usagef("%s: the output goes to standard output, where an incomplete export could not be told from a complete one", to.Pos).
				withHint("name a file, or leave --allow-partial out")
		case a.json:
			return usagef("%s: the output goes to standard output, which --json needs", to.Pos)
		case format.Binary && a.stdoutTerminal:
			return usagef("%s: %s is nothing to look at: standard output is a terminal", to.Pos, format.Name).
				withHint("name a file, or send it to a program: rmmjob ... | program")
		}
	}
	return nil
}
