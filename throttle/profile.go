package throttle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Profile is a set of pacing values. All shares are parts of a limit (0.5 is half of it).
// Start from [Lookup] or [Custom]; the zero value is not valid.
type Profile struct {
	Name string // adaptive, full, neighbour, quick, aggressive, medium, cautious or custom
	Base string // the profile that a custom one started from; empty otherwise

	// Util is the share of a limit that a profile of the window model fills. From 0.1 to
	// 0.98; 0 makes it a reference profile, to which the values from Onset on belong.
	Util float64
	// Guard is the share of a limit that strangers who suddenly appear may use in a window
	// without meeting a burst of ours. From 0 to 0.98; the lower, the longer the bursts.
	Guard float64

	// Onset is the utilisation from which requests are delayed. Above 0, below 1.
	Onset float64
	// DelayMultiplier times the utilisation is the delay. From 1 ms to 1 min.
	DelayMultiplier time.Duration

	// CalibrationBase is the usual time between two readings. It doubles while things
	// are stable, up to CalibrationMax; it is never shorter than CalibrationMin.
	// CalibrationMin is at least 100 ms, CalibrationMax at most 10 min.
	CalibrationBase, CalibrationMax, CalibrationMin time.Duration
	// ConfidenceCount is how many own requests inside the window make the local count
	// fully trusted. At least 1.
	ConfidenceCount int
	// StabilityThreshold is how many stable calibrations in a row double the interval.
	// At least 1.
	StabilityThreshold int
	// DriftThreshold is the difference between the server's utilisation and the local
	// one that counts as drift; DriftScaling is how strongly drift shortens the
	// interval. Above 0 and at most 1; 0 to 100.
	DriftThreshold, DriftScaling float64

	// SafetyOverhead is subtracted from the server's cut-off ratio; at the rest, all
	// requests pause. From 0, below 0.5.
	SafetyOverhead float64
	// UnknownOperationSafetyFactor times DelayMultiplier is the least delay of a write
	// whose operation the server does not list. From 0 to 10.
	UnknownOperationSafetyFactor float64
}

// The profiles of the window model come first. Of the reference profiles, onset,
// multiplier, base and maximum are those of the published guide of the PowerShell module
// that they come from; the rest is that module's data.
var profiles = []Profile{
	{Name: "full", Util: 0.88, Guard: 0.7},
	{Name: "adaptive", Util: 0.85, Guard: 0.7},
	{Name: "neighbour", Util: 0.82, Guard: 0.7},
	{Name: "quick", Util: 0.88, Guard: 0.5},
	{
		Name: "aggressive", Onset: 0.50, DelayMultiplier: 400 * time.Millisecond,
		CalibrationBase: 5 * time.Second, CalibrationMax: 10 * time.Second, CalibrationMin: 500 * time.Millisecond,
		ConfidenceCount: 35, StabilityThreshold: 5, DriftThreshold: 0.02, DriftScaling: 1.5,
		SafetyOverhead: 0.05, UnknownOperationSafetyFactor: 0.15,
	},
	{
		Name: "medium", Onset: 0.30, DelayMultiplier: 750 * time.Millisecond,
		CalibrationBase: 6 * time.Second, CalibrationMax: 20 * time.Second, CalibrationMin: 700 * time.Millisecond,
		ConfidenceCount: 50, StabilityThreshold: 4, DriftThreshold: 0.02, DriftScaling: 2,
		SafetyOverhead: 0.07, UnknownOperationSafetyFactor: 0.3,
	},
	{
		Name: "cautious", Onset: 0.20, DelayMultiplier: 1000 * time.Millisecond,
		CalibrationBase: 5 * time.Second, CalibrationMax: 30 * time.Second, CalibrationMin: 500 * time.Millisecond,
		ConfidenceCount: 30, StabilityThreshold: 3, DriftThreshold: 0.02, DriftScaling: 3,
		SafetyOverhead: 0.08, UnknownOperationSafetyFactor: 0.5,
	},
}

// Profiles returns the named profiles, fastest first.
func Profiles() []Profile { return slices.Clone(profiles) }

