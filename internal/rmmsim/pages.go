package rmmsim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// textFilters are the query parameters that a forgetful nextPageUrl loses.
var textFilters = []string{"filterId", "hostname", "siteName", "deviceType", "operatingSystem", "muted"}

// foreignHost stands for any host that is not the account's.
const foreignHost = "https://foreign.invalid"

// page answers a page list of total elements. Pages are numbered from 0; a
// larger max is cut without a word; a page beyond the end, a negative page
// and a max below 1 give an empty list without successor.
func (a *Account) page(c *call, element string, total int, item func(int) json.RawMessage) reply {
	number, ok1 := intParam(c.query, "page", 0)
	size, ok2 := intParam(c.query, "max", a.cfg.PageMax)
	if !ok1 || !ok2 {
		return c.fail(http.StatusBadRequest)
	}
	size = min(size, a.cfg.PageMax)
	var items []json.RawMessage
	var prev, next any
	if size > 0 && number >= 0 && number <= total/size {
		for i := number * size; i < min(total, (number+1)*size); i++ {
			items = append(items, item(i))
		}
		if (number+1)*size < total {
			next = a.pageURL(c, number+1, size)
		}
		if number > 0 {
			prev = a.pageURL(c, number-1, size)
		}
	}
	details := []any{"count", len(items)}
	if !c.noTotal {
		details = append(details, "totalCount", int64(total))
	}
	return a.envelope(c, element, items, details, prev, next)
}

// envelope puts the parts of a page together, with what faults do to the
// nextPageUrl.
func (a *Account) envelope(c *call, element string, items []json.RawMessage, details []any, prev, next any, more ...any) reply {
	details = append(details, "prevPageUrl", prev)
	here := c.base + "/api" + c.path
	if q := c.query.Encode(); q != "" {
		here += "?" + q
	}
	switch {
	case c.next == nextMissing:
	case c.next == nextLoop:
		details = append(details, "nextPageUrl", here)
	case next != nil && (c.next == nextForeign || a.cfg.NextForeign):
		u, err := url.Parse(next.(string))
		if err != nil {
			panic("rmmsim: own nextPageUrl is no URL: " + err.Error())
		}
		details = append(details, "nextPageUrl", foreignHost+u.RequestURI())
	default:
		details = append(details, "nextPageUrl", next)
	}
	if items == nil {
		items = []json.RawMessage{}
	}
	pairs := append([]any{"pageDetails", object(details...), element, items}, more...)
	return answer(object(pairs...))
}

func (a *Account) pageURL(c *call, page, size int) string {
	// The order max, page, rest is that of the real service.
	u := c.base + "/api" + c.path + "?max=" + strconv.Itoa(size) + "&page=" + strconv.Itoa(page)
	rest := url.Values{}
	for name, values := range c.query {
		lost := a.cfg.NextForgets && slices.Contains(textFilters, name)
		if name != "page" && name != "max" && !lost {
			rest[name] = values
		}
	}
	if len(rest) > 0 {
		u += "&" + rest.Encode()
	}
	return u
}

// intParam reads a number from the query; ok is false if it is none.
func intParam(q url.Values, name string, fallback int) (n int, ok bool) {
	s := q.Get(name)
	if s == "" {
		return fallback, true
	}
	v, err := strconv.ParseInt(s, 10, 32)
	return int(v), err == nil
}

// pageOf answers a list that is at hand as a slice.
func pageOf[T any](a *Account, c *call, element string, list []T, render func(T) json.RawMessage) reply {
	return a.page(c, element, len(list), func(i int) json.RawMessage { return render(list[i]) })
}
