package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// exportTo is an export of all devices into a folder.
func (b *bench) exportTo(name, folder string) string {
	return b.write(name+".yaml", fmt.Sprintf("version: 1\nexport:\n  from: devices\n  to: '%s/devices.csv'\n", folder))
}

// list is what lies in a folder.
func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Cases R18 and R29: a folder that nothing can be written to is found out before
// the first request, and last night's file stays.
func TestCase_R29_ReadOnlyTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	dir := filepath.Join(b.dir, "out")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("out/devices.csv", "last night")
	makeReadOnly(t, dir)
	for _, json := range []string{"--json", "--json=true"} {
		res := b.finish(exitLocalIO, "state", "run", b.exportTo("job", "out"), json)
		if text, _ := res["error"].(string); !strings.Contains(text, dir) || res["exit_name"] != "local_io" {
			t.Errorf("%v", res)
		}
	}
	if n := len(b.account.Log()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if names := list(t, dir); len(names) != 1 || string(b.read("out/devices.csv")) != "last night" {
		t.Errorf("the folder holds %q", names)
	}
}

// Case R29 for the state folder, which may be read-only, or be a file.
func TestCase_R29_ReadOnlyState(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	dir := filepath.Join(b.dir, "locked")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("file", "")
	makeReadOnly(t, dir)
	for _, state := range []string{"locked", "locked/deeper", "file", "file/deeper"} {
		res := b.finish(exitLocalIO, state, "run", b.exportJob("job"))
		if text, _ := res["error"].(string); !strings.Contains(text, filepath.Join(b.dir, strings.Split(state, "/")[0])) {
			t.Errorf("%s: %v", state, res)
		}
	}
	if n := len(b.account.Log()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Case R03: the disk is full when the file is written. The old file stays, the
// run says so, and once there is space it publishes without asking the API again.
func TestCase_R03_DiskFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=400,udfs=30,"+fast)
	dir := filepath.Join(b.dir, "out")
	tinyDisk(t, dir, "96k")
	b.write("out/devices.csv", "last night")
	job := b.exportTo("job", "out")
	res := b.finish(exitLocalIO, "state", "run", job)
	if text, _ := res["error"].(string); !strings.Contains(text, "no space") || !strings.Contains(text, dir) || res["state"] != "local_io" || res["next_command"] == nil {
		t.Errorf("%v", res)
	}
	if names := list(t, dir); len(names) != 1 || string(b.read("out/devices.csv")) != "last night" {
		t.Errorf("the folder holds %q", names)
	}
	growDisk(t, dir, "8m")
	before := len(b.account.Log())
	b.finish(exitOK, "state", "resume")
	if n := rowsOf(t, b.read("out/devices.csv")); n != 400 {
		t.Errorf("the file has %d rows", n)
	}
	if n := len(b.account.Log()) - before; n != 0 {
		t.Errorf("publishing again took %d requests", n)
	}
}

// Case R18, the second half: something holds the target at the very end. The data
// is saved beside it, the exit is not 0, and once the target is free the run
// publishes without asking the API again.
func TestCase_R18_TargetHeldAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	holdFile(t, b.write("probe", ""))() // can it be done here?
	target := b.write("held.csv", "last night")
	held := make(chan func(), 1)
	b.before("devices", 1, func() { held <- holdFile(t, target) })
	res := b.finish(exitLocalIO, "state", "run", b.exportJob("held"))
	text, _ := res["error"].(string)
	if !strings.Contains(text, target+" could not be replaced") || res["state"] != "local_io" || res["next_command"] == nil {
		t.Errorf("%v", res)
	}
	beside, err := filepath.Glob(filepath.Join(b.dir, "held.*.csv"))
	if err != nil || len(beside) != 1 || !strings.Contains(text, beside[0]) {
		t.Fatalf("saved beside: %q %v, the message is %q", beside, err, text)
	}
	if n := rowsOf(t, b.read(filepath.Base(beside[0]))); n != 5 || string(b.read("held.csv")) != "last night" {
		t.Errorf("%s has %d rows", beside[0], n)
	}
	(<-held)()
	before := len(b.account.Log())
	b.finish(exitOK, "state", "resume")
	if n := rowsOf(t, b.read("held.csv")); n != 5 {
		t.Errorf("the file has %d rows", n)
	}
	if n := len(b.account.Log()) - before; n != 0 {
		t.Errorf("publishing again took %d requests", n)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, ".*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

// A target that has become a folder meanwhile is an error of its own, and the run
// goes on when it is out of the way.
func TestTargetBecomesAFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=5,udfs=30,"+fast)
	target := filepath.Join(b.dir, "taken.csv")
	b.before("devices", 1, func() {
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Error(err)
		}
	})
	res := b.finish(exitLocalIO, "state", "run", b.exportJob("taken"))
	if text, _ := res["error"].(string); !strings.Contains(text, target) || res["state"] != "local_io" {
		t.Errorf("%v", res)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	before := len(b.account.Log())
	b.finish(exitOK, "state", "resume")
	if n := len(b.account.Log()) - before; n != 0 || rowsOf(t, b.read("taken.csv")) != 5 {
		t.Errorf("publishing again took %d requests", n)
	}
}

// chmodReadOnly takes the right to write in a folder away from everybody but root.
func chmodReadOnly(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("here a mode does not make a folder read-only")
	}
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
			t.Error(err)
		}
	})
}
