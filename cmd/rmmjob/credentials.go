package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Bounds on sources of credentials.
const (
	maxCredentials = 64 << 10         // bytes; anything longer is another file
	commandTimeout = 30 * time.Second // a command must not need a person
)

// secrets reads key, secret and perhaps the address from the account's source.
// An account without a source gives nothing and no error.
func (acc account) secrets(ctx context.Context) (credentials, error) {
	switch {
	case acc.credentialsFile != "":
		data, err := readPrivate(acc.credentialsFile)
		if err != nil {
			return credentials{}, err
		}
		return parseCredentials(data, "credentials file "+acc.credentialsFile)
	case acc.keyFile != "":
		key, err := readPrivate(acc.keyFile)
		if err != nil {
			return credentials{}, err
		}
		secret, err := readPrivate(acc.secretFile)
		if err != nil {
			return credentials{}, err
		}
		return credentials{key: trimKey(key), secret: trimKey(secret), from: "key file " + acc.keyFile}, nil
	case acc.command != nil:
		return acc.runCommand(ctx)
	}
	return credentials{}, nil
}

// readPrivate reads a small file that only its owner may read. On Windows the
// folder's access list decides and is not looked at.
func readPrivate(path string) ([]byte, error) {
	// Looked at before it is opened: opening a pipe waits for its other end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usagef("credentials: %s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("credentials: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, usagef("credentials: %w", err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, usagef("credentials: %s can be read by others (mode %04o)", path, mode).
			withHint("%s", commandLine("chmod", "600", path))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCredentials+1))
	switch {
	case err != nil:
		return nil, usagef("credentials: %w", err)
	case len(data) > maxCredentials:
		return nil, usagef("credentials: %s is too long for a file of credentials", path)
	}
	return data, nil
}

func trimKey(data []byte) string {
	return strings.TrimSpace(string(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

// runCommand runs the account's command and reads its standard output. What
// it says on standard error is not shown: it may be about the secret.
func (acc account) runCommand(ctx context.Context) (credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, acc.command[0], acc.command[1:]...) //nolint:gosec // the user's own choice, without a shell
	cmd.WaitDelay = 2 * time.Second
	var out limitedBuffer
	cmd.Stdout = &out
	err := cmd.Run()
	from := "command " + acc.command[0]
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", commandTimeout)
	case ctx.Err() != nil:
		return credentials{}, ctx.Err()
	case out.full:
		err = errors.New("its output is too long for credentials")
	}
	if err != nil {
		return credentials{}, usagef("credentials: %s of account %s: %w", from, acc.name, err).
			withHint("run the command by hand as the same user; it must not ask anything")
	}
	return parseCredentials(out.data, from)
}

// limitedBuffer keeps the first maxCredentials bytes.
type limitedBuffer struct {
	data []byte
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := maxCredentials - len(b.data)
	if len(p) > room {
		b.full = true
		b.data = append(b.data, p[:room]...)
		return len(p), nil
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// parseCredentials reads api_url, api_key and api_secret, as YAML or as
// KEY=VALUE lines, with or without DATTO_ before them. Its errors name lines
// and never values.
func parseCredentials(data []byte, from string) (credentials, error) {
	pairs, err := credentialPairs(bytes.TrimPrefix(data, []byte("\ufeff")), from)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{from: from}
	for _, p := range pairs {
		text := strings.TrimSpace(p.text)
		switch key := strings.ToLower(strings.TrimPrefix(strings.ToUpper(p.key), "DATTO_")); key {
		case "api_url":
			c.url = text
		case "api_key":
			c.key = text
		case "api_secret":
			c.secret = text
		default:
			return credentials{}, usagef("%s:%d: unknown key %q", from, p.line, p.key).
				withHint("the keys are api_url, api_key and api_secret")
		}
	}
	if c.key == "" || c.secret == "" {
		return credentials{}, usagef("%s: api_key and api_secret must both be there", from)
	}
	return c, nil
}

type credentialPair struct {
	key, text string
	line      int
}

func credentialPairs(data []byte, from string) ([]credentialPair, error) {
	var pairs []credentialPair
	lines := strings.Split(string(data), "\n")
	if !looksLikeAssignments(lines) {
		var doc yaml.Node
		if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
			return nil, usagef("%s: neither YAML nor KEY=VALUE lines", from)
		}
		m := doc.Content[0].Content
		for i := 0; i+1 < len(m); i += 2 {
			if m[i+1].Kind != yaml.ScalarNode {
				return nil, usagef("%s:%d: %q needs one plain value", from, m[i].Line, m[i].Value)
			}
			pairs = append(pairs, credentialPair{m[i].Value, m[i+1].Value, m[i].Line})
		}
		return pairs, nil
	}
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, text, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, usagef("%s:%d: no KEY=VALUE line", from, i+1)
		}
		text = strings.TrimSpace(text)
		if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
			text = text[1 : n-1]
		}
		pairs = append(pairs, credentialPair{strings.TrimSpace(key), text, i + 1})
	}
	return pairs, nil
}

// looksLikeAssignments tells KEY=VALUE lines from YAML by their first line.
func looksLikeAssignments(lines []string) bool {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		equals, colon := strings.IndexByte(line, '='), strings.IndexByte(line, ':')
		return equals > 0 && (colon < 0 || equals < colon)
	}
	return false
}
