package rmmsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reference is the instant around which the dates of the fleet lie. It is
// fixed, so that the same seed gives the same bytes on any day.
var reference = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// noDate is the "never" of the real service: the first instant of year 1.
const noDate = -62135596800000

// Device classes as the API spells them.
const (
	classDevice  = "device"
	classPrinter = "printer"
	classESXi    = "esxihost"
	classNetwork = "rmmnetworkdevice"
	classUnknown = "unknown"
)

// device is what is stored of a device. Everything else is drawn from its
// ordinal when it is asked for, so that 100,000 devices fit in some megabytes.
type device struct {
	ordinal uint32
	site    *site
	born    *site // names keep the code of the site of birth
	class   string
	online  bool
	edits   *edits
	given   *given // set for devices that a test laid out itself
}

// edits is what writes have changed of a device.
type edits struct {
	udf         map[int]string // "" is cleared
	warranty    string         // "" is cleared
	hasWarranty bool
	moved       bool  // its site, or the name of that
	audit       int64 // ms of the last audit that a test has made; 0 for the drawn one
	audits      int   // how many a test has made
}

// given is a device whose JSON was set from outside. It is served as it is,
// with edits applied on top.
type given struct {
	raw  json.RawMessage
	head givenHead
}

// givenHead are the fields of a given device that searches need. A field of
// another type is as good as absent.
type givenHead struct {
	id                                int64
	uid, hostname, class, os, kind    string
	category, siteUID, siteName, addr string
}

type site struct {
	id                     int64
	uid, name, description string
	born                   string // its first name, whose letters stay in the names of devices
	notes                  string
	onDemand, splashtop    bool
	proxy                  json.RawMessage
	autotask, autotaskID   string
	mail                   []json.RawMessage
	variables              []variable
}

type variable struct {
	id          int64
	name, value string
	masked      bool
}

// fleet is the state of the account that devices and sites make up.
type fleet struct {
	seed       uint64
	accountUID string // its short code
	sites      []*site
	devices    []*device // in list order
	byOrdinal  []*device
	byUID      map[string]*device // given devices only
	nextID     int64              // for sites and variables that are made later
}

// Real service sites that every account has.
const (
	siteManaged  = "Managed"
	siteOnDemand = "OnDemand"
	siteDeleted  = "Deleted Devices"
)

var companies = []string{
	"Contoso", "Fabrikam", "Northwind Traders", "Adventure Works", "Tailspin Toys", "Wingtip Legal", "Litware", "Proseware",
	"Trey Research", "Lucerne Publishing", "Coho Vineyard", "Alpine Ski House", "Humongous Insurance", "Woodgrove Bank",
	"Müller, \"Nord\"", "Café \"Zentral\", Berlin", "Łódź Logistics", "Société Générale des Eaux", "東京オフィス", "Smith & Sons, Ltd.",
	"O'Brien Dental", "Ångström Labs", "Blue Yonder Airlines", "City Power & Light", "Graphic Design Institute", "School of Fine Art",
	"Margie's Travel", "Fourth Coffee", "Consolidated Messenger", "Relecloud",
}

var towns = []string{"HQ", "North", "South", "Depot", "Warehouse", "Leeds", "Utrecht", "Wien", "Kraków", "Lyon", "Dublin", "Annex"}

// newFleet lays out a fleet of n devices.
func newFleet(seed uint64, n int) *fleet {
	f := &fleet{seed: seed, byUID: map[string]*device{}, nextID: 900000}
	f.accountUID = fmt.Sprintf("%08x", uint32(mix(seed^0x5eed)))
	f.makeSites(min(max(n/30, 6), 3000))
	f.devices = make([]*device, 0, n)
	for range n {
		f.addDrawn()
	}
	return f
}

