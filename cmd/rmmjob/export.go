package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// exportVerb writes the stored answers of an export to other files, without a
// request.
func exportVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	var shape jobs.Shape
	f.StringArrayVar(&shape.To, "to", nil, "a file, - for standard output, or an output as in a job file: '{path: x.csv, bom: true}'; may be repeated")
	f.StringVar(&shape.Columns, "columns", "", "a,b,c, the name of a preset, or a list as in a job file (default those of the job)")
	f.StringVar(&shape.Format, "format", "", "format of the files whose ending tells none")
	manifest := f.Bool("manifest", false, "write a manifest beside each file")
	partial := f.allowPartial()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if len(shape.To) == 0 {
		return usagef("export needs --to FILE").withHint("usage: rmmjob export RUN --to FILE [--to FILE ...] [--columns a,b,c]")
	}
	if shape.Dir, err = os.Getwd(); err != nil {
		return fail(exitLocalIO, "find the current folder: %w", err)
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // only read
	rec, err := st.store.FindRun(ctx, rest[0])
	if err != nil {
		return err
	}
	a.result.Run, a.result.Job, a.result.State = rec.ID, rec.JobName, string(rec.State)
	p, err := a.reshape(ctx, st, rec, shape, *manifest, *partial)
	if err != nil {
		return err
	}
	if err := p.publish(ctx); err != nil {
		return err
	}
	for _, note := range p.notes() {
		p.say("note: %s", note)
	}
	if note := p.leftOut(); note != "" {
		p.say("note: %s", note)
		if !p.job.Export.Rows.OK {
			p.result.Code = exitPartial
		}
	}
	p.tell()
	if p.gaps != nil {
		return fail(exitIncomplete, "the files are incomplete: %s", p.gaps[0]).withHint("what is missing is in %s", p.result.Files[0].Manifest)
	}
	return nil
}

// reshape makes the projection of a run in another shape.
func (a *app) reshape(ctx context.Context, st *state, rec checkpoint.Run, shape jobs.Shape, manifest, partial bool) (*projection, error) {
	gaps, err := a.exportable(ctx, st, rec, partial)
	if err != nil {
		return nil, err
	}
	var about runSettings
	if err := json.Unmarshal(rec.Settings, &about); err != nil {
		return nil, fmt.Errorf("settings of run %s: %w", rec.ID, err)
	}
	if kept, err := st.hasAnswers(ctx, rec.ID); err != nil {
		return nil, err
	} else if !kept || about.Source == nil {
		return nil, usagef("the answers of run %s were removed: there is nothing to export", rec.ID).
			withHint("read them again: %s", a.nextCommand("run", rec.JobPath))
	}
	job, err := jobs.Parse(about.Source, rec.JobPath)
	if err != nil {
		return nil, fmt.Errorf("the job of run %s: %w", rec.ID, err)
	}
	if job, err = job.Reshape(shape); err != nil {
		return nil, err
	}
	job.Export.Manifest.Beside = manifest
	if err := a.standardOutput(job, partial); err != nil {
		return nil, err
	}
	p := &projection{app: a, st: st, rec: rec, job: job, temp: rec.ID + "-export"}
	where, err := expand(job, rec.Created, output.Vars{Job: rec.JobName, Account: rec.Account, Run: rec.ID, Since: about.Memory.since()})
	if err != nil {
		return nil, err
	}
	where.changes = "" // what has changed since is known only when the run is published
	p.paths = where.outputs
	list := claims(job, where, gaps != nil)
	if err := a.claimable(job, list); err != nil {
		return nil, err
	}
	if err := a.free(list, func(string) bool { return false }); err != nil {
		return nil, err
	}
	if gaps != nil {
		p = p.partial(gaps)
	}
	return p, nil
}

// exportable refuses a run whose answers make no files, and says what is missing
// in one that may be incomplete.
func (a *app) exportable(ctx context.Context, st *state, rec checkpoint.Run, partial bool) (gaps []string, err error) {
	switch {
	case rec.Kind != "export":
		return nil, usagef("run %s is an %s, which has no rows to export", rec.ID, rec.Kind).
			withHint("its result files: %s", a.nextCommand("show", rec.ID))
	case rec.State == checkpoint.RunOK, rec.State == checkpoint.RunPartial: // whose files a limit of rows has cut
		return nil, nil
	case partial:
		return st.gapsOf(ctx, rec, rec.Error)
	case unfinished(rec.State):
		return nil, usagef("run %s is not finished: it is %s", rec.ID, stateWord(string(rec.State))).
			withHint("go on with it: %s", a.nextCommand("resume", rec.ID)).
			withHint("or add --allow-partial to have what came so far")
	}
	return nil, fail(exitIncomplete, "run %s is %s: %s", rec.ID, stateWord(string(rec.State)), rec.Error).
		withHint("add --allow-partial to have what came")
}

// hasAnswers tells whether what a run was answered is still there: every read that
// is done has an answer.
func (s *state) hasAnswers(ctx context.Context, run string) (bool, error) {
	for res, err := range s.store.Results(ctx, run, "") {
		if err != nil {
			return false, err
		}
		if res.State == checkpoint.StateDone {
			return res.Body != nil, nil
		}
	}
	return true, nil // nothing was read
}

// tell names the files that were made.
func (p *projection) tell() {
	if p.json || p.quiet {
		return
	}
	w := io.Writer(p.stdout)
	for _, f := range p.result.Files {
		if f.Path == "-" {
			w = p.stderr // standard output is the data
		}
	}
	for _, f := range p.result.Files {
		fmt.Fprintln(w, f.line())
	}
}
