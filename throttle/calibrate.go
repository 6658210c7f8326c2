package throttle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Reading is what the server says about the use of the account, by all its programs
// together. It comes from GET /v2/system/request_rate, which counts as a read itself.
// Values out of all sense are replaced by safe ones.
type Reading struct {
	Window time.Duration // length of the rolling window; 60 s where it is missing
	Limit  int           // reads per window
	Count  int
	// HasWrite tells whether the answer had the fields of the write bucket. Without
	// them, or with a limit of 0, the account has one bucket for everything.
	HasWrite   bool
	WriteLimit int
	WriteCount int
	CutOff     float64 // share of a limit from which answers are held back; usually 0.9
	Ops        map[string]OpReading
}

// OpReading is the use of the bucket of one write operation.
type OpReading struct{ Limit, Count int }

// ProbeError is what Config.Probe may return if the server answered, but not with a
// reading, so that a 429 or a block met by a reading is treated as one. Any other error
// counts as a request whose fate is not known.
type ProbeError struct {
	Result Result
	Err    error
}

func (e *ProbeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ProbeError) Unwrap() error { return e.Err }

// What is assumed until the server has said something better.
const (
	fallbackLimit  = 600
	fallbackCutOff = 0.9
	fallbackWindow = time.Minute
	maxLimit       = 1_000_000
	maxRetryWait   = 5 * time.Minute // between readings that fail
)

// track is the calibration state of reads or of writes. One reading refreshes both.
type track struct {
	*bucket
	tried   time.Time // when the last reading was asked for or came
	since   int       // own requests since then
	stable  int       // stable calibrations in a row
	urgent  string    // why a reading is due at once
	slow    latencies
	pressed float64 // share of the last time in which requests have waited

	// Of the window model:
	began    time.Time     // when others moved last
	interval time.Duration // to the next reading, which grows
	next     time.Duration // the same, jittered
}

// wantReading tells whether a reading must be asked for now: because the gate stays
// closed without one, or because one is due.
func (e *Core) wantReading(now time.Time) bool {
	if e.reading || e.waiting == 0 || e.control.onHold {
		return false
	}
	if e.block.cause != "" {
		return e.block.over(now)
	}
	if e.stale != "" {
		return true
	}
	for _, l := range e.order {
		if len(l.queue) == 0 {
			continue
		}
		if s := e.pausedBy(now, l); s != nil && s.over(now) {
			return true
		}
	}
	at, ok := e.nextDue(now)
	return ok && !now.Before(at)
}

// silent tells whether even a reading, which is a read, would make things worse. Then the
// writes must do without.
func (e *Core) silent(now time.Time) bool {
	s := &e.read.stop
	return s.cause == causeLimited && now.Before(s.until)
}

// goOnUnread does without a reading that should have come first. After a gap that means a
// slow beginning, because what was known before it is worth nothing.
func (e *Core) goOnUnread() {
	if e.stale != "" && e.started {
		e.read.entry.begin()
		e.write.entry.begin()
	}
	e.stale = ""
	e.begin()
}

// nextDue returns when the next reading that nobody waits for may be sent: it is due on a
// track that is in use, and takes its turn among the reads.
func (e *Core) nextDue(now time.Time) (at time.Time, ok bool) {
	if e.read.stop.cause != "" {
		return time.Time{}, false
	}
	for _, t := range e.tracks() {
		if !e.inUse(t) {
			continue
		}
		due, _ := e.pacing.due(e, t, now)
		if t.urgent != "" {
			due = now
		}
		if !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	if !ok {
		return at, false
	}
	r := e.pacing.room(e, e.read.bucket, now)
	if slot := e.read.last.Add(r.space); slot.After(at) {
		at = slot
	}
	if slot, _ := e.control.next(now); slot.After(at) {
		at = slot
	}
	return at, !r.full
}

// beginReading counts a reading that is being sent, as the read that it is.
func (e *Core) beginReading(wall time.Time) {
	now := e.tick(wall)
	e.reading, e.asked = true, now
	e.control.note(now)
	e.tell(now, Read)
	e.read.inFlight++
	e.read.last = now
	for _, t := range e.tracks() {
		t.tried, t.since, t.urgent = now, 0, ""
	}
	if e.block.cause != "" {
		e.emit(now, Event{Kind: EventProbe, Text: "one request looks whether the block has ended"})
	}
}

// EndReading takes in the reading that a Step has asked for, or the error that came instead
// of one, which may be a *ProbeError.
func (e *Core) EndReading(wall time.Time, r Reading, err error) { e.endReading(wall, r, err, false) }

// endReading takes in what came of a reading. An abandoned one was ended by us, because
// nobody waited any longer, which says nothing about the server.
func (e *Core) endReading(wall time.Time, r Reading, err error, abandoned bool) {
	now := e.tick(wall)
	e.listen(wall, true)
	e.reading = false
	e.read.inFlight--
	var pe *ProbeError
	known := errors.As(err, &pe)
	if !known || pe.Result.Status != 0 {
		e.read.own.add(now, 1)
		e.readings.add(now, 1)
	}
	switch {
	case err == nil:
		e.take(now, r)
	case abandoned:
		e.read.tried = time.Time{}
	case known:
		e.lost(now, pe.Result, true, err)
	default:
		e.lost(now, Result{}, false, err)
	}
}

// take stores a reading, then looks again at everything that waited for one.
func (e *Core) take(now time.Time, r Reading) {
	e.failed, e.calibrations = 0, e.calibrations+1
	if e.asked.After(e.limitedAt) {
		e.answered()
	}
	e.line.point(now).Calibrations++
	e.adopt(now, r)
	e.findLegacy(now, r)
	seed := e.stale != ""
	fresh := map[*bucket]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.Ops)) {
		if op := r.Ops[name]; op.Limit > 0 {
			b, isNew := e.operation(now, name, op.Limit)
			fresh[b] = isNew
		}
	}
	e.stale = ""
	e.begin()
	e.read.take(now, r.Limit, r.Count, e.ours(e.read.bucket, now), seed)
	e.write.take(now, r.WriteLimit, r.WriteCount, e.ours(e.write.bucket, now), seed)
	for _, b := range e.all[2:] {
		b.reported = 0 // unless it is named again
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ops)) {
		if op := r.Ops[name]; op.Limit > 0 {
			b := e.byName[name]
			b.take(now, op.Limit, op.Count, e.ours(b, now), seed || fresh[b])
		}
	}
	for _, b := range e.all {
		b.stored = float64(max(b.reported, e.local(b, now))) / float64(b.limit)
		b.storedAt = now
	}
	for _, t := range e.tracks() {
		t.tried, t.since = now, 0
		for _, b := range e.bucketsOf(t) {
			e.watchAge(now, b)
		}
		e.pacing.learn(e, t, now, seed)
	}
	e.emit(now, Event{Kind: EventCalibrate, Text: fmt.Sprintf("reads %d of %d, writes %d of %d", e.read.reported, e.read.limit, e.write.reported, e.write.limit)})
	// Only a reading that was asked for after the wait says that it was long enough.
	if e.block.over(e.asked) {
		e.unblock(now)
	}
	for _, b := range e.all {
		if b.stop.over(e.asked) {
			e.reopen(now, b)
		}
	}
}

