package main

import (
	"path/filepath"
	"slices"

	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// resultClaims lists the files that a run of an update writes into the folder that its
// job names for results. Rejected rows are not among them: an input of that name stays.
func resultClaims(job *jobs.Job) []claim {
	if job.Results == "" {
		return nil
	}
	names := slices.Clone(resultNames)
	if readsOnly(job) {
		names = append(names, answersName)
	}
	list := make([]claim, len(names))
	for i, name := range names {
		path, hint := filepath.Join(job.Results, name), "name another folder for results"
		if isThere(path) {
			hint = "move it or " + hint
		}
		list[i] = claim{path: path, pos: job.ResultsPos, what: "the result file " + name, hint: hint}
	}
	return list
}

// readsOnly tells whether the job is a call whose answers are all that it brings.
func readsOnly(job *jobs.Job) bool {
	return job.Update != nil && job.Update.Call != nil && job.Update.Call.Class == rmm.ClassRead
}

// resultFolders are the folders for what became of the rows: that of the run, and the one
// that the job names, unless something would be lost there by now.
func (s *session) resultFolders(own string) ([]string, error) {
	if s.job.Results == "" {
		return []string{own}, nil
	}
	if err := s.claimable(s.job, resultClaims(s.job)); err != nil {
		return []string{own}, fail(exitLocalIO, "what became of the rows is in %s only: %w", own, err)
	}
	return []string{own, s.job.Results}, nil
}
