package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// maxGaps bounds how many failures are named one by one.
const maxGaps = 100

// allowPartial adds the flag that publishes what an incomplete export has.
func (f *flags) allowPartial() *bool {
	return f.Bool("allow-partial", false, "publish an incomplete export too, as NAME.partial.csv with a manifest that says what is missing; the exit stays 12")
}

// publish publishes the files of an export whose requests are done, or those of
// an incomplete one if that is allowed. It gives the state that the run ends in,
// which is partial where a limit of the job has left rows out.
func (s *session) publish(ctx context.Context, sum *runner.Summary) (checkpoint.RunState, error) {
	p, state, cause := s.project(), sum.State, sum.Err
	if _, fault := errors.AsType[jobs.Errors](cause); fault {
		return state, cause // of the job: what was read is not what was meant
	}
	if state == checkpoint.RunPartial && cause == nil {
		// The export is proved complete all the same: what failed belongs to a walk
		// over a list that another one has replaced.
		state = checkpoint.RunOK
	}
	switch {
	case state == checkpoint.RunOK:
		var err error
		if p.feed, err = s.newChangeFeed(ctx); err != nil {
			return checkpoint.RunLocalIO, err
		}
		defer p.feed.close()
	case state == checkpoint.RunIncomplete && s.allowPartial:
		gaps, err := s.st.gapsOf(ctx, s.rec, cause.Error())
		if err != nil {
			return checkpoint.RunLocalIO, err
		}
		p = p.partial(gaps)
	default:
		return state, cause
	}
	if err := p.publish(ctx); err != nil {
		if code, _ := classify(err, s.stop); code == exitGuard {
			return checkpoint.RunGuard, err
		}
		return checkpoint.RunLocalIO, err
	}
	if state == checkpoint.RunOK {
		p.dropPartial()
	}
	if state == checkpoint.RunOK && remembers(s.job) {
		if err := s.remember(ctx, p); err != nil {
			return checkpoint.RunLocalIO, err
		}
	}
	sum.Notes = append(sum.Notes, p.notes()...)
	if note := p.leftOut(); note != "" {
		sum.Notes = append(sum.Notes, note)
		if state == checkpoint.RunOK && !s.job.Export.Rows.OK {
			state = checkpoint.RunPartial
		}
	}
	return state, cause
}

// dropPartial removes what an earlier, incomplete run of the job has left under the
// names that say so, as far as its manifest tells that it is such a file. The complete
// ones are in place.
func (p *projection) dropPartial() {
	var gone []string
	for _, path := range p.paths {
		left := output.PartialPath(path)
		places := []string{output.ManifestPath(left)}
		if p.manifest != "" {
			places = append(places, output.PartialPath(p.manifest))
		}
		for _, place := range places {
			if left != path && output.LeftIncomplete(place, p.job.Name, left) {
				gone = append(gone, left, place)
			}
		}
	}
	slices.Sort(gone)
	for _, path := range slices.Compact(gone) {
		switch err := os.Remove(path); {
		case err == nil:
			p.debug("removed %s, whose complete file is there now", path)
		case !errors.Is(err, fs.ErrNotExist):
			p.warn("what an incomplete run has left cannot be removed: %v", err)
		}
	}
}

// resumeCommand continues the run as it was begun.
func (s *session) resumeCommand() string {
	args := []string{s.rec.ID}
	if s.allowPartial {
		args = append(args, "--allow-partial")
	}
	return s.nextCommand("resume", args...)
}

// partialHint is the way to what an incomplete export has read.
func (s *session) partialHint() string {
	for _, f := range s.result.Files {
		if f.Partial {
			return "what is missing is in " + f.Manifest + "; the last complete file is untouched"
		}
	}
	return "nothing was published; the last complete file is untouched\n" +
		"to have what came all the same: " + s.nextCommand("export", s.rec.ID, "--allow-partial", "--to", "FILE")
}

// gapsOf says what is missing in what a run has read, one line each and never
// none: why it cannot be proved complete, the requests that failed and those that
// were not sent.
func (s *state) gapsOf(ctx context.Context, rec checkpoint.Run, why string) ([]string, error) {
	if why == "" {
		why = "the run is " + stateWord(string(rec.State))
	}
	if rec.State == checkpoint.RunSuperseded {
		why = "the run was given up for another before it was complete: " + why
	}
	gaps := []string{why}
	c, err := s.store.Counts(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	if left := c.Pending + c.Running; left > 0 {
		gaps = append(gaps, count(int64(left), "request")+" not sent")
	}
	failures, err := s.store.Failures(ctx, rec.ID, maxGaps)
	if err != nil {
		return nil, err
	}
	for _, it := range failures {
		if !jobs.Told(why, it.Key, it.Reason) {
			gaps = append(gaps, jobs.RequestName(it.Key)+": "+it.Reason)
		}
	}
	if more := c.Failed + c.InDoubt - len(failures); more > 0 {
		gaps = append(gaps, fmt.Sprintf("and %s more failed", count(int64(more), "request")))
	}
	return gaps, nil
}

// partial makes the names of the files those of incomplete ones.
func (p *projection) partial(gaps []string) *projection {
	paths := make([]string, len(p.paths))
	for i, path := range p.paths {
		paths[i] = output.PartialPath(path)
	}
	p.paths, p.gaps = paths, gaps
	if p.manifest != "" {
		p.manifest = output.PartialPath(p.manifest)
	}
	return p
}
