package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmmjob/internal/output"
)

// whereNow is the present of the conditions in these tests.
var whereNow = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// wants tells whether a condition on devices wants a row.
func wants(t *testing.T, condition, row string, explode ...string) bool {
	t.Helper()
	c, faults := compileCondition(condition, "devices", []string{"audit", "software", "alerts-open"}, strings.Join(explode, ""))
	if faults != nil {
		t.Fatalf("%s: %+v", condition, faults)
	}
	rec, err := output.ParseRecord([]byte(row))
	if err != nil {
		t.Fatal(err)
	}
	ok, err := c.all(whereNow)(rec)
	if err != nil {
		t.Fatalf("%s on %s: %v", condition, row, err)
	}
	return ok
}

const whereRow = `{"id":12345678901234567,"hostname":"ACME-LT01","siteName":"Acme \"HQ\"","online":true,"suspended":null,"lastSeen":1772438400000,
	"lastReboot":"2026-02-01T00:00:00Z","creationDate":-62135596800000,"warrantyDate":"2026-05-01","deviceClass":"device",
	"antivirus":{"antivirusStatus":"NotRunning"},"patchManagement":{"patchesInstalled":211,"patchesNotApproved":3},"udf":{"udf1":"on-lease","udf7":null,"udf300":"x"},
	"audit":{"bios":{"serialNumber":"5CD1"},"nics":[{"ipv4":"10.1.2.3","macAddress":"00155D000001"},{"ipv4":null}],"logicalDisks":[{"size":100,"freespace":5}],
		"attachedDevices":[{"driverFileLastModified":1772000000000}]},
	"software":[{"name":"Chrome","version":"1.2"},{"name":"7-Zip"}],"alerts-open":[{"priority":"High","timestamp":1772438400000}]}`

