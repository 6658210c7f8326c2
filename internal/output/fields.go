package output

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"rmmjob/internal/spell"
)

// Field is one field the API is known to send.
type Field struct {
	Path string   // dotted, as in Record.Lookup
	Kind Kind     // what the field holds; dates whatever notation the API uses for them
	Enum []string // the known values where the API lists them; others are possible
	// InList marks a field of the elements of a list. It has one value per
	// element, so it is no part of the preset "all".
	InList bool
	// Open marks an object whose keys depend on the case: any path below it is
	// accepted.
	Open bool
}

// element is what the package knows of one kind of list element.
type element struct {
	name    string
	base    string   // the element whose presets and details it has; its own name but for nested ones
	parents []string // fields of what a nested element belongs to, where it does not tell them itself
	sort    []string // default row order
	fields  []Field
	index   map[string]int      // path → position in fields
	inner   map[string]struct{} // paths of objects that only appear as parts of field paths
}

// The tables follow the API's published schema; kinds of dates and the fields
// beyond it come from live answers. One field a line: path, kind (text if
// none) and the known values. A line that begins with two blanks belongs to the
// list above it, "open" marks an object with free keys.
//
// A new field of a later API version is added at the end of its table, because
// the order here is the order of the preset "all".
var fieldTables = map[string]string{
	"account": `
id int
uid
name
currency
descriptor.bilingEmail
descriptor.deviceLimit int
descriptor.timeZone
devicesStatus.numberOfDevices int
devicesStatus.numberOfOnlineDevices int
devicesStatus.numberOfOfflineDevices int
devicesStatus.numberOfOnDemandDevices int
devicesStatus.numberOfManagedDevices int`,

	"devices": `
id int
uid
siteId int
siteUid
siteName
hostname
description
deviceClass text device printer esxihost rmmnetworkdevice unknown
deviceType.category
deviceType.type
intIpAddress
extIpAddress
operatingSystem
domain
lastLoggedInUser
online bool
suspended bool
deleted bool
rebootRequired bool
lastSeen date
lastReboot date
lastAuditDate date
creationDate date
warrantyDate
a64Bit bool
cagVersion
displayVersion
antivirus.antivirusProduct
antivirus.antivirusStatus text RunningAndUpToDate RunningAndNotUpToDate NotRunning NotDetected
patchManagement.patchStatus text NoPolicy NoData RebootRequired InstallError ApprovedPending FullyPatched
patchManagement.patchesApprovedPending int
patchManagement.patchesNotApproved int
patchManagement.patchesInstalled int
softwareStatus
snmpEnabled bool
networkProbe bool
onboardedViaNetworkMonitor bool
portalUrl
webRemoteUrl
udf object`,

	"sites": `
id int
uid
accountUid
name
description
notes
onDemand bool
splashtopAutoInstall bool
proxySettings object
proxySettings.host
proxySettings.password
proxySettings.port int
proxySettings.type
proxySettings.username
devicesStatus.numberOfDevices int
devicesStatus.numberOfOnlineDevices int
devicesStatus.numberOfOfflineDevices int
autotaskCompanyName
autotaskCompanyId
portalUrl`,

	"siteSettings": `
generalSettings.name
generalSettings.uid
generalSettings.description
generalSettings.onDemand bool
proxySettings object
proxySettings.host
proxySettings.password
proxySettings.port int
proxySettings.type
proxySettings.username
mailRecipients list
  mailRecipients.name
  mailRecipients.email
  mailRecipients.type
  mailRecipients.receives int
  mailRecipients.receivesAlerts bool
  mailRecipients.receivesReports bool
  mailRecipients.receivesNewDevices bool`,

	"users": `
username
firstName
lastName
email
telephone
status
created date
lastAccess date
disabled bool`,

	"variables": `
id int
name
value
masked bool`,

	"components": `
id int
uid
name
description
categoryCode
credentialsRequired bool
variables list
  variables.name
  variables.defaultVal
  variables.type
  variables.direction bool
  variables.description
  variables.variablesIdx int`,

	"dnetSiteMappings": `
id int
uid
accountUid
name
description
dattoNetworkingNetworkIds list
portalUrl`,

	"alerts": `
alertUid
priority text Critical High Moderate Low Information Unknown
timestamp date
alertSourceInfo.deviceUid
alertSourceInfo.deviceName
alertSourceInfo.siteUid
alertSourceInfo.siteName
alertContext.@class
alertContext open
diagnostics
resolved bool
resolvedBy
resolvedOn date
muted bool
ticketNumber
alertMonitorInfo.sendsEmails bool
alertMonitorInfo.createsTicket bool
autoresolveMins int
responseActions list
  responseActions.actionTime date
  responseActions.actionType
  responseActions.description
  responseActions.actionReference
  responseActions.actionReferenceInt`,

	"filters": `
id int
name
description
type text rmm_default custom site
dateCreate date
lastUpdated date`,

	"networkInterfaces": `
id int
uid
siteId int
siteUid
siteName
hostname
deviceType.category
deviceType.type
intIpAddress
extIpAddress
nics list
  nics.instance
  nics.ipv4
  nics.ipv6
  nics.macAddress
  nics.type`,

	"software": `
name
version`,

	"activities": `
id
date date
entity text DEVICE USER
category
action
site.id int
site.name
deviceId int
hostname
user.id int
user.userName
user.firstName
user.lastName
hasStdOut bool
hasStdErr bool
details open`,

	"jobs": `
id int
uid
name
dateCreated date
status text active completed`,

	"jobComponents": `
uid
name
variables list
  variables.name
  variables.value`,

	"jobResults": `
jobUid
deviceUid
ranOn date
jobDeploymentStatus text Expired Pending Running Success Warning Retired Failure
componentResults list
  componentResults.componentUid
  componentResults.componentName
  componentResults.componentStatus
  componentResults.numberOfWarnings int
  componentResults.hasStdOut bool
  componentResults.hasStdErr bool`,

	"jobStdData": `
componentUid
componentName
stdData`,

	"deviceAudit": `
portalUrl
webRemoteUrl
systemInfo.manufacturer
systemInfo.model
systemInfo.totalPhysicalMemory int
systemInfo.username
systemInfo.dotNetVersion
systemInfo.totalCpuCores int
bios.instance
bios.releaseDate date
bios.serialNumber
bios.smBiosVersion
baseBoard.manufacturer
baseBoard.product
snmpInfo.snmpName
snmpInfo.snmpContact
snmpInfo.snmpDescription
snmpInfo.snmpLocation
snmpInfo.snmpUptime
snmpInfo.nicManufacturer
snmpInfo.objectId
snmpInfo.snmpSerial
nics list
  nics.instance
  nics.ipv4
  nics.ipv6
  nics.macAddress
  nics.type
displays list
  displays.instance
  displays.screenHeight int
  displays.screenWidth int
logicalDisks list
  logicalDisks.description
  logicalDisks.diskIdentifier
  logicalDisks.freespace int
  logicalDisks.size int
mobileInfo list
  mobileInfo.iccid
  mobileInfo.imei
  mobileInfo.number
  mobileInfo.operator
processors list
  processors.name
videoBoards list
  videoBoards.displayAdapter
attachedDevices list
  attachedDevices.deviceName
  attachedDevices.deviceType
  attachedDevices.driverFile
  attachedDevices.driverFileLastModified date
  attachedDevices.driverManufacturer
  attachedDevices.driverName
  attachedDevices.driverVersion
  attachedDevices.portName
physicalMemory list
  physicalMemory.module
  physicalMemory.size int
  physicalMemory.type
  physicalMemory.speed
  physicalMemory.serialNumber
  physicalMemory.partNumber
  physicalMemory.bank`,

	"printerAudit": `
portalUrl
systemInfo.manufacturer
systemInfo.model
printer.printedPageCount int
snmpInfo.snmpName
snmpInfo.snmpContact
snmpInfo.snmpDescription
snmpInfo.snmpLocation
snmpInfo.snmpUptime
snmpInfo.nicManufacturer
snmpInfo.objectId
snmpInfo.snmpSerial
printerMarkerSupplies list
  printerMarkerSupplies.description
  printerMarkerSupplies.maxCapacity
  printerMarkerSupplies.suppliesLevel
nics list
  nics.instance
  nics.ipv4
  nics.ipv6
  nics.macAddress
  nics.type`,

	"esxiAudit": `
portalUrl
systemInfo.manufacturer
systemInfo.model
systemInfo.name
systemInfo.numberOfSnapshots int
systemInfo.serviceTag
guests list
  guests.guestName
  guests.processorSpeedTotal int
  guests.memorySizeTotal int
  guests.numberOfSnapshots int
  guests.datastores
processors list
  processors.frequency number
  processors.name
  processors.numberOfCores int
nics list
  nics.name
  nics.ipv4
  nics.ipv6
  nics.macAddress
  nics.speed
  nics.type
physicalMemory list
  physicalMemory.module
  physicalMemory.size int
  physicalMemory.type
  physicalMemory.speed
  physicalMemory.serialNumber
  physicalMemory.partNumber
  physicalMemory.bank
datastores list
  datastores.datastoreName
  datastores.subscriptionPercent int
  datastores.freeSpace int
  datastores.size int
  datastores.fileSystem
  datastores.status
  datastores.dataExtents list
  datastores.dataExtents.name
  datastores.dataExtents.size int
  datastores.dataExtents.mediaType
  datastores.dataExtents.status`,

	"systemStatus": `
version
status
started date`,

	"requestRate": `
slidingTimeWindowSizeSeconds int
accountUid
accountCount int
accountRateLimit int
accountCutOffRatio number
accountWriteRateLimit int
accountWriteCount int
operationWriteStatus open`,

	"pagination": `
max int`,
}

