package throttle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Config is what a Limiter needs. Only Profile and Probe must be set.
type Config struct {
	Profile Profile
	// Probe asks the server for the use of the account. It must obey its context, which
	// ends after 30 s and when nobody waits any longer. It is never called twice at once.
	// An error may be a *ProbeError.
	Probe func(context.Context) (Reading, error)

	MaxPause      time.Duration // budget of all pauses together; 0 means 2 h
	RateLimitWait time.Duration // after a 429 without Retry-After; 0 means 120 s
	BlockWait     time.Duration // until the probe of a block; 0 means 5 min
	PauseWait     time.Duration // at the cut-off, until it is looked at again; 0 means 30 s
	Legacy        LegacyMode    // empty means LegacyAuto

	// Share, if set, is how this process and others of the machine that use the same account
	// tell each other what they send, so that they share its limits without guessing. See
	// [Share].
	Share Share

	// Random returns numbers from 0 to 1 that waits are jittered with; nil means those of
	// math/rand. Simulations set it in order to be repeatable.
	Random func() float64

	// Event, if set, is told what happens: one call at a time, in order, without a lock
	// of the Limiter. It may call its other methods, but not Start and Wait. It should
	// return soon, because requests may wait for it.
	Event func(Event)
}

// Read is the lane of reads. Any other lane is the server's name of a write operation.
const Read = "read"

// probeTimeout ends a reading that hangs.
const probeTimeout = 30 * time.Second

// Limiter is one gate for all requests of a process to an account. Its methods may be
// called from any number of goroutines. It needs no closing: between calls of Start and
// Wait it has no goroutine of its own.
type Limiter struct {
	probe func(context.Context) (Reading, error)
	event func(Event)
	clock func() time.Time // the wall clock; replaced where a test turns it

	mu         sync.Mutex
	core       *Core
	timer      *time.Timer
	armed      time.Time // when the timer fires, by the wall clock
	stopProbe  context.CancelFunc
	probing    chan struct{} // closed when the running reading has ended; nil if none runs
	delivering bool
}

// New checks the configuration. Nothing is sent before [Limiter.Start] or [Limiter.Wait].
func New(cfg Config) (*Limiter, error) {
	if cfg.Probe == nil {
		return nil, errors.New("throttle: Config.Probe is missing")
	}
	core, err := NewCore(cfg)
	if err != nil {
		return nil, err
	}
	return &Limiter{probe: cfg.Probe, event: cfg.Event, clock: time.Now, core: core}, nil
}

// complete checks the values and fills in those that are left out.
func (cfg *Config) complete() error {
	if err := cfg.Profile.Validate(); err != nil {
		return err
	}
	for _, w := range []struct {
		name        string
		value       *time.Duration
		normal, max time.Duration
	}{
		{"max_pause", &cfg.MaxPause, 2 * time.Hour, 31 * 24 * time.Hour},
		{"rate_limit_wait", &cfg.RateLimitWait, 2 * time.Minute, maxRetryAfter},
		{"block_wait", &cfg.BlockWait, 5 * time.Minute, maxRetryAfter},
		{"pause_wait", &cfg.PauseWait, 30 * time.Second, maxRetryAfter},
	} {
		if *w.value == 0 {
			*w.value = w.normal
		}
		if *w.value < 0 || *w.value > w.max {
			return fmt.Errorf("throttle: %s must be above 0 and at most %s", w.name, w.max)
		}
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	switch cfg.Legacy {
	case "":
		cfg.Legacy = LegacyAuto
	case LegacyAuto, LegacyOn, LegacyOff:
	default:
		return fmt.Errorf("throttle: legacy must be auto, on or off, not %q", cfg.Legacy)
	}
	return nil
}

// Start takes the first reading, from which limits, window and operations are known. If
// it brings nothing, safe values are used and a warning event says so. The only error is
// that of ctx. Without Start the first Wait does the same.
func (l *Limiter) Start(ctx context.Context) error {
	l.mu.Lock()
	if l.core.reading || l.core.started {
		l.mu.Unlock()
		return ctx.Err()
	}
	l.core.beginReading(l.clock())
	l.mu.Unlock()
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	reading, err := l.probe(probeCtx)
	l.mu.Lock()
	l.core.endReading(l.clock(), reading, err, err != nil && ctx.Err() != nil)
	l.advance()
	l.mu.Unlock()
	l.deliver()
	return ctx.Err()
}

// Wait blocks until one request of the lane may be sent. Requests of a lane are let
// through in the order in which they came. The permit must be ended with Done or Cancel.
// The error is that of ctx, or an *ExhaustedError if the lane stays closed for longer
// than the pause budget allows.
func (l *Limiter) Wait(ctx context.Context, lane string) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	t := l.core.Enqueue(l.clock(), lane)
	t.ready = make(chan struct{})
	l.advance()
	l.mu.Unlock()
	l.deliver()

	select {
	case <-t.ready:
	case <-ctx.Done():
	}

	l.mu.Lock()
	err := t.err
	if !t.granted && err == nil {
		err = ctx.Err()
		l.core.Cancel(l.clock(), t)
		l.advance()
	}
	var last chan struct{}
	if l.probing != nil && l.core.waiting == 0 {
		l.stopProbe()
		last = l.probing
	}
	l.mu.Unlock()
	l.deliver()
	if last != nil {
		<-last
	}
	if err != nil {
		return nil, err
	}
	return &Permit{limiter: l, ticket: t}, nil
}

