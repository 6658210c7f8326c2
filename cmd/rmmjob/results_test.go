package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/jobs"
)

// Each end of a row has a file, a status, and the class by which it can be tried
// again or has to be mended.
func TestEndOfRow(t *testing.T) {
	row := func(class jobs.RowClass, state checkpoint.State, errorClass string) checkpoint.Row {
		r := checkpoint.Row{ItemState: state, ItemErrorClass: errorClass, ItemReason: "why"}
		r.Class = string(class)
		return r
	}
	tests := []struct {
		row    checkpoint.Row
		detail jobs.RowDetail
		file   string
		status string
		class  string
		reason string
	}{
		{row: row("change", checkpoint.StateDone, ""), file: "succeeded.csv", status: "done", reason: "why"},
		{row: row("unchanged", checkpoint.StateUnchanged, ""), file: "succeeded.csv", status: "unchanged", reason: "why"},
		{row: row("change", checkpoint.StateFailed, "rejected"), file: "failed.csv", status: "failed", class: "rejected", reason: "why"},
		{row: row("clear", checkpoint.StateFailed, "service"), file: "failed.csv", status: "failed", class: "service", reason: "why"},
		{row: row("change", checkpoint.StateFailed, "drifted"), file: "failed.csv", status: "drifted", class: "drifted", reason: "why"},
		{row: row("change", checkpoint.StateFailed, "not_applied"), file: "failed.csv", status: "not_applied", class: "not_applied", reason: "why"},
		{row: row("change", checkpoint.StateFailed, "protected"), file: "failed.csv", status: "protected", class: "protected", reason: "why"},
		{row: row("change", checkpoint.StateFailed, "given_up"), file: "failed.csv", status: "failed", class: "given_up", reason: "why"},
		// A 404 of the service, and a row whose target is not in the account.
		{row: row("change", checkpoint.StateFailed, "not_found"), file: "failed.csv", status: "failed", class: "not_found", reason: "why"},
		{row: row("not_found", checkpoint.StateFailed, "not_found"), detail: jobs.RowDetail{Reason: "no device"}, file: "failed.csv", status: "not_found", class: "data", reason: "no device"},
		// Two writers at once, and two rows at odds.
		{row: row("change", checkpoint.StateFailed, "conflict"), file: "failed.csv", status: "failed", class: "conflict", reason: "why"},
		{row: row("conflict", checkpoint.StateFailed, "conflict"), file: "failed.csv", status: "conflict", class: "data", reason: "why"},
		{row: row("invalid", checkpoint.StateFailed, "invalid"), file: "failed.csv", status: "invalid", class: "data", reason: "why"},
		{row: row("ambiguous", checkpoint.StateFailed, "ambiguous"), file: "failed.csv", status: "ambiguous", class: "data", reason: "why"},
		{row: row("protected", checkpoint.StateFailed, "protected"), file: "failed.csv", status: "protected", class: "protected", reason: "why"},
		{row: row("kept", checkpoint.StateFailed, "kept"), file: "failed.csv", status: "kept", class: "kept", reason: "why"},
		{row: row("not_reversible", checkpoint.StateFailed, "not_reversible"), file: "failed.csv", status: "not_reversible", class: "not_reversible", reason: "why"},
		// An undo that has left a field alone: told where it was carried out, and not where it failed.
		{row: row("change", checkpoint.StateDone, ""), detail: jobs.RowDetail{Kept: []string{"udf1"}, Reason: "edited"}, file: "failed.csv", status: "kept", class: "kept", reason: "edited"},
		{row: row("change", checkpoint.StateFailed, "service"), detail: jobs.RowDetail{Kept: []string{"udf1"}, Reason: "edited"}, file: "failed.csv", status: "failed", class: "service", reason: "why"},
		{row: row("change", checkpoint.StateInDoubt, "network"), file: "in-doubt.csv", status: "in_doubt", class: "network", reason: "why"},
		{row: row("not_found", checkpoint.StateSkipped, ""), file: "not-attempted.csv", status: "skipped", reason: "why"},
		{row: row("change", checkpoint.StatePending, ""), file: "not-attempted.csv", status: "not_attempted", reason: "why"},
		{row: row("change", checkpoint.StateRunning, ""), file: "not-attempted.csv", status: "not_attempted", reason: "why"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s %s", tt.row.Class, tt.row.ItemState, tt.row.ItemErrorClass), func(t *testing.T) {
			got := endOf(tt.row, tt.detail)
			if resultNames[got.file] != tt.file || got.status != tt.status || got.class != tt.class || got.reason != tt.reason {
				t.Errorf("%s %+v, want %s %s %s %s", resultNames[got.file], got, tt.file, tt.status, tt.class, tt.reason)
			}
			if got.bad() != (tt.class != "") {
				t.Errorf("bad is %v with the class %q", got.bad(), got.class)
			}
			if c := got.class; c != "" && c != "kept" && c != "not_reversible" && tt.row.ItemState == checkpoint.StateFailed {
				if _, err := errorClasses([]string{c}); err != nil {
					t.Errorf("retry --class does not know it: %v", err)
				}
			}
		})
	}
}

