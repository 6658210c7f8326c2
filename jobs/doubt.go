package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// Writes of the class verify leave something that can be looked up: a name that
// is there, a variable that is gone. One whose answer was lost is looked up before
// it is sent again. The look-ups are items of the run like any other, in rounds:
// one round reads each list once for all writes in doubt. A round counts for the
// writes that were in doubt before it was read, so that an old answer never
// decides about a write that was sent again after it.
const (
	lookupPrefix   = "lookup/"          // followed by the round: pages of lists
	lookupSettings = "lookup-settings/" // followed by the round: settings of sites
	maxRounds      = 3                  // then a write stays in doubt
)

// doubt is a write whose answer was lost.
type doubt struct {
	key   string
	req   rmm.Request
	since time.Time
}

// doubts are the writes in doubt that can be looked up.
func doubts(ctx context.Context, a Answers) ([]doubt, error) {
	var list []doubt
	for ans, err := range a.Answers(ctx, applyPrefix) {
		if err != nil {
			return nil, err
		}
		if op, _ := rmm.Lookup(ans.Request.Op); ans.Doubt && op.Class == rmm.ClassVerify {
			list = append(list, doubt{ans.Key, ans.Request, ans.Settled})
		}
	}
	return list, nil
}

// round is the newest round of look-ups.
type round struct {
	number int
	began  time.Time // its first answer came then
}

func roundPrefix(prefix string, n int) string { return fmt.Sprintf("%s%02d/", prefix, n) }

// lastRound finds the newest round; its number is 0 when there is none.
func lastRound(ctx context.Context, a Answers) (round, error) {
	var r round
	for _, prefix := range []string{lookupPrefix, lookupSettings} {
		for ans, err := range a.Answers(ctx, prefix) {
			if err != nil {
				return r, err
			}
			n := 0
			if _, err := fmt.Sscanf(strings.TrimPrefix(ans.Key, prefix), "%d/", &n); err != nil || n < r.number {
				continue
			}
			if n > r.number {
				r = round{number: n, began: ans.Settled}
			}
			if ans.Settled.Before(r.began) {
				r.began = ans.Settled
			}
		}
	}
	return r, nil
}

// lookups are what a round reads for some writes: lists, and settings of sites.
func lookups(n int, writes []doubt) (lists []list, settings []Item) {
	prefix := roundPrefix(lookupPrefix, n)
	seen := map[string]bool{}
	for _, w := range writes {
		site := w.req.Path["siteUid"]
		op := operationOf(w.req.Op)
		switch {
		case op.proxy:
			if it := settingsOf(roundPrefix(lookupSettings, n), site); !seen[it.Key] {
				seen[it.Key] = true
				settings = append(settings, it)
			}
			continue
		case op.on == aSiteVariable:
			lists = append(lists, variablesOf(prefix, site))
		default:
			lists = append(lists, wholeList(prefix, subjects[op.on].list))
		}
		if id := lists[len(lists)-1].id; seen[id] {
			lists = lists[:len(lists)-1]
		} else {
			seen[id] = true
		}
	}
	return lists, settings
}

// settleDoubts looks up the writes in doubt, and ends the run when there is
// nothing that a further look would tell.
func (u *UpdateWork) settleDoubts(ctx context.Context, a Answers) (Step, error) {
	if u.job.Update.Operation.Class != rmm.ClassVerify {
		return Step{Done: true}, nil
	}
	writes, err := doubts(ctx, a)
	if err != nil || len(writes) == 0 {
		return Step{Done: true}, err
	}
	last, err := lastRound(ctx, a)
	if err != nil {
		return Step{}, err
	}
	older := slices.DeleteFunc(slices.Clone(writes), func(w doubt) bool { return last.number == 0 || !w.since.Before(last.began) })
	if len(older) > 0 {
		step, again, err := u.decide(ctx, a, last.number, older)
		if err != nil || again || len(step.Decisions) > 0 {
			return step, err
		}
	}
	if len(older) == len(writes) || last.number >= maxRounds {
		return Step{Done: true, Note: fmt.Sprintf("%d writes whose answers were lost stay in doubt: what was looked up did not tell", len(writes))}, nil
	}
	newer := slices.DeleteFunc(writes, func(w doubt) bool { return slices.ContainsFunc(older, func(o doubt) bool { return o.key == w.key }) })
	lists, items := lookups(last.number+1, newer)
	for _, l := range lists {
		items = append(items, l.first(1, u.set.pageSize()))
	}
	return Step{Stage: StageApply, Items: slices.Values(items), Note: fmt.Sprintf("%d writes whose answers were lost are looked up", len(newer))}, nil
}

