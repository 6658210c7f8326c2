package main

import "context"

// stopVerb stops a working run like its first Ctrl-C: what is in flight is finished,
// and the run can be resumed.
func stopVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // what was written is on the disk
	r, err := st.atWork(ctx, rest[0])
	if err != nil {
		return err
	}
	if err := st.ask(ctx, r, controlStop, controlArgument{}); err != nil {
		return err
	}
	a.asked(r, "stopping", "stopping: it finishes what is in flight, and ends with exit 8")
	a.result.Next = a.nextCommand("resume", r.ID)
	return nil
}
