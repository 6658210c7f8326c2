package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A selector that fits nothing protects nothing, and the plan says so.
func TestSelectorsThatFitNothing(t *testing.T) {
	csv := "uid,udf7\n" + deviceA + ",x\n"
	for _, c := range []struct {
		protected string
		want      []string
	}{
		// A selector need not fit a target of the job: any device will do.
		{"[{hostname: 'srv-*'}, {site: depot south}]", nil},
		{"[{hostname: 'SRV-*'}, {hostname: SVR-CHARLIE}]", []string{"selector 2 of protected (hostname SVR-CHARLIE) fits no device: it protects nothing"}},
		{"{udf30: keep off}", []string{"selector 1 of protected (udf30) fits no device: it protects nothing"}},
		{"[{site: Depot Nroth}, {site: Depot North, hostname: nobody}]", []string{
			"selector 1 of protected (site Depot Nroth) fits no device: it protects nothing; " +
				"selector 2 of protected (site Depot North and hostname nobody) fits no device: it protects nothing",
		}},
	} {
		d := updater(t, file(t, csv), udfs("uid", "udf7")+"guard: {protected: "+c.protected+"}\n", writable(caseFleet()), Settings{PlanOnly: true})
		d.mustRun()
		if !slices.Equal(d.notes, c.want) {
			t.Errorf("%s: notes %q, want %q", c.protected, d.notes, c.want)
		}
	}
}

// Where the sites of the account are read, one that is named and not there is a fault.
func TestProtectedSitesThatAreNotThere(t *testing.T) {
	for name, c := range map[string]struct{ update, csv, protected, want string }{
		"sites":     {"  operation: site-update\n  rows: CSV\n  match: {uid: '{s}'}\n  set: {notes: x}\n", "s\ns1\n", "{site: [Site 2, Sitte 3]}", `protected: there is no site "Sitte 3"`},
		"by uid":    {"  operation: site-update\n  rows: CSV\n  match: {uid: '{s}'}\n  set: {notes: x}\n", "s\ns1\n", "{uid: s99}", `protected: there is no site "s99"`},
		"variables": {"  operation: site-variable-set\n  rows: CSV\n  match: {siteUid: '{s}', name: A}\n  set: {value: x}\n", "s\ns1\n", "{site: Sitte 3}", `protected: there is no site "Sitte 3"`},
		"moves":     {"  operation: device-move\n  rows: CSV\n  match: {hostname: '{h}'}\n  set: {siteName: '{to}'}\n", "h,to\nA,Site 2\n", "{site: Sitte 3}", `protected: there is no site "Sitte 3"`},
		"there":     {"  operation: site-update\n  rows: CSV\n  match: {uid: '{s}'}\n  set: {notes: x}\n", "s\ns1\n", "{site: [site 2, S3, 'Sitte*']}", ""},
		"to make":   {"  operation: site-create\n  rows: CSV\n  set: {name: '{s}'}\n", "s\nNew\n", "{site: Newer}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := updater(t, file(t, c.csv), c.update+"guard: {protected: "+c.protected+"}\n", lists(office()), Settings{PlanOnly: true})
			err := d.run()
			var faults Errors
			switch {
			case c.want == "" && err == nil && len(d.notes) == 0:
			case c.want != "" && errors.As(err, &faults) && strings.Contains(err.Error(), c.want) && faults[0].Pos.Line > 0:
			default:
				t.Errorf("%v, notes %q, want %q", err, d.notes, c.want)
			}
		})
	}
}
