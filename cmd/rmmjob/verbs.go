package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// verb is one command of the program.
type verb struct {
	name     string
	args     string   // its arguments in the usage line
	summary  string   // one line
	examples []string // whole command lines, the most useful first
	run      func(ctx context.Context, a *app, args []string) error
}

// verbs is the table of verbs in the order of the help. It is a function
// because help, one of its entries, reads it.
func verbs() []verb {
	return []verb{
		{"validate", "JOB.yaml...", "check job files and their input, send nothing", []string{
			"rmmjob validate nightly-devices.yaml",
			"rmmjob validate jobs/*.yaml --json",
		}, validateVerb},
		{"plan", "JOB.yaml", "show what an update would change, send no write", []string{
			"rmmjob plan asset-tags.yaml",
			"rmmjob plan asset-tags.yaml --output plan.html",
			"rmmjob plan asset-tags.yaml --detailed-exitcode",
		}, planVerb},
		{"run", "JOB.yaml", "run a job, or continue its unfinished run", []string{
			"rmmjob run nightly-devices.yaml",
			"rmmjob run asset-tags.yaml --sim",
			"rmmjob run asset-tags.yaml --new --json",
		}, runVerb},
		{"apply", "RUN", "carry out the plan of a run, and nothing else", []string{
			"rmmjob apply 20260911-0200",
			"rmmjob apply 20260911-0200 --canary 5",
			"rmmjob apply 20260911-0200 --accept-drift --yes",
		}, applyVerb},
		{"resume", "[RUN]", "continue an unfinished run, or one that is paused", []string{
			"rmmjob resume",
			"rmmjob resume 20260911-0200",
		}, resumeVerb},
		{"retry", "RUN", "do what has failed in a run once more", []string{
			"rmmjob retry 20260911-0200",
			"rmmjob retry 20260911-0200 --class transient",
			"rmmjob retry 20260911-0200 --in-doubt --yes",
		}, retryVerb},
		{"resolve", "RUN [KEY...]", "settle writes whose fate is unknown", []string{
			"rmmjob resolve 20260911-0200",
			"rmmjob resolve 20260911-0200 --check",
			"rmmjob resolve 20260911-0200 --as done --note 'seen in the portal'",
		}, resolveVerb},
		{"undo", "RUN", "take back what a run has changed, where it is still so", []string{
			"rmmjob undo 20260911-0200",
			"rmmjob undo 20260911-0200 --yes",
		}, undoVerb},
		{"pause", "RUN", "let a working run send nothing until it is resumed", []string{
			"rmmjob pause 20260911-0200",
		}, pauseVerb},
		{"stop", "RUN", "stop a working run like its first Ctrl-C", []string{
			"rmmjob stop 20260911-0200",
		}, stopVerb},
		{"status", "[RUN|JOB.yaml]", "tell the last run of each job", []string{
			"rmmjob status",
			"rmmjob status nightly-devices.yaml --max-age 26h",
			"rmmjob status --watch",
		}, statusVerb},
		{"runs", "", "list runs, newest first", []string{
			"rmmjob runs",
			"rmmjob runs --limit 100 --json",
		}, runsVerb},
		{"show", "RUN", "show one run whole", []string{
			"rmmjob show 20260911-0200",
			"rmmjob show 20260911-0200 --all",
			"rmmjob show 20260911-0200 --plan --output plan.html",
		}, showVerb},
		{"export", "RUN", "write what a finished export has read to other files, without a request", []string{
			"rmmjob export 20260911-0200 --to devices.xlsx",
			"rmmjob export 20260911-0200 --to short.csv --columns hostname,siteName,lastSeen",
			"rmmjob export 20260911-0200 --to '{path: excel.csv, bom: true, delimiter: semicolon}' --to lines.jsonl",
		}, exportVerb},
		{"state", "[show|export|reset] [JOB.yaml]", "show, export or reset what jobs remember for their next run", []string{
			"rmmjob state",
			"rmmjob state show nightly-devices.yaml",
			"rmmjob state export nightly-devices.yaml --to remembered.jsonl",
			"rmmjob state reset nightly-devices.yaml --yes",
		}, stateVerb},
		{"rate", "[RUN]", "read the API's rate limits once, or show and change the rate of a working run", []string{
			"rmmjob rate",
			"rmmjob rate --account msp-eu --json",
			"rmmjob rate 20260911-0200 --watch",
			"rmmjob rate 20260911-0200 --profile cautious",
			"rmmjob rate 20260911-0200 --max 300/60s --reserve 40%",
			"rmmjob rate 20260911-0200 --max off --reserve off",
			"rmmjob rate --sim",
		}, rateVerb},
		{"doctor", "", "check everything that a run needs, and what to do about it", []string{
			"rmmjob doctor",
			"rmmjob doctor --account msp-eu --json",
			"rmmjob doctor --measure --yes",
			"rmmjob doctor --measure --sim=stale=3s",
		}, doctorVerb},
		{"config", "show|set|unset|path", "show and change settings", []string{
			"rmmjob config show",
			"rmmjob config set throttle.profile cautious",
			"rmmjob config set accounts.msp-eu.url merlot",
			"rmmjob config unset throttle.profile",
			"rmmjob config path",
		}, configVerb},
		{"catalogue", "[NAME]", "list the operations of the API by name", []string{
			"rmmjob catalogue",
			"rmmjob catalogue device-udf-set",
		}, catalogueVerb},
		{"sim", "", "serve a simulated account on this machine", []string{
			"rmmjob sim",
			"rmmjob sim --devices 20000 --latency 60ms --limits off",
			"rmmjob sim --faults faults.yaml --legacy",
		}, simVerb},
		{"version", "", "print the version", []string{
			"rmmjob version",
		}, versionVerb},
		{"help", "[VERB|exit-codes|env]", "explain a verb, the exit codes or the environment", []string{
			"rmmjob help run",
			"rmmjob help exit-codes",
		}, helpVerb},
	}
}

