package rmmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// maxUDFUnits is the longest UDF value, in UTF-16 units.
const maxUDFUnits = 255

// fields reads a JSON object from the body of a write. Anything else, and
// anything that is not UTF-8, is refused.
func (c *call) fields() (map[string]json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if !utf8.Valid(c.body) || json.Unmarshal(c.body, &fields) != nil || fields == nil {
		return nil, false
	}
	return fields, true
}

// text reads a string field. null and absent give present = false; another
// type gives ok = false.
func text(fields map[string]json.RawMessage, name string) (s string, present, ok bool) {
	raw, found := fields[name]
	if !found || string(raw) == "null" {
		return "", false, true
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", false, false
	}
	return s, true, true
}

func boolean(fields map[string]json.RawMessage, name string) (b, ok bool) {
	raw, found := fields[name]
	if !found || string(raw) == "null" {
		return false, true
	}
	return b, json.Unmarshal(raw, &b) == nil
}

// setUDF keeps the fields that are left out and clears those given as "" or
// null. A number beyond the account's, a value that is no text and one that
// is too long are refused, and then nothing is set.
func (a *Account) setUDF(c *call, dev *device) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	set := map[int]string{}
	for name := range fields {
		n, ok := a.udfNumber(name)
		if !ok {
			return c.fail(http.StatusBadRequest)
		}
		v, _, ok := text(fields, name)
		if !ok || len(utf16.Encode([]rune(v))) > maxUDFUnits {
			return c.fail(http.StatusBadRequest)
		}
		set[n] = v
	}
	for n, v := range set {
		dev.edit().udf[n] = v
	}
	return done()
}

func (a *Account) udfNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "udf")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 1 && n <= max(a.cfg.UDFs, 30) && strconv.Itoa(n) == digits
}

// setWarranty sets a date or, with null, clears it. "" is refused.
func (a *Account) setWarranty(c *call, dev *device) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	date, present, ok := text(fields, "warrantyDate")
	if _, found := fields["warrantyDate"]; !found || !ok {
		return c.fail(http.StatusBadRequest)
	}
	if present {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return c.fail(http.StatusBadRequest)
		}
	}
	dev.edit().warranty, dev.edit().hasWarranty = date, true
	return done()
}

func (a *Account) moveDevice(c *call, dev *device) reply {
	to := a.site(c.params["siteUid"])
	if to == nil {
		return c.fail(http.StatusNotFound)
	}
	if dev.site != to {
		dev.site = to
		dev.edit().moved = true
		a.logEvent(c.now, "device", "move.device", dev, nil)
	}
	return done()
}

