package rmmsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The methods of this file look into the account and lay it out, past all
// rules and without a trace in the log.

// DeviceUIDs lists the devices in the order of the device list.
func (a *Account) DeviceUIDs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]string, len(a.devices))
	for i, dev := range a.devices {
		list[i] = a.uid(dev)
	}
	return list
}

// Device gives a device as the API would send it.
func (a *Account) Device(uid string) (json.RawMessage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dev := a.device(uid)
	if dev == nil {
		return nil, false
	}
	return a.renderDevice(dev), true
}

// UDF gives the value of a UDF such as "udf7"; "" is an empty one.
func (a *Account) UDF(uid, name string) string {
	raw, _ := a.Device(uid)
	var dev struct{ UDF map[string]*string }
	if json.Unmarshal(raw, &dev) != nil {
		return ""
	}
	return deref(dev.UDF[name])
}

// AddKey adds a pair of key and secret that logs in, beside those that are there.
func (a *Account) AddKey(key, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[key] = secret
}

// SetUDF sets a UDF such as "udf7" as a technician in the web interface would
// do; "" clears it.
func (a *Account) SetUDF(uid, name, value string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dev := a.device(uid)
	n, ok := a.udfNumber(name)
	if dev == nil || !ok {
		return fmt.Errorf("set %s of device %s: no such field or device", name, uid)
	}
	dev.edit().udf[n] = value
	clear(a.cache)
	return nil
}

// Audit lets a device be audited at an instant: its lastAuditDate moves, and the
// first of its programs has a new version.
func (a *Account) Audit(uid string, at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dev := a.device(uid)
	if dev == nil {
		return fmt.Errorf("audit device %s: no such device", uid)
	}
	e := dev.edit()
	e.audit = at.UnixMilli()
	e.audits++
	clear(a.cache)
	return nil
}

// ResolveAlert resolves an open alert at an instant, as somebody in the web
// interface would do.
func (a *Account) ResolveAlert(uid string, at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ref, ok := a.alert(uid)
	if !ok || a.isResolved(ref) {
		return fmt.Errorf("resolve alert %s: no such open alert", uid)
	}
	a.resolutions[uid] = resolution{by: a.user(0).name, at: at}
	clear(a.cache)
	return nil
}

// AddDevice adds a device at the end of the list, as it stands in a JSON
// object with at least a uid. Its site is found by siteUid or siteName and
// made if there is none. The object is served byte for byte until a write
// changes it.
func (a *Account) AddDevice(object string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.cache)
	return a.addGiven(object)
}

// RemoveDevice deletes a device and tells whether it was there.
func (a *Account) RemoveDevice(uid string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	dev := a.device(uid)
	if dev == nil {
		return false
	}
	a.remove(dev)
	clear(a.cache)
	return true
}

// SetDevices replaces the whole fleet by the given JSON objects; see
// AddDevice. Sites stay, the activity log is about the new devices from now
// on.
func (a *Account) SetDevices(objects ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.cache)
	a.devices, a.byUID = nil, map[string]*device{}
	clear(a.byOrdinal) // ordinals are never used twice
	for _, o := range objects {
		if err := a.addGiven(o); err != nil {
			return err
		}
	}
	a.logged = a.devices
	return nil
}

// Snapshot is the whole state of the account as a text, a line for each thing that
// writes can change: devices, sites with their settings, variables with the values of
// masked ones, resolved alerts, quick jobs and resets of keys. Accounts with the same
// text are alike. Times, and the ids of variables, are not in it: what is made again has
// others.
func (a *Account) Snapshot() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lines []string
	add := func(parts ...any) { lines = append(lines, strings.TrimSuffix(fmt.Sprintln(parts...), "\n")) }
	for _, dev := range a.devices {
		add("device", string(a.renderDevice(dev)))
	}
	variables := func(of string, list []variable) {
		for _, v := range list {
			add("variable", of, v.name, strconv.Quote(v.value), v.masked)
		}
	}
	variables("account", a.variables)
	for _, s := range a.sites {
		add("site", string(a.renderSite(s)), string(renderSettings(s)))
		variables(s.uid, s.variables)
	}
	for uid, r := range a.resolutions {
		add("resolved", uid, r.by)
	}
	for uid, j := range a.jobs {
		add("job", uid, j.name)
	}
	add("resets of keys", a.keyResets)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// SiteUID finds a site by its exact name; "" if there is none.
func (a *Account) SiteUID(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.siteByName(name); s != nil {
		return s.uid
	}
	return ""
}

// ComponentUID is the uid of the i-th component that quick jobs can run,
// counted from 0; "" if there are not so many.
func (a *Account) ComponentUID(i int) string {
	if i < 0 || i >= len(componentNames) {
		return ""
	}
	return a.component(i).uid
}

// Jobs is the number of quick jobs that calls have made.
func (a *Account) Jobs() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.jobs)
}

// InvalidateTokens ends all access tokens.
func (a *Account) InvalidateTokens() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.tokens)
}
