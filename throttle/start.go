package throttle

import "time"

// start is the beginning of a bucket that nobody else uses: batches without pace, each twice
// the last and confirmed by a reading.
type start struct {
	size int // of the batch
	upTo int // own requests that it may bring the bucket to
	over bool
}

func (s *start) open(own int) bool { return !s.over && own < s.upTo }

// sent tells whether a batch is out, by the requests answered, that no reading has confirmed.
func (s *start) sent(answered int) bool { return !s.over && s.upTo > 0 && answered >= s.upTo }

const firstBatch = 10

// nextBatch takes in a reading.
func (p model) nextBatch(e *Core, b *bucket, now time.Time, fresh bool) {
	s := &b.start
	if fresh {
		*s = start{}
	}
	own := e.ours(b, now)
	if n, _ := e.company(b, now); n > 0 || !b.alone || e.age > 500*time.Millisecond {
		s.over = true
	}
	if s.over || s.upTo > 0 && own < s.upTo {
		return
	}
	s.size = max(firstBatch, 2*s.size)
	n := p.burst(e, b, now, min(s.size, b.limit/2-own), 1)
	s.upTo = own + n
	s.over = n < 5
}

// strangersMayFill is the share of a limit up to which strangers may fill the window after a
// burst of ours.
const strangersMayFill = 0.99

// burst returns how many requests, of those wanted, may be sent at once, so that strangers
// who then start at the profile's guard rate do not meet a full window, even if nothing more
// is sent: the burst stays for a whole window, as long as they need to fill it. It gives up
// early, with less than that, below least.
func (p model) burst(e *Core, b *bucket, now time.Time, wanted, least int) int {
	own := e.ours(b, now)
	most := min(float64(wanted), p.top(e, b)-float64(own)-b.crowd.expected(now, e.window))
	gone := e.schedule(b, now)
	for i := steps - 1; i >= 0 && most >= float64(least); i-- {
		stays := float64(own-gone[i]) + b.crowd.left(now.Add(e.window*time.Duration(i)/steps), e.window)
		most = min(most, float64(b.limit)*(strangersMayFill-p.Guard*float64(i+1)/steps)-stays)
	}
	return max(0, int(most))
}

// isShort tells whether the whole rest of the job is so small that it may be sent at once.
func (p model) isShort(e *Core, b *bucket, now time.Time) bool {
	n, known := e.rest(b)
	return known && n <= b.limit && n <= p.burst(e, b, now, n, n)
}
