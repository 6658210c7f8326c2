package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/throttle"
)

// sharing is how this process and others that use the same account and state folder tell
// each other what they send: a ledger in the folder, read and written some times a second.
// It is the throttle.Share of the limiter. If the ledger breaks, the run goes on without:
// what the others send then shows in the readings of the account only.
type sharing struct {
	ledger           *checkpoint.Ledger
	account, process string
	broken           func(error) // told once

	mu     sync.Mutex
	sent   map[string]int // by lane, not yet in the ledger
	last   time.Time      // of those
	heard  []throttle.PeerSend
	closed bool // nobody will read what is heard

	// Of the goroutine only:
	version int64
	known   map[slotOf]int // of the slots that may still grow

	stop chan struct{}
	done sync.WaitGroup
}

// slotOf is an entry of the ledger that may come again with a higher number.
type slotOf struct {
	process, lane string
	at            int64
}

const (
	shareEvery = 100 * time.Millisecond
	// shareKnown is how long a slot is remembered: longer than a process may take to write.
	shareKnown = 2 * time.Minute
	// What nobody has asked for is dropped after shareKeep, when it is more than shareMost.
	shareKeep = 10 * time.Minute
	shareMost = 2000
)

// newSharing prepares the sharing of an account; nothing is exchanged before start.
func newSharing(account string) *sharing {
	return &sharing{
		account: account, process: rand.Text(),
		sent: map[string]int{}, known: map[slotOf]int{},
	}
}

// start opens the ledger of the state folder, takes in what is on record and goes on
// exchanging until close, after which it may be started again. broken is told if that ends
// before.
func (s *sharing) start(ctx context.Context, dir string, broken func(error)) error {
	ledger, err := checkpoint.OpenLedger(ctx, filepath.Join(dir, "sends.db"))
	if err != nil {
		s.abandon()
		return err
	}
	s.ledger, s.broken, s.stop = ledger, broken, make(chan struct{})
	if err := s.exchange(ctx, time.Now()); err != nil {
		s.abandon()
		return errors.Join(err, ledger.Close())
	}
	s.done.Go(s.work)
	return nil
}

// abandon lets what is sent be forgotten, because nobody will be told.
func (s *sharing) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.sent)
}

func (s *sharing) work() {
	ctx := context.Background() // what was sent is told to the last
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	defer func() { _ = s.ledger.Close() }()
	for {
		ended := false
		select {
		case <-tick.C:
		case <-s.stop:
			ended = true
		}
		err := s.exchange(ctx, time.Now())
		if err != nil {
			s.abandon()
			s.broken(err)
		}
		if ended || err != nil {
			return
		}
	}
}

// exchange writes what was sent and reads what the others have sent.
func (s *sharing) exchange(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	sent, last := s.sent, s.last
	s.sent = map[string]int{} // the old one is ours alone from here on
	s.mu.Unlock()
	for lane, n := range sent {
		if err := s.ledger.Add(ctx, s.account, s.process, lane, last, n); err != nil {
			return err
		}
	}
	entries, version, err := s.ledger.Since(ctx, s.account, s.process, s.version)
	if err != nil {
		return err
	}
	s.version = version
	var fresh []throttle.PeerSend
	for _, e := range entries {
		slot := slotOf{e.Process, e.Lane, e.At.UnixMilli()}
		if n := e.N - s.known[slot]; n > 0 {
			fresh = append(fresh, throttle.PeerSend{Process: e.Process, Lane: e.Lane, At: e.At, N: n})
			s.known[slot] = e.N
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	for slot := range s.known {
		if now.UnixMilli()-slot.at > shareKnown.Milliseconds() {
			delete(s.known, slot)
		}
	}
	s.mu.Lock()
	s.heard = append(s.heard, fresh...)
	if len(s.heard) > shareMost { // a run that is paused does not ask
		s.heard = slices.DeleteFunc(s.heard, func(p throttle.PeerSend) bool { return now.Sub(p.At) > shareKeep })
	}
	s.mu.Unlock()
	return nil
}

// Sent is throttle.Share's.
func (s *sharing) Sent(lane string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.sent[lane]++
	s.last = at
}

// Poll is throttle.Share's.
func (s *sharing) Poll(time.Time) []throttle.PeerSend {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard
	s.heard = nil
	return heard
}

// close tells the last sends and gives the ledger back.
func (s *sharing) close() {
	close(s.stop)
	s.done.Wait()
}

// share lets this run and others on this machine know of each other, until the returned
// function is called.
func (s *session) share(ctx context.Context) (end func()) {
	if s.shared == nil {
		return func() {}
	}
	err := s.shared.start(ctx, s.st.dir, func(err error) {
		s.event(throttle.Event{
			At: s.now(), Kind: throttle.EventWarning,
			Text: fmt.Sprintf("other runs on this machine are not known any longer, only what the server reports of them: %v", err),
		})
	})
	if err != nil {
		s.warn("other runs on this machine are known only by what the server reports of them: %v", err)
		s.hint("if that stays so, delete %s while no run is at work; nothing in it is missed", filepath.Join(s.st.dir, "sends.db"))
		return func() {}
	}
	return s.shared.close
}
