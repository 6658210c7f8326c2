package main

import (
	"context"
	"fmt"
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
	return a.withStored(ctx, rec, options{yes: *yes}, func(ctx context.Context, s *session) error {
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
				doubts = slices.DeleteFunc(doubts, func(it checkpoint.Item) bool {
					return !slices.ContainsFunc(keys, func(k string) bool { return names(it, k) })
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

// doubts are the writes in doubt of the run: those that are named by their key or
// the end of it, or all.
func (s *session) doubts(ctx context.Context, keys []string) ([]checkpoint.Item, error) {
	items, err := s.st.store.Failures(ctx, s.rec.ID, 0)
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(it checkpoint.Item) bool { return it.State != checkpoint.StateInDoubt })
	if len(keys) == 0 {
		return items, nil
	}
	var named []checkpoint.Item
	for _, key := range keys {
		i := slices.IndexFunc(items, func(it checkpoint.Item) bool { return names(it, key) })
		if i < 0 {
			return nil, usagef("no write of run %s that is in doubt has the key %q", s.rec.ID, key).
				withHint("list them: %s", s.nextCommand("resolve", s.rec.ID))
		}
		named = append(named, items[i])
	}
	return named, nil
}

// names tells whether a word of the command line names an item: by its key or by
// the uid at its end.
func names(it checkpoint.Item, word string) bool {
	return it.Key == word || strings.HasSuffix(it.Key, "/"+word)
}

// lookFor looks in the account what became of writes, and records it.
func (s *session) lookFor(ctx context.Context, doubts []checkpoint.Item) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.sameAccount(); err != nil {
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
func (s *session) resolve(ctx context.Context, how checkpoint.Resolution, note string, doubts []checkpoint.Item) error {
	if len(doubts) == 0 {
		return nil
	}
	var keys []string
	var risky []checkpoint.Item
	for _, it := range doubts {
		keys = append(keys, it.Key)
		if how == checkpoint.ResolveRetry && unsafe(it) {
			risky = append(risky, it)
		}
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
	if err := s.st.store.AddEvent(ctx, s.rec.ID, s.now(), "resolve", count(int64(n), "write")+" in doubt "+reason); err != nil {
		return err
	}
	s.say("%s %s", count(int64(n), "write"), said)
	return s.close(ctx, s.rec)
}

// doubtInfo is one write in doubt for machines.
type doubtInfo struct {
	Key    string     `json:"key"`
	Op     string     `json:"operation"`
	Sent   *time.Time `json:"sent"`
	Unsafe bool       `json:"unsafe"`
	Reason string     `json:"reason"`
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
	s.result.State, s.result.Counts, s.result.Code = string(s.rec.State), countsOf(c, s.rec), exitOK
	list := make([]doubtInfo, len(doubts))
	for i, it := range doubts {
		list[i] = doubtInfo{it.Key, it.Op, timeOrNil(it.Sent), unsafe(it), it.Reason}
	}
	s.result.set("in_doubt", list)
	switch {
	case len(doubts) > 0 && checked: // only a person can tell, and which of the words is right
		s.result.Code = exitInDoubt
		s.hint("what was looked up does not tell; say what you know: %s", s.nextCommand("resolve", s.rec.ID, "--as", "done|retry|failed"))
	case len(doubts) > 0:
		s.result.Code, s.result.Next = exitInDoubt, s.nextCommand("resolve", s.rec.ID, "--check")
	case unfinished(s.rec.State):
		s.result.Next = s.nextCommand("resume", s.rec.ID)
	}
	if s.json {
		return nil
	}
	if len(doubts) == 0 {
		fmt.Fprintf(s.stdout, "run %s has nothing in doubt; it is %s\n", s.rec.ID, s.rec.State)
		return nil
	}
	t := newTable("key", "sent", "what is known")
	for _, it := range doubts {
		t.add(it.Key, clock(&it.Sent), it.Reason)
	}
	t.write(s.stdout)
	return nil
}