func TestWhere(t *testing.T) {
	for condition, want := range map[string]bool{
		`online`:                            true,
		`online == true and not suspended`:  true,
		`suspended == false`:                false,
		`suspended == nil`:                  true,
		`suspended != true`:                 true,
		`hostname == "ACME-LT01"`:           true,
		`hostname == "acme-lt01"`:           false,
		`lower(hostname) == "acme-lt01"`:    true,
		`hostname contains "LT" or false`:   true,
		`hostname startsWith "ACME"`:        true,
		`hostname endsWith "ACME"`:          false,
		`hostname matches "^[A-Z]+-LT\\d+"`: true,
		`domain contains "x"`:               false,
		`not (domain contains "x")`:         true,
		`domain == nil`:                     true,
		`domain in ["a", "b"]`:              false,
		`deviceClass in ["device"]`:         true,
		`deviceClass not in ["printer"]`:    true,
		`id == 12345678901234567`:           true,
		`id > 5`:                            true,
		`domain > "a"`:                      false,
		`domain < "a"`:                      false,

		`lastSeen > ago("1d")`:                                         true,
		`lastSeen < ago("30d")`:                                        false,
		`lastReboot < ago("4w")`:                                       true,
		`lastReboot == date("2026-02-01")`:                             true,
		`lastSeen - lastReboot > duration("20d")`:                      true,
		`now() - lastSeen < duration("1h")`:                            true,
		`creationDate < ago("1d")`:                                     false, // the year 1 is no date
		`creationDate == nil`:                                          true,
		`lastAuditDate < ago("1d") or lastAuditDate > ago("1d")`:       false,
		`date(warrantyDate) < now() + duration("90d")`:                 true,
		`warrantyDate < ahead("90d") and warrantyDate > ago("1d")`:     true,
		`ahead("30d") >= warrantyDate or warrantyDate == now()`:        false,
		`warrantyDate == date("2026-05-01")`:                           true,
		`date(domain) < now()`:                                         false,
		`antivirus.antivirusStatus == "NotRunning"`:                    true,
		`antivirus.antivirusProduct == nil`:                            true,
		`antivirus?.antivirusStatus == "NotRunning"`:                   true,
		`patchManagement.patchesInstalled + 1 == 212`:                  true,
		`patchManagement.patchesInstalled / 2 > 105`:                   true,
		`patchManagement.patchesApprovedPending + 1 > 0`:               false,
		`-patchManagement.patchesNotApproved < 0`:                      true,
		`patchManagement.patchesNotApproved % 2 == 1`:                  true,
		`(online ? 1 : 2) == 1`:                                        true,
		`(suspended ? 1 : 2) == 2`:                                     true,
		`udf1 == "on-lease" and udf300 == "x" and udf.udf7 == nil`:     true,
		`field("udf1") == "on-lease"`:                                  true,
		`len(udf1) == 8 and len(domain) == 0`:                          true,
		`siteName == 'Acme "HQ"'`:                                      true,
		`trim(upper(hostname)) == "ACME-LT01"`:                         true,
		`string(id) endsWith "567"`:                                    true,
		`int(field("udf1")) == nil`:                                    true,
		`audit.bios.serialNumber == "5CD1"`:                            true,
		`"00155D000001" in audit.nics.macAddress`:                      true,
		`"nope" in audit.nics.macAddress`:                              false,
		`audit.nics[0].ipv4 == "10.1.2.3" and audit.nics[5].ipv4 == 1`: false,
		`any(audit.logicalDisks, .freespace * 100 / .size < 10)`:       true,
		`any(audit.displays, .screenWidth > 0)`:                        false,
		`all(audit.displays, .screenWidth > 0)`:                        true,
		`any(audit.attachedDevices, .driverFileLastModified < now())`:  true,
		`any(software, .name == "Chrome" and .version == "1.2")`:       true,
		`count(software, .name contains "i") == 1`:                     true,
		`len(filter(software, .version == nil)) == 1`:                  true,
		`len(software) == 2`:                                           true,
		`"7-Zip" in map(software, .name)`:                              true,
		`none(software, .name == "Firefox")`:                           true,
		`any(alerts-open, .priority == "High")`:                        true,
		`len(alerts-open) > 0 and alerts-open[0].priority == "High"`:   true,
		`any(alerts-open, .timestamp > ago("1d"))`:                     true,
		`alerts-open.priority != nil`:                                  true,
		`hostname != nil && online && !suspended`:                      true,
		`audit.bios != nil`:                                            true,
	} {
		if got := wants(t, condition, whereRow); got != want {
			t.Errorf("%s: %v, want %v", condition, got, want)
		}
	}
	if !wants(t, `software.name == "Chrome"`, `{"software":{"name":"Chrome"}}`, "software") {
		t.Error("the element of an exploded list is not looked into")
	}
}

// A condition is taken apart, so that no detail is asked for that cannot matter.
func TestWhereEarly(t *testing.T) {
	c, faults := compileCondition(`deviceClass == "device" and (online or len(software) > 3) and hostname != "X"`, "devices", []string{"software"}, "")
	if faults != nil {
		t.Fatal(faults)
	}
	early := c.early(whereNow)
	for row, want := range map[string]bool{
		`{"deviceClass":"device","hostname":"A"}`: true, // the software is not known yet
		`{"deviceClass":"printer"}`:               false,
		`{"deviceClass":"device","hostname":"X"}`: false,
	} {
		rec, err := output.ParseRecord([]byte(row))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := early(rec); got != want || err != nil {
			t.Errorf("%s: %v %v", row, got, err)
		}
	}
	c, _ = compileCondition(`len(software) > 3`, "devices", []string{"software"}, "")
	if c.early(whereNow) != nil {
		t.Error("a condition on details alone is asked before they are there")
	}
	if (*Where)(nil).all(whereNow) != nil {
		t.Error("no condition chooses")
	}
}

