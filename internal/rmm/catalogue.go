package rmm

import (
	"fmt"
	"slices"
	"strings"

	"rmmjob/internal/spell"
)

// Class says what may be done with a request whose answer was lost. It is a
// property of the operation, never of the HTTP verb: in this API PUT creates
// and POST updates.
type Class string

// The classes of operations.
const (
	// ClassRead changes nothing and may be repeated at will.
	ClassRead Class = "read"
	// ClassIdempotent is a write that leaves the same state when repeated.
	ClassIdempotent Class = "idempotent"
	// ClassVerify is a write whose effect can be looked up: after a lost answer
	// look first, then decide.
	ClassVerify Class = "verify"
	// ClassUnsafe is a write that does something new each time; it is never
	// repeated by itself.
	ClassUnsafe Class = "unsafe"
)

// Paging is the shape of an operation's answer.
type Paging string

// The shapes of answers.
const (
	// PagingNone is one bare object, or an empty body.
	PagingNone Paging = ""
	// PagingArray is a bare JSON array that comes whole.
	PagingArray Paging = "array"
	// PagingPages is an envelope {pageDetails, <element>: [...]} with numbered
	// pages: page counts from 0, max is the page size.
	PagingPages Paging = "pages"
	// PagingCursor is the same envelope, but the next page is known only from
	// the nextPageUrl of the page before, and the end only from an empty page.
	PagingCursor Paging = "cursor"
)

// ParamType is the type of a query parameter or of a body field.
type ParamType string

// The types of parameters and fields.
const (
	TypeString   ParamType = "string"
	TypeInt      ParamType = "int"       // a whole number; 64 bits suffice
	TypeBool     ParamType = "bool"      // true or false
	TypeStrings  ParamType = "strings"   // several values, joined by commas
	TypeObject   ParamType = "object"    // a nested JSON object; Help tells its fields
	TypeNullDate ParamType = "null-date" // yyyy-mm-dd, or JSON null to clear
)

// Param is an optional query parameter of an operation.
type Param struct {
	Name   string
	Type   ParamType
	Values []string // the only values allowed; empty when anything goes
	Help   string
}

// Field is a top-level field of the JSON body of a write.
type Field struct {
	Name     string
	Type     ParamType
	Required bool     // the API refuses a body without it
	Values   []string // the only values allowed; empty when anything goes
	Help     string
}

// Operation describes one operation of the API. The values returned by
// [Operations] and [Lookup] share their slices; treat them as read-only.
type Operation struct {
	Name     string  // name in job files; for writes the server's own, where it has one
	Method   string  // HTTP method
	Path     string  // path below /api with {placeholders}, as in the API's description
	Paging   Paging  // shape of the answer
	Element  string  // name of the array in the page envelope; "" unless paged
	Key      string  // field that identifies one element of the answer; "" if none does
	Query    []Param // optional query parameters, without page and max of PagingPages
	Body     []Field // fields of the body of a write
	Class    Class   // what may be done after a lost answer
	Throttle string  // the operation's name in operationWriteStatus; "" if it has no bucket
	Public   bool    // answered without an access token
	Known    string  // of a free call: the operation whose path it has; "" if there is none
	Summary  string  // one line for people
}

// MaxUDF is the number of user-defined fields of a device: udf1 to udf300.
// Servers of before 2026 know 30.
const MaxUDF = 300

