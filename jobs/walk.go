package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// Bounds of walking a list. The service pages by offset over live data: an
// element that leaves or joins between two pages makes another one appear twice
// or not at all, so a list is read again until two walks agree.
const (
	maxWalks       = 4      // the first and three more
	rewalkUpTo     = 100    // pages up to which a second walk is always worth its price
	maxPages       = 50_000 // of one list: at 250 elements each far more than any account has
	sparePages     = 10     // by which a list may have more pages than its total needs
	defaultMaximum = 250    // page size that the service documents as its maximum
)

// list is one list of the account: an operation with its path and query.
type list struct {
	op    rmm.Operation
	id    string // first part of the keys; unique among the lists of a run
	path  map[string]string
	query url.Values
	again string // second walk: auto, always or never

	// optional: the list may be refused, which says that its site or device is
	// gone or has no such list.
	optional bool
}

// walkKey orders the pages of a list: the newest walk first, so that a reader
// of the answers meets the walk that counts before those that it replaced.
func walkKey(id string, walk, page int) string {
	return fmt.Sprintf("%s/%02d/%07d", id, 99-walk, page)
}

// parseWalkKey is the inverse of walkKey.
func parseWalkKey(key string) (id string, walk, page int, err error) {
	rest, last, ok := cutLast(key)
	id, middle, ok2 := cutLast(rest)
	page, err1 := strconv.Atoi(last)
	n, err2 := strconv.Atoi(middle)
	if !ok || !ok2 || err1 != nil || err2 != nil {
		return "", 0, 0, fmt.Errorf("item key %q is not that of a page", key)
	}
	return id, 99 - n, page, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// first is the item with which a walk begins.
func (l list) first(walk, pageSize int) Item {
	q := maps.Clone(l.query)
	if q == nil {
		q = url.Values{}
	}
	switch l.op.Paging {
	case rmm.PagingPages:
		q.Set("page", "0")
		q.Set("max", strconv.Itoa(pageSize))
	case rmm.PagingCursor:
		if !q.Has("size") {
			q.Set("size", strconv.Itoa(pageSize))
		}
	}
	return Item{
		Key:     walkKey(l.id, walk, 0),
		Request: rmm.Request{Op: l.op.Name, Path: l.path, Query: q},
	}
}

// errLoop is the fault of a server whose next page is not the next one.
var errLoop = errors.New("the pages of the list do not lead to its end")

// followPage returns the pages that one page adds. The first page of a list that
// states its total adds all others at once; otherwise each page adds its
// successor. Adding a page that is there already adds nothing, so a list that
// grew on its last page is simply followed further.
func followPage(it Item, body []byte) ([]Item, error) {
	op, ok := rmm.Lookup(it.Request.Op)
	if !ok {
		return nil, fmt.Errorf("operation %q is not in the catalogue", it.Request.Op)
	}
	if op.Paging != rmm.PagingPages && op.Paging != rmm.PagingCursor {
		return nil, nil
	}
	id, walk, n, err := parseWalkKey(it.Key)
	if err != nil {
		return nil, err
	}
	page, err := rmm.ParsePage(op, body)
	if err != nil {
		return nil, err
	}
	if page.Next == "" || op.Paging == rmm.PagingCursor && len(page.Items) == 0 {
		return nil, nil // the activity log names a next page even on its last one
	}
	next, err := rmm.NextQuery(it.Request, page.Next)
	if err != nil {
		return nil, fmt.Errorf("page %d of %s: %w", n, op.Name, err)
	}
	if n+1 >= maxPages {
		return nil, fmt.Errorf("%w: %s has more than %d pages", errLoop, op.Name, maxPages)
	}
	last := n + 1
	if op.Paging == rmm.PagingPages {
		if got, err := strconv.Atoi(next.Get("page")); err != nil || got != n+1 {
			return nil, fmt.Errorf("%w: page %d of %s names page %q as the next", errLoop, n, op.Name, next.Get("page"))
		}
		if page.Total >= 0 && int64(n) > pagesFor(page.Total, len(page.Items))+sparePages {
			return nil, fmt.Errorf("%w: page %d of %s names a next one, for %d elements in all", errLoop, n, op.Name, page.Total)
		}
		if n == 0 {
			last = max(last, lastPage(page, next))
		}
	}
	items := make([]Item, 0, last-n)
	for i := n + 1; i <= last; i++ {
		q := next
		if op.Paging == rmm.PagingPages {
			q = maps.Clone(next)
			q.Set("page", strconv.Itoa(i))
		}
		items = append(items, Item{
			Key:     walkKey(id, walk, i),
			Request: rmm.Request{Op: op.Name, Path: it.Request.Path, Query: q},
		})
	}
	return items, nil
}

// pagesFor is the number of pages that a total fills; an empty list has one.
func pagesFor(total int64, size int) int64 { return (total-1)/max(int64(size), 1) + 1 }

// lastPage is the number of the last page that a first one lets expect, or 0. A
// first page that came short, whether the server cut the size or left elements
// out, must not be taken for the size of all: too few pages are made up for by
// following the last one, too many would be requests for nothing.
func lastPage(first rmm.Page, next url.Values) int {
	size := len(first.Items)
	if asked, err := strconv.Atoi(next.Get("max")); err == nil {
		size = max(size, asked)
	}
	if first.Total < 0 || size == 0 {
		return 0
	}
	if pages := pagesFor(first.Total, size); pages < maxPages {
		return int(pages) - 1
	}
	return 0
}

// identity is what tells the elements of a list apart.
type identity [16]byte

// identify returns the identity of an element: its key field, or its whole text
// where the list has no key or the element lacks it.
func identify(op rmm.Operation, element json.RawMessage) (id identity, keyed bool) {
	if op.Key != "" {
		if key := keyOf(op.Key, element); key != "" {
			sum := sha256.Sum256([]byte("k" + key))
			return identity(sum[:16]), true
		}
	}
	sum := sha256.Sum256(append([]byte("e"), element...))
	return identity(sum[:16]), false
}

// keyOf returns the text of one field, "" when it is absent or null. A dot leads
// into an object.
func keyOf(field string, element json.RawMessage) string {
	if field == "" {
		return ""
	}
	return text(gjson.GetBytes(element, field))
}

// text is a JSON string or the digits of a number; "" for anything else.
func text(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return v.Str
	case gjson.Number:
		return v.Raw
	}
	return ""
}

