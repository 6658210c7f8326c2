package throttle

import "time"

// LegacyMode says how to tell accounts that have one bucket for reads and writes.
type LegacyMode string

// The modes. The zero value is the same as LegacyAuto.
const (
	LegacyAuto LegacyMode = "auto" // by what the server reports
	LegacyOn   LegacyMode = "on"   // always
	LegacyOff  LegacyMode = "off"  // never
)

// findLegacy looks for the signs of a legacy account in a reading: no write fields, or
// own writes that show in the read counter and not in the write counter. Once found, an
// account stays legacy, which is never too fast.
func (e *Core) findLegacy(now time.Time, r Reading) {
	if e.cfg.Legacy != LegacyAuto || e.legacy {
		return
	}
	if !r.HasWrite || r.WriteLimit <= 0 {
		e.becomeLegacy(now, "the server reports no limit for writes")
		return
	}
	// Fewer than ten writes prove nothing; those in flight may not be counted yet.
	writes := e.write.own.at(now)
	if writes >= 10 && 10*r.WriteCount < 3*writes && r.Count >= e.read.own.at(now)+writes*7/10 {
		e.becomeLegacy(now, "own writes are counted as reads")
	}
}

func (e *Core) becomeLegacy(now time.Time, why string) {
	e.legacy = true
	// Own writes have been taken for reads of others, and missed among the writes.
	e.read.view, e.age = view{}, 0
	e.emit(now, Event{Kind: EventLegacy, Text: "this is a legacy account with one limit for reads and writes together: " + why})
}

// trackOf returns the track that a lane is paced and calibrated by.
func (e *Core) trackOf(l *lane) *track {
	if !l.write || e.legacy {
		return e.read
	}
	return e.write
}

// bucketsOf returns the buckets that matter to a track.
func (e *Core) bucketsOf(t *track) []*bucket {
	if t == e.read {
		return e.all[:1]
	}
	return e.all[1:]
}