// catalogue is the table of the API: every operation, once, in the order in
// which it is shown to people.
//
// Keys: users have no id of any kind; software rows are identified by nothing
// short of name and version; a job may hold one component twice.
var catalogue = slices.Concat(
	[]Operation{
		// Account.
		get("account", "/v2/account", "uid", "the account: name, currency, device counts"),
		list("devices", "/v2/account/devices", "devices", "uid", "devices of the account", deviceFilters...),
		list("sites", "/v2/account/sites", "sites", "uid", "sites of the account",
			Param{Name: "siteName", Type: TypeString, Help: "part of the site name"}),
		list("users", "/v2/account/users", "users", "username", "users of the account"),
		list("variables", "/v2/account/variables", "variables", "id", "variables of the account"),
		list("components", "/v2/account/components", "components", "uid", "components that jobs can run"),
		list("dnet-site-mappings", "/v2/account/dnet-site-mappings", "dnetSiteMappings", "uid", "sites with their Datto Networking networks"),
		list("alerts-open", "/v2/account/alerts/open", "alerts", "alertUid", "open alerts of the account", muted),
		list("alerts-resolved", "/v2/account/alerts/resolved", "alerts", "alertUid", "resolved alerts of the account", muted),

		// Sites.
		get("site", "/v2/site/{siteUid}", "uid", "one site"),
		list("site-devices", "/v2/site/{siteUid}/devices", "devices", "uid", "devices of a site", filterID),
		list("site-network-interfaces", "/v2/site/{siteUid}/devices/network-interface", "devices", "uid", "devices of a site in short form, with their network interfaces"),
		list("site-variables", "/v2/site/{siteUid}/variables", "variables", "id", "variables of a site"),
		list("site-filters", "/v2/site/{siteUid}/filters", "filters", "id", "device filters of a site"),
		get("site-settings", "/v2/site/{siteUid}/settings", "", "settings of a site: general, proxy, mail recipients"),
		list("site-alerts-open", "/v2/site/{siteUid}/alerts/open", "alerts", "alertUid", "open alerts of a site", muted),
		list("site-alerts-resolved", "/v2/site/{siteUid}/alerts/resolved", "alerts", "alertUid", "resolved alerts of a site", muted),

		// Devices and their audits.
		get("device", "/v2/device/{deviceUid}", "uid", "one device by uid"),
		get("device-by-id", "/v2/device/id/{deviceId}", "uid", "one device by its number"),
		array("device-by-mac", "/v2/device/macAddress/{macAddress}", "uid", "devices with a MAC address (12 hex digits, no separators)"),
		list("device-alerts-open", "/v2/device/{deviceUid}/alerts/open", "alerts", "alertUid", "open alerts of a device", muted),
		list("device-alerts-resolved", "/v2/device/{deviceUid}/alerts/resolved", "alerts", "alertUid", "resolved alerts of a device", muted),
		get("device-audit", "/v2/audit/device/{deviceUid}", "", "hardware audit of a device of class device"),
		list("device-software", "/v2/audit/device/{deviceUid}/software", "software", "", "software found on a device of class device"),
		array("device-audit-by-mac", "/v2/audit/device/macAddress/{macAddress}", "", "hardware audits of the devices with a MAC address"),
		get("printer-audit", "/v2/audit/printer/{deviceUid}", "", "audit of a device of class printer"),
		get("esxi-audit", "/v2/audit/esxihost/{deviceUid}", "", "audit of a device of class esxihost"),

		// Alerts, jobs, filters, activity.
		get("alert", "/v2/alert/{alertUid}", "alertUid", "one alert"),
		get("job", "/v2/job/{jobUid}", "uid", "one job: name, status, date"),
		list("job-components", "/v2/job/{jobUid}/components", "jobComponents", "", "components of a job, with their variables"),
		get("job-results", "/v2/job/{jobUid}/results/{deviceUid}", "", "result of a job on one device"),
		array("job-stdout", "/v2/job/{jobUid}/results/{deviceUid}/stdout", "", "standard output of a job on one device"),
		array("job-stderr", "/v2/job/{jobUid}/results/{deviceUid}/stderr", "", "standard error of a job on one device"),
		list("default-filters", "/v2/filter/default-filters", "filters", "id", "device filters that come with the product"),
		list("custom-filters", "/v2/filter/custom-filters", "filters", "id", "device filters made by users"),
		{
			Name: "activity-logs", Method: "GET", Path: "/v2/activity-logs", Paging: PagingCursor, Element: "activities", Key: "id",
			Class: ClassRead, Summary: "activity log; without from and until the last 15 minutes", Query: activityQuery,
		},

		// System.
		{
			Name: "system-status", Method: "GET", Path: "/v2/system/status", Class: ClassRead, Public: true,
			Summary: "version and state of the platform",
		},
		get("request-rate", "/v2/system/request_rate", "", "limits of the account and what is used of them"),
		get("pagination", "/v2/system/pagination", "", "largest page size of lists"),
	},
	[]Operation{
		// Site writes.
		write("site-create", "PUT", "/v2/site", ClassVerify, "create a site", append(siteFields,
			Field{Name: "proxySettings", Type: TypeObject, Help: "host, port, type, username, password"})...),
		write("site-update", "POST", "/v2/site/{siteUid}", ClassIdempotent, "update a site; the server blanks fields that are left out", siteFields...),
		write("site-variable-create", "PUT", "/v2/site/{siteUid}/variable", ClassVerify, "create a variable of a site", newVariable...),
		write("site-variable-update", "POST", "/v2/site/{siteUid}/variable/{variableId}", ClassIdempotent, "update a variable of a site", variable...),
		write("site-variable-delete", "DELETE", "/v2/site/{siteUid}/variable/{variableId}", ClassVerify, "delete a variable of a site"),
		write("site-proxy-create", "POST", "/v2/site/{siteUid}/settings/proxy", ClassIdempotent, "set the proxy of a site",
			Field{Name: "host", Type: TypeString},
			Field{Name: "port", Type: TypeInt},
			Field{Name: "type", Type: TypeString, Values: []string{"http", "socks4", "socks5"}},
			Field{Name: "username", Type: TypeString},
			Field{Name: "password", Type: TypeString}),
		write("site-proxy-delete", "DELETE", "/v2/site/{siteUid}/settings/proxy", ClassVerify, "remove the proxy of a site; 204 when there is none"),

		// Device writes.
		write("device-move", "PUT", "/v2/device/{deviceUid}/site/{siteUid}", ClassIdempotent, "move a device to another site"),
		write("device-job-create", "PUT", "/v2/device/{deviceUid}/quickjob", ClassUnsafe, "run a component on a device now (quick job)",
			Field{Name: "jobName", Type: TypeString, Required: true},
			Field{Name: "jobComponent", Type: TypeObject, Required: true, Help: "componentUid, and variables as a list of {name, value}"}),
		write("device-warranty-create", "POST", "/v2/device/{deviceUid}/warranty", ClassIdempotent, "set or clear the warranty date of a device",
			Field{Name: "warrantyDate", Type: TypeNullDate, Help: "yyyy-mm-dd; null clears, an empty string is refused"}),
		write("device-udf-set", "POST", "/v2/device/{deviceUid}/udf", ClassIdempotent, "set user-defined fields of a device; fields left out stay, empty ones are cleared", udfFields()...),

		// Other writes.
		write("alert-resolve", "POST", "/v2/alert/{alertUid}/resolve", ClassVerify, "resolve an alert"),
		write("account-variable-create", "PUT", "/v2/account/variable", ClassVerify, "create a variable of the account", newVariable...),
		write("account-variable-update", "POST", "/v2/account/variable/{variableId}", ClassIdempotent, "update a variable of the account", variable...),
		write("account-variable-delete", "DELETE", "/v2/account/variable/{variableId}", ClassVerify, "delete a variable of the account"),
		noBucket(write("alert-mute", "POST", "/v2/alert/{alertUid}/mute", ClassIdempotent, "mute an alert; answered, but without effect since 8.9.0")),
		noBucket(write("alert-unmute", "POST", "/v2/alert/{alertUid}/unmute", ClassIdempotent, "unmute an alert; answered, but without effect since 8.9.0")),
		write("user-reset-keys", "POST", "/v2/user/resetApiKeys", ClassUnsafe, "replace the API key and secret in use; the old pair dies at once"),
	},
)

