package jobs

import (
	"slices"
	"testing"

	"rmmjob/internal/rmm"
)

// A file with the wrong column must not pass for one whose alerts are all resolved.
func TestAlertsThatAreNoAlerts(t *testing.T) {
	d := updater(t, file(t, "a\nWS-ALFA\n"+deviceA+"\n"), "  operation: alert-resolve\n  rows: CSV\n  match: {alertUid: '{a}'}\n", func(req rmm.Request) reply {
		f := fleet{forgets: true}
		return f.page(req)
	}, Settings{PlanOnly: true})
	d.mustRun()
	want := []string{"2 not_found: no alert has alertUid \"WS-ALFA\"", "3 unchanged: no open alert has this uid: it is resolved already, or not of this account"}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%q, want\n%q", got, want)
	}
}
