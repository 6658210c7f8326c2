package rmm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Page is one answer of a read, taken apart.
type Page struct {
	Count int               // elements on this page by the server's word, or their real number where it gives none
	Total int64             // elements of the whole list; -1 when the server does not say
	Next  string            // nextPageUrl as sent; "" at the end of the list
	Items []json.RawMessage // the elements, byte for byte; they share the memory of the body
}

// ParsePage takes the body of a read apart according to the operation's
// [Paging]. The envelope is checked strictly: an element array that is absent
// or null is an error, because it is not the same as an empty list. The elements
// themselves are not looked at. A bare object is the only item of its page; a
// bare array has no total.
func ParsePage(op Operation, body []byte) (Page, error) {
	// Only the standard library bounds the depth: the other parser's check would
	// overflow the stack on a body of nothing but brackets.
	if !json.Valid(body) {
		return Page{}, errors.New("answer is not JSON")
	}
	return PageOf(op, body)
}

// PageOf is [ParsePage] for the body of a good [Response], which is known to be
// JSON. Of anything else it makes an error or nonsense, but never a panic.
func PageOf(op Operation, body []byte) (Page, error) {
	body = bytes.TrimSpace(body)
	switch op.Paging {
	case PagingPages, PagingCursor:
		return parseEnvelope(op, body)
	case PagingArray:
		items, err := parseArray(body)
		if err != nil {
			return Page{}, fmt.Errorf("expected an array: %w", err)
		}
		return Page{Count: len(items), Total: -1, Items: items}, nil
	}
	if !op.freeCall() && kindOf(body) != "an object" {
		return Page{}, fmt.Errorf("expected an object, got %s", kindOf(body))
	}
	return Page{Count: 1, Total: -1, Items: []json.RawMessage{body}}, nil
}

func parseEnvelope(op Operation, body []byte) (Page, error) {
	root := gjson.ParseBytes(body)
	if !root.IsObject() {
		return Page{}, fmt.Errorf("expected a page with %s, got %s", op.Element, kindOf(body))
	}
	// Fields are looked up by their exact names, which a path would take apart.
	envelope := fieldsOf(root, "error", op.Element, "pageDetails")
	// The activity log reports failures behind the API inside a page with 200.
	if failure := envelope["error"]; op.Paging == PagingCursor && failure.Type == gjson.String && failure.Str != "" {
		return Page{}, fmt.Errorf("page reports an error: %s", oneLine(failure.Str, 200))
	}
	list := envelope[op.Element]
	if !list.Exists() || list.Type == gjson.Null {
		return Page{}, fmt.Errorf("expected %s array missing", op.Element)
	}
	if !list.IsArray() {
		return Page{}, fmt.Errorf("expected %s array: got %s", op.Element, kindOf([]byte(list.Raw)))
	}
	items := elementsOf(body, list)
	page := Page{Count: len(items), Total: -1, Items: items}

	if !envelope["pageDetails"].IsObject() {
		return Page{}, fmt.Errorf("expected pageDetails beside %s missing", op.Element)
	}
	details := fieldsOf(envelope["pageDetails"], "count", "totalCount", "nextPageUrl")
	if n, ok, err := wholeNumber(json.RawMessage(details["count"].Raw)); err != nil {
		return Page{}, fmt.Errorf("pageDetails.count: %w", err)
	} else if ok && n >= 0 && n <= int64(maxInt) {
		page.Count = int(n)
	}
	if n, ok, err := wholeNumber(json.RawMessage(details["totalCount"].Raw)); err != nil {
		return Page{}, fmt.Errorf("pageDetails.totalCount: %w", err)
	} else if ok && n >= 0 {
		page.Total = n
	}
	switch next := details["nextPageUrl"]; next.Type {
	case gjson.String:
		page.Next = strings.TrimSpace(next.Str)
	case gjson.Null:
	default:
		return Page{}, fmt.Errorf("pageDetails.nextPageUrl is %s, not a string", kindOf([]byte(next.Raw)))
	}
	return page, nil
}

// fieldsOf returns the named fields of an object; of a name that is there twice
// the last one counts.
func fieldsOf(object gjson.Result, names ...string) map[string]gjson.Result {
	fields := make(map[string]gjson.Result, len(names))
	object.ForEach(func(key, value gjson.Result) bool {
		if slices.Contains(names, key.Str) {
			fields[key.Str] = value
		}
		return true
	})
	return fields
}