// Lookup returns the named profile.
func Lookup(name string) (Profile, bool) {
	for _, p := range profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// setting is one value that a custom profile may change, under its name in files.
type setting struct {
	key string
	set func(*Profile, float64)
}

// ofModel is how many of the settings belong to the window model; the rest are those of
// the reference profiles.
const ofModel = 2

var settings = []setting{
	{"util", func(p *Profile, v float64) { p.Util = v }},
	{"guard", func(p *Profile, v float64) { p.Guard = v }},
	{"onset", func(p *Profile, v float64) { p.Onset = v }},
	{"delay_multiplier_ms", func(p *Profile, v float64) { p.DelayMultiplier = span(v, time.Millisecond) }},
	{"calibration_base_s", func(p *Profile, v float64) { p.CalibrationBase = span(v, time.Second) }},
	{"calibration_max_s", func(p *Profile, v float64) { p.CalibrationMax = span(v, time.Second) }},
	{"calibration_min_s", func(p *Profile, v float64) { p.CalibrationMin = span(v, time.Second) }},
	{"confidence_count", func(p *Profile, v float64) { p.ConfidenceCount = whole(v) }},
	{"stability_threshold", func(p *Profile, v float64) { p.StabilityThreshold = whole(v) }},
	{"drift_threshold", func(p *Profile, v float64) { p.DriftThreshold = v }},
	{"drift_scaling", func(p *Profile, v float64) { p.DriftScaling = v }},
	{"safety_overhead", func(p *Profile, v float64) { p.SafetyOverhead = v }},
	{"unknown_operation_safety_factor", func(p *Profile, v float64) { p.UnknownOperationSafetyFactor = v }},
}

// span turns a number into a duration; what does not fit becomes one that Validate refuses.
func span(v float64, unit time.Duration) time.Duration {
	if d := v * float64(unit); d >= 0 && d < float64(24*time.Hour) {
		return time.Duration(d)
	}
	return -1
}

// whole turns a number into a count; what is none becomes one that Validate refuses.
func whole(v float64) int {
	if v == math.Trunc(v) && v >= 0 && v <= 1e6 {
		return int(v)
	}
	return -1
}

// SettingNames returns the names that [Custom] accepts, in the order of the documentation.
// The unit is part of the name: _ms milliseconds, _s seconds; the rest are shares,
// factors and counts.
func SettingNames() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.key
	}
	return names
}

// Custom returns a profile named custom: that of base with the given values changed. The
// names are those of [SettingNames]. An unknown base or name and an impossible value are
// errors. A Limiter that uses a custom profile says so in a warning event.
func Custom(base string, values map[string]float64) (Profile, error) {
	p, ok := Lookup(base)
	if !ok {
		return Profile{}, fmt.Errorf("throttle profile %q is unknown; use %s as the base", base, names())
	}
	p.Name, p.Base = "custom", base
	windowed := p.Util > 0
	seen := 0
	for i, s := range settings {
		if v, ok := values[s.key]; ok {
			if (i < ofModel) != windowed {
				return Profile{}, fmt.Errorf("throttle setting %q has no meaning for the base %s", s.key, base)
			}
			s.set(&p, v)
			seen++
		}
	}
	if seen < len(values) {
		for key := range values {
			if !slices.Contains(SettingNames(), key) {
				return Profile{}, fmt.Errorf("throttle setting %q is unknown; the settings are %s", key, strings.Join(SettingNames(), ", "))
			}
		}
	}
	if (p.Util > 0) != windowed {
		return Profile{}, fmt.Errorf("throttle profile %q: util must be from 0.1 to 0.98", p.Name)
	}
	return p, p.Validate()
}

func names() string {
	var all []string
	for _, p := range profiles {
		all = append(all, p.Name)
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// Validate reports the first value that is impossible, by its name in files.
func (p Profile) Validate() error {
	type check struct {
		ok   bool
		name string
		want string
	}
	named := check{p.Name != "", "profile", "named"}
	checks := []check{
		named,
		{p.Util >= 0.1 && p.Util <= 0.98, "util", "from 0.1 to 0.98"},
		{p.Guard >= 0 && p.Guard <= 0.98, "guard", "from 0 to 0.98"},
	}
	if p.Util == 0 {
		checks = []check{
			named,
			{p.Onset > 0 && p.Onset < 1, "onset", "above 0 and below 1"},
			{p.DelayMultiplier >= time.Millisecond && p.DelayMultiplier <= time.Minute, "delay_multiplier_ms", "from 1 to 60000"},
			{p.CalibrationMin >= 100*time.Millisecond, "calibration_min_s", "at least 0.1"},
			{p.CalibrationBase >= p.CalibrationMin, "calibration_base_s", "at least calibration_min_s"},
			{p.CalibrationMax >= p.CalibrationBase && p.CalibrationMax <= 10*time.Minute, "calibration_max_s", "from calibration_base_s to 600"},
			{p.ConfidenceCount >= 1, "confidence_count", "a whole number of at least 1"},
			{p.StabilityThreshold >= 1, "stability_threshold", "a whole number of at least 1"},
			{p.DriftThreshold > 0 && p.DriftThreshold <= 1, "drift_threshold", "above 0 and at most 1"},
			{p.DriftScaling >= 0 && p.DriftScaling <= 100, "drift_scaling", "from 0 to 100"},
			{p.SafetyOverhead >= 0 && p.SafetyOverhead < 0.5, "safety_overhead", "from 0 and below 0.5"},
			{p.UnknownOperationSafetyFactor >= 0 && p.UnknownOperationSafetyFactor <= 10, "unknown_operation_safety_factor", "from 0 to 10"},
		}
	}
	for _, c := range checks {
		if !c.ok {
			return fmt.Errorf("throttle profile %q: %s must be %s", p.Name, c.name, c.want)
		}
	}
	return nil
}