// sortKeys gives the row order of the elements that have one beyond their
// first field.
var sortKeys = map[string][]string{
	"devices":           {"siteName", "hostname", "uid"},
	"networkInterfaces": {"siteName", "hostname", "uid"},
	"sites":             {"uid"},
	"siteSettings":      {"generalSettings.uid"},
	"components":        {"uid"},
	"dnetSiteMappings":  {"uid", "id"},
	"software":          {"name", "version"},
	"jobs":              {"uid"},
	"jobResults":        {"jobUid", "deviceUid"},
}

// details lists, per element, the answers of further requests that a job can
// ask for beside it, and what they are made of. They live in the record under
// their own name.
var details = map[string][]detail{
	"devices": {
		{"audit", []string{"deviceAudit", "printerAudit", "esxiAudit"}, false},
		{"software", []string{"software"}, true},
		{"alerts-open", []string{"alerts"}, true},
		{"alerts-resolved", []string{"alerts"}, true},
	},
	"sites": {
		{"settings", []string{"siteSettings"}, false},
		{"variables", []string{"variables"}, true},
		{"filters", []string{"filters"}, true},
		{"devices", []string{"devices"}, true},
		{"network-interfaces", []string{"networkInterfaces"}, true},
		{"alerts-open", []string{"alerts"}, true},
		{"alerts-resolved", []string{"alerts"}, true},
	},
	"jobs": {
		{"components", []string{"jobComponents"}, true},
	},
}

