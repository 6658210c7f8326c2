package jobs

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files")

// faults gives the faults of a job file as the user sees them.
func faults(t *testing.T, job string) string {
	t.Helper()
	j, err := Parse([]byte(job), "j.yaml")
	if err == nil {
		t.Fatalf("no error, job %+v", j)
	}
	if j != nil {
		t.Fatal("a job beside the error")
	}
	var list Errors
	if !errors.As(err, &list) || len(list) == 0 {
		t.Fatalf("%T is not Errors: %v", err, err)
	}
	return err.Error()
}

// The jobs that the tables below begin or end with.
const (
	devices = "version: 1\nexport: {from: devices, to: out.csv}\n"
	tags    = "version: 1\nupdate:\n  operation: device-udf-set\n  rows: a.csv\n  match: {uid: '{uid}'}\n  set: {udf1: '{Tag}'}\n"
)

func TestParseFaults(t *testing.T) {
	const writes = "available: device-udf-set, device-warranty-create, device-move, device-job-create, site-create, site-update, site-proxy-create, " +
		"site-proxy-delete, site-variable-create, site-variable-update, site-variable-delete, site-variable-set, account-variable-create, " +
		"account-variable-update, account-variable-delete, account-variable-set, alert-resolve, alert-mute, alert-unmute"
	tests := []struct {
		name, job string
		want      []string // lines, each after "j.yaml:"
	}{
		// The file as a whole.
		{"empty", "", []string{`1:1: the file is empty (a job file begins with version: 1)`}},
		{"comment only", "# nothing\n", []string{`1:1: the file is empty (a job file begins with version: 1)`}},
		{"document marks only", "---\n", []string{`2:1: the job must be a mapping of keys to values, not nothing`}},
		{"no job", "version: 1\n", []string{`1:1: the job does nothing (add the key export or the key update)`}},
		{"text", "version:1\n", []string{`1:1: the job must be a mapping of keys to values, not the text "version:1" (a colon is followed by a blank)`}},
		{"list", "- version: 1\n", []string{`1:1: the job must be a mapping of keys to values, not a list`}},
		{"too large", strings.Repeat("#\n", maxJobFile), []string{`1:1: this is no job file: it is larger than 1 MiB (is it the right file?)`}},
		{"latin-1", devices + "name: B\xfcro\n", []string{`3:8: byte 0xFC is not UTF-8 (save the file as UTF-8)`}},
		{"utf-32", "\xff\xfe\x00\x00v\x00\x00\x00", []string{`1:1: the file is UTF-32 (save it as UTF-8)`}},
		{"zero byte", devices + "name: a\x00b\n", []string{`3:8: control character U+0000 (delete it)`}},
		{"second document", devices + "---\nversion: 1\n", []string{`3:1: a second document begins here (one file is one job)`}},
		{"second document broken", devices + "---\n  a: [\n", []string{`5:1: a value is missing or cannot begin like this (put the text in single quotes)`}},
		{"both kinds", devices + "update: {}\n", []string{
			`3:1: a job is an export or an update, not both (make two jobs of it)`,
			`3:9: update lacks the key "operation"`, `3:9: update lacks the key "rows"`,
		}},

		// YAML.
		{"tab", "version: 1\nexport:\n\tfrom: devices\n", []string{`3:1: a tab in the indentation (indent with blanks)`}},
		{"tab after blanks", "version: 1\nexport:\n  from: devices\n  \tto: a.csv\n", []string{`4:3: a tab in the indentation (indent with blanks)`}},
		{"at sign", "version: 1\nname: @x\n", []string{`2:1: a text cannot begin with this character (put the text in single quotes)`}},
		{"two colons", "version: 1\nname: a: b\n", []string{`2:1: a second ': ' in one line (put a text that holds ': ' in single quotes)`}},
		{"open quote", "version: 1\nname: 'abc\nworkers: 1\n", []string{`2:1: a quote that opens here is never closed`}},
		{"no colon", "version: 1\nname\nworkers: 1\n", []string{`2:1: a key without a colon (a key is followed by a colon and a blank)`}},
		{"quotes within quotes", "version: 1\nname: x\nexport:\n  from: devices\n  to: x.csv\n  where: \"name == \"Contoso\"\"\n  rows: {min: 1}\n", []string{`6:20: text after the quote that ends the value (put the whole condition in single quotes: where: 'siteName == "Contoso"')`}},
		{"single quotes within", "version: 1\nexport:\n  from: devices\n  to: x.csv\n  where: 'name == 'Contoso''\n", []string{`5:20: text after the quote that ends the value (within single quotes, write each single quote twice)`}},
		{"quotes and the rest outside", "version: 1\nexport:\n  from: devices\n  to:\n    - \"a\" b.csv\n", []string{`5:11: text after the quote that ends the value (put the whole text in single quotes)`}},
		{"quotes within a flow", "version: 1\nexport: {from: devices, to: x.csv, where: \"name == \"Contoso\"\"}\n", []string{`2:53: text after the quote that ends the value (put the whole text in single quotes)`}},
		{"indentation", "version: 1\nexport:\n  from: devices\n to: x.csv\n", []string{`4:2: this line does not continue what is above it (check the indentation)`}},
		{"no comma", "version: 1\nguard: { max_clears: 1 max_errors: 2 }\n", []string{`2:1: a comma or the closing bracket is missing in what begins here (a text that begins with { or [ needs single quotes)`}},
		{"umlaut after asterisk", "version: 1\nname: *ü\n", []string{`2:1: a text cannot begin with this character (put the text in single quotes)`}},
		{"no comma after quotes", "version: 1\nmatch: { uid: '{a}' id: '{b}' }\n", []string{`2:1: a comma or the closing bracket is missing in what begins here (a text that begins with { or [ needs single quotes)`}},
		{"unknown anchor", "version: 1\nname: [ü, *abc]\n", []string{`2:11: "*abc" refers to an anchor that does not exist (put a text that begins with * in single quotes)`}},
		{"anchors", "version: 1\nname: &n x\naccount: *n\nexport: {from: devices, to: o.csv}\n", []string{
			`2:7: anchors are not used in job files: &n (write the value where it is used; a text that begins with & needs single quotes)`,
			`3:10: anchors are not used in job files: *n (write the value out; a text that begins with * needs single quotes)`,
		}},
		{"merge", "version: 1\nexport: {<<: {from: devices}, from: devices, to: o.csv}\n", []string{`2:10: merge keys are not used in job files (write the keys out)`}},
		{"tag", devices + "name: !!binary eA==\n", []string{`3:7: tags are not used in job files: !!binary (remove it; a text that begins with ! needs single quotes)`}},
		{"braces as key", devices + "{a}: 1\n", []string{`3:1: a key must be a plain word (a text that begins with { or [ needs single quotes)`}},
		{"key twice", devices + "name: a\nname: b\n", []string{`4:1: the key "name" is there twice (the first is in line 3)`}},

		// Keys and simple values.
		{"version", "version: 2\nexport: {from: devices, to: o.csv}\n", []string{`1:10: version must be the number 1, not 2 (this rmmjob reads version: 1)`}},
		{"no version", "export: {from: devices, to: o.csv}\n", []string{`1:1: the job lacks the key "version"`}},
		{"case of a key", devices + "Workers: 4\n", []string{`3:1: unknown key "Workers" in the job (did you mean "workers"?)`}},
		{"swapped letters", devices + "tiemout: 4s\n", []string{`3:1: unknown key "tiemout" in the job (did you mean "timeout"?)`}},
		{"strange key", devices + "retries: 3\n", []string{`3:1: unknown key "retries" in the job (known here: version, name, account, export, update, call, guard, throttle, workers, timeout, grace, confirm, results)`}},
		{"secret", devices + "api_key: hunter2\nthrottle: {Secret: hunter2}\n", []string{
			`3:1: secrets do not belong in a job file: "api_key" (set DATTO_API_KEY and DATTO_API_SECRET in the environment, or use a credentials file)`,
			`4:12: secrets do not belong in a job file: "Secret" (set DATTO_API_KEY and DATTO_API_SECRET in the environment, or use a credentials file)`,
		}},
		{"empty value", devices + "account:\n", []string{`3:1: "account" has no value (give it a value or remove the key)`}},
		{"empty text", devices + "account: ''\n", []string{`3:10: account is empty (give it a value or remove the key)`}},
		{"list for text", devices + "account: [a]\n", []string{`3:10: account must be a text, not a list`}},
		{"line break in a name", devices + "name: \"a\\nb\"\n", []string{`3:7: name holds a control character or a line break`}},
		{"workers", devices + "workers: 65\n", []string{`3:10: workers must be a whole number from 1 to 64, not 65`}},
		{"workers in quotes", devices + "workers: '8'\n", []string{`3:10: workers must be a whole number from 1 to 64, not the text "8" (write 8)`}},
		{"octal", devices + "workers: 010\n", []string{`3:10: workers must be a whole number from 1 to 64, not 010 (write 10)`}},
		{"fraction", devices + "workers: 1.5\n", []string{`3:10: workers must be a whole number from 1 to 64, not 1.5`}},
		{"yes", devices + "confirm: yes\n", []string{`3:10: confirm must be true or false, not "yes" (write true)`}},
		{"Off", devices + "confirm: Off\n", []string{`3:10: confirm must be true or false, not "Off" (write false)`}},
		{"flag in quotes", devices + "confirm: 'true'\n", []string{`3:10: confirm must be true or false, not "true" (write true)`}},
		{"flag number", devices + "confirm: 1\n", []string{`3:10: confirm must be true or false, not 1`}},
		{"no unit", devices + "timeout: 60\n", []string{`3:10: timeout lacks a unit (for seconds write 60s)`}},
		{"no span", devices + "timeout: soon\n", []string{`3:10: timeout must be a time span such as 90s, 15m or 2h, not the text "soon"`}},
		{"negative span", devices + "grace: -1s\n", []string{`3:8: grace must be more than 0 and at most 168h, not "-1s"`}},
		{"long span", devices + "grace: 169h\n", []string{`3:8: grace must be more than 0 and at most 168h, not "169h"`}},
		{"export and call", devices + "call: {method: GET}\n", []string{
			`3:1: a job is an export, an update or a call, not two of them (make two jobs of it)`, `3:7: call lacks the key "path"`, `3:7: call lacks the key "class"`,
		}},

		// Export.
		{"unknown list", "version: 1\nexport: {from: devics, to: o.csv}\n", []string{`2:16: there is no list "devics" (did you mean "devices"?)`}},
		{"strange list", "version: 1\nexport: {from: tickets, to: o.csv}\n", []string{`2:16: there is no list "tickets" (rmmjob catalogue lists what there is)`}},
		{"write as list", "version: 1\nexport: {from: site-create, to: o.csv}\n", []string{`2:16: "site-create" changes the account: it is nothing to read (rmmjob catalogue tells what can be read)`}},
		{"list of a job", "version: 1\nexport: {from: job-stdout, to: o.csv}\n", []string{`2:16: job-stdout reads what the job names: it lacks the key "jobs" (for example jobs: {'uid of the job': ['uid of a device']})`}},
		{"list by mac", "version: 1\nexport: {from: device-by-mac, to: o.csv}\n", []string{`2:16: device-by-mac reads what the job names: it lacks the key "macs" (for example macs: ['00:15:5D:01:02:03'])`}},
		{"filter of nothing", "version: 1\nexport: {from: users, filter: {role: x}, to: o.csv}\n", []string{`2:32: "users" has no filters`}},
		{"filter without value", "version: 1\nexport: {from: devices, filter: {siteName: }, to: o.csv}\n", []string{`2:44: siteName has no value (give it a value or remove the key)`}},
		{"filter number", "version: 1\nexport: {from: devices, filter: {filterId: 010}, to: o.csv}\n", []string{`2:44: filterId must be a whole number, not "010"`}},
		{"filter flag", "version: 1\nexport: {from: alerts-open, filter: {muted: yes}, to: o.csv}\n", []string{`2:45: muted must be true or false, not "yes"`}},
		{"filter word", "version: 1\nexport: {from: activity-logs, filter: {order: up, entities: [device, usr]}, to: o.csv}\n", []string{
			`2:47: order must be asc or desc, not "up" (known here: asc, desc)`,
			`2:61: entities must be device or user, not "usr" (did you mean "user"?)`,
		}},
		{"filter list", "version: 1\nexport: {from: activity-logs, filter: {siteIds: [], userIds: '1,,2', order: [asc]}, to: o.csv}\n", []string{
			`2:49: siteIds is empty (give it a value or remove the key)`,
			`2:62: userIds has an empty part (give it a value or remove the key)`,
			`2:77: order must be a text, not a list`,
		}},
		{"paging", "version: 1\nexport: {from: activity-logs, filter: {searchAfter: x}, to: o.csv}\n", []string{`2:40: "searchAfter" is not for jobs: rmmjob turns the pages itself (remove it)`}},
		{"columns", "version: 1\nexport:\n  from: devices\n  columns:\n    - hostname\n    - {a: b, c: d}\n    - {Seen: {path: lastSeen, format: Excel}}\n    - {Tag: }\n    - [x]\n    - {hostname: raw}\n  to: o.csv\n", []string{
			`6:7: an entry of columns is one column, this has 2 (begin each with its own dash)`,
			`7:39: there is no format "Excel" (did you mean "excel"?)`,
			`8:13: a column has no value (give it a value or remove the key)`,
			`9:7: a column must be a text, not a list`,
			`10:7: the column "hostname" is there twice (the first is in line 5)`,
		}},
		{"no columns", "version: 1\nexport: {from: devices, columns: [], to: []}\n", []string{
			`2:34: columns is empty (remove the key for the default)`, `2:42: to is empty (name a file)`,
		}},

		// Update.
		{"unknown operation", strings.Replace(tags, "device-udf-set", "device-udf-st", 1), []string{`3:14: there is no operation "device-udf-st" (did you mean "device-udf-set"?)`}},
		{"strange operation", strings.Replace(tags, "device-udf-set", "x", 1), []string{`3:14: there is no operation "x" (` + writes + `)`}},
		{"operation that no job may send", strings.Replace(tags, "device-udf-set", "user-reset-keys", 1), []string{`3:14: user-reset-keys is refused in jobs: it ends the API key that the job itself runs with (` + writes + `)`}},
		{"match of what is to be made", strings.NewReplacer("device-udf-set", "site-create", "udf1", "name").Replace(tags), []string{`5:3: site-create has no target that exists before: the name is in set (remove it)`}},
		{"set of what is to go", strings.NewReplacer("device-udf-set", "account-variable-delete", "{uid: '{uid}'}", "{name: '{uid}'}").Replace(tags), []string{`6:3: account-variable-delete takes no values (remove it)`}},
		{"fields of sites", strings.NewReplacer("device-udf-set", "site-update", "udf1", "Notes").Replace(tags), []string{`6:9: unknown field "Notes" of site-update (did you mean "notes"?)`}},
		{"sites by two", strings.NewReplacer("device-udf-set", "site-update", "udf1", "notes", "{uid: '{uid}'}", "{uid: '{uid}', name: '{n}'}").Replace(tags), []string{`5:10: match takes one of uid, id and name`}},
		{"variable without its site", strings.NewReplacer("device-udf-set", "site-variable-update", "udf1", "value", "{uid: '{uid}'}", "{name: '{n}'}").Replace(tags), []string{`5:10: match needs one of siteUid, siteId and siteName`}},
		{"variable without its name", strings.NewReplacer("device-udf-set", "site-variable-update", "udf1", "value", "{uid: '{uid}'}", "{siteName: '{n}'}").Replace(tags), []string{`5:10: match needs the name of the variable`}},
		{"variable without value", strings.NewReplacer("device-udf-set", "account-variable-create", "udf1", "name", "  match: {uid: '{uid}'}\n", "").Replace(tags), []string{`5:8: set lacks the key "value", which account-variable-create needs`}},
		{"move to two", strings.NewReplacer("device-udf-set", "device-move", "{udf1: '{Tag}'}", "{siteUid: '{a}', siteName: '{b}'}").Replace(tags), []string{`6:8: set takes one of siteUid and siteName`}},
		{"job without component", strings.NewReplacer("device-udf-set", "device-job-create", "{udf1: '{Tag}'}", "{jobName: x, variables: {Name: {}}}").Replace(tags), []string{
			`6:8: set lacks the key "componentUid", which device-job-create needs`, `6:39: Name must be a text, not a mapping`,
		}},
		{"read as operation", strings.Replace(tags, "device-udf-set", "devices", 1), []string{`3:14: "devices" only reads (` + writes + `)`}},
		{"rows", strings.Replace(tags, "rows: a.csv", "rows: {csv: -, encoding: utf8x, delimiter: ab, skip_lines: -1, allow_empty: no, date_format: yy-mm-dd, jsonl: x}", 1), []string{
			`4:15: the rows are read more than once and cannot come from stdin (name a file)`,
			`4:28: unknown encoding "utf8x" (did you mean "utf-8"?)`,
			`4:46: delimiter must be one sign, not "ab" (comma, semicolon, tab and pipe are names for the usual ones)`,
			`4:62: skip_lines must be a whole number from 0 to 10000, not -1`,
			`4:79: allow_empty must be true or false, not "no" (write false)`,
			`4:83: date_format has no effect: device-udf-set writes no date (remove it)`,
			`4:96: date_format: "yy-mm-dd" is not made of one yyyy, one mm and one dd`,
			`4:106: rows come from one input: csv or jsonl (make two jobs of it)`,
		}},
		{"match unquoted", strings.Replace(tags, "'{uid}'", "{uid}", 1), []string{`5:16: uid must be a text: without quotes the braces are a mapping (put it in quotes: '{uid}')`}},
		{"match by two", strings.Replace(tags, "{uid: '{uid}'}", "{uid: '{uid}', id: '{id}'}", 1), []string{`5:10: match takes one of uid, id, hostname, mac and serial`}},
		{"match by site", strings.Replace(tags, "{uid: '{uid}'}", "{siteName: '{Site}'}", 1), []string{`5:10: match needs uid, id, hostname, mac or serial`}},
		{"match by two sites", strings.Replace(tags, "{uid: '{uid}'}", "{hostname: '{h}', siteName: x, siteUid: y}", 1), []string{`5:10: match takes one of siteName and siteUid`}},
		{"match with needless site", strings.Replace(tags, "{uid: '{uid}'}", "{uid: '{h}', siteName: x}", 1), []string{`5:10: a uid or id needs no site in match (remove the site)`}},
		{"match in other case", strings.Replace(tags, "{uid: '{uid}'}", "{Hostname: '{h}'}", 1), []string{`5:10: match needs uid, id, hostname, mac or serial`, `5:11: unknown field "Hostname" in match (did you mean "hostname"?)`}},
		{"match without column", strings.Replace(tags, "'{uid}'", "uid", 1), []string{`5:16: uid names no column: every row would have the same device (name a column in braces: '{uid}')`}},
		{"templates", strings.Replace(tags, "'{Tag}'", "'{Tag', udf2: 'Tag}', udf3: '{}', udf4: '{{x', udf5: \"\\0\"", 1), []string{
			`6:15: udf1: the '{' before "Tag" is not closed: a brace of the text itself is written twice, '{{'`,
			`6:29: udf2: a '}' without its '{': a brace of the text itself is written twice, '}}'`,
			`6:43: udf3: '{}' names no column`,
			`6:68: udf5 holds the control character 0x00 (` + quoteHint + `)`,
		}},
		{"set nothing", strings.Replace(tags, "{udf1: '{Tag}'}", "{}", 1), []string{`6:8: set is empty`}},
		{"set to nothing", strings.Replace(tags, "'{Tag}'", "", 1), []string{`6:9: "udf1" has no value (to clear a field write '(clear)')`}},
		{"set twice", strings.Replace(tags, "'{Tag}'", "'{Tag}', udf1: x", 1), []string{`6:24: the key "udf1" is there twice (the first is in line 6)`}},
		{"fields of devices", strings.Replace(tags, "udf1:", "UDF1: a, udf07: b, tag: c, udf99999999999999999999: d, udf2:", 1), []string{
			`6:9: unknown field "UDF1" of device-udf-set (did you mean "udf1"?)`,
			`6:18: unknown field "udf07" of device-udf-set (did you mean "udf7"?)`,
			`6:28: unknown field "tag" of device-udf-set (the fields are udf1 to udf300)`,
			`6:36: there is no field udf99999999999999999999 (the fields are udf1 to udf300)`,
		}},
		{"fields of warranties", strings.NewReplacer("device-udf-set", "device-warranty-create", "udf1", "warrantydate").Replace(tags), []string{`6:9: unknown field "warrantydate" of device-warranty-create (did you mean "warrantyDate"?)`}},
		{"choices", tags + "  empty: clean\n  on_not_found: stop\n  on_row_fault: Hold\n  protected: x\n", []string{
			`7:10: empty must be keep or clear, not "clean" (did you mean "clear"?)`,
			`8:17: on_not_found must be fail or skip, not "stop" (known here: fail, skip)`,
			`9:17: on_row_fault must be hold or stop, not "Hold" (did you mean "hold"?)`,
			`10:3: unknown key "protected" in update (known here: operation, rows, match, set, empty, lookup, on_not_found, on_row_fault, verify)`,
		}},

		// Guard and throttle.
		{"guard", devices + "guard: {max_changes: -1, max_clears: 1.5, max_errors: 101%, max_not_found: two, max_rejected: '7', max_share: 1}\n", []string{
			`3:22: max_changes must be a whole number or a percentage such as '2%', not -1`,
			`3:38: max_clears must be a whole number or a percentage such as '2%', not 1.5`,
			`3:55: max_errors must be a whole number or a percentage such as '2%', not the text "101%"`,
			`3:76: max_not_found must be a whole number or a percentage such as '2%', not the text "two"`,
			`3:95: max_rejected must be a whole number or a percentage such as '2%', not the text "7"`,
			`3:100: unknown key "max_share" in guard (known here: max_changes, max_clears, max_errors, max_not_found, max_rejected, max_percent, protected)`,
		}},
		{"throttle", devices + "throttle: {profil: medium, base: medium, onset: half, legacy: of}\n", []string{
			`3:12: unknown key "profil" in throttle (did you mean "profile"?)`,
			`3:28: "base" has an effect only on the profile custom (add profile: custom)`,
			`3:42: "onset" has an effect only on the profile custom (add profile: custom)`,
			`3:49: onset must be a number such as 0.5, not the text "half"`,
			`3:63: legacy must be auto, on or off, not "of" (did you mean "off"?)`,
		}},
		{"throttle of the window model", devices + "throttle: {profile: adaptive, util: 0.7, guard: high}\n", []string{
			`3:31: "util" has an effect only on the profile custom (add profile: custom)`,
			`3:42: "guard" has an effect only on the profile custom (add profile: custom)`,
			`3:49: guard must be a number such as 0.5, not the text "high"`,
		}},
		{"custom without base", devices + "throttle: {profile: custom, onset: 0.4}\n", []string{`3:11: the profile custom needs a base (for example base: medium)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := "j.yaml:" + strings.Join(tt.want, "\nj.yaml:")
			if got := faults(t, tt.job); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A fault of the language must not show in a message what may be a secret.
func TestParseKeepsSecrets(t *testing.T) {
	for _, key := range []string{"api_key", "apiKey", "API-Secret", "secret", "password", "datto_api_secret", "token", "key"} {
		if got := faults(t, devices+key+": hunter2\n"); strings.Contains(got, "hunter2") || !strings.Contains(got, "DATTO_API_KEY") {
			t.Errorf("%s: %s", key, got)
		}
	}
}

func TestParseGolden(t *testing.T) {
	for _, name := range []string{"export", "update"} {
		t.Run(name, func(t *testing.T) {
			job, err := Load(filepath.Join("testdata", "jobs", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(golden(t, job), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "jobs", name+".golden.json")
			if *updateGolden {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got)+"\n" != string(want) {
				t.Errorf("job %s is now\n%s", name, got)
			}
		})
	}
}

// golden is a job without what differs from machine to machine or belongs to the catalogue.
func golden(t *testing.T, job *Job) any {
	t.Helper()
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	job.Hash, job.Source = "", nil // depend on the line ends of the checkout
	var tree any
	type setting struct{ Field, Value string }
	view := struct {
		*Job
		Operation      string
		Match, Set     []setting
		Export, Update any `json:",omitempty"`
	}{Job: job}
	if e := job.Export; e != nil {
		view.Operation = e.From.Name
		e.From = rmm.Operation{Name: e.From.Name}
		view.Export = e
		for i := range e.To { // of a zone only the name matters
			e.To[i].Style.Location = nil
		}
	}
	if u := job.Update; u != nil {
		view.Operation = u.Operation.Name
		for _, m := range u.Match {
			view.Match = append(view.Match, setting{m.Field, m.Value.String()})
		}
		for _, s := range u.Set {
			view.Set = append(view.Set, setting{s.Field, s.Value.String()})
		}
		u.Operation = rmm.Operation{Name: u.Operation.Name}
		view.Update = u
	}
	data, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), `\\`, "/") // of Windows paths
	text = strings.ReplaceAll(text, filepath.ToSlash(here), "HERE")
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestParseEncodings(t *testing.T) {
	const job = "version: 1\nname: Büro\nexport: {from: devices, to: out.csv}\n"
	wide := func(order func(byte, byte) string) string {
		var b strings.Builder
		for _, r := range job {
			b.WriteString(order(byte(r>>8), byte(r)))
		}
		return b.String()
	}
	little := wide(func(high, low byte) string { return string([]byte{low, high}) })
	big := wide(func(high, low byte) string { return string([]byte{high, low}) })
	for name, data := range map[string]string{
		"utf-8": job, "mark": "\ufeff" + job, "utf-16le": "\xff\xfe" + little, "utf-16be": "\xfe\xff" + big,
		"utf-16le without mark": little, "crlf": strings.ReplaceAll(job, "\n", "\r\n"), "cr": strings.ReplaceAll(job, "\n", "\r"),
		"document marks": "---\n" + job + "...\n",
	} {
		j, err := Parse([]byte(data), "j.yaml")
		if err != nil || j.Name != "Büro" {
			t.Errorf("%s: job %+v, error %v", name, j, err)
		}
	}
}

func TestParseDefaults(t *testing.T) {
	j, err := Parse([]byte("version: 1\nexport: {from: site-devices, to: '-'}\n"), filepath.Join("some", "nightly.job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if j.Name != "nightly.job" || !filepath.IsAbs(j.Path) || len(j.Hash) != 64 {
		t.Errorf("name %q, path %q, hash %q", j.Name, j.Path, j.Hash)
	}
	if e := j.Export; len(e.Columns) < 50 || e.SecondWalk != "auto" || e.From.Name != "site-devices" {
		t.Errorf("export %+v", e)
	}
	want := Target{Path: "-", Format: "csv", Pos: Pos{filepath.Join("some", "nightly.job.yaml"), 2, 34}}
	if !reflect.DeepEqual(j.Export.To[0], want) {
		t.Errorf("target %+v", j.Export.To[0])
	}
	j, err = Parse([]byte(tags), "j.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if u := j.Update; u.Empty != "keep" || u.OnNotFound != "fail" || u.OnRowFault != "hold" {
		t.Errorf("update %+v", u)
	}
	if !reflect.DeepEqual(j.Guard, Guard{}) || j.Workers != 0 || j.Timeout != 0 || j.Throttle.Custom != nil {
		t.Errorf("settings %+v", j)
	}
}

// Text is taken as it is written, whatever YAML makes of it.
func TestParseKeepsText(t *testing.T) {
	job := "version: 1\nname: 010\naccount: yes\nupdate:\n  operation: device-udf-set\n  rows: a.csv\n  match: {uid: '{uid}'}\n" +
		"  set: {udf1: 007, udf2: 2026-03-06, udf3: off, udf4: 1e3, udf5: ' x ', udf6: \"a\\nb\"}\n"
	j, err := Parse([]byte(job), "j.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range j.Update.Set {
		got = append(got, s.Value.Expand(nil))
	}
	if want := "010|yes|007|2026-03-06|off|1e3| x |a\nb"; strings.Join(append([]string{j.Name, j.Account}, got...), "|") != want {
		t.Errorf("got %q %q %q", j.Name, j.Account, got)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.yaml")
	_, err := Load(missing)
	if want := missing + ": there is no such job file"; err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	_, err = Load(dir)
	if want := dir + ": this is a folder, not a job file"; err == nil || err.Error() != want {
		t.Errorf("folder: %v", err)
	}
	t.Chdir(dir)
	_, err = Load("none.yaml")
	if want := "none.yaml: there is no such job file (looked for " + missing + ")"; err == nil || err.Error() != want {
		t.Errorf("missing file by relative path: %v", err)
	}
}

func TestCase_R19_PathsRelativeToJobFile(t *testing.T) {
	dir := t.TempDir()
	job := "version: 1\nresults: res\nupdate:\n  operation: device-udf-set\n  rows: data/in.csv\n  match: {uid: '{uid}'}\n  set: {udf7: '{udf7}'}\n"
	export := "version: 1\nexport: {from: devices, to: out/devices-{date}.csv}\n"
	export = strings.Replace(export, "out/devices-{date}.csv", "'out/devices-{date}.csv'", 1)
	for name, text := range map[string]string{"u.yaml": job, "e.yaml": export} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	t.Chdir(elsewhere)
	u, err := Load(filepath.Join(dir, "u.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load(filepath.Join(dir, "e.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		u.Path:              filepath.Join(dir, "u.yaml"),
		u.Update.Rows.CSV:   filepath.Join(dir, "data", "in.csv"),
		u.Results:           filepath.Join(dir, "res"),
		e.Export.To[0].Path: filepath.Join(dir, "out", "devices-{date}.csv"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("the current folder has %v, error %v", left, err)
	}
}

func TestCase_Y01_WindowsPathInDoubleQuotes(t *testing.T) {
	const job = "version: 1\nexport:\n  from: devices\n  to: %s\n"
	with := func(path string) string { return strings.Replace(job, "%s", path, 1) }
	for path, want := range map[string]string{
		`"C:\temp\new.csv"`: "j.yaml:4:7: the path of an output holds a tab (" + quoteHint + ")",
		`"C:\Users\x.csv"`:  "j.yaml:4:10: a backslash in double quotes that begins no known escape (" + quoteHint + ")",
		`"C:\data\x.csv"`:   "j.yaml:4:10: a backslash in double quotes that begins no known escape (" + quoteHint + ")",
		`"C:\new\n.csv"`:    "j.yaml:4:7: the path of an output holds a line break (" + quoteHint + ")",
	} {
		if got := faults(t, with(path)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
	j, err := Parse([]byte(with(`'C:\temp\new.csv'`)), "j.yaml")
	if err != nil || !strings.HasSuffix(j.Export.To[0].Path, `C:\temp\new.csv`) {
		t.Errorf("single quotes: job %+v, error %v", j, err)
	}
}

func TestCase_Y02_UnknownKeys(t *testing.T) {
	for job, want := range map[string]string{
		"version: 1\nexport: {from: devices, filtr: {site: Depot North}, to: o.csv}\n":      `j.yaml:2:25: unknown key "filtr" in export (did you mean "filter"?)`,
		"version: 1\nexport: {from: devices, filter: {sitename: Depot North}, to: o.csv}\n": `j.yaml:2:34: unknown filter "sitename" of "devices" (did you mean "siteName"?)`,
	} {
		if got := faults(t, job); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	j, err := Parse([]byte("version: 1\nexport: {from: devices, filter: {siteName: Depot North, filterId: 7}, to: o.csv}\n"), "j.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Export.Filter.Encode(); got != "filterId=7&siteName=Depot+North" {
		t.Errorf("filter %s", got)
	}
}

func TestCase_C39_UDFNumberOutOfRange(t *testing.T) {
	got := faults(t, strings.Replace(tags, "{udf1: '{Tag}'}", "{udf300: '{udf300}', udf301: '{udf301}', udf0: '{udf0}'}", 1))
	want := "j.yaml:6:29: there is no field udf301 (the fields are udf1 to udf300)\nj.yaml:6:49: there is no field udf0 (the fields are udf1 to udf300)"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLimit(t *testing.T) {
	tests := []struct {
		limit    Limit
		n, total int
		want     bool
		text     string
	}{
		{Limit{}, 1000, 1000, true, ""},
		{Limit{Set: true}, 0, 10, true, "0"},
		{Limit{Set: true}, 1, 10, false, "0"},
		{Limit{Set: true, Value: 25}, 25, 30, true, "25"},
		{Limit{Set: true, Value: 25}, 26, 30, false, "25"},
		{Limit{Set: true, Percent: true, Value: 2}, 2, 100, true, "2%"},
		{Limit{Set: true, Percent: true, Value: 2}, 3, 100, false, "2%"},
		{Limit{Set: true, Percent: true, Value: 2.5}, 1, 40, true, "2.5%"},
		{Limit{Set: true, Percent: true}, 0, 0, true, "0%"},
	}
	for _, tt := range tests {
		if got := tt.limit.Allows(tt.n, tt.total); got != tt.want || tt.limit.String() != tt.text {
			t.Errorf("%+v allows %d of %d: %v, written %q", tt.limit, tt.n, tt.total, got, tt.limit)
		}
	}
}

func TestDateLayout(t *testing.T) {
	for format, want := range map[string]string{
		"": "2006-1-2", "yyyy-mm-dd": "2006-1-2", "MM/dd/yyyy": "1/2/2006", "d.m.yyyy": "2.1.2006", "yyyymmdd": "20060102",
		"dd. mm. yyyy": "2. 1. 2006", "yyyy-mmdd": "2006-0102",
	} {
		if got, err := DateLayout(format); got != want || err != nil {
			t.Errorf("%q: %q, %v", format, got, err)
		}
	}
	for _, format := range []string{"yy-mm-dd", "yyyy-mm", "yyyy-mm-mm", "yyyy-mm-dd hh:mm", "ymd", "yyyymd", "yyyy-mmd", "02.01.2006", "dd\u00a0mm yyyy", "yyyy-mm-dd-dd"} {
		if got, err := DateLayout(format); err == nil {
			t.Errorf("%q gives %q", format, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(devices))
	f.Add([]byte(tags))
	for _, name := range []string{"export", "update"} {
		data, err := os.ReadFile(filepath.Join("testdata", "jobs", name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("version: 1\ncall: {method: POST, path: '/v2/x/{a}', class: unsafe, body: {a: ['{b}', 1]}, rows: {jsonl: a}}\nguard: {max_changes: 1}\n"))
	f.Add([]byte("version: 1\nupdate: {operation: device-udf-set, rows: {from: devices, where: 'online'}, set: {udf1: '{hostname}'}}\n" +
		"guard: {max_percent: 5, protected: [{hostname: ['a*', 'b?']}, {udf1: x, site: y}]}\n"))
	f.Add([]byte("version: 1\nupdate: {operation: site-variable-set, rows: {xlsx: a.xlsx, sheet: S, aliases: {s: [x, y]}}, match: {siteName: '{s}', name: n}, set: {value: v}}\n"))
	f.Add([]byte("a: &x [*x]\n<<: *x\n"))
	f.Add([]byte("version: 1\nexport: {from: \"\\U\", ? [a]: {b}}\n---\n\t"))
	f.Add([]byte("\xff\xfev\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		job, err := Parse(data, "j.yaml")
		if err == nil {
			if job == nil || (job.Export == nil) == (job.Update == nil) {
				t.Fatalf("job %+v", job)
			}
			return
		}
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 || job != nil {
			t.Fatalf("%T %v, job %v", err, err, job)
		}
		lines := len(linesOf(string(data)))
		if text, err := unicodeText(data); err == nil {
			lines = len(linesOf(string(text)))
		}
		for i, e := range list {
			if e.Pos.File != "j.yaml" || e.Pos.Line < 1 || e.Pos.Column < 1 || e.Message == "" {
				t.Fatalf("fault without a place: %+v", e)
			}
			if e.Pos.Line > 2*lines {
				t.Fatalf("line %d of %d: %v", e.Pos.Line, lines, e)
			}
			if i > 0 && list[i-1].Pos.Line > e.Pos.Line {
				t.Fatalf("out of order: %v", err)
			}
		}
	})
}