func TestResultCells(t *testing.T) {
	row := checkpoint.Row{ItemHTTP: 503, ItemAttempts: 10}
	row.Number = 7
	end := rowEnd{status: "failed", reason: "503", class: "service"}
	if got, want := end.cells(row, jobs.RowDetail{UID: "u"}), []string{"failed", "503", "7", "u", "service", "503", "10"}; !slices.Equal(got, want) || len(got) != len(resultColumns) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (rowEnd{status: "invalid", class: "data"}).cells(checkpoint.Row{}, jobs.RowDetail{}), []string{"invalid", "", "0", "", "data", "", "0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Failures are told by what they have in common, the most frequent first, each with
// its first targets; rows that were held back have a reason each.
func TestFailureGroups(t *testing.T) {
	g := &failureGroups{}
	add := func(n int, end rowEnd, d jobs.RowDetail) {
		row := checkpoint.Row{ItemHTTP: 400}
		row.Number = n
		g.add(row, end, d)
	}
	add(1, rowEnd{status: "failed", class: "permission", reason: "403"}, jobs.RowDetail{Line: 2, Hostname: "PC-0", Site: "Acme", UID: "u0"})
	for i := range 5 {
		add(i+2, rowEnd{status: "failed", class: "rejected", reason: "400: locked"}, jobs.RowDetail{Line: i + 3, Hostname: fmt.Sprintf("PC-%d", i+1), Site: "Acme", UID: fmt.Sprintf("u%d", i+1)})
	}
	for i := range 2 {
		reason := fmt.Sprintf("no device has hostname \"X%d\"", i)
		add(i+7, rowEnd{status: "not_found", class: "data", reason: reason}, jobs.RowDetail{Line: i + 8, Reason: reason})
	}
	add(9, rowEnd{status: "in_doubt", class: "network", reason: "cut"}, jobs.RowDetail{Line: 10, UID: "u9"})
	var b bytes.Buffer
	g.print(&b)
	want := `5 failed: 400: locked
  PC-1 in Acme (u1)
  PC-2 in Acme (u2)
  PC-3 in Acme (u3)
  and 2 more
2 not found
  line 8: no device has hostname "X0"
  line 9: no device has hostname "X1"
1 failed: 403
  PC-0 in Acme (u0)
1 in doubt: cut
  u9
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	for i := range 3 {
		add(20+i, rowEnd{status: "failed", class: "service", reason: fmt.Sprint("50", i)}, jobs.RowDetail{Line: 30})
	}
	b.Reset()
	g.print(&b)
	if !strings.HasSuffix(b.String(), "and 2 rows for other reasons\n") || !strings.Contains(b.String(), "  line 30\n") {
		t.Errorf("%s", b.String())
	}
}
