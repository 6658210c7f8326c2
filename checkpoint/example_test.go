package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rmmjob/checkpoint"
)

// A run is made, interrupted with one request in flight, and resumed.
func Example() {
	folder, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	ctx, path := context.Background(), filepath.Join(folder, "state.db")
	now := time.Date(2025, 3, 6, 1, 0, 0, 0, time.UTC)

	session := func() {
		store, err := checkpoint.Open(ctx, path)
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		run, found, err := store.LastRun(ctx, "nightly")
		if err != nil {
			log.Fatal(err)
		}
		if !found {
			run = checkpoint.Run{ID: "20250306-1", JobKey: "nightly", Created: now}
			if err := store.CreateRun(ctx, run); err != nil {
				log.Fatal(err)
			}
		}
		if err := store.BeginRun(ctx, run.ID, now, "host", os.Getpid()); err != nil {
			log.Fatal(err)
		}
		recovered, err := store.Recover(ctx, run.ID, now)
		if err != nil {
			log.Fatal(err)
		}
		added, err := store.AddItems(ctx, run.ID, now, slices.Values([]checkpoint.NewItem{
			{Key: "devices/1", Lane: "read"}, {Key: "sites/1", Lane: "read"},
		}))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d new items, %d left by a crash\n", added, recovered.Returned)

		for {
			claim, ok, _, err := store.Claim(ctx, run.ID, "read", now)
			if err != nil {
				log.Fatal(err)
			}
			if !ok {
				break
			}
			answer := []byte("answer of " + claim.Key) // the request goes here
			if claim.Key == "sites/1" && run.Started.IsZero() {
				return // in the first session, the program is killed here
			}
			if err := store.Finish(ctx, claim, now, checkpoint.Done(answer).Acked(checkpoint.Read)); err != nil {
				log.Fatal(err)
			}
		}
		for r, err := range store.Results(ctx, run.ID, "") {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %s\n", r.Key, r.Body)
		}
	}
	session()
	session()
	// Output:
	// 2 new items, 0 left by a crash
	// 0 new items, 1 left by a crash
	// devices/1: answer of devices/1
	// sites/1: answer of sites/1
}
