package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// plainEvery is how often progress is told where no bar can be drawn.
const plainEvery = time.Minute

// meter shows the progress of a run on standard error: a bar on a terminal, one
// plain line a minute elsewhere, nothing with --quiet. Its methods may be called
// from any goroutine.
type meter struct {
	app    *app
	mu     sync.Mutex
	bar    *progressbar.ProgressBar // nil where progress is plain
	last   runner.Progress
	seen   bool
	paused string // by whom; empty while not
	stop   chan struct{}
	done   sync.WaitGroup
}

// newMeter starts the meter that the flags and the terminal call for.
func newMeter(a *app) *meter {
	m := &meter{app: a, stop: make(chan struct{})}
	if a.quiet || a.progress == "none" {
		return m
	}
	if a.progress == "bar" || a.progress == "auto" && a.isTerminal {
		m.bar = progressbar.NewOptions(1,
			progressbar.OptionSetWriter(a.stderr),
			progressbar.OptionSetDescription("connecting"),
			progressbar.OptionSetWidth(barWidth(a.width)),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
		return m
	}
	m.done.Go(func() {
		tick := time.NewTicker(plainEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.mu.Lock()
				if m.seen {
					a.say("%s", m.line())
				}
				m.mu.Unlock()
			case <-m.stop:
				return
			}
		}
	})
	return m
}

// stageNames are the stages as people see them.
var stageNames = map[string]string{
	jobs.StageParents: "listing",
	jobs.StageSource:  "reading",
	jobs.StageRead:    "reading",
	jobs.StageApply:   "writing",
	jobs.StagePlan:    "planned",
	jobs.StageGuarded: "stopped by a guard",
	jobs.StageCheck:   "comparing",
	jobs.StageRecheck: "comparing",
	jobs.StageRetrial: "comparing",
	jobs.StageResumed: "comparing",
	jobs.StageCanary:  "trying out",
	jobs.StageTried:   "reading back",
	jobs.StageWait:    "waiting for a decision",
	jobs.StageVerify:  "reading back",
}

// line is the progress in one line. The caller holds the lock.
func (m *meter) line() string {
	p := m.last
	text := fmt.Sprintf("%s %s: %d of %d items settled", m.app.now().Format("15:04:05"), stageNames[p.Stage], p.Settled, p.Items)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if m.paused != "" {
		text += ", paused by " + m.paused
	} else {
		text += ", " + leftText(p)
	}
	if !p.HoldUntil.IsZero() {
		text += fmt.Sprintf(", the service is not available, next try at %s: %s", p.HoldUntil.Local().Format("15:04:05"), p.HoldCause)
	}
	return text
}

// barWidth is the width of the bar itself on a terminal of so many columns.
func barWidth(columns int) int {
	if columns == 0 {
		return 20
	}
	return min(20, max(4, columns/4))
}

// fit cuts the words before the bar so that the line does not wrap, since a line
// that does cannot be drawn over.
func (m *meter) fit(words string, p runner.Progress) string {
	if m.app.width == 0 {
		return words
	}
	rest := len(fmt.Sprintf(" 100%% || (%d/%d) ", p.Items, p.Items)) + barWidth(m.app.width)
	if left := max(4, m.app.width-1-rest); len(words) > left {
		return words[:left]
	}
	return words
}

// stopping says that a request to stop was heard, since what is in flight may take
// a while.
func (m *meter) stopping(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		_ = m.bar.Clear()
	}
	m.app.say("%s", text)
}

// observe takes the progress of the runner.
func (m *meter) observe(p runner.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := p.HoldUntil.After(m.last.HoldUntil)
	m.last, m.seen = p, true
	if m.bar == nil {
		if changed && !m.app.quiet {
			m.app.say("%s", m.line())
		}
		return
	}
	m.draw()
}

// draw brings the bar up to date. The caller holds the lock, and there is a bar.
func (m *meter) draw() {
	p := m.last
	word := stageNames[p.Stage]
	switch {
	case m.paused != "":
		word += ", paused by " + m.paused
	case p.LeftKnown:
		word += ", " + leftText(p)
	}
	if p.Failed > 0 {
		word += fmt.Sprintf(", %d failed", p.Failed)
	}
	if !p.HoldUntil.IsZero() {
		word += ", service not available, next try " + p.HoldUntil.Local().Format("15:04:05")
	}
	m.bar.Describe(m.fit(word, p))
	m.bar.ChangeMax(max(1, p.Items))
	// A bar that cannot be drawn is no reason to stop.
	_ = m.bar.Set(min(p.Settled, max(1, p.Items)-1))
}

// progress returns the last progress with the time left of this moment, and shows it.
func (m *meter) progress(l *throttle.Limiter) runner.Progress {
	left, known := l.TimeLeft()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.LeftKnown && known {
		m.last.TimeLeft = left
	}
	if m.bar != nil && m.seen {
		m.draw()
	}
	return m.last
}

// pause says in the progress who has paused the run; "" when it goes on.
func (m *meter) pause(by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = by
	if m.bar != nil && m.seen {
		m.draw()
	}
}

// note tells what somebody has asked of the run.
func (m *meter) note(at time.Time, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.app.quiet {
		return
	}
	if m.bar != nil {
		_ = m.bar.Clear()
	}
	m.app.say("%s %s", at.Local().Format("15:04:05"), text)
	if m.bar != nil {
		_ = m.bar.RenderBlank()
	}
}

// event tells what the throttle does, where a person should know.
func (m *meter) event(e throttle.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case throttle.EventCalibrate, throttle.EventProbe:
		m.app.debug("%s throttle: %s", e.At.Local().Format("15:04:05"), e.Text)
		return
	}
	if m.app.quiet {
		return
	}
	if m.bar != nil {
		_ = m.bar.Clear()
	}
	text := e.Text
	if !e.Until.IsZero() {
		text += " (until " + e.Until.Local().Format("15:04:05") + ")"
	}
	m.app.say("%s throttle: %s", e.At.Local().Format("15:04:05"), text)
	if m.bar != nil {
		_ = m.bar.RenderBlank() // nothing may move for minutes
	}
}

// close ends the meter and clears its line.
func (m *meter) close() {
	close(m.stop)
	m.done.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		_ = m.bar.Clear()
		_ = m.bar.Exit()
	}
}
