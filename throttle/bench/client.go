package main

import (
	"slices"
	"time"

	"rmmjob/internal/rmmsim"
	"rmmjob/throttle"
)

// client is one program with its workers: it sends its requests whenever its gate lets it.
type client struct {
	w       *world
	addr    string
	workers int
	begin   time.Time
	lanes   []string
	left    map[string]int // requests by lane that nobody has begun; they may come back
	waiting map[string]int // workers that stand before the gate, by lane
	idle    int
	gate    gate

	done      int
	perLane   map[string]int
	finished  time.Time
	refused   int         // own answers with 429, readings included
	times429  []time.Time // of them
	blocked   int         // own answers with 403
	into      int         // of those, sent after the block had begun
	blockedAt time.Time
	readings  int
	failed    bool
	last      time.Time // of the last good answer
	answers   []time.Time
	keep      bool // keep answers
	writes    int  // sent
	legacyAt  int  // writes sent when a legacy account was recognised, -1 before
}

// gate is what decides when a client may send: a contender.
type gate interface {
	// ask tells that a worker wants to send a request of a lane; the gate calls c.send.
	ask(lane string)
	// answered takes an answer and tells after how long the worker may go on, and whether
	// the request must be sent again.
	answered(p *passage, status int, latency time.Duration) (again bool, rest time.Duration)
	// settle comes after answered, when the client has given its idle workers work.
	settle()
}

// passage is one request on its way.
type passage struct {
	lane   string
	ticket *throttle.Ticket
}

func (w *world) client(addr string, workers int, work map[string]int, who contender) *client {
	c := &client{
		w: w, addr: addr, workers: workers, begin: w.start, left: work, legacyAt: -1,
		waiting: map[string]int{}, perLane: map[string]int{},
	}
	for lane := range work {
		c.lanes = append(c.lanes, lane)
	}
	slices.Sort(c.lanes)
	w.clients = append(w.clients, c)
	if who.workers > 0 {
		c.workers = who.workers
	}
	c.gate = who.make(c)
	return c
}

func (c *client) start() {
	c.idle = c.workers
	c.assign()
}

// assign gives work to idle workers: that of the lane for which the fewest wait.
func (c *client) assign() {
	for c.idle > 0 {
		best := ""
		for _, lane := range c.lanes {
			if c.left[lane] > 0 && (best == "" || c.waiting[lane] < c.waiting[best]) {
				best = lane
			}
		}
		if best == "" {
			break
		}
		c.idle--
		c.left[best]--
		c.waiting[best]++
		c.gate.ask(best)
	}
	if c.idle == c.workers && c.finished.IsZero() {
		c.finished = c.w.now
		c.w.open--
	}
}

// send lets a request leave now.
func (c *client) send(p *passage) {
	w := c.w
	c.waiting[p.lane]--
	sent := w.now
	if p.lane != throttle.Read {
		c.writes++
	}
	there := w.responseTime()
	w.after(there/2, func() {
		d := w.take(c.addr, p.lane)
		status := statusOf(d)
		if status == 403 && !sent.Before(c.blockedAt) {
			c.into++
		}
		w.after(there-there/2+d.Delay, func() { c.answer(p, status, w.now.Sub(sent)) })
	})
}

func statusOf(d rmmsim.Decision) int {
	switch d.Verdict {
	case rmmsim.Rejected:
		return 429
	case rmmsim.Blocked:
		return 403
	}
	return 200
}

func (c *client) answer(p *passage, status int, latency time.Duration) {
	c.count(status)
	again, rest := c.gate.answered(p, status, latency)
	if again {
		c.left[p.lane]++
	} else {
		c.done++
		c.perLane[p.lane]++
		if status == 200 {
			c.last = c.w.now
		}
		if c.keep {
			c.answers = append(c.answers, c.w.now)
		}
	}
	if rest > 0 {
		c.w.after(rest, func() { c.idle++; c.assign() })
	} else {
		c.idle++
		c.assign()
	}
	c.gate.settle()
}

func (c *client) count(status int) {
	switch status {
	case 429:
		c.refused++
		c.times429 = append(c.times429, c.w.now)
	case 403:
		c.blocked++
	}
}
