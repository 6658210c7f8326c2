package rmmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// handlers answers every operation of the catalogue, by name.
var handlers map[string]func(*Account, *call) reply

func init() { // not in the declaration: the writes refer back to it through the account
	handlers = map[string]func(*Account, *call) reply{
		"account":   (*Account).account,
		"devices":   (*Account).listDevices,
		"sites":     (*Account).listSites,
		"users":     func(a *Account, c *call) reply { return a.page(c, "users", users, a.renderUser) },
		"variables": func(a *Account, c *call) reply { return pageOf(a, c, "variables", a.variables, renderVariable) },
		"components": func(a *Account, c *call) reply {
			return a.page(c, "components", len(componentNames), a.renderComponent)
		},
		"dnet-site-mappings": (*Account).listMappings,
		"alerts-open":        func(a *Account, c *call) reply { return a.alertList(c, "account", a.devices, false) },
		"alerts-resolved":    func(a *Account, c *call) reply { return a.alertList(c, "account", a.devices, true) },
		"site":               withSite(func(a *Account, _ *call, s *site) reply { return answer(a.renderSite(s)) }),
		"site-devices":       withSite((*Account).listSiteDevices),
		"site-network-interfaces": withSite(func(a *Account, c *call, s *site) reply {
			return pageOf(a, c, "devices", a.inSite(s), a.renderInterfaces)
		}),
		"site-variables":       withSite((*Account).listSiteVariables),
		"site-filters":         withSite((*Account).listSiteFilters),
		"site-settings":        withSite(func(_ *Account, _ *call, s *site) reply { return answer(renderSettings(s)) }),
		"site-alerts-open":     withSite(func(a *Account, c *call, s *site) reply { return a.alertList(c, "site "+s.uid, a.inSite(s), false) }),
		"site-alerts-resolved": withSite(func(a *Account, c *call, s *site) reply { return a.alertList(c, "site "+s.uid, a.inSite(s), true) }),
		"device":               withDevice(func(a *Account, _ *call, dev *device) reply { return answer(a.renderDevice(dev)) }),
		"device-by-id":         (*Account).getDeviceByID,
		"device-by-mac":        func(a *Account, c *call) reply { return a.listByMAC(c, a.renderDevice) },
		"device-alerts-open": withDevice(func(a *Account, c *call, dev *device) reply {
			return a.alertList(c, "device "+a.uid(dev), []*device{dev}, false)
		}),
		"device-alerts-resolved": withDevice(func(a *Account, c *call, dev *device) reply {
			return a.alertList(c, "device "+a.uid(dev), []*device{dev}, true)
		}),
		"device-audit":        (*Account).getAudit,
		"device-software":     (*Account).listSoftware,
		"device-audit-by-mac": (*Account).listAuditsByMAC,
		"printer-audit":       (*Account).getPrinterAudit,
		"esxi-audit":          (*Account).getESXiAudit,
		"alert":               withAlert(func(a *Account, _ *call, ref alertRef) reply { return answer(a.renderAlert(ref)) }),
		"job":                 withJob(func(a *Account, c *call, j *job) reply { return answer(a.renderJob(c, j)) }),
		"job-components": withJob(func(a *Account, c *call, j *job) reply {
			return pageOf(a, c, "jobComponents", []*job{j}, renderJobComponent)
		}),
		"job-results":     (*Account).jobResults,
		"job-stdout":      func(a *Account, c *call) reply { return a.jobOutput(c, false) },
		"job-stderr":      func(a *Account, c *call) reply { return a.jobOutput(c, true) },
		"default-filters": func(a *Account, c *call) reply { return a.listFilters(c, defaultFilters, "rmm_default") },
		"custom-filters":  func(a *Account, c *call) reply { return a.listFilters(c, customFilters, "custom") },
		"activity-logs":   (*Account).activityLogs,
		"system-status":   (*Account).systemStatus,
		"request-rate":    (*Account).requestRate,
		"pagination":      func(a *Account, _ *call) reply { return answer(object("max", a.cfg.PageMax)) },

		"site-create":             (*Account).createSite,
		"site-update":             withSite((*Account).updateSite),
		"site-variable-create":    withSite(func(a *Account, c *call, s *site) reply { return a.createVariable(c, &s.variables) }),
		"site-variable-update":    withSite(func(a *Account, c *call, s *site) reply { return a.updateVariable(c, s.variables) }),
		"site-variable-delete":    withSite(func(a *Account, c *call, s *site) reply { return a.deleteVariable(c, &s.variables) }),
		"site-proxy-create":       withSite((*Account).setProxy),
		"site-proxy-delete":       withSite((*Account).deleteProxy),
		"device-move":             withDevice((*Account).moveDevice),
		"device-job-create":       withDevice((*Account).createJob),
		"device-warranty-create":  withDevice((*Account).setWarranty),
		"device-udf-set":          withDevice((*Account).setUDF),
		"alert-resolve":           withAlert((*Account).resolveAlert),
		"alert-mute":              func(*Account, *call) reply { return done() }, // without effect since release 8.9.0
		"alert-unmute":            func(*Account, *call) reply { return done() },
		"account-variable-create": func(a *Account, c *call) reply { return a.createVariable(c, &a.variables) },
		"account-variable-update": func(a *Account, c *call) reply { return a.updateVariable(c, a.variables) },
		"account-variable-delete": func(a *Account, c *call) reply { return a.deleteVariable(c, &a.variables) },
		"user-reset-keys":         (*Account).resetKeys,
	}
}