// fingerprint is an order-free fingerprint of a set of elements: the sum of their
// identities. Two walks with the same fingerprint and number saw the same elements.
type fingerprint [2]uint64

func (p *fingerprint) add(id identity) {
	p[0] += binary.LittleEndian.Uint64(id[:8])
	p[1] += binary.LittleEndian.Uint64(id[8:])
}

// walk is what one pass over a list brought.
type walk struct {
	number     int
	pages      int
	elements   int
	duplicates int
	total      int64 // -1 while no page stated one
	moved      bool  // pages stated different totals
	failed     string
	failedPage int // the first page that could not be read
	status     int // with which it was refused; 0 when there was no answer
	print      fingerprint
}

// refused tells whether the first page that could not be read was refused for
// good: what it asks for is not there, or not there any more.
func (w walk) refused() bool {
	return w.failed != "" && (w.status == http.StatusNotFound || w.status == http.StatusBadRequest)
}

// absent tells whether the walk did not get a single page because there is no
// such list.
func (w walk) absent() bool { return w.refused() && w.failedPage == 0 }

// fault says why the walk does not prove the list complete; "" when it does.
func (w walk) fault() string {
	switch {
	case w.failed != "" && w.total > int64(w.elements):
		return fmt.Sprintf("%s; %d of %d elements came", w.failed, w.elements, w.total)
	case w.failed != "":
		return w.failed
	case w.moved:
		return "the total changed while it was read"
	case w.duplicates > 0:
		return fmt.Sprintf("%d of its elements came twice", w.duplicates)
	case w.total >= 0 && int64(w.elements) != w.total:
		return fmt.Sprintf("%d of %d elements came", w.elements, w.total)
	}
	return ""
}

// walks reads the newest two walks of a list, newest first.
func walks(ctx context.Context, a Answers, l list) ([]walk, error) {
	t := tally{op: l.op}
	for ans, err := range a.Answers(ctx, l.id+"/") {
		if err != nil {
			return nil, err
		}
		_, n, page, err := parseWalkKey(ans.Key)
		if err != nil {
			return nil, err
		}
		if more, err := t.add(ans, n, page); err != nil || !more {
			return t.walks, err
		}
	}
	return t.walks, nil
}

// tally counts what the answers of one list come to, given in the order of their keys.
type tally struct {
	op    rmm.Operation
	walks []walk // the newest two, newest first
	seen  map[identity]struct{}
}