func TestWhereFaults(t *testing.T) {
	const head = "version: 1\nexport:\n  from: devices\n  with: [software]\n  to: o.csv\n  where: "
	for _, tt := range []struct{ where, want string }{
		{`onlin == true`, `6:10: where: there is no field "onlin" (did you mean "online"?)`},
		{`'hostname == "x" and antivirus.antivirusSttus == "y"'`, `6:31: where: there is no field "antivirus.antivirusSttus" (did you mean "antivirus.antivirusStatus"?)`},
		{`'siteName == ''a'' and onlin'`, `6:33: where: there is no field "onlin" (did you mean "online"?)`},
		{`"siteName == \"a\" and onlin"`, `6:33: where: there is no field "onlin" (did you mean "online"?)`},
		{"|\n    online and\n    onlin\n", `8:5: where: there is no field "onlin" (did you mean "online"?)`},
		{">\n    online and\n    onlin\n", `8:5: where: there is no field "onlin" (did you mean "online"?)`},
		{`hostname`, `6:10: where: it must be true or false, and this is text (compare it with something)`},
		{`online and hostname`, `6:21: where: it must be true or false, and this is text (compare it with something)`},
		{`lastSeen > "2025-01-01"`, `6:21: where: a date cannot be compared with the text "2025-01-01" (write date("2025-01-01"))`},
		{`online = true`, `6:17: where: "=" is not expected here (for equal write ==)`},
		{`lastSeen > ago("30")`, `6:25: where: "30" is no span of time such as 30d, 2w, 12h or 90m`},
		{`lastSeen > date("06.03.2025")`, `6:26: where: "06.03.2025" is no date such as 2025-03-06 or 2025-03-06T02:00:00Z`},
		{`lastSeen < "30d"`, `6:21: where: a date cannot be compared with the text "30d" (write ago("30d"), or ahead("30d") for the future)`},
		{`lastSeen > 5`, `6:19: where: a date cannot be compared with a number by > (dates are written ago("30d"), ahead("30d") or date("2025-03-06"))`},
		{`ago("-90d") > lastSeen`, `6:14: where: "-90d" is a negative span of time: write ahead("90d")`},
		{`udf3 < ago("1d")`, `6:10: where: udf3 is text and cannot be compared with a date (date(udf3) reads it as a date)`},
		{`hostname like "x"`, `6:19: where: "like" is not expected here (write contains, startsWith, endsWith or matches)`},
		{`online AND online`, `6:17: where: "AND" is not expected here (write and in small letters)`},
		{`NOT online`, `6:14: where: "NOT" is not expected here (write not in small letters, before what it denies)`},
		{`hostname <> "x"`, `6:20: where: "<>" is not expected here (for not equal write !=)`},
		{`hostname ==`, `6:20: where: the condition ends too early (something has to follow)`},
		{`online)`, `6:16: where: ")" is not expected here (the brackets do not match)`},
		{`hostname == “x”`, `6:22: where: "“" is not expected here (write straight quotes: ")`},
		{`hostname in ("a", "b")`, `6:26: where: "," is not expected here (a list is written in square brackets: in ["a", "b"])`},
		{`online == null`, `6:20: where: there is no field "null" (a field that is not there is nil)`},
		{`lower(id) == "a"`, `6:16: where: lower takes text, not a number`},
		{`any(software)`, `6:22: where: a list needs a condition on its elements (for example any(software, .name == "Chrome"))`},
		{`lenn(hostname) > 3`, `6:10: where: there is no function "lenn" (did you mean "len"?)`},
		{`any(software, .namme == "x")`, `6:25: where: the elements of software have no field "namme" (did you mean ".name"?)`},
		{`audit.bios.serialNumber == "x"`, `6:10: where: "audit.bios.serialNumber" is a detail that the job does not ask for (add with: [audit])`},
		{`hostname matches "("`, "6:27: where: error parsing regexp: missing closing ): `(`"},
		{`hostname matches siteName`, `6:27: where: the pattern of matches must be a text in quotes`},
		{`len(1..100000000) > 3`, `6:15: where: a range is not for conditions`},
		{`repeat("x", 1000000000) == hostname`, `6:10: where: there is no function "repeat" (functions: ago, ahead, all, any, count, date, duration, field, filter, float, int, len, lower, map, none, now, one, string, trim, upper)`},
		{`sortBy(software, .name) == nil`, `6:10: where: the function "sortBy" is not for conditions (functions: ago, ahead, all, any, count, date, duration, field, filter, float, int, len, lower, map, none, now, one, string, trim, upper)`},
		{`let x = 1; x == 1`, `6:14: where: this part of the language is not for conditions`},
		{`$env.x == 1`, `6:10: where: there is no field "$env.x" (texts need quotes of their own: siteName == "Contoso")`},
		{`hostname.foo() == 1`, `6:19: where: methods are not for conditions`},
		{`any(software, any(software, any(software, true)))`, `6:38: where: lists within lists within lists are not for conditions`},
		{`siteName == Contoso`, `6:22: where: there is no field "Contoso" (texts need quotes of their own: siteName == "Contoso")`},
		{`''`, `6:10: where is empty (remove the key to export all rows)`},
		{`[a]`, `6:10: where must be a text, not a list`},
	} {
		if got, want := faults(t, head+tt.where+"\n"), "j.yaml:"+tt.want; got != want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.where, got, want)
		}
	}
	long := strings.Repeat("online and ", 400) + "online"
	if got := faults(t, head+long+"\n"); !strings.Contains(got, "the condition is too long") {
		t.Errorf("an endless condition: %s", got)
	}
}

