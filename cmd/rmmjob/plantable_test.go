package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func changed(field, old, to string) planChange {
	return planChange{Field: field, Old: newPlanValue(old, true), New: newPlanValue(to, true)}
}

func TestPlanTableFolds(t *testing.T) {
	long := strings.Repeat("long words of a value ", 8)
	table := newPlanTable("device", "line", "class")
	table.add(planRow{Name: "WS-1", Site: "Depot", Changes: []planChange{changed("udf1", "a", "b"), changed("udf2", "", "c")}}, "2", "change")
	table.add(planRow{Name: "WS-2", Site: "Depot", Request: "site-create", Changes: []planChange{changed("udf1", "a", "b"), changed("udf2", "", "c")}}, "3", "change")
	table.add(planRow{Name: "WS-3", Site: "Depot", Changes: []planChange{changed("udf1", "a somewhat longer text", "b, longer too"), changed("udf2", "", "c")}}, "4", "change")
	table.add(planRow{Name: "WS-4", Site: "Depot", Changes: []planChange{changed("udf1", "", long)}}, "5", "change")
	table.add(planRow{Name: "WS-5", Site: "Depot", Reason: "several devices have it: " + strings.Repeat("11111111-2222-4333-8444-555555555555, ", 4) + "and more"}, "6", "ambiguous")
	var b strings.Builder
	table.write(&b)
	want := `line  class      device  site   change
2     change     WS-1    Depot  udf1: "a" -> "b", udf2: (empty) -> "c"
3     change     WS-2    Depot  site-create
                                udf1: "a" -> "b"
                                udf2: (empty) -> "c"
4     change     WS-3    Depot  udf1: "a somewhat longer text" -> "b, longer too"
                                udf2: (empty) -> "c"
5     change     WS-4    Depot  udf1: (empty) -> "` + long + `"
6     ambiguous  WS-5    Depot  several devices have it: 11111111-2222-4333-8444-555555555555,
                                  11111111-2222-4333-8444-555555555555, 11111111-2222-4333-8444-555555555555,
                                  11111111-2222-4333-8444-555555555555, and more
`
	if b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > planBorder && !strings.Contains(line, long) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A table of sites has one column for their names.
func TestPlanTableOfSites(t *testing.T) {
	table := newPlanTable("site", "line", "class")
	table.add(planRow{Name: "Depot", Site: "Depot", Changes: []planChange{changed("name", "Depot", "Store")}}, "2", "change")
	var b strings.Builder
	table.write(&b)
	if want := "line  class   site   change\n2     change  Depot  name: \"Depot\" -> \"Store\"\n"; b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
}

func TestDeletedWords(t *testing.T) {
	for _, tt := range []struct {
		n           int
		thing, want string
	}{{1, "variable", "1 variable"}, {1200, "variable", "1,200 variables"}, {2, "proxy", "the proxy of 2 sites"}} {
		if got := deletedWords(tt.n, tt.thing); got != tt.want {
			t.Errorf("deletedWords(%d, %q) = %q, want %q", tt.n, tt.thing, got, tt.want)
		}
	}
}