// elementsOf returns the elements of an array that was found in body, byte for
// byte. They share the memory of body: a page of many elements is over a
// megabyte, and each copy would be felt.
func elementsOf(body []byte, list gjson.Result) []json.RawMessage {
	items := []json.RawMessage{}
	list.ForEach(func(_, value gjson.Result) bool {
		item := json.RawMessage(nil)
		if end := value.Index + len(value.Raw); end <= len(body) {
			item = body[value.Index:end:end]
		}
		if string(item) != value.Raw { // where the parser lost the place
			item = json.RawMessage(value.Raw)
		}
		items = append(items, item)
		return true
	})
	return items
}

const maxInt = int(^uint(0) >> 1)

func parseArray(raw []byte) ([]json.RawMessage, error) {
	if kind := kindOf(raw); kind != "an array" {
		return nil, fmt.Errorf("got %s", kind)
	}
	return elementsOf(raw, gjson.ParseBytes(raw)), nil
}

// kindOf names the kind of a JSON value by its first byte.
func kindOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a bool"
	}
	return "a number"
}

// wholeNumber reads a JSON number, or a string that holds one. Absent and null
// are not there, which is no error.
func wholeNumber(raw json.RawMessage) (n int64, ok bool, err error) {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		return 0, false, nil
	}
	if unquoted := ""; text[0] == '"' && json.Unmarshal(raw, &unquoted) == nil {
		text = strings.TrimSpace(unquoted)
		if text == "" {
			return 0, false, nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true, nil
	}
	// 600.0 and 6e2 are whole, too, as far as floats can tell.
	const exact = 1 << 53
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == float64(int64(f)) && f > -exact && f < exact {
		return int64(f), true, nil
	}
	return 0, false, fmt.Errorf("%s is not a whole number", kindOf(raw))
}

// positionParams tell where in a list a page is. They come from the server's
// nextPageUrl or not at all; the position of the page before would loop.
var positionParams = []string{"page", "searchAfter", "searchAfter[]"}

// NextQuery returns the query of the page that follows the one asked for by
// sent, given that page's nextPageUrl. The server's URLs lose parameters of the
// original query (filters, page size), so those it lost are put back; those it
// kept are taken as they are. The URL may be relative. It is an error when it
// leads to another path, names no page, or leads back to the page just read.
// The origin of an absolute URL has been checked by [Client.Do].
func NextQuery(sent Request, next string) (url.Values, error) {
	op, err := Resolve(sent.Op)
	if err != nil {
		return nil, err
	}
	_, query, err := followUp(op, sent, next)
	if err != nil {
		return nil, err
	}
	if op.Paging == PagingPages && query.Get("page") == "" {
		return nil, errors.New("next page: the URL has no page number")
	}
	merged := maps.Clone(query)
	for name, values := range sent.Query {
		if _, kept := merged[name]; !kept && !slices.Contains(positionParams, name) {
			merged[name] = slices.Clone(values)
		}
	}
	if merged.Encode() == sent.Query.Encode() {
		return nil, errors.New("next page: the URL leads back to the page just read")
	}
	return merged, nil
}

// followUp reads a nextPageUrl. The URL must lead to the operation's own path;
// its origin is for the caller to judge.
func followUp(op Operation, sent Request, next string) (*url.URL, url.Values, error) {
	escaped, err := op.expand(sent.Path)
	if err != nil {
		return nil, nil, err
	}
	own, err := url.Parse(apiPrefix + escaped)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: path: %w", op.Name, err)
	}
	u, err := url.Parse(strings.TrimSpace(next))
	if err != nil {
		return nil, nil, errors.New("next page: not a URL")
	}
	u = own.ResolveReference(u)
	if u.Path != own.Path {
		return nil, nil, fmt.Errorf("next page: leads to another path than %s", own.Path)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, errors.New("next page: the query of the URL is broken")
	}
	return u, query, nil
}

// freeCall tells whether the operation is not from the catalogue.
func (o Operation) freeCall() bool { return strings.Contains(o.Name, " ") }
