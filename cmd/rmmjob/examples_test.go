package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// examples copies what the repository has in examples/jobs, and not what earlier
// runs have left there, to a folder like a fresh clone, and lists its jobs.
func examples(t *testing.T) (root string, names []string) {
	t.Helper()
	root = t.TempDir()
	dir := filepath.Join("..", "..", "examples", "jobs")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(root, "examples", "jobs")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(e.Name()) == ".yaml" {
			names = append(names, e.Name())
		}
	}
	return root, names
}

// elements asks an account for a whole list.
func elements(t *testing.T, account *rmmsim.Account, list string, query url.Values) int {
	t.Helper()
	base, err := rmm.ParseBaseURL(account.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := rmm.New(rmm.Config{BaseURL: base, Key: simKey, Secret: simSecret, Transport: account.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	op, ok := rmm.Lookup(list)
	if !ok {
		t.Fatalf("no list %s", list)
	}
	n := 0
	for req := (rmm.Request{Op: list, Query: query}); ; {
		resp, err := client.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		page, err := rmm.ParsePage(op, resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(page.Items); page.Next == "" {
			return n
		}
		if req.Query, err = rmm.NextQuery(req, page.Next); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExamples runs every example as the README says, on the simulated account,
// and compares what comes out with the account.
func TestExamples(t *testing.T) {
	t.Parallel()
	account, err := rmmsim.New(rmmsim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// What needs a request for each device is run on a small account.
	const small = "devices=90"
	few, err := rmmsim.New(rmmsim.Config{Devices: 90})
	if err != nil {
		t.Fatal(err)
	}
	whole, part := newWitness(t, account), newWitness(t, few)
	// counting is how many elements of a list are wanted.
	counting := func(w *witness, path, element string, wanted func(object) bool) func() int {
		return func() (n int) {
			for _, o := range w.list(path, element) {
				if wanted(o) {
					n++
				}
			}
			return n
		}
	}
	oneOf := func(v any, list ...string) bool { return slices.Contains(list, fmt.Sprint(v)) }
	want := map[string]struct {
		rows   func() int // of each output
		files  int
		writes int
		yes    bool   // it needs a person's agreement
		sim    string // another account than the usual one
	}{
		"software-inventory.yaml": {sim: small, files: 1, rows: func() (n int) {
			for _, d := range part.list("/v2/account/devices", "devices") {
				n += len(part.list("/v2/audit/device/"+said(d, "uid")+"/software", "software"))
			}
			return n
		}},
		"open-alerts.yaml": {files: 1, rows: counting(whole, "/v2/account/alerts/open?muted=false&max=250", "alerts", func(o object) bool {
			return oneOf(o["priority"], "Critical", "High", "Moderate") && o["muted"] == false
		})},
		"patch-status.yaml": {files: 1, rows: counting(whole, "/v2/account/devices?max=250", "devices", func(o object) bool {
			patches, _ := o["patchManagement"].(object)
			return o["deviceClass"] == "device" && o["deleted"] != true && patches["patchStatus"] != nil && patches["patchStatus"] != "FullyPatched"
		})},
		"warranty-list.yaml": {sim: small, files: 1, rows: counting(part, "/v2/account/devices", "devices", func(o object) bool {
			return oneOf(o["deviceClass"], "device", "printer", "esxihost") && o["warrantyDate"] != nil
		})},
		"site-summary.yaml": {sim: small, files: 1, rows: counting(part, "/v2/account/sites", "sites", func(o object) bool { return o["onDemand"] != true })},
		"users.yaml":        {files: 1, rows: counting(whole, "/v2/account/users", "users", func(object) bool { return true })},

		"export-devices.yaml": {rows: func() int { return len(account.DeviceUIDs()) }, files: 1},
		"export-sites.yaml":   {rows: func() int { return elements(t, account, "sites", nil) }, files: 2},
		"export-alerts.yaml":  {rows: func() int { return elements(t, account, "alerts-open", url.Values{"muted": {"false"}}) }, files: 1},

		"power-bi-devices.yaml": {rows: func() int { return len(account.DeviceUIDs()) }, files: 1},
		"device-workbook.yaml":  {rows: func() int { return len(account.DeviceUIDs()) }, files: 3},
		"sites-table.yaml":      {rows: func() int { return elements(t, account, "sites", nil) }, files: 1},

		"set-udfs.yaml":       {writes: 8},
		"set-warranty.yaml":   {writes: 6},
		"move-devices.yaml":   {writes: 3, yes: true},
		"site-variables.yaml": {writes: 3},

		"set-udfs-workbook.yaml": {writes: 4},
		"restart-spooler.yaml":   {writes: 11, yes: true},
		"close-alerts.yaml":      {writes: 52},

		// Run twice by TestIncrementalExamples.
		"changed-devices.yaml": {}, "new-activity.yaml": {}, "new-resolved-alerts.yaml": {},
	}
	root, names := examples(t)
	state := t.TempDir()
	for _, name := range names {
		c, known := want[name]
		if !known {
			t.Errorf("%s: say here what it should come to", name)
			continue
		}
		sim := "--sim"
		if c.sim != "" {
			sim += "=" + c.sim
		}
		cmd := exec.CommandContext(t.Context(), "rmmjob", "run", sim, "examples/jobs/"+name, "--json", "--state-dir", state)
		if c.yes {
			cmd.Args = append(cmd.Args, "--yes")
		}
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		var res struct {
			State  string
			Files  []file
			Counts counts
		}
		if err := json.Unmarshal(out, &res); err != nil || res.State != "ok" {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if int(res.Counts.Writes) != c.writes {
			t.Errorf("%s: %d writes, want %d", name, res.Counts.Writes, c.writes)
		}
		if c.rows == nil {
			continue
		}
		if len(res.Files) != c.files {
			t.Errorf("%s: %d files, want %d", name, len(res.Files), c.files)
		}
		for _, f := range res.Files {
			if n := countRows(t, f.Path); n != c.rows() || f.Rows != int64(n) || n == 0 || !strings.HasPrefix(f.Path, filepath.Join(root, "examples", "jobs", "out")) {
				t.Errorf("%s: %s has %d rows, the result says %d, the account %d", name, f.Path, n, f.Rows, c.rows())
			}
		}
	}
	for name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("there is no example %s", name)
		}
	}
	// Beside the outputs nothing has appeared.
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 {
		t.Errorf("in the folder: %v %v", left, err)
	}
}

// countRows counts the rows of an output by its ending.
func countRows(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(path) {
	case ".jsonl":
		return bytes.Count(data, []byte("\n"))
	case ".xlsx":
		return len(sheetOf(t, path)) - 1
	case ".sqlite":
		if n := tableOf(t, path, "SELECT count(*) FROM sqlite_schema WHERE name = 'sites'"); n[0] == "1" {
			return len(tableOf(t, path, "SELECT uid FROM sites"))
		}
		return len(tableOf(t, path, "SELECT hostname FROM devices"))
	}
	return rowsOf(t, bytes.TrimPrefix(data, []byte("\ufeff")))
}

// TestReadmeCommands checks that the README names verbs, flags and files that
// exist.
func TestReadmeCommands(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	root, _ := examples(t)
	commands := 0
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimSpace(line)
		_, args, ok := strings.Cut(line, "rmmjob ")
		words := strings.Fields(args)
		if !ok || !strings.HasPrefix(line, "rmmjob ") && !strings.HasPrefix(line, "./rmmjob ") && !strings.HasPrefix(line, "go run ./cmd/rmmjob ") {
			continue
		}
		commands++
		if _, known := lookupVerb(words[0]); !known && words[0] != "help" {
			t.Errorf("%q: no such verb", line)
		}
		for _, w := range words[1:] {
			if strings.HasPrefix(w, "examples/") {
				if _, err := os.Stat(filepath.Join(root, w)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if commands < 8 {
		t.Errorf("only %d commands found", commands)
	}
	var table bytes.Buffer
	for _, row := range exitTable {
		table.Reset()
		table.WriteString("| " + strconv.Itoa(int(row.code)) + " | " + row.name + " | " + row.meaning + " |\n")
		if !bytes.Contains(data, table.Bytes()) {
			t.Errorf("the README has no line %s", &table)
		}
	}
}
