package rmmsim

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"rmmjob/internal/rmm"
)

// The project's own client must get along with the account: login, pages,
// rate, errors.
func TestOurClientWalksTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{Devices: 30, UDFs: 3, Latency: 50 * time.Millisecond, TokenLifetime: time.Hour, NextForgets: true})
		if err != nil {
			t.Fatal(err)
		}
		base, err := rmm.ParseBaseURL(a.BaseURL())
		if err != nil {
			t.Fatal(err)
		}
		client, err := rmm.New(rmm.Config{BaseURL: base, Key: "k", Secret: "s", Transport: a.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		op, _ := rmm.Lookup("devices")
		req := rmm.Request{Op: op.Name, Query: url.Values{"filterId": {"77"}, "max": {"3"}}}
		n := 0
		for {
			res, err := client.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			page, err := rmm.ParsePage(op, res.Body)
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.Items)
			if page.Next == "" {
				break
			}
			if req.Query, err = rmm.NextQuery(req, page.Next); err != nil {
				t.Fatal(err)
			}
		}
		if n != 10 {
			t.Errorf("%d devices of the filter, want 10", n)
		}
		rate, err := client.RequestRate(t.Context())
		if err != nil || rate.Count != 5 || rate.Limit != 600 || len(rate.Operations) != 16 {
			t.Errorf("rate %+v, %v", rate, err)
		}
		time.Sleep(2 * time.Hour)
		_, err = client.Do(t.Context(), rmm.Request{Op: "device", Path: map[string]string{"deviceUid": "nobody"}})
		var refused *rmm.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || !refused.JSON {
			t.Errorf("unknown device: %v", err)
		}
		if counts := a.Counts(); counts.Operations[opToken][http.StatusOK] != 2 {
			t.Errorf("logins %v", counts.Operations[opToken])
		}
	})
}
