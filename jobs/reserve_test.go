package jobs

import (
	"strings"
	"testing"
	"time"
)

func TestReserve(t *testing.T) {
	for _, c := range []struct {
		text, canon string // "" where it is refused
	}{
		{"40%", "40%"},
		{" 12.5 % ", "12.5%"},
		{"0%", "0%"},
		{"off", "off"},
		{"08:00-18:00 40%", "08:00-18:00 40%"},
		{"08:00-18:00=40%", "08:00-18:00 40%"},
		{"08:00 - 18:00 40%, 18:00-22:30 10%", "08:00-18:00 40%, 18:00-22:30 10%"},
		{"22:00-06:00 20%,06:00-22:00 50%", "22:00-06:00 20%, 06:00-22:00 50%"},
		{"00:00-24:00 30%", "30%"},
		{"18:00-24:00 30%", "18:00-24:00 30%"},
		{"18:00-00:00 30%", "18:00-00:00 30%"},
		{"", ""},
		{"40", ""},
		{"0.4", ""},
		{"96%", ""},
		{"-5%", ""},
		{"1e1%", ""},
		{"08:00-18:00", ""},
		{"8:00-18:00 40%", ""},
		{"08:00-25:00 40%", ""},
		{"24:00-08:00 40%", ""},
		{"08:00-08:00 40%", ""},
		{"08:00-18:00 40%, 17:59-20:00 10%", ""},
		{"22:00-06:00 40%, 05:00-07:00 10%", ""},
		{"22:00-06:00 40%, 23:00-01:00 10%", ""},
		{"08:00-18:00 40%,", ""},
	} {
		r, err := ParseReserve(c.text)
		if (err == nil) != (c.canon != "") {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if err == nil && r.String() != c.canon {
			t.Errorf("%q is %q, want %q", c.text, r, c.canon)
		}
		if err == nil {
			if again, err := ParseReserve(r.String()); err != nil || again.String() != r.String() {
				t.Errorf("%q does not come back: %q, %v", r, again, err)
			}
		}
	}
}

// TestReserveAt looks at every minute of a day that the summer time makes shorter, too.
func TestReserveAt(t *testing.T) {
	r, err := ParseReserve("08:00-18:00 40%, 22:00-06:00 20%")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for start := time.Date(2025, 3, 29, 12, 0, 0, 0, berlin); start.Before(time.Date(2025, 3, 31, 12, 0, 0, 0, berlin)); start = start.Add(time.Minute) {
		want := 0.0
		switch h := start.Hour(); {
		case h >= 8 && h < 18:
			want = 0.4
		case h >= 22 || h < 6:
			want = 0.2
		}
		if got := r.At(start); got != want {
			t.Fatalf("%v: %v, want %v", start, got, want)
		}
	}
	if got := Reserve(nil).At(time.Now()); got != 0 {
		t.Errorf("no reserve is %v", got)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct{ text, canon string }{
		{"300/60s", "300/60s"},
		{"300/1m", "300/60s"},
		{"10/s", "10/1s"},
		{"5000/h", "5000/1h0m0s"},
		{"off", "off"},
		{"", ""},
		{"300", ""},
		{"300/60", ""},
		{"0/60s", ""},
		{"-1/60s", ""},
		{"1/10ms", ""},
		{"1/48h", ""},
		{"1.5/s", ""},
		{"9999999/60s", ""},
	} {
		r, err := ParseRate(c.text)
		if (err == nil) != (c.canon != "") || err == nil && r.String() != c.canon {
			t.Errorf("%q is %q, want %q; %v", c.text, r, c.canon, err)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%q does not come back: %q, %v", r, again, err)
		}
	}
}

func FuzzReserve(f *testing.F) {
	f.Add("40%")
	f.Add("08:00-18:00 40%, 22:00-06:00 20%")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReserve(text)
		if err != nil {
			return
		}
		again, err := ParseReserve(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q gives %q, which gives %q, %v", text, r, again, err)
		}
		for m := range day {
			if s := r.At(time.Date(2025, 1, 1, m/60, m%60, 0, 0, time.UTC)); s < 0 || s > MaxReserve {
				t.Errorf("%q at minute %d is %v", text, m, s)
			}
		}
	})
}

// TestThrottleReserve reads both forms from a job file and points at faults.
func TestThrottleReserve(t *testing.T) {
	const head = "version: 1\nexport: {from: devices, to: x.csv}\nthrottle: "
	for _, c := range []struct{ yaml, reserve, rate, fault string }{
		{"{reserve: 40%, max: 300/60s}", "40%", "300/60s", ""},
		{"{reserve: '08:00-18:00 40%'}", "08:00-18:00 40%", "off", ""},
		{"{reserve: {'08:00-18:00': 40%, '18:00-08:00': 5%}}", "08:00-18:00 40%, 18:00-08:00 5%", "off", ""},
		{"{max: 300}", "", "", `3:17: max: "300" is no rate such as 300/60s`},
		{"{reserve: 0.4}", "", "", `3:21: reserve: "0.4" is no share from 0% to 95%`},
		{"{reserve: [40%]}", "", "", `3:21: reserve: a share such as 40%, or a mapping`},
		{"{reserve: {'08:00-18:00': 99%}}", "", "", `3:37: reserve: "99%" is no share`},
		{"{reserve: {'08:00-18:00': 10%, '17:00-20:00': 20%}}", "", "", `3:42: reserve: 08:00-18:00 and 17:00-20:00 overlap`},
		{"{reserve: {'8-18': 10%}}", "", "", `3:22: reserve: "8-18" is no part of the day`},
		{"{reserve: {}}", "", "", `3:21: reserve: a share such as 40% is needed`},
	} {
		job, err := Parse([]byte(head+c.yaml+"\n"), "job.yaml")
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %s", c.yaml, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", c.yaml, err)
		case job.Throttle.Reserve.String() != c.reserve || job.Throttle.Max.String() != c.rate:
			t.Errorf("%s: reserve %q, max %q", c.yaml, job.Throttle.Reserve, job.Throttle.Max)
		}
	}
}
