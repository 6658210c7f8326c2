package rmmsim

import (
	"encoding/binary"
	"encoding/hex"
)

// draw is a stream of pseudo-random numbers. Everything about the fleet is
// drawn from streams that begin at the account's seed, the kind of the thing
// and its number, so that one device can be made without the others and two
// processes agree.
type draw uint64

// Kinds of streams and of uids. The values are part of the fleet's bytes.
const (
	kindSite byte = iota + 1
	kindDevice
	kindUDF
	kindAlert
	kindAudit
	kindSoftware
	kindComponent
	kindUser
	kindEvent
	kindJob
	kindToken
	kindVariable
	kindLatency
	kindNetwork
)

func newDraw(seed uint64, kind byte, n uint64) draw {
	return draw(mix(mix(seed^uint64(kind)*0x9e3779b97f4a7c15) + n))
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (d *draw) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	return mix(uint64(*d))
}

// below is a number from 0 to n-1.
func (d *draw) below(n int) int { return int(d.next() % uint64(n)) }

// between is a number from low to high, both included.
func (d *draw) between(low, high int) int { return low + d.below(high-low+1) }

// chance is true in the given number of cases out of 1000.
func (d *draw) chance(perMille int) bool { return d.below(1000) < perMille }

// unit is a number from 0 up to 1.
func (d *draw) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

func pick[T any](d *draw, from []T) T { return from[d.below(len(from))] }

// makeUID makes the uid of thing n, part k, of a kind. It looks random and
// can be read back, which saves an index over a hundred thousand devices.
func makeUID(seed uint64, kind byte, n uint32, k uint16) string {
	d := newDraw(seed, kind, uint64(n)<<16|uint64(k))
	var b [16]byte
	binary.BigEndian.PutUint64(b[8:], d.next())
	binary.BigEndian.PutUint16(b[6:], uint16(d.next()))
	b[6] = 0x40 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	hidden := (uint64(n)<<16 | uint64(k)) ^ uidMask(seed, kind, b[6:])
	binary.BigEndian.PutUint16(b[:], uint16(hidden>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(hidden))
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// readUID undoes makeUID; ok is false for any other text.
func readUID(seed uint64, kind byte, s string) (n uint32, k uint16, ok bool) {
	if len(s) != 36 {
		return 0, 0, false
	}
	b, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil {
		return 0, 0, false
	}
	hidden := uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
	hidden ^= uidMask(seed, kind, b[6:])
	n, k = uint32(hidden>>16), uint16(hidden)
	return n, k, makeUID(seed, kind, n, k) == s
}

func uidMask(seed uint64, kind byte, rest []byte) uint64 {
	return mix(binary.BigEndian.Uint64(rest)^mix(seed+uint64(kind))+uint64(rest[8])<<8+uint64(rest[9])) & (1<<48 - 1)
}
