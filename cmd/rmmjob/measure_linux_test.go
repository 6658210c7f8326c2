package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// measured runs the program to its end, and tells how long it took and the memory that it had at its largest, in MiB. The
// account is in another process. What the system accounts to an ended process is of no use here: it has the memory of
// the test in it, from before the program took its place.
func (b *bench) measured(state string, args ...string) (took time.Duration, peak int64) {
	b.t.Helper()
	cmd := b.command(state, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.t.Fatalf("%v\n%s", err, &stderr)
			}
			return time.Since(began), peak >> 10
		case <-time.After(5 * time.Millisecond):
			peak = max(peak, largest(cmd.Process.Pid))
		}
	}
}

// largest returns the memory that a process has had at its largest so far, in KiB; 0 when it has ended.
func largest(pid int) (kib int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(rest, &kib) //nolint:errcheck // nothing there: it has ended
	return kib
}

// TestMeasureLargePlan plans 200,000 rows over 50,000 devices, and for comparison only checks them.
func TestMeasureLargePlan(t *testing.T) {
	if os.Getenv("RMMJOB_MEASURE") == "" {
		t.Skip("a measurement: set RMMJOB_MEASURE=1")
	}
	b := newBench(t, "devices=50000,limits=600000/600000")
	var rows strings.Builder
	rows.WriteString("uid,udf1,udf2,udf3,Comment\r\n")
	for round := range 4 {
		for i, uid := range b.account.DeviceUIDs() {
			one, two := fmt.Sprint(i), ""
			if round > 0 {
				one, two = two, one
			}
			fmt.Fprintf(&rows, "%s,%s,%s,\"Büro, 3. Stock\",some remark about it\r\n", uid, one, two)
		}
	}
	b.write("assets.csv", rows.String())
	job := b.write("assets.yaml", "version: 1\nupdate:\n  operation: device-udf-set\n  rows: {csv: assets.csv}\n"+
		"  match: {uid: '{uid}'}\n  set: {udf1: '{udf1}', udf2: '{udf2}', udf3: '{udf3}'}\n")
	for _, verb := range []string{"validate", "plan"} {
		took, peak := b.measured("state", verb, job)
		t.Logf("%s: %s, peak %d MiB", verb, took.Round(time.Millisecond), peak)
	}
}

// TestMeasureDetails exports 20,000 devices with two details each.
func TestMeasureDetails(t *testing.T) {
	if os.Getenv("RMMJOB_MEASURE") == "" {
		t.Skip("a measurement: set RMMJOB_MEASURE=1")
	}
	b := newBench(t, "devices=20000,limits=600000/600000")
	job := b.write("details.yaml", "version: 1\nexport:\n  from: devices\n  second_walk: never\n  with: [audit, software]\n  to: details.csv\n")
	took, peak := b.measured("state", "run", job, "--workers", "16")
	t.Logf("%s, peak %d MiB", took.Round(time.Millisecond), peak)
}
