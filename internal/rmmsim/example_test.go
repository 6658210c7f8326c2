package rmmsim_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"rmmjob/internal/rmmsim"
)

// An account of five devices whose first answer to a list of sites is an
// outage, asked in process.
func Example() {
	account, err := rmmsim.New(rmmsim.Config{Devices: 5, Faults: []rmmsim.Fault{
		{Match: rmmsim.Match{Operation: "sites", Nth: 1}, Do: rmmsim.Action{Status: http.StatusServiceUnavailable}},
	}})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: account.Transport()}
	call := func(method, path, token, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(context.Background(), method, account.BaseURL()+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		if token == "" {
			req.SetBasicAuth("public-client", "public")
		}
		req.Header.Set("Authorization", cmp.Or(token, req.Header.Get("Authorization")))
		return client.Do(req)
	}
	form := url.Values{"grant_type": {"password"}, "username": {"any"}, "password": {"pair"}}
	res, err := call(http.MethodPost, "/auth/oauth/token", "", form.Encode())
	if err != nil {
		panic(err)
	}
	answer, _ := io.ReadAll(res.Body)
	token := "Bearer " + strings.Split(string(answer), `"`)[3]
	for range 2 {
		res, err := call(http.MethodGet, "/api/v2/account/sites", token, "")
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Status)
	}
	for _, rec := range account.Log() {
		fmt.Println(rec.Method, rec.Path, rec.Status)
	}
	// Output:
	// 503 Service Unavailable
	// 200 OK
	// POST /auth/oauth/token 200
	// GET /api/v2/account/sites 503
	// GET /api/v2/account/sites 200
}
