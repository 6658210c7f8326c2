package throttle

import (
	"slices"
	"time"
)

// lane is the queue of the requests of one kind.
type lane struct {
	name  string
	write bool
	op    *bucket // nil for reads and for operations that the server does not list
	queue []*Ticket
	last  time.Time
	left  int // requests that are still to come, those in the queue included; below 0: unknown
}

// Ticket is one request that waits in a lane, then one that is in flight.
type Ticket struct {
	lane    *lane
	seq     uint64
	granted bool
	ended   bool // answered, cancelled or refused
	ready   chan struct{}
	err     error // why it was refused

	at       time.Time // when it was granted
	main, op *bucket   // the buckets that it touches; op may be nil
	before   [3]time.Time
	first    bool // it is the one request that tries the gate after a stop
}

// touched returns the buckets that a request of l touches; the second may be nil.
func (e *Core) touched(l *lane) (*bucket, *bucket) {
	if !l.write || e.legacy {
		return e.read.bucket, nil
	}
	return e.write.bucket, l.op
}

// decision is the answer to: when may the next request of this lane be sent?
type decision struct {
	at     time.Time     // not before this; zero if that hangs on an answer or a reading
	space  time.Duration // delay behind it
	paused *stop         // the stop that closes the lane
	full   *bucket       // the bucket at the cut-off for which no pause has begun yet
}

func (d decision) open(now time.Time) bool { return !d.at.IsZero() && !now.Before(d.at) }

// decide changes nothing.
func (e *Core) decide(now time.Time, l *lane) decision {
	if e.control.onHold {
		return decision{}
	}
	if e.block.cause != "" {
		return decision{paused: &e.block}
	}
	if e.stale != "" {
		return decision{} // a reading is awaited
	}
	d := decision{at: now}
	main, op := e.touched(l)
	for _, b := range []*bucket{main, op} {
		if b == nil {
			continue
		}
		if b.stop.cause != "" {
			return decision{paused: &b.stop}
		}
		r := e.pacing.room(e, b, now)
		if r.full {
			return decision{full: b}
		}
		if b.entry.state == entrySent {
			return decision{} // the first answer after a stop is awaited
		}
		d.after(b.last, max(r.space, b.entry.space(now, b.limit, e.window)))
		if r.until.After(d.at) {
			d.at = r.until
		}
		if r := e.reserved(b, now); r.until.After(d.at) {
			d.at = r.until
		} else {
			d.after(b.last, r.space)
		}
	}
	if at, space := e.control.next(now); at.After(d.at) {
		d.at, d.space = at, max(d.space, space)
	}
	if l.write && l.op == nil && !e.legacy {
		space := time.Duration(e.profile.UnknownOperationSafetyFactor * float64(e.profile.DelayMultiplier))
		d.after(l.last, space)
	}
	return d
}

// pausedBy returns the stop that closes a lane, without more of a decision than that takes.
func (e *Core) pausedBy(now time.Time, l *lane) *stop {
	main, op := e.touched(l)
	if e.block.cause == "" && main.stop.cause == "" && (op == nil || op.stop.cause == "") {
		return nil
	}
	return e.decide(now, l).paused
}

// after moves the decision to space after last, if that is later.
func (d *decision) after(last time.Time, space time.Duration) {
	d.space = max(d.space, space)
	if at := last.Add(space); at.After(d.at) {
		d.at = at
	}
}

// Lane returns the lane of the request.
func (t *Ticket) Lane() string { return t.lane.name }

// Err returns why the request was refused, nil if it was not.
func (t *Ticket) Err() error { return t.err }

// Enqueue puts a request at the end of its lane.
func (e *Core) Enqueue(wall time.Time, name string) *Ticket {
	e.tick(wall)
	l := e.laneOf(name)
	e.seq++
	t := &Ticket{lane: l, seq: e.seq}
	l.queue = append(l.queue, t)
	e.waiting++
	return t
}

func (e *Core) laneOf(name string) *lane {
	if l := e.lanes[name]; l != nil {
		return l
	}
	l := &lane{name: name, write: name != Read, op: e.byName[name], left: -1}
	e.lanes[name] = l
	e.order = append(e.order, l)
	return l
}