// Details lists the names of the details that a job can ask for beside an
// element, in a fixed order; nil if it has none.
func Details(elementName string) []string {
	e, ok := loadElements()[elementName]
	if !ok {
		return nil
	}
	var names []string
	for _, d := range details[e.base] {
		names = append(names, d.name)
	}
	return names
}

type detail struct {
	name string
	of   []string // elements; several if the answer depends on the class of the device
	list bool
}

// parentFields are what a nested element is told of what it belongs to.
var parentFields = map[string][]string{
	"site":       {"siteUid", "siteName"},
	"device":     {"siteUid", "siteName", "deviceUid", "hostname"},
	"job":        {"jobUid"},
	"job result": {"jobUid", "deviceUid"},
	"mac":        {"macAddress"},
}

// nested are the operations that answer with what belongs to something else. Their elements are elements of their own,
// under the operation's name: those of the base with the fields of the parent before them.
var nested = map[string]struct {
	base, parent string
	tells        bool // the element says itself whose it is, so the presets do without the parent
}{
	"site-variables": {"variables", "site", false}, "site-filters": {"filters", "site", false},
	"site-settings":    {"siteSettings", "site", false},
	"site-alerts-open": {"alerts", "site", true}, "site-alerts-resolved": {"alerts", "site", true},
	"device-alerts-open": {"alerts", "device", true}, "device-alerts-resolved": {"alerts", "device", true},
	"device-audit": {"deviceAudit", "device", false}, "printer-audit": {"printerAudit", "device", false},
	"esxi-audit": {"esxiAudit", "device", false}, "device-software": {"software", "device", false},
	"device-by-mac": {"devices", "mac", false}, "device-audit-by-mac": {"deviceAudit", "mac", false},
	"job-components": {"jobComponents", "job", false},
	"job-stdout":     {"jobStdData", "job result", false}, "job-stderr": {"jobStdData", "job result", false},
}

