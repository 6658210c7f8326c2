package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/internal/rmmsim"
)

// runCommands are the commands of scripts about runs. They look into the account
// that `account` or `fleet` began last.
var runCommands = map[string]func(*testscript.TestScript, bool, []string){
	"body":     scriptBody,
	"capture":  scriptCapture,
	"cases":    scriptCases,
	"cells":    scriptCells,
	"command":  scriptCommand,
	"device":   scriptDevice,
	"faults":   scriptFaults,
	"fleet":    scriptFleet,
	"jobfile":  scriptJobFile,
	"leak":     scriptLeak,
	"manifest": scriptManifest,
	"newkey":   scriptNewKey,
	"next":     scriptNext,
	"requests": scriptRequests,
	"runid":    scriptRunID,
	"setudf":   scriptSetUDF,
	"starts":   scriptStarts,
	"udf":      scriptUDF,
	"writes":   scriptWrites,
}

// withRunCommands adds runCommands to the others.
func withRunCommands(others map[string]func(*testscript.TestScript, bool, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	maps.Copy(others, runCommands)
	maps.Copy(others, controlCommands)
	return others
}

// accounts are the simulated accounts of scripts by their address.
var accounts sync.Map

// keepAccount makes an account known to the commands of this file.
func keepAccount(ts *testscript.TestScript, url string, account *rmmsim.Account) {
	accounts.Store(url, account)
	ts.Defer(func() { accounts.Delete(url) })
	ts.Setenv("SIM_URL", url)
}

// accountOf is the account that the script began last, whatever it has done to
// DATTO_API_URL since.
func accountOf(ts *testscript.TestScript) *rmmsim.Account {
	a, ok := accounts.Load(ts.Getenv("SIM_URL"))
	if !ok {
		ts.Fatalf("no account: begin one with account or fleet")
	}
	return a.(*rmmsim.Account) //nolint:errcheck // nothing else is stored
}

// fast are limits that a script never reaches.
const fast = "limits=600000/600000,limit.device-udf-set=600000,limit.device-warranty-create=600000"

// The devices of the cases.
const (
	deviceA = `{"uid":"11111111-1111-4111-8111-1111111111a1","id":1,"hostname":"WS-ALFA","siteName":"Depot North","udf":{"udf7":null}}`
	deviceB = `{"uid":"22222222-2222-4222-8222-2222222222b2","id":2,"hostname":"WS-BRAVO","siteName":"Depot North","udf":{"udf7":null}}`
	deviceC = `{"uid":"33333333-3333-4333-8333-3333333333c3","id":3,"hostname":"SRV-CHARLIE","siteName":"Depot North","udf":{"udf7":null}}`
	deviceD = `{"uid":"44444444-4444-4444-8444-4444444444d4","id":4,"hostname":"WS-ALFA","siteName":"Depot South","udf":{"udf7":null}}`
)

// scriptFleet begins an account that holds the four devices A, B, C and D of the
// cases and nothing else; settings add to its own:
//
//	fleet [settings]
func scriptFleet(ts *testscript.TestScript, neg bool, args []string) {
	settings := append([]string{"devices=0", fast}, args...)
	scriptAccount(ts, false, settings)
	for name, d := range map[string]string{"A": deviceA, "B": deviceB, "C": deviceC, "D": deviceD} {
		ts.Setenv(name, d[len(`{"uid":"`):len(`{"uid":"`)+36])
	}
	ts.Check(accountOf(ts).SetDevices(deviceA, deviceB, deviceC, deviceD))
}

// scriptCapture keeps a key of the last JSON result as a variable:
//
//	capture RUN run
func scriptCapture(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 2, "capture VARIABLE KEY")
	var res map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &res))
	text, ok := res[args[1]].(string)
	if !ok {
		ts.Fatalf("%s is no text in %v", args[1], res)
	}
	ts.Setenv(args[0], text)
}

// scriptManifest compares the sizes and sums in a manifest with its files:
//
//	manifest FILE
func scriptManifest(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "manifest FILE")
	var m output.Manifest
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &m))
	if len(m.Files) == 0 {
		ts.Fatalf("%s names no file", args[0])
	}
	for _, f := range m.Files {
		path := filepath.Join(filepath.Dir(ts.MkAbs(args[0])), filepath.FromSlash(f.Path))
		data, err := os.ReadFile(path)
		ts.Check(err)
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(data)) != f.Size {
			ts.Fatalf("%s is not the file that %s describes", path, args[0])
		}
	}
}

