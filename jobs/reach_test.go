package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// rowsAt are the rows of a finished export: the values at some paths.
func (d *driver) rowsAt(paths ...string) []string {
	d.t.Helper()
	w := d.make().(*ExportWork)
	rows := w.Rows()
	var list []string
	for rec, err := range w.Records(context.Background(), d.memory) {
		if err != nil {
			d.t.Fatal(err)
		}
		for row, err := range rows(rec) {
			if err != nil {
				d.t.Fatal(err)
			}
			var cells []string
			for _, p := range paths {
				cells = append(cells, row.Text(p))
			}
			list = append(list, strings.Join(cells, "|"))
		}
	}
	return list
}

// tally counts the requests of each operation.
func (d *driver) tally() map[string]int {
	n := map[string]int{}
	for _, r := range d.sent {
		n[r.Op]++
	}
	return n
}

// estate is an account of two sites with devices of all classes, and what belongs to them.
func estate(req rmm.Request) reply {
	sites := []string{`{"uid":"s1","name":"Contoso"}`, `{"uid":"s2","name":"Fabrikam"}`, `{"uid":"s3","name":"Empty"}`, `{"uid":"s4","name":"Twin"}`, `{"uid":"s5","name":"Twin"}`}
	var devices []string
	for i, class := range []string{"device", "printer", "esxihost", "rmmnetworkdevice", "device"} {
		site, name := "s1", "Contoso"
		if i > 2 {
			site, name = "s2", "Fabrikam"
		}
		devices = append(devices, fmt.Sprintf(`{"uid":"d%d","id":%d,"hostname":"H%d","deviceClass":%q,"siteUid":%q,"siteName":%q,"online":%v}`, i, 100+i, i, class, site, name, i != 4))
	}
	uid := req.Path["deviceUid"]
	switch req.Op {
	case "sites":
		return (&fleet{items: sites}).page(req)
	case "devices":
		return (&fleet{items: devices}).page(req)
	case "device-by-id":
		return reply{body: `{"id":` + req.Path["deviceId"] + `,"hostname":"by id"}`}
	case "device":
		if uid == "gone" {
			return reply{status: 404}
		}
		return reply{body: `{"uid":"` + uid + `","hostname":"one"}`}
	case "site-variables":
		return reply{body: envelope("variables", []string{`{"id":1,"name":"V"}`}, 1, "")}
	case "device-audit", "printer-audit", "esxi-audit":
		return reply{body: `{"portalUrl":"` + req.Op + " of " + uid + `","nics":[{"macAddress":"A"},{"macAddress":"B"}]}`}
	case "device-software":
		if uid == "d4" {
			return reply{body: envelope("software", nil, 0, "")}
		}
		return reply{body: envelope("software", []string{`{"name":"Chrome","version":"1"}`, `{"name":"Zip"}`}, 2, "")}
	case "device-alerts-open":
		if uid == "d1" {
			return reply{status: 404}
		}
		return reply{body: envelope("alerts", []string{`{"alertUid":"a-` + uid + `"}`}, 1, "")}
	case "device-by-mac":
		return reply{body: `[{"uid":"d1","hostname":"M"},{"uid":"d2"}]`}
	case "job-results":
		return reply{body: `{"jobDeploymentStatus":"Success"}`}
	}
	return reply{status: 500}
}

