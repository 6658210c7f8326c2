package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmmjob/internal/rmmsim"
)

// noSignals skips a test on systems where a process cannot be sent signals.
func noSignals(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process of Windows cannot be sent these signals")
	}
}

// process is a started program.
type process struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr bytes.Buffer
	done           chan struct{}
}

// start starts the program with --json; words with a capital and an equals sign
// in front of the verb are variables of its environment.
func (b *bench) start(state string, args ...string) *process {
	b.t.Helper()
	var env []string
	for strings.ToUpper(args[0][:1]) == args[0][:1] && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	p := &process{Cmd: b.command(state, args...), t: b.t, done: make(chan struct{})}
	p.Env = append(p.Env, env...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // the exit code says more
		close(p.done)
	}()
	return p
}

// result waits for the end and returns what was printed.
func (p *process) result(want exitCode, longest time.Duration) map[string]any {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(longest):
		_ = p.Process.Kill()
		<-p.done
		p.t.Fatalf("still at work after %s\n%s%s", longest, &p.stdout, &p.stderr)
	}
	if got := p.ProcessState.ExitCode(); got != int(want) {
		p.t.Fatalf("exit %d, want %d\n%s%s", got, want, &p.stdout, &p.stderr)
	}
	var res map[string]any
	if err := json.Unmarshal(p.stdout.Bytes(), &res); err != nil {
		p.t.Fatalf("%v in %s", err, &p.stdout)
	}
	return res
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// before lets f run when the n-th request of an operation arrives, before it is
// looked at.
func (b *bench) before(operation string, n int, f func()) {
	b.t.Helper()
	err := b.account.AddFaults(rmmsim.Fault{
		Match: rmmsim.Match{Operation: operation, Nth: n},
		Do:    rmmsim.Action{Func: func(*rmmsim.Account, *http.Request) { f() }},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// fault lets something go wrong from now on.
func (b *bench) fault(yaml string) {
	b.t.Helper()
	list, err := rmmsim.ParseFaults([]byte(yaml), "faults")
	if err == nil {
		err = b.account.AddFaults(list...)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// wait waits for something that another process does.
func (b *bench) wait(what <-chan struct{}) {
	b.t.Helper()
	select {
	case <-what:
	case <-time.After(time.Minute):
		b.t.Fatal("the program did not come so far within a minute")
	}
}

// tagJob is an update that sets udf7 of every device.
func (b *bench) tagJob(name string) string {
	b.t.Helper()
	var csv strings.Builder
	csv.WriteString("uid,tag\r\n")
	for i, uid := range b.account.DeviceUIDs() {
		fmt.Fprintf(&csv, "%s,tag-%05d\r\n", uid, i+1)
	}
	b.write(name+".csv", csv.String())
	return b.write(name+".yaml", fmt.Sprintf(`version: 1
update:
  operation: device-udf-set
  rows: %s.csv
  match: {uid: '{uid}'}
  set: {udf7: '{tag}'}
`, name))
}

// writesTo counts the writes that were carried out by target.
func (b *bench) writesTo() map[string]int {
	targets := map[string]int{}
	for _, rec := range b.account.Log() {
		if rec.Applied {
			targets[rec.Path]++
		}
	}
	return targets
}

// rowsOf counts the records of a CSV file behind its heading.
func rowsOf(t *testing.T, data []byte) int {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return len(records) - 1
}

// counted is a number of the result.
func counted(t *testing.T, res map[string]any, key string) int {
	t.Helper()
	counts, ok := res["counts"].(map[string]any)
	n, isNumber := counts[key].(float64)
	if !ok || !isNumber {
		t.Fatalf("no count of %s in %v", key, res)
	}
	return int(n)
}

// Ctrl-C and SIGTERM: what is in flight is finished, the rest is left for
// resume, and nothing is sent twice.
func TestFirstSignalFinishesWhatIsInFlight(t *testing.T) {
	noSignals(t)
	t.Parallel()
	for name, sig := range map[string]os.Signal{"interrupt": os.Interrupt, "term": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const devices = 120
			b := newBench(t, fmt.Sprintf("devices=%d,udfs=30,latency=50ms,%s", devices, fast))
			reached := make(chan struct{})
			b.before("device-udf-set", 10, func() { close(reached) })
			p := b.start("state", "run", b.tagJob("tags"), "--workers", "4")
			b.wait(reached)
			p.signal(sig)
			res := p.result(exitStopped, time.Minute)
			if n := strings.Count(p.stderr.String(), "stopping: finishing what is in flight"); n != 1 {
				t.Errorf("%d lines say that the signal was heard\n%s", n, &p.stderr)
			}
			done := counted(t, res, "writes")
			if res["state"] != "stopped" || done < 9 || done >= devices {
				t.Errorf("after the signal: %v", res)
			}
			if n := len(b.writesTo()); n != done {
				t.Errorf("the account carried out %d writes, the run has %d on record", n, done)
			}
			next, _ := res["next_command"].(string)
			if !strings.HasPrefix(next, "rmmjob resume ") || !strings.Contains(next, "--state-dir") {
				t.Errorf("next command %q", next)
			}
			res = b.finish(exitOK, "state", "resume")
			if counted(t, res, "writes") != devices {
				t.Errorf("after resume: %v", res["counts"])
			}
			for path, n := range b.writesTo() {
				if n != 1 {
					t.Errorf("%s was written %d times", path, n)
				}
			}
		})
	}
}

// A second Ctrl-C does not wait for a server that does not answer.
func TestSecondSignalCutsOff(t *testing.T) {
	noSignals(t)
	t.Parallel()
	b := newBench(t, "devices=20,udfs=30,"+fast)
	reached := make(chan struct{})
	b.before("device-udf-set", 3, func() { close(reached) })
	b.fault("- match: {operation: device-udf-set, from: 3}\n  do: {delay: 5m}")
	p := b.start("state", "run", b.tagJob("tags"), "--workers", "2")
	b.wait(reached)
	p.signal(os.Interrupt)
	select {
	case <-p.done:
		t.Fatalf("the first signal did not wait for what is in flight\n%s%s", &p.stdout, &p.stderr)
	case <-time.After(time.Second):
	}
	p.signal(os.Interrupt)
	res := p.result(exitAborted, 30*time.Second)
	if res["state"] != "aborted" || res["exit_name"] != "aborted" || res["next_command"] == nil {
		t.Errorf("%v", res)
	}
	b.account.ClearFaults()
	b.finish(exitOK, "state", "run", filepath.Join(b.dir, "tags.yaml"))
	for i, uid := range b.account.DeviceUIDs() {
		if got, want := b.account.UDF(uid, "udf7"), fmt.Sprintf("tag-%05d", i+1); got != want {
			t.Errorf("%s: %q, want %q", uid, got, want)
		}
	}
}

// A time limit ends like a stop.
func TestMaxDuration(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=40,udfs=30,latency=500ms,"+fast)
	job := b.tagJob("tags")
	res := b.start("state", "run", job, "--workers", "1", "--max-duration", "4s").result(exitStopped, time.Minute)
	if text, _ := res["error"].(string); !strings.Contains(text, "time limit of 4s") {
		t.Errorf("error %q", text)
	}
	if res["state"] != "stopped" || res["next_command"] == nil || counted(t, res, "pending") == 0 {
		t.Errorf("%v", res)
	}
}

// Case R10: while a job is at work a second start leaves at once and sends
// nothing; another job is not in its way. After kill -9 nothing holds the lock.
func TestCase_R10_SecondInstance(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	reached, release := make(chan struct{}), make(chan struct{})
	b.before("devices", 1, func() { close(reached); <-release })
	t.Cleanup(func() { close(release) })
	job := b.exportJob("slow")
	p := b.start("state", "run", job)
	b.wait(reached)

	before := len(b.account.Log())
	for _, args := range [][]string{{"run", job}, {"run", job, "--new"}, {"resume"}} {
		began := time.Now()
		res := b.finish(exitBusy, "state", args...)
		t.Logf("%v left after %s", args, time.Since(began).Round(time.Millisecond))
		if text, _ := res["error"].(string); !strings.Contains(text, fmt.Sprintf("process %d", p.Process.Pid)) {
			t.Errorf("%v: %q", args, text)
		}
	}
	if after := len(b.account.Log()); after != before {
		t.Errorf("the second start sent %d requests", after-before)
	}
	b.finish(exitOK, "state", "run", b.exportJob("other"))

	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	b.finish(exitOK, "state", "run", job)
	if n := rowsOf(t, b.read("slow.csv")); n != 5 {
		t.Errorf("the file has %d rows", n)
	}
}

// Case R33: the account refuses two rows of a hundred.
func TestCase_R33_TwoBadRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=100,udfs=30,"+fast)
	uids := b.account.DeviceUIDs()
	for _, i := range []int{10, 60} {
		b.fault(fmt.Sprintf("- match: {operation: device-udf-set, uid: %s}\n  do: {status: 400, body: '{\"errorMessage\":\"refused\"}'}", uids[i-1]))
	}
	job := b.tagJob("tags")
	res := b.finish(exitPartial, "state", "run", job)
	if counted(t, res, "writes") != 98 || counted(t, res, "failed") != 2 || res["state"] != "partial" ||
		!strings.HasPrefix(fmt.Sprint(res["next_command"]), "rmmjob retry ") {
		t.Errorf("%v", res)
	}
	b.account.ClearFaults()
	before := len(b.writesTo())
	b.finish(exitOK, "state", "run", job)
	if n := len(b.writesTo()) - before; n != 2 {
		t.Errorf("the second run wrote %d times, want the two that had failed", n)
	}
}

// Case R24: redirected output has neither a bar nor a line for each item, and
// closed streams do not stop a run.
func TestCase_R24_RedirectedOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=150,udfs=30,"+fast)
	job := b.tagJob("tags")
	cmd := b.command("state", "run", job)
	cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "--json" })
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.ContainsAny(out, "\x1b\r") || bytes.Count(out, []byte("\n")) > 10 {
		t.Errorf("%q", out)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, redirect := range []string{">&- 2>&-", ">/dev/full 2>/dev/full", "| true"} {
		name := fmt.Sprintf("closed%d", len(redirect))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `rmmjob run "$0" --state-dir "$1" `+redirect, b.exportJob(name), filepath.Join(b.dir, "closed"))
		cmd.Env = b.command("x", "run").Env
		_ = cmd.Run() // where standard output is full its loss is an exit code
		if n := rowsOf(t, b.read(name+".csv")); n != 150 {
			t.Errorf("%s: the file has %d rows", redirect, n)
		}
	}
}

