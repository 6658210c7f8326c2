package throttle

import "time"

// The processes of one machine that use the same account tell each other what they send. So
// their requests need not be guessed from readings: they are known like own ones, and with
// them make up the part of a window that is ours. What is left of a reading is strangers.

// Share carries the sends of this process to its peers, and theirs to this one. Its methods
// are called while a Limiter is locked: they must return at once and never call it. It does
// not matter if a send is told some tenths of a second late.
type Share interface {
	// Sent tells that one request of a lane was let through, readings included.
	Sent(lane string, at time.Time)
	// Poll returns what the peers have sent and the last call has not returned. The first
	// call returns the whole window.
	Poll(now time.Time) []PeerSend
}

// PeerSend is a number of requests that a peer has sent.
type PeerSend struct {
	Process string // any name that differs between processes
	Lane    string
	At      time.Time // wall clock
	N       int
}

const (
	// peerGrace is how much longer a send of a peer is counted than a window, as part of it:
	// when its answer came, which is what ends it, is not told.
	peerGrace = 120
	// pollEvery is how often a Limiter asks for the sends of peers.
	pollEvery = 100 * time.Millisecond
	// maxPeers bounds what is kept of processes; those that sent last longest ago go first.
	maxPeers = 64
)

// peers is what is known of the other processes in one bucket.
type peers struct {
	sent window
	last map[string]time.Time // of each process
}

// active returns how many peers use the bucket now. One that sends nothing for half a window
// is at its end, or dead.
func (p *peers) active(now time.Time, window time.Duration) (n int) {
	for name, at := range p.last {
		switch silent := now.Sub(at); {
		case silent > window:
			delete(p.last, name)
		case silent <= window/2:
			n++
		}
	}
	return n
}

func (p *peers) add(now, at time.Time, process string, n int) {
	p.sent.enter(now, at.Add(p.sent.length/peerGrace), n)
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	if at.After(p.last[process]) {
		p.last[process] = at
	}
	for len(p.last) > maxPeers {
		oldest := process
		for name, at := range p.last {
			if at.Before(p.last[oldest]) {
				oldest = name
			}
		}
		delete(p.last, oldest)
	}
}

// Hear takes in what peers have sent. Before the first reading, from which the operations are
// known, it is kept until that has come.
func (e *Core) Hear(wall time.Time, sends []PeerSend) {
	now := e.tick(wall)
	if !e.started {
		e.early = append(e.early, sends...)
		return
	}
	for _, s := range sends {
		at := s.At.Round(0).Add(e.skew)
		if s.N < 1 || s.N > maxLimit || now.Sub(at) > e.window {
			continue
		}
		if at.After(now) {
			at = now
		}
		for _, b := range e.bucketsFor(s.Lane) {
			b.peers.add(now, at, s.Process, s.N)
		}
	}
}

// begin ends the time before the first reading.
func (e *Core) begin() {
	e.started = true
	if early := e.early; early != nil {
		e.early = nil
		e.Hear(e.wall(e.now), early)
	}
}

// bucketsFor returns the buckets that a request of a lane is counted in. Those of writes are
// counted as writes on legacy accounts too.
func (e *Core) bucketsFor(lane string) []*bucket {
	if lane == Read {
		return e.all[:1]
	}
	if op := e.byName[lane]; op != nil {
		return []*bucket{e.write.bucket, op}
	}
	return e.all[1:2]
}

// tell notes a request that is being sent, for the peers.
func (e *Core) tell(now time.Time, lane string) {
	if e.cfg.Share != nil {
		e.cfg.Share.Sent(lane, e.wall(now))
	}
}

// listen asks for what peers have sent, at most so often.
func (e *Core) listen(wall time.Time, now bool) {
	if e.cfg.Share == nil || !now && wall.Sub(e.listened) < pollEvery && !wall.Before(e.listened) {
		return
	}
	e.listened = wall
	e.Hear(wall, e.cfg.Share.Poll(wall))
}

// ours returns the requests of this process and of its peers that the server may still count.
func (e *Core) ours(b *bucket, now time.Time) int {
	n := e.mine(b, now) + b.peers.sent.at(now)
	if e.legacy && b == e.read.bucket {
		n += e.write.peers.sent.at(now)
	}
	return n
}

// company returns how many peers use a bucket, and how many requests a second they send.
func (e *Core) company(b *bucket, now time.Time) (n int, rate float64) {
	d := e.window / 6
	n, sent := b.peers.active(now, e.window), b.peers.sent.entered(now, d)
	if e.legacy && b == e.read.bucket {
		n = max(n, e.write.peers.active(now, e.window))
		sent += e.write.peers.sent.entered(now, d)
	}
	return n, float64(sent) / d.Seconds()
}

// fair returns the part of a pace of all peers that is for this process: an equal one, and
// what the peers leave of theirs.
func (e *Core) fair(b *bucket, now time.Time, pace float64) float64 {
	n, rate := e.company(b, now)
	if n == 0 {
		return pace
	}
	return max(pace/float64(n+1), pace-rate)
}
