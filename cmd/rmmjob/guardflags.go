package main

import (
	"context"
	"maps"

	"rmmjob/jobs"
)

// guardFlags are the guards that the command line sets; they win over those of the
// job.
type guardFlags struct {
	limits []*guardFlag
}

// guardFlag is one of them.
type guardFlag struct {
	name  string
	text  string // as it was given
	limit jobs.Limit
	of    func(*jobs.Guard) *jobs.Limit
}

func (g *guardFlag) String() string { return g.limit.String() }
func (g *guardFlag) Type() string   { return "number|percent" }
func (g *guardFlag) Set(text string) (err error) {
	g.limit, err = jobs.ParseLimit(text)
	g.text = text
	return err
}

// guards adds the flags of the guards.
func (f *flags) guards() *guardFlags {
	g := &guardFlags{}
	add := func(name, help string, of func(*jobs.Guard) *jobs.Limit) { g.add(f, name, help, of) }
	add("max-changes", "stop before the first write if more targets would change, such as 200 or 10%", func(g *jobs.Guard) *jobs.Limit { return &g.MaxChanges })
	add("max-percent", "stop before the first write if more of the fleet would change, such as 20%", func(g *jobs.Guard) *jobs.Limit { return &g.MaxPercent })
	add("max-clears", "stop before the first write if more fields would be emptied", func(g *jobs.Guard) *jobs.Limit { return &g.MaxClears })
	add("max-not-found", "stop before the first write if more rows have no target", func(g *jobs.Guard) *jobs.Limit { return &g.MaxNotFound })
	add("max-rejected", "stop before the first write if more rows are held back", func(g *jobs.Guard) *jobs.Limit { return &g.MaxRejected })
	g.limits = append(g.limits, f.maxErrors().limits...)
	return g
}

// maxErrors adds the flag of the one guard that counts once the plan is made.
func (f *flags) maxErrors() *guardFlags {
	g := &guardFlags{}
	g.add(f, "max-errors", "stop when more writes have failed", func(g *jobs.Guard) *jobs.Limit { return &g.MaxErrors })
	return g
}

func (g *guardFlags) add(f *flags, name, help string, of func(*jobs.Guard) *jobs.Limit) {
	flag := &guardFlag{name: name, of: of}
	g.limits = append(g.limits, flag)
	f.Var(flag, name, help)
}

// texts are the guards that were given, by the names of their flags.
func (g *guardFlags) texts() map[string]string {
	if g == nil {
		return nil
	}
	var given map[string]string
	for _, flag := range g.limits {
		if flag.limit.Set {
			if given == nil {
				given = map[string]string{}
			}
			given[flag.name] = flag.text
		}
	}
	return given
}

// storedGuards are the guards that a run remembers of the command lines before.
func (a *app) storedGuards(given map[string]string) (*guardFlags, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // no guards
	}
	f := a.newFlags()
	g := f.guards()
	for name, text := range given {
		if err := f.Set(name, text); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// takeGuards applies the guards of the command lines that the run remembers, and over
// them those of this one.
func (s *session) takeGuards() error {
	before, err := s.storedGuards(s.about.Guards)
	if err != nil {
		return err
	}
	if err := before.apply(s.job); err != nil {
		return err
	}
	return s.guards.apply(s.job)
}

// keepGuards makes the run remember the guards of this command line.
func (s *session) keepGuards(ctx context.Context) error {
	given := s.guards.texts()
	if len(given) == 0 {
		return nil
	}
	if s.about.Guards == nil {
		s.about.Guards = map[string]string{}
	}
	maps.Copy(s.about.Guards, given)
	return s.keepSettings(ctx)
}

// apply puts the flags into the guard of a job.
func (g *guardFlags) apply(job *jobs.Job) error {
	if g == nil {
		return nil
	}
	for _, flag := range g.limits {
		switch {
		case !flag.limit.Set:
			continue
		case job.Update == nil:
			return usagef("--%s has no effect on an export, which changes nothing", flag.name)
		case flag.name == "max-percent" && !job.Update.OfFleet():
			return usagef("--%s has no effect on %s: there is no fleet that it is a share of", flag.name, job.Update.Operation.Name).
				withHint("use --max-changes")
		}
		*flag.of(&job.Guard) = flag.limit
		if flag.name == "max-percent" {
			job.Guard.MaxPercent.Percent = true
			if flag.limit.Value > 100 {
				return usagef("--max-percent is a percentage from 0 to 100, not %s", flag.limit)
			}
		}
	}
	return nil
}