func withSite(f func(*Account, *call, *site) reply) func(*Account, *call) reply {
	return func(a *Account, c *call) reply {
		if s := a.site(c.params["siteUid"]); s != nil {
			return f(a, c, s)
		}
		return c.fail(http.StatusNotFound)
	}
}

func withDevice(f func(*Account, *call, *device) reply) func(*Account, *call) reply {
	return func(a *Account, c *call) reply {
		if dev := a.device(c.params["deviceUid"]); dev != nil {
			return f(a, c, dev)
		}
		return c.fail(http.StatusNotFound)
	}
}

func withAlert(f func(*Account, *call, alertRef) reply) func(*Account, *call) reply {
	return func(a *Account, c *call) reply {
		if ref, ok := a.alert(c.params["alertUid"]); ok {
			return f(a, c, ref)
		}
		return c.fail(http.StatusNotFound)
	}
}

func withJob(f func(*Account, *call, *job) reply) func(*Account, *call) reply {
	return func(a *Account, c *call) reply {
		if j := a.job(c, c.params["jobUid"]); j != nil {
			return f(a, c, j)
		}
		return c.fail(http.StatusNotFound)
	}
}

// cached keeps an answer's ground until the next write or change of the
// fleet. Walking a filtered list of a large fleet would else search it anew
// for every page.
func cached[T any](a *Account, key string, build func() T) T {
	if v, ok := a.cache[key]; ok {
		return v.(T)
	}
	v := build()
	a.cache[key] = v
	return v
}

// where gives the devices for which keep is true, cached under key.
func (a *Account) where(key string, keep func(*device) bool) []*device {
	return cached(a, "devices "+key, func() (list []*device) {
		for _, dev := range a.devices {
			if keep(dev) {
				list = append(list, dev)
			}
		}
		return list
	})
}

func (a *Account) inSite(s *site) []*device {
	bySite := cached(a, "by site", func() map[*site][]*device {
		m := map[*site][]*device{}
		for _, dev := range a.devices {
			m[dev.site] = append(m[dev.site], dev)
		}
		return m
	})
	return bySite[s]
}

// filterParam reads filterId; ok is false when the request was answered.
func (a *Account) filterParam(c *call) (f filter, given bool, refused *reply) {
	s := c.query.Get("filterId")
	if s == "" {
		return filter{}, false, nil
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r := c.fail(http.StatusBadRequest)
		return filter{}, false, &r
	}
	f, ok := a.filter(id)
	if !ok {
		r := c.fail(http.StatusNotFound)
		return filter{}, false, &r
	}
	return f, true, nil
}

