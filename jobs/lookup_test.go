package jobs

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// harbour is an account whose devices have interfaces and audits.
func harbour() account {
	all := map[string][]string{
		"sites": {`{"uid":"s1","id":1,"name":"North"}`, `{"uid":"s2","id":2,"name":"South"}`, `{"uid":"Deleted Devices","id":3,"name":"Deleted Devices"}`},
		"devices": {
			`{"uid":"d1","hostname":"A","siteUid":"s1","siteName":"North","deviceClass":"device","udf":{"udf1":null}}`,
			`{"uid":"d2","hostname":"B","siteUid":"s2","siteName":"South","deviceClass":"device","udf":{"udf1":"same"}}`,
			`{"uid":"d3","hostname":"C","siteUid":"s2","siteName":"South","deviceClass":"printer","udf":{"udf1":null}}`,
			`{"uid":"d4","hostname":"D","siteUid":"s2","siteName":"South","deviceClass":"flyingtoaster","udf":{"udf1":null}}`,
			`{"uid":"d5","hostname":"E","siteUid":"s2","siteName":"South","udf":{"udf1":null}}`,
		},
		"site-network-interfaces/s1": {`{"uid":"d1","nics":[{"macAddress":"00:1A:2B:00:00:01"},{"macAddress":"001A2B000002"},{"macAddress":null}]}`},
		"site-network-interfaces/s2": {
			`{"uid":"d2","nics":[{"macAddress":"00-1a-2b-00-00-03"},{"macAddress":"0A0027000000"}]}`, `{"uid":"d3","nics":[{"macAddress":"0a:00:27:00:00:00"}]}`, `{"uid":"d4","nics":[]}`,
		},
	}
	rest := lists(all)
	return func(req rmm.Request) reply {
		switch uid := req.Path["deviceUid"]; req.Op {
		case "device-audit":
			serial := map[string]string{"d1": " SN-1 ", "d2": "Default string"}[uid]
			if serial == "" {
				return reply{status: http.StatusNotFound}
			}
			return reply{body: `{"bios":{"serialNumber":"` + serial + `"}}`}
		case "printer-audit":
			return reply{body: `{"snmpInfo":{"snmpSerial":"default STRING"}}`}
		}
		return rest(req)
	}
}

// asked are the reads of an operation, by the object that they are about.
func (d *driver) asked(op string) []string {
	var got []string
	for _, r := range d.sent {
		if r.Op == op {
			got = append(got, r.Path["siteUid"]+r.Path["deviceUid"])
		}
	}
	slices.Sort(got)
	return got
}

func TestMatchByMAC(t *testing.T) {
	csv := "mac,site,udf1\n00-1A-2B-00-00-01,North,x\n001a.2b00.0002,north,x\n00:1a:2b:00:00:03,South,same\n0A0027000000,South,x\n" +
		"00:1a:2b:00:00:09,North,x\n00:1a:2b:00:00:03,North,x\nWS-ALFA,North,x\n,North,x\nff:ff:ff:ff:ff:ff,North,x\n"
	const update = "  operation: device-udf-set\n  rows: CSV\n  match: {mac: '{mac}'}\n  set: {udf1: '{udf1}'}\n"
	d := updater(t, file(t, csv), update, harbour(), Settings{})
	d.mustRun()
	want := []string{
		"2 change", "3 change", "4 conflict: lines 4 and 7 disagree on udf1 for device d2",
		`5 ambiguous: 2 devices have mac "0A0027000000": d2 (South), d3 (South)`, `6 not_found: no device has mac "00:1a:2b:00:00:09"`,
		"7 conflict: lines 4 and 7 disagree on udf1 for device d2", `8 invalid: "wsalfa" is not the MAC address of a device`,
		"9 invalid: empty key: mac comes from {mac}, which is blank", `10 invalid: "ffffffffffff" is not the MAC address of a device`,
	}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%q, want\n%q", got, want)
	}
	if got := d.bodies(); !slices.Equal(got, []string{`d1 {"udf1":"x"}`}) {
		t.Errorf("sent %q", got)
	}
	if got := d.asked("site-network-interfaces"); !slices.Equal(got, []string{"Deleted Devices", "s1", "s2"}) {
		t.Errorf("asked for %q", got)
	}
	// The site in the match narrows what is read as well as what is found.
	d = updater(t, file(t, "mac,site,udf1\n00-1A-2B-00-00-01,North,x\n00:1a:2b:00:00:03,North,x\n"), strings.Replace(update, "'{mac}'", "'{mac}', siteName: '{site}'", 1), harbour(), Settings{})
	d.mustRun()
	if got, want := d.classes(), []string{"2 change", `3 not_found: no device has mac "00:1a:2b:00:00:03" and siteName "North"`}; !slices.Equal(got, want) {
		t.Errorf("planned %q", got)
	}
	if got := d.asked("site-network-interfaces"); !slices.Equal(got, []string{"s1"}) {
		t.Errorf("asked for %q", got)
	}
	// A move needs the sites, too, which are read once.
	d = updater(t, file(t, "mac,to\n00-1A-2B-00-00-01,South\n"), "  operation: device-move\n  rows: CSV\n  match: {mac: '{mac}'}\n  set: {siteName: '{to}'}\n", harbour(), Settings{})
	d.mustRun()
	if w := d.writes(); len(w) != 1 || w[0].Path["siteUid"] != "s2" || len(d.pageNumbers("sites")) != 1 {
		t.Errorf("sent %+v, sites %q", w, d.pageNumbers("sites"))
	}
}

func TestMatchBySerial(t *testing.T) {
	csv := "serial,site,udf1\nsn-1,North,x\nDEFAULT STRING,South,x\nSN-2,South,x\n"
	const update = "  operation: device-udf-set\n  lookup: audits\n  rows: CSV\n  match: {serial: '{serial}'}\n  set: {udf1: '{udf1}'}\n"
	d := updater(t, file(t, csv), update, harbour(), Settings{})
	d.mustRun()
	want := []string{"2 change", `3 ambiguous: 2 devices have serial "DEFAULT STRING": d2 (South), d3 (South)`, `4 not_found: no device has serial "SN-2"`}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%q, want\n%q", got, want)
	}
	if got := append(d.asked("device-audit"), d.asked("printer-audit")...); !slices.Equal(got, []string{"d1", "d2", "d5", "d3"}) {
		t.Errorf("asked for %q", got)
	}
	if !slices.Contains(d.notes, "serial numbers are in the audits: one more read for each of 4 devices, and once more for each that is written") {
		t.Errorf("notes %q", d.notes)
	}
	d = updater(t, file(t, csv), strings.Replace(update, "'{serial}'", "'{serial}', siteName: '{site}'", 1), harbour(), Settings{})
	d.mustRun()
	if got := d.asked("device-audit"); len(got) != 3 || len(d.writes()) != 1 {
		t.Errorf("asked for %q", got)
	}
	for text, want := range map[string]string{
		strings.Replace(update, "  lookup: audits\n", "", 1):                                      "one request for each device",
		strings.Replace(update, "serial: '{serial}'", "hostname: '{serial}'", 1):                  "lookup has no effect",
		strings.Replace(update, "serial: '{serial}'", "hostname: '{serial}', mac: '{serial}'", 1): "match takes one of",
	} {
		if _, err := Parse([]byte("version: 1\nupdate:\n"+strings.Replace(text, "CSV", "a.csv", 1)), "job.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
