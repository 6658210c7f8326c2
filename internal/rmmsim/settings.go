package rmmsim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmmjob/internal/rmm"
)

// settings are the words of ParseSettings: how a value gets into the Config.
var settings = map[string]func(cfg *Config, value string) error{
	"devices": func(cfg *Config, v string) (err error) {
		cfg.Devices, err = number(v, 0, 5_000_000)
		if err == nil && cfg.Devices == 0 {
			cfg.Devices = -1
		}
		return err
	},
	"seed": func(cfg *Config, v string) (err error) {
		cfg.Seed, err = strconv.ParseUint(v, 10, 64)
		if err != nil || cfg.Seed == 0 {
			return errors.New("want a whole number from 1")
		}
		return nil
	},
	"latency": func(cfg *Config, v string) (err error) { cfg.Latency, err = duration(v); return err },
	"spread": func(cfg *Config, v string) (err error) {
		cfg.Spread, err = strconv.ParseFloat(v, 64)
		if err != nil || !(cfg.Spread >= 0 && cfg.Spread <= 3) {
			return errors.New("want a number from 0 to 3")
		}
		return nil
	},
	"limits": func(cfg *Config, v string) error {
		if v == "off" {
			cfg.Limits.Off = true
			return nil
		}
		read, write, ok := strings.Cut(v, "/")
		r, err1 := number(read, 1, 1_000_000)
		w, err2 := number(write, 1, 1_000_000)
		if !ok || err1 != nil || err2 != nil {
			return errors.New("want off or READS/WRITES such as 600/600")
		}
		cfg.Limits.Read, cfg.Limits.Write = r, w
		return nil
	},
	"legacy":         flag(func(cfg *Config) *bool { return &cfg.Legacy }),
	"page-max":       func(cfg *Config, v string) (err error) { cfg.PageMax, err = number(v, 1, 100_000); return err },
	"token-lifetime": func(cfg *Config, v string) (err error) { cfg.TokenLifetime, err = duration(v); return err },
	"key":            func(cfg *Config, v string) error { cfg.Key = v; return nil },
	"secret":         func(cfg *Config, v string) error { cfg.Secret = v; return nil },
	"single-token":   flag(func(cfg *Config) *bool { return &cfg.SingleToken }),
	"dates":          choice(func(cfg *Config) *bool { return &cfg.ISODates }, "ms", "iso"),
	"udfs": func(cfg *Config, v string) (err error) {
		if v == "none" {
			cfg.UDFs = -1
			return nil
		}
		cfg.UDFs, err = number(v, 1, rmm.MaxUDF)
		return err
	},
	"software":       func(cfg *Config, v string) (err error) { cfg.Software, err = number(v, 1, 100_000); return err },
	"sparse":         flag(func(cfg *Config) *bool { return &cfg.Sparse }),
	"unknown-values": flag(func(cfg *Config) *bool { return &cfg.UnknownValues }),
	"alert-totals":   flag(func(cfg *Config) *bool { return &cfg.AlertTotals }),
	"next-forgets":   flag(func(cfg *Config) *bool { return &cfg.NextForgets }),
	"next-foreign":   flag(func(cfg *Config) *bool { return &cfg.NextForeign }),
	"duplicates":     choice(func(cfg *Config) *bool { return &cfg.DuplicateNames }, "409", "accept"),
	"conflicts":      choice(func(cfg *Config) *bool { return &cfg.NoConflicts }, "on", "off"),
	"write-window":   choice(func(cfg *Config) *bool { return &cfg.FixedWriteWindow }, "rolling", "fixed"),
	"delay":          choice(func(cfg *Config) *bool { return &cfg.NoDelay }, "on", "off"),
	"retry-after":    func(cfg *Config, v string) (err error) { cfg.RetryAfter, err = duration(v); return err },
	"log-limit":      func(cfg *Config, v string) (err error) { cfg.LogLimit, err = number(v, 1, 10_000_000); return err },
	"stale":          func(cfg *Config, v string) (err error) { cfg.StaleRate, err = duration(v); return err },
}

// limitPrefix begins the setting of one operation's limit, for example
// limit.device-move=50.
const limitPrefix = "limit."

// ParseSettings reads a Config from NAME=VALUE pairs with commas between:
// "devices=5000,seed=7,latency=60ms,limits=off,legacy". A switch may stand
// without a value. An unknown or repeated name, and a value that does not
// fit, is an error that names it.
//
// Names: devices seed latency spread limits limit.OPERATION legacy page-max
// token-lifetime key secret single-token dates (ms, iso) udfs (300, 30,
// none) software sparse unknown-values alert-totals next-forgets
// next-foreign duplicates (409, accept) conflicts (on, off) write-window
// (rolling, fixed) delay (on, off) retry-after stale log-limit.
func ParseSettings(s string) (Config, error) {
	var cfg Config
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(s, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(pair), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if name == "" && !hasValue {
			continue
		}
		if seen[name] {
			return Config{}, fmt.Errorf("simulator setting %q: given twice", name)
		}
		seen[name] = true
		set, ok := settings[name]
		if op, isLimit := strings.CutPrefix(name, limitPrefix); isLimit {
			set, ok = operationLimit(op), true
		}
		if !ok {
			return Config{}, unknownSetting(name)
		}
		if !hasValue {
			value = "on"
		}
		if err := set(&cfg, value); err != nil {
			return Config{}, fmt.Errorf("simulator setting %q: %w", name, err)
		}
	}
	return cfg, cfg.withDefaults().validate()
}

// unknownSetting names what there is. Faults are no setting: they are a file of their own.
func unknownSetting(name string) error {
	known := slices.Sorted(maps.Keys(settings))
	text := unknownWord("simulator setting", name, known)
	if strings.HasPrefix(name, "fault") {
		return fmt.Errorf("unknown simulator setting %q: rmmjob sim --faults FILE plays faults, and jobs run against it", name)
	}
	if !strings.Contains(text, "did you mean") {
		text += "; known are " + strings.Join(append(known, limitPrefix+"OPERATION"), ", ")
	}
	return errors.New(text)
}

func operationLimit(op string) func(*Config, string) error {
	return func(cfg *Config, v string) error {
		n, err := number(v, 1, 1_000_000)
		if err != nil {
			return err
		}
		if err := checkOperation(op, false); err != nil {
			return err
		}
		if cfg.Limits.Ops == nil {
			cfg.Limits.Ops = map[string]int{}
		}
		cfg.Limits.Ops[op] = n
		return nil
	}
}

func flag(field func(*Config) *bool) func(*Config, string) error { return choice(field, "off", "on") }

// choice sets a switch by one of two words; the second turns it on.
func choice(field func(*Config) *bool, no, yes string) func(*Config, string) error {
	return func(cfg *Config, v string) error {
		if v != no && v != yes {
			return fmt.Errorf("want %s or %s", no, yes)
		}
		*field(cfg) = v == yes
		return nil
	}
}

func number(v string, low, high int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("want a whole number from %d to %d", low, high)
	}
	return n, nil
}

func duration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, errors.New("want a time such as 60ms or 30s")
	}
	return d, nil
}
