package output

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestExpand(t *testing.T) {
	at := time.Date(2025, 3, 6, 0, 30, 5, 0, time.Local)
	vars := Vars{Job: "nightly-devices", Account: "msp-eu", Run: "20250306-003005-k7"}
	for _, tt := range []struct {
		in   string
		vars Vars
		want string
	}{
		{"out/devices-{date}.csv", vars, "out/devices-2025-03-06.csv"},
		{"{date}_{time}.csv", vars, "2025-03-06_003005.csv"},
		{"{account}/{job}/{run}.csv", vars, "msp-eu/nightly-devices/20250306-003005-k7.csv"},
		{`C:\out\{job}.csv`, vars, `C:\out\nightly-devices.csv`},
		{"plain.csv", Vars{}, "plain.csv"},
		{"{{x}}-{date}.csv", Vars{}, "{x}-2025-03-06.csv"},
		// A value is one part of a name and nothing else.
		{"out/{job}.csv", Vars{Job: `a:b?c*d<e>f|g"h\i/j`}, "out/a_b_c_d_e_f_g_h_i_j.csv"},
		{"out/{job}/x.csv", Vars{Job: ".."}, "out/__/x.csv"},
		{"out/{job}/x.csv", Vars{Job: "../../etc"}, "out/.._.._etc/x.csv"},
		{"out/{job}", Vars{Job: "v1. ."}, "out/v1___"},
		{"out/{job}.csv", Vars{Job: "a\tb\n"}, "out/a_b_.csv"},
		{"{job}.csv", Vars{Job: "CON"}, "_CON.csv"},
		{"{job}/x.csv", Vars{Job: "nul"}, "_nul/x.csv"},
		{"{account}{job}.csv", Vars{Job: "X", Account: "AU"}, "_AUX.csv"},
		{"out/{job}.csv", Vars{Job: "com1"}, "out/_com1.csv"},
		{`out\{job}.csv`, Vars{Job: "LPT³"}, `out\_LPT³.csv`},
		{"{job}.csv", Vars{Job: "console"}, "console.csv"},
		{"{job}.csv", Vars{Job: "com"}, "com.csv"},
		{"{job}.csv", Vars{Job: "com10"}, "com10.csv"},
		{"Büro {job}.csv", Vars{Job: "Łódź"}, "Büro Łódź.csv"},
	} {
		got, err := Expand(tt.in, at, tt.vars)
		if err != nil || got != tt.want {
			t.Errorf("Expand(%q, %+v) = %q, %v, want %q", tt.in, tt.vars, got, err, tt.want)
		}
	}
	// The date is the one on the wall clock, whatever zone the instant is in.
	if got, err := Expand("{date}.csv", at.UTC(), Vars{}); err != nil || got != "2025-03-06.csv" {
		t.Errorf("Expand in UTC = %q, %v", got, err)
	}
}

func TestExpandRefuses(t *testing.T) {
	for in, part := range map[string]string{
		"":                 "no file name",
		"out/":             "folder",
		"{dat}.csv":        "did you mean {date}?",
		"{jahr}.csv":       "known are",
		"{}.csv":           "unknown placeholder",
		"{date.csv":        "{ without }",
		"date}.csv":        "} without {",
		"{job}.csv":        "{job} has no value",
		"{account}.csv":    "name one by account in the job",
		"C:\temp\new.csv":  "TAB",
		"out\nx.csv":       "line break",
		"out\r.csv":        "line break",
		"a\x00.csv":        "NUL",
		"a\x1b.csv":        "U+001B",
		"C:\\x\u0085y.csv": "single quotes",
	} {
		if got, err := Expand(in, time.Now(), Vars{}); err == nil || got != "" || !strings.Contains(err.Error(), part) {
			t.Errorf("Expand(%q) = %q, %v, want something about %q", in, got, err, part)
		}
		if err := ValidPath(in); (err == nil) != (in == "{job}.csv" || in == "{account}.csv") {
			t.Errorf("ValidPath(%q) = %v", in, err)
		}
	}
	if err := ValidPath("{date}-{time}-{job}-{account}-{run}.csv"); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		if err := ValidPath(`C:\out\a:b.csv`); err == nil {
			t.Error("a hidden part of another file is accepted")
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("out/{job}.csv", "CON", "msp")
	f.Add("{account}{job}/{job}", "..", "a.")
	f.Add("{{{job}}}", "x/y", `\`)
	f.Fuzz(func(t *testing.T, template, job, account string) {
		got, err := Expand(template, time.Unix(1741219200, 0), Vars{Job: job, Account: account, Run: "r"})
		if err != nil {
			if got != "" {
				t.Fatalf("Expand(%q) = %q and an error", template, got)
			}
			return
		}
		parts := func(s string) int { return strings.Count(s, "/") + strings.Count(s, `\`) }
		if parts(got) != parts(template) {
			t.Fatalf("Expand(%q) with %q and %q = %q: the folder changed", template, job, account, got)
		}
		// A job whose whole folder or name is a placeholder stays where it is.
		if single, err := Expand("out/{job}/x", time.Unix(0, 0), Vars{Job: job}); err == nil {
			if dir := filepath.Dir(filepath.Dir(filepath.Clean(single))); dir != "out" {
				t.Fatalf("{job} = %q leads to %q", job, single)
			}
		}
	})
}
