package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"rmmjob/jobs"
	"rmmjob/throttle"
)

// kind is the type of a setting's value.
type kind int

const (
	kindText kind = iota
	kindPath
	kindDuration
	kindNumber  // a whole number
	kindDecimal // a number, whole or not
	kindRate    // requests in a stretch of time, for jobs.ParseRate
	kindReserve // shares by time of day, for jobs.ParseReserve
)

func (k kind) String() string {
	return [...]string{"name", "path", "duration", "number", "number", "rate", "share"}[k]
}

// setting describes one setting: a value that may come from a flag, the
// environment, a job file, a config file or its default.
type setting struct {
	key   string // in the config file, dotted
	flag  string // "" where there is no flag
	kind  kind
	def   string
	words []string // the only values allowed; nil for any
	min   float64  // smallest number, or seconds of a duration
	max   float64  // largest; with min 0 and max 0 there are no bounds
	help  string
}

// baseSettings are the settings that are not values of the profile custom.
var baseSettings = []setting{
	{key: "account", flag: "account", help: "account of the config file to use"},
	{key: "state_dir", flag: "state-dir", kind: kindPath, help: "folder of the state"},
	{key: "credentials_file", flag: "credentials-file", kind: kindPath, help: "file with api_url, api_key and api_secret, readable by its owner only"},
	{key: "ca_cert", flag: "ca-cert", kind: kindPath, help: "PEM file with certificates to trust besides those of the system"},
	{key: "timeout", flag: "timeout", kind: kindDuration, def: "60s", min: 1, max: 900, help: "longest wait for one answer"},
	{key: "grace", flag: "grace", kind: kindDuration, def: "30s", min: 0, max: 3600, help: "longest wait for requests in flight after the first Ctrl-C"},
	{key: "workers", flag: "workers", kind: kindNumber, def: "8", min: 1, max: 64, help: "requests in flight at a time"},
	{key: "page_size", flag: "page-size", kind: kindNumber, def: "250", min: 1, max: 250, help: "elements per page of a list"},
	{key: "throttle.profile", flag: "profile", def: "adaptive", help: "throttle profile"},
	{key: "throttle.base", help: "profile that custom builds on"},
	{key: "throttle.max_pause", flag: "max-pause", kind: kindDuration, def: "2h", min: 0.001, max: 7 * 86400, help: "longest time in pauses before the run stops as throttled"},
	{key: "throttle.rate_limit_wait", kind: kindDuration, def: "120s", min: 0.001, max: 3600, help: "wait after a 429 that names no time"},
	{key: "throttle.block_wait", kind: kindDuration, def: "5m", min: 0.001, max: 7200, help: "silence after a block"},
	{key: "throttle.pause_wait", kind: kindDuration, def: "30s", min: 0.001, max: 3600, help: "wait before a closed gate is looked at again"},
	{key: "throttle.reserve", flag: "reserve", kind: kindReserve, def: "off", help: "share of every limit left to others: 40%, or '08:00-18:00 40%'"},
	{key: "throttle.max", flag: "max", kind: kindRate, def: "off", help: "own requests of all kinds at most, such as 300/60s"},
	{key: "throttle.legacy", def: "auto", words: []string{"auto", "on", "off"}, help: "one quota for reads and writes"},
}

// settingTable is every setting except the accounts, in the order of config show.
var settingTable = append(baseSettings, customSettings()...)

// customSettings are the values of the profile custom. What is possible for
// them only the whole profile tells, so throttle checks them together.
func customSettings() []setting {
	var out []setting
	for _, name := range throttle.SettingNames() {
		out = append(out, setting{key: "throttle." + name, kind: kindDecimal, help: "value of the profile custom"})
	}
	return out
}

