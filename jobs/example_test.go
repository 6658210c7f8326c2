package jobs_test

import (
	"fmt"

	"rmmjob/jobs"
)

// A work names the first request; each answer adds the requests that follow from
// it. The keys say what an item is, so the same answer adds the same items,
// however often it comes.
func ExampleNewExportWork() {
	job, err := jobs.Parse([]byte(`version: 1
export:
  from: devices
  filter: {siteName: Depot North}
  to: 'out/devices-{date}.csv'
`), "nightly.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	work := jobs.NewExportWork(job, jobs.Settings{PageSize: 2})
	stage, items := work.Start()
	fmt.Println(stage, items[0].Key, items[0].Request.Query.Encode())

	more, err := work.Follow(items[0], []byte(`{
		"pageDetails": {"count": 2, "totalCount": 5, "nextPageUrl": "https://merlot-api.example/api/v2/account/devices?max=2&page=1"},
		"devices": [{"uid": "a"}, {"uid": "b"}]
	}`))
	for _, it := range more {
		fmt.Println(it.Key, it.Request.Query.Encode())
	}
	fmt.Println(err)
	// Output:
	// read list/devices/98/0000000 max=2&page=0&siteName=Depot+North
	// list/devices/98/0000001 max=2&page=1&siteName=Depot+North
	// list/devices/98/0000002 max=2&page=2&siteName=Depot+North
	// <nil>
}
