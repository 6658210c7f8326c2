package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmmjob/checkpoint"
)

// cut runs a job in this process up to the moment at which its files are under their names and the job does not remember
// the run yet, and leaves it as a kill does.
func (b *bench) cut(state, path string) (run string) {
	b.t.Helper()
	a, stderr := testApp(b.t, map[string]string{
		"DATTO_API_URL": b.url, "DATTO_API_KEY": simKey, "DATTO_API_SECRET": simSecret,
	}, "--state-dir", filepath.Join(b.dir, state))
	a.now = time.Now
	s := &session{app: a, began: a.now()}
	if err := s.prepare(b.t.Context(), path); err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = s.st.Close() }()
	unlock, err := s.st.lockJob(s.jobKey())
	if err != nil {
		b.t.Fatal(err)
	}
	defer unlock()
	if err := s.choose(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	sum, err := s.drain(b.t.Context())
	if err != nil || sum.State != checkpoint.RunOK {
		b.t.Fatalf("%v %v %s", sum.State, err, stderr)
	}
	p := s.project()
	if p.feed, err = s.newChangeFeed(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	defer p.feed.close()
	if err := p.publish(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return s.rec.ID
}

// Killed between the last rename and the moving of the state: taken up again the run publishes the same files without a
// request, and the state moves; a run in its place starts from the old state.
func TestKilledBeforeTheStateMoves(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=40,udfs=30,"+fast)
	changes := b.write("devices.yaml", changesJob)
	alerts := b.write("resolved.yaml", resolvedJob)
	open := b.openAlerts("other")
	b.finish(exitOK, "state", "run", changes)
	b.finish(exitOK, "state", "run", alerts)
	if err := b.account.SetUDF(b.account.DeviceUIDs()[0], "udf1", "changed"); err != nil {
		t.Fatal(err)
	}
	if err := b.account.ResolveAlert(open[0], time.Now()); err != nil {
		t.Fatal(err)
	}
	before := b.memories("state")
	first, second := b.cut("state", changes), b.cut("state", alerts)
	if !slices.Equal(before, b.memories("state")) {
		t.Fatal("the state has moved too early")
	}
	feed, rows := b.read("changes-"+first+".csv"), b.read("out-"+second+".csv")
	if err := b.account.SetUDF(b.account.DeviceUIDs()[1], "udf1", "changed later"); err != nil {
		t.Fatal(err)
	}
	sent := len(b.account.Log())
	res := b.finish(exitOK, "state", "run", changes)
	if res["run"] != first || !bytes.Equal(feed, b.read("changes-"+first+".csv")) || rowsOf(t, feed) != 1 {
		t.Errorf("taken up as %v: %s", res["run"], b.read("changes-"+first+".csv"))
	}
	// The other one is begun anew: what the killed run has published comes again, and nothing is left out.
	if err := b.account.ResolveAlert(open[1], time.Now()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.account.Log()) - sent; n != 0 {
		t.Errorf("%d requests were sent again", n)
	}
	res = b.finish(exitOK, "state", "run", alerts, "--new")
	got := b.keysOf(outOf(res), "alertUid")
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(open[:2]))) || rowsOf(t, rows) != 1 {
		t.Errorf("the run in its place has %v, want %v", got, open[:2])
	}
	if rows := b.changesOf(b.finish(exitOK, "state", "run", changes)); len(rows) != 1 {
		t.Errorf("the next changes: %v", rows)
	}
}

