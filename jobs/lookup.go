package jobs

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// Devices can be found by what the list of devices does not tell: the addresses of their network interfaces, which one list
// for each site has, and their serial numbers, which are in the audit of each device.
const (
	byMAC    = "mac"
	bySerial = "serial"

	nicsPrefix   = "nics/"
	auditsPrefix = "audits/"
)

// besideList is the field of the match that the list of devices does not tell; "" if it tells all.
func (u *UpdateSpec) besideList() string {
	for _, m := range u.Match {
		if operationOf(u.Operation.Name).on == aDevice && (m.Field == byMAC || m.Field == bySerial) {
			return m.Field
		}
	}
	return ""
}

// macForm is a MAC address without the signs that people put between its digits.
var macForm = regexp.MustCompile(`^[0-9a-f]{12}$`)

// macKey makes MAC addresses comparable: 00-1A-2b…, 00:1a:2b… and 001a.2b… are the same.
func macKey(s string) string {
	return strings.NewReplacer(":", "", "-", "", ".", "", " ", "").Replace(normalise(s))
}

// macFault says why a key cannot be the MAC address of a device; "" if it can.
func macFault(key string) string {
	if !macForm.MatchString(key) || key == "000000000000" || key == "ffffffffffff" {
		return fmt.Sprintf("%q is not the MAC address of a device", clip(key, 40))
	}
	return ""
}

// audits are where the classes of devices have their serial numbers.
var audits = map[string]struct{ op, path string }{
	"device":   {"device-audit", "bios.serialNumber"},
	"printer":  {"printer-audit", "snmpInfo.snmpSerial"},
	"esxihost": {"esxi-audit", "systemInfo.serviceTag"},
}

// auditReads are the reads that audits has for the classes of devices.
func auditReads() []string {
	var names []string
	for _, audit := range audits {
		names = append(names, audit.op)
	}
	return names
}

// auditOf is the one read of the audit of a device; false if its class has none. A device that does not tell its class is
// asked like a computer.
func auditOf(prefix string, device []byte) (Item, bool) {
	uid, class := keyOf("uid", device), keyOf("deviceClass", device)
	if class == "" {
		class = "device"
	}
	audit, ok := audits[class]
	return Item{
		Key:     prefix + auditsPrefix + url.PathEscape(uid),
		Request: rmm.Request{Op: audit.op, Path: map[string]string{"deviceUid": uid}},
	}, ok && uid != ""
}

// siteValues are what the rows say of the site of their device, by field; nil if the match has no site, so that every site
// may be meant.
func (u *UpdateWork) siteValues(ctx context.Context, a Answers) (field string, values map[string]bool, err error) {
	match := u.job.Update.Match
	at := slices.IndexFunc(match, func(m Match) bool { return strings.HasPrefix(m.Field, "site") })
	if at < 0 {
		return "", nil, nil
	}
	values = map[string]bool{}
	err = u.eachKey(ctx, a, func(key string) { values[splitKey(key, len(match))[at]] = true })
	return match[at].Field, values, err
}

// interfaces are the lists of the network interfaces of every site that the rows may mean.
func (u *UpdateWork) interfaces(ctx context.Context, a Answers) ([]list, error) {
	sites, err := indexSites(elements(ctx, a, parentsPrefix))
	if err != nil {
		return nil, err
	}
	field, values, err := u.siteValues(ctx, a)
	if err != nil {
		return nil, err
	}
	return interfacesOf("", sites, field, values), nil
}

// interfacesOf are the lists of the network interfaces of the sites whose field has one of the values, or of all sites
// where there are no values.
func interfacesOf(prefix string, sites *siteIndex, field string, values map[string]bool) []list {
	uids := maps.Clone(sites.name)
	if values != nil {
		clear(uids)
		for v := range values {
			for _, uid := range sites.all(field, v) {
				uids[uid] = ""
			}
		}
	}
	var all []list
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		l := wholeList(prefix+nicsPrefix, "site-network-interfaces")
		l.path = map[string]string{"siteUid": uid}
		l.id += "/" + url.PathEscape(uid)
		l.optional, l.again = true, "never"
		all = append(all, l)
	}
	return all
}

// spreadKeys begins the read stage with what tells the keys of devices.
func (u *UpdateWork) spreadKeys(ctx context.Context, a Answers) (Step, error) {
	if u.job.Update.besideList() == bySerial {
		return u.spreadAudits(ctx, a)
	}
	lists, err := u.interfaces(ctx, a)
	if err != nil {
		return Step{}, err
	}
	items := []Item{wholeList(targetsPrefix, "devices").first(1, u.set.pageSize())}
	for _, l := range lists {
		items = append(items, l.first(1, u.set.pageSize()))
	}
	return Step{Stage: StageRead, Items: slices.Values(items)}, nil
}

// spreadAudits asks for the audit of every device that the rows may mean.
func (u *UpdateWork) spreadAudits(ctx context.Context, a Answers) (Step, error) {
	field, values, err := u.siteValues(ctx, a)
	if err != nil {
		return Step{}, err
	}
	var items []Item
	for el, err := range elements(ctx, a, targetsPrefix) {
		if err != nil {
			return Step{}, err
		}
		it, ok := auditOf("", el.JSON)
		if !ok || values != nil && !values[normalise(keyOf(field, el.JSON))] {
			continue
		}
		items = append(items, it)
	}
	note := fmt.Sprintf("serial numbers are in the audits: one more read for each of %s, and once more for each that is written", spell.Count(len(items), "device"))
	return Step{Stage: StageRead, Items: slices.Values(items), Note: note}, nil
}