// What belongs to sites and devices is read for those that the job names, and its rows say whose they are.
func TestScope(t *testing.T) {
	for _, tt := range []struct {
		from, job, columns string
		rows               []string
		asked              map[string]int
	}{
		{"site-variables", "sites: [contoso, S2]", "siteUid siteName id", []string{"s1|Contoso|1", "s2|Fabrikam|1"}, map[string]int{"sites": 1, "site-variables": 2}},
		{"site-variables", "uids: s3", "siteUid siteName id", []string{"s3||1"}, map[string]int{"site-variables": 1}},
		{"device-software", "sites: Contoso", "siteName hostname deviceUid name", []string{"Contoso|H0|d0|Chrome", "Contoso|H0|d0|Zip"}, map[string]int{"sites": 1, "devices": 1, "device-software": 1}},
		{"device-software", "sites: Empty", "name", nil, map[string]int{"sites": 1, "devices": 1}},
		{"device-audit", "devices: [H0, d4]", "hostname portalUrl", []string{"H0|device-audit of d0", "H4|device-audit of d4"}, map[string]int{"devices": 1, "device-audit": 2}},
		{"printer-audit", "", "hostname deviceUid portalUrl", []string{"H1|d1|printer-audit of d1"}, map[string]int{"devices": 1, "printer-audit": 1}},
		{"esxi-audit", "sites: [s1]\n  devices: H2", "hostname", []string{"H2"}, map[string]int{"sites": 1, "devices": 1, "esxi-audit": 1}},
		{"device-by-id", "ids: [100, 7]", "id hostname", []string{"100|by id", "7|by id"}, map[string]int{"device-by-id": 2}},
		{"device-by-mac", "macs: ['00:15:5d:01:02:03']", "macAddress uid hostname", []string{"00155D010203|d1|M", "00155D010203|d2|"}, map[string]int{"device-by-mac": 1}},
		{"job-results", "jobs: {J: [d1, d2], K: d3}", "jobUid deviceUid jobDeploymentStatus", []string{"J|d1|Success", "J|d2|Success", "K|d3|Success"}, map[string]int{"job-results": 3}},
	} {
		t.Run(tt.from+" "+tt.job, func(t *testing.T) {
			d := exporter(t, tt.from, 50, estate, tt.job)
			if err := d.run(); err != nil {
				t.Fatal(err)
			}
			got := d.rowsAt(strings.Fields(tt.columns)...)
			slices.Sort(got)
			slices.Sort(tt.rows)
			if !slices.Equal(got, tt.rows) {
				t.Errorf("rows %q, want %q", got, tt.rows)
			}
			if n := d.tally(); fmt.Sprint(n) != fmt.Sprint(tt.asked) {
				t.Errorf("requests %v, want %v", n, tt.asked)
			}
		})
	}
}

