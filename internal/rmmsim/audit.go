package rmmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// MAC addresses carry the ordinal of their device in the last three bytes,
// so that a lookup needs no index. The makers' parts tell the card apart; a
// dock belongs to two devices, which is why a lookup may find several.
const (
	macEthernet = "00155D"
	macWireless = "F4A475"
	macDock     = "3C2C30"
)

func mac(maker string, n uint32) string { return fmt.Sprintf("%s%06X", maker, n&0xffffff) }

func hasDock(ordinal uint32) bool { return ordinal%40 < 2 }

// byMAC gives the devices that have a card with the address, of 12 hex digits
// without separators.
func (a *Account) byMAC(address string) (found []*device) {
	address = strings.ToUpper(address)
	if len(address) != 12 {
		return nil
	}
	n, err := strconv.ParseUint(address[6:], 16, 32)
	if err != nil {
		return nil
	}
	ordinals := []uint32{uint32(n)}
	switch address[:6] {
	case macEthernet, macWireless:
	case macDock:
		ordinals = []uint32{uint32(n) * 2, uint32(n)*2 + 1}
	default:
		return nil
	}
	for _, o := range ordinals {
		if int(o) >= len(a.byOrdinal) || a.byOrdinal[o] == nil {
			continue
		}
		dev := a.byOrdinal[o]
		if slices.Contains(a.macs(dev), address) {
			found = append(found, dev)
		}
	}
	return found
}

func (a *Account) macs(dev *device) []string {
	switch dev.class {
	case classNetwork, classUnknown:
		return nil
	case classDevice:
		macs := []string{mac(macEthernet, dev.ordinal)}
		if a.search(dev).category == "Laptop" {
			macs = append(macs, mac(macWireless, dev.ordinal))
		}
		if hasDock(dev.ordinal) {
			macs = append(macs, mac(macDock, dev.ordinal/2))
		}
		return macs
	}
	return []string{mac(macEthernet, dev.ordinal)}
}

func (a *Account) nics(dev *device, p facts) []json.RawMessage {
	nics := []json.RawMessage{}
	for i, address := range a.macs(dev) {
		ipv4, name := any(p.intIP), "Intel(R) Ethernet Connection"
		if i > 0 {
			ipv4, name = nil, "Wireless Adapter"
		}
		nics = append(nics, object("instance", name, "ipv4", ipv4, "ipv6", nil, "macAddress", address, "type", "Ethernet"))
	}
	return nics
}

func (a *Account) renderInterfaces(dev *device) json.RawMessage {
	s, p := a.search(dev), a.facts(dev)
	if dev.given != nil {
		p.intIP = dev.given.head.addr
	}
	var siteID, siteUID, siteName any
	if dev.site != nil {
		siteID, siteUID, siteName = dev.site.id, dev.site.uid, dev.site.name
	}
	return object("id", a.id(dev), "uid", a.uid(dev), "siteId", siteID, "siteUid", siteUID, "siteName", siteName,
		"deviceType", object("category", orNull(s.category), "type", orNull(s.kind)), "hostname", s.hostname,
		"intIpAddress", orNull(p.intIP), "extIpAddress", p.extIP, "nics", a.nics(dev, p))
}

// audited finds the device of an audit call of the given class, or the
// answer that refuses it: 400 for another class, 404 for an unknown device
// and for one that was never audited.
func (a *Account) audited(c *call, class string) (*device, facts, *reply) {
	dev := a.device(c.params["deviceUid"])
	if dev == nil {
		r := c.fail(http.StatusNotFound)
		return nil, facts{}, &r
	}
	if dev.class != class {
		r := c.fail(http.StatusBadRequest)
		return nil, facts{}, &r
	}
	p := a.facts(dev)
	if p.lastAudit == 0 && dev.given == nil {
		r := c.fail(http.StatusNotFound)
		return nil, facts{}, &r
	}
	return dev, p, nil
}

const gib = int64(1) << 30

func (a *Account) devicePortal(dev *device) string {
	return fmt.Sprintf("%s/device/%d/%s", portal, a.id(dev), strings.ReplaceAll(a.search(dev).hostname, " ", "%20"))
}

