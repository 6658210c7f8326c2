package rmmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// tester is a bare client of an account: it does nothing by itself but log in.
type tester struct {
	t      testing.TB
	a      *Account
	client *http.Client
	token  string
}

func newTester(t testing.TB, cfg Config) *tester {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &tester{t: t, a: a, client: &http.Client{Transport: a.Transport()}}
	c.login("key", "secret")
	return c
}

// login gets a token and gives the status.
func (c *tester) login(key, secret string) int {
	c.t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {key}, "password": {secret}}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.a.BaseURL()+tokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	req.SetBasicAuth(clientID, clientSecret)
	res, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode
	}
	var got struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		c.t.Fatal(err)
	}
	c.token = got.Token
	return res.StatusCode
}

func (c *tester) request(method, path, body string) *http.Request {
	c.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = c.a.BaseURL() + "/api" + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	return req
}

// do sends a request; err is that of sending or of reading the body.
func (c *tester) do(method, path, body string) (int, string, error) {
	c.t.Helper()
	res, err := c.client.Do(c.request(method, path, body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), err
}

// want sends a request that must be answered with the status.
func (c *tester) want(status int, method, path, body string) string {
	c.t.Helper()
	got, text, err := c.do(method, path, body)
	if err != nil || got != status {
		c.t.Fatalf("%s %s: status %d, error %v, body %.300s; want %d", method, path, got, err, text, status)
	}
	return text
}

func (c *tester) get(path string) string {
	c.t.Helper()
	return c.want(http.StatusOK, http.MethodGet, path, "")
}

type pageDetails struct {
	Count      int
	TotalCount *int64
	Prev       *string `json:"prevPageUrl"`
	Next       *string `json:"nextPageUrl"`
}

// walk follows nextPageUrl to the end and gives the elements.
func (c *tester) walk(path, element string) (items []map[string]any, pages int) {
	c.t.Helper()
	for next := path; next != ""; {
		var page map[string]json.RawMessage
		decode(c.t, c.get(next), &page)
		var details pageDetails
		decode(c.t, string(page["pageDetails"]), &details)
		var list []map[string]any
		decode(c.t, string(page[element]), &list)
		if details.Count != len(list) {
			c.t.Fatalf("%s: count %d of %d elements", next, details.Count, len(list))
		}
		items = append(items, list...)
		pages++
		next = deref(details.Next)
		if pages > 5000 {
			c.t.Fatal("the list has no end")
		}
	}
	return items, pages
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}

func TestPageWalkFindsEveryDeviceOnce(t *testing.T) {
	for _, tt := range []struct{ devices, max, pages int }{
		{1, 2, 1}, {4, 2, 2}, {5, 2, 3}, {1200, 250, 5}, {1000, 0, 4}, {300, 10000, 2},
	} {
		t.Run(fmt.Sprintf("%d by %d", tt.devices, tt.max), func(t *testing.T) {
			c := newTester(t, Config{Devices: tt.devices, UDFs: 2})
			path := "/v2/account/devices"
			if tt.max > 0 {
				path += fmt.Sprintf("?max=%d", tt.max)
			}
			items, pages := c.walk(path, "devices")
			uids := map[any]bool{}
			for _, it := range items {
				uids[it["uid"]] = true
			}
			if len(items) != tt.devices || len(uids) != tt.devices || pages != tt.pages {
				t.Errorf("%d devices, %d uids, %d pages; want %d devices on %d pages", len(items), len(uids), pages, tt.devices, tt.pages)
			}
		})
	}
}

// Many clients at once, for the race detector; what they wrote must add up.
func TestConcurrentClients(t *testing.T) {
	c := newTester(t, Config{Devices: 40, UDFs: 8, Limits: Limits{Off: true}})
	uids := c.a.DeviceUIDs()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i, uid := range uids {
				c.want(http.StatusOK, http.MethodPost, "/v2/device/"+uid+"/udf", fmt.Sprintf(`{"udf%d":"%d"}`, w+1, i))
				c.get("/v2/account/devices?max=5&siteName=o")
				c.get("/v2/account/sites?max=2")
				c.a.Counts()
			}
		})
	}
	wg.Wait()
	for i, uid := range uids {
		for w := range 8 {
			if got := c.a.UDF(uid, fmt.Sprintf("udf%d", w+1)); got != fmt.Sprint(i) {
				t.Fatalf("udf%d of device %d is %q", w+1, i, got)
			}
		}
	}
	if n := c.a.Counts().Applied; n != 8*len(uids) {
		t.Errorf("%d writes applied", n)
	}
}

// A snapshot tells of every change, and nothing of reads.
func TestSnapshot(t *testing.T) {
	a, err := New(Config{Devices: 3})
	if err != nil {
		t.Fatal(err)
	}
	last := a.Snapshot()
	if a.Snapshot() != last {
		t.Error("two snapshots of one state differ")
	}
	uid := a.DeviceUIDs()[0]
	for name, change := range map[string]func() error{
		"a field":  func() error { return a.SetUDF(uid, "udf7", "new") },
		"a device": func() error { a.RemoveDevice(a.DeviceUIDs()[2]); return nil },
		"a site":   func() error { return a.AddDevice(`{"uid":"x","siteName":"Fresh"}`) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if now := a.Snapshot(); now == last {
			t.Errorf("%s does not show", name)
		} else {
			last = now
		}
	}
}
