package throttle

import (
	"math"
	"time"
)

// Core is the arithmetic of a [Limiter] without its lock, timer and goroutines: every method
// takes the wall clock, and between two calls nothing happens. It is for simulations of
// hours in virtual time; programs use a Limiter, which is a Core with a clock. It is not
// safe for concurrent use.
type Core struct {
	cfg     Config // with the defaults filled in
	profile Profile
	pacing  pacing
	jitter  func() float64 // from 0 to 1

	now   time.Time     // the last time seen, by the Core's own clock
	since time.Time     // the first time seen
	skew  time.Duration // the core's clock minus the wall clock

	window   time.Duration
	cutOff   float64
	legacy   bool
	read     *track
	write    *track
	all      []*bucket // read, write, then the operations
	byName   map[string]*bucket
	lanes    map[string]*lane
	order    []*lane
	waiting  int
	seq      uint64
	held     time.Duration // see Status.Held
	spent    time.Duration // pauses so far
	slept    time.Duration // while requests waited and nothing was seen
	active   time.Duration // time in which something could be sent
	readings window        // own readings, which are part of the reads too
	pausedTo time.Time     // until when waiting requests are held by a pause

	reading bool          // a reading is on its way
	stale   string        // why nothing may be sent before a reading; empty if it may
	started bool          // the first reading is over
	asked   time.Time     // when the last reading was asked for
	failed  int           // readings in a row that brought nothing
	age     time.Duration // of the counts in a reading, as far as it has shown

	control control

	early    []PeerSend // heard before the first reading
	listened time.Time  // when peers were asked last, by the wall clock

	block     stop
	limitedAt time.Time       // of the last 429 that no good answer has followed
	streak    string          // lane of the last answer, if that was a 403 of the API
	forbidden map[string]bool // lanes whose 403s were taken for a block and were none
	refusing  bool            // the exhausted budget has been announced

	calibrations, refusals, blockedTimes int
	line                                 timeline
	events                               []Event
}

// gapLimit is the silence after which the account is read before anything is sent. While
// requests wait, step is called every nap, so that a longer silence means that the
// machine slept or the clock was set.
const (
	gapLimit = 30 * time.Second
	nap      = 10 * time.Second
)

func newCore(cfg Config) *Core {
	e := &Core{
		cfg:       cfg,
		window:    fallbackWindow,
		cutOff:    fallbackCutOff,
		byName:    map[string]*bucket{},
		lanes:     map[string]*lane{},
		forbidden: map[string]bool{},
		legacy:    cfg.Legacy == LegacyOn,
		stale:     "the first reading is awaited",
		jitter:    cfg.Random,
	}
	e.read = &track{bucket: newBucket("reads", fallbackLimit, time.Unix(0, 0), e.window)}
	e.write = &track{bucket: newBucket("writes", fallbackLimit, time.Unix(0, 0), e.window)}
	e.readings.resize(time.Unix(0, 0), e.window)
	e.all = []*bucket{e.read.bucket, e.write.bucket}
	e.profile, e.pacing = cfg.Profile, pacingOf(cfg.Profile)
	return e
}

// setProfile changes the pacing; counts, stops and what was learnt stay.
func (e *Core) setProfile(wall time.Time, p Profile) {
	now := e.tick(wall)
	e.profile, e.pacing = p, pacingOf(p)
	if _, ok := e.pacing.(model); ok && e.started {
		e.distrust("the profile was changed")
	}
	e.warnCustom(now)
}

func (e *Core) warnCustom(now time.Time) {
	if base := e.profile.Base; base != "" {
		e.emit(now, Event{Kind: EventWarning, Text: "custom throttle values on top of " + base + " are in use; they are not known to be safe"})
	}
}

func (e *Core) tracks() [2]*track { return [2]*track{e.read, e.write} }
func (e *Core) wall(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-e.skew)
}

func (e *Core) emit(now time.Time, ev Event) {
	ev.At = e.wall(now)
	e.events = append(e.events, ev)
}

// tick moves the core's clock. It follows the wall clock without the monotonic part,
// which stands still while a machine sleeps; it never goes back, so that a clock that is
// set back makes no old entry last for hours.
func (e *Core) tick(wall time.Time) time.Time {
	now := wall.Round(0).Add(e.skew)
	if e.now.IsZero() {
		e.now, e.since = now, now
		e.warnCustom(now)
		return now
	}
	passed := now.Sub(e.now)
	switch {
	case passed < 0:
		e.skew -= passed
		now = e.now
		if passed < -time.Second {
			e.distrust("the clock was set back")
		}
	case passed > gapLimit:
		e.distrust("nothing was seen for " + passed.Round(time.Second).String())
		if e.waiting > 0 && !e.control.onHold {
			e.slept += passed
		}
	default:
		e.account(now, passed)
	}
	e.now = now
	return now
}