// closedPort is the address of a port at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for its number only
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// Nobody can be reached, in every way that this happens: the run waits for half a
// minute in case it passes, says so, and is resumable.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	type call struct {
		*process
		want, hint string
	}
	var calls []call
	for _, c := range []struct{ url, proxy, want, hint string }{
		{closedPort(t), "", "refused", "the address and the port"},
		{"https://no-such-host-api.invalid", "", "no-such-host-api.invalid not found", "check the network"},
		{"https://merlot-api.centrastage.net", closedPort(t), "no connection to the proxy", "HTTPS_PROXY"},
	} {
		b := newBench(t, "devices=1")
		b.url = c.url
		calls = append(calls, call{b.start("state", "HTTPS_PROXY="+c.proxy, "run", b.exportJob("devices")), c.want, c.hint})
	}
	began := time.Now()
	for _, c := range calls {
		res := c.result(exitUnreachable, time.Minute)
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("%s: gave up after %s", c.want, took)
		}
		text, _ := res["error"].(string)
		next, _ := res["next_command"].(string)
		if !strings.Contains(text, c.want) || !strings.HasPrefix(next, "rmmjob resume ") || res["state"] != "unreachable" ||
			!strings.Contains(fmt.Sprint(res["hint"]), c.hint) {
			t.Errorf("%s: %v", c.want, res)
		}
		waits := regexp.MustCompile(`not available, next try at \S+: .*` + regexp.QuoteMeta(c.want))
		if n := len(waits.FindAllString(c.stderr.String(), -1)); n < 2 || n > 10 {
			t.Errorf("%s: %d lines about waiting\n%s", c.want, n, &c.stderr)
		}
	}
}