func (f *fleet) makeSites(n int) {
	for i, name := range []string{siteManaged, siteOnDemand, siteDeleted} {
		s := &site{id: int64(4000 + i), uid: makeUID(f.seed, kindSite, uint32(i), 0), name: name, born: name, onDemand: name == siteOnDemand}
		if name == siteDeleted {
			s.uid = f.accountUID + "-deleted-devices" // the real one is no GUID either
		}
		f.sites = append(f.sites, s)
	}
	for i := range n {
		d := newDraw(f.seed, kindSite, uint64(i))
		name := companies[i%len(companies)]
		if round := i / len(companies); round > 0 {
			name += " " + towns[(round-1)%len(towns)]
			if more := (round - 1) / len(towns); more > 0 {
				name += " " + strconv.Itoa(more+1)
			}
		}
		s := &site{
			id: int64(4100 + i), uid: makeUID(f.seed, kindSite, uint32(i+3), 0), name: name, born: name,
			splashtop: d.chance(700), onDemand: d.chance(20),
			autotask: name, autotaskID: strconv.Itoa(29000 + i*7),
		}
		if d.chance(400) {
			s.description = pick(&d, []string{"Monthly contract", "24x7 cover", "line one\nline two", "Renewal in June"})
		}
		if d.chance(100) {
			s.proxy = object("host", "proxy.example.com", "password", nil, "port", 3128, "type", "http", "username", nil)
		}
		if d.chance(600) {
			s.mail = []json.RawMessage{object("name", "Service desk", "email", "desk@example.com", "type", "HTML",
				"receivesAlerts", true, "receivesReports", d.chance(500), "receivesNewDevices", false)}
		}
		for k := range d.below(7) {
			v := pick(&d, variableNames)
			s.variables = append(s.variables, variable{
				id: int64(50000 + i*10 + k), name: fmt.Sprintf("%s%d", v, k+1),
				value: pick(&d, variableValues), masked: d.chance(250),
			})
		}
		f.sites = append(f.sites, s)
	}
}

var (
	variableNames  = []string{"BackupTarget", "LicenceKey", "WifiProfile", "AdminGroup", "PatchRing", "ProxyHost"}
	variableValues = []string{"10.1.0.5", "ring-2", "true", "Größe ≤ 5″", "C:\\Tools\\agent", "a,b;c"}
)

// addDrawn appends one generated device.
func (f *fleet) addDrawn() *device {
	n := uint32(len(f.byOrdinal))
	d := newDraw(f.seed, kindDevice, uint64(n))
	dev := &device{ordinal: n, class: classOf(n, &d), online: d.chance(640)}
	// Squaring makes a few sites large and many small, like customers are.
	u := d.unit()
	switch {
	case d.chance(15):
		dev.site = f.sites[0]
	case d.chance(10):
		dev.site = f.sites[1]
	default:
		dev.site = f.sites[3+int(u*u*float64(len(f.sites)-3))]
	}
	dev.born = dev.site
	f.byOrdinal = append(f.byOrdinal, dev)
	f.devices = append(f.devices, dev)
	return dev
}

// classOf gives every fleet of a dozen devices one of each class.
func classOf(n uint32, d *draw) string {
	r := d.below(1000)
	switch n {
	case 3:
		return classPrinter
	case 5:
		return classESXi
	case 7:
		return classNetwork
	case 11:
		return classUnknown
	}
	switch {
	case n < 3 || r < 880:
		return classDevice
	case r < 920:
		return classPrinter
	case r < 940:
		return classESXi
	case r < 990:
		return classNetwork
	}
	return classUnknown
}

func (f *fleet) uid(dev *device) string {
	if dev.given != nil {
		return dev.given.head.uid
	}
	return makeUID(f.seed, kindDevice, dev.ordinal, 0)
}

const firstID = 1000000

func (f *fleet) id(dev *device) int64 {
	if dev.given != nil {
		return dev.given.head.id
	}
	return firstID + int64(dev.ordinal)
}

// device finds a device by uid, or gives nil.
func (f *fleet) device(uid string) *device {
	if dev := f.byUID[uid]; dev != nil {
		return dev
	}
	n, k, ok := readUID(f.seed, kindDevice, uid)
	if !ok || k != 0 || int(n) >= len(f.byOrdinal) {
		return nil
	}
	if dev := f.byOrdinal[n]; dev != nil && dev.given == nil {
		return dev
	}
	return nil
}