// distrust asks for a reading before the next request.
func (e *Core) distrust(why string) {
	if e.stale == "" {
		e.stale = "a reading is awaited, " + why
	}
}

// pressure is over which time it is looked whether requests wait or workers are missing.
const pressure = 20 * time.Second

// account adds up the time that requests have been held since the last tick.
func (e *Core) account(now time.Time, passed time.Duration) {
	if e.control.onHold {
		return
	}
	if !now.Before(e.pausedTo) {
		e.active += passed
	}
	keep := math.Exp(-passed.Seconds() / pressure.Seconds())
	for _, t := range e.tracks() {
		t.pressed *= keep
		if e.inUse(t) {
			e.held += passed
			t.pressed += 1 - keep
		}
	}
	if paused := min(passed, e.pausedTo.Sub(e.now)); paused > 0 {
		e.spent += paused
		e.line.point(now).Paused += paused
	}
}

// inUse tells whether requests of a track are waiting.
func (e *Core) inUse(t *track) bool {
	for _, l := range e.order {
		if len(l.queue) > 0 && e.trackOf(l) == t {
			return true
		}
	}
	return false
}

// Move is what a [Core.Step] has decided.
type Move struct {
	Granted []*Ticket // may be sent now; each must be ended with Done or Cancel
	Refused []*Ticket // will not be let through; their Err says why
	Probe   bool      // a reading must be made now, and EndReading be called with it
	Wake    time.Time // when to call Step again if nothing happens before; zero if nobody waits
}

// NewCore checks a configuration of which Probe and Event are not used.
func NewCore(cfg Config) (*Core, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return newCore(cfg), nil
}

// Step grants everything that may be sent now. It is to be called after each other call.
func (e *Core) Step(wall time.Time) Move {
	now := e.tick(wall)
	e.listen(wall, false)
	var out Move
	if e.silent(now) && e.block.cause == "" {
		e.goOnUnread()
		for _, b := range e.all[1:] {
			if b.stop.over(now) {
				e.reopenUnread(now, b)
			}
		}
	}
	if e.wantReading(now) {
		e.beginReading(wall)
		out.Probe = true
	}
	// While a reading is on its way one request stays behind, so that there is always
	// somebody who waits for it and ends it when he gives up.
	for e.waiting > 1 || e.waiting == 1 && !e.reading {
		l, d := e.nextOpen(now)
		if l == nil {
			break
		}
		out.Granted = append(out.Granted, e.grant(now, l, d))
	}
	out.Refused = e.refuse(now)
	out.Wake = e.wall(e.nextWake(now))
	return out
}

// refuse ends the waiting of lanes that are closed for longer than the pause budget
// allows, and notes until when the others are paused.
func (e *Core) refuse(now time.Time) (refused []*Ticket) {
	e.pausedTo = time.Time{}
	if e.control.onHold {
		return nil
	}
	for _, l := range e.order {
		if len(l.queue) == 0 {
			continue
		}
		s := e.pausedBy(now, l)
		if s == nil {
			continue
		}
		need := s.until.Sub(now)
		if need <= min(maxRetryAfter, e.cfg.MaxPause-e.spent) || need <= 0 {
			if s.until.After(e.pausedTo) {
				e.pausedTo = s.until
			}
			continue
		}
		err := &ExhaustedError{Lane: l.String(), Cause: s.cause, Wait: need, Spent: e.spent, Max: e.cfg.MaxPause}
		if !e.refusing {
			e.refusing = true
			e.emit(now, Event{Kind: EventWarning, Lane: l.name, Until: e.wall(s.until), Text: err.Error()})
		}
		for _, t := range l.queue {
			t.ended, t.err = true, err
		}
		refused = append(refused, l.queue...)
		e.waiting -= len(l.queue)
		l.queue = nil
	}
	return refused
}

// nextWake returns when something can change without a call from outside.
func (e *Core) nextWake(now time.Time) time.Time {
	if e.waiting == 0 {
		return time.Time{}
	}
	wake := now.Add(nap)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(wake) {
			wake = t
		}
	}
	for _, l := range e.order {
		if len(l.queue) == 0 {
			continue
		}
		d := e.decide(now, l)
		sooner(d.at)
		if d.paused != nil {
			sooner(d.paused.until)
		}
	}
	if at, ok := e.nextDue(now); ok && !e.reading {
		sooner(at)
	}
	return wake
}

// Events returns what has happened since the last call, oldest first.
func (e *Core) Events() []Event {
	events := e.events
	e.events = nil
	return events
}