func (a *Account) listDevices(c *call) reply {
	f, given, refused := a.filterParam(c)
	if refused != nil {
		return *refused
	}
	if given { // it alone decides, whatever else is asked for
		return pageOf(a, c, "devices", a.where(fmt.Sprintf("filter %d", f.id), func(dev *device) bool { return f.matches(a, dev) }), a.renderDevice)
	}
	q := c.query
	host, kind, system, siteName := q.Get("hostname"), q.Get("deviceType"), q.Get("operatingSystem"), q.Get("siteName")
	if host+kind+system+siteName == "" {
		return pageOf(a, c, "devices", a.devices, a.renderDevice)
	}
	list := a.where(fmt.Sprintf("text %q %q %q %q", host, kind, system, siteName), func(dev *device) bool {
		s := a.search(dev)
		return like(s.hostname, host) && (like(s.category, kind) || like(s.kind, kind)) && like(s.os, system) && like(s.siteName, siteName)
	})
	return pageOf(a, c, "devices", list, a.renderDevice)
}

func (a *Account) listSiteDevices(c *call, s *site) reply {
	f, given, refused := a.filterParam(c)
	if refused != nil {
		return *refused
	}
	if !given {
		return pageOf(a, c, "devices", a.inSite(s), a.renderDevice)
	}
	list := a.where(fmt.Sprintf("site %s filter %d", s.uid, f.id), func(dev *device) bool { return dev.site == s && f.matches(a, dev) })
	return pageOf(a, c, "devices", list, a.renderDevice)
}

func (a *Account) getDeviceByID(c *call) reply {
	id, err := strconv.ParseInt(c.params["deviceId"], 10, 64)
	if err != nil {
		return c.fail(http.StatusBadRequest)
	}
	if dev := a.deviceByID(id); dev != nil {
		return answer(a.renderDevice(dev))
	}
	return c.fail(http.StatusNotFound)
}

func (a *Account) listByMAC(c *call, render func(*device) json.RawMessage) reply {
	found := a.byMAC(c.params["macAddress"])
	if len(found) == 0 {
		return c.fail(http.StatusNotFound)
	}
	list := make([]json.RawMessage, 0, len(found))
	for _, dev := range found {
		list = append(list, render(dev))
	}
	return answer(appendValue(nil, list))
}

func (a *Account) listAuditsByMAC(c *call) reply {
	for _, dev := range a.byMAC(c.params["macAddress"]) {
		if dev.class != classDevice {
			return c.fail(http.StatusBadRequest)
		}
	}
	return a.listByMAC(c, a.renderAudit)
}

func (a *Account) getAudit(c *call) reply {
	dev, _, refused := a.audited(c, classDevice)
	if refused != nil {
		return *refused
	}
	return answer(a.renderAudit(dev))
}

func (a *Account) getPrinterAudit(c *call) reply {
	dev, p, refused := a.audited(c, classPrinter)
	if refused != nil {
		return *refused
	}
	return answer(a.renderPrinter(dev, p))
}

func (a *Account) getESXiAudit(c *call) reply {
	dev, p, refused := a.audited(c, classESXi)
	if refused != nil {
		return *refused
	}
	return answer(a.renderESXi(dev, p))
}

func (a *Account) listSoftware(c *call) reply {
	dev, _, refused := a.audited(c, classDevice)
	if refused != nil {
		return *refused
	}
	return a.page(c, "software", a.softwareCount(dev), func(i int) json.RawMessage { return a.renderSoftware(dev, i) })
}

func (a *Account) listSites(c *call) reply {
	part := c.query.Get("siteName")
	var list []*site
	for _, s := range a.sites {
		if like(s.name, part) {
			list = append(list, s)
		}
	}
	return pageOf(a, c, "sites", list, a.renderSite)
}

func online(devices []*device) (n int64) {
	for _, dev := range devices {
		if dev.online {
			n++
		}
	}
	return n
}