// Parameters and bodies that several operations share.
var (
	filterID = Param{Name: "filterId", Type: TypeInt, Help: "number of a device filter; overrides all other filters"}
	muted    = Param{Name: "muted", Type: TypeBool, Help: "only muted or only unmuted alerts; both when left out"}

	deviceFilters = []Param{
		filterID,
		{Name: "hostname", Type: TypeString, Help: "part of the host name"},
		{Name: "deviceType", Type: TypeString, Help: "part of the device type"},
		{Name: "operatingSystem", Type: TypeString, Help: "part of the operating system"},
		{Name: "siteName", Type: TypeString, Help: "part of the site name"},
	}
	activityQuery = []Param{
		{Name: "size", Type: TypeInt, Help: "records per page"},
		{Name: "order", Type: TypeString, Values: []string{"asc", "desc"}, Help: "by creation date"},
		{Name: "searchAfter", Type: TypeStrings, Help: "position; taken from nextPageUrl, not made up"},
		{Name: "page", Type: TypeString, Values: []string{"next", "previous"}, Help: "direction from the position"},
		{Name: "from", Type: TypeString, Help: "start, yyyy-MM-ddTHH:mm:ssZ in UTC"},
		{Name: "until", Type: TypeString, Help: "end, yyyy-MM-ddTHH:mm:ssZ in UTC"},
		{Name: "entities", Type: TypeStrings, Values: []string{"device", "user"}},
		{Name: "categories", Type: TypeStrings, Help: "for example job, remote, device"},
		{Name: "actions", Type: TypeStrings, Help: "for example deployment, create, chat"},
		{Name: "siteIds", Type: TypeStrings, Help: "site numbers, not uids"},
		{Name: "userIds", Type: TypeStrings, Help: "user numbers"},
	}
	siteFields = slices.Clip([]Field{
		{Name: "name", Type: TypeString, Required: true},
		{Name: "description", Type: TypeString},
		{Name: "notes", Type: TypeString},
		{Name: "onDemand", Type: TypeBool},
		{Name: "splashtopAutoInstall", Type: TypeBool},
	})
	variable = slices.Clip([]Field{
		{Name: "name", Type: TypeString},
		{Name: "value", Type: TypeString},
	})
	newVariable = append(variable, Field{Name: "masked", Type: TypeBool, Help: "hide the value; can only be set now"})
)