func (f *fleet) deviceByID(id int64) *device {
	for _, dev := range f.byUID {
		if dev.given.head.id == id {
			return dev
		}
	}
	if n := id - firstID; n >= 0 && n < int64(len(f.byOrdinal)) {
		if dev := f.byOrdinal[n]; dev != nil && dev.given == nil {
			return dev
		}
	}
	return nil
}

func (f *fleet) site(uid string) *site {
	for _, s := range f.sites {
		if s.uid == uid {
			return s
		}
	}
	return nil
}

func (f *fleet) siteByName(name string) *site {
	for _, s := range f.sites {
		if s.name == name {
			return s
		}
	}
	return nil
}

// newSite appends an empty site with fresh ids.
func (f *fleet) newSite(name string) *site {
	f.nextID++
	s := &site{id: f.nextID, uid: makeUID(f.seed, kindSite, uint32(f.nextID), 1), name: name, born: name}
	f.sites = append(f.sites, s)
	return s
}

func (f *fleet) remove(dev *device) {
	f.devices = slices.DeleteFunc(slices.Clone(f.devices), func(d *device) bool { return d == dev })
	f.byOrdinal[dev.ordinal] = nil
	if dev.given != nil {
		delete(f.byUID, dev.given.head.uid)
	}
}

// addGiven appends a device as it stands in the JSON object. Its site is
// found by siteUid or siteName, and made if there is none.
func (f *fleet) addGiven(raw string) error {
	head, err := parseGiven(raw)
	if err != nil {
		return err
	}
	if f.device(head.uid) != nil {
		return fmt.Errorf("device %q is there already", head.uid)
	}
	dev := &device{ordinal: uint32(len(f.byOrdinal)), class: head.class, given: &given{raw: json.RawMessage(raw), head: head}}
	var online struct{ Online bool }
	_ = json.Unmarshal([]byte(raw), &online) // an odd value is offline
	dev.online = online.Online
	switch {
	case head.siteUID != "":
		if dev.site = f.site(head.siteUID); dev.site == nil {
			dev.site = f.newSite(cmp.Or(head.siteName, head.siteUID))
			dev.site.uid = head.siteUID
		}
	case head.siteName != "":
		if dev.site = f.siteByName(head.siteName); dev.site == nil {
			dev.site = f.newSite(head.siteName)
		}
	}
	if head.id == 0 {
		dev.given.head.id = firstID + int64(dev.ordinal)
	}
	f.byUID[head.uid] = dev
	f.byOrdinal = append(f.byOrdinal, dev)
	f.devices = append(f.devices, dev)
	return nil
}

func parseGiven(raw string) (givenHead, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		return givenHead{}, fmt.Errorf("read device: %w", err)
	}
	text := func(fields map[string]json.RawMessage, name string) (s string) {
		_ = json.Unmarshal(fields[name], &s) // another type is as good as absent
		return s
	}
	var kind map[string]json.RawMessage
	_ = json.Unmarshal(fields["deviceType"], &kind)
	head := givenHead{
		uid: text(fields, "uid"), hostname: text(fields, "hostname"), class: text(fields, "deviceClass"),
		os: text(fields, "operatingSystem"), siteUID: text(fields, "siteUid"), siteName: text(fields, "siteName"),
		category: text(kind, "category"), kind: text(kind, "type"), addr: text(fields, "intIpAddress"),
	}
	_ = json.Unmarshal(fields["id"], &head.id)
	if head.uid == "" {
		return givenHead{}, fmt.Errorf("device without uid: %s", strings.TrimSpace(raw))
	}
	return head, nil
}

// facts are the drawn properties of a device.
type facts struct {
	hostname, category, kind, os, user, domain string
	intIP, extIP, description, maker, model    string
	warranty, avProduct, avStatus, patch       string
	is64, reboot, suspended                    bool
	pending, notApproved, installed            int
	lastSeen, lastReboot, lastAudit, created   int64 // ms; 0 is null
}

