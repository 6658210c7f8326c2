package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
	"rmmjob/internal/spell"
)

// connection is an account that requests can be sent to.
type connection struct {
	name    string // for messages: the account's name, or the host
	id      string // tells accounts apart; part of the identity of a job
	limits  string // tells apart what has limits of its own: host and a trace of the key
	baseURL *url.URL
	client  *rmm.Client
	sim     *rmmsim.Account // the simulated account, nil for a real one
}

// checkURL tells whether text can be the address of the API.
func checkURL(text string) error {
	_, err := rmm.ParseBaseURL(text)
	return err
}

// openAccount finds the account, its address and its credentials, and returns
// a client for it. Nothing is sent yet. With --sim it is a simulated account
// in this process.
func (a *app) openAccount(ctx context.Context) (*connection, error) {
	if a.sim.on {
		return a.openSim()
	}
	cred, err := a.credentials(ctx)
	if err != nil {
		return nil, err
	}
	base, err := rmm.ParseBaseURL(cred.url)
	if err != nil {
		return nil, usagef("%s: %w", cred.urlFrom, err)
	}
	transport, err := rmm.Transport(cred.caCert)
	if err != nil {
		return nil, fail(exitUsage, "ca_cert: %w", err)
	}
	// Of the key only a trace is kept, which says nothing about it.
	sum := sha256.Sum256([]byte(cred.key))
	c := &connection{name: cred.name, id: cred.name, limits: base.Host + "#" + hex.EncodeToString(sum[:4]), baseURL: base}
	if c.name == "" {
		c.name, c.id = base.Host, c.limits
	}
	if c.client, err = a.newClient(base, cred.key, cred.secret, transport); err != nil {
		return nil, err
	}
	a.debug("account %s at %s, key from %s", c.name, base, cred.from)
	return c, nil
}

// openSim makes a simulated account and a client that talks to it without any
// socket.
func (a *app) openSim() (*connection, error) {
	cfg, err := rmmsim.ParseSettings(a.sim.settings)
	if err != nil {
		return nil, usagef("--sim: %w", err)
	}
	sim, err := rmmsim.New(cfg)
	if err != nil {
		return nil, usagef("--sim: %w", err)
	}
	if cfg.Key == "" {
		cfg.Key, cfg.Secret = simKey, simSecret // any pair will do
	}
	base, err := rmm.ParseBaseURL(sim.BaseURL())
	if err != nil {
		return nil, err
	}
	client, err := a.newClient(base, cfg.Key, cfg.Secret, sim.Transport())
	if err != nil {
		return nil, err
	}
	return &connection{name: "simulated account", id: "sim " + a.sim.settings, baseURL: base, client: client, sim: sim}, nil
}

// The credentials of simulated accounts. They open nothing else.
const (
	simKey    = "sim-key"
	simSecret = "sim-secret"
)

func (a *app) newClient(base *url.URL, key, secret string, transport http.RoundTripper) (*rmm.Client, error) {
	if a.wrap != nil {
		transport = a.wrap(transport)
	}
	client, err := rmm.New(rmm.Config{
		BaseURL:   base,
		Key:       key,
		Secret:    secret,
		Transport: transport,
		Timeout:   a.settings.duration("timeout"),
		UserAgent: "rmmjob/" + buildVersion().Version,
	})
	if err != nil {
		return nil, fail(exitUsage, "account: %w", err)
	}
	return client, nil
}

// credentials are what a login needs, and where each part was found.
type credentials struct {
	name    string // of the account, "" where it has none
	url     string
	urlFrom string
	key     string
	secret  string
	from    string
	caCert  string
}

