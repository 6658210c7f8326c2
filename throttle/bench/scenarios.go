package main

import (
	"fmt"
	"time"

	"rmmjob/internal/rmmsim"
	"rmmjob/throttle"
)

// figures are what one run came to.
type figures struct {
	score     float64 // done per second; the ratio is this over that of the oracle
	ratio     float64
	refused   float64 // own answers with 429, readings included
	blocked   float64 // own answers with 403
	highest   float64 // utilisation of the fullest bucket
	readings  float64 // per request
	jain      float64 // how equal the sessions are; 0 if there is one
	strangers float64 // share of the requests of others that were refused
	resumed   float64 // seconds from the end of a flood to the next good answer
	into      float64 // requests sent while blocked; the other 403s were on their way when it began
	lost      float64 // seconds lost to a block
	found     float64 // writes sent before a legacy account was recognised
}

// scenario is one load on one account.
type scenario struct {
	name  string
	about string
	// rivals tells whether programs without knowledge of the account are run as well.
	rivals bool
	seeds  int  // at most so many; 0: all
	extra  bool // only when it is asked for
	run    func(seed uint64, who contender) figures
	goals  []goal
}

// goal is what must hold in the median of the seeds, for the profiles named by only, which
// are full and adaptive if there are none; loose is what adaptive may be below the goal.
type goal struct {
	text  string
	only  []string
	of    func(figures) float64
	least float64
	most  float64
	loose float64
}

func ratioOf(f figures) float64   { return f.ratio }
func refusedOf(f figures) float64 { return f.refused }
func highestOf(f figures) float64 { return f.highest }

const none = 1e9

// allowance is what adaptive, which leaves more room to others, may be below a ratio.
const allowance = 0.03

func ratioAtLeast(v float64) goal {
	return goal{text: fmt.Sprintf("ratio ≥ %.2f", v), of: ratioOf, least: v, most: none, loose: allowance}
}

func no429() goal { return goal{text: "0 × 429", of: refusedOf, most: 0} }

func work(name, about string, s settings, workers int, jobs map[string]int, goals ...goal) scenario {
	return scenario{
		name: name, about: about, rivals: name == "S1", goals: goals,
		run: func(seed uint64, who contender) figures {
			w := newWorld(seed, s)
			w.client("a", workers, clone(jobs), who)
			w.run()
			return w.figures()
		},
	}
}

