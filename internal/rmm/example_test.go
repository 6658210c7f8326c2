package rmm_test

import (
	"fmt"

	"rmmjob/internal/rmm"
)

// A list page by page, as far as it goes without a network.
func Example() {
	op, _ := rmm.Lookup("devices")
	fmt.Println(op.Method, op.Path, op.Paging, op.Lane())

	req := rmm.Request{Op: op.Name, Query: map[string][]string{"siteName": {"Contoso"}, "max": {"1"}}}
	body := []byte(`{"pageDetails":{"count":1,"totalCount":2,
		"nextPageUrl":"https://merlot-api.centrastage.net/api/v2/account/devices?max=1&page=1"},
		"devices":[{"uid":"7d3c","hostname":"ACME-LT01"}]}`)
	page, err := rmm.ParsePage(op, body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Items), "of", page.Total)

	// The server has lost the site name; it is put back.
	req.Query, err = rmm.NextQuery(req, page.Next)
	fmt.Println(req.Query.Encode(), err)
	// Output:
	// GET /v2/account/devices pages read
	// 1 of 2
	// max=1&page=1&siteName=Contoso <nil>
}
