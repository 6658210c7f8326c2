package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// bucketInfo is one quota of the account at the moment of the reading.
type bucketInfo struct {
	Name  string  `json:"name"`
	Limit int     `json:"limit"`
	Count int     `json:"count"`
	Share float64 `json:"share"` // count / limit; 0 without a limit
}

// rateVerb reads the account's rate limits once and shows them, or shows and changes
// the throttle of a working run.
func rateVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("throttle.profile", "throttle.max", "throttle.reserve")
	watched := f.Bool("watch", false, "of a run: show it every second until it ends")
	all := f.Bool("all", false, "of a run: also the operations that nobody uses")
	rest, err := f.parse(args, 0, 1)
	switch {
	case err != nil:
		return err
	case len(rest) == 1 && a.sim.on && strings.Contains(rest[0], "="):
		return usagef("run %q does not exist", rest[0]).withHint("settings of the simulator follow an equals sign: --sim=devices=5000")
	case len(rest) == 1:
		return a.rateOfRun(ctx, rest[0], *watched, *all)
	case a.changesRate():
		return usagef("which run? --profile, --max and --reserve change the rate of a working run").
			withHint("for example: %s", a.nextCommand("rate", "RUN", "--profile", "cautious")).
			withHint("for all later runs: rmmjob config set throttle.profile cautious")
	case *watched:
		return usagef("--watch needs a RUN: each reading of an account is a request")
	}
	c, err := a.openAccount(ctx)
	if err != nil {
		return err
	}
	status, err := c.client.RequestRate(ctx)
	if err != nil {
		return err
	}
	r := readingOf(status)
	model, first := "modern", "read"
	if !r.HasWrite || r.WriteLimit == 0 {
		model, first = "legacy", "all"
	}
	bucket := func(name string, limit, count int) bucketInfo {
		b := bucketInfo{Name: name, Limit: limit, Count: count}
		if limit > 0 {
			b.Share = float64(count) / float64(limit)
		}
		return b
	}
	list := []bucketInfo{bucket(first, r.Limit, r.Count)}
	if model == "modern" {
		list = append(list, bucket("write", r.WriteLimit, r.WriteCount))
		for _, name := range slices.Sorted(maps.Keys(r.Ops)) {
			list = append(list, bucket(name, r.Ops[name].Limit, r.Ops[name].Count))
		}
	}
	if a.json {
		a.result.set("account", c.name)
		a.result.set("account_uid", status.AccountUID)
		a.result.set("model", model)
		a.result.set("window_seconds", r.Window.Seconds())
		a.result.set("cut_off", r.CutOff)
		a.result.set("buckets", list)
		return nil
	}
	fmt.Fprintf(a.stdout, "%s: %s limits, requests of the last %v, cut-off at %.0f %%\n\n", clean(c.name), model, r.Window, 100*r.CutOff)
	t := newTable("bucket", "count", "limit", "share")
	for _, b := range list {
		t.add(b.Name, strconv.Itoa(b.Count), strconv.Itoa(b.Limit), fmt.Sprintf("%.0f %%", 100*b.Share))
	}
	t.write(a.stdout)
	return nil
}
