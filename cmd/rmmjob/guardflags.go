package main

import (
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
	limit jobs.Limit
	of    func(*jobs.Guard) *jobs.Limit
}

func (g *guardFlag) String() string { return g.limit.String() }
func (g *guardFlag) Type() string   { return "number|percent" }
func (g *guardFlag) Set(text string) (err error) {
	g.limit, err = jobs.ParseLimit(text)
	return err
}

// guards adds the flags of the guards.
func (f *flags) guards() *guardFlags {
	g := &guardFlags{}
	add := func(name, help string, of func(*jobs.Guard) *jobs.Limit) {
		flag := &guardFlag{name: name, of: of}
		g.limits = append(g.limits, flag)
		f.Var(flag, name, help)
	}
	add("max-changes", "stop before the first write if more targets would change, such as 200 or 10%", func(g *jobs.Guard) *jobs.Limit { return &g.MaxChanges })
	add("max-percent", "stop before the first write if more of the fleet would change, such as 20%", func(g *jobs.Guard) *jobs.Limit { return &g.MaxPercent })
	add("max-clears", "stop before the first write if more fields would be emptied", func(g *jobs.Guard) *jobs.Limit { return &g.MaxClears })
	add("max-not-found", "stop before the first write if more rows have no target", func(g *jobs.Guard) *jobs.Limit { return &g.MaxNotFound })
	add("max-rejected", "stop before the first write if more rows are held back", func(g *jobs.Guard) *jobs.Limit { return &g.MaxRejected })
	add("max-errors", "stop when more writes have failed", func(g *jobs.Guard) *jobs.Limit { return &g.MaxErrors })
	return g
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
