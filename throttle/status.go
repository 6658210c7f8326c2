package throttle

import (
	"slices"
	"time"
)

// Event is something worth telling a person. Text is one line for people.
type Event struct {
	At    time.Time
	Kind  string
	Lane  string    // the bucket or lane that it is about; empty for all
	Until time.Time // for stops: when it will be looked at again
	Text  string
}

// The kinds of events.
const (
	EventPause     = "pause"     // a bucket is at the cut-off and closed for a while
	EventResume    = "resume"    // a stop has ended
	EventLimited   = "429"       // the server has refused requests, the bucket is closed
	EventBlock     = "block"     // the address or account is blocked, everything is closed
	EventProbe     = "probe"     // one request looks whether a block has ended
	EventCalibrate = "calibrate" // a reading was taken in
	EventLegacy    = "legacy"    // the account was recognised as a legacy one
	EventWarning   = "warning"   // anything else that should be known
)

// Status is a snapshot of a Limiter. Times are wall clock.
type Status struct {
	At       time.Time
	Profile  string
	Model    string // modern or legacy
	Window   time.Duration
	CutOff   float64        // share of a limit
	Buckets  []BucketStatus // reads, writes, then operations by name
	Waiting  int
	InFlight int

	OnHold    bool          // by [Limiter.Hold]
	HeldSince time.Time     // zero while not on hold
	Reserve   float64       // share of every limit that is left to others, by [Limiter.SetReserve]
	Max       int           // own requests of all lanes in MaxPer, by [Limiter.SetMax]; 0 for no bound
	MaxPer    time.Duration // 0 with Max

	Blocked      string    // why everything is closed; empty if it is not
	BlockedUntil time.Time // when one probe will look

	Calibrations int // readings taken in
	Limited      int // answers with 429
	Blocks       int
	Held         time.Duration // see [Limiter.Held]
	Paused       time.Duration // of the pause budget
	MaxPause     time.Duration
	Timeline     []Point // oldest first
}

// BucketStatus is the state of one quota.
type BucketStatus struct {
	Name        string
	Limit       int
	Own         int // own requests in the window, those in flight included
	Peers       int // requests in the window of other processes of this machine, as they tell
	Others      int // of all others, by the last calibration
	Reported    int // what the server reported then
	Utilisation float64
	Delay       time.Duration // space between two requests now
	PausedUntil time.Time     // zero while open
	Reason      string        // why it is closed or slowed down; empty if it is not

	// Of the calibrations, which reads and writes have and operations share:
	NextCalibration time.Time
	Why             string
	Stable          int // stable calibrations in a row; only of the reference profiles
}

// Point is a piece of the time line. Shares and delay are the highest in it.
type Point struct {
	At               time.Time
	Width            time.Duration
	Reads, Writes    int // own requests
	ReadUtilisation  float64
	WriteUtilisation float64
	Delay            time.Duration
	Paused           time.Duration
	Calibrations     int
	Limited, Blocked int // requests refused with 429, or by a block
}

// timeline keeps the last points; when there are too many, two become one.
type timeline struct {
	width  time.Duration
	points []Point
}

const (
	firstWidth = 10 * time.Second
	maxPoints  = 360
)

// point returns the point that holds t.
func (tl *timeline) point(t time.Time) *Point {
	if tl.width == 0 {
		tl.width = firstWidth
	}
	n := len(tl.points)
	if n > 0 && t.Before(tl.points[n-1].At.Add(tl.width)) {
		return &tl.points[n-1]
	}
	if n == maxPoints {
		tl.merge()
		return tl.point(t)
	}
	tl.points = append(tl.points, Point{At: t.Truncate(tl.width), Width: tl.width})
	return &tl.points[n]
}