func clone(m map[string]int) map[string]int {
	out := map[string]int{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

const endless = 1 << 30

// sessions lets n equal programs read for a time, begun within some seconds.
func sessions(n int, goals ...goal) scenario {
	s := sessionsOn(settings{}, n)
	s.name, s.rivals, s.goals = fmt.Sprintf("S5-%d", n), n == 3, goals
	s.about = fmt.Sprintf("%d equal sessions read for 20 minutes", n)
	return s
}

func sessionsOn(s settings, n int) scenario {
	return scenario{
		run: func(seed uint64, who contender) figures {
			w := newWorld(seed, s)
			w.end = w.start.Add(20 * time.Minute)
			n := n
			workers := 8
			if who.name == "oracle" {
				n, workers = 1, 8*n // what all of them could have done together
			}
			for i := range n {
				c := w.client(fmt.Sprint("session-", i), workers, map[string]int{throttle.Read: endless}, who)
				c.begin = w.start.Add(time.Duration(w.rng.Float64() * float64(10*time.Second)))
			}
			w.run()
			return w.figures()
		},
	}
}

// onAndOff draws the phases in which others are on.
func onAndOff(w *world, length time.Duration) (phases []phase) {
	between := func(from, to time.Duration) time.Duration {
		return from + time.Duration(w.rng.Float64()*float64(to-from))
	}
	for t := between(time.Minute, 3*time.Minute); t < length; t += between(2*time.Minute, 5*time.Minute) {
		p := phase{from: t, to: t + between(2*time.Minute, 5*time.Minute)}
		phases = append(phases, p)
		t = p.to
	}
	return phases
}

func scenarios() []scenario {
	read := func(n int) map[string]int { return map[string]int{throttle.Read: n} }
	under90 := goal{text: "highest < 90 %", of: highestOf, most: rmmsim.CutOff - 1e-9}
	few := goal{text: "calibrations ≤ 8 %", of: func(f figures) float64 { return f.readings }, most: 0.08}
	fair := goal{text: "Jain ≥ 0.98", of: func(f figures) float64 { return f.jain }, least: 0.98, most: none}
	found := goal{text: "found within 20 writes", of: func(f figures) float64 { return f.found }, most: 20}
	quick := ratioAtLeast(0.80)
	quick.only = []string{"quick"}
	other := ratioAtLeast(0.45)

	return append([]scenario{
		work("S1", "10,000 reads, 8 workers", settings{}, 8, read(10_000), ratioAtLeast(0.95), no429(), under90),
		work("S1-32", "10,000 reads, 32 workers", settings{}, 32, read(10_000), ratioAtLeast(0.95), no429(), under90),
		work("S1b", "300 reads from an empty window", settings{}, 8, read(300), quick, other, no429()),
		work("S2", "20,000 writes of UDFs", settings{}, 8, map[string]int{udf: 20_000}, ratioAtLeast(0.97), no429()),
		work("S3", "1,000 writes of an operation with limit 100", settings{}, 8, map[string]int{warranty: 1000}, ratioAtLeast(0.96), no429()),
		work("S4", "6,000 reads and 6,000 writes of UDFs, mixed", settings{}, 8, map[string]int{throttle.Read: 6000, udf: 6000}, ratioAtLeast(0.96), no429()),
		sessions(2, ratioAtLeast(0.94), fair, no429(), few),
		sessions(3, ratioAtLeast(0.92), fair, no429(), few),
		sessions(5, ratioAtLeast(0.90), fair, no429(), few),
		{
			name: "S6", about: "others on and off at 70 % of the reads, 30 minutes", rivals: true,
			goals: []goal{
				ratioAtLeast(0.85),
				{text: "≤ 1 × 429", of: refusedOf, most: 1},
				{text: "others refused ≤ 1 %", of: func(f figures) float64 { return f.strangers }, most: 0.01},
			},
			run: func(seed uint64, who contender) figures {
				w := newWorld(seed, settings{})
				w.end = w.start.Add(30 * time.Minute)
				w.strangers(throttle.Read, 7, onAndOff(w, 30*time.Minute))
				w.client("a", 8, read(endless), who)
				w.run()
				return w.figures()
			},
		},
		{
			name: "S7", about: "3,000 reads into a window that is 80 % full",
			goals: []goal{ratioAtLeast(0.93), no429()},
			run: func(seed uint64, who contender) figures {
				w := newWorld(seed, settings{})
				// What others have sent in the minute before.
				w.strangers(throttle.Read, 8, []phase{{0, time.Minute}})
				c := w.client("a", 8, read(3000), who)
				c.begin = w.start.Add(time.Minute)
				w.run()
				return w.figures()
			},
		},
		{
			name: "S8", about: "six hours of reads", seeds: 3,
			goals: []goal{{text: "calibrations ≤ 1 %", of: func(f figures) float64 { return f.readings }, most: 0.01}, no429()},
			run: func(seed uint64, who contender) figures {
				w := newWorld(seed, settings{})
				w.end = w.start.Add(6 * time.Hour)
				w.client("a", 8, read(endless), who)
				w.run()
				return w.figures()
			},
		},
		work("S9", "3,000 reads and 3,000 writes, legacy account", settings{legacy: true}, 8, map[string]int{throttle.Read: 3000, udf: 3000},
			ratioAtLeast(0.95), no429(),
			found),
		work("S9b", "6,000 writes, legacy account that reports a write limit", settings{legacy: true, disguised: true}, 8, map[string]int{udf: 6000},
			ratioAtLeast(0.95), no429(), found),
		{
			name: "S10a", about: "another program floods the reads for five minutes", rivals: true,
			goals: []goal{
				{text: "≤ 15 refused", of: refusedOf, most: 15},
				{text: "resumes within 60 s", of: func(f figures) float64 { return f.resumed }, most: 60},
			},
			run: func(seed uint64, who contender) figures {
				w := newWorld(seed, settings{})
				w.end = w.start.Add(15 * time.Minute)
				from := w.start.Add(3 * time.Minute).Add(time.Duration(w.rng.Float64() * float64(time.Minute)))
				to := from.Add(5 * time.Minute)
				w.quota.Flood(rmmsim.Flood{From: from, To: to, Rate: 15})
				w.strange = &outsiders{w: w, lane: throttle.Read, rate: 15, phases: []phase{{from.Sub(w.start), to.Sub(w.start)}}}
				c := w.client("a", 8, read(endless), who)
				c.keep = true
				w.run()
				f := w.figures()
				f.resumed = none
				for _, t := range c.answers {
					if t.After(to) {
						f.resumed = t.Sub(to).Seconds()
						break
					}
				}
				return f
			},
		},
		{
			name: "S10b", about: "the address is blocked for five minutes", rivals: true,
			goals: []goal{
				{text: "≤ 3 requests sent while blocked", of: func(f figures) float64 { return f.into }, most: 3},
				{text: "≤ 310 s lost", of: func(f figures) float64 { return f.lost }, most: 310},
			},
			run: func(seed uint64, who contender) figures {
				run := func(block bool) (*world, *client) {
					w := newWorld(seed, settings{})
					at := w.start.Add(3*time.Minute + time.Duration(w.rng.Float64()*float64(time.Minute)))
					c := w.client("a", 8, read(6000), who)
					if block {
						w.at(at, func() {
							w.quota.Block("a", w.now.Add(rmmsim.BlockFor))
							c.blockedAt = w.now
						})
					}
					w.run()
					return w, c
				}
				_, free := run(false)
				w, c := run(true)
				f := w.figures()
				f.lost = c.finished.Sub(free.finished).Seconds()
				return f
			},
		},
	}, variations()...)
}

// variations are beyond the scenarios of the specification: what the formulas were not made
// for. They have no goals but the obvious one; several sessions that all read counts three
// seconds late have none, because that is more than the margins are made for.
func variations() []scenario {
	read := func(n int) map[string]int { return map[string]int{throttle.Read: n} }
	out := []scenario{
		work("V1", "5,000 reads, answers of 1.5 s in the median, 24 workers", settings{latency: 1500 * time.Millisecond}, 24, read(5000), no429()),
		work("V2", "20,000 reads with a limit of 2400, 32 workers", settings{limits: map[string]int{throttle.Read: 2400}}, 32, read(20_000), no429()),
		work("V3", "1,000 reads with a limit of 60", settings{limits: map[string]int{throttle.Read: 60}}, 8, read(1000), no429()),
		work("V4", "6,000 writes, write windows that end all at once", settings{fixed: true}, 8, map[string]int{udf: 6000}, no429()),
		work("V5", "5,000 reads, counts that are 3 s old", settings{stale: 3 * time.Second}, 8, read(5000), no429()),
	}
	for _, n := range []int{2, 5} {
		s := sessionsOn(settings{stale: 3 * time.Second}, n)
		s.name = fmt.Sprintf("V6-%d", n)
		s.about = fmt.Sprintf("%d equal sessions, counts that are 3 s old", n)
		out = append(out, s)
	}
	out = append(out, scenario{
		name: "V7", about: "others read at 40 % of the limit all the time", goals: []goal{no429()},
		run: func(seed uint64, who contender) figures {
			w := newWorld(seed, settings{})
			w.end = w.start.Add(20 * time.Minute)
			w.strangers(throttle.Read, 4, []phase{{0, time.Hour}})
			w.client("a", 8, read(endless), who)
			w.run()
			return w.figures()
		},
	})
	for i := range out {
		out[i].extra = true
	}
	return out
}

// figures adds up what the clients of a world have seen.
func (w *world) figures() figures {
	var f figures
	var done, readings, sum, squares float64
	last := w.start
	for _, c := range w.clients {
		done += float64(c.done)
		readings += float64(c.readings)
		sum += float64(c.done)
		squares += float64(c.done) * float64(c.done)
		f.refused += float64(c.refused)
		f.blocked += float64(c.blocked)
		f.into += float64(c.into)
		f.found = max(f.found, float64(c.legacyAt))
		if c.finished.After(last) {
			last = c.finished
		}
	}
	began := w.clients[0].begin
	if !w.end.IsZero() {
		last, began = w.end, w.start
	}
	f.score = done / last.Sub(began).Seconds()
	f.readings = readings / max(1, done)
	if n := float64(len(w.clients)); n > 1 && squares > 0 {
		f.jain = sum * sum / (n * squares)
	}
	for _, u := range w.quota.Highest() {
		f.highest = max(f.highest, u)
	}
	if w.strange != nil && w.strange.sent > 0 {
		f.strangers = float64(w.strange.refused) / float64(w.strange.sent)
	}
	return f
}