// Whatever the service sends, a condition gives true or false.
func TestWhereNeverFails(t *testing.T) {
	conditions := []string{
		`online and not suspended or deleted == nil`, `hostname contains "a" and hostname matches "b" or hostname in ["a"]`,
		`lastSeen > ago("3d") or lastSeen - lastReboot > duration("1d") or lastSeen + duration("1h") < now()`,
		`int(patchManagement.patchesInstalled * 2 / 3) % 2 - 1 ** 2 > id`, `any(software, .name == "x" and len(.version) > 1) and software[0].name != "y"`,
		`count(audit.nics, .ipv4 != nil) > 1 or "x" in audit.nics.macAddress`, `audit.bios.serialNumber + "x" == "yx" and -id < +id`,
		`int(udf1) > 3 or float(udf2) < 1.5 or date(udf3) > now() or string(udf4) == lower(udf5)`,
		`(online ? hostname : siteName) == upper(trim(domain)) ?? true`, `len(filter(alerts-open, .timestamp > now())) > 0`,
		`antivirus["antivirusStatus"] == nil and audit.nics[0].ipv4 == audit.nics[1].ipv4`,
	}
	var compiled []*Where
	for _, text := range conditions {
		c, faults := compileCondition(text, "devices", []string{"audit", "software", "alerts-open"}, "")
		if faults != nil {
			t.Fatalf("%s: %+v", text, faults)
		}
		compiled = append(compiled, c)
	}
	value := rapid.Deferred(func() *rapid.Generator[string] {
		return rapid.SampledFrom([]string{
			"null", "true", `"text"`, `""`, "0", "-1", "1.5e300", "99999999999999999999999999", `"1772438400000"`, "1772438400", "[]", "{}", "[null]", `[1,"a",{"name":3}]`,
			`{"":1,"a.b":{"a":2}}`, `"{\"a\":1"`, `[[[]]]`, `{"antivirusStatus":{"x":1},"bios":[],"nics":{"ipv4":[]}}`, `"9999-99-99"`, `"Inf"`,
		})
	})
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for _, name := range []string{
			"online", "suspended", "deleted", "hostname", "siteName", "domain", "id", "lastSeen", "lastReboot", "patchManagement", "antivirus", "udf",
			"software", "audit", "alerts-open",
		} {
			if rapid.Bool().Draw(t, "has "+name) {
				parts = append(parts, fmt.Sprintf("%q:%s", name, value.Draw(t, name)))
			}
		}
		rec, err := output.ParseRecord([]byte("{" + strings.Join(parts, ",") + "}"))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range compiled {
			if _, err := c.all(whereNow)(rec); err != nil {
				t.Errorf("%s on {%s}: %v", conditions[i], strings.Join(parts, ","), err)
			}
		}
	})
}
