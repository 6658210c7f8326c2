package main

import (
	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// lost says what would be lost if something were written to a path: a file that
// rmmjob reads, for one of the jobs or for all, or what it keeps for itself. An input
// that is not there any more cannot be lost.
func (a *app) lost(path string, of ...*jobs.Job) string {
	type read struct{ path, what string }
	user, machine, _ := a.configPaths()
	files := []read{{user, "the configuration"}, {machine, "the configuration"}}
	for _, job := range of {
		files = append(files, read{job.Path, "the job file"})
		if job.Update == nil {
			continue
		}
		if in := job.Update.Rows.File(); in != "" && isThere(in) {
			files = append(files, read{in, "the input of the job"})
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
func (a *app) mayWrite(flag, path string, of ...*jobs.Job) error {
	if what := a.lost(path, of...); what != "" {
		return usagef("%s %s is %s: name another file", flag, path, what)
	}
	return nil
}

// jobsOf are the job of a run as it was when the run began, and as its file has it now,
// as far as they can be read.
func jobsOf(rec checkpoint.Run) []*jobs.Job {
	list := []*jobs.Job{{Path: rec.JobPath}}
	if about, err := settingsOfRun(rec); err == nil {
		if job, err := storedJob(rec, about); err == nil {
			list = append(list, job)
		}
	}
	if job, err := jobs.Load(rec.JobPath); err == nil {
		list = append(list, job)
	}
	return list
}