var (
	laptopModels  = []string{"Dell Inc.|Latitude 5440", "LENOVO|20W0S0PV00", "HP|HP EliteBook 840 G9", "Microsoft Corporation|Surface Laptop 5"}
	desktopModels = []string{"Dell Inc.|OptiPlex 7010", "HP|HP ProDesk 400 G7", "LENOVO|11JHS02A00"}
	serverModels  = []string{"Dell Inc.|PowerEdge R650", "HPE|ProLiant DL380 Gen10", "VMware, Inc.|VMware Virtual Platform"}
	clientSystems = []string{"Microsoft Windows 11 Pro 10.0.22631", "Microsoft Windows 10 Pro 10.0.19045", "Microsoft Windows 11 Enterprise 10.0.26100", "macOS 15.3 Sequoia"}
	serverSystems = []string{"Microsoft Windows Server 2022 Standard 10.0.20348", "Microsoft Windows Server 2019 Standard 10.0.17763", "Ubuntu 24.04.1 LTS"}
	people        = []string{"anna", "ben", "chloé", "dmitri", "eva.müller", "fatima", "george", "hiro", "ines", "jörg", "kate", "łukasz"}
	protection    = []string{"Windows Defender", "Datto AV", "Sophos Endpoint", "Bitdefender Endpoint Security Tools"}
)

// siteCode begins the names of the devices of a site. It stays when the site gets another name.
func siteCode(s *site) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(s.born) {
		if r >= 'A' && r <= 'Z' || r == 'Ü' || r == 'Ł' {
			b.WriteRune(r)
		}
		if b.Len() >= 4 {
			return b.String()
		}
	}
	return "S" + strconv.FormatInt(s.id, 10)
}

// facts gives the properties of a device.
func (f *fleet) facts(dev *device) facts {
	p := f.drawnFacts(dev)
	if dev.edits != nil && dev.edits.audit != 0 {
		p.lastAudit = dev.edits.audit
	}
	return p
}

