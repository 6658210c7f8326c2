package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// resolveVerb lists the writes of a run whose fate is unknown, looks for them in the
// account, and records what a person says of them.
func resolveVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	as := f.String("as", "", "done: it was carried out; retry: send it again; failed: it was not, and shall not be")
	check := f.Bool("check", false, "look in the account what became of them")
	note := f.String("note", "", "why, for the history of the run")
	yes := f.Bool("yes", false, "agree to send again what must not happen twice")
	accept := f.acceptAccount()
	rest, err := f.parse(args, 1, -1)
	if err != nil {
		return err
	}
	how := checkpoint.Resolution(*as)
	if how != "" && !slices.Contains([]checkpoint.Resolution{checkpoint.ResolveDone, checkpoint.ResolveRetry, checkpoint.ResolveFailed}, how) {
		return usagef("--as %s: it is none of done, retry, failed", *as)
	}
	rec, err := a.findRun(ctx, rest[0])
	if err != nil {
		return err
	}
	return a.withStored(ctx, rec, options{yes: *yes, acceptsAccount: *accept}, func(ctx context.Context, s *session) error {
		if how == checkpoint.ResolveRetry || *check {
			if err := s.refuseUndone(ctx, s.st, s.rec); err != nil {
				return err
			}
		}
		if _, err := s.st.store.Recover(ctx, s.rec.ID, s.now()); err != nil {
			return err
		}
		doubts, err := s.doubts(ctx, rest[1:])
		if err != nil {
			return err
		}
		if *check && len(doubts) > 0 {
			if err := s.lookFor(ctx, doubts); err != nil {
				return err
			}
			if doubts, err = s.doubts(ctx, nil); err != nil {
				return err
			}
			if keys := rest[1:]; len(keys) > 0 {
				doubts = slices.DeleteFunc(doubts, func(d doubt) bool {
					return !slices.ContainsFunc(keys, func(k string) bool { return d.named(k) })
				})
			}
		}
		if how != "" {
			if err := s.resolve(ctx, how, *note, doubts); err != nil {
				return err
			}
		}
		return s.tellDoubts(ctx, *check)
	})
}

// doubt is a write whose fate is unknown, and what it is about.
type doubt struct {
	checkpoint.Item
	target
}

// doubts are the writes in doubt of the run: those that are named, or all.
func (s *session) doubts(ctx context.Context, words []string) ([]doubt, error) {
	items, err := s.st.store.Failures(ctx, s.rec.ID, 0)
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(it checkpoint.Item) bool { return it.State != checkpoint.StateInDoubt })
	all, err := s.doubtsOf(ctx, items)
	if err != nil || len(words) == 0 {
		return all, err
	}
	var named []doubt
	for _, word := range words {
		var found []doubt
		for _, d := range all {
			if d.named(word) {
				found = append(found, d)
			}
		}
		switch {
		case len(found) == 0:
			return nil, usagef("no write of run %s that is in doubt has the name or the key %q", s.rec.ID, word).
				withHint("list them: %s", s.nextCommand("resolve", s.rec.ID))
		case len(found) > 1:
			return nil, usagef("%s of run %s are in doubt that %q names: take the uid", count(len(found), "write"), s.rec.ID, word).
				withHint("list them: %s", s.nextCommand("resolve", s.rec.ID))
		case !slices.ContainsFunc(named, func(d doubt) bool { return d.Key == found[0].Key }):
			named = append(named, found[0])
		}
	}
	return named, nil
}

// doubtsOf adds to items what they are about.
func (s *session) doubtsOf(ctx context.Context, items []checkpoint.Item) ([]doubt, error) {
	targets, err := s.st.targetsOf(ctx, s.rec.ID, items)
	if err != nil {
		return nil, err
	}
	doubts := make([]doubt, len(items))
	for i, it := range items {
		doubts[i] = doubt{it, targets[it.Key]}
	}
	return doubts, nil
}

// printDoubts lists writes whose fate is unknown.
func printDoubts(w io.Writer, doubts []doubt) {
	t := newTable("name", "site", "sent", "what is known", "key")
	for _, d := range doubts {
		t.add(cmp.Or(d.Name, "-"), cmp.Or(d.Site, "-"), clock(&d.Sent), d.Reason, d.Key)
	}
	t.write(w)
}

// named tells whether a word of the command line names the write: by its key or the uid
// at the end of that, or by the name of what it is about.
func (d doubt) named(word string) bool {
	return d.Key == word || strings.HasSuffix(d.Key, "/"+word) || d.Name != "" && strings.EqualFold(d.Name, word)
}

// lookFor looks in the account what became of writes, and records it.
func (s *session) lookFor(ctx context.Context, doubts []doubt) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.sameAccount(ctx); err != nil {
		return err
	}
	from, until := s.now(), time.Time{}
	for _, it := range doubts {
		if it.Sent.IsZero() {
			continue
		}
		if it.Sent.Before(from) {
			from = it.Sent
		}
		if it.Sent.After(until) {
			until = it.Sent
		}
	}
	if until.IsZero() {
		until = from
	}
	s.checking = jobs.NewCheckWork(s.workSettings(), from, until)
	before := s.rec
	sum, err := s.drain(ctx)
	if err != nil || !unstopped(sum.State) {
		s.rec = before
		return s.conclude(sum, err)
	}
	for _, n := range sum.Notes {
		s.say("note: %s", n)
	}
	return s.close(ctx, before)
}

