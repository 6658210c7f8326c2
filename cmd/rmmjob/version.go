package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker in releases: -X main.version=1.2.3 -X main.commit=abc.
var version, commit string

// versionInfo says exactly which program this is.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion takes what the linker has set, then what the Go tool recorded.
func buildVersion() versionInfo {
	v := versionInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				if commit == "" {
					v.Commit = s.Value
				}
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if modified && commit == "" && v.Commit != "" {
			v.Commit += " (with changes)"
		}
	}
	if v.Version == "" {
		v.Version = "devel"
	}
	if v.Commit == "" {
		v.Commit = "unknown"
	}
	return v
}

// versionVerb prints the version. It reads no config file, so that it works
// when nothing else does.
func versionVerb(_ context.Context, a *app, args []string) error {
	f := a.newFlags()
	if err := f.parseOnly(args); err != nil {
		return err
	}
	v := buildVersion()
	if a.json {
		a.result.set("version", v.Version)
		a.result.set("commit", v.Commit)
		a.result.set("go", v.Go)
		a.result.set("platform", v.Platform)
		return nil
	}
	fmt.Fprintf(a.stdout, "rmmjob %s\ncommit %s\n%s %s\n", v.Version, v.Commit, v.Go, v.Platform)
	return nil
}
