package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rmmjob/internal/spell"
)

// configVerb shows and changes the settings of the config file.
func configVerb(_ context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("grace", "workers", "page_size", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	if err := f.parseOnly(args); err != nil {
		return err
	}
	rest := f.Args()
	if len(rest) == 0 {
		return usagef("config needs one of show, set, unset, path").withHint("rmmjob config --help has examples")
	}
	want := map[string]int{"show": 0, "path": 0, "unset": 1, "set": 2}
	n, ok := want[rest[0]]
	switch {
	case !ok:
		err := usagef("unknown verb %q of config", rest[0])
		if near := spell.Nearest(rest[0], []string{"show", "set", "unset", "path"}); near != "" {
			err = err.withHint("did you mean %q?", "config "+near)
		}
		return err
	case len(rest)-1 != n:
		return usagef("config %s needs %d arguments, not %d", rest[0], n, len(rest)-1).withHint("rmmjob config --help has examples")
	}
	switch rest[0] {
	case "set":
		return a.configSet(rest[1], rest[2])
	case "unset":
		return a.configUnset(rest[1])
	case "path":
		return a.configPath()
	}
	if err := a.loadSettings(f); err != nil {
		return err
	}
	a.configShow()
	return nil
}

// configShow prints every value and where it comes from.
func (a *app) configShow() {
	type shown struct {
		Key    string `json:"key"`
		Value  any    `json:"value"`
		Origin string `json:"origin"`
	}
	var list []shown
	t := newTable("setting", "value", "from")
	add := func(key, text string, from string) {
		v := any(text)
		if text == "" {
			v, text = nil, "-"
		}
		list = append(list, shown{key, v, from})
		t.add(key, text, from)
	}
	for _, s := range settingTable {
		v := a.settings.find(s.key)
		text := v.text
		if s.kind == kindPath && text != "" {
			text = absolute(text)
		}
		from := v.origin.String()
		if text == "" {
			from = ""
			if strings.HasPrefix(s.key, "throttle.") {
				continue // values of a profile that is not in use
			}
		}
		if s.key == "state_dir" && text == "" {
			if dir, err := a.stateDir(); err == nil {
				text, from = dir, "default"
			}
		}
		add(s.key, text, from)
	}
	for _, name := range a.settings.accountNames() {
		acc, _ := a.settings.findAccount(name)
		prefix := "accounts." + name + "."
		for _, f := range []struct{ key, text string }{
			{"url", acc.url},
			{"key_file", acc.keyFile},
			{"secret_file", acc.secretFile},
			{"credentials_file", acc.credentialsFile},
			{"command", strings.Join(acc.command, " ")},
			{"ca_cert", acc.caCert},
		} {
			if f.text != "" {
				add(prefix+f.key, f.text, acc.origin.String())
			}
		}
	}
	// Of the secrets only where they are is told.
	for _, name := range []string{"DATTO_API_URL", "DATTO_API_KEY", "DATTO_API_SECRET"} {
		switch text := a.trimmedEnv(name); {
		case text == "":
		case name == "DATTO_API_URL":
			add(name, text, "environment")
		default:
			add(name, "(set)", "environment")
		}
	}
	if a.json {
		a.result.set("settings", list)
		return
	}
	t.write(a.stdout)
}

// configPath prints the files in the order in which they count.
func (a *app) configPath() error {
	user, machine, _ := a.configPaths()
	type place struct {
		Path   string `json:"path"`
		Layer  string `json:"layer"`
		Exists bool   `json:"exists"`
	}
	var list []place
	for _, p := range []place{{Path: user, Layer: "user"}, {Path: machine, Layer: "machine"}} {
		if p.Path == "" {
			continue
		}
		_, err := os.Stat(p.Path)
		p.Exists = err == nil
		list = append(list, p)
	}
	if a.json {
		a.result.set("config_files", list)
		return nil
	}
	if user == "" {
		a.warn("the environment names no home folder, so there is no config file of the user; name one with --config")
	}
	t := newTable()
	for _, p := range list {
		note := p.Layer
		if !p.Exists {
			note += ", not there"
		}
		t.add(p.Path, note)
	}
	t.write(a.stdout)
	return nil
}

// configSet stores one value in the user's config file.
func (a *app) configSet(key, text string) error {
	path, err := checkKey(key)
	if err != nil {
		return err
	}
	v := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if path[0] == "accounts" && path[2] == "command" {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.SequenceNode {
			return usagef("%s: command must be a list", key).withHint(`for example: rmmjob config set %s '[op, read, "op://vault/datto"]'`, key)
		}
		v = doc.Content[0]
	} else if s, ok := lookupSetting(key); ok {
		if err := s.check(text); err != nil {
			return usagef("%s: %w", key, err)
		}
		if s.kind == kindPath {
			v.Value = absolute(text) // the user means the folder he is in
		}
	} else if path[2] != "url" {
		v.Value = absolute(text)
	}
	return a.editConfig(func(root *yaml.Node) error {
		return setNode(root, path, v)
	})
}

// configUnset takes one value out of the user's config file.
func (a *app) configUnset(key string) error {
	path := strings.SplitN(key, ".", 3)
	wholeAccount := path[0] == "accounts" && len(path) == 2
	if _, err := checkKey(key); err != nil && !wholeAccount {
		return err
	}
	return a.editConfig(func(root *yaml.Node) error {
		if !unsetNode(root, path) {
			return usagef("%s is not set in the config file", key).withHint("rmmjob config show tells where a value comes from")
		}
		return nil
	})
}

// checkKey splits a dotted key and tells whether it can be set.
func checkKey(key string) ([]string, error) {
	if isSecretKey(key) {
		return nil, usagef("%s: a secret has no place in the config file", key).
			withHint("name a file readable by its owner only: rmmjob config set accounts.NAME.credentials_file FILE").
			withHint("if it stands in your shell's history now, renew it")
	}
	if _, ok := lookupSetting(key); ok {
		return strings.SplitN(key, ".", 2), nil
	}
	if rest, ok := strings.CutPrefix(key, "accounts."); ok {
		name, field, _ := strings.Cut(rest, ".")
		if name != "" && slices.Contains(accountKeys(), field) {
			return []string{"accounts", name, field}, nil
		}
		return nil, usagef("unknown setting %s", key).
			withHint("an account has %s", strings.Join(accountKeys(), ", "))
	}
	err := usagef("unknown setting %s", key)
	if near := spell.Nearest(key, settingKeys()); near != "" {
		err = err.withHint("did you mean %s?", near)
	}
	return nil, err.withHint("rmmjob config show lists the settings")
}

// editConfig changes the user's config file in one step: read, change, check
// the outcome, replace. Comments and order stay.
func (a *app) editConfig(change func(root *yaml.Node) error) error {
	path, _, _ := a.configPaths()
	if path == "" {
		return usagef("the environment names no home folder").withHint("name the config file with --config")
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link to a file elsewhere stays a link
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(exitLocalIO, "read config file: %w", err)
	}
	if _, err := parseConfig(path, data); err != nil {
		return err // a file with faults is for its owner to mend
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return usagef("%s: %w", path, err)
	}
	if doc.Kind == 0 {
		doc = yaml.Node{Kind: yaml.DocumentNode, HeadComment: strings.TrimRight(string(data), "\n")}
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		doc.Content = []*yaml.Node{{Kind: yaml.MappingNode}}
	}
	if err := change(doc.Content[0]); err != nil {
		return err
	}
	var out bytes.Buffer
	if len(doc.Content[0].Content) > 0 {
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
			return fmt.Errorf("write config: %w", err)
		}
	}
	if _, err := parseConfig(path, out.Bytes()); err != nil {
		return err
	}
	if err := replaceFile(path, out.Bytes()); err != nil {
		return fail(exitLocalIO, "write config file: %w", err)
	}
	a.say("changed %s", path)
	a.result.set("config_file", path)
	return nil
}