// scriptCases copies input files of the cases, byte for byte, beside the script:
//
//	cases C01 C15
func scriptCases(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: cases NAME...")
	}
	for _, name := range args {
		data, err := os.ReadFile(filepath.Join("..", "..", "jobs", "testdata", "cases", name+".csv"))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name+".csv"), data, 0o600))
	}
}

// scriptDevice replaces the fleet by the JSON objects of a file:
//
//	device FILE
func scriptDevice(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "device FILE")
	var objects []string
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	for {
		var obj json.RawMessage
		err := dec.Decode(&obj)
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		objects = append(objects, string(obj))
	}
	ts.Check(accountOf(ts).SetDevices(objects...))
}

// scriptFaults lets the faults of a file happen from now on instead of those
// before; none ends them:
//
//	faults FILE|none
func scriptFaults(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "faults FILE|none")
	accountOf(ts).ClearFaults()
	if args[0] == "none" {
		return
	}
	list, err := rmmsim.ParseFaults([]byte(ts.ReadFile(args[0])), args[0])
	ts.Check(err)
	ts.Check(accountOf(ts).AddFaults(list...))
}

// scriptNewKey gives the account another key, and puts it into the environment:
//
//	newkey KEY
func scriptNewKey(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "newkey KEY")
	accountOf(ts).AddKey(args[0], "secret of "+args[0])
	ts.Setenv("DATTO_API_KEY", args[0])
	ts.Setenv("DATTO_API_SECRET", "secret of "+args[0])
}

// scriptWrites checks how many writes the account has carried out:
//
//	writes 3
func scriptWrites(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "writes N")
	if got := accountOf(ts).Counts().Applied; strconv.Itoa(got) != args[0] {
		ts.Fatalf("the account carried out %d writes, want %s", got, args[0])
	}
}

// scriptRequests checks how many requests of an operation the account got,
// whatever it answered: token is a login, write any write, * everything:
//
//	requests devices 2
func scriptRequests(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 2, "requests OPERATION N")
	var seen []string
	n := 0
	for _, rec := range accountOf(ts).Log() {
		op, known := rmm.Lookup(rec.Operation)
		if args[0] == "*" || rec.Operation == args[0] || args[0] == "write" && known && op.IsWrite() {
			n++
		}
		seen = append(seen, rec.Method+" "+rec.Path)
	}
	if strconv.Itoa(n) != args[1] {
		ts.Fatalf("%d requests of %s, want %s, in\n%s", n, args[0], args[1], strings.Join(seen, "\n"))
	}
}

// scriptBody checks the bodies of all writes to a device that were carried out, in
// their order:
//
//	body UID JSON...
func scriptBody(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: body UID JSON...")
	}
	var got, want []any
	for _, rec := range accountOf(ts).Log() {
		if rec.Applied && strings.Contains(rec.Path, args[0]) {
			var v any
			ts.Check(json.Unmarshal([]byte(rec.Body), &v))
			got = append(got, v)
		}
	}
	for _, text := range args[1:] {
		var v any
		ts.Check(json.Unmarshal([]byte(text), &v))
		want = append(want, v)
	}
	if !reflect.DeepEqual(got, want) {
		ts.Fatalf("bodies of the writes to %s: %v, want %v", args[0], got, want)
	}
}

// scriptUDF checks a field in the account, scriptSetUDF sets one as a technician
// would:
//
//	udf UID FIELD VALUE
func scriptUDF(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 3, "udf UID FIELD VALUE")
	if got := accountOf(ts).UDF(args[0], args[1]); got != args[2] {
		ts.Fatalf("%s of %s is %q, want %q", args[1], args[0], got, args[2])
	}
}

func scriptSetUDF(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 3, "setudf UID FIELD VALUE")
	ts.Check(accountOf(ts).SetUDF(args[0], args[1], args[2]))
}