// lookupVerb finds a verb by its name.
func lookupVerb(name string) (verb, bool) {
	all := verbs()
	i := slices.IndexFunc(all, func(v verb) bool { return v.name == name })
	if i < 0 {
		return verb{}, false
	}
	return all[i], true
}

// writeUsage prints the help of the whole command, examples first.
func writeUsage(w io.Writer) {
	fmt.Fprint(w, `rmmjob runs mass reads and mass changes against the Datto RMM API.

Examples:
  rmmjob run nightly-devices.yaml              run a job, or continue it
  rmmjob run asset-tags.yaml --sim             try it on a simulated account
  rmmjob plan asset-tags.yaml                  show what would change
  rmmjob apply 20260911-0200                   carry out what a plan has shown
  rmmjob resume                                continue what was interrupted
  rmmjob status --max-age 26h                  was last night's run good?

Usage:
  rmmjob VERB [JOB.yaml|RUN] [flags]

Verbs:
`)
	t := newTable()
	for _, v := range verbs() {
		t.add(v.name, v.summary)
	}
	t.writeIndented(w, "  ")
	fmt.Fprint(w, `
Help:
  rmmjob help VERB          flags and examples of a verb
  rmmjob help exit-codes    what the exit status means
  rmmjob help env           the environment variables
`)
}

// writeVerbHelp prints the help of one verb, examples first.
func writeVerbHelp(w io.Writer, v verb, f *flags) {
	fmt.Fprintf(w, "rmmjob %s: %s\n\nExamples:\n", v.name, v.summary)
	for _, e := range v.examples {
		fmt.Fprintf(w, "  %s\n", e)
	}
	fmt.Fprintf(w, "\nUsage:\n  %s [flags]\n\nFlags:\n", strings.TrimSpace("rmmjob "+v.name+" "+v.args))
	f.writeUsages(w)
	fmt.Fprint(w, "\nEach flag has an environment variable: --state-dir is RMMJOB_STATE_DIR.\n")
}