// createJob makes a new job on every call: that a double send shows is the
// point of it.
func (a *Account) createJob(c *call, dev *device) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	name, _, ok := text(fields, "jobName")
	var wanted struct {
		ComponentUID string `json:"componentUid"`
		Variables    []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"variables"`
	}
	if !ok || name == "" || json.Unmarshal(fields["jobComponent"], &wanted) != nil {
		return c.fail(http.StatusBadRequest)
	}
	i, k, ok := readUID(a.seed, kindComponent, wanted.ComponentUID)
	if !ok || k != 0 || int(i) >= len(componentNames) {
		return c.fail(http.StatusNotFound)
	}
	n := len(a.jobs) + 1
	j := &job{id: 900000 + int64(n), uid: makeUID(a.seed, kindJob, uint32(n), 1), name: name, dev: dev, component: a.component(int(i)), created: c.now, given: true}
	for _, v := range wanted.Variables {
		j.variables = append(j.variables, object("name", v.Name, "value", v.Value))
	}
	a.jobs[j.uid] = j
	a.logEvent(c.now, "job", "create", dev, j)
	return answer(object("job", a.renderJob(c, j), "jobComponents", []json.RawMessage{renderJobComponent(j)}))
}

func (a *Account) resolveAlert(c *call, ref alertRef) reply {
	if !a.isResolved(ref) {
		a.resolutions[a.alertUID(ref)] = resolution{by: a.user(0).name, at: c.now}
	}
	return done()
}

// siteBody is the body of a site write. What it leaves out is blank.
type siteBody struct {
	name, description   string
	notes               string
	onDemand, splashtop bool
}

func readSite(fields map[string]json.RawMessage) (b siteBody, ok bool) {
	var ok1, ok2, ok3, ok4, ok5 bool
	b.name, _, ok1 = text(fields, "name")
	b.description, _, ok2 = text(fields, "description")
	b.notes, _, ok3 = text(fields, "notes")
	b.onDemand, ok4 = boolean(fields, "onDemand")
	b.splashtop, ok5 = boolean(fields, "splashtopAutoInstall")
	return b, ok1 && ok2 && ok3 && ok4 && ok5 && strings.TrimSpace(b.name) != ""
}

func (a *Account) nameTaken(name string, by *site) bool {
	s := a.siteByName(name)
	return s != nil && s != by && !a.cfg.DuplicateNames
}

func (a *Account) createSite(c *call) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	b, ok := readSite(fields)
	proxy, proxyOK := readProxy(fields["proxySettings"])
	if !ok || !proxyOK {
		return c.fail(http.StatusBadRequest)
	}
	if a.nameTaken(b.name, nil) {
		return c.fail(http.StatusConflict)
	}
	s := a.newSite(b.name)
	a.fillSite(s, b)
	s.proxy = proxy
	return answer(a.renderSite(s))
}

func (a *Account) updateSite(c *call, s *site) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	b, ok := readSite(fields)
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	if a.nameTaken(b.name, s) {
		return c.fail(http.StatusConflict)
	}
	if b.name != s.name {
		for _, dev := range a.byUID { // what was given says its site in its own words
			if dev.site == s {
				dev.edit().moved = true
			}
		}
	}
	a.fillSite(s, b)
	return answer(a.renderSite(s))
}

func (a *Account) fillSite(s *site, b siteBody) {
	s.name, s.description, s.notes, s.onDemand, s.splashtop = b.name, b.description, b.notes, b.onDemand, b.splashtop
}

// readProxy checks proxy settings; absent and null are none. The password is
// taken and never shown.
func readProxy(raw json.RawMessage) (json.RawMessage, bool) {
	if len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return nil, true
	}
	var p struct {
		Host, Type, Username, Password *string
		Port                           *int32
	}
	if !utf8.Valid(raw) || json.Unmarshal(raw, &p) != nil {
		return nil, false
	}
	switch deref(p.Type) {
	case "", "http", "socks4", "socks5":
	default:
		return nil, false
	}
	var port any
	if p.Port != nil {
		if *p.Port < 1 || *p.Port > 65535 {
			return nil, false
		}
		port = int(*p.Port)
	}
	return object("host", orNull(deref(p.Host)), "password", nil, "port", port, "type", orNull(deref(p.Type)), "username", orNull(deref(p.Username))), true
}

func (a *Account) setProxy(c *call, s *site) reply {
	proxy, ok := readProxy(c.body)
	if !ok || proxy == nil {
		return c.fail(http.StatusBadRequest)
	}
	s.proxy = proxy
	return answer(renderSettings(s))
}

func (a *Account) deleteProxy(_ *call, s *site) reply {
	if s.proxy == nil {
		return reply{status: http.StatusNoContent}
	}
	s.proxy = nil
	return done()
}

func (a *Account) createVariable(c *call, list *[]variable) reply {
	fields, ok := c.fields()
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	name, _, ok1 := text(fields, "name")
	value, _, ok2 := text(fields, "value")
	hidden, ok3 := boolean(fields, "masked")
	if !ok1 || !ok2 || !ok3 || strings.TrimSpace(name) == "" {
		return c.fail(http.StatusBadRequest)
	}
	for _, v := range *list {
		if v.name == name && !a.cfg.DuplicateNames {
			return c.fail(http.StatusConflict)
		}
	}
	a.nextID++
	*list = append(*list, variable{id: a.nextID, name: name, value: value, masked: hidden})
	return done()
}

// findVariable finds the variable of the path, or the answer for the caller.
func findVariable(c *call, list []variable) (int, *reply) {
	id, err := strconv.ParseInt(c.params["variableId"], 10, 64)
	if err != nil {
		r := c.fail(http.StatusBadRequest)
		return 0, &r
	}
	for i, v := range list {
		if v.id == id {
			return i, nil
		}
	}
	r := c.fail(http.StatusNotFound)
	return 0, &r
}

// updateVariable changes what the body names and keeps the rest.
func (a *Account) updateVariable(c *call, list []variable) reply {
	i, refused := findVariable(c, list)
	if refused != nil {
		return *refused
	}
	fields, ok := c.fields()
	name, hasName, ok1 := text(fields, "name")
	value, hasValue, ok2 := text(fields, "value")
	if !ok || !ok1 || !ok2 || hasName && strings.TrimSpace(name) == "" {
		return c.fail(http.StatusBadRequest)
	}
	if hasName {
		list[i].name = name
	}
	if hasValue {
		list[i].value = value
	}
	return done()
}

func (a *Account) deleteVariable(c *call, list *[]variable) reply {
	i, refused := findVariable(c, *list)
	if refused != nil {
		return *refused
	}
	*list = append((*list)[:i:i], (*list)[i+1:]...)
	return done()
}

// resetKeys replaces the pair in use. Tokens that are out stay good.
func (a *Account) resetKeys(c *call) reply {
	a.keyResets++
	old := a.tokens[c.token].key
	a.revoked[old] = true
	d := newDraw(a.seed, kindToken, 1<<40+uint64(a.keyResets))
	key, secret := fmt.Sprintf("SIM%016X", d.next()), fmt.Sprintf("%016x%016x", d.next(), d.next())
	a.keys[key] = secret
	return answer(object("apiAccessKey", key, "apiSecretKey", secret, "userName", a.user(0).name))
}
