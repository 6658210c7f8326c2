package output

import (
	"slices"
	"strconv"
	"strings"
)

// Names of the presets every element has.
const (
	PresetDefault = "default" // what people put into a report, fit for a nightly file
	PresetSummary = "summary" // a few columns to look at
	PresetAll     = "all"     // every known field; lists as JSON text
)

// PresetNames lists the presets, the one that is used without further word first.
func PresetNames() []string { return []string{PresetDefault, PresetSummary, PresetAll} }

// How many custom fields the presets hold. A nightly report needs the same
// columns every night, and the values technicians keep in custom fields are
// the usual reason for it. Thirty is what every account has had from the start
// and what the portal shows first; with all three hundred, most of the file
// would be empty columns. A job that uses higher ones names them (udf31) or
// takes "all".
const (
	defaultUDFs = 30
	allUDFs     = 300
)

// presetColumns holds the presets that are not simply every field. "default"
// and "summary" fall back to "all" where a list is short anyway. udfs stands
// for a range.
var presetColumns = map[string]map[string]string{
	"devices": {
		PresetDefault: `id uid siteId siteUid siteName hostname description deviceClass deviceType.category
			deviceType.type intIpAddress extIpAddress operatingSystem domain lastLoggedInUser online suspended
			deleted rebootRequired lastSeen lastReboot lastAuditDate creationDate warrantyDate
			antivirus.antivirusProduct antivirus.antivirusStatus patchManagement.patchStatus portalUrl udfs`,
		PresetSummary: `siteName hostname deviceClass operatingSystem lastLoggedInUser online lastSeen
			antivirus.antivirusStatus patchManagement.patchStatus`,
	},
	"sites": {
		PresetDefault: `id uid name description onDemand devicesStatus.numberOfDevices
			devicesStatus.numberOfOnlineDevices devicesStatus.numberOfOfflineDevices autotaskCompanyName
			autotaskCompanyId portalUrl`,
		PresetSummary: `uid name devicesStatus.numberOfDevices devicesStatus.numberOfOnlineDevices
			devicesStatus.numberOfOfflineDevices`,
	},
	"alerts": {
		PresetDefault: `alertUid priority timestamp alertSourceInfo.deviceUid alertSourceInfo.deviceName
			alertSourceInfo.siteUid alertSourceInfo.siteName alertContext.@class alertContext diagnostics resolved
			resolvedBy resolvedOn muted ticketNumber alertMonitorInfo.sendsEmails alertMonitorInfo.createsTicket
			autoresolveMins`,
		PresetSummary: `timestamp priority alertSourceInfo.siteName alertSourceInfo.deviceName
			alertContext.@class resolved ticketNumber`,
	},
	"users":      {PresetSummary: `username firstName lastName email lastAccess disabled`},
	"components": {PresetSummary: `uid name categoryCode`},
	"filters":    {PresetSummary: `id name type`},
	"activities": {
		PresetSummary: `date entity category action site.name hostname user.userName`,
	},
	"networkInterfaces": {
		PresetSummary: `siteName hostname intIpAddress extIpAddress nics.macAddress`,
	},
	"jobResults": {PresetSummary: `jobUid deviceUid ranOn jobDeploymentStatus`},
	"deviceAudit": {
		PresetSummary: `systemInfo.manufacturer systemInfo.model bios.serialNumber systemInfo.totalPhysicalMemory
			systemInfo.totalCpuCores`,
	},
}

// detailColumns holds what a detail adds to the preset "default" where it is
// not the detail as one cell of JSON text.
var detailColumns = map[string]string{
	"devices audit": `audit.systemInfo.manufacturer audit.systemInfo.model audit.bios.serialNumber
		audit.bios.smBiosVersion audit.bios.releaseDate audit.systemInfo.totalPhysicalMemory
		audit.systemInfo.totalCpuCores audit.processors.name audit.nics.macAddress audit.logicalDisks`,
	"sites settings": `settings.mailRecipients`,
}

