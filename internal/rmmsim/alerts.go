package rmmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// alertRef names an alert: the k-th of a device. The first ones of a device
// are open, the others are resolved, until a write resolves an open one.
type alertRef struct {
	dev *device
	k   int
}

// resolution is what a resolve call leaves behind.
type resolution struct {
	by string
	at time.Time
}

// alertCounts tells how many alerts of a device were drawn as open and as
// resolved.
func (f *fleet) alertCounts(dev *device) (open, resolved int) {
	if dev.given != nil {
		return 0, 0
	}
	d := newDraw(f.seed, kindAlert, uint64(dev.ordinal))
	if d.chance(300) {
		open = d.between(1, 3)
	}
	return open, d.below(5)
}

func (a *Account) alertUID(ref alertRef) string {
	return makeUID(a.seed, kindAlert, ref.dev.ordinal, uint16(ref.k))
}

// alert finds an alert by uid.
func (a *Account) alert(uid string) (alertRef, bool) {
	n, k, ok := readUID(a.seed, kindAlert, uid)
	if !ok || int(n) >= len(a.byOrdinal) || a.byOrdinal[n] == nil {
		return alertRef{}, false
	}
	ref := alertRef{a.byOrdinal[n], int(k)}
	open, resolved := a.alertCounts(ref.dev)
	return ref, ref.k < open+resolved
}

func (a *Account) isResolved(ref alertRef) bool {
	open, _ := a.alertCounts(ref.dev)
	if ref.k >= open {
		return true
	}
	_, ok := a.resolutions[a.alertUID(ref)]
	return ok
}

func isMuted(ref alertRef) bool { return (int(ref.dev.ordinal)+ref.k)%9 == 0 }

// alertList answers the open or the resolved alerts of some devices. scope
// names the choice of devices for the cache.
func (a *Account) alertList(c *call, scope string, devices []*device, resolved bool) reply {
	muted := c.query.Get("muted")
	if muted != "" && muted != "true" && muted != "false" {
		return c.fail(http.StatusBadRequest)
	}
	refs := cached(a, fmt.Sprintf("alerts %s %t %s", scope, resolved, muted), func() (refs []alertRef) {
		for _, dev := range devices {
			open, old := a.alertCounts(dev)
			for k := range open + old {
				ref := alertRef{dev, k}
				if a.isResolved(ref) == resolved && (muted == "" || strconv.FormatBool(isMuted(ref)) == muted) {
					refs = append(refs, ref)
				}
			}
		}
		return refs
	})
	c.noTotal = !resolved && !a.cfg.AlertTotals
	return pageOf(a, c, "alerts", refs, a.renderAlert)
}

var priorities = []string{"Critical", "High", "Moderate", "Low", "Information", "Unknown"}

func (a *Account) renderAlert(ref alertRef) json.RawMessage {
	uid, dev := a.alertUID(ref), ref.dev
	d := newDraw(a.seed, kindAlert, uint64(dev.ordinal)<<16|uint64(ref.k+1))
	raised := reference.Add(-time.Duration(d.between(1, 60*24*60)) * time.Minute)
	priority := pick(&d, priorities)
	var by, on, ticket any
	if fix, ok := a.resolutions[uid]; ok {
		by, on = fix.by, a.date(fix.at.UnixMilli())
	} else if a.isResolved(ref) {
		by, on = pick(&d, people), a.date(raised.Add(time.Duration(d.between(1, 600))*time.Minute).UnixMilli())
	}
	action := func(kind, text string) json.RawMessage {
		return object("actionTime", a.date(raised.UnixMilli()+1000), "actionType", kind, "description", text, "actionReference", nil, "actionReferenceInt", nil)
	}
	actions := []json.RawMessage{}
	if d.chance(500) {
		actions = append(actions, action("EMAIL_SENT", "Email sent to desk@example.com"))
	}
	if d.chance(200) {
		actions = append(actions, action("TICKET_CREATED", "Ticket created"))
		ticket = fmt.Sprintf("T20260302.%04d", d.below(10000))
	}
	p := a.facts(dev)
	return object("alertUid", uid, "priority", priority, "diagnostics", nil, "resolved", a.isResolved(ref), "resolvedBy", by, "resolvedOn", on,
		"muted", isMuted(ref), "ticketNumber", ticket, "timestamp", a.date(raised.UnixMilli()),
		"alertMonitorInfo", object("sendsEmails", d.chance(500), "createsTicket", ticket != nil),
		"alertContext", a.alertContext(&d, p),
		"alertSourceInfo", object("deviceUid", a.uid(dev), "deviceName", p.hostname, "siteUid", dev.site.uid, "siteName", dev.site.name),
		"responseActions", actions, "autoresolveMins", pick(&d, []int{0, 0, 15, 60}))
}

