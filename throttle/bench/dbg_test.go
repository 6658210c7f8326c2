package main

import (
	"fmt"
	"os"
	"rmmjob/throttle"
	"strconv"
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	pr := os.Getenv("P")
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	if n == 0 {
		t.Skip()
	}
	var who contender
	for _, c := range contenders() {
		if c.name == pr {
			who = c
		}
	}
	w := newWorld(uint64(seed), settings{})
	w.end = w.start.Add(20 * time.Minute)
	if os.Getenv("S6") != "" {
		w.end = w.start.Add(30 * time.Minute)
		w.strangers(throttle.Read, 7, onAndOff(w, 30*time.Minute))
	}
	if os.Getenv("S7") != "" {
		w.strangers(throttle.Read, 8, []phase{{0, time.Minute}})
		c := w.client("a", 8, map[string]int{throttle.Read: 3000}, who)
		c.begin = w.start.Add(time.Minute)
		n = 0
	}
	for i := range n {
		c := w.client(fmt.Sprint("s", i), 8, map[string]int{throttle.Read: endless}, who)
		c.begin = w.start.Add(time.Duration(w.rng.Float64() * float64(10*time.Second)))
	}
	step := 2 * time.Second
	var tick func()
	tick = func() {
		r := w.quota.Reading(w.now)
		fmt.Printf("%5.0f tot %3d |", w.now.Sub(w.start).Seconds(), r.ReadCount)
		for _, c := range w.clients {
			st := c.gate.(*engine).core.Status(w.now)
			b := st.Buckets[0]
			fmt.Printf(" own %3d oth %3d use %.3f dl %4d next %.1f r429 %d |", b.Own, b.Others, b.Utilisation, b.Delay.Milliseconds(), b.NextCalibration.Sub(w.now).Seconds(), c.refused)
		}
		fmt.Println()
		w.after(step, tick)
	}
	w.at(w.start.Add(time.Millisecond), tick)
	w.run()
}
