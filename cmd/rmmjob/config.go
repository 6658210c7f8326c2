package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/spell"
	"rmmjob/jobs"
)

// account is one account of a config file: its address and where its key and
// secret are to be found. The file never holds them itself.
type account struct {
	name            string
	origin          origin
	url             string
	keyFile         string   // absolute
	secretFile      string   // absolute
	credentialsFile string   // absolute
	command         []string // argument list; no shell is involved
	caCert          string   // absolute
}

// accountFields are the keys of an account and what they mean.
var accountFields = []struct{ key, help string }{
	{"url", "address of the API, or a platform name such as merlot"},
	{"key_file", "file with the API key alone"},
	{"secret_file", "file with the API secret alone"},
	{"credentials_file", "file with api_url, api_key, api_secret; readable by its owner only"},
	{"command", "program and arguments that print the same lines as a credentials file"},
	{"ca_cert", "PEM file with certificates to trust for this account"},
}

// configFile is one layer of configuration, read and checked.
type configFile struct {
	path     string // "" when there is no place for one
	exists   bool
	values   layer
	accounts []account
}

// configPaths returns where the config files are looked for. user is "" where
// the environment names no home; explicit tells that the user has named it.
func (a *app) configPaths() (user, machine string, explicit bool) {
	machine = "/etc/rmmjob/config.yaml"
	home := a.getenv("HOME")
	base := a.getenv("XDG_CONFIG_HOME")
	if base == "" && home != "" {
		base = filepath.Join(home, ".config")
	}
	if runtime.GOOS == "windows" {
		base = a.getenv("APPDATA")
		machine = ""
		if p := a.getenv("ProgramData"); p != "" {
			machine = filepath.Join(p, "rmmjob", "config.yaml")
		}
	}
	if base != "" {
		user = filepath.Join(base, "rmmjob", "config.yaml")
	}
	if a.config != "" {
		return absolute(a.config), machine, true
	}
	return user, machine, false
}

// loadConfig reads both config files into the settings. A file that is not
// there is an empty layer, unless the user has named it.
func (a *app) loadConfig() error {
	user, machine, explicit := a.configPaths()
	var err error
	if a.settings.machine, err = readConfig(machine); err != nil {
		return err
	}
	if a.settings.user, err = readConfig(user); err != nil {
		return err
	}
	if explicit && !a.settings.user.exists {
		return usagef("config file %s: %w", user, fs.ErrNotExist)
	}
	return nil
}

// readConfig reads one config file.
func readConfig(path string) (configFile, error) {
	c := configFile{path: path}
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fail(exitUsage, "read config file: %w", err)
	}
	c.exists = true
	return parseConfig(path, data)
}