// parentOrder is the order of nested rows: by the names of what they belong to, as people look for them.
var parentOrder = []string{"jobUid", "siteName", "siteUid", "hostname", "deviceUid", "macAddress"}

var loadElements = sync.OnceValue(func() map[string]*element {
	elements := make(map[string]*element, len(fieldTables))
	for name, table := range fieldTables {
		elements[name] = &element{name: name, base: name, fields: parseFields(table), sort: sortKeys[name]}
		if e := elements[name]; e.sort == nil {
			e.sort = []string{e.fields[0].Path}
		}
	}
	// Details are added only when every table is read; their own details are
	// not part of them.
	extra := make(map[string][]Field)
	for name, list := range details {
		for _, d := range list {
			extra[name] = append(extra[name], d.expand(elements)...)
		}
	}
	for name, n := range nested {
		elements[name] = elements[n.base].under(name, parentFields[n.parent], n.tells)
	}
	for _, e := range elements {
		e.fields = append(e.fields, extra[e.base]...)
		e.index = make(map[string]int, len(e.fields))
		e.inner = make(map[string]struct{})
		for i, f := range e.fields {
			e.index[f.Path] = i
			for j, r := range f.Path {
				if r == '.' {
					e.inner[f.Path[:j]] = struct{}{}
				}
			}
		}
	}
	return elements
})

// under is the element of an operation whose answers belong to a parent.
func (e *element) under(name string, parents []string, tells bool) *element {
	n := &element{name: name, base: e.name}
	for _, path := range parents {
		n.fields = append(n.fields, Field{Path: path, Kind: KindText})
	}
	if !tells {
		n.parents = parents
	}
	n.fields = append(n.fields, e.fields...)
	for _, path := range slices.Concat(parentOrder, e.sort) {
		if slices.Contains(parents, path) || slices.Contains(e.sort, path) && !slices.Contains(n.sort, path) {
			n.sort = append(n.sort, path)
		}
	}
	return n
}

// parseFields reads a table above. The tables are part of the program, so a
// bad line is a bug.
func parseFields(table string) []Field {
	var fields []Field
	for line := range strings.Lines(strings.TrimPrefix(table, "\n")) {
		words := strings.Fields(line)
		f := Field{Path: words[0], Kind: KindText, InList: strings.HasPrefix(line, "  ")}
		if len(words) > 1 {
			kind, known := kindOf(words[1])
			switch {
			case words[1] == "open":
				f.Kind, f.Open = KindObject, true
			case known:
				f.Kind = kind
			default:
				panic(fmt.Sprintf("output: field %s has the unknown kind %s", words[0], words[1]))
			}
			f.Enum = words[2:]
		}
		fields = append(fields, f)
	}
	return fields
}

// expand gives the fields of a detail under its name; of a field that several
// classes share, the first description counts.
func (d detail) expand(elements map[string]*element) []Field {
	kind := KindObject
	if d.list {
		kind = KindList
	}
	fields := []Field{{Path: d.name, Kind: kind}}
	seen := map[string]bool{}
	for _, name := range d.of {
		for _, f := range elements[name].fields {
			if seen[f.Path] {
				continue
			}
			seen[f.Path] = true
			f.Path = d.name + "." + f.Path
			f.InList = f.InList || d.list
			fields = append(fields, f)
		}
	}
	return fields
}

// Elements lists the names of the elements the package knows, sorted: the
// names of the arrays in the API's answers (devices, sites, alerts, ...), and
// names of their own for single answers, for the short device with network
// interfaces (networkInterfaces), whose array is called devices too, and for
// what belongs to something else (site-variables).
func Elements() []string { return slices.Sorted(maps.Keys(loadElements())) }

// ElementOf gives the element that a read operation of the API answers with,
// for every operation name of the catalogue (site-devices → devices). Answers
// that do not tell which site, device or job they belong to are elements of
// their own, which have fields for that (site-variables).
func ElementOf(operation string) (name string, ok bool) {
	if _, ok := nested[operation]; ok {
		return operation, true
	}
	name, ok = operationElements[operation]
	return name, ok
}

