package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func openTestState(t *testing.T, dir string) (*state, func() string) {
	t.Helper()
	a, stderr := testApp(t, nil, "--state-dir", dir)
	st, err := a.openState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st, stderr.String
}

func TestLockJob(t *testing.T) {
	dir := t.TempDir()
	first, _ := openTestState(t, dir)
	second, _ := openTestState(t, dir)

	unlock, err := first.lockJob("job one")
	if err != nil {
		t.Fatal(err)
	}
	if !second.isLocked("job one") || second.isLocked("job two") {
		t.Error("isLocked does not see the lock")
	}
	_, err = second.lockJob("job one")
	var xe *exitError
	if !errors.As(err, &xe) || xe.code != exitBusy || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second start got %v", err)
	}
	if other, err := second.lockJob("job two"); err != nil {
		t.Errorf("another job: %v", err)
	} else {
		other()
	}
	unlock()
	unlock() // does nothing
	again, err := second.lockJob("job one")
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	again()
}

// What a dead process left behind never blocks, whatever number it holds.
func TestCase_R08_StaleLockFileNeverBlocks(t *testing.T) {
	dir := t.TempDir()
	st, stderr := openTestState(t, dir)
	base := st.lockPath("job")
	leftovers := map[string]string{
		"a living process of today": `{"pid":1,"host":"here","since":"2026-03-05T02:00:00Z"}`,
		"not even JSON":             "12345\n",
		"empty":                     "",
	}
	for name, text := range leftovers {
		for _, path := range []string{base + ".lock", base + ".json"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		unlock, err := st.lockJob("job")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		unlock()
	}
	if !strings.Contains(stderr(), "process 1 on here") {
		t.Errorf("the leftover is not mentioned: %q", stderr())
	}
}

func TestStateFolderIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists are not looked at")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	st, _ := openTestState(t, dir)
	unlock, err := st.lockJob("job")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A trial on a simulated account is never seen beside the real runs.
func TestSimulatedStateIsApart(t *testing.T) {
	dir := t.TempDir()
	live, _ := testApp(t, nil, "--state-dir", dir)
	trial, _ := testApp(t, nil, "--state-dir", dir, "--sim")
	r, err1 := live.stateDir()
	s, err2 := trial.stateDir()
	if err1 != nil || err2 != nil || r == s || r != dir {
		t.Errorf("%s and %s, %v %v", r, s, err1, err2)
	}
}

func TestCase_R27_NoHome(t *testing.T) {
	bare := map[string]string{"HOME": "", "APPDATA": "", "LOCALAPPDATA": ""}
	a, _ := testApp(t, bare)
	_, err := a.openState(t.Context())
	code, hint := classify(err, a.stop)
	if code != exitUsage || !strings.Contains(hint, "state_dir") {
		t.Errorf("got %d %v, hint %q", code, err, hint)
	}
	a, _ = testApp(t, bare, "--state-dir", t.TempDir())
	st, err := a.openState(t.Context())
	if err != nil {
		t.Fatalf("with an explicit folder: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// A folder that is a file, or cannot be written, is a local fault.
func TestCase_R29_UnusableStateFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := testApp(t, nil, "--state-dir", path)
	_, err := a.openState(t.Context())
	if code, _ := classify(err, a.stop); code != exitLocalIO || !strings.Contains(err.Error(), path) {
		t.Errorf("got %d %v", code, err)
	}
}

func TestCase_R12_CloudFolderIsWarnedOf(t *testing.T) {
	_, stderr := openTestState(t, filepath.Join(t.TempDir(), "OneDrive - Contoso", "state"))
	if !strings.Contains(stderr(), "warning: the state folder") {
		t.Errorf("got %q", stderr())
	}
}