func get(name, path, key, summary string) Operation {
	return Operation{Name: name, Method: "GET", Path: path, Key: key, Class: ClassRead, Summary: summary}
}

func array(name, path, key, summary string) Operation {
	op := get(name, path, key, summary)
	op.Paging = PagingArray
	return op
}

func list(name, path, element, key, summary string, query ...Param) Operation {
	op := get(name, path, key, summary)
	op.Paging, op.Element, op.Query = PagingPages, element, query
	return op
}

func write(name, method, path string, class Class, summary string, body ...Field) Operation {
	return Operation{Name: name, Method: method, Path: path, Class: class, Summary: summary, Body: body, Throttle: name}
}

func noBucket(op Operation) Operation {
	op.Throttle = ""
	return op
}

func udfFields() []Field {
	fields := make([]Field, MaxUDF)
	for i := range fields {
		fields[i] = Field{Name: fmt.Sprintf("udf%d", i+1), Type: TypeString}
	}
	return fields
}

var byName = func() map[string]int {
	m := make(map[string]int, len(catalogue))
	for i, op := range catalogue {
		m[op.Name] = i
	}
	return m
}()

// Operations returns all operations, reads first, in a fixed order.
func Operations() []Operation { return slices.Clone(catalogue) }

// Lookup finds an operation by its exact name.
func Lookup(name string) (Operation, bool) {
	i, ok := byName[name]
	if !ok {
		return Operation{}, false
	}
	return catalogue[i], true
}

// Suggest returns the operation name nearest to a misspelt one, or "" when
// none is near: more than a third of the letters would have to change.
func Suggest(name string) string {
	names := make([]string, len(catalogue))
	for i, op := range catalogue {
		names[i] = op.Name
	}
	return spell.Nearest(strings.TrimSpace(name), names)
}

// PathParams returns the names of the placeholders in the path, in order.
func (o Operation) PathParams() []string {
	var names []string
	for part := range strings.SplitSeq(o.Path, "/") {
		if name, ok := placeholder(part); ok {
			names = append(names, name)
		}
	}
	return names
}

// placeholder returns the name in a path segment like {siteUid}.
func placeholder(segment string) (string, bool) {
	inner, ok := strings.CutPrefix(segment, "{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "}")
}

// IsWrite tells whether the operation changes anything.
func (o Operation) IsWrite() bool { return o.Class != ClassRead }

// Lane is the name of the quota the operation draws on: "read" for reads; for
// writes the server's bucket, or the operation's own name where it has none.
func (o Operation) Lane() string {
	switch {
	case !o.IsWrite():
		return "read"
	case o.Throttle != "":
		return o.Throttle
	case strings.Contains(o.Name, " "):
		return "call" // free calls share one, whatever their paths
	}
	return o.Name
}
