package rmmsim_test

import (
	"context"
	"encoding/json"
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
	// call gives the status line and the body of an answer.
	call := func(method, path, token, body string) (string, string) {
		req, err := http.NewRequestWithContext(context.Background(), method, account.BaseURL()+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		req.SetBasicAuth("public-client", "public")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			panic(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			panic(err)
		}
		return res.Status, string(answer)
	}
	form := url.Values{"grant_type": {"password"}, "username": {"any"}, "password": {"pair"}}
	_, login := call(http.MethodPost, "/auth/oauth/token", "", form.Encode())
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(login), &answer); err != nil {
		panic(err)
	}
	for range 2 {
		status, _ := call(http.MethodGet, "/api/v2/account/sites", answer.Token, "")
		fmt.Println(status)
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