// scriptCells checks the records of a CSV file as a standard reader takes them
// apart: their number without the heading, and the cells of one column, where a
// comma in the argument parts the rows. {, } and {LF} stand for a comma and a
// line break of a value:
//
//	cells FILE 3 [COLUMN a,b,c]...
func scriptCells(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args)%2 != 0 {
		ts.Fatalf("usage: cells FILE ROWS [COLUMN VALUES]...")
	}
	data := strings.TrimPrefix(ts.ReadFile(args[0]), "\ufeff")
	r := csv.NewReader(strings.NewReader(data))
	line, _, _ := strings.Cut(data, "\n")
	for _, sep := range ";\t|" {
		if !strings.Contains(line, ",") && strings.ContainsRune(line, sep) {
			r.Comma = sep
		}
	}
	records, err := r.ReadAll()
	ts.Check(err)
	if n := strconv.Itoa(len(records) - 1); n != args[1] {
		ts.Fatalf("%s has %s rows, want %s:\n%s", args[0], n, args[1], data)
	}
	unescape := strings.NewReplacer("{,}", ",", "{LF}", "\n")
	for i := 2; i < len(args); i += 2 {
		at := slices.Index(records[0], args[i])
		if at < 0 {
			ts.Fatalf("%s has no column %q, only %q", args[0], args[i], records[0])
		}
		var got, want []string
		for _, rec := range records[1:] {
			got = append(got, rec[at])
		}
		for _, v := range strings.Split(strings.ReplaceAll(args[i+1], "{,}", "\x00"), ",") {
			want = append(want, unescape.Replace(strings.ReplaceAll(v, "\x00", ",")))
		}
		if !slices.Equal(got, want) {
			ts.Fatalf("column %s of %s: %q, want %q", args[i], args[0], got, want)
		}
	}
}

// scriptStarts checks the first bytes of a file, in hex:
//
//	starts FILE efbbbf
func scriptStarts(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] starts FILE HEX")
	}
	want, err := hex.DecodeString(args[1])
	ts.Check(err)
	data := []byte(ts.ReadFile(args[0]))
	if bytes.HasPrefix(data, want) == neg {
		ts.Fatalf("%s begins with % x", args[0], data[:min(len(data), 16)])
	}
}

// scriptLeak checks that a text stands in none of some files and folders; stdout
// and stderr are those of the last program:
//
//	! leak TEXT FILE|FOLDER...
func scriptLeak(ts *testscript.TestScript, neg bool, args []string) {
	if !neg || len(args) < 2 {
		ts.Fatalf("usage: ! leak TEXT FILE|FOLDER...")
	}
	check := func(name string, data []byte) {
		if bytes.Contains(data, []byte(args[0])) {
			ts.Fatalf("%s holds the text", name)
		}
	}
	for _, name := range args[1:] {
		if name == "stdout" || name == "stderr" {
			check(name, []byte(ts.ReadFile(name)))
			continue
		}
		ts.Check(filepath.WalkDir(ts.MkAbs(name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			check(path, data)
			return err
		}))
	}
}

// scriptNext runs the command that the last program offered, as a person would
// who pastes it into a shell, and checks its exit code:
//
//	next 0
func scriptNext(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 1, "next CODE")
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		if command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "next: "); ok {
			scriptExitCode(ts, false, []string{args[0], "sh", "-c", command})
			return
		}
	}
	ts.Fatalf("no next command in %s", ts.ReadFile("stderr"))
}

// scriptCommand runs the command that follows a text in a file, with more words
// behind it, and checks its exit code:
//
//	command FILE TEXT CODE [ARG...]
func scriptCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: command FILE TEXT CODE [ARG...]")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if _, command, ok := strings.Cut(strings.TrimSuffix(line, "\n"), args[1]); ok {
			scriptExitCode(ts, false, []string{args[2], "sh", "-c", command + " " + strings.Join(args[3:], " ")})
			return
		}
	}
	ts.Fatalf("no command after %q in %s", args[1], ts.ReadFile(args[0]))
}

// scriptJobFile writes job.yaml and devices.csv: a quick job on the first two
// devices of the account:
//
//	jobfile
func scriptJobFile(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 0, "jobfile")
	a := accountOf(ts)
	ts.Check(os.WriteFile(ts.MkAbs("devices.csv"), []byte("uid\n"+strings.Join(a.DeviceUIDs()[:2], "\n")+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("job.yaml"), []byte("version: 1\nupdate: {operation: device-job-create, rows: devices.csv, match: {uid: '{uid}'}, "+
		"set: {jobName: Clean, componentUid: "+a.ComponentUID(0)+"}}\n"), 0o600))
}

func needArgs(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) != n {
		ts.Fatalf("usage: %s", usage)
	}
}

// scriptRunID puts the run that the last JSON result is about, or the first that it
// lists, into $RUN:
//
//	runid
func scriptRunID(ts *testscript.TestScript, _ bool, _ []string) {
	var res struct {
		Run  string
		Runs []struct{ Run string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &res))
	if res.Run == "" && len(res.Runs) > 0 {
		res.Run = res.Runs[0].Run
	}
	ts.Setenv("RUN", res.Run)
}
