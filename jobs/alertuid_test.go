package jobs

import (
	"net/http"
	"slices"
	"testing"

	"rmmjob/internal/rmm"
)

// A file with the wrong column must not pass for one whose alerts are all resolved: each
// alert that is not open is asked for, once.
func TestAlertsThatAreNotOpen(t *testing.T) {
	asked := map[string]int{}
	d := updater(t, file(t, "a\nWS-ALFA\n"+deviceA+"\n"+deviceB+"\n"+deviceC+"\n"+deviceD+"\n"+deviceA+"\n"), "  operation: alert-resolve\n  rows: CSV\n  match: {alertUid: '{a}'}\n", func(req rmm.Request) reply {
		uid := req.Path["alertUid"]
		if req.Op != "alert" {
			return (&fleet{items: []string{`{"alertUid":"` + deviceD + `","resolved":false}`}}).page(req)
		}
		switch asked[uid]++; uid {
		case deviceA:
			return reply{body: `{"alertUid":"` + uid + `","resolved":true}`}
		case deviceB: // raised since the open ones were listed
			return reply{body: `{"alertUid":"` + uid + `","resolved":false}`}
		}
		return reply{status: http.StatusNotFound}
	}, Settings{PlanOnly: true})
	d.mustRun()
	want := []string{
		`2 not_found: no alert has alertUid "WS-ALFA"`, "3 unchanged: the alert is resolved already", "4 change",
		`5 not_found: no alert has alertUid "` + deviceC + `"`, "6 change", "7 unchanged: the alert is resolved already",
	}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%q, want\n%q", got, want)
	}
	if len(asked) != 3 || asked[deviceA] != 1 || asked[deviceB] != 1 || asked[deviceC] != 1 {
		t.Errorf("asked %v", asked)
	}
	if want := []string{"3 alerts are not among the open ones: one more read for each tells whether it is resolved"}; !slices.Equal(d.notes, want) {
		t.Errorf("notes %q, want %q", d.notes, want)
	}
}

// What cannot be read is not taken for resolved.
func TestAlertsThatCannotBeRead(t *testing.T) {
	d := updater(t, file(t, "a\n"+deviceA+"\n"), "  operation: alert-resolve\n  rows: CSV\n  match: {alertUid: '{a}'}\n", func(req rmm.Request) reply {
		if req.Op == "alert" {
			return reply{status: http.StatusForbidden}
		}
		return (&fleet{}).page(req)
	}, Settings{PlanOnly: true})
	if err := d.run(); err == nil {
		t.Errorf("planned %q", d.classes())
	}
}