// add takes one answer: page n of a walk. It is false for a walk that is older than the two that count.
func (t *tally) add(ans Answer, number, page int) (more bool, err error) {
	if len(t.walks) == 0 || t.walks[len(t.walks)-1].number != number {
		if len(t.walks) == 2 {
			return false, nil
		}
		t.walks = append(t.walks, walk{number: number, total: -1})
		t.seen = map[identity]struct{}{}
	}
	w := &t.walks[len(t.walks)-1]
	w.pages++
	if !ans.OK {
		if w.failed == "" {
			w.failed, w.failedPage, w.status = fmt.Sprintf("page %d could not be read: %s", page+1, ans.Reason), page, ans.HTTP
			if page == 0 { // of one answer, as often as not
				w.failed = "it could not be read: " + ans.Reason
			}
		}
		return true, nil
	}
	p, err := rmm.ParsePage(t.op, ans.Body)
	if err != nil {
		return false, fmt.Errorf("stored answer %s: %w", ans.Key, err)
	}
	if p.Total >= 0 {
		w.moved = w.moved || w.total >= 0 && w.total != p.Total
		w.total = p.Total
	}
	for _, e := range p.Items {
		id, keyed := identify(t.op, e)
		if _, dup := t.seen[id]; dup && keyed {
			w.duplicates++
			continue
		}
		t.seen[id] = struct{}{}
		w.elements++
		w.print.add(id)
	}
	return true, nil
}

// title names the list for people.
func (l list) title() string {
	if len(l.path) == 0 {
		return l.op.Name
	}
	return l.op.Name + " of " + l.owner()
}

// owner is what fills the path of the list.
func (l list) owner() string {
	var values []string
	for _, param := range l.op.PathParams() {
		values = append(values, l.path[param])
	}
	return strings.Join(values, " on ")
}

// judge decides from the walks so far whether the list is complete (again 0),
// must be walked once more (again is the number of the next walk), or cannot be
// proved complete.
func (l list) judge(ws []walk) (again int, why string, err error) {
	if len(ws) == 0 {
		return 1, "", nil
	}
	now := ws[0]
	fault := now.fault()
	agrees := len(ws) > 1 && ws[1].failed == "" && ws[1].print == now.print && ws[1].elements == now.elements
	switch {
	case now.absent() && l.optional:
		return 0, "", nil
	case now.failed != "" && (now.absent() || !now.refused()):
		// The request has had its retries: another walk would meet the same. Only
		// a later page that is refused may be one that the list does not have now.
		return 0, "", &IncompleteError{Message: fmt.Sprintf("%s is incomplete: %s", l.title(), fault)}
	case fault == "" && agrees:
		return 0, "", nil
	case fault == "" && now.number == recalled:
		return 0, "", nil
	case fault == "" && now.number == 1 && !l.wantsSecond(now):
		return 0, "", nil
	case now.number >= maxWalks:
		if fault == "" {
			fault = "no two walks agreed"
		}
		return 0, "", &IncompleteError{Message: fmt.Sprintf("%s is incomplete after %d walks: %s", l.title(), now.number, fault)}
	case fault == "" && now.number == 1:
		// Nothing to tell: it is what is done with every list of some pages.
	case fault == "":
		why = "it changed between two walks"
	default:
		why = fault
	}
	return now.number + 1, why, nil
}

// wantsSecond tells whether a first walk without fault is read again. A single
// page is one moment of the list and cannot have shifted; a log without an end
// grows all the time.
func (l list) wantsSecond(w walk) bool {
	switch l.again {
	case "always":
		return true
	case "never":
		return false
	}
	return l.op.Paging == rmm.PagingPages && w.pages > 1 && w.pages <= rewalkUpTo
}

// survey is what the lists of a stage have come to.
type survey struct {
	again  []Item // the first pages of lists that must be walked once more
	why    string // the reason of one of them, for people
	judged int
	absent int      // optional lists that are not there
	gone   []string // the owners of the first of these
	open   int      // lists that cannot be proved complete
	fault  *IncompleteError
	faulty list // that the fault is about
}

// goneAtMost is how many of the owners without a list a survey names.
const goneAtMost = 5

