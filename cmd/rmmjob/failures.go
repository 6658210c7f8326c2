package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// How much of the failures is told at the end of a run; the result files have all.
const (
	mostGroups = 5
	mostNamed  = 3
)

// target is what a write is about, as people know it, and the uid behind it.
type target struct {
	Row  int    `json:"row"`  // of the input, from 1; 0 where no row says
	Line int    `json:"line"` // of the input; 0 likewise
	Name string `json:"name"` // host name, or name of a site or a variable; "" where it has none
	Site string `json:"site"`
	UID  string `json:"uid"`
}

// full is the target for people, with the uid; "" where nothing is known of it.
func (t target) full() string {
	if t == (target{}) {
		return ""
	}
	return jobs.RowDetail{Line: t.Line, Hostname: t.Name, Site: t.Site, UID: t.UID}.FullTarget()
}

func targetOf(row int, d jobs.RowDetail) target {
	return target{Row: row, Line: d.Line, Name: d.Hostname, Site: d.Site, UID: d.UID}
}

// targetsOf finds what items are about in the plan of their run. Items of which no row
// speaks are missing in it.
func (s *state) targetsOf(ctx context.Context, run string, items []checkpoint.Item) (map[string]target, error) {
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = it.Key
	}
	rows, err := s.store.RowsOf(ctx, run, keys)
	if err != nil {
		return nil, err
	}
	targets := make(map[string]target, len(rows))
	for key, row := range rows {
		var d jobs.RowDetail
		if err := json.Unmarshal(row.Payload, &d); err != nil {
			return nil, fmt.Errorf("row %d of the plan: %w", row.Number, err)
		}
		targets[key] = targetOf(row.Number, d)
	}
	return targets, nil
}

// failureGroup is rows that have ended alike.
type failureGroup struct {
	Status string   `json:"status"` // as in the result files
	Class  string   `json:"error_class"`
	HTTP   int      `json:"http"`
	Reason string   `json:"reason"` // of the first
	Rows   int      `json:"rows"`
	First  []target `json:"first"` // at most three

	held  bool     // before anything was sent: each has a reason of its own
	named []string // the first for people
}

// failureGroups gathers the rows that did not end well.
type failureGroups struct{ list []*failureGroup }

// add takes in a row. Those that were sent are alike when class and reason are; those
// that were held back when their class is, since each has a reason of its own.
func (g *failureGroups) add(row checkpoint.Row, end rowEnd, d jobs.RowDetail) {
	held := jobs.RowClass(end.status).Held() && d.Reason != ""
	i := slices.IndexFunc(g.list, func(have *failureGroup) bool {
		return have.Status == end.status && have.Class == end.class && have.held == held && (held || have.Reason == end.reason)
	})
	if i < 0 {
		i = len(g.list)
		g.list = append(g.list, &failureGroup{Status: end.status, Class: end.class, HTTP: row.ItemHTTP, Reason: end.reason, held: held})
	}
	group := g.list[i]
	if group.Rows++; group.Rows > mostNamed {
		return
	}
	group.First = append(group.First, targetOf(row.Number, d))
	name := d.FullTarget()
	if held {
		name = fmt.Sprintf("line %d: %s", d.Line, end.reason)
	}
	group.named = append(group.named, name)
}

// sorted are the groups, the largest first.
func (g *failureGroups) sorted() []*failureGroup {
	list := slices.Clone(g.list)
	slices.SortStableFunc(list, func(a, b *failureGroup) int { return cmp.Compare(b.Rows, a.Rows) })
	return list
}

// print tells what has failed and why, and names the first of each kind.
func (g *failureGroups) print(w io.Writer) {
	list := g.sorted()
	for i, group := range list {
		if i == mostGroups {
			rest := 0
			for _, more := range list[i:] {
				rest += more.Rows
			}
			fmt.Fprintf(w, "and %s for other reasons\n", count(rest, "row"))
			return
		}
		reason := ""
		if !group.held {
			reason = ": " + clean(group.Reason)
		}
		fmt.Fprintf(w, "%s %s%s\n", number(group.Rows), strings.ReplaceAll(group.Status, "_", " "), reason)
		for _, name := range group.named {
			fmt.Fprintf(w, "  %s\n", clean(name))
		}
		if more := group.Rows - len(group.named); more > 0 {
			fmt.Fprintf(w, "  and %s more\n", number(more))
		}
	}
}

// failuresOf gathers the rows of a run that did not end well.
func (s *state) failuresOf(ctx context.Context, run string) (*failureGroups, error) {
	groups := &failureGroups{}
	for row, err := range s.store.Rows(ctx, run) {
		if err != nil {
			return nil, err
		}
		var d jobs.RowDetail
		if err := json.Unmarshal(row.Payload, &d); err != nil {
			return nil, fmt.Errorf("row %d of the plan: %w", row.Number, err)
		}
		if end := endOf(row, d); end.bad() {
			groups.add(row, end, d)
		}
	}
	return groups, nil
}
