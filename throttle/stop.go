package throttle

import (
	"fmt"
	"time"
)

// Result is what came back for one request.
type Result struct {
	// Status is the HTTP status, or 0 if the request never reached the server and so
	// used no quota. A request that was sent and never answered may have: give any
	// other number for it, 1 for example.
	Status int
	JSON   bool // the body was JSON, so it came from the API and not from a wall before it
	// RetryAfter is the header of that name. 0 means one second.
	RetryAfter    time.Duration
	HasRetryAfter bool
	// Latency is the time from sending to the answer; 0 means the time since the permit
	// was given. Slow answers are how the platform says that an account is close to its
	// limit.
	Latency time.Duration
}

// Verdict says what a result means for the request. The zero value: the answer is the
// request's own, whatever it is.
type Verdict struct {
	Returned bool // stopped by the limits, to be sent again later; no attempt is spent
	Blocked  bool // by a block of the address or account, not by a 429
}

// ExhaustedError says that waiting any longer is beyond the pause budget. The work that
// is left can be done later.
type ExhaustedError struct {
	Lane  string
	Cause string        // why the lane is closed
	Wait  time.Duration // how long it will stay closed
	Spent time.Duration // pauses so far
	Max   time.Duration // the budget
}

func (e *ExhaustedError) Error() string {
	text := fmt.Sprintf("%s: %s for another %s", e.Lane, e.Cause, e.Wait.Round(time.Second))
	if e.Wait > maxRetryAfter {
		return text + ", which is longer than an hour; resume the run after that"
	}
	return text + fmt.Sprintf(", and %s of the pause budget of %s are spent; resume the run later or raise max_pause",
		e.Spent.Round(time.Second), e.Max)
}

const (
	maxLimitWait  = 10 * time.Minute // a doubled wait after 429 ends here
	maxBlockWait  = 30 * time.Minute // a doubled wait of a block ends here
	maxRetryAfter = time.Hour        // a longer Retry-After is not waited for
)

// The causes of the stops of a bucket. That of a block is its own text.
const (
	causeFull    = "close to the cut-off"
	causeLimited = "rate limited (429)"
)

// stop closes a bucket, or as a block everything, until a time has passed and the bucket
// has been looked at again.
type stop struct {
	cause        string // empty while open
	since, until time.Time
	wait         time.Duration // after a 429 or block, without jitter; doubles when it comes again
	gently       bool          // reopen one by one
	reopened     time.Time     // when the last stop after a 429 or block ended
}

func (s *stop) over(now time.Time) bool { return s.cause != "" && !now.Before(s.until) }

func (s *stop) close(now time.Time, cause string, wait time.Duration) {
	if s.cause == "" {
		s.since = now
	}
	s.cause, s.until = cause, now.Add(wait)
}

func (s *stop) open(now time.Time) {
	if s.gently {
		s.reopened = now
	}
	s.cause, s.gently = "", false
}

// longer doubles the wait up to a limit.
func (s *stop) longer(limit time.Duration) time.Duration {
	s.wait = min(2*s.wait, limit)
	return s.wait
}

// again tells whether a 429 or block now is a repetition of the last one.
func (s *stop) again(now time.Time, calm time.Duration) bool {
	return s.wait > 0 && (s.gently || now.Sub(s.reopened) < calm)
}

// entry is the gentle way back after a stop: one request, and when its answer has come
// spaced ones for a time.
type entry struct {
	state entryState
	until time.Time
}

type entryState int

const (
	entryNone  entryState = iota
	entryFirst            // one request may go
	entrySent             // it is on its way
	entryRamp             // spaced until a time
)

func (en *entry) begin() { en.state = entryFirst }

func (en *entry) try() bool {
	if en.state != entryFirst {
		return false
	}
	en.state = entrySent
	return true
}

// tried takes the answer to the first request: after a bad one there is another first.
func (en *entry) tried(now time.Time, good bool, ramp time.Duration) {
	switch {
	case en.state != entrySent:
	case good:
		en.state, en.until = entryRamp, now.Add(ramp)
	default:
		en.state = entryFirst
	}
}

// space keeps the pace of a ramp at half of what the limit allows.
func (en *entry) space(now time.Time, limit int, window time.Duration) time.Duration {
	if en.state != entryRamp || !now.Before(en.until) {
		return 0
	}
	return 2 * window / time.Duration(limit)
}

// pauseFull closes a bucket at the cut-off.
func (e *Core) pauseFull(now time.Time, b *bucket) {
	b.stop.close(now, causeFull, e.cfg.PauseWait)
	e.emit(now, Event{
		Kind: EventPause, Lane: b.name, Until: e.wall(b.stop.until),
		Text: fmt.Sprintf("%s at %.0f %% of %d, %s", b.name, 100*e.pacing.use(e, b, now), b.limit, causeFull),
	})
}

// reopen looks again at a bucket whose stop is over.
func (e *Core) reopen(now time.Time, b *bucket) {
	if e.pacing.room(e, b, now).full {
		b.stop.close(now, causeFull, e.cfg.PauseWait)
		return
	}
	if b.stop.gently {
		b.entry.begin()
	}
	b.stop.open(now)
	e.emit(now, Event{Kind: EventResume, Lane: b.name, Text: b.name + " go on"})
}