// A clock that is set back, or runs ahead, loses nothing and brings nothing twice.
func TestSinceWithAWrongClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=60,"+fast)
	open := b.openAlerts("other")
	job := b.write("resolved.yaml", resolvedJob)
	seen := map[string]int{}
	for i, off := range []time.Duration{0, -3 * time.Hour, 26 * time.Hour, -48 * time.Hour, 0} {
		if err := b.account.ResolveAlert(open[i], time.Now()); err != nil {
			t.Fatal(err)
		}
		e, stdout, stderr := testEnv(t, map[string]string{
			"DATTO_API_URL": b.url, "DATTO_API_KEY": simKey, "DATTO_API_SECRET": simSecret,
		})
		e.now = func() time.Time { return time.Now().Add(off) }
		if code := run(t.Context(), []string{"run", job, "--json", "--state-dir", filepath.Join(b.dir, "state")}, e); code != 0 {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		var res map[string]any
		if err := json.Unmarshal(stdout.Bytes(), &res); err != nil {
			t.Fatal(err)
		}
		if behind := noted(res, "the clock of this machine"); behind != (off < 0) {
			t.Errorf("off by %s: told %v: %v", off, behind, res["notes"])
		}
		keys := b.keysOf(outOf(res), "alertUid")
		if i > 0 && !slices.Equal(keys, open[i:i+1]) {
			t.Errorf("off by %s: %v, want %v", off, keys, open[i:i+1])
		}
		for _, k := range keys {
			seen[k]++
		}
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("alert %s is in %d files", key, n)
		}
	}
}

// The programs of all devices by name: installed, updated and removed, from lists of which most are reused.
func TestChangesOfSoftware(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=20,udfs=30,software=4,"+fast)
	list := b.write("list.yaml", "version: 1\nexport:\n  from: device-software\n  reuse: audits\n  to: list.csv\n  changes: {path: 'changes-{run}.csv', key: name}\n")
	exploded := b.write("exploded.yaml", "version: 1\nexport:\n  from: devices\n  with: [software]\n  reuse: audits\n  explode: software\n"+
		"  columns: [uid, hostname, software.name, software.version]\n  to: exploded.csv\n  changes: {path: 'changes-{run}.csv', key: [uid, software.name]}\n")
	for _, job := range []string{list, exploded} {
		b.finish(exitOK, "state", "run", job)
	}
	var uid string
	for _, uid = range b.account.DeviceUIDs() {
		if b.isAudited(uid) {
			break
		}
	}
	if err := b.account.Audit(uid, time.Now()); err != nil {
		t.Fatal(err)
	}
	for job, field := range map[string]string{list: "version", exploded: "software.version"} {
		rows := b.changesOf(b.finish(exitOK, "state", "run", job))
		if len(rows) != 1 || rows[0]["change"] != "changed" || rows[0]["field"] != field || rows[0]["new"] != rows[0]["old"]+".1" || rows[0]["hostname"] == "" {
			t.Errorf("%s: %v", filepath.Base(job), rows)
		}
	}
	gone := b.account.DeviceUIDs()[1]
	b.account.RemoveDevice(gone)
	res := b.finish(exitOK, "state", "run", list)
	if n := at(t, res, "incremental.changes.removed"); n != 4.0 && b.isAudited(gone) {
		t.Errorf("the programs of a removed device: %v", n)
	}
}

// Details that are reused make the same file as a full run, for every class of devices.
func TestReuseDetails(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=120,udfs=30,software=10,"+fast)
	job := b.write("fleet.yaml", "version: 1\nexport:\n  from: devices\n  with: [audit, software]\n  columns: [uid, audit, software]\n  reuse: audits\n  to: 'out-{run}.csv'\n")
	first := b.finish(exitOK, "state", "run", job)
	for i, uid := range b.account.DeviceUIDs() {
		switch {
		case i%40 == 0:
			if err := b.account.Audit(uid, time.Now()); err != nil {
				t.Fatal(err)
			}
		case i == 7:
			b.account.RemoveDevice(uid) // the places of all others behind it move
		}
	}
	second := b.finish(exitOK, "state", "run", job)
	full := b.finish(exitOK, "state", "run", job, "--full")
	if !bytes.Equal(b.read(outOf(second)), b.read(outOf(full))) || bytes.Equal(b.read(outOf(second)), b.read(outOf(first))) {
		t.Error("the file of reused and new details is not that of a full run")
	}
	if counted(t, second, "reused") < 180 || counted(t, second, "reads") > 12 {
		t.Errorf("%v", second["counts"])
	}
}

// A limit of rows leaves rows out of the files, so such a run is none to build on.
func TestLimitDoesNotMoveTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=60,"+fast)
	job := b.write("resolved.yaml", strings.Replace(resolvedJob, "since: last", "since: last\n  rows: {limit: 5, on_limit: ok}", 1))
	res := b.finish(exitOK, "state", "run", job)
	if len(b.memories("state")) != 0 || !noted(res, "has not moved") {
		t.Errorf("the state has moved: %v", res)
	}
}