func snmp(p facts, d *draw) json.RawMessage {
	return object("snmpName", p.hostname, "snmpContact", nil, "snmpDescription", p.model, "snmpLocation", "Server room",
		"snmpUptime", strconv.Itoa(d.between(1, 400))+" days", "nicManufacturer", p.maker, "objectId", "1.3.6.1.4.1.11.2.3.9.1", "snmpSerial", serial(d))
}

func serial(d *draw) string {
	return strings.ToUpper(strconv.FormatUint(d.next()%2821109907456+101559956668416, 36))
}

func (a *Account) renderAudit(dev *device) json.RawMessage {
	p := a.facts(dev)
	d := newDraw(a.seed, kindAudit, uint64(dev.ordinal))
	memory, disk := int64(pick(&d, []int{8, 16, 32, 64}))*gib, int64(pick(&d, []int{238, 476, 953}))*gib
	disks := []json.RawMessage{object("description", "Local Fixed Disk", "diskIdentifier", "C:", "freespace", disk/100*int64(d.between(2, 90)), "size", disk)}
	if d.chance(300) {
		disks = append(disks, object("description", "CD-ROM Disc", "diskIdentifier", "D:", "freespace", int64(0), "size", int64(0)))
	}
	displays := []json.RawMessage{}
	for i := range d.below(3) {
		displays = append(displays, object("instance", fmt.Sprintf("DISPLAY%d", i+1), "screenHeight", 1080, "screenWidth", 1920))
	}
	modules := []json.RawMessage{}
	for i := range 2 {
		modules = append(modules, object("module", fmt.Sprintf("DIMM %d", i), "size", memory/2, "type", "DDR4", "speed", "3200", "serialNumber", serial(&d),
			"partNumber", "M471A2K43DB1", "bank", fmt.Sprintf("BANK %d", i)))
	}
	attached := []json.RawMessage{}
	if d.chance(200) {
		attached = append(attached, object("deviceName", "Label printer", "deviceType", "Printer", "driverFile", "zdesigner.dll",
			"driverFileLastModified", a.date(p.created), "driverManufacturer", "Zebra", "driverName", "ZDesigner", "driverVersion", "8.6", "portName", "USB001"))
	}
	return object("portalUrl", a.devicePortal(dev), "webRemoteUrl", fmt.Sprintf("%s/web-remote/%d", portal, a.id(dev)),
		"systemInfo", object("manufacturer", p.maker, "model", p.model, "totalPhysicalMemory", memory, "username", orNull(p.user), "dotNetVersion", "4.8.1", "totalCpuCores", pick(&d, []int{4, 8, 16})),
		"nics", a.nics(dev, p),
		"bios", object("instance", "BIOS", "releaseDate", a.date(p.created), "serialNumber", serial(&d), "smBiosVersion", fmt.Sprintf("1.%d.0", d.below(30))),
		"baseBoard", object("manufacturer", p.maker, "product", "0"+serial(&d)[:5]),
		"displays", displays, "logicalDisks", disks, "mobileInfo", []json.RawMessage{},
		"processors", []json.RawMessage{object("name", pick(&d, []string{"13th Gen Intel(R) Core(TM) i5-1345U", "AMD Ryzen 7 PRO 6850U", "Intel(R) Xeon(R) Gold 6330"}))},
		"videoBoards", []json.RawMessage{object("displayAdapter", "Intel(R) Iris(R) Xe Graphics")},
		"attachedDevices", attached, "snmpInfo", snmp(facts{}, &d), "physicalMemory", modules)
}

func (a *Account) renderPrinter(dev *device, p facts) json.RawMessage {
	d := newDraw(a.seed, kindAudit, uint64(dev.ordinal))
	supplies := []json.RawMessage{}
	for _, name := range []string{"Black Cartridge", "Maintenance Kit"} {
		// Numbers as texts, and -3 for "some left": so do printers talk.
		level := strconv.Itoa(d.below(101))
		if d.chance(100) {
			level = "-3"
		}
		supplies = append(supplies, object("description", name, "maxCapacity", "100", "suppliesLevel", level))
	}
	return object("portalUrl", a.devicePortal(dev), "snmpInfo", snmp(p, &d), "printerMarkerSupplies", supplies,
		"printer", object("printedPageCount", int64(d.below(300000))), "systemInfo", object("manufacturer", p.maker, "model", p.model), "nics", a.nics(dev, p))
}

