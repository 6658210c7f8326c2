package throttle_test

import (
	"context"
	"fmt"
	"time"

	"rmmjob/throttle"
)

func Example() {
	profile, _ := throttle.Lookup("medium")
	limiter, err := throttle.New(throttle.Config{
		Profile: profile,
		Probe: func(context.Context) (throttle.Reading, error) { // asks the server
			return throttle.Reading{
				Window: time.Minute, CutOff: 0.9, Limit: 600, Count: 42,
				HasWrite: true, WriteLimit: 600,
				Ops: map[string]throttle.OpReading{"device-udf-set": {Limit: 600}},
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := limiter.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	permit, err := limiter.Wait(ctx, "device-udf-set")
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := permit.Done(throttle.Result{Status: 200, JSON: true}) // after the request
	fmt.Println("send it again:", verdict.Returned)
	for _, b := range limiter.Status().Buckets {
		fmt.Printf("%s: %d own, %d others, limit %d\n", b.Name, b.Own, b.Others, b.Limit)
	}
	// Output:
	// send it again: false
	// reads: 1 own, 41 others, limit 600
	// writes: 1 own, 0 others, limit 600
	// device-udf-set: 1 own, 0 others, limit 600
}
