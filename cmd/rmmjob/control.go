package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// What other processes ask of a working run goes through the checkpoint: they leave
// a control, and the run looks for them and tells how it is doing every pollEvery.

// pollEvery is how often a run looks for controls and publishes its status.
const pollEvery = time.Second

// The verbs of controls.
const (
	controlPause  = "pause"
	controlResume = "resume"
	controlStop   = "stop"
	controlRate   = "rate"
)

// controlArgument is what a control says beside its verb.
type controlArgument struct {
	By      string             `json:"by"`
	Profile string             `json:"profile,omitempty"`
	Base    string             `json:"base,omitempty"`   // of the profile custom
	Values  map[string]float64 `json:"values,omitempty"` // of the profile custom
	Max     string             `json:"max,omitempty"`    // for jobs.ParseRate
	Reserve string             `json:"reserve,omitempty"`
}

// controls is the part of a session that other processes talk to.
type controls struct {
	s       *session
	stop    context.CancelCauseFunc
	began   time.Time
	host    string
	reserve jobs.Reserve // in force, by the time of day
	share   float64      // of it, the last time

	mu          sync.Mutex
	pausedBy    string
	pausedSince time.Time
}

// listen lets other processes control the run until end is called. The context ends
// when one asks for a stop.
func (s *session) listen(ctx context.Context) (_ context.Context, end func(), err error) {
	c := &controls{s: s, began: s.began}
	c.host, _ = os.Hostname() //nolint:errcheck // for messages only
	if c.reserve, err = jobs.ParseReserve(s.settings.text("throttle.reserve")); err != nil {
		return ctx, nil, err
	}
	most, err := jobs.ParseRate(s.settings.text("throttle.max"))
	if err != nil {
		return ctx, nil, err
	}
	if err := s.limiter.SetMax(most.Requests, most.Per); err != nil {
		return ctx, nil, err
	}
	c.keepReserve()
	ctx, c.stop = context.WithCancelCause(ctx)
	done := make(chan struct{})
	var poller sync.WaitGroup
	poller.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.poll()
			case <-done:
				c.publish() // the last that will be known
				return
			}
		}
	})
	return ctx, func() {
		close(done)
		poller.Wait()
		c.stop(nil)
	}, nil
}

// poll takes what was asked and tells how the run is doing. A checkpoint that fails
// here is no reason to stop: it shows itself at the next item, where nothing is lost.
func (c *controls) poll() {
	store := c.s.st.store
	asked, err := store.TakeControls(context.Background(), c.s.rec.ID, c.s.now())
	if err == nil {
		for _, ask := range asked {
			if ask.At.Before(c.began.Truncate(time.Millisecond)) {
				continue // meant for an earlier process, which has not taken it
			}
			c.obey(ask)
		}
	}
	c.keepReserve()
	c.publish()
}

// obey does what a control asks and tells it: on the terminal and in the history.
func (c *controls) obey(ask checkpoint.Control) {
	var arg controlArgument
	if err := json.Unmarshal([]byte(ask.Argument), &arg); err != nil {
		c.tell("a control that cannot be read was left out")
		return
	}
	switch ask.Verb {
	case controlPause:
		c.pause(arg.By)
	case controlResume:
		c.goOn(arg.By)
	case controlStop:
		c.tell("stopped by " + arg.By)
		c.stop(errors.New("stopped by " + arg.By))
	case controlRate:
		if err := c.change(arg); err != nil {
			c.tell(fmt.Sprintf("the change of the rate by %s was left out: %v", arg.By, err))
		}
	default:
		c.tell(fmt.Sprintf("the control %q is unknown to this version and was left out", ask.Verb))
	}
}

func (c *controls) pause(by string) {
	c.mu.Lock()
	already := c.pausedBy != ""
	if !already {
		c.pausedBy, c.pausedSince = by, c.s.now()
	}
	c.mu.Unlock()
	if already {
		return
	}
	c.s.limiter.Hold(true)
	c.s.meter.pause(by)
	c.tell("paused by " + by)
}

func (c *controls) goOn(by string) {
	c.mu.Lock()
	paused := c.pausedBy != ""
	c.pausedBy, c.pausedSince = "", time.Time{}
	c.mu.Unlock()
	if !paused {
		return
	}
	c.s.limiter.Hold(false)
	c.s.meter.pause("")
	c.tell("resumed by " + by)
}

// change sets what a control says of the rate.
func (c *controls) change(arg controlArgument) error {
	if arg.Profile != "" {
		p, ok := throttle.Lookup(arg.Profile)
		if arg.Profile == profileCustom {
			var err error
			if p, err = throttle.Custom(arg.Base, arg.Values); err != nil {
				return err
			}
		} else if !ok {
			return fmt.Errorf("throttle profile %q does not exist", arg.Profile)
		}
		if err := c.s.limiter.SetProfile(p); err != nil {
			return err
		}
		c.tell(fmt.Sprintf("throttle profile %s, by %s", arg.Profile, arg.By))
	}
	if arg.Max != "" {
		r, err := jobs.ParseRate(arg.Max)
		if err != nil {
			return err
		}
		if err := c.s.limiter.SetMax(r.Requests, r.Per); err != nil {
			return err
		}
		c.tell(fmt.Sprintf("max %s, by %s", r, arg.By))
	}
	if arg.Reserve != "" {
		r, err := jobs.ParseReserve(arg.Reserve)
		if err != nil {
			return err
		}
		c.reserve = r
		c.keepReserve()
		c.tell(fmt.Sprintf("reserve %s, by %s", r, arg.By))
	}
	return nil
}

// keepReserve lets the limiter follow the time of day.
func (c *controls) keepReserve() {
	share := c.reserve.At(c.s.now().Local())
	if share == c.share {
		return
	}
	if err := c.s.limiter.SetReserve(share); err == nil {
		c.share = share
	}
}

// tell says something on the terminal and in the history of the run.
func (c *controls) tell(text string) {
	now := c.s.now()
	c.s.meter.note(now, text)
	_ = c.s.st.store.AddEvent(context.Background(), c.s.rec.ID, now, "control", text)
}

// publish tells how the run is doing.
func (c *controls) publish() {
	now := c.s.now()
	p := c.s.meter.progress(c.s.limiter)
	l := liveStatus{
		At: now.UTC(), PID: os.Getpid(), Host: c.host, Stage: p.Stage, Began: c.began.UTC(),
		Items: p.Items, Settled: p.Settled, Failed: p.Failed, InFlight: p.InFlight,
		DownUntil: timeOrNil(p.HoldUntil), Rate: rateInfoOf(c.s.limiter.Status()),
	}
	if p.LeftKnown {
		left := p.TimeLeft.Seconds()
		l.SecondsLeft = &left
	}
	c.mu.Lock()
	if c.pausedBy != "" {
		by := c.pausedBy
		l.PausedBy, l.PausedSince = &by, timeOrNil(c.pausedSince)
	}
	c.mu.Unlock()
	data, err := json.Marshal(l)
	if err != nil {
		return // made of numbers and texts only
	}
	_ = c.s.st.store.SetLive(context.Background(), c.s.rec.ID, now, data)
}

// rateText is a bound of requests in a stretch of time as people write it.
func rateText(n int, per time.Duration) string { return jobs.Rate{Requests: n, Per: per}.String() }
