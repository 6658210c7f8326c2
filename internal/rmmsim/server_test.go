package rmmsim

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve puts an account on a loopback port and gives a client of it.
func serve(t *testing.T, cfg Config) (c *tester, base string, stop func() error) {
	t.Helper()
	c = newTester(t, cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.a.Serve(ctx, ln) }()
	c.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c, "http://" + ln.Addr().String(), func() error { cancel(); return <-ended }
}

func TestServe(t *testing.T) {
	c, base, stop := serve(t, Config{Devices: 30, UDFs: 1})
	items, pages := c.walk(base+"/api/v2/account/devices?max=7", "devices") // nextPageUrl is on this host
	if len(items) != 30 || pages != 5 {
		t.Errorf("%d devices on %d pages", len(items), pages)
	}
	if inProcess, served := c.a, c.get(base+"/api/v2/device/"+items[0]["uid"].(string)); true {
		raw, _ := inProcess.Device(items[0]["uid"].(string))
		if string(raw) != served {
			t.Error("the same device differs in process and over HTTP")
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if _, _, err := c.do(http.MethodGet, base+"/api/v2/account", ""); err == nil {
		t.Error("still served")
	}
}

func TestServeLetsOpenRequestsFinish(t *testing.T) {
	c, base, stop := serve(t, Config{Devices: 1, Latency: 200 * time.Millisecond})
	arrived := make(chan struct{})
	if err := c.a.AddFaults(Fault{Match: Match{Nth: 1}, Do: Action{Func: func(*Account, *http.Request) { close(arrived) }}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		status, _, _ := c.do(http.MethodGet, base+"/api/v2/account", "")
		done <- status
	}()
	<-arrived
	if err := stop(); err != nil {
		t.Error(err)
	}
	if status := <-done; status != http.StatusOK {
		t.Errorf("the open request got %d", status)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	a, err := New(Config{Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := a.Serve(t.Context(), ln); err == nil {
		t.Error("no error from a closed listener")
	}
}

func TestControl(t *testing.T) {
	c, base, stop := serve(t, Config{Devices: 2, UDFs: 1})
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	uid := c.a.DeviceUIDs()[0]
	c.want(http.StatusOK, http.MethodPost, base+"/api/v2/device/"+uid+"/udf", `{"udf1":"x"}`)
	if got := c.want(http.StatusOK, http.MethodPost, base+"/_sim/faults", "- do: {status: 502}\n  match: {operation: account}"); strings.TrimSpace(got) != `{"added":1}` {
		t.Error(got)
	}
	c.want(http.StatusBadGateway, http.MethodGet, base+"/api/v2/account", "")
	c.want(http.StatusOK, http.MethodPost, base+"/_sim/faults?replace=true", "")
	c.get(base + "/api/v2/account")
	if got := c.want(http.StatusBadRequest, http.MethodPost, base+"/_sim/faults", "- do: {stauts: 1}"); !strings.Contains(got, `faults:1: unknown key "stauts"`) {
		t.Error(got)
	}
	c.want(http.StatusNotFound, http.MethodGet, base+"/_sim/else", "")

	var statuses []int
	lines := bufio.NewScanner(strings.NewReader(c.get(base + "/_sim/log")))
	for lines.Scan() {
		var rec Record
		decode(t, lines.Text(), &rec)
		statuses = append(statuses, rec.Status)
		if rec.Operation == "device-udf-set" && (!rec.Applied || rec.Body != `{"udf1":"x"}` || rec.BodySize != 12 || len(rec.BodyHash) != 64) {
			t.Errorf("record %+v", rec)
		}
	}
	if len(statuses) != 4 {
		t.Errorf("log of %v; the control calls are not part of it", statuses)
	}
	var counts Counts
	decode(t, c.get(base+"/_sim/counts"), &counts)
	if counts.Requests != 4 || counts.Reads != 1 || counts.Writes != 1 || counts.Applied != 1 || counts.Operations["account"][502] != 1 {
		t.Errorf("counts %+v", counts)
	}
}

func TestBoundedLogKeepsTheNewest(t *testing.T) {
	c := newTester(t, Config{Devices: 1, LogLimit: 3})
	for range 20 {
		c.get("/v2/system/pagination")
	}
	log := c.a.Log()
	if len(log) != 3 || log[2].Seq != 21 || c.a.Counts().Requests != 21 {
		t.Errorf("%d records, the last is %d, %d counted", len(log), log[len(log)-1].Seq, c.a.Counts().Requests)
	}
}

func TestHugeBodyIsRefused(t *testing.T) {
	c, base, stop := serve(t, Config{Devices: 1})
	defer func() { _ = stop() }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v2/device/x/udf", io.LimitReader(zeros{}, maxBody+1))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return // the server may hang up before everything is sent
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