// close ends the run in the state that it is in after some of its writes were
// settled, and makes its result files anew.
func (s *session) close(ctx context.Context, before checkpoint.Run) error {
	c, err := s.st.store.Counts(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	state := settledState(before, c)
	text := before.Error
	if state != before.State {
		text = ""
	}
	if err := s.st.store.EndRun(ctx, s.rec.ID, s.now(), state, int(codeOf(state)), text); err != nil {
		return err
	}
	if s.rec, err = s.st.store.Run(ctx, s.rec.ID); err != nil {
		return err
	}
	return s.writeResults(ctx)
}

// resolve records what a person says.
func (s *session) resolve(ctx context.Context, how checkpoint.Resolution, note string, doubts []doubt) error {
	if len(doubts) == 0 {
		return nil
	}
	var keys, about []string
	var risky []checkpoint.Item
	for _, d := range doubts {
		keys = append(keys, d.Key)
		if len(about) < mostNamed {
			about = append(about, cmp.Or(d.full(), d.Key))
		}
		if how == checkpoint.ResolveRetry && unsafe(d.Item) {
			risky = append(risky, d.Item)
		}
	}
	if more := len(doubts) - len(about); more > 0 {
		about = append(about, number(more)+" more")
	}
	if err := s.agreeTwice(ctx, risky); err != nil {
		return err
	}
	by := "by " + s.whoAmI()
	said := map[checkpoint.Resolution]string{
		checkpoint.ResolveDone: "resolved as done", checkpoint.ResolveRetry: "to be sent again", checkpoint.ResolveFailed: "given up",
	}[how]
	reason := said + " " + by
	if note != "" {
		reason += ": " + note
	}
	n, err := s.st.store.Resolve(ctx, s.rec.ID, s.now(), how, reason, keys...)
	if err != nil {
		return err
	}
	if err := s.st.store.AddEvent(ctx, s.rec.ID, s.now(), "resolve", count(n, "write")+" in doubt "+reason+" ("+strings.Join(about, ", ")+")"); err != nil {
		return err
	}
	s.say("%s %s: %s", count(n, "write"), said, strings.Join(about, ", "))
	return s.close(ctx, s.rec)
}

// doubtInfo is one write in doubt for machines.
type doubtInfo struct {
	Key    string     `json:"key"`
	Op     string     `json:"operation"`
	Sent   *time.Time `json:"sent"`
	Unsafe bool       `json:"unsafe"`
	Reason string     `json:"reason"`
	Target *target    `json:"target"`
}

// tellDoubts lists what is in doubt still, and how to go on; checked tells that the
// account has just been looked at.
func (s *session) tellDoubts(ctx context.Context, checked bool) error {
	doubts, err := s.doubts(ctx, nil)
	if err != nil {
		return err
	}
	c, err := s.st.store.Counts(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	counted := countsOf(c, s.rec)
	if counted.Found, err = s.st.found(ctx, s.rec); err != nil {
		return err
	}
	s.result.State, s.result.Counts, s.result.Code = string(s.rec.State), counted, exitOK
	list := make([]doubtInfo, len(doubts))
	for i, d := range doubts {
		list[i] = doubtInfo{d.Key, d.Op, timeOrNil(d.Sent), unsafe(d.Item), d.Reason, &d.target}
	}
	s.result.set("in_doubt", list)
	switch {
	case len(doubts) > 0 && checked: // only a person can tell, and which of the words is right
		s.result.Code = exitInDoubt
		s.hint("what was looked up does not tell; say what you know, for all of them or for those whose names or keys follow:")
		for _, know := range []struct {
			as   checkpoint.Resolution
			what string
		}{{checkpoint.ResolveDone, "it was done"}, {checkpoint.ResolveRetry, "it was not, and is to be sent again"}, {checkpoint.ResolveFailed, "it is given up"}} {
			s.hint("%s: %s", know.what, s.nextCommand("resolve", s.rec.ID, "--as", string(know.as)))
		}
	case len(doubts) > 0:
		s.result.Code, s.result.Next = exitInDoubt, s.nextCommand("resolve", s.rec.ID, "--check")
	default:
		info, err := s.st.describeRun(ctx, s.rec)
		if err != nil {
			return err
		}
		if s.result.Next, err = s.goingOn(ctx, s.st, info); err != nil {
			return err
		}
	}
	if s.json {
		return nil
	}
	if len(doubts) == 0 {
		fmt.Fprintf(s.stdout, "run %s has nothing in doubt; it is %s\n", s.rec.ID, stateWord(string(s.rec.State)))
		return nil
	}
	printDoubts(s.stdout, doubts)
	return nil
}