// Case N20 for a run: a certificate that nobody vouches for does not get better
// by waiting.
func TestCase_N20_RunWithUnknownCA(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake
	srv.StartTLS()
	t.Cleanup(srv.Close)
	b := newBench(t, "devices=1")
	b.url = srv.URL
	began := time.Now()
	res := b.finish(exitUnreachable, "state", "run", b.exportJob("devices"))
	if hint, _ := res["hint"].(string); !strings.Contains(hint, "--ca-cert") || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), res)
	}
}

// Case R07: somebody who looks at the target all the time sees the old file or
// the new one, whole.
func TestCase_R07_Watcher(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a reader that hardly ever lets go keeps a file from being replaced here")
	}
	b := newBench(t, "devices=300,udfs=30,page-max=50,latency=20ms,"+fast)
	job := b.exportJob("watched")
	b.finish(exitOK, "state", "run", job)
	old := b.read("watched.csv")
	if err := b.account.SetUDF(b.account.DeviceUIDs()[0], "udf1", "changed"); err != nil {
		t.Fatal(err)
	}
	p := b.start("state", "run", job)
	var seen [][]byte
	for watching := true; watching; {
		select {
		case <-p.done:
			watching = false
		case <-time.After(2 * time.Millisecond):
		}
		data := b.read("watched.csv")
		if len(seen) == 0 || !bytes.Equal(seen[len(seen)-1], data) {
			seen = append(seen, data)
		}
	}
	p.result(exitOK, time.Minute)
	if len(seen) != 2 || !bytes.Equal(seen[0], old) || rowsOf(t, seen[1]) != 300 {
		t.Errorf("%d different files were seen", len(seen))
	}
}