// replaceFile writes a private file so that at every moment the old or the
// new one is there whole.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be synced there
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// setNode sets a value below a mapping, making the mappings on the way.
func setNode(m *yaml.Node, path []string, v *yaml.Node) error {
	i := keyIndex(m, path[0])
	if i < 0 {
		m.Style = 0
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, &yaml.Node{Kind: yaml.MappingNode})
		i = len(m.Content) - 1
	}
	old := m.Content[i]
	if len(path) > 1 {
		if old.Kind != yaml.MappingNode {
			*old = yaml.Node{Kind: yaml.MappingNode, HeadComment: old.HeadComment, LineComment: old.LineComment, FootComment: old.FootComment}
		}
		return setNode(old, path[1:], v)
	}
	v.HeadComment, v.LineComment, v.FootComment = old.HeadComment, old.LineComment, old.FootComment
	m.Content[i] = v
	return nil
}

// unsetNode removes a value, and mappings that it leaves empty.
func unsetNode(m *yaml.Node, path []string) bool {
	i := keyIndex(m, path[0])
	if i < 0 {
		return false
	}
	if child := m.Content[i]; len(path) > 1 {
		if child.Kind != yaml.MappingNode || !unsetNode(child, path[1:]) {
			return false
		}
		if len(child.Content) > 0 {
			return true
		}
	}
	m.Content = slices.Delete(m.Content, i-1, i+1)
	return true
}

// keyIndex returns the place of a key's value in a mapping, -1 if there is none.
func keyIndex(m *yaml.Node, key string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}