// alertContext draws one of the contexts that were seen on the real service;
// their fields match none of the published ones.
func (a *Account) alertContext(d *draw, p facts) json.RawMessage {
	context := func(class string, pairs ...any) json.RawMessage {
		return object(append([]any{"@class", class}, pairs...)...)
	}
	percent := d.between(80, 100)
	if a.cfg.UnknownValues && d.chance(200) {
		return context("brand_new_ctx", "shape", object("depth", 2))
	}
	switch d.below(18) {
	case 0: // a badly written monitor: one sample without a name
		return context("comp_script_ctx", "samples", object("", "Status", "a.b", "1", "A.B", "2"))
	case 1:
		return context("comp_script_ctx", "samples", object("Result", "Certificate expires in 12 days"))
	case 2:
		return context("eventlog_ctx", "logName", "System", "code", "7031", "type", "ERROR", "source", "Service Control Manager",
			"description", "The Print Spooler service terminated unexpectedly.", "triggerCount", d.between(1, 9), "lastTriggered", a.date(p.lastSeen), "causedSuspension", false)
	case 3:
		return context("perf_disk_usage_ctx", "diskName", "C:", "totalVolume", int64(249000000), "freeSpace", int64(d.between(1, 20))*1000000,
			"unitOfMeasure", "PERCENT", "diskNameDesignation", "ANY_VOLUME")
	case 4:
		return context("perf_resource_usage_ctx", "percentage", percent, "type", pick(d, []string{"CPU", "MEMORY"}))
	case 5:
		return context("perf_mon_ctx", "value", percent*1000)
	case 6:
		return context("srvc_status_ctx", "serviceName", "Spooler", "status", "STOPPED")
	case 7:
		return context("srvc_resource_usage_ctx", "serviceName", "sqlservr", "sample", percent, "type", "MEMORY")
	case 8:
		return context("process_status_ctx", "processName", "backup.exe", "status", "STOPPED")
	case 9:
		return context("process_resource_usage_ctx", "processName", "chrome.exe", "sample", percent, "type", "CPU")
	case 10:
		return context("fs_object_ctx", "path", `C:\Temp\"old".log`, "objectType", "FILE", "condition", "SIZE", "threshold", 100, "sample", percent+50)
	case 11:
		return context("online_offline_status_ctx", "status", "OFFLINE")
	case 12:
		return context("patch_ctx", "result", "FAILED", "info", "KB5034441: 0x80070643")
	case 13:
		return context("antivirus_ctx", "productName", orNull(p.avProduct), "status", "NotRunning")
	case 14:
		return context("ping_ctx", "roundtripTime", percent*10, "reasons", []string{"TIMEOUT"})
	case 15:
		return context("sw_action_ctx", "packageName", "7-Zip", "version", "24.09", "actionType", "INSTALLED")
	case 16:
		return context("custom_snmp_ctx", "displayName", "Toner", "currentValue", strconv.Itoa(d.below(10)))
	}
	return context("wmi_ctx", "value", strconv.Itoa(percent))
}
