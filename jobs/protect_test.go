package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestProtected(t *testing.T) {
	devices := caseFleet()
	devices[0].udf = map[string]any{"udf9": "Do not touch"}
	devices[1].udf = map[string]any{"udf7": "x"}
	csv := "uid,udf7\n" + deviceA + ",x\n" + deviceB + ",x\n" + deviceC + ",x\n44444444-4444-4444-8444-4444444444d4,x\n"
	for _, c := range []struct {
		name, protected string
		want            []string // classes of A to D
	}{
		{"host name", "{hostname: 'ws-*'}", []string{"2 protected: protected by hostname ws-*", "3 unchanged", "4 change", "5 protected: protected by hostname ws-*"}},
		{"one character", "{hostname: ['WS-BRAV?', 'SRV-CHARLI?']}", []string{"2 change", "3 unchanged", "4 protected: protected by hostname WS-BRAV?, SRV-CHARLI?", "5 change"}},
		{"no part of a name", "{hostname: SRV}", []string{"2 change", "3 unchanged", "4 change", "5 change"}},
		{"site", "{site: depot south}", []string{"2 change", "3 unchanged", "4 change", "5 protected: protected by site depot south"}},
		{"both", "{site: 'Depot *', hostname: '*charlie'}", []string{"2 change", "3 unchanged", "4 protected: protected by site Depot * and hostname *charlie", "5 change"}},
		{"either", "[{site: Depot South}, {uid: " + deviceC + "}]", []string{
			"2 change", "3 unchanged", "4 protected: protected by uid " + deviceC, "5 protected: protected by site Depot South",
		}},
		{"field", "{udf9: do not touch}", []string{"2 protected: protected by udf9", "3 unchanged", "4 change", "5 change"}},
		{"no glob in a field", "{udf9: 'do *'}", []string{"2 change", "3 unchanged", "4 change", "5 change"}},
		{"class", "{class: device}", []string{
			"2 protected: protected by class device", "3 unchanged", "4 protected: protected by class device", "5 protected: protected by class device",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := updater(t, file(t, csv), udfs("uid", "udf7")+"guard: {protected: "+c.protected+"}\n", writable(devices), Settings{PlanOnly: true})
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, c.want) {
				t.Errorf("planned\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// What is protected cannot be moved away, and nothing can be moved into a protected
// site; the same goes for what a site has.
func TestProtectedSites(t *testing.T) {
	guard := "guard: {protected: {site: ['Site 2', s3]}}\n"
	for name, c := range map[string]struct {
		update, csv string
		want        []string
	}{
		"move": {
			"  operation: device-move\n  rows: CSV\n  match: {hostname: '{h}'}\n  set: {siteName: '{to}'}\n", "h,to\nA,Site 2\nB,Site 1\nC,Site 3\nC,Site 4\n",
			[]string{
				"2 protected: the site to move to is protected by site Site 2, s3", "3 protected: protected by site Site 2, s3",
				"4 protected: the site to move to is protected by site Site 2, s3", "5 change",
			},
		},
		"variables": {
			"  operation: site-variable-set\n  rows: CSV\n  match: {siteUid: '{s}', name: '{n}'}\n  set: {value: x}\n", "s,n\ns1,A\ns1,B\ns2,A\n",
			[]string{"2 change", "3 change", "4 protected: protected by site Site 2, s3"},
		},
		"sites": {
			"  operation: site-update\n  rows: CSV\n  match: {uid: '{s}'}\n  set: {notes: x}\n", "s\ns1\ns2\ns3\n",
			[]string{"2 change", "3 protected: protected by site Site 2, s3", "4 protected: protected by site Site 2, s3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := updater(t, file(t, c.csv), c.update+guard, lists(office()), Settings{PlanOnly: true})
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, c.want) {
				t.Errorf("planned\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestProtectedRefused(t *testing.T) {
	for name, c := range map[string]struct{ operation, guard, want string }{
		"everything":        {"device-udf-set", "protected: {}", "a selector without a condition"},
		"misspelt":          {"device-udf-set", "protected: {hostnam: x}", `unknown field "hostnam" of protected (did you mean "hostname"?)`},
		"no such number":    {"device-udf-set", "protected: {udf301: x}", "there is no field udf301"},
		"not told":          {"site-update", "protected: {hostname: x}", "site-update does not tell hostname of a site"},
		"nothing to":        {"account-variable-set", "protected: {site: x}", "protected has no effect on account-variable-set"},
		"no fleet":          {"account-variable-set", "max_percent: 5", "max_percent has no effect on account-variable-set"},
		"more than all":     {"device-udf-set", "max_percent: 120", "max_percent is a percentage from 0 to 100"},
		"under another key": {"device-udf-set", "protect: {hostname: x}", `did you mean "protected"`},
	} {
		t.Run(name, func(t *testing.T) {
			match := map[string]string{"device-udf-set": "uid", "site-update": "uid", "account-variable-set": "name"}[c.operation]
			set := map[string]string{"device-udf-set": "udf1", "site-update": "notes", "account-variable-set": "value"}[c.operation]
			_, err := Parse([]byte("version: 1\nupdate:\n  operation: "+c.operation+"\n  rows: a.csv\n  match: {"+match+": '{k}'}\n  set: {"+set+": x}\nguard: {"+c.guard+"}\n"), "job.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestMaxPercent(t *testing.T) {
	csv := "uid,udf7\n" + deviceA + ",x\n" + deviceB + ",x\n"
	for limit, stops := range map[string]bool{"49": true, "'49.9%'": true, "50": false, "100%": false} {
		d := updater(t, file(t, csv), udfs("uid", "udf7")+"guard: {max_percent: "+limit+"}\n", writable(caseFleet()), Settings{})
		err := d.run()
		var guard *GuardError
		if errors.As(err, &guard) != stops || stops && guard.Guard != "max_percent" || stops != (len(d.writes()) == 0) {
			t.Errorf("%s: ended with %v after %d writes", limit, err, len(d.writes()))
		}
		if stops && !strings.Contains(err.Error(), "the plan changes 2 of 4 devices (50.0%)") {
			t.Error(err)
		}
	}
}