// adopt takes over window, limits and cut-off as far as they make sense.
func (e *Core) adopt(now time.Time, r Reading) {
	if r.Window >= time.Second && r.Window <= time.Hour && r.Window != e.window {
		e.window = r.Window
		for _, b := range e.all {
			b.own.resize(now, e.window)
			b.seed.resize(now, e.window)
			b.peers.sent.resize(now, e.window)
			e.readings.resize(now, e.window)
		}
	}
	if r.CutOff > 0 && r.CutOff <= 1 {
		e.cutOff = r.CutOff
	}
}

// operation returns the bucket of a write operation, which is new if the server has not
// named it before.
func (e *Core) operation(now time.Time, name string, limit int) (b *bucket, isNew bool) {
	if b = e.byName[name]; b != nil {
		return b, false
	}
	b = newBucket(name, limit, now, e.window)
	b.op = true
	e.byName[name] = b
	e.all = append(e.all, b)
	slices.SortFunc(e.all[2:], func(a, b *bucket) int { return strings.Compare(a.name, b.name) })
	if l := e.lanes[name]; l != nil {
		l.op = b
	}
	return b, true
}

// lost keeps the local state after a reading that brought none: r is what the server
// answered, if that is known. A stop that waited for the reading waits again.
func (e *Core) lost(now time.Time, r Result, known bool, err error) {
	if e.failed++; e.failed == 1 {
		e.emit(now, Event{Kind: EventWarning, Text: fmt.Sprintf("the request rate could not be read, own counts must do until it can: %v", err)})
	}
	for _, t := range e.tracks() {
		t.tried = now
	}
	switch {
	case e.block.cause != "":
		if !e.block.over(e.asked) {
			return
		}
		e.block.close(now, e.block.cause, e.jittered(e.block.longer(max(maxBlockWait, e.cfg.BlockWait))))
		e.emit(now, Event{Kind: EventBlock, Until: e.wall(e.block.until), Text: "still blocked"})
		return
	case known && r.Status == 403 && !r.JSON:
		e.startBlock(now, "a reading was refused with 403")
	case known && r.Status == 429:
		e.limit(now, e.read.bucket, r)
	}
	e.goOnUnread()
	for _, b := range e.all {
		s := &b.stop
		switch {
		case !s.over(e.asked):
		case s.cause == causeLimited && !known:
			_, longest := e.pacing.hold(e, b, now)
			s.close(now, s.cause, e.jittered(s.longer(longest)))
		case s.cause == causeLimited:
			s.until = now.Add(e.cfg.PauseWait)
		default:
			e.reopenUnread(now, b)
		}
	}
}

// latencies notices answers that are a second slower than usual: above its cut-off the
// server holds every answer back for that long.
type latencies struct {
	ring [32]time.Duration
	n    int
	told int // n when it was last noticed
}

// add tells whether three of the last five answers were slow.
func (l *latencies) add(d time.Duration) bool {
	l.ring[l.n%len(l.ring)] = d
	l.n++
	if l.n < 10 || l.n-l.told < 5 {
		return false
	}
	sorted := l.ring
	known := sorted[:min(l.n, len(sorted))]
	slices.Sort(known)
	usual := known[len(known)/2]
	slow := 0
	for i := l.n - 5; i < l.n; i++ {
		if l.ring[i%len(l.ring)] > usual+900*time.Millisecond {
			slow++
		}
	}
	if slow < 3 {
		return false
	}
	l.told = l.n
	return true
}
