package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rmmjob/internal/rmm"
	"rmmjob/throttle"
)

// The requests of a measurement: two bursts, after each of which the counts are read until
// they show it, then readings alone, and a last one.
const (
	burst       = 10
	bursts      = 2
	watches     = 12 // readings after a burst, at most
	selfProbes  = 8  // readings in a row
	measureMost = 1 + bursts*(1+burst+watches) + selfProbes + 4
	lookEvery   = 500 * time.Millisecond
	// tooBusy is the share of the limit above which nothing is measured that adds to it.
	tooBusy = 0.5
	// fullest is the share above which not even a reading is made to look at its delay.
	fullest = 0.97
)

// assumption is something that the throttle takes for granted, and what was found.
type assumption struct {
	Name     string `json:"name"`
	Holds    *bool  `json:"holds"` // null where it was not measured
	Measured string `json:"measured"`
}

// measurement is one sitting. The counts of a reading are compared with what was sent: others
// who use the account at the same time make it less sharp, and are told of.
type measurement struct {
	d        *doctor
	sent     int
	found    []assumption
	last     throttle.Reading
	age      time.Duration
	ageKnown bool
	answers  []time.Duration // response times of readings
}

// measure tells whether what docs/throttling.md assumes holds on this account. It never tries
// to reach a limit.
func (d *doctor) measure(ctx context.Context) error {
	if d.conn == nil || d.rate == nil {
		return nil // the checks say why
	}
	m := &measurement{d: d, last: readingOf(*d.rate)}
	if err := m.all(ctx); err != nil {
		return fmt.Errorf("measure the account: %w", err)
	}
	d.result.set("measurement", map[string]any{"requests": m.sent, "assumptions": m.found})
	if d.json {
		return nil
	}
	fmt.Fprintf(d.stdout, "\nmeasured with %s:\n", count(int64(m.sent), "request"))
	t := newTable("assumption", "holds", "measured")
	for _, a := range m.found {
		holds := "not known"
		if a.Holds != nil {
			holds = map[bool]string{true: "yes", false: "no"}[*a.Holds]
		}
		t.add(a.Name, holds, a.Measured)
	}
	t.write(d.stdout)
	return nil
}

// The names of what is measured, as in docs/throttling.md.
const (
	assumeFresh = "request_rate is fresh"
	assumeSelf  = "request_rate counts itself as a read"
	assumeDelay = "answers come a second late from the cut-off on"
)

func (m *measurement) all(ctx context.Context) error {
	if _, err := m.read(ctx); err != nil {
		return err
	}
	share := float64(m.last.Count) / float64(m.last.Limit)
	if 2*measureMost > m.last.Limit || share > tooBusy {
		why := fmt.Sprintf("not tried: %d of %d reads are in the window, and a measurement must not be what fills it", m.last.Count, m.last.Limit)
		m.tell(assumeFresh, nil, "%s", why)
		m.tell(assumeSelf, nil, "%s", why)
		return m.delay(ctx, share)
	}
	if err := m.freshness(ctx); err != nil {
		return err
	}
	if err := m.itself(ctx); err != nil {
		return err
	}
	return m.delay(ctx, float64(m.last.Count)/float64(m.last.Limit))
}

func (m *measurement) tell(name string, holds *bool, format string, args ...any) {
	m.found = append(m.found, assumption{Name: name, Holds: holds, Measured: fmt.Sprintf(format, args...)})
}

// read makes a reading.
func (m *measurement) read(ctx context.Context) (throttle.Reading, error) {
	began := time.Now()
	m.sent++
	status, err := m.d.conn.client.RequestRate(ctx)
	if err != nil {
		return throttle.Reading{}, err
	}
	m.answers = append(m.answers, time.Since(began))
	m.last = readingOf(status)
	return m.last, nil
}

// freshness sends a burst and looks when it shows. The age of the counts is the time until
// most of the burst is in a reading, less what the answer takes.
func (m *measurement) freshness(ctx context.Context) error {
	var ages []time.Duration
	for i := range bursts {
		before, err := m.read(ctx)
		if err != nil {
			return err
		}
		for range burst {
			m.sent++
			if _, err := m.d.conn.client.Do(ctx, rmm.Request{Op: "account"}); err != nil {
				return err
			}
		}
		over, seen := time.Now(), false
		for range watches {
			asked := time.Now()
			r, err := m.read(ctx)
			if err != nil {
				return err
			}
			if r.Count-before.Count >= burst*7/10 {
				ages, seen = append(ages, asked.Sub(over)), true
				break
			}
			if err := pause(ctx, lookEvery); err != nil {
				return err
			}
		}
		if !seen {
			m.tell(assumeFresh, new(false), "burst %d of %d requests did not show within %v; other programs may hide it, try again at a quiet hour",
				i+1, burst, watches*lookEvery)
			return nil
		}
	}
	m.age, m.ageKnown = slices.Max(ages), true
	if m.age < lookEvery {
		m.tell(assumeFresh, new(true), "%d bursts of %d requests were in the first reading after them", bursts, burst)
		return nil
	}
	m.tell(assumeFresh, new(false), "the counts were about %v old; the throttle notices that in a run and leaves more room, beside several programs choose neighbour",
		m.age.Round(lookEvery))
	return nil
}

// itself makes readings in a row and looks whether they are in the count.
func (m *measurement) itself(ctx context.Context) error {
	if !m.ageKnown {
		m.tell(assumeSelf, nil, "not tried: the age of the counts is not known")
		return nil
	}
	settle := m.age + lookEvery
	if err := pause(ctx, settle); err != nil {
		return err
	}
	first, err := m.read(ctx)
	if err != nil {
		return err
	}
	for range selfProbes {
		if _, err := m.read(ctx); err != nil {
			return err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, err := m.read(ctx)
	if err != nil {
		return err
	}
	rose := after.Count - first.Count
	m.tell(assumeSelf, new(rose >= selfProbes*7/10), "after %d more readings the count had risen by %d", selfProbes+1, rose)
	return nil
}

// delay compares answers near the cut-off with the usual ones, but only where others have
// brought the account there already.
func (m *measurement) delay(ctx context.Context, share float64) error {
	usual := median(m.answers)
	if share < m.last.CutOff || m.last.CutOff == 0 {
		m.tell(assumeDelay, nil, "not tried: the account is at %.0f %% of its reads, and nothing here drives it to %.0f %%; usual answers take %v",
			100*share, 100*m.last.CutOff, usual.Round(time.Millisecond))
		return nil
	}
	for range 2 {
		if r := m.last; float64(r.Count+3) > fullest*float64(r.Limit) {
			break
		}
		if _, err := m.read(ctx); err != nil {
			return err
		}
	}
	usual = median(m.answers)
	m.tell(assumeDelay, new(usual > 900*time.Millisecond), "at %.0f %% of the reads answers take %v", 100*share, usual.Round(time.Millisecond))
	return nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// pause waits, or ends with its context.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
