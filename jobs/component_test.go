package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A quick job runs a component of the account, and its plan says which one and with which variables.
func TestQuickJobComponents(t *testing.T) {
	all := office()
	all["components"] = []string{
		`{"uid":"C1","name":"Restart","variables":[{"name":"usrService","defaultVal":null,"direction":true},{"name":"usrMode","defaultVal":"fast"},{"name":"usrOut","defaultVal":null,"direction":false}]}`,
		`{"uid":"c2","name":"Sweep","variables":[]}`,
	}
	const head = "  operation: device-job-create\n  rows: CSV\n  match: {hostname: '{h}'}\n"
	for name, c := range map[string]struct {
		csv, set        string
		classes, bodies []string
		note            string
		changes         []Change // of the first row
	}{
		"as declared": {
			csv: "h,s\nA,spooler\n", set: "{jobName: Fix, componentUid: c1, variables: {usrService: '{s}'}}",
			classes: []string{"2 change"},
			bodies:  []string{` {"jobName":"Fix [rmm:m]","jobComponent":{"componentUid":"C1","variables":[{"name":"usrService","value":"spooler"}]}}`},
			changes: []Change{
				{Field: "jobName", New: "Fix", Made: true, Open: true},
				{Field: "componentUid", New: "Restart", NewUID: "C1", Made: true, Open: true},
				{Field: "variables.usrService", New: "spooler", Made: true},
			},
		},
		"unknown and missing variables": {
			csv: "h,s\nA,spooler\nB,\n", set: "{jobName: Fix, componentUid: C1, variables: {usrServic: x, usrService: '{s}'}}",
			classes: []string{"2 change", "3 change"},
			note: `the component "Restart" has no variable "usrServic": 2 rows set it (did you mean "usrService"?); ` +
				`the component "Restart" has no value of its own for its variable "usrService": 1 row sets none`,
		},
		"by row": {
			csv: "h,s\nA,c2\nB,C1\nC,c3\n", set: "{jobName: Fix, componentUid: '{s}'}",
			classes: []string{"2 change", "3 change", `4 invalid: the account has no component "c3"`},
			note:    `the component "Restart" has no value of its own for its variable "usrService": 1 row sets none`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := updater(t, file(t, c.csv), head+"  set: "+c.set+"\n", lists(all), Settings{Mark: "m"})
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, c.classes) {
				t.Errorf("planned\n%q, want\n%q", got, c.classes)
			}
			if got := strings.Join(d.notes, "\n"); got != c.note {
				t.Errorf("notes\n%s\nwant\n%s", got, c.note)
			}
			if got := d.bodies(); c.bodies != nil && !slices.Equal(got, []string{"d1" + c.bodies[0]}) {
				t.Errorf("sent %q, want %q", got, c.bodies)
			}
			if got := d.rows[1].Detail.Changes; c.changes != nil && !slices.Equal(got, c.changes) {
				t.Errorf("changes\n%+v, want\n%+v", got, c.changes)
			}
		})
	}

	d := updater(t, file(t, "h\nA\n"), head+"  set: {jobName: Fix, componentUid: c9}\n", lists(all), Settings{})
	var faults Errors
	if err := d.run(); !errors.As(err, &faults) || !strings.HasSuffix(err.Error(), `the account has no component "c9" (export: {from: components} lists them)`) || faults[0].Pos.Line == 0 {
		t.Errorf("a component that is not there: %v", err)
	}
}
