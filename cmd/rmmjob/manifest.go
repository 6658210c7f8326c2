package main

import (
	"context"
	"errors"

	"rmmjob/internal/output"
	"rmmjob/jobs"
)

// missing is what the service did not have for an export. At most limit of it is
// named, all if that is 0.
func (s *state) missing(ctx context.Context, run string, limit int) (output.Missing, error) {
	items, all, err := s.store.Absent(ctx, run, limit)
	m := output.Missing{Count: all, First: []output.MissingPart{}}
	for _, it := range items {
		what, of := jobs.Subject(it.Key)
		m.First = append(m.First, output.MissingPart{Of: of, What: what, Reason: it.Reason})
	}
	return m, err
}

// manifests tells in manifests what the files hold, after them: beside each file
// or in one place for all, as the job says. Incomplete files always get theirs.
func (p *projection) manifests(ctx context.Context, made []output.Made) error {
	gaps := p.gaps
	if note := p.leftOut(); note != "" {
		gaps = append(gaps[:len(gaps):len(gaps)], note)
	}
	missing, err := p.st.missing(ctx, p.rec.ID, maxGaps)
	if err != nil {
		return err
	}
	m := output.Manifest{
		Missing: missing, Notes: p.notes(),
		Job: p.job.Name, Account: p.rec.Account, Run: p.rec.ID, Version: buildVersion().Version,
		Started: p.rec.Created, Finished: p.now(), Complete: gaps == nil, Gaps: gaps,
	}
	publish := func(place string, files ...output.ManifestFile) error {
		m.Files = files
		_, err := m.Publish(place)
		return err
	}
	beside := p.job.Export.Manifest.Beside || p.gaps != nil && p.manifest == ""
	var all []output.ManifestFile
	var problems []error
	for i, to := range p.job.Export.To {
		if p.paths[i] == "-" {
			continue // nobody could find it again
		}
		f := output.ManifestFile{
			Path: made[i].Path, Format: to.Format, Rows: made[i].Rows, Size: made[i].Size, SHA256: made[i].SHA256,
			Warnings: made[i].Warnings, Columns: output.ManifestColumns(p.job.Export.Columns, output.StyleFor(to.Format, to.Style)),
		}
		all = append(all, f)
		p.result.Files[i].Manifest = p.manifest
		if beside {
			place := output.ManifestPath(p.paths[i])
			p.result.Files[i].Manifest = place
			problems = append(problems, publish(place, f))
		}
	}
	if p.manifest != "" && len(all) > 0 {
		problems = append(problems, publish(p.manifest, all...))
	}
	if err := errors.Join(problems...); err != nil {
		return fail(exitLocalIO, "%w", err)
	}
	return nil
}