// reopenUnread does it without a reading. What the last one said is void once everything
// that it counted has left the window.
func (e *Core) reopenUnread(now time.Time, b *bucket) {
	if now.Sub(b.storedAt) >= e.window {
		b.stored = 0
	}
	e.reopen(now, b)
}

// jittered makes a wait up to 2 % longer, so that several programs that were stopped
// together do not come back together.
func (e *Core) jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(float64(wait)*0.02*e.jitter())
}

// Done takes in the answer to a request.
func (e *Core) Done(wall time.Time, t *Ticket, r Result) Verdict {
	now := e.tick(wall)
	if t.ended {
		return Verdict{}
	}
	e.unbook(now, t, r.Status != 0)
	if r.Status == 0 {
		return Verdict{}
	}
	v := e.judge(now, t, r)
	e.tried(now, t, !v.Returned)
	latency := r.Latency
	if latency <= 0 {
		latency = now.Sub(t.at)
	}
	if tr := e.trackOf(t.lane); tr.slow.add(latency) {
		tr.urgent = "answers have become slow"
		e.pacing.slow(e, tr, now)
	}
	return v
}

func (e *Core) judge(now time.Time, t *Ticket, r Result) Verdict {
	point := e.line.point(now)
	switch {
	case r.Status == 429:
		point.Limited++
		e.refusals++
		e.limitedAt = now
		if b := e.guilty(now, t); !t.at.Before(b.stop.since) || b.stop.cause != "" {
			e.limit(now, b, r)
		}
		return Verdict{Returned: true}
	case r.Status == 403 && e.blocks(now, t, r):
		point.Blocked++
		return Verdict{Returned: true, Blocked: true}
	case r.Status == 403:
		e.streak = t.lane.name
	default:
		delete(e.forbidden, t.lane.name)
		if t.at.After(e.limitedAt) {
			e.answered()
		}
	}
	return Verdict{}
}

// answered forgets the refusals that would make the next 403 look like a block.
func (e *Core) answered() { e.streak, e.limitedAt = "", time.Time{} }

// guilty returns the bucket that a 429 is about: that of the operation if it is the
// fuller one and the write bucket has room, else the whole track.
func (e *Core) guilty(now time.Time, t *Ticket) *bucket {
	if e.legacy {
		return e.read.bucket // also if the account was not known as one when t was sent
	}
	if t.op == nil {
		return t.main
	}
	if t.op.stop.cause == causeLimited {
		return t.op
	}
	full := e.pacing.room(e, t.main, now).full
	if full || e.pacing.use(e, t.op, now) < e.pacing.use(e, t.main, now) || t.main.stop.cause == causeLimited {
		return t.main
	}
	return t.op
}

// limit closes a bucket after a 429.
func (e *Core) limit(now time.Time, b *bucket, r Result) {
	s := &b.stop
	asked := min(max(r.RetryAfter, time.Second), 24*time.Hour)
	if s.cause == causeLimited && now.Before(s.until) {
		// The answer to a request that was on its way when the bucket closed.
		if until := now.Add(asked); r.HasRetryAfter && until.After(s.until) {
			s.until = until
		}
		return
	}
	wait, longest := e.pacing.hold(e, b, now)
	if r.HasRetryAfter {
		wait = asked
	}
	if s.again(now, e.window) {
		wait = max(wait, s.longer(longest))
	}
	s.wait, s.gently = wait, true
	s.close(now, causeLimited, e.jittered(wait))
	e.emit(now, Event{
		Kind: EventLimited, Lane: b.name, Until: e.wall(s.until),
		Text: fmt.Sprintf("%s are rate limited by the server, nothing is sent for %s", b.name, wait.Round(time.Second)),
	})
}

// blocks tells whether a 403 means that the address or account is blocked, and if so
// closes everything.
func (e *Core) blocks(now time.Time, t *Ticket, r Result) bool {
	if e.block.cause != "" || t.at.Before(e.block.since) {
		return true // sent before the block was seen
	}
	name := t.lane.name
	switch {
	case !r.JSON:
		e.startBlock(now, "403 that does not come from the API")
	case !e.limitedAt.IsZero():
		e.startBlock(now, "403 after a 429")
	case e.streak != "" && e.streak != name && (!e.forbidden[name] || !e.forbidden[e.streak]):
		// If it turns out to be none, these two are just not permitted.
		e.forbidden[name], e.forbidden[e.streak] = true, true
		e.startBlock(now, "403 on different operations in a row")
	default:
		return false
	}
	return true
}

// startBlock closes everything until one probe has been answered.
func (e *Core) startBlock(now time.Time, why string) {
	s := &e.block
	if s.again(now, e.cfg.BlockWait) {
		s.longer(max(maxBlockWait, e.cfg.BlockWait))
	} else {
		s.wait = e.cfg.BlockWait
	}
	s.gently = true
	s.close(now, "blocked ("+why+")", e.jittered(s.wait))
	e.blockedTimes++
	e.emit(now, Event{
		Kind: EventBlock, Until: e.wall(s.until),
		Text: fmt.Sprintf("the server has blocked this address or account (%s), nothing is sent for %s", why, s.wait.Round(time.Second)),
	})
}

// unblock opens everything again, slowly.
func (e *Core) unblock(now time.Time) {
	e.block.open(now)
	e.read.entry.begin()
	e.write.entry.begin()
	e.emit(now, Event{Kind: EventResume, Text: "the block has ended"})
}
