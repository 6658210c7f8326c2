package rmmsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The activity log is a function of time: one entry in every slot of
// eventEvery since 1970, drawn from its number, back to eventsKept before
// now. Entries of calls are merged in.
const (
	eventEvery   = 30 * time.Second
	eventsKept   = 180 * 24 * time.Hour
	eventDefault = 15 * time.Minute
	eventPage    = 100
	eventPageMax = 1000
)

type event struct {
	at                       time.Time // whole milliseconds
	id                       string
	entity, category, action string
	dev                      *device
	user                     user
	details                  json.RawMessage
	job                      *job
}

type user struct {
	id                      int64
	name, first, last, mail string
	status                  string
	disabled                bool
	telephone               string
	created, lastAccess     int64
}

const users = 12

func (f *fleet) user(i int) user {
	d := newDraw(f.seed, kindUser, uint64(i))
	first := people[i%len(people)]
	first, last, _ := strings.Cut(first, ".")
	if last == "" {
		last = pick(&d, []string{"Bell", "Novák", "Okafor", "Rossi", "Schmidt", "Tanaka"})
	}
	u := user{
		id: int64(70 + i), name: people[i%len(people)], first: strings.ToUpper(first[:1]) + first[1:], last: last,
		mail: fmt.Sprintf("user%d@msp.example.com", i+1), status: "active", disabled: d.chance(150),
	}
	if u.disabled {
		u.status = "disabled"
	}
	if strings.HasPrefix(first, "ł") {
		u.first = "Ł" + first[len("ł"):]
	}
	u.created = reference.AddDate(0, 0, -d.between(100, 2000)).UnixMilli()
	u.lastAccess = reference.Add(-time.Duration(d.below(90*24)) * time.Hour).UnixMilli()
	if d.chance(200) {
		u.telephone = "+44 20 7946 0" + strconv.Itoa(100+d.below(900))
	}
	return u
}

func (a *Account) renderUser(i int) json.RawMessage {
	u := a.user(i)
	return object("firstName", u.first, "lastName", u.last, "username", u.name, "email", u.mail, "telephone", orNull(u.telephone), "status", u.status,
		"created", a.date(u.created), "lastAccess", a.date(u.lastAccess), "disabled", u.disabled)
}

// drawnEvent is the entry of slot i; there is none without devices.
func (a *Account) drawnEvent(i int64) (event, bool) {
	if len(a.logged) == 0 || i < 0 {
		return event{}, false
	}
	d := newDraw(a.seed, kindEvent, uint64(i))
	at := time.UnixMilli(i*eventEvery.Milliseconds() + int64(d.below(int(eventEvery.Milliseconds())))).UTC()
	e := event{at: at, id: fmt.Sprintf("AY%012x", i), entity: "DEVICE", dev: a.logged[d.below(len(a.logged))], user: a.user(d.below(users))}
	switch d.below(10) {
	case 0, 1, 2, 3, 4:
		e.category, e.action = "job", "deployment"
		e.job = &job{id: 500000 + i, uid: makeUID(a.seed, kindJob, uint32(i), 0), dev: e.dev, component: a.component(d.below(len(componentNames))), created: at}
		e.job.name = e.job.component.name
	case 5:
		e.category, e.action = "remote", "chat"
	case 6, 7:
		e.category, e.action = "remote", "jrto"
	case 8:
		e.category, e.action = "device", "move.device"
	default:
		e.entity, e.category, e.action = "USER", "user", "login"
	}
	e.details = a.eventDetails(e)
	return e, true
}

// eventDetails is the JSON that the log carries inside a string.
func (a *Account) eventDetails(e event) json.RawMessage {
	pairs := []any{
		"entity", strings.ToLower(e.entity), "event.action", e.action, "event.category", e.category, "uid", e.id,
		"user.email", e.user.mail, "user.id", e.user.id, "user.username", e.user.name,
	}
	if e.entity == "DEVICE" {
		pairs = append(pairs, "device.hostname", a.search(e.dev).hostname, "device.uid", a.uid(e.dev))
	}
	if e.job != nil {
		pairs = append(pairs, "job.id", e.job.id, "job.name", e.job.name, "job.uid", e.job.uid, "job.status", "active", "job.date_created", e.at.UnixMilli())
	}
	if e.category == "remote" {
		pairs = append(pairs, "remote_session.id", e.id, "remote_session.type", e.action, "remote_session.start_date", e.at.UnixMilli())
	}
	return object(pairs...)
}

// logEvent adds an entry for a call.
func (a *Account) logEvent(now time.Time, category, action string, dev *device, j *job) {
	e := event{at: now.Truncate(time.Millisecond).UTC(), entity: "DEVICE", category: category, action: action, dev: dev, job: j, user: a.user(0)}
	e.id = fmt.Sprintf("AZ%012d", len(a.events))
	e.details = a.eventDetails(e)
	a.events = append(a.events, e)
}

func (a *Account) renderEvent(e event) json.RawMessage {
	var siteRef, deviceID, hostname any
	if e.entity == "DEVICE" {
		deviceID, hostname = a.id(e.dev), a.search(e.dev).hostname
		if e.dev.site != nil {
			siteRef = object("id", e.dev.site.id, "name", e.dev.site.name)
		}
	}
	ms := e.at.UnixMilli()
	return object("id", e.id, "entity", e.entity, "category", e.category, "action", e.action,
		"date", json.RawMessage(fmt.Sprintf("%d.%03d", ms/1000, ms%1000)), "site", siteRef, "deviceId", deviceID, "hostname", hostname,
		"user", object("id", e.user.id, "userName", e.user.name, "firstName", e.user.first, "lastName", e.user.last),
		"details", string(e.details), "hasStdOut", e.job != nil, "hasStdErr", false)
}