// parseConfig checks the text of a config file and returns what it says. Its
// error lists every fault as jobs.Errors.
func parseConfig(path string, data []byte) (configFile, error) {
	p := configParser{file: configFile{path: path, exists: true, values: layer{}}}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return p.file, nil // empty, or comments only
	case err != nil:
		return p.file, jobs.Errors{{Pos: jobs.Pos{File: path}, Message: strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	p.root(doc.Content[0])
	if dec.Decode(new(yaml.Node)) == nil {
		p.fault(doc.Content[0], "", "a second document; a config file is one")
	}
	if len(p.faults) > 0 {
		return p.file, p.faults
	}
	return p.file, nil
}

// configParser walks the nodes of a config file and collects faults.
type configParser struct {
	file   configFile
	faults jobs.Errors
}

func (p *configParser) fault(n *yaml.Node, hint, format string, args ...any) {
	p.faults = append(p.faults, &jobs.Error{
		Pos:     jobs.Pos{File: p.file.path, Line: n.Line, Column: n.Column},
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	})
}

// fields calls each for every key of a mapping, and complains about anything
// that is no mapping and about keys that come twice.
func (p *configParser) fields(n *yaml.Node, what string, each func(key string, k, v *yaml.Node)) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.fault(n, "", "%s must be a mapping of names to values", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		if seen[k.Value] {
			p.fault(k, "", "%s comes twice", k.Value)
			continue
		}
		seen[k.Value] = true
		each(k.Value, k, v)
	}
}

func (p *configParser) root(n *yaml.Node) {
	p.fields(n, "a config file", func(key string, k, v *yaml.Node) {
		switch key {
		case "version":
			if v.Value != "1" {
				p.fault(v, "", "version %q is not known, this program reads version 1", v.Value)
			}
		case "accounts":
			p.fields(v, "accounts", p.account)
		case "throttle":
			p.fields(v, "throttle", func(key string, k, v *yaml.Node) { p.setting("throttle."+key, k, v) })
		default:
			p.setting(key, k, v)
		}
	})
}

// setting takes one value of the table.
func (p *configParser) setting(key string, k, v *yaml.Node) {
	s, ok := lookupSetting(key)
	if !ok {
		p.unknown(k, key, settingKeys())
		return
	}
	if s.kind == kindReserve && v.Kind == yaml.MappingNode {
		r, at, err := jobs.ReserveOf(v)
		if err != nil {
			p.fault(at, "", "%s: %v", key, err)
			return
		}
		p.file.values[key] = value{r.String(), origin{originConfig, fmt.Sprintf("%s:%d", p.file.path, k.Line)}}
		return
	}
	text, ok := p.scalar(key, v)
	if !ok {
		return
	}
	if err := s.check(text); err != nil {
		p.fault(v, "", "%s: %v", key, err)
		return
	}
	if s.kind == kindPath {
		text = p.resolve(text)
	}
	p.file.values[key] = value{text, origin{originConfig, fmt.Sprintf("%s:%d", p.file.path, k.Line)}}
}

// account takes one entry of accounts.
func (p *configParser) account(name string, k, v *yaml.Node) {
	acc := account{name: name, origin: origin{originConfig, fmt.Sprintf("%s:%d", p.file.path, k.Line)}}
	if strings.TrimSpace(name) == "" || strings.Contains(name, ".") {
		p.fault(k, "", "an account needs a name without dots")
	}
	sources := 0
	p.fields(v, "account "+name, func(key string, k, v *yaml.Node) {
		if key == "command" {
			sources++
			if v.Kind != yaml.SequenceNode || len(v.Content) == 0 || v.Decode(&acc.command) != nil {
				p.fault(v, "no shell is involved", `command must be a list such as [op, read, "op://vault/datto"]`)
			}
			return
		}
		text, ok := p.scalar(key, v)
		if !ok {
			return
		}
		switch key {
		case "url":
			if err := checkURL(text); err != nil {
				p.fault(v, "", "url: %v", err)
			}
			acc.url = text
		case "key_file":
			sources++
			acc.keyFile = p.resolve(text)
		case "secret_file":
			acc.secretFile = p.resolve(text)
		case "credentials_file":
			sources++
			acc.credentialsFile = p.resolve(text)
		case "ca_cert":
			acc.caCert = p.resolve(text)
		default:
			p.unknown(k, key, accountKeys())
		}
	})
	if (acc.keyFile == "") != (acc.secretFile == "") {
		p.fault(k, "", "account %s: key_file and secret_file go together", name)
	}
	if sources > 1 {
		p.fault(k, "", "account %s has several sources of its key; keep one of key_file, credentials_file and command", name)
	}
	p.file.accounts = append(p.file.accounts, acc)
}

// scalar returns the text of a plain value.
func (p *configParser) scalar(key string, v *yaml.Node) (string, bool) {
	if isSecretKey(key) {
		return "", true // reported by unknown, without looking at the value
	}
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		p.fault(v, "", "%s needs one plain value", key)
		return "", false
	}
	return v.Value, true
}

// unknown reports a key that does not exist, or that must not.
func (p *configParser) unknown(k *yaml.Node, key string, known []string) {
	if isSecretKey(key) {
		p.fault(k, "name a file readable by its owner only with credentials_file, or a command", "%s: a secret has no place in the config file", key)
		return
	}
	hint := ""
	if near := spell.Nearest(key, known); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	p.fault(k, hint, "unknown setting %s", key)
}

// resolve makes a path of the file absolute: relative to the file.
func (p *configParser) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(p.file.path), path)
}

// isSecretKey tells whether a key asks for the secret itself.
func isSecretKey(key string) bool {
	key = strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
	return slices.Contains([]string{
		"key", "secret", "api_key", "api_secret", "apikey", "apisecret", "api-key", "api-secret",
		"password", "token", "access_token", "client_secret", "datto_api_key", "datto_api_secret",
	}, key)
}

func settingKeys() []string {
	keys := []string{"accounts", "throttle", "version"}
	for _, s := range settingTable {
		keys = append(keys, s.key)
	}
	return keys
}

func accountKeys() []string {
	var keys []string
	for _, f := range accountFields {
		keys = append(keys, f.key)
	}
	return keys
}

// findAccount returns an account by name; the user's file wins over the
// machine's.
func (s *settings) findAccount(name string) (account, bool) {
	for _, list := range [][]account{s.user.accounts, s.machine.accounts} {
		for _, acc := range list {
			if acc.name == name {
				return acc, true
			}
		}
	}
	return account{}, false
}

// accountNames returns the names of all accounts, sorted, each once.
func (s *settings) accountNames() []string {
	var names []string
	for _, acc := range slices.Concat(s.user.accounts, s.machine.accounts) {
		names = append(names, acc.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
