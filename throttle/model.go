package throttle

import (
	"math"
	"time"
)

// model is the pacing of the profiles adaptive, full, neighbour and quick. It keeps a
// picture of each window, own requests and those of others, and fills it up to a share of
// the limit. Its parts, one file each:
//
//   - window.go: own requests, an upper bound of what the server counts of them;
//   - others.go: everybody else, as far as readings show them;
//   - ceiling.go: what may be sent now at most;
//   - pace.go: how fast to go below that, alone and with others;
//   - start.go: bursts into an empty window;
//   - interval.go: when to read the account again;
//   - peers.go: other processes of this machine, which say what they send;
//   - mark.go: what slow answers and 429s say about others;
//   - age.go: how old the counts of a reading are.
type model struct{ Profile }

// view is what the model keeps of a bucket beside the own requests.
type view struct {
	crowd  crowd
	alone  bool
	calm   time.Time // since when no others are heard; zero while they are
	reach  float64   // own may grow to this until the next reading
	start  start
	margin float64 // share of the limit that is left free beyond what the profile says

	pacedAt time.Time // when the pace was worked out
	pace    float64   // requests a second
}

// top is the number of requests that the window is filled up to. Alone it is a little more,
// because own requests are counted for longer than the server does.
func (p model) top(e *Core, b *bucket) float64 {
	util := p.Util
	if b.alone {
		util += 0.015 // of the limit
	}
	top := float64(b.limit) * (min(util, max(e.cutOff, leastCutOff)-0.01) - b.margin)
	return min(max(top, leastTop), float64(b.limit))
}

// A window is filled to so much however low a limit or the server's cut-off may be, or
// readings alone would fill it.
const (
	leastTop    = 3
	leastCutOff = 0.3
)

// full is the rate that keeps the window filled, in requests a second.
func (p model) full(e *Core, b *bucket) float64 { return p.top(e, b) / e.window.Seconds() }

func (p model) room(e *Core, b *bucket, now time.Time) room {
	if p.over(e, b, now) {
		return room{until: now.Add(e.window / slots)}
	}
	p.refresh(e, b, now)
	if b.alone && (b.start.open(e.mine(b, now)) || p.isShort(e, b, now)) {
		return room{}
	}
	return room{space: time.Duration(float64(time.Second) / b.pace)}
}

// refresh works out the pace once in a slot.
func (p model) refresh(e *Core, b *bucket, now time.Time) {
	if now.Sub(b.pacedAt) < e.window/slots && !b.pacedAt.IsZero() {
		return
	}
	if now.Sub(b.crowd.at) > 2*e.window {
		b.alone = false // nothing has been heard for long: the readings fail
	}
	b.pacedAt, b.pace = now, e.fair(b, now, p.paceNow(e, b, now))
}

func (p model) use(e *Core, b *bucket, now time.Time) float64 {
	return (float64(e.ours(b, now)) + b.crowd.expected(now, e.window)) / float64(b.limit)
}

func (p model) learn(e *Core, t *track, now time.Time, fresh bool) {
	moved, alone, free := fresh, true, 1.0
	for _, b := range e.bucketsOf(t) {
		own := float64(e.oursAgo(b, now, e.age))
		x := max(0, float64(b.reported)-own)
		// Those in flight, those of peers that are told late, and those that have left while
		// the reading was on its way, may be in its count or not.
		late := b.peers.sent.entered(now, e.window/peerGrace)
		doubt := 1 + float64(e.flying(b)+e.gone(b, now, now.Sub(e.asked))+late)/2
		if x <= doubt {
			x = 0 // they may be our own
		}
		before := b.crowd.forecast()
		b.margin *= math.Exp(-now.Sub(b.crowd.at).Seconds() / marginLasts.Seconds())
		b.crowd.observe(now.Add(-e.age), x, e.window, fresh)
		p.hear(e, b, now, doubt)
		b.reach = own + p.growth(e, b, own, x)
		p.nextBatch(e, b, now, fresh)
		b.pacedAt = time.Time{}
		if own > 0 {
			moved = moved || math.Abs(b.crowd.forecast()-before) > 0.05*p.full(e, b)
			alone = alone && b.alone
			free = min(free, max(0, p.top(e, b)-own-x)/float64(b.limit))
		}
	}
	p.plan(e, t, now, moved, alone, free)
}

// flying returns the requests in flight that a bucket counts.
func (e *Core) flying(b *bucket) int {
	n := b.inFlight
	if e.legacy && b == e.read.bucket {
		n += e.write.inFlight
	}
	return n
}

// oursAgo returns what ours was a short time ago.
func (e *Core) oursAgo(b *bucket, now time.Time, d time.Duration) int {
	n := b.own.ago(now, d) + b.peers.sent.ago(now, d)
	if e.legacy && b == e.read.bucket {
		n += e.write.own.ago(now, d) + e.write.peers.sent.ago(now, d)
	}
	return n + e.flying(b)
}

// gone returns how many of our requests have left a bucket within the last d.
func (e *Core) gone(b *bucket, now time.Time, d time.Duration) int {
	n := b.own.gone(now, d) + b.peers.sent.gone(now, d)
	if e.legacy && b == e.read.bucket {
		n += e.write.own.gone(now, d) + e.write.peers.sent.gone(now, d)
	}
	return n
}

// leaving returns how many of our requests leave a bucket within d.
func (e *Core) leaving(b *bucket, now time.Time, d time.Duration) int {
	n := b.own.leaving(now, d) + b.peers.sent.leaving(now, d)
	if e.legacy && b == e.read.bucket {
		n += e.write.own.leaving(now, d) + e.write.peers.sent.leaving(now, d)
	}
	return n
}

// schedule returns how many of our requests leave a bucket within each part of a window.
func (e *Core) schedule(b *bucket, now time.Time) (gone [steps + 1]int) {
	b.own.schedule(now, &gone)
	b.peers.sent.schedule(now, &gone)
	if e.legacy && b == e.read.bucket {
		e.write.own.schedule(now, &gone)
		e.write.peers.sent.schedule(now, &gone)
	}
	return gone
}

func (p model) ramp(e *Core) time.Duration { return e.window / 6 }

// few is the share of a limit below which others hardly count for the time left.
const few = 0.05

func (p model) rate(e *Core, b *bucket, now time.Time) (perSecond, fill float64) {
	full := p.full(e, b)
	if b.alone {
		if n, _ := e.company(b, now); n > 0 {
			return e.fair(b, now, full), 0
		}
		return full, p.top(e, b) - b.crowd.expected(now, e.window)
	}
	p.refresh(e, b, now)
	if n := b.crowd.expected(now, e.window); n < few*float64(b.limit) {
		// So few may be gone with the next reading, or never have been there: between the
		// rates with and without them.
		return e.fair(b, now, (1+push/2)/2*full-n/e.window.Seconds()), 0
	}
	others := max(b.crowd.rate, b.crowd.count/e.window.Seconds())
	own := float64(e.mine(b, now)) / e.window.Seconds()
	return max(own, min(b.pace, e.fair(b, now, full-others))), 0
}
