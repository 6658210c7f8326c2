package jobs_test

import (
	"fmt"

	"rmmjob/jobs"
)

func ExampleParse() {
	_, err := jobs.Parse([]byte(`version: 1
export:
  from: devices
  filter: { sitename: Depot North }
  to: 'out/devices-{date}.csv'
wrokers: 4
`), "nightly.yaml")
	fmt.Println(err)
	// Output:
	// nightly.yaml:4:13: unknown filter "sitename" of "devices" (did you mean "siteName"?)
	// nightly.yaml:6:1: unknown key "wrokers" in the job (did you mean "workers"?)
}
