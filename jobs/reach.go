package jobs

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/rmm"
)

// reach says how an export reaches an operation. An answer that stands alone is one list or one object. One that
// belongs to something is read for each of the account's sites or devices, or for those that the job names.
type reach struct {
	parents string // the list of what it belongs to, sites or devices; "" if no list of the account has them
	param   string // path parameter that a parent fills
	field   string // field of the parent that fills it
	class   string // class of the devices that alone have it; "" for all
	given   string // key of the job that names what to read, without a look at any list; "" if it stands alone
}

// auditClasses are the classes of devices that alone have what lies below a path.
var auditClasses = map[string]string{
	"/v2/audit/device/": "device", "/v2/audit/printer/": "printer", "/v2/audit/esxihost/": "esxihost",
}

// reachOf tells how an operation is reached.
func reachOf(op rmm.Operation) reach {
	switch strings.Join(op.PathParams(), " ") {
	case "siteUid":
		return reach{parents: "sites", param: "siteUid", field: "uid", given: "uids"}
	case "deviceUid":
		s := reach{parents: "devices", param: "deviceUid", field: "uid", given: "uids"}
		for path, class := range auditClasses {
			if strings.HasPrefix(op.Path, path) {
				s.class = class
			}
		}
		return s
	case "deviceId":
		return reach{parents: "devices", param: "deviceId", field: "id", given: "ids"}
	case "macAddress":
		return reach{param: "macAddress", given: "macs"}
	case "alertUid", "jobUid":
		return reach{param: op.PathParams()[0], given: "uids"}
	case "jobUid deviceUid":
		return reach{given: "jobs"}
	}
	return reach{}
}

// Word is a text of the job file and where it stands.
type Word struct {
	Text string
	Pos  Pos
}

// Scope is what a list or answer that belongs to something is read for. At most one of Given and the others is set; the
// zero Scope is everything.
type Scope struct {
	Sites   []Word              // names or uids of sites
	Devices []Word              // host names or uids of devices
	Given   []map[string]string // the path parameters of each request
}

// scopeKeys are the keys of an export that say what to read.
var scopeKeys = []string{"sites", "devices", "uids", "ids", "macs", "jobs"}

// scope reads what the list is to be read for.
func (d *decoder) scope(export *yaml.Node, values map[string]*yaml.Node, op rmm.Operation, at Pos) Scope {
	way := reachOf(op)
	takes := way.takes()
	var s Scope
	for _, key := range scopeKeys {
		n := values[key]
		switch {
		case n == nil:
		case !slices.Contains(takes, key):
			d.fault(child(export, key), scopeHint(key, op, takes), "%q has no effect on %s", key, op.Name)
		case key == way.given && (values["sites"] != nil || values["devices"] != nil):
			d.fault(child(export, key), "leave one of them", "%q and the names of sites or devices say both what to read", key)
		case key == "sites":
			s.Sites = d.places(n, key)
		case key == "devices":
			s.Devices = d.places(n, key)
		case key == "jobs":
			s.Given = d.jobResults(n)
		default:
			s.Given = d.given(n, key, way.param)
		}
	}
	if way.parents == "" && way.given != "" && values[way.given] == nil {
		hint := "for example uids: ['0b9d0e6c-…'], the values of the column " + op.Key
		switch way.given {
		case "macs":
			hint = "for example macs: ['00:15:5D:01:02:03']"
		case "jobs":
			hint = "for example jobs: {'uid of the job': ['uid of a device']}"
		case "uids":
			if way.param == "jobUid" {
				hint = "for example uids: ['0b9d0e6c-…']; the activity log and quick jobs tell the uids of jobs"
			}
		}
		d.faultAt(at.Line, at.Column, hint, "%s reads what the job names: it lacks the key %q", op.Name, way.given)
	}
	return s
}

// scopeHint says what to do about a key that an operation does not take.
func scopeHint(key string, op rmm.Operation, takes []string) string {
	nested := map[string]string{
		"sites devices": "site-devices", "sites alerts-open": "site-alerts-open", "sites alerts-resolved": "site-alerts-resolved",
		"devices alerts-open": "device-alerts-open", "devices alerts-resolved": "device-alerts-resolved",
		"sites variables": "site-variables", "sites sites": "site", "devices devices": "device", "uids sites": "site",
		"uids devices": "device", "ids devices": "device-by-id", "macs devices": "device-by-mac", "macs device": "device-by-mac",
		"ids device": "device-by-id",
	}
	if other, ok := nested[key+" "+op.Name]; ok {
		return "write from: " + other
	}
	if len(takes) > 0 {
		return "it takes " + orList(takes)
	}
	return "remove it; where chooses among the rows"
}

// places reads a list of names, or a single one. A name that is there twice, if only in another case, is a fault.
func (d *decoder) places(n *yaml.Node, key string) []Word {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if items = n.Content; len(items) == 0 {
			d.fault(n, "remove the key to read all", "%s is empty", key)
		}
	}
	var list []Word
	first := map[string]int{}
	for _, item := range items {
		s, ok := d.word(item, "an entry of "+key)
		if !ok {
			continue
		}
		if line, twice := first[normalise(s)]; twice {
			d.fault(item, "remove one of them", "%q is there twice; the first is in line %d", clip(s, 40), line)
			continue
		}
		first[normalise(s)] = item.Line
		list = append(list, Word{s, d.pos(item.Line, item.Column)})
	}
	return list
}

// given reads the identifiers of what to read.
func (d *decoder) given(n *yaml.Node, key, param string) []map[string]string {
	var list []map[string]string
	for _, w := range d.places(n, key) {
		text, fault := w.Text, ""
		switch {
		case key == "ids" && !isInt64(text):
			fault = "is no number of a device"
		case key == "macs":
			if text = plainMAC(text); text == "" {
				fault = "is no MAC address: it has 12 hex digits"
			}
		case text == "." || text == "..":
			fault = "is no uid"
		}
		if fault != "" {
			d.faultAt(w.Pos.Line, w.Pos.Column, "", "%q %s", clip(w.Text, 40), fault)
			continue
		}
		list = append(list, map[string]string{param: text})
	}
	return list
}

var hexDigits = regexp.MustCompile(`^[0-9A-F]{12}$`)

// plainMAC is a MAC address as the service takes it: 12 hex digits without separators; "" for anything else.
func plainMAC(s string) string {
	s = strings.ToUpper(strings.NewReplacer(":", "", "-", "", ".", "").Replace(s))
	if !hexDigits.MatchString(s) {
		return ""
	}
	return s
}

// jobResults reads which results of jobs to read: the devices of each job.
func (d *decoder) jobResults(n *yaml.Node) []map[string]string {
	var list []map[string]string
	d.pairs(n, "jobs", func(key, value *yaml.Node) {
		job, ok := d.word(key, "the uid of a job")
		if !ok {
			return
		}
		for _, device := range d.places(value, "the devices of a job") {
			list = append(list, map[string]string{"jobUid": job, "deviceUid": device.Text})
		}
	})
	return list
}

// exportable tells whether an export can read an operation.
func exportable(op rmm.Operation) bool { return !op.IsWrite() }

// reads lists the operations that an export can read.
func reads() []string {
	var names []string
	for _, op := range rmm.Operations() {
		if exportable(op) {
			names = append(names, op.Name)
		}
	}
	return names
}