// add takes the judgement of one list. One that cannot be proved complete is
// kept for incomplete.
func (s *survey) add(l list, ws []walk, pageSize int) error {
	n, why, err := l.judge(ws)
	s.judged++
	fault, isFault := errors.AsType[*IncompleteError](err)
	switch {
	case isFault:
		if s.open++; s.fault == nil {
			s.fault, s.faulty = fault, l
		}
	case err != nil:
		return err
	case n > 0:
		s.again = append(s.again, l.first(n, pageSize))
		if why != "" {
			s.why = fmt.Sprintf("%s is read again: %s", l.op.Name, why)
		}
	case ws[0].absent():
		if s.absent++; len(s.gone) < goneAtMost {
			s.gone = append(s.gone, l.owner())
		}
	}
	return nil
}

// incomplete is the error of lists that cannot be proved complete, nil if there are
// none.
func (s *survey) incomplete() error {
	switch s.open {
	case 0:
		return nil
	case 1:
		return s.fault
	}
	more := "so are %d more"
	if s.open == 2 {
		more = "so is %d more"
	}
	return &IncompleteError{Message: fmt.Sprintf("%s; and "+more, s.fault.Message, s.open-1)}
}

// join adds the lists of another survey that cannot be proved complete.
func (s *survey) join(other survey) {
	s.open += other.open
	if s.fault == nil {
		s.fault = other.fault
	}
}

// settleLists judges every list.
func settleLists(ctx context.Context, a Answers, lists iter.Seq2[list, error], pageSize int) (survey, error) {
	var s survey
	for l, err := range lists {
		if err != nil {
			return s, err
		}
		ws, err := walks(ctx, a, l)
		if err != nil {
			return s, err
		}
		if err := s.add(l, ws, pageSize); err != nil {
			return s, err
		}
	}
	return s, s.incomplete()
}

// settleUnder judges every list whose key begins with prefix, in one pass over their answers: there may be one for each
// of many thousand devices. of makes a list of its first answer. Items that were born settled are no lists. What cannot be
// proved complete is in the survey and no error.
func settleUnder(ctx context.Context, a Answers, prefix string, of func(id string, req rmm.Request) list, pageSize int) (survey, error) {
	var s survey
	var l list
	var t tally
	end := func() error {
		if t.walks == nil {
			return nil
		}
		return s.add(l, t.walks, pageSize)
	}
	for ans, err := range a.Answers(ctx, prefix) {
		if err != nil {
			return s, err
		}
		if ans.Request.Op == "" {
			continue
		}
		id, n, page, err := parseWalkKey(ans.Key)
		if err != nil {
			return s, err
		}
		if id != l.id {
			if err := end(); err != nil {
				return s, err
			}
			l = of(id, ans.Request)
			t = tally{op: l.op}
		}
		if _, err := t.add(ans, n, page); err != nil {
			return s, err
		}
	}
	return s, end()
}

// elements yields the elements of the newest walk of every list under prefix,
// each once, with the request that brought it.
func elements(ctx context.Context, a Answers, prefix string) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for el, err := range elementsAndLists(ctx, a, prefix) {
			if err == nil && el.JSON == nil {
				continue
			}
			if !yield(el, err) {
				return
			}
		}
	}
}

// elementsAndLists is elements, with an element without JSON at the beginning of
// every list that is there: an empty list is not the same as none.
func elementsAndLists(ctx context.Context, a Answers, prefix string) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		var current string
		var newest int
		var seen map[identity]struct{}
		for ans, err := range a.Answers(ctx, prefix) {
			if err != nil {
				yield(Element{}, err)
				return
			}
			id, n, number, err := parseWalkKey(ans.Key)
			if err != nil {
				yield(Element{}, err)
				return
			}
			if id != current || seen == nil {
				current, newest, seen = id, n, map[identity]struct{}{}
			}
			if n != newest || !ans.OK {
				continue
			}
			op, _ := rmm.Lookup(ans.Request.Op)
			if number == 0 && !yield(Element{Path: ans.Request.Path, list: id, op: op}, nil) {
				return
			}
			page, err := rmm.ParsePage(op, ans.Body)
			if err != nil {
				yield(Element{}, fmt.Errorf("stored answer %s: %w", ans.Key, err))
				return
			}
			for _, raw := range page.Items {
				e, keyed := identify(op, raw)
				if _, dup := seen[e]; dup && keyed {
					continue
				}
				seen[e] = struct{}{}
				if !yield(Element{JSON: raw, Path: ans.Request.Path, list: id, op: op}, nil) {
					return
				}
			}
		}
	}
}

// Element is one element of a list as the service sent it.
type Element struct {
	JSON json.RawMessage
	Path map[string]string // path parameters of the request, such as siteUid; nil for account-wide lists
	list string            // the id of its list
	op   rmm.Operation
}