func (tl *timeline) merge() {
	tl.width *= 2
	merged := tl.points[:0]
	for _, p := range tl.points {
		p.At, p.Width = p.At.Truncate(tl.width), tl.width
		if n := len(merged); n > 0 && merged[n-1].At.Equal(p.At) {
			merged[n-1].join(p)
		} else {
			merged = append(merged, p)
		}
	}
	tl.points = merged
}

func (p *Point) join(q Point) {
	p.Reads += q.Reads
	p.Writes += q.Writes
	p.ReadUtilisation = max(p.ReadUtilisation, q.ReadUtilisation)
	p.WriteUtilisation = max(p.WriteUtilisation, q.WriteUtilisation)
	p.Delay = max(p.Delay, q.Delay)
	p.Paused += q.Paused
	p.Calibrations += q.Calibrations
	p.Limited += q.Limited
	p.Blocked += q.Blocked
}

// Status returns a snapshot.
func (e *Core) Status(wall time.Time) Status {
	now := e.tick(wall)
	s := Status{
		At: e.wall(now), Profile: e.profile.Name, Model: "modern", Window: e.window, CutOff: e.cutOff,
		Waiting: e.waiting, InFlight: e.read.inFlight + e.write.inFlight,
		Blocked: e.block.cause, Calibrations: e.calibrations, Limited: e.refusals, Blocks: e.blockedTimes,
		Held: e.held, Paused: e.spent, MaxPause: e.cfg.MaxPause, Timeline: slices.Clone(e.line.points),
	}
	if c := &e.control; c.onHold {
		s.OnHold, s.HeldSince = true, e.wall(c.heldSince)
	}
	s.Reserve, s.Max, s.MaxPer = e.control.reserve, e.control.most, e.control.sent.length
	for i := range s.Timeline {
		s.Timeline[i].At = e.wall(s.Timeline[i].At)
	}
	if e.block.cause != "" {
		s.BlockedUntil = e.wall(e.block.until)
	}
	buckets := e.all
	if e.legacy {
		s.Model, buckets = "legacy", e.all[:1]
	}
	for _, b := range buckets {
		s.Buckets = append(s.Buckets, e.bucketStatus(now, b))
	}
	for i, t := range e.tracks() {
		if i < len(s.Buckets) {
			b := &s.Buckets[i]
			b.Stable = t.stable
			at, why := e.pacing.due(e, t, now)
			if t.urgent != "" {
				at, why = now, reason{text: t.urgent}
			}
			b.NextCalibration, b.Why = e.wall(at), why.String()
		}
	}
	return s
}

func (e *Core) bucketStatus(now time.Time, b *bucket) BucketStatus {
	reserve := e.reserved(b, now).space
	space := max(e.pacing.room(e, b, now).space, reserve)
	s := BucketStatus{
		Name: b.name, Limit: b.limit, Own: e.mine(b, now), Peers: e.ours(b, now) - e.mine(b, now), Others: b.others, Reported: b.reported,
		Utilisation: e.pacing.use(e, b, now), Delay: max(space, b.entry.space(now, b.limit, e.window)),
	}
	switch {
	case e.control.onHold:
		s.Reason = "on hold by request"
	case e.block.cause != "":
		s.PausedUntil, s.Reason = e.wall(e.block.until), e.block.cause
	case b.stop.cause != "":
		s.PausedUntil, s.Reason = e.wall(b.stop.until), b.stop.cause
	case e.stale != "":
		s.Reason = e.stale
	case b.entry.state == entrySent:
		s.Reason = "the first answer after a stop is awaited"
	case s.Delay > space:
		s.Reason = "going on slowly after a stop"
	case s.Delay > 0 && s.Delay == reserve:
		s.Reason = "spaced by the reserve for others"
	case e.pacing.room(e, b, now).until.After(now):
		s.Reason = "as full as the profile fills it"
	case s.Delay > 0 && e.profile.Util == 0:
		s.Reason = "spaced by the utilisation"
	case s.Delay > 0:
		s.Reason = "paced by the profile"
	}
	return s
}
