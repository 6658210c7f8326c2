package jobs

import (
	"strings"
	"testing"
)

// A value that is the same for every row is checked with the job file, by the rules
// for the values of rows.
func TestConstants(t *testing.T) {
	const devices = "  rows: a.csv\n  match: {uid: '{uid}'}\n"
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct{ op, rest, want string }{
		"fits":               {"device-udf-set", devices + "  set: {udf1: " + long[1:] + "}\n", ""},
		"too long":           {"device-udf-set", devices + "  set: {udf2: a, udf1: " + long + "}\n", "j:6:24: udf1 has 256 characters, 255 fit"},
		"too long in UTF-16": {"device-udf-set", devices + "  set: {udf1: " + strings.Repeat("😀", 128) + "}\n", "j:6:15: udf1 has 256 characters, 255 fit"},
		"with a column":      {"device-udf-set", devices + "  set: {udf1: '{a} " + long + "'}\n", ""},
		"clears":             {"device-udf-set", devices + "  set: {udf1: (clear)}\n", ""},
		"nearly clears":      {"device-udf-set", devices + "  set: {udf1: '[CLEAR]'}\n", `j:6:15: udf1 is "[CLEAR]": to empty the field write (clear)`},
		"blank":              {"device-udf-set", devices + "  set: {udf1: '  '}\n", "j:6:15: udf1 is blank (to clear a field write '(clear)')"},
		"blank, to clear":    {"device-udf-set", devices + "  empty: clear\n  set: {udf1: '  '}\n", "j:7:15: udf1 is blank"},
		"a day":              {"device-warranty-create", devices + "  set: {warrantyDate: 2027-12-31}\n", ""},
		"another order": {
			"device-warranty-create", devices + "  set: {warrantyDate: 31.12.2027}\n",
			`j:6:23: warrantyDate: "31.12.2027" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
		},
		"with its order": {"device-warranty-create", strings.Replace(devices, "a.csv", "{csv: a.csv, date_format: dd.mm.yyyy}", 1) + "  set: {warrantyDate: 31.12.2027}\n", ""},
		"a port":         {"site-proxy-create", "  rows: a.csv\n  match: {name: '{n}'}\n  set: {host: h, type: http, port: 70000}\n", `j:6:36: port: "70000" is not a port from 1 to 65535`},
		"a type":         {"site-proxy-create", "  rows: a.csv\n  match: {name: '{n}'}\n  set: {host: h, type: ftp, port: 80}\n", `j:6:24: type: "ftp" is not `},
		"yes":            {"site-create", "  rows: a.csv\n  set: {name: '{n}', onDemand: yes}\n", `j:5:32: onDemand: "yes" is neither true nor false`},
		"needed":         {"site-create", "  rows: a.csv\n  set: {name: (clear)}\n", "j:5:15: name cannot be cleared"},
		"all of them": {
			"site-create", "  rows: a.csv\n  set: {name: '{n}', onDemand: 1, splashtopAutoInstall: maybe}\n",
			"j:5:32: onDemand: \"1\" is neither true nor false\nj:5:57: splashtopAutoInstall: \"maybe\"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte("version: 1\nupdate:\n  operation: "+c.op+"\n"+c.rest), "j")
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
