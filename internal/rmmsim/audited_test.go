package rmmsim

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What Audit and ResolveAlert do shows in the answers of the account, once.
func TestAuditAndResolve(t *testing.T) {
	c := newTester(t, Config{Devices: 50, Software: 3})
	uid := c.a.DeviceUIDs()[0] // of class device
	software := func() string {
		_, text, _ := c.do(http.MethodGet, "/v2/audit/device/"+uid+"/software", "")
		return text
	}
	before := software()
	at := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	if err := c.a.Audit(uid, at); err != nil {
		t.Fatal(err)
	}
	if dev := c.get("/v2/device/" + uid); !strings.Contains(dev, fmt.Sprintf(`"lastAuditDate":%d`, at.UnixMilli())) {
		t.Errorf("the device does not tell its audit: %s", dev)
	}
	after := software()
	if after == before {
		t.Error("the audit has found nothing new")
	}
	if again := software(); again != after {
		t.Error("the answer changes by itself")
	}
	if err := c.a.Audit("nobody", at); err == nil {
		t.Error("a device that does not exist was audited")
	}

	_, open, _ := c.do(http.MethodGet, "/v2/account/alerts/open", "")
	_, rest, _ := strings.Cut(open, `"alertUid":"`)
	alert, _, _ := strings.Cut(rest, `"`)
	if err := c.a.ResolveAlert(alert, at); err != nil {
		t.Fatal(err)
	}
	if err := c.a.ResolveAlert(alert, at); err == nil {
		t.Error("an alert was resolved twice")
	}
	_, resolved, _ := c.do(http.MethodGet, "/v2/account/alerts/resolved", "")
	if _, open, _ := c.do(http.MethodGet, "/v2/account/alerts/open", ""); strings.Contains(open, alert) || !strings.Contains(resolved, alert) ||
		!strings.Contains(resolved, fmt.Sprintf(`"resolvedOn":%d`, at.UnixMilli())) {
		t.Error("the alert is not among the resolved ones alone")
	}
}