func (a *Account) renderESXi(dev *device, p facts) json.RawMessage {
	d := newDraw(a.seed, kindAudit, uint64(dev.ordinal))
	guests := []json.RawMessage{}
	for i := range d.between(1, 12) {
		guests = append(guests, object("guestName", fmt.Sprintf("vm-%02d", i+1), "processorSpeedTotal", 2600*d.between(1, 8), "memorySizeTotal", int64(d.between(2, 64))*gib,
			"numberOfSnapshots", d.below(4), "datastores", "datastore1"))
	}
	size := int64(d.between(2, 20)) * 1024 * gib
	return object("portalUrl", a.devicePortal(dev),
		"systemInfo", object("manufacturer", p.maker, "model", p.model, "name", p.hostname, "numberOfSnapshots", d.below(9), "serviceTag", serial(&d)),
		"guests", guests, "processors", []json.RawMessage{object("frequency", 2.6, "name", "Intel(R) Xeon(R) Gold 6330", "numberOfCores", 28)},
		"nics", []json.RawMessage{object("name", "vmnic0", "ipv4", p.intIP, "ipv6", nil, "macAddress", mac(macEthernet, dev.ordinal), "speed", "10000", "type", "Ethernet")},
		"physicalMemory", []json.RawMessage{object("module", "DIMM 0", "size", 64*gib, "type", "DDR4", "speed", "3200", "serialNumber", serial(&d), "partNumber", nil, "bank", nil)},
		"datastores", []json.RawMessage{object("datastoreName", "datastore1", "subscriptionPercent", d.between(20, 180), "freeSpace", size/3, "size", size, "fileSystem", "VMFS", "status", "Normal",
			"dataExtents", []json.RawMessage{object("name", "naa.600508b1001c", "size", size, "mediaType", "SSD", "status", "Normal")})})
}

var programs = []string{
	"7-Zip 24.09 (x64)", "Adobe Acrobat (64-bit)", "Audacity 3.7.1", "Chrome Remote Desktop Host", "Cisco Secure Client", "Datto RMM", "Dell Command | Update",
	"FileZilla 3.68.1", "Git", "Google Chrome", "HP Support Assistant", "Intel® Driver & Support Assistant", "KeePass Password Safe 2.57", "Microsoft 365 Apps für Unternehmen - de-de",
	"Microsoft Edge", "Microsoft OneDrive", "Microsoft SQL Server 2019 (64-bit)", "Microsoft Teams", "Microsoft Visual C++ 2015-2022 Redistributable (x64)", "Mozilla Firefox (x64 de)",
	"Notepad++ (64-bit x64)", "Oracle VM VirtualBox", "Paint.NET", "PuTTY release 0.82", "Python 3.12.8", "Sage \"50\" Accounts, v30", "Slack", "TeamViewer", "VLC media player", "Zoom Workplace",
}

// software lists the programs of a device: 20 to 200, or Config.Software.
func (a *Account) softwareCount(dev *device) int {
	if a.cfg.Software > 0 {
		return a.cfg.Software
	}
	d := newDraw(a.seed, kindSoftware, uint64(dev.ordinal))
	return d.between(20, 200)
}

func (a *Account) renderSoftware(dev *device, i int) json.RawMessage {
	d := newDraw(a.seed, kindSoftware, uint64(dev.ordinal)<<20|uint64(i+1))
	name := programs[i%len(programs)]
	if round := i / len(programs); round > 0 {
		name += " component " + strconv.Itoa(round)
	}
	version := fmt.Sprintf("%d.%d.%d", d.between(1, 30), d.below(20), d.below(10000))
	if i == 0 && dev.edits != nil && dev.edits.audits > 0 {
		version += fmt.Sprintf(".%d", dev.edits.audits) // an audit finds something new
	}
	return object("name", name, "version", version)
}