// lookupSetting finds a setting by its key.
func lookupSetting(key string) (setting, bool) {
	i := slices.IndexFunc(settingTable, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return settingTable[i], true
}

// env is the environment variable of the setting.
func (s setting) env() string {
	if s.flag != "" {
		return envName(s.flag)
	}
	return envName(strings.ReplaceAll(s.key, ".", "_"))
}

// check tells whether text is a possible value.
func (s setting) check(text string) error {
	var n float64
	unit := ""
	switch s.kind {
	case kindDuration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 90s, 15m or 2h", text)
		}
		n, unit = d.Seconds(), "s"
	case kindNumber:
		i, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		n = float64(i)
	case kindRate:
		_, err := jobs.ParseRate(text)
		return err
	case kindReserve:
		_, err := jobs.ParseReserve(text)
		return err
	case kindDecimal:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f != f {
			return fmt.Errorf("%q is not a number", text)
		}
		n = f
	default:
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("the value is empty")
		}
		if s.words != nil && !slices.Contains(s.words, text) {
			return fmt.Errorf("%q is none of %s", text, strings.Join(s.words, ", "))
		}
		if s.key == "throttle.profile" || s.key == "throttle.base" {
			return checkProfile(s.key, text)
		}
		return nil
	}
	if s.min == 0 && s.max == 0 {
		return nil
	}
	if n < s.min || n > s.max {
		return fmt.Errorf("%s is not between %v%s and %v%s", text, s.min, unit, s.max, unit)
	}
	return nil
}

// originKind is the layer that a value comes from.
type originKind int

const (
	originDefault originKind = iota
	originConfig
	originJob
	originEnv
	originFlag
)

// origin is where a value comes from, exactly enough to go and change it.
type origin struct {
	kind originKind
	name string // the flag, the variable, or file:line
}

func (o origin) String() string {
	switch o.kind {
	case originFlag:
		return "flag --" + o.name
	case originEnv:
		return "environment " + o.name
	case originJob:
		return "job file " + o.name
	case originConfig:
		return "config file " + o.name
	}
	return "default"
}

// value is a setting's text and where it comes from.
type value struct {
	text   string
	origin origin
}

// layer is all values from one kind of place.
type layer map[string]value

// settings are the layers of one call, strongest first: flags, environment,
// job file, user's config file, machine's config file. What none of them has
// comes from the table.
type settings struct {
	flags, env, job layer
	user, machine   configFile
}

// find returns the value of a setting and its origin; the text is empty where
// nothing is set and there is no default.
func (s *settings) find(key string) value {
	for _, l := range []layer{s.flags, s.env, s.job, s.user.values, s.machine.values} {
		if v, ok := l[key]; ok {
			return v
		}
	}
	def, ok := lookupSetting(key)
	if !ok {
		panic("no setting " + key)
	}
	return value{text: def.def}
}

// text returns a setting as it is.
func (s *settings) text(key string) string { return s.find(key).text }

// path returns a path setting as an absolute path, "" when it is not set.
func (s *settings) path(key string) string {
	if text := s.text(key); text != "" {
		return absolute(text)
	}
	return ""
}

// duration returns a duration setting. All values were checked when they were read.
func (s *settings) duration(key string) time.Duration {
	d, _ := time.ParseDuration(s.text(key)) //nolint:errcheck // checked by its layer
	return d
}

// number returns a whole-number setting.
func (s *settings) number(key string) int {
	n, _ := strconv.Atoi(s.text(key)) //nolint:errcheck // checked by its layer
	return n
}

// decimal returns a number setting.
func (s *settings) decimal(key string) float64 {
	f, _ := strconv.ParseFloat(s.text(key), 64) //nolint:errcheck // checked by its layer
	return f
}

// loadSettings fills the layers of flags, environment and config files.
func (a *app) loadSettings(f *flags) error {
	a.settings.flags = layer{}
	f.VisitAll(func(fl *pflag.Flag) {
		if sf, ok := fl.Value.(*settingFlag); ok && fl.Changed {
			a.settings.flags[sf.setting.key] = value{sf.text, origin{originFlag, fl.Name}}
		}
	})
	a.settings.env = layer{}
	for _, s := range settingTable {
		text := a.getenv(s.env())
		if text == "" {
			continue
		}
		if err := s.check(text); err != nil {
			return usagef("environment variable %s: %w", s.env(), err)
		}
		a.settings.env[s.key] = value{text, origin{originEnv, s.env()}}
	}
	return a.loadConfig()
}

// setJob adds values to the layer of the job file. Empty texts are left out; a
// text that is no possible value is a usage error. name is the file, or the
// place in it.
func (s *settings) setJob(name string, values map[string]string) error {
	if s.job == nil {
		s.job = layer{}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text := values[key]
		if text == "" {
			continue
		}
		def, ok := lookupSetting(key)
		if !ok {
			return fail(exitInternal, "job file %s: no setting %s", name, key)
		}
		if err := def.check(text); err != nil {
			return usagef("%s: %s: %w", name, key, err)
		}
		s.job[key] = value{text, origin{originJob, name}}
	}
	return nil
}
