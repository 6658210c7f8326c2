package rmmsim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// portal is the address of the web interface in portalUrl fields.
const portal = "https://sim.rmm.datto.com"

// date renders milliseconds since 1970 as the account sends dates: a number,
// or ISO text under Config.ISODates; 0 is null.
func (a *Account) date(ms int64) any {
	switch {
	case ms == 0:
		return nil
	case a.cfg.ISODates:
		return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return ms
}

// renderUDF writes all UDF keys of the account in order, null where empty.
func (a *Account) renderUDF(set map[int]string) json.RawMessage {
	b := make([]byte, 0, a.cfg.UDFs*14)
	b = append(b, '{')
	for n := 1; n <= a.cfg.UDFs; n++ {
		if n > 1 {
			b = append(b, ',')
		}
		b = append(b, `"udf`...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, `":`...)
		if v, ok := set[n]; ok {
			b = appendText(b, v)
		} else {
			b = append(b, "null"...)
		}
	}
	return append(b, '}')
}

// renderDevice gives a device as the device lists send it.
func (a *Account) renderDevice(dev *device) json.RawMessage {
	if dev.given != nil {
		return a.renderGiven(dev)
	}
	p, uid, id := a.facts(dev), a.uid(dev), a.id(dev)
	class, avStatus := dev.class, p.avStatus
	if a.cfg.UnknownValues && dev.ordinal%10 == 4 {
		class, avStatus = "flyingtoaster", "Sideways"
	}
	head := []any{
		"id", id, "uid", uid, "siteId", dev.site.id, "siteUid", dev.site.uid, "siteName", dev.site.name,
		"deviceType", object("category", p.category, "type", p.kind), "hostname", p.hostname,
	}
	page := portal + "/device/" + strconv.FormatInt(id, 10) + "/" + strings.ReplaceAll(p.hostname, " ", "%20")
	if a.cfg.Sparse || dev.class == classNetwork || dev.class == classUnknown {
		return a.renderSparse(dev, head, class, page)
	}
	agent, shown := any("4.4.2190.2190"), any("4.4.0.2190")
	antivirus, patches, software := any(nil), any(nil), any(nil)
	is64 := any(p.is64)
	if dev.class == classDevice {
		antivirus = object("antivirusProduct", orNull(p.avProduct), "antivirusStatus", avStatus)
		patches = object("patchStatus", p.patch, "patchesApprovedPending", p.pending, "patchesNotApproved", p.notApproved, "patchesInstalled", p.installed)
		software = "Compliant"
	} else {
		agent, shown, is64 = nil, nil, nil
	}
	fields := append(head,
		"intIpAddress", p.intIP, "operatingSystem", orNull(p.os), "lastLoggedInUser", orNull(p.user), "domain", orNull(p.domain),
		"cagVersion", agent, "displayVersion", shown, "extIpAddress", p.extIP, "description", p.description,
		"a64Bit", is64, "rebootRequired", p.reboot, "online", dev.online, "suspended", p.suspended, "deleted", false,
		"lastSeen", a.date(p.lastSeen), "lastReboot", a.date(p.lastReboot), "lastAuditDate", a.date(p.lastAudit), "creationDate", a.date(p.created))
	if a.cfg.UDFs > 0 {
		fields = append(fields, "udf", a.renderUDF(a.udf(dev)))
	}
	fields = append(fields,
		"snmpEnabled", dev.class != classDevice, "deviceClass", class, "portalUrl", page, "warrantyDate", orNull(a.warranty(dev, p)),
		"antivirus", antivirus, "patchManagement", patches, "softwareStatus", software,
		"webRemoteUrl", fmt.Sprintf("%s/web-remote/%d", portal, id), "networkProbe", dev.ordinal%200 == 1, "onboardedViaNetworkMonitor", dev.class != classDevice)
	return object(fields...)
}

// renderSparse is a row of a network device: mostly null.
func (a *Account) renderSparse(dev *device, head []any, class, page string) json.RawMessage {
	fields := head
	for _, name := range []string{
		"intIpAddress", "operatingSystem", "lastLoggedInUser", "domain", "cagVersion", "displayVersion",
		"extIpAddress", "description", "a64Bit", "rebootRequired",
	} {
		fields = append(fields, name, nil)
	}
	fields = append(fields, "online", dev.online, "suspended", false, "deleted", false,
		"lastSeen", nil, "lastReboot", nil, "lastAuditDate", nil, "creationDate", nil)
	if a.cfg.UDFs > 0 {
		fields = append(fields, "udf", a.renderUDF(a.udf(dev)))
	}
	fields = append(fields, "snmpEnabled", nil, "deviceClass", class, "portalUrl", page, "warrantyDate", orNull(a.warranty(dev, facts{})),
		"antivirus", nil, "patchManagement", nil, "softwareStatus", nil, "webRemoteUrl", nil, "networkProbe", nil, "onboardedViaNetworkMonitor", nil)
	return object(fields...)
}

func (a *Account) warranty(dev *device, p facts) string {
	if dev.edits != nil && dev.edits.hasWarranty {
		return dev.edits.warranty
	}
	return p.warranty
}

// renderGiven is the given JSON, byte for byte until a write has changed it.
func (a *Account) renderGiven(dev *device) json.RawMessage {
	if dev.edits == nil {
		return dev.given.raw
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(dev.given.raw, &fields) // addGiven has read it before
	if len(dev.edits.udf) > 0 {
		var udf map[string]json.RawMessage
		_ = json.Unmarshal(fields["udf"], &udf)
		if udf == nil {
			udf = map[string]json.RawMessage{}
		}
		for n, v := range dev.edits.udf {
			udf["udf"+strconv.Itoa(n)] = appendValue(nil, orNull(v))
		}
		fields["udf"] = appendValue(nil, udf)
	}
	if dev.edits.audit != 0 {
		fields["lastAuditDate"] = appendValue(nil, a.date(dev.edits.audit))
	}
	if dev.edits.hasWarranty {
		fields["warrantyDate"] = appendValue(nil, orNull(dev.edits.warranty))
	}
	if dev.edits.moved {
		fields["siteId"], fields["siteUid"], fields["siteName"] = appendValue(nil, dev.site.id), appendText(nil, dev.site.uid), appendText(nil, dev.site.name)
	}
	return appendValue(nil, fields)
}

// search are the properties that the text filters of device lists look at.
type search struct{ hostname, category, kind, os, siteName string }

func (a *Account) search(dev *device) search {
	if dev.given != nil {
		h := dev.given.head
		s := search{h.hostname, h.category, h.kind, h.os, h.siteName}
		if dev.site != nil {
			s.siteName = dev.site.name
		}
		return s
	}
	p := a.facts(dev)
	return search{p.hostname, p.category, p.kind, p.os, dev.site.name}
}

func like(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// filter is a device filter of the account: default, custom, or of one site.
type filter struct {
	id                      int64
	name, description, kind string
	matches                 func(a *Account, dev *device) bool
}

func hasClass(class string) func(*Account, *device) bool {
	return func(_ *Account, dev *device) bool { return dev.class == class }
}

func hasText(get func(search) string, part string) func(*Account, *device) bool {
	return func(a *Account, dev *device) bool { return like(get(a.search(dev)), part) }
}

func searchOS(s search) string       { return s.os }
func searchCategory(s search) string { return s.category }
func searchHost(s search) string     { return s.hostname }

var defaultFilters = []filter{
	{id: 11, name: "All Devices", matches: func(*Account, *device) bool { return true }},
	{id: 12, name: "All Servers", matches: hasText(searchCategory, "server")},
	{id: 13, name: "All Laptops", matches: hasText(searchCategory, "laptop")},
	{id: 14, name: "All Desktops", matches: hasText(searchCategory, "desktop")},
	{id: 15, name: "All Printers", matches: hasClass(classPrinter)},
	{id: 16, name: "All ESXi Hosts", matches: hasClass(classESXi)},
	{id: 17, name: "All Network Devices", matches: hasClass(classNetwork)},
	{id: 18, name: "Online", matches: func(_ *Account, dev *device) bool { return dev.online }},
	{id: 19, name: "Offline", matches: func(_ *Account, dev *device) bool { return !dev.online }},
	{id: 20, name: "Windows 10", matches: hasText(searchOS, "windows 10")},
	{id: 21, name: "macOS", matches: hasText(searchOS, "macos")},
	{id: 22, name: "Linux", matches: hasText(searchOS, "ubuntu")},
}

var customFilters = []filter{
	{id: 71, name: "Installer names", description: "Hosts nobody renamed", matches: hasText(searchHost, "DESKTOP-")},
	{id: 72, name: "Offline servers", matches: func(a *Account, dev *device) bool { return !dev.online && like(a.search(dev).category, "server") }},
	{id: 73, name: "Shared names", matches: hasText(searchHost, "SCANSTATION")},
	{id: 74, name: "Nothing", description: "Never matches", matches: func(*Account, *device) bool { return false }},
	{id: 77, name: "Every third device", description: "For trials", matches: func(_ *Account, dev *device) bool { return dev.ordinal%3 == 0 }},
}

// siteFilters are the filters of one site; their ids follow from the site's.
func siteFilters(s *site) []filter {
	if s.id%3 == 0 {
		return nil
	}
	return []filter{
		{id: s.id*10 + 1, name: "Laptops of " + s.name, kind: "site", matches: hasText(searchCategory, "laptop")},
		{id: s.id*10 + 2, name: "Servers of " + s.name, kind: "site", matches: hasText(searchCategory, "server")},
	}
}

func (a *Account) filter(id int64) (filter, bool) {
	for _, list := range [][]filter{defaultFilters, customFilters} {
		for _, f := range list {
			if f.id == id {
				return f, true
			}
		}
	}
	for _, s := range a.sites {
		if id/10 == s.id {
			for _, f := range siteFilters(s) {
				if f.id == id {
					return f, true
				}
			}
		}
	}
	return filter{}, false
}

func (a *Account) renderFilter(f filter, kind string) json.RawMessage {
	created := reference.AddDate(0, 0, -int(f.id%400)-30).UnixMilli()
	return object("id", f.id, "name", f.name, "description", orNull(f.description), "type", kind,
		"dateCreate", a.date(created), "lastUpdated", a.date(created+86400000))
}