func (a *Account) renderSite(s *site) json.RawMessage {
	devices := a.inSite(s)
	total, on := int64(len(devices)), online(devices)
	return object("id", s.id, "uid", s.uid, "accountUid", a.accountUID, "name", s.name, "description", s.description, "notes", orNull(s.notes),
		"onDemand", s.onDemand, "splashtopAutoInstall", s.splashtop, "proxySettings", s.proxy,
		"devicesStatus", object("numberOfDevices", total, "numberOfOnlineDevices", on, "numberOfOfflineDevices", total-on),
		"autotaskCompanyName", orNull(s.autotask), "autotaskCompanyId", orNull(s.autotaskID), "portalUrl", fmt.Sprintf("%s/site/%d", portal, s.id))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func renderSettings(s *site) json.RawMessage {
	mail := s.mail
	if mail == nil {
		mail = []json.RawMessage{}
	}
	return object("generalSettings", object("name", s.name, "uid", s.uid, "description", s.description, "onDemand", s.onDemand),
		"proxySettings", s.proxy, "mailRecipients", mail)
}

// masked is what the API shows instead of a masked variable's value.
const masked = "********"

func renderVariable(v variable) json.RawMessage {
	value := v.value
	if v.masked {
		value = masked
	}
	return object("id", v.id, "name", v.name, "value", value, "masked", v.masked)
}

func (a *Account) listSiteVariables(c *call, s *site) reply {
	if s.onDemand { // an oddity of the real service
		return c.fail(http.StatusBadRequest)
	}
	return pageOf(a, c, "variables", s.variables, renderVariable)
}

func (a *Account) listFilters(c *call, list []filter, kind string) reply {
	return pageOf(a, c, "filters", list, func(f filter) json.RawMessage { return a.renderFilter(f, kind) })
}

func (a *Account) listSiteFilters(c *call, s *site) reply {
	return a.listFilters(c, siteFilters(s), "site")
}

func (a *Account) listMappings(c *call) reply {
	var list []*site
	for _, s := range a.sites {
		if s.id%5 == 0 {
			list = append(list, s)
		}
	}
	return pageOf(a, c, "dnetSiteMappings", list, func(s *site) json.RawMessage {
		d := newDraw(a.seed, kindNetwork, uint64(s.id))
		networks := []int64{}
		for range d.below(3) {
			networks = append(networks, int64(d.between(10000, 99999)))
		}
		return object("id", s.id, "uid", s.uid, "accountUid", a.accountUID, "name", s.name, "description", orNull(s.description),
			"dattoNetworkingNetworkIds", networks, "portalUrl", fmt.Sprintf("%s/site/%d", portal, s.id))
	})
}

func (a *Account) account(*call) reply {
	total, on := int64(len(a.devices)), online(a.devices)
	var onDemand int64
	for _, dev := range a.devices {
		if dev.site != nil && dev.site.onDemand {
			onDemand++
		}
	}
	return answer(object("id", int64(987), "uid", a.accountUID, "name", "Simulated MSP Ltd", "currency", "GBP",
		"descriptor", object("bilingEmail", "billing@msp.example.com", "deviceLimit", max(1000, len(a.devices)), "timeZone", "Europe/London"),
		"devicesStatus", object("numberOfDevices", total, "numberOfOnlineDevices", on, "numberOfOfflineDevices", total-on,
			"numberOfOnDemandDevices", onDemand, "numberOfManagedDevices", total-onDemand)))
}

func (a *Account) systemStatus(*call) reply {
	return answer(object("version", "1.24.0-591", "status", "OK", "started", a.date(reference.AddDate(0, 0, -9).UnixMilli())))
}

// requestRate reports the windows. A legacy account sends the first five
// fields only.
func (a *Account) requestRate(c *call) reply {
	r := a.quota.Reading(c.now)
	pairs := []any{
		"slidingTimeWindowSizeSeconds", int(Span.Seconds()), "accountUid", a.accountUID, "accountCount", r.ReadCount,
		"accountRateLimit", r.ReadLimit, "accountCutOffRatio", CutOff,
	}
	if !a.cfg.Legacy {
		ops := make([]any, 0, 2*len(a.buckets))
		for _, name := range a.buckets {
			o := r.Ops[name]
			ops = append(ops, name, object("limit", o.Limit, "count", o.Count))
		}
		pairs = append(pairs, "accountWriteRateLimit", r.WriteLimit, "accountWriteCount", r.WriteCount, "operationWriteStatus", object(ops...))
	}
	return answer(object(pairs...))
}
