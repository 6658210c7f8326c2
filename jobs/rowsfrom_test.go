package jobs

import (
	"slices"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// byName answers the list of devices as the service filters it by host name, and
// passes on everything else.
func byName(devices []dev) account {
	whole := writable(devices)
	return func(req rmm.Request) reply {
		part := req.Query.Get("hostname")
		if req.Op != "devices" || part == "" {
			return whole(req)
		}
		f := fleet{forgets: true}
		for _, d := range devices {
			if strings.Contains(d.hostname, part) {
				f.items = append(f.items, d.json())
			}
		}
		return f.page(req)
	}
}

func TestRowsFromTheAccount(t *testing.T) {
	devices := caseFleet()
	devices[1].udf = map[string]any{"udf1": "Depot North/x", "udf3": "new"}
	devices[2].udf = map[string]any{"udf3": "old"}
	d := updater(t, "none", "  operation: device-udf-set\n  rows: {from: devices, filter: {hostname: R}}\n  set: {udf1: '{siteName}/{udf3}'}\n",
		byName(devices), Settings{PageSize: 1})
	d.mustRun()
	if got, want := d.bodies(), []string{deviceB + ` {"udf1":"Depot North/new"}`, deviceC + ` {"udf1":"Depot North/old"}`}; !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
	if table, err := openSelection(parse(t, "update:\n  operation: device-udf-set\n  rows: {from: devices}\n  set: {udf1: '{siteName}'}\n").Update, &selectionSource{}); err != nil || len(table.Ignored) > 0 {
		t.Errorf("not used: %q, %v; nobody wrote these columns", table.Ignored, err)
	}
	if got := d.rows[0].Detail.Cells; !slices.Equal(got, []string{"uid", "hostname", "siteName", "udf3"}) {
		t.Errorf("headings %q", got)
	}
	for _, r := range d.sent {
		if strings.Contains(r.Op, "devices") && r.Query.Has("hostname") != (r.Query.Get("hostname") == "R") {
			t.Errorf("sent %+v", r)
		}
	}
}

// A selection from the list that the targets are found in is read once.
func TestRowsFromTheTargets(t *testing.T) {
	d := updater(t, "none", "  operation: device-udf-set\n  rows: {from: devices}\n  set: {udf1: '{hostname}'}\n", writable(caseFleet()), Settings{})
	d.mustRun()
	if got := d.pageNumbers("devices"); len(got) != 1 || len(d.writes()) != 4 {
		t.Errorf("pages %q, %d writes", got, len(d.writes()))
	}
	// Rows of another list find their targets like those of a file.
	all := office()
	d = updater(t, "none", "  operation: site-variable-create\n  rows: {from: devices}\n  match: {siteUid: '{siteUid}'}\n  set: {name: '{hostname}', value: x}\n",
		lists(all), Settings{})
	d.mustRun()
	if got, want := d.classes(), []string{"1 conflict: the variable is there with another value; the update operation changes it", "2 change", "3 invalid: empty key: siteUid comes from {siteUid}, which is blank"}; !slices.Equal(got, want) {
		t.Errorf("planned %q", got)
	}
	d = updater(t, "none", "  operation: site-variable-create\n  rows: {from: sites}\n  match: {siteUid: '{uid}'}\n  set: {name: N, value: '{name}'}\n",
		lists(all), Settings{})
	d.mustRun()
	if got := d.plan[ClassChange]; got != 3 || len(d.pageNumbers("sites")) != 1 {
		t.Errorf("%d changes of %v, pages %q", got, d.plan, d.pageNumbers("sites"))
	}
}

// A condition chooses among what the server has sent.
func TestRowsFromWhere(t *testing.T) {
	devices := caseFleet()
	devices[2].udf = map[string]any{"udf3": "old"}
	d := updater(t, "none", "  operation: device-udf-set\n  rows: {from: devices, where: 'siteName == \"Depot North\" and udf3 == nil'}\n  set: {udf1: '{hostname}'}\n",
		writable(devices), Settings{})
	d.mustRun()
	if got, want := d.bodies(), []string{deviceA + ` {"udf1":"WS-ALFA"}`, deviceB + ` {"udf1":"WS-BRAVO"}`}; !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
}

// Nothing selected is nothing to do.
func TestRowsFromNothing(t *testing.T) {
	d := updater(t, "none", "  operation: device-udf-set\n  rows: {from: devices, filter: {hostname: nobody}}\n  set: {udf1: x}\n", byName(caseFleet()), Settings{})
	d.mustRun()
	if len(d.writes()) != 0 {
		t.Error("sent", d.writes())
	}
}

func TestRowsFromRefused(t *testing.T) {
	for name, c := range map[string]struct{ rows, rest, want string }{
		"no such field":     {"{from: devices}", "set: {udf1: '{hostnam}'}", `job.yaml:5:15: there is no field "hostnam" in devices, which the rows are from (did you mean "hostname"?)`},
		"nothing near":      {"{from: devices}", "set: {udf1: '{Tag}'}", `job.yaml:5:15: there is no field "Tag" in devices, which the rows are from (rmmjob catalogue devices lists the fields)`},
		"of each site":      {"{from: site-devices}", "match: {uid: '{uid}'}\n  set: {udf1: x}", "is no list of the whole account"},
		"a file's option":   {"{from: devices, skip_lines: 3}", "set: {udf1: x}", `"skip_lines" has no effect on from`},
		"filter of a file":  {"{csv: a.csv, filter: {hostname: x}}", "match: {uid: '{uid}'}\n  set: {udf1: x}", `"filter" has no effect on csv`},
		"where of a file":   {"{csv: a.csv, where: 'online'}", "match: {uid: '{uid}'}\n  set: {udf1: x}", `"where" has no effect on csv`},
		"broken where":      {"{from: devices, where: 'onlin == true'}", "set: {udf1: x}", "where: "},
		"unknown filter":    {"{from: devices, filter: {hostnam: x}}", "set: {udf1: x}", `unknown filter "hostnam"`},
		"another list":      {"{from: sites}", "set: {udf1: x}", `update lacks the key "match"`},
		"two inputs":        {"{from: devices, csv: a.csv}", "set: {udf1: x}", "rows come from one input"},
		"none":              {"{sheet: x}", "match: {uid: '{uid}'}\n  set: {udf1: x}", "it takes csv, xlsx, jsonl or from"},
		"sheet of a CSV":    {"{csv: a.csv, sheet: x}", "match: {uid: '{uid}'}\n  set: {udf1: x}", `"sheet" has no effect on csv`},
		"unused alias":      {"{csv: a.csv, aliases: {Ui: x}}", "match: {uid: '{uid}'}\n  set: {udf1: x}", `the job uses no column "Ui"`},
		"alias of two":      {"{csv: a.csv, aliases: {uid: x, tag: X}}", "match: {uid: '{uid}'}\n  set: {udf1: '{tag}'}", `"X" is an alias of uid and of tag`},
		"alias that exists": {"{csv: a.csv, aliases: {uid: Tag}}", "match: {uid: '{uid}'}\n  set: {udf1: '{tag}'}", `"Tag" is a column that the job uses itself`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte("version: 1\nupdate:\n  operation: device-udf-set\n  rows: "+c.rows+"\n  "+c.rest+"\n"), "job.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
