package runner

import (
	"context"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/throttle"
)

// forecast is how many requests are still to come, as far as that is known. It is counted
// once when a stage begins to be sent and kept up to date in memory.
type forecast struct {
	left map[string]int // pending items by lane, due or not
	// firsts are the items, pending or in flight, whose answer tells how long their list is;
	// endless are the pages of lists that never tell.
	firsts, endless int
	// growing are pages of which each came as the only one from the page before: of a list that
	// states no total, or of one with two pages.
	growing map[string]bool

	current  bool // nothing has been added since the survey that is not counted
	answered int  // of the first, in this stage
	added    int  // by their answers
}

// enoughLists is from how many lists on their average length is taken for that of the others.
const enoughLists = 20

// survey counts what is pending.
func (r *run) survey(store context.Context) error {
	counts, err := r.Store.Pending(store, r.RunID, jobs.FirstPageEnding)
	if err != nil {
		return err
	}
	f := &r.forecast
	if f.left == nil || r.surveyed != r.stage {
		*f = forecast{left: map[string]int{}, growing: map[string]bool{}}
		r.surveyed = r.stage
	}
	clear(f.left)
	f.current = true
	f.firsts, f.endless = 0, 0
	for _, c := range counts {
		f.left[c.Lane] += c.Items
		op, _ := rmm.Lookup(c.Op)
		switch op.Paging {
		case rmm.PagingPages:
			f.firsts += c.Ending
		case rmm.PagingCursor:
			f.endless += c.Items
		}
	}
	return nil
}

// claimed takes note of an item in the hands of a worker.
func (f *forecast) claimed(lane string) { f.left[lane] = max(0, f.left[lane]-1) }

// settle takes note of a result, which has added items to the run.
func (f *forecast) settle(res result, added int) {
	if res.state == checkpoint.StatePending {
		f.left[res.lane.name]++
		return
	}
	if added > 0 {
		f.left[res.wakes[0]] += added // all are pages of the same list
	}
	op, _ := rmm.Lookup(res.op)
	first := op.Paging == rmm.PagingPages && strings.HasSuffix(res.key, jobs.FirstPageEnding)
	switch {
	case op.Paging == rmm.PagingCursor:
		f.endless += added - 1
		return
	case first:
		f.firsts--
		f.answered++
		f.added += added
	case f.growing[res.key]:
		delete(f.growing, res.key)
		f.added += added
	default:
		return
	}
	if res.heir != "" {
		f.growing[res.heir] = true
	}
}

// remaining returns how many requests of a lane are to come; below 0 if that is not known.
// The pages of lists are reads.
func (f *forecast) remaining(lane string) int {
	n := f.left[lane]
	switch {
	case lane != throttle.Read || f.firsts+f.endless+len(f.growing) == 0:
		return n
	case f.endless > 0 || f.answered < enoughLists:
		return -1
	}
	return n + f.firsts*f.added/f.answered
}

// tell passes on to the limiter what remains: what is pending, without the items for which a
// permit is at hand.
func (r *run) tell() {
	for name := range r.lanes {
		n := r.forecast.remaining(name)
		for _, g := range r.ready {
			if g.lane.name == name && n > 0 {
				n--
			}
		}
		r.Limiter.Expect(name, n)
	}
}

// timeLeft is how long the run will take, if that is known: not before the length of its
// lists is, nor while a stage follows whose requests the answers of this one decide.
func (r *run) timeLeft() (time.Duration, bool) {
	if w, ok := r.Work.(interface{ Last(stage string) bool }); ok && !w.Last(r.stage) || !r.forecast.current {
		return 0, false
	}
	return r.Limiter.TimeLeft()
}
