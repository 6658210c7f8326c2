package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// liveStatus is what a working run publishes of itself every second, for other
// processes to look at.
type liveStatus struct {
	At          time.Time  `json:"at"`
	PID         int        `json:"pid"`
	Host        string     `json:"host"`
	Stage       string     `json:"stage"`
	Began       time.Time  `json:"began"` // this process with this run
	Items       int        `json:"items"` // known so far
	Settled     int        `json:"settled"`
	Failed      int        `json:"failed"`
	InFlight    int        `json:"in_flight"`
	SecondsLeft *float64   `json:"seconds_left"` // null while not known
	PausedBy    *string    `json:"paused_by"`    // null while not paused by a person
	PausedSince *time.Time `json:"paused_since"`
	DownUntil   *time.Time `json:"down_until"` // the service is away; the next try
	Rate        rateInfo   `json:"rate"`
}

// rateInfo is the state of the throttle.
type rateInfo struct {
	Profile      string       `json:"profile"`
	Model        string       `json:"model"` // modern or legacy
	Window       float64      `json:"window_seconds"`
	CutOff       float64      `json:"cut_off"`
	Reserve      float64      `json:"reserve"` // share of every limit left to others
	Max          string       `json:"max"`     // own requests of all kinds, as 300/60s; off for no bound
	Waiting      int          `json:"waiting"`
	InFlight     int          `json:"in_flight"`
	Blocked      *string      `json:"blocked"` // why everything is closed
	BlockedUntil *time.Time   `json:"blocked_until"`
	Calibrations int          `json:"calibrations"`
	Limited      int          `json:"answers_429"`
	Blocks       int          `json:"blocks"`
	Held         float64      `json:"held_seconds"`
	Paused       float64      `json:"paused_seconds"` // of the pause budget
	MaxPause     float64      `json:"max_pause_seconds"`
	Buckets      []bucketLive `json:"buckets"`
}

// bucketLive is one quota of the account as the throttle sees it.
type bucketLive struct {
	Name        string     `json:"name"`
	Limit       int        `json:"limit"`
	Own         int        `json:"own"`
	Peers       int        `json:"peers"` // requests of other runs on this machine
	Others      int        `json:"others"`
	Reported    int        `json:"reported"` // by the server at the last reading
	Utilisation float64    `json:"utilisation"`
	Delay       float64    `json:"delay_ms"` // space between two requests
	PausedUntil *time.Time `json:"paused_until"`
	Reason      *string    `json:"reason"` // why it is closed or slowed down
	NextReading *time.Time `json:"next_calibration"`
	Why         *string    `json:"why"`
	Stable      int        `json:"stable"`
}

// rateInfoOf makes the status of a limiter printable.
func rateInfoOf(s throttle.Status) rateInfo {
	out := rateInfo{
		Profile: s.Profile, Model: s.Model, Window: s.Window.Seconds(), CutOff: s.CutOff,
		Reserve: s.Reserve, Max: rateText(s.Max, s.MaxPer), Waiting: s.Waiting, InFlight: s.InFlight,
		Blocked: textOrNil(s.Blocked), BlockedUntil: timeOrNil(s.BlockedUntil),
		Calibrations: s.Calibrations, Limited: s.Limited, Blocks: s.Blocks,
		Held: s.Held.Seconds(), Paused: s.Paused.Seconds(), MaxPause: s.MaxPause.Seconds(),
	}
	for _, b := range s.Buckets {
		out.Buckets = append(out.Buckets, bucketLive{
			Name: b.Name, Limit: b.Limit, Own: b.Own, Peers: b.Peers, Others: b.Others, Reported: b.Reported, Utilisation: b.Utilisation,
			Delay: float64(b.Delay) / float64(time.Millisecond), PausedUntil: timeOrNil(b.PausedUntil), Reason: textOrNil(b.Reason),
			NextReading: timeOrNil(b.NextCalibration), Why: textOrNil(b.Why), Stable: b.Stable,
		})
	}
	return out
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// live returns what a run at work last published; nil when there is nothing, or
// only something of an earlier process.
func (s *state) live(ctx context.Context, r checkpoint.Run) (*liveStatus, error) {
	data, _, ok, err := s.store.Live(ctx, r.ID)
	if err != nil || !ok {
		return nil, err
	}
	var l liveStatus
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, nil //nolint:nilerr // of another version of the program
	}
	if l.PID != r.PID || l.Host != r.Host {
		return nil, nil
	}
	return &l, nil
}

// leftText tells a time left in words that are no more exact than it is.
func leftText(p runner.Progress) string {
	if !p.LeftKnown {
		return "time left not known yet"
	}
	if p.TimeLeft < 10*time.Second {
		return "a few seconds left"
	}
	return "about " + roughly(p.TimeLeft) + " left"
}

// roughly is a duration of some seconds or more, to about a tenth.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(5*time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 48*time.Hour:
		d = d.Round(5 * time.Minute)
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Round(24*time.Hour).Hours())/24)
}

// left is leftText of what a run has published.
func (l *liveStatus) left() string {
	p := runner.Progress{LeftKnown: l.SecondsLeft != nil}
	if p.LeftKnown {
		p.TimeLeft = time.Duration(*l.SecondsLeft * float64(time.Second))
	}
	text := leftText(p)
	if l.PausedBy != nil && p.LeftKnown {
		text += " once it goes on"
	}
	return text
}
