package throttle

import "time"

// bucket is one quota of the server: all reads, all writes, or one write operation.
type bucket struct {
	name     string
	op       bool // of one operation, inside the write bucket
	limit    int
	inFlight int    // granted, not yet answered
	own      window // answered, entered when the answer came
	seed     window // what others had sent before the first reading
	peers    peers  // of other processes of this machine

	reported int       // count of the last reading
	others   int       // the part of it that was not ours
	stored   float64   // utilisation by the last calibration, held until the next
	storedAt time.Time // when that was
	last     time.Time // when the last request was sent
	stop     stop
	entry    entry
	flow     flow
	view     // of the window model
}

func newBucket(name string, limit int, now time.Time, length time.Duration) *bucket {
	b := &bucket{name: name, limit: limit}
	b.own.resize(now, length)
	b.seed.resize(now, length)
	b.peers.sent.resize(now, length)
	return b
}

// mine returns the own requests that the server may still count. A request counts from
// its grant until one window after its answer, because the moment in between at which the
// server saw it is not known.
func (b *bucket) mine(now time.Time) int { return b.inFlight + b.own.at(now) }

// take stores what a reading says. On the first reading (seed) the part that is not ours
// enters the local count as well.
func (b *bucket) take(now time.Time, limit, count, ours int, seed bool) {
	if limit > 0 {
		b.limit = min(limit, maxLimit)
	}
	// A count far above the limit is possible after a flood; one beyond all sense is not
	// worth the room it would take.
	b.reported = min(max(count, 0), 10*b.limit)
	b.others = max(0, b.reported-ours)
	if seed {
		b.seed.clear()
		b.seed.spread(now, b.others)
	}
}

// local returns the local count of a bucket. On a legacy account the read bucket holds
// the writes as well.
func (e *Core) local(b *bucket, now time.Time) int {
	return e.ours(b, now) + b.seed.at(now)
}

func (e *Core) mine(b *bucket, now time.Time) int {
	n := b.mine(now)
	if e.legacy && b == e.read.bucket {
		n += e.write.mine(now)
	}
	return n
}

// utilisation returns the share of a bucket that is in use as far as is known: the one of
// the last calibration, or the local one where that has grown beyond it.
func (e *Core) utilisation(b *bucket, now time.Time) float64 {
	return max(b.stored, float64(e.local(b, now))/float64(b.limit))
}
