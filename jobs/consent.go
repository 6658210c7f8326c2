package jobs

import (
	"context"
	"strings"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// Consent is what a person agrees to who lets the rest of a stored plan be sent.
type Consent struct {
	// Why it must be asked for: what the operations do, or that more fields are
	// emptied than may be without one. It is "" where it need not.
	Why    string
	Writes int      // requests that are left to send
	Deeds  []string // what these do, as in "moves 37 devices to another site"
}

// ConsentOf tells what is to be agreed to before the rest of a stored plan is sent,
// where so many fields may be emptied without asking.
func ConsentOf(ctx context.Context, a Answers, maxClears int) (Consent, error) {
	writes, err := loadWrites(ctx, a, waiting)
	if err != nil {
		return Consent{}, err
	}
	c := Consent{Writes: len(writes)}
	var kinds []operation
	count, clears := map[string]int{}, 0
	for _, w := range writes {
		op := operation{name: w.req.Op, on: aCall, effect: calls}
		if w.listed {
			op = *w.op
		}
		if count[op.name]++; count[op.name] == 1 {
			kinds = append(kinds, op)
		}
		switch {
		case c.Why != "":
		case w.listed:
			c.Why = op.confirm
		case classOf(w.req) != rmm.ClassRead:
			c.Why = "it sends " + w.req.Op
		}
		for _, change := range w.changes {
			if change.Clear {
				clears++
			}
		}
	}
	for _, op := range kinds {
		c.Deeds = append(c.Deeds, op.deed(count[op.name]))
	}
	if clears > 0 {
		c.Deeds = append(c.Deeds, "clears "+spell.Count(clears, "field"))
	}
	if c.Why == "" && clears > maxClears {
		c.Why = "it clears " + spell.Count(clears, "field")
	}
	return c, nil
}

// deed says what so many requests of the operation do.
func (op operation) deed(n int) string {
	thing := op.thing()
	switch {
	case op.effect == moves:
		return "moves " + spell.Count(n, thing) + " to another site"
	case op.effect == starts:
		return "runs a component on " + spell.Count(n, thing)
	case op.effect == calls:
		return "sends " + spell.Count(n, thing)
	case op.effect == mutes:
		return "mutes or unmutes " + spell.Count(n, thing)
	case op.proxy && op.effect == removes:
		return "removes the proxies of " + spell.Count(n, thing)
	case op.proxy:
		return "changes the proxies of " + spell.Count(n, thing)
	}
	verb := map[effect]string{sets: "changes ", creates: "creates ", ensures: "sets ", removes: "deletes ", resolves: "closes "}[op.effect]
	whose := map[subject]string{aSiteVariable: " of sites", anAccountVariable: " of the account"}[op.on]
	return verb + spell.Count(n, thing) + whose
}

// String is the deeds in one sentence that follows "this".
func (c Consent) String() string {
	last := len(c.Deeds) - 1
	if last < 1 {
		return strings.Join(c.Deeds, "")
	}
	return strings.Join(c.Deeds[:last], ", ") + " and " + c.Deeds[last]
}
