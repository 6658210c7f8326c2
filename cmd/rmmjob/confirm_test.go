package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
)

// asker is a person at a terminal who types what is given; the simulated account and
// the state folder stay the same over its calls.
type asker struct {
	t          *testing.T
	dir, state string
	stdin      io.Reader
}

func newAsker(t *testing.T, typed string) *asker {
	dir := t.TempDir()
	return &asker{t, dir, filepath.Join(dir, "state"), strings.NewReader(typed)}
}

func (p *asker) job(text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, "job.yaml")
	if err := os.WriteFile(path, []byte("version: 1\n"+text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *asker) call(ctx context.Context, args ...string) (code exitCode, stdout, stderr string) {
	p.t.Helper()
	e, out, errs := testEnv(p.t, nil)
	e.now, e.canAsk, e.stdin = time.Now, true, p.stdin
	args = append(args, "--state-dir", p.state, "--sim=devices=4,limits=off", "--progress", "none")
	code = exitCode(run(ctx, args, e))
	return code, out.String(), errs.String()
}

// last is the newest run.
func (p *asker) last() checkpoint.Run {
	p.t.Helper()
	store, err := checkpoint.Open(p.t.Context(), filepath.Join(p.state, "sim", "rmmjob.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // only read
	runs, err := store.Runs(p.t.Context(), 1, "")
	if err != nil || len(runs) == 0 {
		p.t.Fatalf("no runs: %v", err)
	}
	return runs[0]
}

const moving = "update: {operation: device-move, rows: {from: devices, where: 'siteName != \"Contoso\"'}, set: {siteName: Contoso}}\n"

// At a terminal the number of the requests is typed, and nothing else will do.
func TestConfirmAsks(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]exitCode{
		"3\n": exitOK, " 3 \r\n": exitOK, "3": exitOK,
		"y\n": exitUsage, "yes\n": exitUsage, "4\n": exitUsage, "33\n": exitUsage, "\n": exitUsage, "": exitUsage,
	} {
		t.Run(fmt.Sprintf("%q", typed), func(t *testing.T) {
			p := newAsker(t, typed)
			code, _, stderr := p.call(t.Context(), "run", p.job(moving))
			if code != want {
				t.Fatalf("exit %d, want %d\n%s", code, want, stderr)
			}
			if n := strings.Count(stderr, "this moves 3 devices to another site: type 3 to go on: "); n != 1 {
				t.Errorf("asked %d times\n%s", n, stderr)
			}
			if n := strings.Count(stderr, "-> Contoso\n"); n != 3 {
				t.Errorf("%d targets are shown before the question\n%s", n, stderr)
			}
			rec := p.last()
			if want == exitOK {
				if rec.State != checkpoint.RunOK || rec.Writes != 3 || rec.Reads > 4 { // the plan, and a look whether it still holds
					t.Errorf("%s, %d writes, %d reads", rec.State, rec.Writes, rec.Reads)
				}
				return
			}
			if rec.State != checkpoint.RunPlanned || rec.Writes != 0 {
				t.Errorf("%s, %d writes", rec.State, rec.Writes)
			}
			if !strings.Contains(stderr, "next: rmmjob apply "+rec.ID+" --yes") {
				t.Errorf("the next command is missing\n%s", stderr)
			}
		})
	}
}

// What was not agreed to is a plan like any other, which is asked about again.
func TestConfirmLater(t *testing.T) {
	t.Parallel()
	p := newAsker(t, "")
	for _, typed := range []string{"no\n", "neither\n", "3\n"} {
		p.stdin = strings.NewReader(typed)
		want := map[bool]exitCode{true: exitOK, false: exitUsage}[typed == "3\n"]
		args := []string{"run", p.job(moving)}
		if _, err := os.Stat(p.state); err == nil {
			args = []string{"apply", p.last().ID}
		}
		if code, _, stderr := p.call(t.Context(), args...); code != want || strings.Count(stderr, "type 3 to go on") != 1 {
			t.Fatalf("%v: exit %d, want %d\n%s", args, code, want, stderr)
		}
	}
	if rec := p.last(); rec.State != checkpoint.RunOK || rec.Writes != 3 {
		t.Errorf("%s, %d writes", rec.State, rec.Writes)
	}
}

// Who has agreed is not asked, nor is a program, nor where nothing is to be done.
func TestConfirmIsNotAsked(t *testing.T) {
	t.Parallel()
	nothing := strings.Replace(moving, "set: {siteName: Contoso}", "set: {siteName: '{siteName}'}", 1)
	for name, c := range map[string]struct {
		job  string
		args []string
		want exitCode
	}{
		"yes":        {moving, []string{"--yes"}, exitOK},
		"in the job": {moving + "confirm: true\n", nil, exitOK},
		"json":       {moving, []string{"--json"}, exitUsage},
		"nothing":    {nothing, nil, exitOK},
		"no need":    {"update: {operation: device-udf-set, rows: {from: devices}, set: {udf7: x}}\n", nil, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			p := newAsker(t, "3\n")
			code, _, stderr := p.call(t.Context(), append([]string{"run", p.job(c.job)}, c.args...)...)
			if code != c.want || strings.Contains(stderr, "to go on") {
				t.Errorf("exit %d, want %d\n%s", code, c.want, stderr)
			}
		})
	}
}

// Both questions take their answers from one input, typed ahead or not.
func TestConfirmAndCanary(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]exitCode{"3\ny\n": exitOK, "3\nn\n": exitCanary, "n\ny\n": exitUsage} {
		p := newAsker(t, typed)
		code, _, stderr := p.call(t.Context(), "run", p.job(moving), "--canary", "1")
		writes := map[exitCode]int64{exitOK: 3, exitCanary: 1, exitUsage: 0}[want]
		if rec := p.last(); code != want || rec.Writes != writes {
			t.Errorf("%q: exit %d, want %d; %d writes\n%s", typed, code, want, rec.Writes, stderr)
		}
	}
}

// Ctrl-C at the question is a no.
func TestConfirmCtrlC(t *testing.T) {
	t.Parallel()
	p := newAsker(t, "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p.stdin = readFunc(func([]byte) (int, error) { // it is read when the question stands
		stop()
		select {}
	})
	code, _, stderr := p.call(ctx, "run", p.job(moving))
	if rec := p.last(); code != exitUsage || rec.State != checkpoint.RunPlanned || rec.Writes != 0 {
		t.Errorf("exit %d, %s, %d writes\n%s", code, rec.State, rec.Writes, stderr)
	}
}

// readFunc is a reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
