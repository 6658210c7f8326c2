package rmmsim

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// stablePages are pages whose bytes must depend on nothing but seed and size.
var stablePages = []string{
	"/v2/account", "/v2/account/devices", "/v2/account/sites", "/v2/account/users", "/v2/account/variables", "/v2/account/components",
	"/v2/account/alerts/open", "/v2/account/alerts/resolved", "/v2/account/dnet-site-mappings", "/v2/filter/default-filters", "/v2/system/status",
}

func fingerprint(c *tester) string {
	h := sha256.New()
	for _, p := range stablePages {
		_, _ = fmt.Fprintln(h, c.get(p))
	}
	for _, uid := range c.a.DeviceUIDs()[:20] {
		for _, path := range []string{"/v2/audit/device/" + uid, "/v2/audit/device/" + uid + "/software", "/v2/audit/printer/" + uid, "/v2/audit/esxihost/" + uid} {
			if status, text, _ := c.do(http.MethodGet, path, ""); status == http.StatusOK {
				_, _ = fmt.Fprintln(h, text)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func TestSameSeedSameBytes(t *testing.T) {
	now := fingerprint(newTester(t, Config{Devices: 120, Seed: 7}))
	synctest.Test(t, func(t *testing.T) { // a bubble lives in the year 2000
		if then := fingerprint(newTester(t, Config{Devices: 120, Seed: 7})); then != now {
			t.Errorf("another day gives other bytes: %s, %s", then, now)
		}
	})
	if other := fingerprint(newTester(t, Config{Devices: 120, Seed: 8})); other == now {
		t.Error("another seed gives the same bytes")
	}
}

const goldenFleet = "b36af40ae46a1e3d"

// A change of this value changes what users of a seed see; it needs a line in
// the change log.
func TestFleetOfSeedOneIsWhatItWas(t *testing.T) {
	if got, want := fingerprint(newTester(t, Config{Devices: 120})), goldenFleet; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

func TestFleetHasEverythingThatHurts(t *testing.T) {
	c := newTester(t, Config{Devices: 1200, UDFs: 30})
	items, _ := c.walk("/v2/account/devices", "devices")
	classes, hosts, ascii := map[any]int{}, map[string]int{}, true
	var noDates, yearOne, udfs int
	for _, it := range items {
		classes[it["deviceClass"]]++
		host := it["hostname"].(string)
		hosts[host]++
		ascii = ascii && !strings.ContainsFunc(host, func(r rune) bool { return r > 127 })
		if it["lastSeen"] == nil {
			noDates++
		}
		if it["lastReboot"] == float64(noDate) {
			yearOne++
		}
		for _, v := range it["udf"].(map[string]any) {
			if v != nil {
				udfs++
			}
		}
	}
	twice := 0
	for _, n := range hosts {
		if n > 1 {
			twice++
		}
	}
	for _, class := range []string{classDevice, classPrinter, classESXi, classNetwork, classUnknown} {
		if classes[class] == 0 {
			t.Errorf("no device of class %s", class)
		}
	}
	if twice < 1 || twice > 10 || ascii || noDates == 0 || yearOne == 0 || udfs < 1000 {
		t.Errorf("%d names twice, only ASCII %v, %d without dates, %d of year 1, %d UDFs", twice, ascii, noDates, yearOne, udfs)
	}
	sites, _ := c.walk("/v2/account/sites", "sites")
	names := ""
	var inSites float64
	for _, s := range sites {
		names += s["name"].(string) + "|"
		inSites += s["devicesStatus"].(map[string]any)["numberOfDevices"].(float64)
	}
	for _, want := range []string{"Managed|", "OnDemand|", "Deleted Devices|", `Müller, "Nord"|`, "東京"} {
		if !strings.Contains(names, want) {
			t.Errorf("no site %q", want)
		}
	}
	if inSites != 1200 {
		t.Errorf("the sites hold %v devices", inSites)
	}
	alerts, _ := c.walk("/v2/account/alerts/open", "alerts")
	emptyKey, muted := false, 0
	for _, al := range alerts {
		if samples, ok := al["alertContext"].(map[string]any)["samples"].(map[string]any); ok {
			_, has := samples[""]
			emptyKey = emptyKey || has
		}
		if al["muted"] == true {
			muted++
		}
	}
	if only, _ := c.walk("/v2/account/alerts/open?muted=true&max=7", "alerts"); len(only) != muted || muted == 0 || !emptyKey {
		t.Errorf("%d muted alerts of %d, empty key %v", len(only), muted, emptyKey)
	}
}

func TestEveryClassInASmallFleet(t *testing.T) {
	c := newTester(t, Config{Devices: 12})
	items, _ := c.walk("/v2/account/devices", "devices")
	seen := map[any]bool{}
	for _, it := range items {
		seen[it["deviceClass"]] = true
	}
	if len(seen) != 5 {
		t.Errorf("classes %v", seen)
	}
}

func TestLargeFleetIsSmall(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a, err := New(Config{Devices: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 30<<20 {
		t.Errorf("100,000 devices take %d MiB", used>>20)
	}
	runtime.KeepAlive(a)
}

func TestUIDsCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, kind := rapid.Uint64().Draw(t, "seed"), rapid.ByteRange(1, 14).Draw(t, "kind")
		n, k := rapid.Uint32().Draw(t, "n"), rapid.Uint16().Draw(t, "k")
		uid := makeUID(seed, kind, n, k)
		gotN, gotK, ok := readUID(seed, kind, uid)
		if !ok || gotN != n || gotK != k {
			t.Fatalf("%s reads as %d/%d, %v", uid, gotN, gotK, ok)
		}
		if _, _, ok := readUID(seed+1, kind, uid); ok {
			t.Fatalf("%s is good for another seed", uid)
		}
		if uid[14] != '4' || !strings.ContainsRune("89ab", rune(uid[19])) {
			t.Fatalf("%s is no random GUID", uid)
		}
	})
}

func FuzzReadUID(f *testing.F) {
	f.Add(makeUID(1, kindDevice, 5, 0))
	f.Add("09674eec-deleted-devices")
	f.Add("zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, s string) {
		if n, k, ok := readUID(1, kindDevice, s); ok && makeUID(1, kindDevice, n, k) != s {
			t.Errorf("%q reads as %d/%d", s, n, k)
		}
	})
}

func TestFiltersAreWhatTheySay(t *testing.T) {
	c := newTester(t, Config{Devices: 600, UDFs: 1})
	all, _ := c.walk("/v2/account/devices", "devices")
	field := func(it map[string]any, name string) string {
		if name == "type" {
			kind := it["deviceType"].(map[string]any)
			return strings.ToLower(fmt.Sprint(kind["category"], "|", kind["type"]))
		}
		if it[name] == nil {
			return ""
		}
		return strings.ToLower(it[name].(string))
	}
	for _, tt := range []struct {
		query string
		want  func(map[string]any) bool
	}{
		{"hostname=lt0", func(it map[string]any) bool { return strings.Contains(field(it, "hostname"), "lt0") }},
		{"hostname=%C5%81%C3%B3d%C5%BA", func(it map[string]any) bool { return strings.Contains(field(it, "hostname"), "łódź") }},
		{"siteName=con", func(it map[string]any) bool { return strings.Contains(field(it, "siteName"), "con") }},
		{"deviceType=server&operatingSystem=2022", func(it map[string]any) bool {
			return strings.Contains(field(it, "operatingSystem"), "2022") && strings.HasPrefix(field(it, "type"), "server")
		}},
		{"deviceType=chassis", func(it map[string]any) bool { return strings.Contains(field(it, "type"), "chassis") }},
		{"filterId=12", func(it map[string]any) bool { return strings.HasPrefix(field(it, "type"), "server") }},
		{"filterId=15", func(it map[string]any) bool { return it["deviceClass"] == classPrinter }},
		{"filterId=18&hostname=nobody", func(it map[string]any) bool { return it["online"] == true }}, // the filter decides alone
		{"filterId=74", func(map[string]any) bool { return false }},
		{"hostname=", func(map[string]any) bool { return true }}, // an empty filter is none
	} {
		got, _ := c.walk("/v2/account/devices?max=50&"+tt.query, "devices")
		var want, have []string
		for _, it := range all {
			if tt.want(it) {
				want = append(want, it["uid"].(string))
			}
		}
		for _, it := range got {
			have = append(have, it["uid"].(string))
		}
		if !slices.Equal(want, have) || (len(want) == 0) != (tt.query == "filterId=74") {
			t.Errorf("%s: %d devices, want %d", tt.query, len(have), len(want))
		}
	}
	c.want(http.StatusNotFound, http.MethodGet, "/v2/account/devices?filterId=99", "")
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/account/devices?filterId=x", "")

	site := all[0]["siteUid"].(string)
	var filters struct{ Filters []struct{ ID int64 } }
	decode(t, c.get("/v2/site/"+site+"/filters"), &filters)
	inSite, _ := c.walk("/v2/site/"+site+"/devices", "devices")
	laptops, _ := c.walk(fmt.Sprintf("/v2/site/%s/devices?filterId=13", site), "devices")
	if len(laptops) == 0 || len(laptops) >= len(inSite) {
		t.Errorf("%d laptops of %d devices of the site", len(laptops), len(inSite))
	}
	for _, it := range laptops {
		if it["siteUid"] != site {
			t.Errorf("%v is of another site", it["uid"])
		}
	}
}

func TestLookupByMACAndID(t *testing.T) {
	c := newTester(t, Config{Devices: 100, UDFs: 1})
	var shared string
	for _, uid := range c.a.DeviceUIDs() {
		var dev, got struct {
			ID    int64
			UID   string
			Class string `json:"deviceClass"`
		}
		raw, _ := c.a.Device(uid)
		decode(t, string(raw), &dev)
		decode(t, c.get(fmt.Sprintf("/v2/device/id/%d", dev.ID)), &got)
		if got.UID != uid {
			t.Fatalf("id %d finds %s, not %s", dev.ID, got.UID, uid)
		}
		if dev.Class != classDevice {
			continue
		}
		status, text, _ := c.do(http.MethodGet, "/v2/audit/device/"+uid, "")
		if status == http.StatusNotFound {
			continue // never audited
		}
		var audit struct{ NICs []struct{ MacAddress string } }
		decode(t, text, &audit)
		for _, nic := range audit.NICs {
			if strings.HasPrefix(nic.MacAddress, macDock) {
				shared = nic.MacAddress
			}
			if found := c.get("/v2/device/macAddress/" + strings.ToLower(nic.MacAddress)); !strings.Contains(found, uid) {
				t.Errorf("MAC %s does not find %s", nic.MacAddress, uid)
			}
		}
	}
	var docked []any
	decode(t, c.get("/v2/device/macAddress/"+shared), &docked)
	if len(docked) != 2 {
		t.Errorf("the dock %q has %d devices", shared, len(docked))
	}
	for _, bad := range []string{"00155D00FFFF", "001122334455", "00:15:5D:00:00:01", "x"} {
		c.want(http.StatusNotFound, http.MethodGet, "/v2/device/macAddress/"+bad, "")
	}
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/audit/device/macAddress/"+mac(macEthernet, 3), "") // a printer
	c.want(http.StatusNotFound, http.MethodGet, "/v2/device/id/5", "")
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/device/id/five", "")
}

func TestAuditsAreOfOneClass(t *testing.T) {
	c := newTester(t, Config{Devices: 200, UDFs: 1, Limits: Limits{Off: true}})
	paths := map[string]string{classDevice: "/v2/audit/device/", classPrinter: "/v2/audit/printer/", classESXi: "/v2/audit/esxihost/"}
	items, _ := c.walk("/v2/account/devices", "devices")
	never := 0
	for _, it := range items {
		for class, path := range paths {
			want := http.StatusBadRequest
			if it["deviceClass"] == class {
				want = http.StatusOK
				if it["lastAuditDate"] == nil {
					want, never = http.StatusNotFound, never+1
				}
			}
			c.want(want, http.MethodGet, path+it["uid"].(string), "")
		}
	}
	c.want(http.StatusNotFound, http.MethodGet, "/v2/audit/device/nobody", "")
	if never == 0 {
		t.Error("every device was audited")
	}
}

func TestSoftwareLists(t *testing.T) {
	for _, fixed := range []int{0, 600} {
		c := newTester(t, Config{Devices: 6, Software: fixed})
		list, _ := c.walk("/v2/audit/device/"+c.a.DeviceUIDs()[0]+"/software?max=100", "software")
		seen := map[any]bool{}
		for _, s := range list {
			seen[s["name"]] = true
		}
		if len(seen) != len(list) || len(list) < 20 || fixed == 0 && len(list) > 200 || fixed > 0 && len(list) != fixed {
			t.Errorf("software %d: %d programs, %d names", fixed, len(list), len(seen))
		}
	}
}

func TestDataSwitches(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		has  []string
		not  []string
	}{
		{"default", Config{}, []string{`"udf300":`, `"lastSeen":17`}, []string{"flyingtoaster"}},
		{"30 UDFs", Config{UDFs: 30}, []string{`"udf30":`}, []string{`"udf31":`}},
		{"no UDFs", Config{UDFs: -1}, []string{`"softwareStatus"`}, []string{`"udf"`}},
		{"ISO dates", Config{ISODates: true}, []string{`"lastSeen":"2026-`, `"lastReboot":"0001-01-01T00:00:00.000Z"`}, []string{`"lastSeen":17`}},
		{"sparse", Config{Sparse: true}, []string{`"antivirus":null`, `"patchManagement":null`}, []string{`"antivirus":{`}},
		{"unknown values", Config{UnknownValues: true}, []string{`"flyingtoaster"`, `"Sideways"`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Devices = 200
			got := newTester(t, tt.cfg).get("/v2/account/devices")
			for _, s := range tt.has {
				if !strings.Contains(got, s) {
					t.Errorf("no %s", s)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(got, s) {
					t.Errorf("has %s", s)
				}
			}
		})
	}
	if got := newTester(t, Config{Devices: 600, UnknownValues: true}).get("/v2/account/alerts/open"); !strings.Contains(got, "brand_new_ctx") {
		t.Error("no unknown alert context")
	}
}

// The fleet of the acceptance cases, served byte for byte.
func TestGivenDevices(t *testing.T) {
	const (
		alfa  = `{"uid":"11111111-1111-4111-8111-1111111111a1","hostname":"WS-ALFA","siteName":"Depot North","deviceClass":"device","online":true}`
		bravo = `{"newField":1,"uid":"…b2","deviceClass":"flyingtoaster","antivirus":{"antivirusStatus":"Sideways"},"lastSeen":"1741219200000"}`
		delta = `{"uid":"d4","id":77,"hostname":"WS-ALFA","siteName":"Depot South","udf":{"udf30":"a","odd":"kept"},"deviceClass":"device"}`
	)
	c := newTester(t, Config{Devices: 50})
	drawn := c.a.DeviceUIDs()[0]
	if err := c.a.SetDevices(alfa, bravo); err != nil {
		t.Fatal(err)
	}
	if err := c.a.AddDevice(delta); err != nil {
		t.Fatal(err)
	}
	page := c.get("/v2/account/devices")
	for _, want := range []string{alfa, bravo, delta, `"totalCount":3`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in %s", want, page)
		}
	}
	c.want(http.StatusNotFound, http.MethodGet, "/v2/device/"+drawn, "")
	c.get("/v2/device/%E2%80%A6b2")
	c.get("/v2/device/id/77")
	c.get("/v2/audit/device/d4")
	c.want(http.StatusBadRequest, http.MethodGet, "/v2/audit/device/%E2%80%A6b2", "")
	if got, _ := c.walk("/v2/account/devices?siteName=south", "devices"); len(got) != 1 || got[0]["uid"] != "d4" {
		t.Errorf("by site name: %v", got)
	}
	if got, _ := c.walk("/v2/site/"+c.a.SiteUID("Depot North")+"/devices", "devices"); len(got) != 1 {
		t.Errorf("Depot North holds %v", got)
	}
	c.want(http.StatusOK, http.MethodPost, "/v2/device/d4/udf", `{"udf30":"","udf300":"c"}`)
	c.want(http.StatusOK, http.MethodPost, "/v2/device/d4/warranty", `{"warrantyDate":"2027-01-01"}`)
	c.want(http.StatusOK, http.MethodPut, "/v2/device/d4/site/"+c.a.SiteUID("Depot North"), "")
	var got map[string]any
	decode(t, c.get("/v2/device/d4"), &got)
	if fmt.Sprint(got["udf"]) != "map[odd:kept udf30:<nil> udf300:c]" || got["warrantyDate"] != "2027-01-01" || got["siteName"] != "Depot North" {
		t.Errorf("after the writes: %v", got)
	}
	for _, bad := range []string{alfa, `{"hostname":"no uid"}`, `[]`, `{`} {
		if err := c.a.AddDevice(bad); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
	if !c.a.RemoveDevice("d4") || c.a.RemoveDevice("d4") || len(c.a.DeviceUIDs()) != 2 {
		t.Error("RemoveDevice")
	}
}
