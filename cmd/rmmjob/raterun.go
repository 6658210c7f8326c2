package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/throttle"
)

// rateOfRun shows the throttle of a working run, or changes it.
func (a *app) rateOfRun(ctx context.Context, prefix string, watched, all bool) error {
	st, err := a.openState(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // what was written is on the disk
	r, err := st.atWork(ctx, prefix)
	if err != nil {
		return err
	}
	a.result.Run, a.result.Job, a.result.State = r.ID, r.JobName, string(r.State)
	arg, changes, err := a.rateChange()
	if err != nil {
		return err
	}
	since := a.now().Add(-3 * pollEvery)
	if changes {
		if since, err = st.ask(ctx, r, controlRate, arg); err != nil {
			return err
		}
	}
	var last *liveStatus
	draw := func(ctx context.Context, w io.Writer) (bool, error) {
		now, err := st.store.Run(ctx, r.ID)
		if err != nil {
			return false, err
		}
		r = now
		l, err := st.live(ctx, r)
		switch {
		case err != nil:
			return false, err
		case l == nil && st.working(r):
			fmt.Fprintf(w, "run %s has only begun\n", clean(r.ID))
			return false, nil
		case l != nil:
			last = l
			a.printRate(w, r, l, all)
		}
		if st.working(r) {
			return false, nil
		}
		fmt.Fprintf(w, "\nrun %s has ended: %s\n", clean(r.ID), r.State)
		return true, nil
	}
	if watched {
		err = a.watch(ctx, draw)
	} else {
		err = a.once(ctx, st, r, since, draw)
	}
	if err != nil {
		return err
	}
	a.result.State = string(r.State)
	if c, err := st.store.Counts(context.WithoutCancel(ctx), r.ID); err == nil {
		a.result.Counts = runCounts(r, c)
	}
	if last != nil && a.json {
		if last.PausedBy != nil && st.working(r) {
			a.result.State = statePaused
		}
		a.result.set("seconds_left", last.SecondsLeft)
		a.result.set("paused_by", last.PausedBy)
		a.result.set("live", last)
	}
	return nil
}

// once draws a view a single time. A run that has begun a moment ago, or was changed, is
// given the second that it needs to tell of it.
func (a *app) once(ctx context.Context, st *state, r checkpoint.Run, since time.Time, draw view) error {
	for until := a.now().Add(3 * pollEvery); a.now().Before(until); {
		l, err := st.live(ctx, r)
		if err != nil {
			return err
		}
		if l != nil && !l.At.Before(since) {
			break
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return fail(exitStopped, "stopped while waiting for the run")
		}
	}
	w := io.Writer(a.stdout)
	if a.json {
		w = io.Discard
	}
	_, err := draw(ctx, w)
	return err
}

// rateChange is what the flags ask to change.
func (a *app) rateChange() (arg controlArgument, changes bool, err error) {
	given := func(key string) (string, bool) {
		v, ok := a.settings.flags[key]
		return v.text, ok
	}
	if name, ok := given("throttle.profile"); ok {
		changes, arg.Profile = true, name
		if name == profileCustom {
			if _, err := a.profile(); err != nil { // also says that the values are not known to be safe
				return arg, false, err
			}
			arg.Base, arg.Values = a.settings.text("throttle.base"), map[string]float64{}
			for _, key := range throttle.SettingNames() {
				if a.settings.text("throttle."+key) != "" {
					arg.Values[key] = a.settings.decimal("throttle." + key)
				}
			}
		}
	}
	if text, ok := given("throttle.max"); ok {
		changes, arg.Max = true, text
	}
	if text, ok := given("throttle.reserve"); ok {
		changes, arg.Reserve = true, text
	}
	return arg, changes, nil
}

// printRate prints what a run has published of its throttle.
func (a *app) printRate(w io.Writer, r checkpoint.Run, l *liveStatus, all bool) {
	head := newTable()
	state := stageNames[l.Stage]
	switch {
	case l.PausedBy != nil:
		state = fmt.Sprintf("paused by %s since %s", *l.PausedBy, clock(l.PausedSince))
	case l.DownUntil != nil:
		state += ", the service is not available, next try at " + l.DownUntil.Local().Format("15:04:05")
	case l.Rate.Blocked != nil:
		state += ", " + *l.Rate.Blocked
		if l.Rate.BlockedUntil != nil {
			state += " until " + l.Rate.BlockedUntil.Local().Format("15:04:05")
		}
	}
	head.add("run", r.ID)
	head.add("job", r.JobName)
	head.add("state", state)
	progress := fmt.Sprintf("%d of %d items settled", l.Settled, l.Items)
	if l.Failed > 0 {
		progress += fmt.Sprintf(", %d failed", l.Failed)
	}
	head.add("progress", progress+", "+l.left())
	s := l.Rate
	pace := s.Profile
	if s.Reserve > 0 {
		pace += fmt.Sprintf(", %.4g %% of every limit left to others", 100*s.Reserve)
	}
	if s.Max != "off" {
		pace += ", at most " + s.Max
	}
	head.add("pace", pace)
	head.add("account", fmt.Sprintf("%s limits, window %s, cut-off at %.0f %%", s.Model, seconds(s.Window), 100*s.CutOff))
	head.add("so far", fmt.Sprintf("%d readings, %d answers 429, %d blocks; held for %s, paused for %s of at most %s",
		s.Calibrations, s.Limited, s.Blocks, seconds(s.Held), seconds(s.Paused), seconds(s.MaxPause)))
	head.add("as of", clock(&l.At))
	head.write(w)
	fmt.Fprintln(w)

	t := newTable("bucket", "limit", "own", "other runs", "others", "reported", "in use", "space", "closed until", "next reading", "why", "stable")
	hidden := 0
	for i, b := range s.Buckets {
		if i > 1 && !all && b.Own == 0 && b.Reported == 0 && b.PausedUntil == nil {
			hidden++
			continue
		}
		t.add(b.Name, strconv.Itoa(b.Limit), strconv.Itoa(b.Own), strconv.Itoa(b.Peers), strconv.Itoa(b.Others), strconv.Itoa(b.Reported),
			fmt.Sprintf("%.0f %%", 100*b.Utilisation), space(b.Delay), hour(b.PausedUntil), hour(b.NextReading),
			why(b), stableText(i, b))
	}
	t.write(w)
	if hidden > 0 {
		fmt.Fprintf(w, "and %d buckets of operations that nobody uses; --all shows them\n", hidden)
	}
}

// seconds shows a number of seconds as a duration.
func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// space shows the space between two requests, "-" for none.
func space(ms float64) string {
	if ms <= 0 {
		return "-"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond).String()
}

// hour shows the time of day of a moment, "-" for none.
func hour(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("15:04:05")
}

// why tells why a bucket is closed or slowed down, else why its next reading is due.
func why(b bucketLive) string {
	for _, text := range []*string{b.Reason, b.Why} {
		if text != nil {
			return *text
		}
	}
	return "-"
}

// stableText is the count of stable readings of reads and writes; operations have none.
func stableText(i int, b bucketLive) string {
	if i > 1 {
		return "-"
	}
	return strconv.Itoa(b.Stable)
}

// changesRate tells whether a flag asks to change the rate of a run.
func (a *app) changesRate() bool {
	return slices.ContainsFunc([]string{"throttle.profile", "throttle.max", "throttle.reserve"}, func(key string) bool {
		_, ok := a.settings.flags[key]
		return ok
	})
}