// decide says what became of writes by a round that was read after they were
// lost. A list that cannot be read whole decides nothing.
func (u *UpdateWork) decide(ctx context.Context, a Answers, n int, writes []doubt) (Step, bool, error) {
	lists, _ := lookups(n, writes)
	step, again, err := u.settleReads(ctx, StageApply, a, lists)
	if _, incomplete := err.(*IncompleteError); incomplete { //nolint:errorlint // settleLists returns it bare
		return Step{}, false, nil
	}
	if err != nil || again {
		return step, again, err
	}
	w, err := lookAt(ctx, a, n)
	if err != nil {
		return Step{}, false, err
	}
	done := 0
	for _, d := range writes {
		carried, known := w.tells(d.req)
		if !known {
			continue
		}
		if carried {
			done++
		}
		step.Decisions = append(step.Decisions, Decision{Key: d.key, Done: carried})
	}
	step.Stage = StageApply
	step.Note = fmt.Sprintf("of %d writes whose answers were lost %d were carried out and %d are sent again", len(step.Decisions), done, len(step.Decisions)-done)
	return step, false, nil
}

// world is what a round has seen.
type world struct {
	there    map[string]bool // site or "", and then the id or the name of a thing
	listed   map[string]bool // sites whose variables could be listed
	settings map[string]json.RawMessage
}

func lookAt(ctx context.Context, a Answers, n int) (w world, err error) {
	w.there = map[string]bool{}
	for el, err := range elements(ctx, a, roundPrefix(lookupPrefix, n)) {
		if err != nil {
			return w, err
		}
		site := el.Path["siteUid"]
		for _, field := range []string{"id", "alertUid", "name"} {
			if v := keyOf(field, el.JSON); v != "" {
				w.there[joinKey([]string{site, field, v})] = true
				if site == "" && field == "name" {
					w.there[joinKey([]string{site, "folded", normalise(v)})] = true
				}
			}
		}
	}
	if w.listed, err = listedSites(ctx, a, roundPrefix(lookupPrefix, n)); err != nil {
		return w, err
	}
	for ans, err := range a.Answers(ctx, roundPrefix(lookupSettings, n)) {
		if err != nil {
			return w, err
		}
		if ans.OK {
			if w.settings == nil {
				w.settings = map[string]json.RawMessage{}
			}
			w.settings[ans.Request.Path["siteUid"]] = ans.Body
		}
	}
	return w, nil
}

// tells says whether a write was carried out, as far as the round shows it.
func (w world) tells(req rmm.Request) (carried, known bool) {
	op := operationOf(req.Op)
	site := ""
	if op.on == aSiteVariable {
		if site = req.Path["siteUid"]; !w.listed[site] {
			return false, false
		}
	}
	has := func(field, value string) bool { return w.there[joinKey([]string{site, field, value})] }
	name := gjson.GetBytes(req.Body, "name").String()
	switch {
	case op.proxy:
		proxy := gjson.GetBytes(w.settings[req.Path["siteUid"]], "proxySettings")
		return proxy.Type == gjson.Null, proxy.Exists()
	case op.effect == creates && op.on == aSite:
		return has("folded", normalise(name)), true
	case op.effect == creates:
		return has("name", name), true
	case op.effect == removes:
		return !has("id", req.Path["variableId"]), true
	case op.effect == resolves:
		return !has("alertUid", req.Path["alertUid"]), true
	}
	return false, false
}
