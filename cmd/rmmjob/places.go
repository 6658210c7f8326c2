package main

import (
	"cmp"
	"fmt"
	"time"

	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// places are the files that a run writes, their paths expanded.
type places struct {
	outputs  []string // in the order of the job
	manifest string   // one for all of them; "" for none
	changes  string   // "" for none
}

// expand gives the files of a run that starts at a moment. Where an incremental
// run begins is that of a first one unless vars say so.
func expand(job *jobs.Job, at time.Time, vars output.Vars) (p places, err error) {
	if job.Export.Since != nil && vars.Since == "" {
		w, _ := job.Export.Since.Window(at, jobs.Bookmark{})
		vars.Since = output.SinceName(w.From)
	}
	expand := func(path string, pos jobs.Pos) string {
		if path == "" || path == "-" || err != nil {
			return path
		}
		expanded, fault := output.Expand(path, at, vars)
		if fault != nil {
			err = jobs.Errors{{Pos: pos, Message: fault.Error()}}
		}
		return expanded
	}
	for _, to := range job.Export.To {
		p.outputs = append(p.outputs, expand(to.Path, to.Pos))
	}
	p.manifest = expand(job.Export.Manifest.Path, job.Export.Manifest.Pos)
	if c := job.Export.Changes; c != nil {
		p.changes = expand(c.Target.Path, c.Target.Pos)
	}
	return p, err
}

// claim is a file that a run may write.
type claim struct {
	path string
	pos  jobs.Pos
	what string

	database bool   // it is a table of a SQLite database
	hint     string // what to do where it must not be written; "" for the usual
}

// anOutput is what most claims are.
const anOutput = "an output"

// claims lists the files that a run may write: outputs, manifests and the change
// file, and if partial those of an incomplete run too.
func claims(job *jobs.Job, p places, partial bool) []claim {
	paths, manifest := p.outputs, p.manifest
	var list []claim
	m := job.Export.Manifest
	add := func(what string, beside bool, name func(string) string) {
		for i, to := range job.Export.To {
			if paths[i] == "-" {
				continue
			}
			path := name(paths[i])
			list = append(list, claim{path: path, pos: to.Pos, what: what, database: to.Format == output.FileSQLite})
			if beside {
				list = append(list, claim{path: output.ManifestPath(path), pos: to.Pos, what: "the manifest of " + what})
			}
		}
		if manifest != "" {
			list = append(list, claim{path: name(manifest), pos: m.Pos, what: "the manifest of " + what})
		}
	}
	add(anOutput, m.Beside, func(path string) string { return path })
	if p.changes != "" {
		list = append(list, claim{path: p.changes, pos: job.Export.Changes.Pos, what: "the change file"})
	}
	if partial {
		add("an incomplete output", m.Beside || manifest == "", output.PartialPath)
	}
	return list
}

// claimable refuses files of a run that would be one, and those in the place of
// what must not be lost.
func (a *app) claimable(job *jobs.Job, list []claim) error {
	if err := clash(list); err != nil {
		return err
	}
	for _, c := range list {
		if what := a.lost(c.path, job); what != "" {
			return jobs.Errors{{Pos: c.pos, Message: fmt.Sprintf("%s would be %s: %s", c.what, what, c.path), Hint: cmp.Or(c.hint, "name another file")}}
		}
	}
	return nil
}

// clash finds two files of a run that would be one.
func clash(list []claim) error {
	for i, c := range list {
		for _, earlier := range list[:i] {
			if c.path != earlier.path && !output.SameFile(c.path, earlier.path) {
				continue
			}
			place := fmt.Sprintf("line %d", earlier.pos.Line)
			switch {
			case earlier.pos == c.pos:
				place = "the same entry"
			case earlier.pos.Line == c.pos.Line:
				place = fmt.Sprintf("column %d of this line", earlier.pos.Column)
			}
			message := "a second output with the path of " + place
			if c.what != anOutput || earlier.what != anOutput {
				message = fmt.Sprintf("%s and %s (%s) would have one path: %s", c.what, earlier.what, place, c.path)
			}
			return jobs.Errors{{Pos: c.pos, Message: message}}
		}
	}
	return nil
}

// free makes sure that files can be written, before the first request, and
// removes what dead runs have left beside them.
func (a *app) free(list []claim, dead func(run string) bool) error {
	for _, c := range list {
		err := output.Check(c.path)
		if err == nil && c.database {
			err = output.CheckDatabase(c.path)
		}
		if err != nil {
			return fail(exitLocalIO, "%s: %w", c.pos, err)
		}
		removed, err := output.Sweep(c.path, dead)
		if err != nil {
			return fail(exitLocalIO, "%w", err)
		}
		for _, temp := range removed {
			a.debug("removed %s, which a dead run had left", temp)
		}
	}
	return nil
}
