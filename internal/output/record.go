package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strconv"
	"strings"
)

// Record is one decoded element: an object of the API, with the answers of
// further requests under names of their own (audit, software). Values are
// those of encoding/json with numbers as [json.Number], so that an id keeps
// all its digits. Keys are whatever the API sent: they may be empty, hold dots
// or differ only in case.
type Record map[string]any

// ParseRecord decodes one element. An element that is valid JSON but no object
// becomes a record with the single key "value", because one strange element
// must not fail a list; null becomes an empty record. Of two equal keys the
// last one counts. The error is for text that is not one JSON value.
func ParseRecord(raw []byte) (Record, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read element: %w", err)
	}
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	case nil:
		return Record{}, nil
	default:
		return Record{"value": v}, nil
	}
}

// ParseValue decodes one JSON value of any kind as the values of a [Record] are.
func ParseValue(raw []byte) (any, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read element: %w", err)
	}
	return v, nil
}

func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON value")
	}
	return v, nil
}

// Lookup finds the value at a dotted path; ok is false where there is none,
// true for a null. At every object the whole rest of the path is tried as one
// key first, then ever shorter beginnings, so a key that holds dots wins over
// nesting. Keys are compared exactly.
//
// In a list a number picks an element, counted from 0; any other step is
// looked up in every element and gives the list of what was found
// (nics.macAddress). Text that is itself a JSON object is stepped into, as the
// details of the activity log are sent that way.
func (r Record) Lookup(path string) (v any, ok bool) {
	return lookup(map[string]any(r), path)
}

func lookup(v any, path string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if got, ok := v[path]; ok {
			return got, true
		}
		for i := strings.LastIndexByte(path, '.'); i >= 0; i = strings.LastIndexByte(path[:i], '.') {
			child, ok := v[path[:i]]
			if !ok {
				continue
			}
			if got, ok := lookup(child, path[i+1:]); ok {
				return got, true
			}
		}
	case []any:
		head, rest, more := strings.Cut(path, ".")
		if n, err := strconv.ParseUint(head, 10, 31); err == nil {
			if n >= uint64(len(v)) {
				return nil, false
			}
			if !more {
				return v[n], true
			}
			return lookup(v[n], rest)
		}
		var found []any
		for _, element := range v {
			if got, ok := lookup(element, path); ok {
				found = append(found, got)
			}
		}
		return found, found != nil
	case string:
		if strings.HasPrefix(v, "{") {
			if inner, err := decode([]byte(v)); err == nil {
				return lookup(inner, path)
			}
		}
	}
	return nil, false
}

// Text gives the value at path as plain text: "" for a missing or null one,
// JSON text for an object or a list. It is meant for keys and messages.
func (r Record) Text(path string) string {
	v, _ := r.Lookup(path)
	return plain(v).Text
}

// Explode yields one record for every element of the list at path, each equal
// to r but with the element in the list's place, so that software.name is one
// name per row. Where there is no list, or an empty one, r itself is yielded
// once with nothing at path: its own columns must not vanish. A single object
// in place of a list is yielded as it is. r is not changed.
func (r Record) Explode(path string) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		v, _ := r.Lookup(path)
		list, ok := v.([]any)
		if !ok {
			yield(r)
			return
		}
		if len(list) == 0 {
			list = []any{nil}
		}
		for _, element := range list {
			copied, _ := replace(r, path, element)
			if !yield(copied) {
				return
			}
		}
	}
}

// replace copies the maps along path and sets the value there; ok is false if
// the path does not lead through maps to an existing key.
func replace(m map[string]any, path string, v any) (copied map[string]any, ok bool) {
	if _, found := m[path]; found {
		copied = maps.Clone(m)
		copied[path] = v
		return copied, true
	}
	for i := strings.LastIndexByte(path, '.'); i >= 0; i = strings.LastIndexByte(path[:i], '.') {
		child, found := m[path[:i]].(map[string]any)
		if !found {
			continue
		}
		if inner, done := replace(child, path[i+1:], v); done {
			copied = maps.Clone(m)
			copied[path[:i]] = inner
			return copied, true
		}
	}
	return m, false
}

// jsonText encodes a decoded value again: keys sorted, numbers as they were
// sent, no HTML escapes.
func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only a value that no decoder can have made gets here.
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