// credentials finds key, secret and address. A named account is taken from
// the config file; DATTO_API_* serve alone when no account is asked for, and
// otherwise fill in what the account leaves out. --credentials-file wins over
// both.
func (a *app) credentials(ctx context.Context) (credentials, error) {
	chosen := a.settings.find("account")
	env := credentials{
		url: a.trimmedEnv("DATTO_API_URL"), urlFrom: "DATTO_API_URL",
		key: a.trimmedEnv("DATTO_API_KEY"), secret: a.trimmedEnv("DATTO_API_SECRET"),
		from: "the environment", caCert: a.settings.path("ca_cert"),
	}
	complete := env.url != "" && env.key != "" && env.secret != ""
	asked := chosen.origin.kind > originConfig

	if path := a.settings.path("credentials_file"); path != "" {
		c := env
		if asked {
			c.name = chosen.text
		}
		return c.fill(ctx, account{credentialsFile: path}, a)
	}
	if complete && !asked {
		return env, nil
	}
	name := chosen.text
	names := a.settings.accountNames()
	if name == "" {
		switch {
		case len(names) == 1:
			name = names[0]
		case len(names) > 1:
			return env, usagef("which account? the config file has several: %s", strings.Join(names, ", ")).
				withHint("name it with --account, with account in the job file, or by: rmmjob config set account %s", names[0])
		default:
			return env.check(a)
		}
	}
	acc, ok := a.settings.findAccount(name)
	if !ok {
		if complete && len(names) == 0 {
			env.name = name // nothing here knows better
			return env, nil
		}
		err := usagef("account %s (from %s) is in no config file", name, chosen.origin)
		if near := spell.Nearest(name, names); near != "" {
			err = err.withHint("did you mean %s?", near)
		}
		if user, machine, _ := a.configPaths(); true {
			err = err.withHint("looked in: %s", strings.Join(slices.DeleteFunc([]string{user, machine}, func(s string) bool { return s == "" }), ", "))
		}
		return env, err
	}
	c := env
	c.name = name
	return c.fill(ctx, acc, a)
}

// fill takes what the account says over what the environment said.
func (c credentials) fill(ctx context.Context, acc account, a *app) (credentials, error) {
	if acc.url != "" {
		c.url, c.urlFrom = acc.url, acc.origin.String()
	}
	if k := a.settings.find("ca_cert").origin.kind; acc.caCert != "" && k != originFlag && k != originEnv {
		c.caCert = acc.caCert
	}
	got, err := acc.secrets(ctx)
	if err != nil {
		return c, err
	}
	if got.key != "" {
		c.key, c.secret, c.from = got.key, got.secret, got.from
	}
	if got.url != "" && acc.url == "" {
		c.url, c.urlFrom = got.url, got.from
	}
	return c.check(a)
}

// check tells what is missing and every place that was looked at.
func (c credentials) check(a *app) (credentials, error) {
	var missing []string
	for _, part := range []struct{ name, text string }{{"address", c.url}, {"key", c.key}, {"secret", c.secret}} {
		if part.text == "" {
			missing = append(missing, part.name)
		}
	}
	if len(missing) == 0 {
		return c, nil
	}
	what := "no account is set up"
	if c.name != "" {
		what = "account " + c.name + " is not complete"
	}
	err := usagef("%s; missing: API %s", what, strings.Join(missing, ", "))
	for _, name := range []string{"DATTO_API_URL", "DATTO_API_KEY", "DATTO_API_SECRET"} {
		if a.trimmedEnv(name) == "" {
			err = err.withHint("looked in: environment %s (not set)", name)
		}
	}
	for _, f := range []configFile{a.settings.user, a.settings.machine} {
		switch {
		case f.path == "":
			err = err.withHint("looked in: config file of the user (the environment names no home folder)")
		case !f.exists:
			err = err.withHint("looked in: config file %s (not there)", f.path)
		default:
			err = err.withHint("looked in: config file %s", f.path)
		}
	}
	if user := a.getenv("USERNAME") + a.getenv("USER"); user != "" {
		err = err.withHint("this process runs as %s, whose files may be others than yours", user)
	}
	return c, err.withHint("try it without an account: add --sim")
}

func (a *app) trimmedEnv(name string) string { return strings.TrimSpace(a.getenv(name)) }
