package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// profileCustom is the profile whose values the user chooses.
const profileCustom = "custom"

// checkProfile tells whether a profile exists; custom cannot be built upon.
func checkProfile(key, name string) error {
	var names []string
	for _, p := range throttle.Profiles() {
		names = append(names, p.Name)
	}
	if key == "throttle.profile" {
		names = append(names, profileCustom)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
}

// useThrottle adds what a job file says about the throttle to its layer of the
// settings.
func (s *settings) useThrottle(job *jobs.Job) error {
	t := job.Throttle
	values := map[string]string{"throttle.profile": t.Profile, "throttle.base": t.Base, "throttle.legacy": t.Legacy}
	if t.Reserve != nil {
		values["throttle.reserve"] = t.Reserve.String()
	}
	if t.Max != (jobs.Rate{}) {
		values["throttle.max"] = t.Max.String()
	}
	for key, d := range map[string]time.Duration{
		"throttle.max_pause": t.MaxPause, "throttle.rate_limit_wait": t.RateLimitWait,
		"throttle.block_wait": t.BlockWait, "throttle.pause_wait": t.PauseWait,
	} {
		if d > 0 {
			values[key] = d.String()
		}
	}
	for name, v := range t.Custom {
		values["throttle."+customName(name)] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return s.setJob(t.Pos.String(), values)
}

// customName returns the name that throttle has for a value which a job file
// names without its unit.
func customName(name string) string {
	for _, known := range throttle.SettingNames() {
		if known == name+"_ms" || known == name+"_s" || known == strings.Replace(name, "operation_factor", "operation_safety_factor", 1) {
			return known
		}
	}
	return name
}

// throttleConfig makes the configuration of the limiter from the settings. A
// custom profile is announced with a warning; one with impossible values is a
// usage error that says where it comes from. The caller adds Probe and Event.
func (a *app) throttleConfig(job *jobs.Job) (throttle.Config, error) {
	if err := a.settings.useThrottle(job); err != nil {
		return throttle.Config{}, err
	}
	profile, err := a.profile()
	if err != nil {
		return throttle.Config{}, err
	}
	s := &a.settings
	return throttle.Config{
		Profile:       profile,
		MaxPause:      s.duration("throttle.max_pause"),
		RateLimitWait: s.duration("throttle.rate_limit_wait"),
		BlockWait:     s.duration("throttle.block_wait"),
		PauseWait:     s.duration("throttle.pause_wait"),
		Legacy:        throttle.LegacyMode(s.text("throttle.legacy")),
	}, nil
}

// profile returns the throttle profile that the settings ask for.
func (a *app) profile() (throttle.Profile, error) {
	s := &a.settings
	chosen := s.find("throttle.profile")
	custom := map[string]float64{}
	for _, name := range throttle.SettingNames() {
		if s.text("throttle."+name) != "" {
			custom[name] = s.decimal("throttle." + name)
		}
	}
	if chosen.text != profileCustom {
		profile, ok := throttle.Lookup(chosen.text)
		if !ok {
			return profile, usagef("throttle profile %q (%s) does not exist", chosen.text, chosen.origin)
		}
		return profile, nil
	}
	base := s.text("throttle.base")
	if base == "" {
		return throttle.Profile{}, usagef("throttle profile custom (%s) needs a base", chosen.origin).
			withHint("for example throttle.base: medium")
	}
	profile, err := throttle.Custom(base, custom)
	if err != nil {
		return profile, usagef("%w (%s)", err, chosen.origin)
	}
	a.warn("throttle profile custom on %s (%s): its values are yours, no one has measured them", base, chosen.origin)
	return profile, nil
}

// probe asks the account for its rate limits, as the limiter wants them.
func (c *connection) probe(ctx context.Context) (throttle.Reading, error) {
	status, err := c.client.RequestRate(ctx)
	if err != nil {
		return throttle.Reading{}, &throttle.ProbeError{Result: runner.ResultOf(0, err), Err: err}
	}
	return readingOf(status), nil
}

// readingOf maps what the API says about its limits to what the throttle knows.
func readingOf(s rmm.RateStatus) throttle.Reading {
	r := throttle.Reading{
		Window: s.Window,
		Limit:  s.Limit,
		Count:  s.Count,
		CutOff: s.CutOff,
		Ops:    make(map[string]throttle.OpReading, len(s.Operations)),
	}
	if s.WriteLimit != nil && s.WriteCount != nil {
		r.HasWrite, r.WriteLimit, r.WriteCount = true, *s.WriteLimit, *s.WriteCount
	}
	for name, op := range s.Operations {
		r.Ops[name] = throttle.OpReading{Limit: op.Limit, Count: op.Count}
	}
	return r
}
