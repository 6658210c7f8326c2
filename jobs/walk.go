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
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"rmmjob/internal/rmm"
)

// Bounds of walking a list. The service pages by offset over live data: an
// element that leaves or joins between two pages makes another one appear twice
// or not at all, so a list is read again until two walks agree.
const (
	maxWalks       = 4   // the first and three more
	rewalkUpTo     = 100 // pages up to which a second walk is always worth its price
	parallelPages  = 50_000
	defaultMaximum = 250 // page size that the service documents as its maximum
)

// list is one list of the account: an operation with its path and query.
type list struct {
	op    rmm.Operation
	id    string // first part of the keys; unique among the lists of a run
	path  map[string]string
	query url.Values
	again string // second walk: auto, always or never
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

// errLoop is the fault of a server whose next page is not further on.
var errLoop = errors.New("the next page leads back to one already read")

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
	page, err := rmm.PageOf(op, body)
	if err != nil {
		return nil, err
	}
	if page.Next == "" {
		return nil, nil
	}
	next, err := rmm.NextQuery(it.Request, page.Next)
	if err != nil {
		return nil, err
	}
	child := func(n int, q url.Values) Item {
		return Item{
			Key:     walkKey(id, walk, n),
			Request: rmm.Request{Op: op.Name, Path: it.Request.Path, Query: q},
		}
	}

	if op.Paging == rmm.PagingCursor {
		if len(page.Items) == 0 {
			return nil, nil // the activity log names a next page even on its last one
		}
		if next.Encode() == it.Request.Query.Encode() {
			return nil, fmt.Errorf("page %d of %s: %w", n, op.Name, errLoop)
		}
		return []Item{child(n+1, next)}, nil
	}

	if got, err := strconv.Atoi(next.Get("page")); err != nil || got != n+1 {
		return nil, fmt.Errorf("page %d of %s names page %q as the next: %w", n, op.Name, next.Get("page"), errLoop)
	}
	last := n + 1
	if size := len(page.Items); n == 0 && page.Total > 0 && size > 0 {
		if pages := (page.Total + int64(size) - 1) / int64(size); pages <= parallelPages {
			last = max(last, int(pages)-1)
		}
	}
	items := make([]Item, 0, last-n)
	for i := n + 1; i <= last; i++ {
		q := maps.Clone(next)
		q.Set("page", strconv.Itoa(i))
		items = append(items, child(i, q))
	}
	return items, nil
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

// keyOf returns the text of one top-level field, "" when it is absent or null.
func keyOf(field string, element json.RawMessage) string {
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
	print      fingerprint
}

// fault says why the walk does not prove the list complete; "" when it does.
func (w walk) fault() string {
	switch {
	case w.failed != "":
		return w.failed
	case w.moved:
		return "the total changed while it was read"
	case w.duplicates > 0:
		return fmt.Sprintf("%d elements came twice", w.duplicates)
	case w.total >= 0 && int64(w.elements) != w.total:
		return fmt.Sprintf("%d of %d elements came", w.elements, w.total)
	}
	return ""
}

// walks reads the newest two walks of a list, newest first.
func walks(ctx context.Context, a Answers, l list) ([]walk, error) {
	var out []walk
	var seen map[identity]struct{}
	for ans, err := range a.Answers(ctx, l.id+"/") {
		if err != nil {
			return nil, err
		}
		_, n, page, err := parseWalkKey(ans.Key)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].number != n {
			if len(out) == 2 {
				break
			}
			out = append(out, walk{number: n, total: -1})
			seen = map[identity]struct{}{}
		}
		w := &out[len(out)-1]
		w.pages++
		if !ans.OK {
			w.failed = fmt.Sprintf("page %d could not be read: %s", page, ans.Reason)
			continue
		}
		elements, total, err := elementsOf(l.op, ans.Body)
		if err != nil {
			return nil, err
		}
		if total >= 0 {
			w.moved = w.moved || w.total >= 0 && w.total != total
			w.total = total
		}
		for _, e := range elements {
			id, keyed := identify(l.op, e)
			if _, dup := seen[id]; dup && keyed {
				w.duplicates++
				continue
			}
			seen[id] = struct{}{}
			w.elements++
			w.print.add(id)
		}
	}
	return out, nil
}

// elementsOf returns the elements of an answer and the total it states, -1 for
// none.
func elementsOf(op rmm.Operation, body []byte) ([]json.RawMessage, int64, error) {
	page, err := rmm.PageOf(op, body)
	return page.Items, page.Total, err
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
	case now.failed != "":
		// The request has had its retries: another walk would meet the same.
		return 0, "", &IncompleteError{Message: fmt.Sprintf("%s is incomplete: %s", l.id, fault)}
	case fault == "" && agrees:
		return 0, "", nil
	case fault == "" && now.number == 1 && !l.wantsSecond(now):
		return 0, "", nil
	case now.number >= maxWalks:
		if fault == "" {
			fault = "no two walks agreed"
		}
		return 0, "", &IncompleteError{Message: fmt.Sprintf("%s is incomplete after %d walks: %s", l.id, now.number, fault)}
	case fault == "" && now.number == 1:
		why = "a second walk confirms it"
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

// settleLists judges every list and returns the first items of those that must
// be walked again.
func settleLists(ctx context.Context, a Answers, lists iter.Seq2[list, error], pageSize int) (again []Item, why string, err error) {
	for l, err := range lists {
		if err != nil {
			return nil, "", err
		}
		ws, err := walks(ctx, a, l)
		if err != nil {
			return nil, "", err
		}
		n, reason, err := l.judge(ws)
		if err != nil {
			return nil, "", err
		}
		if n > 0 {
			again = append(again, l.first(n, pageSize))
			if reason != "" {
				why = fmt.Sprintf("%s is read again: %s", l.op.Name, reason)
			}
		}
	}
	return again, why, nil
}

// elements yields the elements of the newest walk of every list under prefix,
// each once, with the request that brought it.
func elements(ctx context.Context, a Answers, prefix string) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		var current string
		var newest int
		var seen map[identity]struct{}
		for ans, err := range a.Answers(ctx, prefix) {
			if err != nil {
				yield(Element{}, err)
				return
			}
			id, n, _, err := parseWalkKey(ans.Key)
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
			items, _, err := elementsOf(op, ans.Body)
			if err != nil {
				yield(Element{}, fmt.Errorf("stored answer %s: %w", ans.Key, err))
				return
			}
			for _, raw := range items {
				e, keyed := identify(op, raw)
				if _, dup := seen[e]; dup && keyed {
					continue
				}
				seen[e] = struct{}{}
				if !yield(Element{JSON: raw, Path: ans.Request.Path}, nil) {
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
}

// sortedParams renders path parameters for a key.
func sortedParams(path map[string]string) string {
	parts := make([]string, 0, len(path))
	for _, k := range slices.Sorted(maps.Keys(path)) {
		parts = append(parts, url.PathEscape(path[k]))
	}
	return strings.Join(parts, "/")
}