var operationElements = map[string]string{
	"account": "account", "devices": "devices", "site-devices": "devices", "device": "devices",
	"device-by-id": "devices", "sites": "sites", "site": "sites", "users": "users", "variables": "variables",
	"components": "components", "dnet-site-mappings": "dnetSiteMappings", "alerts-open": "alerts",
	"alerts-resolved": "alerts", "alert": "alerts", "default-filters": "filters", "custom-filters": "filters",
	"site-network-interfaces": "networkInterfaces", "activity-logs": "activities", "job": "jobs",
	"job-results": "jobResults", "system-status": "systemStatus", "request-rate": "requestRate",
	"pagination": "pagination",
}

// Fields lists the known fields of an element in a fixed order, its details
// last; nil for an unknown element. Custom fields are in it as the object udf:
// any udf.udfN is a field of it.
func Fields(elementName string) []Field {
	e, ok := loadElements()[elementName]
	if !ok {
		return nil
	}
	return slices.Clone(e.fields)
}

// DefaultSort gives the paths by which the rows of an element are ordered when
// the job does not say: site name, host name and uid for devices, else the key
// of the element. It is nil for an unknown element.
func DefaultSort(elementName string) []string {
	if e, ok := loadElements()[elementName]; ok {
		return slices.Clone(e.sort)
	}
	return nil
}

// FieldAt gives the known field of an element that a path leads to, with the path
// in full (udf7 is short for udf.udf7). with names the details that the job asks
// for. The error is a *ColumnError for a field that is not known, or is inside
// another detail.
func FieldAt(elementName, path string, with ...string) (Field, error) {
	e, ok := loadElements()[elementName]
	if !ok {
		return Field{}, fmt.Errorf("no columns are known for %q", elementName)
	}
	c, fault := e.resolve(ColumnSpec{Header: path, Path: path}, with)
	if fault != nil {
		return Field{}, fault
	}
	f, _ := e.find(c.Path)
	f.Path = c.Path
	return f, nil
}

// find gives the field at path. Numbers that pick an element of a list are
// left out of the comparison; below an open object every path is text.
func (e *element) find(path string) (Field, bool) {
	if i, ok := e.index[path]; ok {
		return e.fields[i], true
	}
	if _, ok := e.inner[path]; ok {
		return Field{Path: path, Kind: KindObject}, true
	}
	if name, ok := strings.CutPrefix(path, "udf."); ok && e.has("udf") && isUDF(name) {
		return Field{Path: path, Kind: KindText}, true
	}
	steps := strings.Split(path, ".")
	named := slices.DeleteFunc(slices.Clone(steps), func(s string) bool {
		_, err := strconv.ParseUint(s, 10, 31)
		return err == nil
	})
	if len(named) > 0 && len(named) < len(steps) {
		if f, ok := e.find(strings.Join(named, ".")); ok && (f.InList || f.Kind == KindList) {
			if f.Kind == KindList {
				f.Kind = KindText // one element, whatever it is
			}
			return f, true
		}
	}
	for i := range steps[1:] {
		parent := strings.Join(steps[:i+1], ".")
		if at, ok := e.index[parent]; ok && e.fields[at].Open {
			return Field{Path: path, Kind: KindText}, true
		}
	}
	return Field{}, false
}

func (e *element) has(path string) bool {
	_, ok := e.index[path]
	return ok
}

// isUDF reports whether name is a custom field's: udf1, udf2 and so on without
// an upper bound, because the platform has raised it before.
func isUDF(name string) bool {
	digits, ok := strings.CutPrefix(name, "udf")
	if !ok || digits == "" || digits[0] == '0' || len(digits) > 6 {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// suggest gives the known column nearest to a misspelt one, or "". Only details
// that are asked for are suggested.
func (e *element) suggest(name string, with []string) string {
	want := strings.ToLower(name)
	if udf := strings.NewReplacer("_", "", "-", "", " ", "", "udf.", "").Replace(want); strings.HasPrefix(udf, "udf") && e.has("udf") {
		if n := "udf" + strings.TrimLeft(udf[len("udf"):], "0"); isUDF(n) {
			return n
		}
	}
	best, bestCost := "", 1+len(want)/3
	for _, f := range e.fields {
		if d := e.detailOf(f.Path); d != "" && !slices.Contains(with, d) {
			continue
		}
		path := strings.ToLower(f.Path)
		last := path[strings.LastIndexByte(path, '.')+1:]
		// A bare last part (antivirusProduct) is a likelier mistake than a typo.
		cost := min(spell.Distance(want, path), spell.Distance(want, last))
		if cost < bestCost {
			best, bestCost = f.Path, cost
		}
	}
	return best
}
