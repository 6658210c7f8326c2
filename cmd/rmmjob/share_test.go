package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/throttle"
)

func openSharing(t *testing.T, dir, account string) *sharing {
	t.Helper()
	s := newSharing(account)
	if err := s.start(t.Context(), dir, func(err error) { t.Errorf("the ledger broke: %v", err) }); err != nil {
		t.Fatal(err)
	}
	return s
}

// What one tells, each other one hears once; who comes later hears what is in the window, and
// another account hears nothing.
func TestSharing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, other := openSharing(t, dir, "acc"), openSharing(t, dir, "acc"), openSharing(t, dir, "elsewhere")
	now := time.Now()
	for i := range 25 {
		a.Sent("read", now.Add(time.Duration(i)*time.Millisecond))
	}
	a.Sent("device-udf-set", now)
	a.close()
	b.Sent("read", now)
	late := openSharing(t, dir, "acc")
	b.close()
	other.close()
	late.close()
	count := func(s *sharing) map[string]int {
		n := map[string]int{}
		for _, p := range s.Poll(now) {
			n[p.Lane] += p.N
			if p.Process == s.process || p.At.Before(now.Add(-time.Second)) {
				t.Errorf("heard %+v", p)
			}
		}
		return n
	}
	if n := count(b); n["read"] != 25 || n["device-udf-set"] != 1 {
		t.Errorf("b heard %v", n)
	}
	if n := count(late); n["read"] != 26 {
		t.Errorf("the late one heard %v", n)
	}
	if n := count(a); n["read"] != 0 {
		t.Errorf("a heard %v after its end", n)
	}
	if n := count(other); len(n) != 0 {
		t.Errorf("another account heard %v", n)
	}
}

// Requests are sent while the ledger is written; the race detector watches.
func TestSharingWhileSending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := newSharing("acc"), openSharing(t, dir, "acc")
	ledger, err := checkpoint.OpenLedger(t.Context(), filepath.Join(dir, "sends.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ledger.Close() }()
	a.ledger = ledger
	const sends = 300
	var sending sync.WaitGroup
	sending.Go(func() {
		for range sends {
			a.Sent("read", time.Now())
		}
	})
	for range 30 {
		if err := a.exchange(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	sending.Wait()
	if err := a.exchange(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	b.close()
	n := 0
	for _, p := range b.Poll(time.Now()) {
		n += p.N
	}
	if n != sends {
		t.Errorf("heard %d of %d", n, sends)
	}
}

// A run that does not ask for hours does not keep what others sent in them.
func TestSharingForgets(t *testing.T) {
	t.Parallel()
	dir, begin := t.TempDir(), time.Now().Add(-5*time.Hour)
	ledger, err := checkpoint.OpenLedger(t.Context(), filepath.Join(dir, "sends.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ledger.Close() }()
	s := newSharing("acc")
	s.ledger = ledger
	for i := range 3 * shareMost / 2 {
		at := begin.Add(time.Duration(i) * 5 * time.Second)
		if err := ledger.Add(t.Context(), "acc", "other", throttle.Read, at, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.exchange(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.heard); n > shareMost {
		t.Errorf("%d sends are kept", n)
	}
	if n := len(s.known); n > 100 {
		t.Errorf("%d slots are kept", n)
	}
}

// A ledger that breaks is told once, and the sharing does no harm from then on.
func TestSharingThatBreaks(t *testing.T) {
	t.Parallel()
	told := make(chan error, 2)
	s := newSharing("acc")
	if err := s.start(t.Context(), t.TempDir(), func(err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	s.Sent(throttle.Read, time.Now())
	if err := <-told; err == nil {
		t.Error("no error was told")
	}
	for range 3 {
		s.Sent(throttle.Read, time.Now())
	}
	s.close()
	if len(told) > 0 || len(s.sent) > 0 {
		t.Errorf("told again, or %v still collected", s.sent)
	}
}

// A run goes on without a ledger that cannot be opened, with a warning.
func TestRunWithoutLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=20,latency=1ms")
	if err := os.MkdirAll(filepath.Join(b.dir, "state", "sends.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := b.command("state", "run", b.exportJob("one"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "other runs on this machine are known only by what the server reports") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCase_R10_RunsShareTheBudget lets runs of different jobs and an outside client work on one
// account, as real processes on loopback, until the first has ended: RMMJOB_PROCESSES=3.
func TestCase_R10_RunsShareTheBudget(t *testing.T) {
	text := os.Getenv("RMMJOB_PROCESSES")
	if text == "" {
		t.Skip("takes some minutes; RMMJOB_PROCESSES=3 runs it")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 || n > 5 {
		t.Fatalf("RMMJOB_PROCESSES: want 2 to 5, not %q", text)
	}
	b := newBench(t, fmt.Sprintf("devices=%d,udfs=none,sparse,latency=100ms,spread=0.4", 500*n))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { b.outside(ctx, 2) }) // a fifth of the limit
	first := make(chan time.Time, n)
	for i := range n {
		name := fmt.Sprint("job-", i)
		job := b.write(name+".yaml", "version: 1\nexport:\n  from: devices\n  second_walk: never\n  to: "+name+".csv\n")
		// The size of its pages tells in the account's log whose request it is.
		cmd := b.command("state", "run", job, "--page-size", strconv.Itoa(i+1))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			defer end()
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v\n%s", job, err, &out)
			}
			first <- time.Now()
		})
	}
	end := <-first
	stop()
	all.Wait()

	log := b.account.Log()
	from := log[0].Time.Add(time.Minute)
	each, total, refused, readings := make([]int, n), 0, 0, 0
	for _, r := range log {
		if r.Status == 429 {
			refused++
		}
		if r.Time.Before(from) || r.Time.After(end) {
			continue
		}
		if r.Operation == "request-rate" {
			readings++
		}
		for i := range n {
			if query, err := url.ParseQuery(r.Query); err == nil && r.Operation == "devices" && query.Get("max") == strconv.Itoa(i+1) {
				each[i]++
				total++
			}
		}
	}
	minutes := end.Sub(from).Minutes()
	free := 0.85*600 - 120
	t.Logf("%.1f minutes after the first: requests of each %v, %.0f a minute together, %.2f of what is free, %d readings, %d × 429",
		minutes, each, float64(total)/minutes, float64(total)/minutes/free, readings, refused)
	if refused > 0 {
		t.Errorf("%d × 429", refused)
	}
	if float64(slices.Max(each)) > 1.5*float64(slices.Min(each)) {
		t.Errorf("the shares are not even: %v", each)
	}
	if use := float64(total) / minutes / free; use < 0.85 {
		t.Errorf("%.2f of what is free is used", use)
	}
}

// outside is another program that reads at a rate, whatever comes back.
func (b *bench) outside(ctx context.Context, perSecond int) {
	base, err := rmm.ParseBaseURL(b.url)
	if err != nil {
		b.t.Error(err)
		return
	}
	client, err := rmm.New(rmm.Config{BaseURL: base, Key: simKey, Secret: simSecret})
	if err != nil {
		b.t.Error(err)
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = client.Do(ctx, rmm.Request{Op: "account"}) // the account's log tells how it went
		case <-ctx.Done():
			return
		}
	}
}