// drawnFacts draws the properties of a device.
func (f *fleet) drawnFacts(dev *device) facts {
	d := newDraw(f.seed, kindDevice, uint64(dev.ordinal)<<20|1)
	p := facts{is64: true, created: reference.Add(-time.Duration(d.between(30, 1500)*24)*time.Hour - time.Duration(d.below(86400))*time.Second).UnixMilli()}
	home := dev.born
	if home == nil { // a given device, asked for its audit
		home = f.sites[3]
	}
	code, number := siteCode(home), int(dev.ordinal)+1
	var model string
	switch dev.class {
	case classPrinter:
		p.category, p.kind, p.hostname = "Printer", "Printer", fmt.Sprintf("%s-PRN%03d", code, number)
		model = pick(&d, []string{"HP|HP LaserJet M507", "Brother|HL-L6400DW", "KYOCERA|ECOSYS M3145"})
	case classESXi:
		p.category, p.kind, p.hostname = "ESXi Host", "ESXi Host", fmt.Sprintf("%s-ESX%03d.local", strings.ToLower(code), number)
		p.os, model = "VMware ESXi 8.0.2 build-22380479", pick(&d, serverModels[:2])
	case classNetwork, classUnknown:
		p.category, p.kind, p.hostname = "Network Device", "Switch", fmt.Sprintf("sw-%s-%03d", strings.ToLower(code), number)
		model = "Cisco|CBS350"
	default:
		switch r := d.below(100); {
		case r < 52:
			p.category, p.kind, p.hostname, p.os, model = "Laptop", "Notebook", fmt.Sprintf("%s-LT%03d", code, number), pick(&d, clientSystems), pick(&d, laptopModels)
		case r < 86:
			p.category, p.kind, p.hostname, p.os, model = "Desktop", "Desktop", fmt.Sprintf("%s-PC%03d", code, number), pick(&d, clientSystems[:3]), pick(&d, desktopModels)
		default:
			p.category, p.kind, p.hostname, p.os, model = "Server", "Main System Chassis", fmt.Sprintf("%s-SRV%03d", code, number), pick(&d, serverSystems), pick(&d, serverModels)
		}
		// Names that people and installers give, and that repeat across sites.
		switch r := d.below(100); {
		case r == 0:
			p.hostname = pick(&d, []string{"RECEPTION-PC", "SCANSTATION", "BACKUP01"})
		case r == 1:
			p.hostname = fmt.Sprintf("Büro-Łódź-東京-%03d", number)
		case r < 10 && p.category != "Server":
			p.hostname = "DESKTOP-" + strings.ToUpper(strconv.FormatInt(78364164096+int64(number)*999983, 36))[:7]
		}
	}
	p.maker, p.model, _ = strings.Cut(model, "|")
	p.description = p.hostname
	p.intIP = fmt.Sprintf("10.%d.%d.%d", home.id%250, dev.ordinal/250%250, dev.ordinal%250+2)
	p.extIP = fmt.Sprintf("203.0.113.%d", home.id%250+1)
	seen := time.Duration(d.below(300)) * time.Second
	if !dev.online {
		seen = time.Duration(d.between(1, 120*24*60)) * time.Minute
	}
	p.lastSeen = reference.Add(-seen).UnixMilli()
	p.lastReboot = reference.Add(-seen - time.Duration(d.between(1, 60*24))*time.Hour).UnixMilli()
	if d.chance(20) {
		p.lastReboot = noDate
	}
	if !d.chance(30) { // the rest was never audited
		p.lastAudit = reference.Add(-seen - time.Duration(d.between(1, 1440))*time.Minute).UnixMilli()
	}
	if d.chance(600) {
		p.warranty = reference.AddDate(0, 0, d.between(-700, 1100)).Format(time.DateOnly)
	}
	if dev.class != classDevice {
		return p
	}
	p.domain = pick(&d, []string{"acme.local", "corp.example.com", "WORKGROUP"})
	p.user = strings.ToUpper(strings.SplitN(p.domain, ".", 2)[0]) + "\\" + pick(&d, people)
	p.reboot, p.suspended = d.chance(150), d.chance(15)
	p.avProduct, p.avStatus = pick(&d, protection), pick(&d, []string{"RunningAndUpToDate", "RunningAndUpToDate", "RunningAndUpToDate", "RunningAndNotUpToDate", "NotRunning"})
	if d.chance(40) {
		p.avProduct, p.avStatus = "", "NotDetected"
	}
	p.patch = pick(&d, []string{"FullyPatched", "FullyPatched", "ApprovedPending", "RebootRequired", "InstallError", "NoPolicy", "NoData"})
	p.pending, p.notApproved, p.installed = d.below(8), d.below(20), d.between(20, 400)
	return p
}

// udf gives the set UDFs of a device by number.
func (f *fleet) udf(dev *device) map[int]string {
	set := map[int]string{}
	d := newDraw(f.seed, kindUDF, uint64(dev.ordinal))
	if dev.given == nil && dev.class != classNetwork && dev.class != classUnknown {
		n := dev.ordinal + 1
		if d.chance(700) {
			set[1] = fmt.Sprintf("AT-%06d", n)
		}
		if d.chance(500) {
			set[2] = pick(&d, people)
		}
		if d.chance(300) {
			set[3] = pick(&d, []string{"Floor 2, Room 204", "Büro Süd", "line one\r\nline two", "00420", "=1+1", "-5", "5″ display"})
		}
		if d.chance(250) {
			set[9] = fmt.Sprintf("%06d-%06d-%06d-%06d", d.below(1e6), d.below(1e6), d.below(1e6), d.below(1e6))
		}
		if d.chance(100) {
			set[30] = strconv.Itoa(d.below(100000))
		}
		if d.chance(100) {
			set[31] = "beyond thirty"
		}
		if d.chance(50) {
			set[300] = reference.AddDate(0, 0, -d.below(900)).Format(time.DateOnly)
		}
	}
	if dev.edits != nil {
		for n, v := range dev.edits.udf {
			if v == "" {
				delete(set, n)
			} else {
				set[n] = v
			}
		}
	}
	return set
}

func (dev *device) edit() *edits {
	if dev.edits == nil {
		dev.edits = &edits{udf: map[int]string{}}
	}
	return dev.edits
}
