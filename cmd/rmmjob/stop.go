package main

import "context"

// stopVerb stops a working run like its first Ctrl-C: what is in flight is finished,
// and the run can be resumed.
func stopVerb(ctx context.Context, a *app, args []string) error {
	return a.steer(ctx, args, controlStop, "stopping", "stopping: it finishes what is in flight, and ends with exit 8")
}
