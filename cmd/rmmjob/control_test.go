package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// listener is a session that listens, without a run behind it, and the clock that it
// goes by.
func listener(t *testing.T, reserve string) (*controls, *time.Time, *bytes.Buffer) {
	t.Helper()
	store, err := checkpoint.Open(t.Context(), filepath.Join(t.TempDir(), "rmmjob.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	now := time.Date(2025, 3, 6, 7, 59, 0, 0, time.Local)
	var stderr bytes.Buffer
	a := &app{env: &env{now: func() time.Time { return now }, getenv: func(string) string { return "" }}, stderr: newStream(&stderr)}
	rec := checkpoint.Run{ID: "r", JobKey: "job", JobName: "job", Created: now}
	if err := store.CreateRun(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	profile, _ := throttle.Lookup("adaptive")
	limiter, err := throttle.New(throttle.Config{
		Profile: profile,
		Probe:   func(context.Context) (throttle.Reading, error) { return throttle.Reading{}, errors.New("no account") },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{app: a, st: &state{store: store, a: a}, rec: rec, limiter: limiter, meter: &meter{app: a}, began: now}
	c := &controls{s: s, began: now, stop: func(error) {}}
	if c.reserve, err = jobs.ParseReserve(reserve); err != nil {
		t.Fatal(err)
	}
	return c, &now, &stderr
}

// TestReserveFollowsTheClock: the share of the hour is in force, until somebody says
// otherwise.
func TestReserveFollowsTheClock(t *testing.T) {
	c, now, _ := listener(t, "08:00-18:00 40%, 22:00-06:00 10%")
	at := func(hour, minute int, want float64) {
		t.Helper()
		*now = time.Date(2025, 3, 6, hour, minute, 0, 0, time.Local)
		c.poll()
		if got := c.s.limiter.Status().Reserve; got != want {
			t.Errorf("%02d:%02d: reserve %v, want %v", hour, minute, got, want)
		}
	}
	at(7, 59, 0)
	at(8, 0, 0.4)
	at(17, 59, 0.4)
	at(18, 0, 0)
	at(23, 0, 0.1)
	at(3, 0, 0.1)
	if _, err := c.s.st.store.PostControl(t.Context(), "r", now.Add(24*time.Hour), controlRate, `{"by":"me","reserve":"off"}`); err != nil {
		t.Fatal(err)
	}
	at(9, 0, 0)
	at(23, 0, 0)
}

// TestControlsOfAnEarlierProcess are not obeyed.
func TestControlsOfAnEarlierProcess(t *testing.T) {
	c, now, stderr := listener(t, "off")
	stopped := false
	c.stop = func(error) { stopped = true }
	for _, verb := range []string{controlPause, controlStop} {
		if _, err := c.s.st.store.PostControl(t.Context(), "r", now.Add(-time.Millisecond), verb, `{"by":"me"}`); err != nil {
			t.Fatal(err)
		}
	}
	c.poll()
	if stopped || c.s.limiter.Status().OnHold || stderr.Len() > 0 {
		t.Errorf("obeyed what was asked of an earlier process: %s", stderr)
	}
	if _, err := c.s.st.store.PostControl(t.Context(), "r", *now, controlPause, `{"by":"me"}`); err != nil {
		t.Fatal(err)
	}
	c.poll()
	if !c.s.limiter.Status().OnHold {
		t.Error("not paused")
	}
}

// TestAskTellsWhenItWasTaken: a status that came between the question and the taking is
// of before, and a view after a change must not show it.
func TestAskTellsWhenItWasTaken(t *testing.T) {
	c, now, _ := listener(t, "off")
	at := now.Add(700 * time.Millisecond)
	done := make(chan struct{})
	var taker sync.WaitGroup
	taker.Go(func() {
		tick := time.NewTicker(askEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_, _ = c.s.st.store.TakeControls(context.Background(), "r", at)
			}
		}
	})
	taken, err := c.s.st.ask(t.Context(), c.s.rec, controlRate, controlArgument{Reserve: "10%"})
	close(done)
	taker.Wait()
	if err != nil || !taken.Equal(at) {
		t.Errorf("taken at %v, %v; want %v", taken, err, at)
	}
}

// TestControlsThatMakeNoSense come from other versions. They are told and left out.
func TestControlsThatMakeNoSense(t *testing.T) {
	c, now, stderr := listener(t, "off")
	for _, ask := range [][2]string{
		{"dance", `{"by":"me"}`},
		{controlRate, `not json`},
		{controlRate, `{"by":"me","profile":"brisk"}`},
		{controlRate, `{"by":"me","profile":"custom","base":"medium","values":{"onset":7}}`},
		{controlRate, `{"by":"me","max":"many"}`},
		{controlRate, `{"by":"me","reserve":"all"}`},
	} {
		before := stderr.Len()
		if _, err := c.s.st.store.PostControl(t.Context(), "r", *now, ask[0], ask[1]); err != nil {
			t.Fatal(err)
		}
		c.poll()
		if said := stderr.String()[before:]; !strings.Contains(said, "left out") {
			t.Errorf("%s %s: said %q", ask[0], ask[1], said)
		}
	}
	if s := c.s.limiter.Status(); s.Profile != "adaptive" || s.Max != 0 || s.Reserve != 0 {
		t.Errorf("something has changed: %+v", s)
	}
	c.obey(checkpoint.Control{Verb: controlRate, Argument: `{"by":"me","profile":"custom","base":"medium","values":{"onset":0.4}}`})
	if s := c.s.limiter.Status(); s.Profile != "custom" {
		t.Errorf("profile %s, want custom", s.Profile)
	}
}

// TestPublish: what a run tells of itself can be read again, whole.
func TestPublish(t *testing.T) {
	c, now, _ := listener(t, "25%")
	c.s.meter.observe(runner.Progress{Stage: jobs.StageApply, Items: 10, Settled: 4, Failed: 1, InFlight: 2, TimeLeft: time.Minute, LeftKnown: true})
	c.poll()
	c.pause("me")
	c.poll()
	data, at, ok, err := c.s.st.store.Live(t.Context(), "r")
	if err != nil || !ok || !at.Equal(*now) {
		t.Fatalf("live at %v, %v, %v", at, ok, err)
	}
	var l liveStatus
	if err := json.Unmarshal(data, &l); err != nil {
		t.Fatal(err)
	}
	if l.Items != 10 || l.Settled != 4 || l.Failed != 1 || l.InFlight != 2 || l.SecondsLeft == nil || *l.SecondsLeft != 60 {
		t.Errorf("progress %+v", l)
	}
	if l.PausedBy == nil || *l.PausedBy != "me" || l.PausedSince == nil || l.Rate.Reserve != 0.25 || l.Rate.Max != "off" || len(l.Rate.Buckets) < 2 {
		t.Errorf("live %s", data)
	}
	if got := l.left(); got != "about 60 s left once it goes on" {
		t.Errorf("left %q", got)
	}
	c.goOn("me")
	c.publish()
	data, _, _, _ = c.s.st.store.Live(t.Context(), "r")
	if strings.Contains(string(data), `"paused_by":"me"`) || c.s.limiter.Status().OnHold {
		t.Errorf("still paused: %s", data)
	}
}

func TestLeftText(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		want string
	}{
		{0, "a few seconds left"},
		{9 * time.Second, "a few seconds left"},
		{42 * time.Second, "about 40 s left"},
		{119 * time.Second, "about 120 s left"},
		{2 * time.Minute, "about 2 min left"},
		{59*time.Minute + 29*time.Second, "about 59 min left"},
		{64 * time.Minute, "about 1 h 05 min left"},
		{26 * time.Hour, "about 26 h 00 min left"},
		{75 * time.Hour, "about 3 days left"},
	} {
		if got := leftText(runner.Progress{TimeLeft: c.left, LeftKnown: true}); got != c.want {
			t.Errorf("%v: %q, want %q", c.left, got, c.want)
		}
	}
	if got := leftText(runner.Progress{}); got != "time left not known yet" {
		t.Errorf("not known: %q", got)
	}
}