// Preset gives the columns of a preset ("default", "summary" or "all"); ok is
// false for an unknown element or preset. Names and order of the columns are
// part of the program's promise: they do not depend on the data, and later
// versions add new ones at the end.
//
// For devices, "default" has the custom fields udf1 to udf30, "all" has udf1 to
// udf300 and "summary" none. Custom fields hold secrets in practice: a file
// with them wants the care of a password list.
func Preset(elementName, name string) ([]Column, bool) {
	e, ok := loadElements()[elementName]
	if !ok {
		return nil, false
	}
	var paths []string
	switch list, listed := presetColumns[e.base][name]; {
	case listed:
		paths = expandUDFs(slices.Concat(e.parents, strings.Fields(list)), defaultUDFs)
	case name == PresetDefault || name == PresetSummary || name == PresetAll:
		paths = expandUDFs(e.allPaths(), allUDFs)
	default:
		return nil, false
	}
	return e.columns(paths), true
}

// Detail gives the columns that asking for a detail (audit, software, ...) adds
// to the preset "default" of an element; ok is false if the element has no
// such detail.
func Detail(elementName, name string) (columns []Column, ok bool) {
	e, known := loadElements()[elementName]
	if !known || !slices.Contains(Details(elementName), name) {
		return nil, false
	}
	paths := []string{name}
	if list, listed := detailColumns[e.base+" "+name]; listed {
		paths = strings.Fields(list)
	}
	return e.columns(paths), true
}

// detailOf names the detail of an element that a path leads into, or "" if the
// element itself has the value.
func (e *element) detailOf(path string) string {
	for _, d := range details[e.base] {
		if path == d.name || strings.HasPrefix(path, d.name+".") {
			return d.name
		}
	}
	return ""
}

// DetailOf names the detail of an element that a path leads into, or "" if the
// element itself has the value.
func DetailOf(elementName, path string) string {
	if e, ok := loadElements()[elementName]; ok {
		return e.detailOf(path)
	}
	return ""
}

// Exploded gives the columns of an export whose rows are the elements of the
// list at path: in place of the list as a whole there is a column for each field
// that its elements are known to have.
func Exploded(elementName string, columns []Column, path string) []Column {
	e, ok := loadElements()[elementName]
	if !ok {
		return columns
	}
	var inside []string
	for _, f := range e.fields {
		if rest, ok := strings.CutPrefix(f.Path, path+"."); ok && !strings.Contains(rest, ".") {
			inside = append(inside, f.Path)
		}
	}
	i := slices.IndexFunc(columns, func(c Column) bool { return c.Path == path })
	if i < 0 || len(inside) == 0 {
		return columns
	}
	return slices.Concat(columns[:i], e.columns(inside), columns[i+1:])
}

// allPaths lists the fields of the preset "all": without those inside lists,
// without details, without a parent that the element tells itself, and without
// an object whose parts are there anyway.
func (e *element) allPaths() []string {
	var paths []string
	for _, f := range e.fields {
		switch _, split := e.inner[f.Path]; {
		case f.InList, e.detailOf(f.Path) != "", e.tells(f.Path), split && f.Kind == KindObject && !f.Open:
		case f.Path == "udf":
			paths = append(paths, "udfs")
		default:
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// tells reports whether a field is of the parent and the element has the same
// under a name of its own.
func (e *element) tells(path string) bool {
	n, ok := nested[e.name]
	return ok && n.tells && slices.Contains(parentFields[n.parent], path)
}

// expandUDFs puts udf1 to udfN in the place of the word udfs.
func expandUDFs(paths []string, n int) []string {
	i := slices.Index(paths, "udfs")
	if i < 0 {
		return paths
	}
	names := make([]string, n)
	for k := range names {
		names[k] = "udf" + strconv.Itoa(k+1)
	}
	return slices.Concat(paths[:i], names, paths[i+1:])
}

// columns resolves paths of the tables above, which are known to be good.
func (e *element) columns(paths []string) []Column {
	columns := make([]Column, len(paths))
	for i, path := range paths {
		columns[i], _ = e.resolve(ColumnSpec{Path: path}, []string{e.detailOf(path)})
	}
	return columns
}