// fleetStep is something that happens to a fleet between two runs, or a run.
type fleetStep struct {
	What   string // set, remove, add, run, kill
	Device int
	Value  string
}

// TestChangesReplay lets a fleet change and runs be made, interrupted too, in a random order. Whoever applies all change
// files to the first export has the last one.
func TestChangesReplay(t *testing.T) {
	t.Parallel()
	sequence := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fleetStep {
		return fleetStep{
			rapid.SampledFrom([]string{"set", "set", "remove", "add", "run", "run", "kill"}).Draw(t, "what"), rapid.IntRange(0, 11).Draw(t, "device"),
			rapid.SampledFrom([]string{"", "x", "=1+1", "line one\r\nline two", `a "quoted", cell`, "東京"}).Draw(t, "value"),
		}
	}), 12, 30)
	for seed := range 5 {
		steps := sequence.Example(seed)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			replay(t, steps)
		})
	}
}

func replay(t *testing.T, steps []fleetStep) {
	b := newBench(t, "devices=12,udfs=30,page-max=5,"+fast)
	job := b.write("devices.yaml", strings.Replace(changesJob, "columns: [uid,", "second_walk: never\n  columns: [uid,", 1))
	uids := b.account.DeviceUIDs()
	removed := map[string]string{}
	b.finish(exitOK, "state", "run", job)
	for _, step := range append(steps, fleetStep{What: "run"}) {
		uid := uids[step.Device]
		_, gone := removed[uid]
		var err error
		switch {
		case step.What == "set" && !gone:
			err = b.account.SetUDF(uid, "udf1", step.Value)
		case step.What == "remove" && !gone:
			raw, _ := b.account.Device(uid)
			removed[uid] = string(raw)
			b.account.RemoveDevice(uid)
		case step.What == "add" && gone:
			err = b.account.AddDevice(removed[uid])
			delete(removed, uid)
		case step.What == "kill":
			b.kill(200*time.Millisecond, "state", "run", job)
		case step.What == "run":
			b.finish(exitOK, "state", "run", job)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runs, err := b.store("state").Runs(t.Context(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(runs)
	var fleet map[string]map[string]string
	last := ""
	for _, r := range runs {
		if r.State != checkpoint.RunOK {
			continue // killed before it began, or its job was begun anew
		}
		last = r.ID
		if fleet == nil {
			fleet = b.byUID("out-" + r.ID + ".csv")
			continue
		}
		b.apply(fleet, "changes-"+r.ID+".csv")
	}
	// A value that is ignored is in the file all the same, but not in the feed.
	want := b.byUID("out-" + last + ".csv")
	for _, f := range []map[string]map[string]string{fleet, want} {
		for _, row := range f {
			delete(row, "lastSeen")
		}
	}
	if !maps.EqualFunc(fleet, want, maps.Equal) {
		t.Errorf("replayed\n%v\nwant\n%v\nafter %+v", fleet, want, steps)
	}
}

// byUID reads an export by uid.
func (b *bench) byUID(name string) map[string]map[string]string {
	b.t.Helper()
	rows := map[string]map[string]string{}
	for _, row := range b.records(name) {
		rows[row["uid"]] = row
	}
	return rows
}

// apply applies a change file to an export.
func (b *bench) apply(fleet map[string]map[string]string, name string) {
	b.t.Helper()
	for _, line := range b.records(name) {
		uid := line["uid"]
		switch line["change"] {
		case "changed":
			if fleet[uid][line["field"]] != line["old"] {
				b.t.Errorf("%s: %s of %s was %q, the file says %q", name, line["field"], uid, fleet[uid][line["field"]], line["old"])
			}
			fleet[uid][line["field"]] = line["new"]
		case "removed":
			delete(fleet, uid)
		case "added":
			row := map[string]string{"uid": "", "hostname": "", "siteName": "", "lastSeen": "", "udf1": "", "udf2": ""}
			if err := json.Unmarshal([]byte(line["new"]), &row); err != nil {
				b.t.Fatal(err)
			}
			fleet[uid] = row
		default:
			b.t.Errorf("%s: change %q", name, line["change"])
		}
	}
}
