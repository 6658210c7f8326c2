package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// validation is what validate found out about one job file.
type validation struct {
	Path    string   `json:"path"`
	Job     string   `json:"job"`
	Kind    string   `json:"kind"`
	OK      bool     `json:"ok"`
	Summary string   `json:"summary"`
	Notes   []string `json:"notes"`
	Errors  []string `json:"errors"`
}

// validateVerb checks job files and their input and sends nothing: what it
// accepts can only fail on the account.
func validateVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	rest, err := f.parse(args, 1, -1)
	if err != nil {
		return err
	}
	list := make([]validation, 0, len(rest))
	var faults []error
	for _, path := range rest {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v, err := a.validate(path)
		if err != nil {
			v.Errors = messages(err)
			faults = append(faults, err)
		}
		v.OK = err == nil
		list = append(list, v)
	}
	if len(list) == 1 {
		a.result.Job = list[0].Job
	}
	if a.json {
		a.result.set("jobs", list)
	} else {
		for _, v := range list {
			if v.OK {
				fmt.Fprintf(a.stdout, "ok %s: %s\n", clean(v.Path), clean(v.Summary))
			}
			for _, note := range v.Notes {
				fmt.Fprintf(a.stdout, "   note: %s\n", clean(note))
			}
		}
	}
	return allFaults(faults)
}

// allFaults puts the faults of several files into one usage error.
func allFaults(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	var all jobs.Errors
	for _, err := range errs {
		var list jobs.Errors
		if errors.As(err, &list) {
			all = append(all, list...)
		} else {
			all = append(all, &jobs.Error{Message: err.Error(), Err: err})
		}
	}
	return all
}

// validate checks one job file.
func (a *app) validate(path string) (validation, error) {
	v := validation{Path: absolute(path), Notes: []string{}, Errors: []string{}}
	job, err := jobs.Load(path)
	if err != nil {
		return v, err
	}
	v.Job = job.Name
	for _, w := range job.Warnings {
		v.Notes = append(v.Notes, w.Error())
	}
	a.settings.job = nil // each file for itself
	if err := a.settings.setJob(job.Path, jobSettings(job)); err != nil {
		return v, err
	}
	if _, err := a.throttleConfig(job); err != nil {
		return v, err
	}
	if names := a.settings.accountNames(); job.Account != "" && len(names) > 0 {
		if _, ok := a.settings.findAccount(job.Account); !ok {
			v.Notes = append(v.Notes, fmt.Sprintf("account %s is in no config file here", job.Account))
		}
	}
	if job.Export != nil {
		v.Kind = "export"
		v.Summary, err = a.validateExport(job)
		return v, err
	}
	v.Kind = "update"
	if err := a.claimable(job, resultClaims(job)); err != nil {
		return v, err
	}
	table, err := jobs.OpenInput(job)
	if err != nil {
		return v, err
	}
	v.Summary = describeUpdate(job, table)
	if warning := job.Update.Warning(); warning != "" {
		v.Notes = append(v.Notes, warning)
	}
	if why := job.Update.Confirmation(); why != "" && !job.Confirm {
		v.Notes = append(v.Notes, "run needs --yes: "+why)
	}
	if len(table.Ignored) > 0 {
		v.Notes = append(v.Notes, "columns not used: "+strings.Join(table.Ignored, ", "))
	}
	if table.Blank > 0 {
		v.Notes = append(v.Notes, count(table.Blank, "blank row is", "blank rows are")+" skipped")
	}
	return v, nil
}

// validateExport checks the outputs of an export.
func (a *app) validateExport(job *jobs.Job) (string, error) {
	now := a.now()
	where, err := expand(job, now, output.Vars{Job: job.Name, Account: a.settings.text("account"), Run: newRunID(now, job.Name)})
	if err == nil {
		err = a.claimable(job, claims(job, where, false))
	}
	if err != nil {
		return "", err
	}
	var targets []string
	for i, to := range job.Export.To {
		name := where.outputs[i]
		if name == "-" {
			name = "standard output"
		}
		targets = append(targets, fmt.Sprintf("%s (%s)", name, to.Format))
	}
	if c := job.Export.Changes; c != nil {
		targets = append(targets, fmt.Sprintf("%s (changes, %s)", where.changes, c.Target.Format))
	}
	return fmt.Sprintf("would export %s in %s to %s", job.Export.From.Name, count(len(job.Export.Columns), "column"), strings.Join(targets, ", ")), nil
}

// describeUpdate says in one line what an update would do.
func describeUpdate(job *jobs.Job, table *jobs.Table) string {
	u := job.Update
	var match, set []string
	for _, m := range u.Match {
		match = append(match, m.Field)
	}
	for _, s := range u.Set {
		set = append(set, s.Field)
	}
	line := fmt.Sprintf("would send %s for %s of %s (%s, %s)", u.Operation.Name, count(table.Rows, "row"), u.Rows.File(), table.Encoding, table.Delimiter)
	switch from := u.Rows.From; {
	case from == nil && u.Rows.File() == "":
		line = fmt.Sprintf("would send one %s", u.Operation.Name)
	case from != nil:
		line = fmt.Sprintf("would send %s for what is selected from %s", u.Operation.Name, from.From.Name)
	}
	if len(match) > 0 {
		line += ", matched by " + strings.Join(match, ", ")
	}
	if len(set) > 0 {
		line += ", setting " + strings.Join(set, ", ")
	}
	return line
}
