package rmmsim

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseSettings(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Config
	}{
		{"", Config{}},
		{" , ", Config{}},
		{"devices=5000,seed=7,latency=60ms,limits=off,legacy", Config{Devices: 5000, Seed: 7, Latency: 60 * time.Millisecond, Limits: Limits{Off: true}, Legacy: true}},
		{"devices=0", Config{Devices: -1}},
		{" limits = 600/100 , limit.device-move=50", Config{Limits: Limits{Read: 600, Write: 100, Ops: map[string]int{"device-move": 50}}}},
		{"udfs=30,dates=iso,page-max=10", Config{UDFs: 30, ISODates: true, PageMax: 10}},
		{"udfs=none,dates=ms,spread=0.4,software=600", Config{UDFs: -1, Spread: 0.4, Software: 600}},
		{"key=k,secret=a=b,single-token,token-lifetime=5s", Config{Key: "k", Secret: "a=b", SingleToken: true, TokenLifetime: 5 * time.Second}},
		{"sparse,unknown-values=on,alert-totals=off,next-forgets,next-foreign", Config{Sparse: true, UnknownValues: true, NextForgets: true, NextForeign: true}},
		{"duplicates=accept,conflicts=off,write-window=fixed,delay=off,retry-after=30s,stale=3s", Config{
			DuplicateNames: true, NoConflicts: true,
			FixedWriteWindow: true, NoDelay: true, RetryAfter: 30 * time.Second, StaleRate: 3 * time.Second,
		}},
		{"log-limit=100", Config{LogLimit: 100}},
		{"duplicates=409,conflicts=on,write-window=rolling,delay=on", Config{}},
	} {
		got, err := ParseSettings(tt.text)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
		if _, err := New(got); err != nil {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

func TestParseSettingsErrors(t *testing.T) {
	const all = "; known are alert-totals, conflicts, dates, delay, devices, duplicates, key, latency, legacy, limits, log-limit, next-foreign, next-forgets, page-max, retry-after, secret, seed, single-token, software, sparse, spread, stale, token-lifetime, udfs, unknown-values, write-window, limit.OPERATION"
	for _, tt := range []struct{ text, want string }{
		{"devcies=5", `unknown simulator setting "devcies", did you mean "devices"?`},
		{"zzzzzzzz", `unknown simulator setting "zzzzzzzz"` + all},
		{"devices", `simulator setting "devices": want a whole number from 0 to 5000000`},
		{"devices=many", `simulator setting "devices": want a whole number from 0 to 5000000`},
		{"devices=1,devices=2", `simulator setting "devices": given twice`},
		{"seed=0", `simulator setting "seed": want a whole number from 1`},
		{"latency=-1s", `simulator setting "latency": want a time such as 60ms or 30s`},
		{"latency=5", `simulator setting "latency": want a time such as 60ms or 30s`},
		{"limits=600", `simulator setting "limits": want off or READS/WRITES such as 600/600`},
		{"limits=0/5", `simulator setting "limits": want off or READS/WRITES such as 600/600`},
		{"limit.device-mvoe=5", `simulator setting "limit.device-mvoe": unknown operation "device-mvoe", did you mean "device-move"?`},
		{"limit.alert-mute=5", `limit of alert-mute, which has no bucket of its own`},
		{"spread=NaN", `simulator setting "spread": want a number from 0 to 3`},
		{"dates=us", `simulator setting "dates": want ms or iso`},
		{"udfs=301", `simulator setting "udfs": want a whole number from 1 to 300`},
		{"legacy=yes", `simulator setting "legacy": want off or on`},
		{"=5", `unknown simulator setting ""` + all},
		{"secret=x", `a secret without a key`},
	} {
		if _, err := ParseSettings(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q:\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("devices=5000,seed=7,latency=60ms,limits=off,legacy")
	f.Add("limit.device-move=1,udfs=none")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := ParseSettings(text)
		if err == nil {
			if err := cfg.withDefaults().validate(); err != nil {
				t.Errorf("accepted %q: %v", text, err)
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: an error of several lines: %v", text, err)
		}
	})
}

func TestNewRefusesTheImpossible(t *testing.T) {
	for _, cfg := range []Config{
		{PageMax: -1},
		{UDFs: 301},
		{Latency: -1},
		{Spread: 9},
		{Limits: Limits{Read: -1}},
		{Secret: "s"},
		{Devices: 1e9},
		{Limits: Limits{Ops: map[string]int{"no-such": 5}}},
		{Limits: Limits{Ops: map[string]int{"device-move": 0}}},
		{Faults: []Fault{{}}},
	} {
		if a, err := New(cfg); err == nil || a != nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}
