package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// helpVerb explains the command, a verb, the exit codes or the environment.
func helpVerb(ctx context.Context, a *app, args []string) error {
	if a.verb.name == "help" {
		f := a.newFlags()
		if err := f.parseOnly(args); err != nil {
			return err
		}
		args = f.Args()
	}
	if len(args) == 0 {
		writeUsage(a.helpWriter())
		return nil
	}
	switch args[0] {
	case "exit-codes":
		writeExitTable(a.helpWriter())
		if a.json {
			a.result.set("exit_codes", exitList())
		}
		return nil
	case "env":
		writeEnv(a.helpWriter())
		return nil
	}
	v, ok := lookupVerb(args[0])
	if !ok {
		return unknownVerb(args[0])
	}
	if v.name == "help" {
		writeVerbHelp(a.helpWriter(), v, a.newFlags())
		return nil
	}
	// The verb itself knows its flags: it is asked for its help.
	a.verb = v
	err := v.run(ctx, a, []string{"--help"})
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return err
}

// exitList is the table of exit codes for machines.
func exitList() []map[string]any {
	list := make([]map[string]any, len(exitTable))
	for i, row := range exitTable {
		list[i] = map[string]any{"code": int(row.code), "name": row.name, "meaning": row.meaning}
	}
	return list
}

// writeEnv lists the environment variables.
func writeEnv(w io.Writer) {
	fmt.Fprint(w, `The account, when no account of the config file is asked for:

`)
	t := newTable()
	t.add("DATTO_API_URL", "address of the API, or a platform name such as merlot")
	t.add("DATTO_API_KEY", "API key")
	t.add("DATTO_API_SECRET", "API secret")
	t.writeIndented(w, "  ")
	fmt.Fprint(w, `
Every flag --some-flag has a variable RMMJOB_SOME_FLAG with the same values.
A flag wins over its variable, that over the job file, that over the config
file. Settings:

`)
	t = newTable()
	for _, s := range settingTable {
		t.add(s.env(), s.help)
	}
	t.writeIndented(w, "  ")
	fmt.Fprint(w, `
Places:

`)
	t = newTable()
	t.add("RMMJOB_CONFIG", "config file")
	t.add("XDG_CONFIG_HOME, HOME", "where it is looked for otherwise; APPDATA and ProgramData on Windows")
	t.add("XDG_STATE_HOME, HOME", "where the state is kept otherwise; LOCALAPPDATA on Windows")
	t.add("HTTPS_PROXY, NO_PROXY", "proxy")
	t.writeIndented(w, "  ")
}
