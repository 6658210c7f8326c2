package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The lines that sim prints are all that a second terminal needs.
func TestSimServesASecondTerminal(t *testing.T) {
	e, _, stderr := testEnv(t, nil)
	r, w := io.Pipe()
	e.stdout = w
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"sim", "--listen", "127.0.0.1:0", "--devices", "7", "--legacy"}, e)
		w.Close()
	}()
	vars := map[string]string{}
	lines := bufio.NewScanner(r)
	for len(vars) < 3 && lines.Scan() {
		if assignment, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "export "); ok {
			name, text, _ := strings.Cut(assignment, "=")
			vars[name] = text
		}
	}
	go io.Copy(io.Discard, r) //nolint:errcheck // only to let the writer go on

	e2, stdout2, stderr2 := testEnv(t, vars)
	if got := run(t.Context(), []string{"rate"}, e2); got != 0 || !strings.Contains(stdout2.String(), "legacy limits") {
		t.Errorf("rate: exit %d, %s%s", got, stdout2, stderr2)
	}
	vars["DATTO_API_SECRET"] = "wrong"
	e3, _, stderr3 := testEnv(t, vars)
	if got := run(t.Context(), []string{"rate"}, e3); got != int(exitAuth) {
		t.Errorf("a wrong secret: exit %d, %s", got, stderr3)
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("sim: exit %d, %s", got, stderr)
	}
	vars["DATTO_API_SECRET"] = simSecret
	e4, _, stderr4 := testEnv(t, vars)
	if got := run(t.Context(), []string{"rate"}, e4); got != int(exitUnreachable) {
		t.Errorf("after the end: exit %d, %s", got, stderr4)
	}
}

// The built program, as a user ends it: Ctrl-C is a good end.
func TestSimEndsByCtrlC(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signal to send")
	}
	cmd := exec.CommandContext(t.Context(), "rmmjob", "sim", "--listen", "127.0.0.1:0", "--devices", "5") // from TestMain
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Error("no line on standard output")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, out) //nolint:errcheck // until it ends
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTwoStopSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signal to send")
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	stop, release := watchSignals()
	if err := self.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-stop.soft.Done()
	if stop.hard.Err() != nil {
		t.Error("the first signal aborts already")
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-stop.hard.Done()
	release()
}

func TestSimRefusals(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "faults.yaml")
	if err := os.WriteFile(bad, []byte("- mtch: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"},
		{"--listen", ":0"},
		{"--listen", "example.com:80"},
		{"--listen", "127.0.0.1"},
		{"--limits", "many"},
		{"--devices", "-5"},
		{"--latency", "-1s"},
		{"--faults", filepath.Join(dir, "missing.yaml")},
		{"--faults", bad},
		{"--sim"},
		{"extra"},
	} {
		e, _, stderr := testEnv(t, nil)
		if code := run(t.Context(), append([]string{"sim", "--listen", "127.0.0.1:0"}, args...), e); code != int(exitUsage) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}
