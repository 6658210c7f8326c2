package main

import (
	"path/filepath"
	"slices"

	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// lost says what would be lost if something were written to a path: a file that
// rmmjob reads, or what it keeps for itself. job may be nil.
func (a *app) lost(path string, job *jobs.Job) string {
	type read struct{ path, what string }
	user, machine, _ := a.configPaths()
	files := []read{{user, "the configuration"}, {machine, "the configuration"}}
	if job != nil {
		files = append(files, read{job.Path, "the job file"})
		if job.Update != nil {
			files = append(files, read{job.Update.Rows.File(), "the input of the job"})
		}
	}
	for _, f := range files {
		if f.path != "" && output.SameFile(f.path, path) {
			return f.what
		}
	}
	if dir, err := a.stateRoot(); err == nil && output.Within(dir, path) {
		return "in the state folder of rmmjob, " + dir
	}
	return ""
}

// mayWrite refuses a path that a flag names for something that must not be lost.
func (a *app) mayWrite(flag, path string, job *jobs.Job) error {
	if what := a.lost(path, job); what != "" {
		return usagef("%s %s is %s: name another file", flag, path, what)
	}
	return nil
}

// mayResult refuses a folder of results where the files of a run would be written over
// something that must not be lost.
func (a *app) mayResult(job *jobs.Job) error {
	if job.Update == nil || job.Results == "" {
		return nil
	}
	names := resultNames
	if job.Update.Call != nil {
		names = append(slices.Clone(names), answersName)
	}
	for _, name := range names {
		path := filepath.Join(job.Results, name)
		if what := a.lost(path, job); what != "" {
			return usagef("results: %s is %s, and the results of the run would be written over it", path, what).
				withHint("give the input another name, or the results another folder")
		}
	}
	return nil
}