// A name that the account does not have, or has twice, is a fault of the job, told once the list is read.
func TestScopeFaults(t *testing.T) {
	for job, want := range map[string]string{
		"sites: [Contosso, Fabrikam, Twin]": `j.yaml:5:11: the account has no site "Contosso" (did you mean "Contoso"?)` + "\n" +
			`j.yaml:5:31: 2 sites are called "Twin" (name the one by its uid)`,
		"devices: [nobody]": `j.yaml:5:13: the account has no device "nobody"`,
		"sites: [TWIN]":     `j.yaml:5:11: 2 sites are called "TWIN" (name the one by its uid)`,
		// What is named and has not what is read is never left out in silence.
		"devices: [H0, h1, H2, H3]": `j.yaml:5:17: "h1" has no device-audit: not applicable to a device of class printer (from: printer-audit reads its audit)` + "\n" +
			`j.yaml:5:21: "H2" has no device-audit: not applicable to a device of class esxihost (from: esxi-audit reads its audit)` + "\n" +
			`j.yaml:5:25: "H3" has no device-audit: not applicable to a device of class rmmnetworkdevice (remove it)`,
		"devices: [H0]\n  sites: [Fabrikam]": `j.yaml:5:13: "H0" has no device-audit: it is at none of the sites that the job names (remove it)`,
	} {
		from := "site-variables"
		if strings.HasPrefix(job, "devices") {
			from = "device-audit"
		}
		d := exporter(t, from, 50, estate, job)
		err := d.run()
		if err == nil {
			t.Errorf("%s: no fault", job)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for i, line := range lines {
			_, lines[i], _ = strings.Cut(line, ".yaml:")
			lines[i] = lines[i][strings.Index(lines[i], ": "):]
		}
		wanted := strings.Split(want, "\n")
		for i, line := range wanted {
			wanted[i] = line[strings.Index(line, ": "):]
		}
		if !slices.Equal(lines, wanted) {
			t.Errorf("%s: %q, want %q", job, err, wanted)
		}
	}
}

// Objects that the job names and that are not there are told by name, and nothing is published.
func TestCase_D23_NamedObjects(t *testing.T) {
	for _, tt := range []struct{ from, job, want string }{
		{"device", "uids: [d1, gone]", "device: the service has nothing (404 or 400) for 1 of the 2 that uids names: gone"},
		{"device", "uids: gone", "device: the service has nothing (404 or 400) for 1 of the 1 that uids names: gone"},
		{"device-alerts-open", "devices: [H0, h1]", "device-alerts-open: the service has nothing (404 or 400) for 1 of the 2 that devices names: h1"},
	} {
		d := exporter(t, tt.from, 50, estate, tt.job)
		if why := d.incomplete(); why != tt.want {
			t.Errorf("%s of %s: %q", tt.from, tt.job, why)
		}
		for _, r := range d.sent {
			if r.Op == "device" && (r.Query.Has("page") || r.Query.Has("max")) {
				t.Errorf("a single object is asked for with %v", r.Query)
			}
		}
		d = exporter(t, tt.from, 50, estate, tt.job)
		whole := d.make
		d.make = func() work {
			w := whole().(*ExportWork)
			w.set.AllowPartial = true
			return w
		}
		if why := d.incomplete(); why != tt.want {
			t.Errorf("%s of %s, partial: %q", tt.from, tt.job, why)
		}
	}
	d := exporter(t, "device-alerts-open", 50, estate, "sites: Contoso")
	if err := d.run(); err != nil { // H1 is not named
		t.Error(err)
	}
}

// Details are read by the operation of the class, and the others are skipped as not applicable.
func TestCase_D17_DetailsByClass(t *testing.T) {
	d := exporter(t, "devices", 2, estate, "with: [audit, software, alerts-open]")
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"d0|device-audit of d0|2|1", "d1|printer-audit of d1|0|0", "d2|esxi-audit of d2|0|1", "d3||0|1", "d4|device-audit of d4|0|1",
	}
	var got []string
	w := d.make().(*ExportWork)
	for rec, err := range w.Records(context.Background(), d.memory) {
		if err != nil {
			t.Fatal(err)
		}
		software, _ := rec["software"].([]any)
		alerts, _ := rec["alerts-open"].([]any)
		got = append(got, fmt.Sprintf("%s|%s|%d|%d", rec.Text("uid"), rec.Text("audit.portalUrl"), len(software), len(alerts)))
		// An empty list is not the same as none.
		if _, has := rec["software"]; has != (rec["deviceClass"] == "device") {
			t.Errorf("%s: there is software: %v", rec.Text("uid"), has)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	skipped := 0
	for _, r := range d.memory {
		if r.item.Birth == Skipped {
			skipped++
			if !strings.Contains(r.item.Reason, "not applicable: a device of class ") {
				t.Errorf("%s: %s", r.item.Key, r.item.Reason)
			}
		}
	}
	if n := d.tally(); skipped != 4 || n["device-audit"] != 2 || n["printer-audit"] != 1 || n["esxi-audit"] != 1 || n["device-software"] != 2 {
		t.Errorf("%d are skipped, requests %v", skipped, n)
	}
	if note := strings.Join(d.notes, "\n"); !strings.Contains(note, "1 detail is missing") {
		t.Errorf("notes %q", note)
	}
}

// Details that the condition is sure to leave out are not asked for.
func TestDetailsOfWantedOnly(t *testing.T) {
	d := exporter(t, "devices", 2, estate, "with: [software]", `where: 'online and any(software, .name == "Chrome")'`)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if n := d.tally(); n["device-software"] != 1 {
		t.Errorf("requests %v", n)
	}
	if got := d.rowsAt("uid"); !slices.Equal(got, []string{"d0"}) {
		t.Errorf("rows %q", got)
	}
}

// One row for each element, with the columns of the device; devices without any are left out or kept.
func TestExplode(t *testing.T) {
	for explode, want := range map[string][]string{
		"software":                             {"d0|Chrome|1", "d0|Zip|"},
		"{path: software, keep_empty: true}":   {"d0|Chrome|1", "d0|Zip|", "d1||", "d2||", "d3||", "d4||"},
		"{path: audit.nics, keep_empty: true}": {"d0||", "d0||", "d1||", "d1||", "d2||", "d2||", "d3||", "d4||", "d4||"},
	} {
		d := exporter(t, "devices", 2, estate, "with: [software, audit]", "explode: "+explode)
		if err := d.run(); err != nil {
			t.Fatal(err)
		}
		got := d.rowsAt("uid", "software.name", "software.version")
		if strings.Contains(explode, "nics") {
			got = d.rowsAt("uid", "none", "none")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", explode, got, want)
		}
	}
	d := exporter(t, "devices", 2, estate, "with: [software]", "explode: software", `where: 'software.name == "Zip"'`)
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	if got := d.rowsAt("uid", "software.name"); !slices.Equal(got, []string{"d0|Zip"}) {
		t.Errorf("rows %q", got)
	}
	heads := output.Headers(d.make().(*ExportWork).job.Export.Columns, output.Style{})
	if n := len(heads); heads[n-2] != "software.name" || heads[n-1] != "software.version" {
		t.Errorf("the last columns are %v", heads[n-2:])
	}
}

func TestExportSpecFaults(t *testing.T) {
	for _, tt := range []struct{ export, want string }{
		{"from: devices, sites: [a]", `2:25: "sites" has no effect on devices (write from: site-devices)`},
		{"from: alerts-open, sites: [a]", `2:29: "sites" has no effect on alerts-open (write from: site-alerts-open)`},
		{"from: users, uids: [a]", `2:23: "uids" has no effect on users (remove it; where chooses among the rows)`},
		{"from: site-variables, devices: [a]", `2:32: "devices" has no effect on site-variables (it takes sites or uids)`},
		{"from: site-variables, sites: [a], uids: [b]", `2:44: "uids" and the names of sites or devices say both what to read (leave one of them)`},
		{"from: site-variables, sites: [a, a]", `2:43: "a" is there twice; the first is in line 2 (remove one of them)`},
		{"from: site-variables, sites: []", `2:39: sites is empty (remove the key to read all)`},
		{"from: alert", `2:16: alert reads what the job names: it lacks the key "uids" (for example uids: ['0b9d0e6c-…'], the values of the column alertUid)`},
		{"from: activity-logs, filter: {until: foo}", `2:47: until must be a time in UTC such as 2026-03-06T02:00:00Z, not "foo"`},
		{"from: activity-logs, filter: {from: '2026-03-06'}", `2:46: from must be a time in UTC such as 2026-03-06T02:00:00Z, not "2026-03-06" (write 2026-03-06T00:00:00Z)`},
		{"from: device-by-id, ids: [12a]", `2:36: "12a" is no number of a device`},
		{"from: device-by-mac, macs: [00155D]", `2:38: "00155D" is no MAC address: it has 12 hex digits`},
		{"from: job-results, jobs: [a]", `2:35: jobs must be a mapping of keys to values, not a list`},
		{"from: devices, with: [adit]", `2:32: devices has no detail "adit" (did you mean "audit"?)`},
		{"from: users, with: [audit]", `2:29: users has no details for with (devices, sites and jobs have details)`},
		{"from: devices, explode: software", `2:34: explode: "software" is a detail that the job does not ask for (add with: [software])`},
		{"from: devices, explode: hostname", `2:34: explode needs a list, and "hostname" is none (lists: audit.nics, audit.displays, audit.logicalDisks, audit.mobileInfo, audit.processors, audit.videoBoards, audit.attachedDevices, audit.physicalMemory, audit.printerMarkerSupplies, audit.guests, audit.datastores, software, alerts-open or alerts-resolved)`},
		{"from: devices, sort: [hostnam]", `2:32: sort: there is no field "hostnam" (did you mean "hostname"?)`},
		{"from: devices, sort: [{lastSeen: down}]", `2:43: the order must be asc or desc, not "down" (known here: asc, desc)`},
		{"from: devices, rows: {limit: 0}", `2:39: limit must be a whole number from 1 to 2147483647, not 0`},
		{"from: devices, columns: [{x: {path: id, bytes: GiBB}}]", `2:57: there is no unit "GiBB" of bytes (did you mean "GiB"?)`},
		{"from: devices, columns: [{x: {path: id, join: ''}}]", `2:56: join needs a separator (for example join: ', ')`},
		{"from: devices, columns: [{x: {path: id, format: ms, join: ', '}}]", `2:68: a column has one format, not ms and another (leave one of them)`},
		{"from: devices, columns: [{lastSeen: excel(Berlin)}]", `2:46: there is no timezone "Berlin" (names look like Europe/Berlin; Local is that of this machine)`},
		{"from: devices, columns: [{lastSeen: ms(1)}]", `2:46: the format ms takes no argument`},
		{"from: devices, columns: [{lastSeen: dates(Local)}]", `2:46: there is no format "dates" (did you mean "date"?)`},
		{"from: devices, columns: hostnam", `2:34: there is no preset "hostnam" of columns (did you mean the column "hostname"? there are default, summary and all; columns are a list: [hostname, siteName])`},
		{"from: devices, columns: [{online: bytes}]", `2:35: the format bytes does nothing for a field of the kind bool: "online"`},
		{"from: devices, columns: [{Seen: {path: lastSeen, format: count}}]", `2:35: the format count does nothing for a field of the kind date: "lastSeen"`},
		{"from: devices, columns: sumry", `2:34: there is no preset "sumry" of columns (there are default, summary and all; columns are a list: [hostname, siteName])`},
	} {
		got := faults(t, "version: 1\nexport: {"+tt.export+", to: o.csv}\n")
		if got != "j.yaml:"+tt.want {
			t.Errorf("%s\ngot  %s\nwant j.yaml:%s", tt.export, got, tt.want)
		}
	}
}

func TestColumnFormats(t *testing.T) {
	j := parse(t, `export:
  from: devices
  with: [audit]
  columns:
    - {audit.nics.macAddress: "join(', ')"}
    - {MACs: {path: audit.nics.macAddress, join: ' | '}}
    - {RAM: {path: audit.systemInfo.totalPhysicalMemory, format: bytes(GiB)}}
    - {Seen: {path: lastSeen, excel: Europe/Berlin}}
    - {lastReboot: date(Asia/Tokyo)}
    - {Alerts: {path: deviceType, format: count}}
  to: o.csv
`)
	rec, err := output.ParseRecord([]byte(`{"lastSeen":1741219200000,"lastReboot":1741219200000,"audit":{"nics":[{"macAddress":"A"},{"macAddress":"B"}],"systemInfo":{"totalPhysicalMemory":17179869184}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range output.Row(nil, j.Export.Columns, rec, output.Style{}) {
		got = append(got, v.Text)
	}
	if want := []string{"A, B", "A | B", "16", "2025-03-06 01:00:00", "2025-03-06", ""}; !slices.Equal(got, want) {
		t.Errorf("cells %q, want %q", got, want)
	}
}

// Sorted rows come first by what the job says, and then by the usual order.
func TestOrderOfRows(t *testing.T) {
	j := parse(t, "export:\n  from: devices\n  sort: [{lastSeen: desc}, siteName]\n  to: o.csv\n")
	order := j.Export.Order()
	want := []output.Order{{Path: "lastSeen", Kind: output.KindDate, Descending: true}, {Path: "siteName", Kind: output.KindText}, {Path: "siteName"}, {Path: "hostname"}, {Path: "uid"}}
	if !slices.Equal(order, want) {
		t.Errorf("order %+v", order)
	}
}

func TestSubject(t *testing.T) {
	for key, want := range map[string][2]string{
		"detail/0000012/7d3c/alerts-open/98/0000000": {"alerts-open", "7d3c"},
		"list/device-audit/7d3c/98/0000000":          {"device-audit", "7d3c"},
		"list/job-stdout/a%2Fb/d1/98/0000000":        {"job-stdout", "a/b on d1"},
		"list/devices/98/0000003":                    {"devices", ""},
		"parents/sites/98/0000000":                   {"sites", ""},
		"odd":                                        {"odd", ""},
	} {
		if what, of := Subject(key); what != want[0] || of != want[1] {
			t.Errorf("%s is about %q of %q", key, what, of)
		}
	}
}

func TestRequestName(t *testing.T) {
	for key, want := range map[string]string{
		"detail/0000012/7d3c/alerts-open/98/0000002": "alerts-open of 7d3c, page 3",
		"list/devices/98/0000003":                    "devices, page 4",
		"odd":                                        "odd",
	} {
		if got := RequestName(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// What was told of a list is not told of its request once more.
func TestTold(t *testing.T) {
	const why = "devices is incomplete: page 3 could not be read: 403 Forbidden; 4 of 5 elements came; and so is 1 more"
	for key, want := range map[string]bool{
		"list/devices/98/0000002": true, "list/devices/98/0000003": false, "list/sites/98/0000002": false,
		"detail/0000012/7d3c/audit/98/0000000": false, "odd": false,
	} {
		if got := Told(why, key, "403 Forbidden"); got != want {
			t.Errorf("%s: %v", key, got)
		}
		if Told(why, key, "404 Not Found") {
			t.Errorf("%s: another reason", key)
		}
	}
}

// A list of one device that is refused is told by the name and the uid of the device.
func TestRefusedListNamesItsOwner(t *testing.T) {
	for _, tt := range []struct{ from, job, says string }{
		{"device-alerts-open", "devices: [H0]", "device-alerts-open of H0 in Contoso (d0) is incomplete: it could not be read: 403 Forbidden"},
		{"devices", "with: [audit]", "device-audit of H0 in Contoso (d0) is incomplete: it could not be read: 403 Forbidden"},
	} {
		d := exporter(t, tt.from, 50, func(req rmm.Request) reply {
			if req.Path["deviceUid"] == "d0" {
				return reply{status: 403}
			}
			return estate(req)
		}, tt.job)
		if why := d.incomplete(); !strings.HasPrefix(why, tt.says) {
			t.Errorf("%s: %q, want %q", tt.from, why, tt.says)
		}
	}
}
