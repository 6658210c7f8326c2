package jobs

import (
	"encoding/binary"
	"iter"
)

// want is the value that a row wants of one field.
type want struct {
	value   string // "" where the field is to be cleared
	setting uint16 // index in the Set of the job
	clear   bool
}

// inputRow is one record on its way into the plan. There may be hundreds of
// thousands, so a row is small: what can be made from the target when the row is
// stored is not kept, its cells are in the cellStore of the plan, its texts in a few
// large ones.
type inputRow struct {
	key          string // normalised match key, one text for all rows that have it; "" when the row is invalid
	wants        packedWants
	verdict      *verdict // nil until the row is judged
	target       *target
	next         *inputRow // of the same target
	number, line int32
}

// verdict is what the plan makes of a row, and why where that does not go without
// saying.
type verdict struct {
	class  RowClass
	reason string
}

// The verdicts that need no reason, which nearly all rows share.
var plainVerdicts = map[RowClass]*verdict{
	ClassChange: {class: ClassChange}, ClassClear: {class: ClassClear}, ClassUnchanged: {class: ClassUnchanged},
}

// judge settles what becomes of the row.
func (r *inputRow) judge(class RowClass, reason string) {
	if plain := plainVerdicts[class]; plain != nil && reason == "" {
		r.verdict = plain
		return
	}
	r.verdict = &verdict{class, reason}
}

// class is what the plan makes of the row; "" until it is judged.
func (r *inputRow) class() RowClass {
	if r.verdict == nil {
		return ""
	}
	return r.verdict.class
}

// reason says why the row has its class; "" where that goes without saying.
func (r *inputRow) reason() string {
	if r.verdict == nil {
		return ""
	}
	return r.verdict.reason
}

// packedWants are the wants of a row in one text: for each its setting, whether it
// clears, the length of its value and the value. As structures they would take more
// than the values do.
type packedWants string

// packWants appends wants to the text b.
func packWants(b []byte, wants []want) []byte {
	for _, w := range wants {
		head := uint64(w.setting) << 1
		if w.clear {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		b = appendText(b, w.value)
	}
	return b
}

// all yields the wants in the order of the job. Their values share the text.
func (p packedWants) all() iter.Seq[want] {
	return func(yield func(want) bool) {
		for rest := string(p); rest != ""; {
			var w want
			head, size := uvarint(rest)
			w.setting, w.clear = uint16(head>>1), head&1 == 1 //nolint:gosec // packWants made it of one
			w.value, rest = cutText(rest[size:])
			if !yield(w) {
				return
			}
		}
	}
}

// of returns the want of a setting, if there is one.
func (p packedWants) of(setting uint16) (want, bool) {
	for w := range p.all() {
		if w.setting == setting {
			return w, true
		}
	}
	return want{}, false
}

// packedOld are the present values of a target by setting of the job in one text: for
// each 0 where the account does not tell it, else one more than its length and the
// value. A job may set hundreds of fields, of which a device has a few.
type packedOld string

// packOld packs values beside other texts.
func packOld(values []oldValue, kept *texts) packedOld {
	var b []byte
	for _, v := range values {
		if !v.known {
			b = append(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(len(v.text))+1), v.text...)
	}
	return packedOld(kept.keep(b))
}

// of returns the value of a setting. Of a target that is not there none is known.
func (p packedOld) of(setting uint16) oldValue {
	for rest := string(p); rest != ""; setting-- {
		n, size := uvarint(rest)
		v := oldValue{known: n > 0}
		rest = rest[size:]
		if v.known {
			v.text, rest = rest[:n-1], rest[n-1:]
		}
		if setting == 0 {
			return v
		}
	}
	return oldValue{}
}