// SetProfile changes the profile of a working Limiter. Waiting requests feel it at once.
func (l *Limiter) SetProfile(p Profile) error {
	if err := p.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	l.core.setProfile(l.clock(), p)
	l.advance()
	l.mu.Unlock()
	l.deliver()
	return nil
}

// Status returns a snapshot.
func (l *Limiter) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Status(l.clock())
}

// Held returns for how long requests were held by pauses and delays: for reads and for
// writes the time during which at least one was waiting, added up. Ten workers that wait
// for the same second count one second.
func (l *Limiter) Held() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.tick(l.clock())
	return l.core.held
}

// Permit is the right to send one request.
type Permit struct {
	limiter *Limiter
	ticket  *Ticket
}

// Cancel gives the permit back: the request was not sent and will not be. It does
// nothing after Done.
func (p *Permit) Cancel() {
	l := p.limiter
	l.mu.Lock()
	l.core.Cancel(l.clock(), p.ticket)
	l.advance()
	l.mu.Unlock()
	l.deliver()
}

// Done tells what came back. The request counts as in flight until then. A second Done,
// or one after Cancel, changes nothing and returns the zero Verdict.
func (p *Permit) Done(r Result) Verdict {
	l := p.limiter
	l.mu.Lock()
	v := l.core.Done(l.clock(), p.ticket, r)
	l.advance()
	l.mu.Unlock()
	l.deliver()
	return v
}

// advance lets the core decide and carries it out. The caller holds the lock and calls
// deliver after it.
func (l *Limiter) advance() {
	out := l.core.Step(l.clock())
	for _, t := range out.Granted {
		close(t.ready)
	}
	for _, t := range out.Refused {
		close(t.ready)
	}
	if out.Probe {
		l.startProbe()
	}
	l.arm(out.Wake)
}

// arm sets the one timer, which does what every call does: let the core decide.
func (l *Limiter) arm(wake time.Time) {
	if wake.Equal(l.armed) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.armed, l.timer = wake, nil
	if wake.IsZero() {
		return
	}
	l.timer = time.AfterFunc(wake.Sub(l.clock().Round(0)), func() {
		l.mu.Lock()
		l.armed = time.Time{}
		l.advance()
		l.mu.Unlock()
		l.deliver()
	})
}

// startProbe makes a reading in a goroutine of its own. It ends before the last of those
// who wait has returned from Wait.
func (l *Limiter) startProbe() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	before, ended := l.probing, make(chan struct{})
	l.stopProbe, l.probing = cancel, ended
	go func() {
		defer close(ended)
		defer cancel()
		if before != nil {
			<-before // has ended its reading and is handing out the events of it
		}
		reading, err := l.probe(ctx)
		l.mu.Lock()
		l.core.endReading(l.clock(), reading, err, err != nil && errors.Is(ctx.Err(), context.Canceled))
		l.advance()
		l.mu.Unlock()
		l.deliver()
		l.mu.Lock()
		if l.probing == ended {
			l.probing = nil
		}
		l.mu.Unlock()
	}()
}

// deliver hands out the events, in order and without the lock.
func (l *Limiter) deliver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delivering {
		return
	}
	l.delivering = true
	for len(l.core.events) > 0 {
		events := l.core.events
		l.core.events = nil
		if l.event == nil {
			continue
		}
		l.mu.Unlock()
		for _, ev := range events {
			l.event(ev)
		}
		l.mu.Lock()
	}
	l.delivering = false
}
