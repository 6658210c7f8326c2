package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"rmmjob/internal/rmmsim"
)

// simVerb serves a simulated account until it is asked to stop.
func simVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	listen := f.String("listen", "127.0.0.1:8480", "address to listen on")
	remote := f.Bool("allow-remote", false, "listen on an address that other machines can reach")
	devices := f.Int("devices", 0, "devices of the account (default 1200)")
	seed := f.Uint64("seed", 0, "the same seed gives the same account (default 1)")
	latency := f.Duration("latency", 0, "how long every answer takes")
	limits := f.String("limits", "", "off, or READS/WRITES a minute (default 600/600)")
	legacy := f.Bool("legacy", false, "one quota for reads and writes, as old accounts have")
	faults := f.String("faults", "", "YAML file of faults to play")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if a.sim.on {
		return usagef("sim serves a simulated account anyway; --sim is for the other verbs")
	}

	// The words of --sim and the flags of sim are the same settings.
	var words []string
	word := func(flag, text string) {
		if f.Changed(flag) || a.getenv(envName(flag)) != "" {
			words = append(words, flag+"="+text)
		}
	}
	word("devices", fmt.Sprint(*devices))
	word("seed", fmt.Sprint(*seed))
	word("latency", latency.String())
	word("limits", *limits)
	if *legacy {
		words = append(words, "legacy=on")
	}
	cfg, err := rmmsim.ParseSettings(strings.Join(words, ","))
	if err != nil {
		return usagef("%w", err)
	}
	if *faults != "" {
		data, err := os.ReadFile(*faults)
		if err != nil {
			return usagef("faults: %w", err)
		}
		if cfg.Faults, err = rmmsim.ParseFaults(data, *faults); err != nil {
			return usagef("%w", err)
		}
	}
	cfg.Key, cfg.Secret = simKey, simSecret
	account, err := rmmsim.New(cfg)
	if err != nil {
		return usagef("%w", err)
	}

	if err := checkListen(*listen, *remote); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return fail(exitLocalIO, "listen: %w", err).withHint("choose another port with --listen, for example 127.0.0.1:0")
	}
	url := "http://" + l.Addr().String()
	a.result.set("url", url)
	writeSimLines(a, url)
	if err := account.Serve(ctx, l); err != nil {
		return fail(exitLocalIO, "serve: %w", err)
	}
	return nil
}

// checkListen refuses addresses that other machines can reach.
func checkListen(address string, remote bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen %q is not HOST:PORT", address)
	}
	ip := net.ParseIP(host)
	if remote || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usagef("--listen %s could be reached by other machines", address).
		withHint("use 127.0.0.1, or add --allow-remote if that is what you want")
}

// writeSimLines prints what a second terminal needs.
func writeSimLines(a *app, url string) {
	w := a.helpWriter()
	fmt.Fprintf(w, "simulated account at %s, Ctrl-C ends it\n\nbash:\n", url)
	vars := [][2]string{{"DATTO_API_URL", url}, {"DATTO_API_KEY", simKey}, {"DATTO_API_SECRET", simSecret}}
	for _, v := range vars {
		fmt.Fprintf(w, "  export %s=%s\n", v[0], v[1])
	}
	fmt.Fprint(w, "\nPowerShell:\n")
	for _, v := range vars {
		fmt.Fprintf(w, "  $env:%s = '%s'\n", v[0], v[1])
	}
}
