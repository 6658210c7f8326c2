package main

import (
	"context"
	"strings"
	"sync"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// A run belongs to the account that it was begun on. An account of the config file is
// known by its name, whatever its key; credentials of the environment have no name, so
// they are known by the host and a trace of the key: two accounts of one platform must
// not be taken for one. A key that was replaced therefore looks like another account,
// and a person must say that it is not.

// acceptAccount adds the flag that says so.
func (f *flags) acceptAccount() *bool {
	return f.Bool("accept-account", false, "go on with a run that was begun with another API key of the same account")
}

// ownerOf is the account in the identity of a job, and what stands before it.
func ownerOf(jobKey string) (job, account string) {
	i := strings.LastIndexByte(jobKey, '\n')
	return jobKey[:i+1], jobKey[i+1:]
}

// otherKey tells whether an account may be the one in use, with another key.
func (c *connection) otherKey(account string) bool {
	host, _, byKey := strings.Cut(account, "#")
	return c.sim == nil && byKey && account != c.limits && host == c.baseURL.Host
}

// unclaimed tells whether a run has never got an answer of its account, so that it
// belongs to nobody yet. Before it has a plan, nothing of it can have been written.
func unclaimed(rec checkpoint.Run) bool {
	return !jobs.Planned(rec.Stage) && rec.Reads+rec.Writes+rec.Throttled == 0
}

// sameAccount refuses to send what was planned for one account to another. A run that
// has never logged in is taken over, and so is one of the same account with another key,
// once that was accepted.
func (s *session) sameAccount(ctx context.Context) error {
	_, account := ownerOf(s.rec.JobKey)
	if account == s.conn.id {
		return nil
	}
	switch {
	case s.conn.sim == nil && account != s.conn.limits && !s.conn.otherKey(account):
		return usagef("run %s belongs to another account than the one chosen now", s.rec.ID).
			withHint("its account is %s", s.rec.Account)
	case s.conn.sim != nil:
		return usagef("run %s belongs to another simulated account than the one chosen now", s.rec.ID).
			withHint("give --sim the settings that it was begun with")
	case unclaimed(s.rec), account == s.conn.limits:
		return s.takeOver(ctx)
	case s.acceptsAccount:
		return s.inheritLater()
	}
	return usagef("run %s was begun with another API key of %s than the one in use now", s.rec.ID, s.conn.baseURL.Host).
		withHint("if both keys are of one account, because the key was replaced, add --accept-account")
}

// takeOver makes the run one of the account in use.
func (s *session) takeOver(ctx context.Context) error {
	key, err := s.newKey()
	if err != nil {
		return err
	}
	return s.handOver(ctx, s.rec, key)
}

// inheritLater prepares the run to be taken over by its first accepted login. Until then
// it is locked under both keys.
func (s *session) inheritLater() error {
	key, err := s.newKey()
	if err != nil {
		return err
	}
	rec := s.rec
	if s.locked != rec.JobKey {
		unlock, err := s.st.lockJob(rec.JobKey)
		if err != nil {
			return err
		}
		s.st.kept = append(s.st.kept, unlock)
	}
	s.heir = &heir{Client: s.conn.client, inherit: func(ctx context.Context) error { return s.handOver(ctx, rec, key) }}
	return nil
}

// newKey is the identity of the job with the account in use, and locks that.
func (s *session) newKey() (string, error) {
	old := s.rec.JobKey
	job, _ := ownerOf(old)
	key := job + s.conn.id
	if s.locked != old && s.st.isLocked(old) {
		return "", fail(exitBusy, "run %s is at work, with the key that it was begun with", s.rec.ID)
	}
	if s.locked != key {
		unlock, err := s.st.lockJob(key)
		if err != nil {
			return "", err
		}
		s.st.kept = append(s.st.kept, unlock)
	}
	return key, nil
}

// handOver gives a run to the account in use.
func (s *session) handOver(ctx context.Context, rec checkpoint.Run, key string) error {
	if err := s.st.store.SetJobKey(ctx, rec.ID, key, s.conn.name); err != nil {
		return err
	}
	if s.rec.ID == rec.ID {
		s.rec.JobKey, s.rec.Account = key, s.conn.name
	}
	if s.key == rec.JobKey {
		s.key = key
	}
	return s.st.store.AddEvent(ctx, rec.ID, s.now(), "account", "taken over by another key, by "+s.whoAmI())
}

// heir is the client of a run that is to change hands. A key that is refused gets nothing:
// the run is handed over after the first accepted login, before anything is sent.
type heir struct {
	*rmm.Client
	inherit func(context.Context) error

	mu  sync.Mutex
	has bool
}

// Login logs in and takes the run over.
func (h *heir) Login(ctx context.Context) error {
	if err := h.Client.Login(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has {
		return nil
	}
	if err := h.inherit(ctx); err != nil {
		return err
	}
	h.has = true
	return nil
}

// Do sends a request of the run once that is taken over.
func (h *heir) Do(ctx context.Context, req rmm.Request) (rmm.Response, error) {
	if err := h.Login(ctx); err != nil {
		return rmm.Response{}, err
	}
	return h.Client.Do(ctx, req)
}

// takeOverUnclaimed takes over the unfinished runs of the job that were begun with
// another key and have never logged in, and tells of those that have.
func (s *session) takeOverUnclaimed(ctx context.Context) error {
	runs, err := s.st.store.Runs(ctx, 0, "")
	if err != nil {
		return err
	}
	before := s.rec
	defer func() { s.rec = before }()
	for _, rec := range runs {
		job, account := ownerOf(rec.JobKey)
		if job != s.job.Path+"\n" || !unfinished(rec.State) || !s.conn.otherKey(account) {
			continue
		}
		if !unclaimed(rec) {
			s.note("run " + rec.ID + " of this job is unfinished and was begun with another API key; if that is of the same account: " +
				s.nextCommand("resume", rec.ID, "--accept-account"))
			continue
		}
		s.rec = rec
		if err := s.takeOver(ctx); err != nil {
			return err
		}
	}
	return nil
}
