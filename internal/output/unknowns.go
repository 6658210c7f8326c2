package output

import (
	"fmt"
	"strings"
	"unicode"
)

// maxUnknowns bounds what is remembered, should a field turn out to hold free
// text.
const maxUnknowns = 100

// Unknown is a value of a field that the API's schema does not list.
type Unknown struct {
	Path  string // of the field
	Value string // shortened to 60 characters, without control characters
	Count int    // how many records had it
}

// Unknowns collects values that are not among the known ones of their field,
// for one warning at the end. Such values are exported like any other.
type Unknowns struct {
	fields []Field
	known  []map[string]bool
	index  map[[2]string]int
	list   []Unknown
}

// NewUnknowns watches the fields of an element that have a list of known
// values.
func NewUnknowns(elementName string) *Unknowns {
	u := &Unknowns{index: map[[2]string]int{}}
	e, ok := loadElements()[elementName]
	if !ok {
		return u
	}
	for _, f := range e.fields {
		if len(f.Enum) == 0 || f.InList || e.detailOf(f.Path) != "" {
			continue
		}
		known := make(map[string]bool, len(f.Enum))
		for _, value := range f.Enum {
			known[value] = true
		}
		u.fields, u.known = append(u.fields, f), append(u.known, known)
	}
	return u
}

// Observe looks at one record.
func (u *Unknowns) Observe(rec Record) {
	for i, f := range u.fields {
		v, _ := rec.Lookup(f.Path)
		if v == nil {
			continue
		}
		value := plain(v).Text
		if value == "" || u.known[i][value] {
			continue
		}
		value = shortened(value)
		at, seen := u.index[[2]string{f.Path, value}]
		if !seen {
			if len(u.list) == maxUnknowns {
				continue
			}
			at = len(u.list)
			u.index[[2]string{f.Path, value}] = at
			u.list = append(u.list, Unknown{Path: f.Path, Value: value})
		}
		u.list[at].Count++
	}
}

// List gives what was found, in the order of its first appearance, at most 100
// different values.
func (u *Unknowns) List() []Unknown { return u.list }

// String gives the warning as one line, or "" if there is nothing to warn of.
func (u *Unknowns) String() string {
	if len(u.list) == 0 {
		return ""
	}
	parts := make([]string, len(u.list))
	for i, x := range u.list {
		parts[i] = fmt.Sprintf("%s %q (%d)", x.Path, x.Value, x.Count)
	}
	return "values this version does not know, exported as they are: " + strings.Join(parts, ", ")
}

func shortened(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return s
}