// nextOpen returns the lane whose oldest request may be sent now and came first, or nil.
// A pause that has become necessary begins here, when somebody wants to send.
func (e *Core) nextOpen(now time.Time) (best *lane, then decision) {
	for _, l := range e.order {
		if len(l.queue) == 0 {
			continue
		}
		d := e.decide(now, l)
		if d.full != nil {
			e.pauseFull(now, d.full)
			continue
		}
		if d.open(now) && (best == nil || l.queue[0].seq < best.queue[0].seq) {
			best, then = l, d
		}
	}
	return best, then
}

// grant sends the oldest request of a lane.
func (e *Core) grant(now time.Time, l *lane, d decision) *Ticket {
	t := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	e.waiting--
	l.left = max(l.left-1, min(l.left, 0))
	t.granted, t.at = true, now
	t.main, t.op = e.touched(l)
	e.book(now, t)
	tr := e.trackOf(l)
	tr.since++
	if d.space > 0 {
		tr.stable = 0
	}
	sent := Point{
		Delay: d.space, ReadUtilisation: e.pacing.use(e, e.read.bucket, now), WriteUtilisation: e.pacing.use(e, e.write.bucket, now),
	}
	if l.write {
		sent.Writes = 1
	} else {
		sent.Reads = 1
	}
	e.line.point(now).join(sent)
	return t
}

// book enters a request that is being sent into its buckets. Own writes are counted in
// the write bucket on legacy accounts too, so that nothing moves when one is recognised.
func (e *Core) book(now time.Time, t *Ticket) {
	t.before = [3]time.Time{t.main.last, {}, t.lane.last}
	t.main.last, t.lane.last = now, now
	e.control.note(now)
	e.tell(now, t.lane.name)
	e.counted(t).inFlight++
	t.first = t.main.entry.try()
	if t.op != nil {
		t.before[1] = t.op.last
		t.op.last = now
		t.op.inFlight++
		t.first = t.op.entry.try() || t.first
	}
}

// counted returns the bucket that holds the count of a request.
func (e *Core) counted(t *Ticket) *bucket {
	if t.lane.write {
		return e.write.bucket
	}
	return e.read.bucket
}

// unbook takes a request out of flight. If it never reached the server, its slot is free
// again at once, unless a later request has been paced after it.
func (e *Core) unbook(now time.Time, t *Ticket, reached bool) {
	t.ended = true
	for _, b := range []*bucket{e.counted(t), t.op} {
		if b == nil {
			continue
		}
		b.inFlight--
		if reached {
			b.own.add(now, 1)
			b.flow.add(e.active)
		}
	}
	if reached {
		return
	}
	e.control.unsent(now, t.at)
	lasts := []*time.Time{&t.main.last, nil, &t.lane.last}
	if t.op != nil {
		lasts[1] = &t.op.last
	}
	for i, last := range lasts {
		if last != nil && last.Equal(t.at) {
			*last = t.before[i]
		}
	}
	e.tried(now, t, false)
}

// tried tells the buckets that t tried after a stop how it went.
func (e *Core) tried(now time.Time, t *Ticket, good bool) {
	if !t.first {
		return
	}
	t.main.entry.tried(now, good, e.pacing.ramp(e))
	if t.op != nil {
		t.op.entry.tried(now, good, e.pacing.ramp(e))
	}
}

// Cancel withdraws a request that waits or that was granted and not sent after all.
func (e *Core) Cancel(wall time.Time, t *Ticket) {
	now := e.tick(wall)
	switch {
	case t.ended:
	case t.granted:
		e.unbook(now, t, false)
	default:
		t.ended = true
		i := slices.Index(t.lane.queue, t)
		t.lane.queue = slices.Delete(t.lane.queue, i, i+1)
		e.waiting--
	}
}

// String describes a lane for messages.
func (l *lane) String() string {
	if !l.write {
		return "reads"
	}
	return "writes of " + l.name
}