// eventQuery is a request of the activity log, read and checked.
type eventQuery struct {
	from, until time.Time
	size        int
	desc        bool
	back        bool
	after       *event // only at and id
	has         func(e event) bool
}

func (a *Account) readEventQuery(c *call) (q eventQuery, ok bool) {
	v := c.query
	q.until, q.from = c.now, c.now.Add(-eventDefault).Truncate(time.Second)
	for name, t := range map[string]*time.Time{"from": &q.from, "until": &q.until} {
		if s := v.Get(name); s != "" {
			parsed, err := time.Parse("2006-01-02T15:04:05Z", s)
			if err != nil {
				return q, false
			}
			*t = parsed
		}
	}
	if oldest := c.now.Add(-eventsKept); q.from.Before(oldest) {
		q.from = oldest
	}
	if q.size, ok = intParam(v, "size", eventPage); !ok || q.size < 1 {
		return q, false
	}
	q.size = min(q.size, eventPageMax)
	switch v.Get("order") {
	case "", "desc":
		q.desc = true
	case "asc":
	default:
		return q, false
	}
	switch v.Get("page") {
	case "previous":
		q.back = true
	case "", "next":
	default:
		return q, false
	}
	if after := v["searchAfter"]; len(after) > 0 {
		after = strings.Split(strings.Join(after, ","), ",")
		ms, err := strconv.ParseInt(after[0], 10, 64)
		if err != nil || len(after) != 2 {
			return q, false
		}
		q.after = &event{at: time.UnixMilli(ms), id: after[1]}
	}
	entities, categories, actions := commaList(v, "entities"), commaList(v, "categories"), commaList(v, "actions")
	sites, userIDs := commaList(v, "siteIds"), commaList(v, "userIds")
	for _, n := range slices.Concat(sites, userIDs) {
		if _, err := strconv.ParseInt(n, 10, 64); err != nil {
			return q, false
		}
	}
	in := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	q.has = func(e event) bool {
		siteID := ""
		if e.entity == "DEVICE" && e.dev.site != nil {
			siteID = strconv.FormatInt(e.dev.site.id, 10)
		}
		return in(entities, strings.ToLower(e.entity)) && in(categories, e.category) && in(actions, e.action) &&
			in(sites, siteID) && in(userIDs, strconv.FormatInt(e.user.id, 10))
	}
	return q, true
}

func commaList(v url.Values, name string) (list []string) {
	for _, s := range v[name] {
		list = append(list, strings.Split(s, ",")...)
	}
	return list
}

func compareEvents(a, b event) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.id, b.id)) }

// find walks the slots from the cursor on in the order of the request.
func (a *Account) findEvents(q eventQuery, now time.Time) (found []event) {
	desc := q.desc != q.back
	if now.Before(q.until) {
		q.until = now
	}
	slot := func(t time.Time) int64 { return t.UnixMilli() / eventEvery.Milliseconds() }
	called := map[int64][]event{}
	for _, e := range a.events {
		called[slot(e.at)] = append(called[slot(e.at)], e)
	}
	low, high := slot(q.from), slot(q.until)
	if q.after != nil && desc {
		high = min(high, slot(q.after.at))
	} else if q.after != nil {
		low = max(low, slot(q.after.at))
	}
	for n := int64(0); n <= high-low && len(found) < q.size; n++ {
		i := low + n
		if desc {
			i = high - n
		}
		entries := called[i]
		if e, ok := a.drawnEvent(i); ok {
			entries = append(slices.Clip(entries), e)
		}
		slices.SortFunc(entries, func(x, y event) int {
			if desc {
				x, y = y, x
			}
			return compareEvents(x, y)
		})
		for _, e := range entries {
			if e.at.Before(q.from) || e.at.After(q.until) || !q.has(e) || len(found) == q.size {
				continue
			}
			if q.after != nil {
				if side := compareEvents(e, *q.after); desc && side >= 0 || !desc && side <= 0 {
					continue
				}
			}
			found = append(found, e)
		}
	}
	if q.back {
		slices.Reverse(found)
	}
	return found
}

// activityLogs answers one page of the log. As on the real service the last
// page has a nextPageUrl too; only the empty page after it has none.
func (a *Account) activityLogs(c *call) reply {
	q, ok := a.readEventQuery(c)
	if !ok {
		return c.fail(http.StatusBadRequest)
	}
	found := a.findEvents(q, c.now)
	var prev, next any
	items := make([]json.RawMessage, 0, len(found))
	for _, e := range found {
		items = append(items, a.renderEvent(e))
	}
	if n := len(found); n > 0 {
		next = eventURL(c, q, "next", found[n-1])
		if q.after != nil {
			prev = eventURL(c, q, "previous", found[0])
		}
	}
	return a.envelope(c, "activities", items, []any{"count", len(items)}, prev, next, "error", nil)
}

func eventURL(c *call, q eventQuery, page string, at event) string {
	v := url.Values{}
	for name, values := range c.query {
		v[name] = values
	}
	// The default range would slide along while the pages are read.
	v.Set("from", q.from.UTC().Format("2006-01-02T15:04:05Z"))
	if c.query.Get("until") == "" {
		v.Set("until", q.until.UTC().Add(time.Second).Format("2006-01-02T15:04:05Z"))
	}
	v.Set("size", strconv.Itoa(q.size))
	v.Set("page", page)
	v["searchAfter"] = []string{strconv.FormatInt(at.at.UnixMilli(), 10), at.id}
	return c.base + "/api" + c.path + "?" + v.Encode()
}
