package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmmjob/checkpoint"
)

// records reads a CSV file of the bench: its heading and its rows by heading.
func (b *bench) records(name string) []map[string]string {
	b.t.Helper()
	all, err := csv.NewReader(bytes.NewReader(b.read(name))).ReadAll()
	if err != nil {
		b.t.Fatal(err)
	}
	rows := make([]map[string]string, 0, len(all)-1)
	for _, rec := range all[1:] {
		row := map[string]string{}
		for i, h := range all[0] {
			row[h] = rec[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// keysOf lists one column of a CSV file.
func (b *bench) keysOf(name, column string) []string {
	b.t.Helper()
	var keys []string
	for _, row := range b.records(name) {
		keys = append(keys, row[column])
	}
	return keys
}

// at reads a value inside a result.
func at(t *testing.T, res map[string]any, path string) any {
	t.Helper()
	var v any = res
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %v", path, res)
		}
		v = m[name]
	}
	return v
}

// noted tells whether a result has a note with that text.
func noted(res map[string]any, text string) bool {
	notes, _ := res["notes"].([]any)
	return slices.ContainsFunc(notes, func(n any) bool { s, _ := n.(string); return strings.Contains(s, text) })
}

// requestsOf counts the requests of an operation.
func (b *bench) requestsOf(operation string) (n int) {
	for _, rec := range b.account.Log() {
		if rec.Operation == operation {
			n++
		}
	}
	return n
}

// openAlerts lists the uids of open alerts.
func (b *bench) openAlerts(state string) []string {
	b.t.Helper()
	b.finish(exitOK, state, "run", b.write("open.yaml", "version: 1\nexport: {from: alerts-open, to: open.csv}\n"))
	return b.keysOf("open.csv", "alertUid")
}

const resolvedJob = "version: 1\nexport:\n  from: alerts-resolved\n  since: last\n  columns: [alertUid, resolvedOn]\n  to: 'out-{run}.csv'\n"

// outOf is the name of the file that a run of a job with {run} in its path has made.
func outOf(res map[string]any) string {
	id, _ := res["run"].(string)
	return "out-" + id + ".csv"
}

// Resolved alerts since the last run: the first run brings all, the next only the new ones, and each alert is in one
// file.
func TestSinceLastAlerts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=80,"+fast)
	job := b.write("resolved.yaml", resolvedJob)
	open := b.openAlerts("state")
	res := b.finish(exitOK, "state", "run", job)
	if at(t, res, "incremental.first") != true || !noted(res, "nothing is remembered") {
		t.Errorf("the first run does not say that it is one: %v", res)
	}
	seen := map[string]int{}
	collect := func(res map[string]any) []string {
		keys := b.keysOf(outOf(res), "alertUid")
		for _, k := range keys {
			seen[k]++
		}
		return keys
	}
	first := collect(res)
	if len(first) < 50 {
		t.Fatalf("only %d resolved alerts", len(first))
	}
	if got := collect(b.finish(exitOK, "state", "run", job)); len(got) != 0 {
		t.Errorf("nothing has happened, but the second run has %v", got)
	}
	now := time.Now()
	for i, uid := range open[:5] {
		if err := b.account.ResolveAlert(uid, now.Add(-time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	res = b.finish(exitOK, "state", "run", job)
	if got := collect(res); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(open[:5]))) {
		t.Errorf("after five were resolved: %v, want %v", got, open[:5])
	}
	// One that comes late, within the overlap, is brought; those beside it are not again.
	if err := b.account.ResolveAlert(open[5], now.Add(-6*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := collect(b.finish(exitOK, "state", "run", job)); !slices.Equal(got, open[5:6]) {
		t.Errorf("late: %v, want %v", got, open[5:6])
	}
	// A full run brings everything, and the next one nothing again.
	if got := b.keysOf(outOf(b.finish(exitOK, "state", "run", job, "--full")), "alertUid"); len(got) != len(first)+6 {
		t.Errorf("a full run has %d rows, want %d", len(got), len(first)+6)
	}
	if got := collect(b.finish(exitOK, "state", "run", job)); len(got) != 0 {
		t.Errorf("after a full run: %v", got)
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("alert %s is in %d files", key, n)
		}
	}
}

// The activity log since the last run: the service filters, the window is of the run, and no entry is lost or comes
// twice.
func TestSinceLastActivity(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=40,"+fast)
	job := b.write("log.yaml", "version: 1\nexport:\n  from: activity-logs\n  since: {last: true, first: 2h, overlap: 30m}\n  columns: [id, date]\n  to: 'out-{run}.csv'\n")
	res := b.finish(exitOK, "state", "run", job)
	if n := len(b.keysOf(outOf(res), "id")); n < 230 || n > 245 {
		t.Errorf("two hours of an entry each half a minute are %d rows", n)
	}
	from, until := b.logWindow()
	if span := until.Sub(from); span < 2*time.Hour-time.Second || span > 2*time.Hour+time.Second {
		t.Errorf("the first run asks for %s", span)
	}
	res2 := b.finish(exitOK, "state", "run", job)
	if from, until = b.logWindow(); until.Sub(from) > 40*time.Minute || until.Sub(from) < 29*time.Minute {
		t.Errorf("the second run asks for %s", until.Sub(from))
	}
	first, second := b.keysOf(outOf(res), "id"), b.keysOf(outOf(res2), "id")
	if len(second) > 20 {
		t.Errorf("%d rows within minutes at most", len(second))
	}
	for _, id := range second {
		if slices.Contains(first, id) {
			t.Errorf("%s is in both files", id)
		}
	}
}

// logWindow is what the newest request for the log asked for.
func (b *bench) logWindow() (from, until time.Time) {
	b.t.Helper()
	log := b.account.Log()
	for _, rec := range slices.Backward(log) {
		if rec.Operation != "activity-logs" {
			continue
		}
		query, err := url.ParseQuery(rec.Query)
		if err != nil {
			b.t.Fatal(err)
		}
		if from, err = time.Parse(time.RFC3339, query.Get("from")); err != nil {
			b.t.Fatal(err)
		}
		if until, err = time.Parse(time.RFC3339, query.Get("until")); err != nil {
			b.t.Fatal(err)
		}
		return from, until
	}
	b.t.Fatal("the log was never asked for")
	return from, until
}

const changesJob = `version: 1
export:
  from: devices
  columns: [uid, hostname, siteName, lastSeen, udf1, udf2]
  to: 'out-{run}.csv'
  changes: {path: 'changes-{run}.csv', key: uid}
`

// changesOf reads the change file of a run.
func (b *bench) changesOf(res map[string]any) []map[string]string {
	b.t.Helper()
	id, _ := res["run"].(string)
	return b.records("changes-" + id + ".csv")
}

// Devices that come, change and go, one of them back again.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=30,udfs=30,"+fast)
	job := b.write("devices.yaml", changesJob)
	uids := b.account.DeviceUIDs()
	res := b.finish(exitOK, "state", "run", job)
	if rows := b.changesOf(res); len(rows) != 0 || at(t, res, "incremental.changes.compared") != false || !noted(res, "only its heading") {
		t.Errorf("a first run has changes: %v, %v", rows, res)
	}
	if err := b.account.SetUDF(uids[0], "udf1", "=new"); err != nil {
		t.Fatal(err)
	}
	old := b.account.UDF(uids[1], "udf2")
	if err := b.account.SetUDF(uids[1], "udf2", "someone else"); err != nil {
		t.Fatal(err)
	}
	gone, _ := b.account.Device(uids[2])
	b.account.RemoveDevice(uids[2])
	res = b.finish(exitOK, "state", "run", job)
	rows := b.changesOf(res)
	byUID := map[string]map[string]string{}
	for _, row := range rows {
		byUID[row["uid"]] = row
	}
	if len(rows) != 3 || at(t, res, "incremental.changes.changed") != 2.0 || at(t, res, "incremental.changes.removed") != 1.0 {
		t.Fatalf("%v", rows)
	}
	if r := byUID[uids[0]]; r["change"] != "changed" || r["field"] != "udf1" || r["new"] != "=new" || r["hostname"] == "" {
		t.Errorf("%v", r)
	}
	if r := byUID[uids[1]]; r["field"] != "udf2" || r["old"] != old || r["new"] != "someone else" {
		t.Errorf("%v", r)
	}
	var was map[string]string
	if r := byUID[uids[2]]; r["change"] != "removed" || r["new"] != "" || json.Unmarshal([]byte(r["old"]), &was) != nil || was["uid"] != uids[2] || r["hostname"] != was["hostname"] {
		t.Errorf("%v", r)
	}
	// It comes back.
	if err := b.account.AddDevice(string(gone)); err != nil {
		t.Fatal(err)
	}
	rows = b.changesOf(b.finish(exitOK, "state", "run", job))
	if len(rows) != 1 || rows[0]["change"] != "added" || rows[0]["uid"] != uids[2] || json.Unmarshal([]byte(rows[0]["new"]), &was) != nil || was["uid"] != uids[2] {
		t.Errorf("%v", rows)
	}
	if rows = b.changesOf(b.finish(exitOK, "state", "run", job)); len(rows) != 0 {
		t.Errorf("nothing has happened: %v", rows)
	}
}

// A run over a part of the sites remembers for itself, and takes the others for nothing.
func TestChangesOfOneSite(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=60,udfs=30,"+fast)
	all := b.write("devices.yaml", changesJob)
	b.finish(exitOK, "state", "run", all)
	site := b.records(outOf(b.finish(exitOK, "state", "run", all)))[0]["siteName"]
	part := strings.Replace(changesJob, "from: devices\n", "from: devices\n  filter: {siteName: '"+strings.ReplaceAll(site, "'", "''")+"'}\n", 1)
	b.write("devices.yaml", part)
	res := b.finish(exitOK, "state", "run", all)
	if !noted(res, "the selection has changed") || at(t, res, "incremental.first") != true {
		t.Errorf("another selection is not told: %v", res["notes"])
	}
	if rows := b.changesOf(res); len(rows) != 0 {
		t.Errorf("the devices of other sites are taken for removed: %d rows", len(rows))
	}
	if err := b.account.SetUDF(b.account.DeviceUIDs()[0], "udf1", "changed"); err != nil {
		t.Fatal(err)
	}
	b.write("devices.yaml", changesJob)
	res = b.finish(exitOK, "state", "run", all)
	if rows := b.changesOf(res); len(rows) != 1 || at(t, res, "incremental.first") != false {
		t.Errorf("back at the old selection: %v", rows)
	}
}

// The change feed outlives the run it compares with.
func TestChangesAfterDeletedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=20,udfs=30,"+fast)
	job := b.write("devices.yaml", changesJob)
	res := b.finish(exitOK, "state", "run", job)
	id, _ := res["run"].(string)
	store := b.store("state")
	if err := store.DeleteRun(t.Context(), id, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.account.RemoveDevice(b.account.DeviceUIDs()[3])
	if rows := b.changesOf(b.finish(exitOK, "state", "run", job)); len(rows) != 1 || rows[0]["change"] != "removed" {
		t.Errorf("%v", rows)
	}
}

// State moves after the files are under their names, and not before.
func TestStateMovesAfterPublish(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=20,udfs=30,"+fast)
	if err := os.Mkdir(filepath.Join(b.dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	job := b.write("devices.yaml", "version: 1\nexport:\n  from: devices\n  columns: [uid, udf1]\n  to: 'out/{run}.csv'\n  changes: 'changes-{run}.csv'\n")
	b.finish(exitOK, "state", "run", job)
	if err := b.account.SetUDF(b.account.DeviceUIDs()[0], "udf1", "changed"); err != nil {
		t.Fatal(err)
	}
	// The folder goes away while the run is at work.
	reached := false
	b.before("devices", 1, func() {
		reached = os.RemoveAll(filepath.Join(b.dir, "out")) == nil && os.WriteFile(filepath.Join(b.dir, "out"), nil, 0o600) == nil
	})
	before := b.memories("state")
	res := b.finish(exitLocalIO, "state", "run", job)
	if after := b.memories("state"); !reached || !slices.Equal(before, after) {
		t.Errorf("the state has moved although nothing was published: %v, before %v", after, before)
	}
	if err := os.Remove(filepath.Join(b.dir, "out")); err != nil {
		t.Fatal(err)
	}
	sent := len(b.account.Log())
	again := b.finish(exitOK, "state", "run", job)
	if again["run"] != res["run"] {
		t.Errorf("the run was not taken up: %v, %v", again["run"], res["run"])
	}
	if n := len(b.account.Log()) - sent; n != 0 {
		t.Errorf("%d requests were sent again", n)
	}
	if rows := b.changesOf(again); len(rows) != 1 {
		t.Errorf("%v", rows)
	}
	if after := b.memories("state"); slices.Equal(before, after) {
		t.Error("the state has not moved")
	}
}

const softwareJob = "version: 1\nexport:\n  from: device-software\n  reuse: audits\n  to: 'out-{run}.csv'\n"

// The second night reads the programs of those devices again that were audited since, and the file is whole all the same.
func TestReuseAudits(t *testing.T) {
	t.Parallel()
	devices, changed := 300, 6
	if testing.Short() {
		devices, changed = 60, 2
	}
	b := newBench(t, fmt.Sprintf("devices=%d,udfs=30,software=120,page-max=50,%s", devices, fast))
	job := b.write("software.yaml", softwareJob)
	res := b.finish(exitOK, "state", "run", job)
	first := b.requestsOf("device-software")
	if counted(t, res, "reused") != 0 || first < devices {
		t.Fatalf("the first run: %d requests, %v", first, res["counts"])
	}
	again := b.finish(exitOK, "state", "run", job)
	if n := b.requestsOf("device-software") - first; n != 0 {
		t.Errorf("nothing was audited, but %d lists were read", n)
	}
	if counted(t, again, "reused") < first || !bytes.Equal(b.read(outOf(res)), b.read(outOf(again))) {
		t.Errorf("the file of reused answers is another one: %v", again["counts"])
	}
	// Deleting the runs does not make them be read again.
	store := b.store("state")
	for _, r := range []any{res["run"], again["run"]} {
		if err := store.DeleteRun(t.Context(), r.(string), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	audited := 0
	for _, uid := range b.account.DeviceUIDs() {
		if audited == changed {
			break
		}
		if b.isAudited(uid) {
			audited++
			if err := b.account.Audit(uid, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := b.requestsOf("device-software")
	third := b.finish(exitOK, "state", "run", job)
	const pages = 3 // of 120 programs by 50
	if n := b.requestsOf("device-software") - before; n != pages*changed {
		t.Errorf("%d devices were audited, but %d pages were read, want %d", changed, n, pages*changed)
	}
	full := b.finish(exitOK, "state", "run", job, "--full")
	if counted(t, full, "reused") != 0 || b.requestsOf("device-software")-before < first {
		t.Errorf("a full run has reused answers: %v", full["counts"])
	}
	if bytes.Equal(b.read(outOf(again)), b.read(outOf(third))) || !bytes.Equal(b.read(outOf(full)), b.read(outOf(third))) {
		t.Error("the file of reused and new answers is not that of a full run")
	}
	if n := counted(t, b.finish(exitOK, "state", "run", job), "reused"); n != counted(t, again, "reused") {
		t.Errorf("after a full run %d answers are reused", n)
	}
}

// isAudited tells whether a device is of the class that has a list of programs, and was audited.
func (b *bench) isAudited(uid string) bool {
	var dev struct {
		DeviceClass   string
		LastAuditDate any
	}
	raw, _ := b.account.Device(uid)
	return json.Unmarshal(raw, &dev) == nil && dev.DeviceClass == "device" && dev.LastAuditDate != nil
}

// An unfinished run keeps its window when it is taken up, and --new begins another one from the same state.
func TestUnfinishedIncrementalRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=40,"+fast)
	job := b.write("log.yaml", "version: 1\nexport:\n  from: activity-logs\n  filter: {size: 20}\n  since: {last: true, first: 2h}\n  columns: [id]\n  to: 'out-{run}-{since}.csv'\n")
	first := b.finish(exitOK, "state", "run", job)
	name := func(res map[string]any) string {
		files, _ := res["files"].([]any)
		path, _ := files[0].(map[string]any)["path"].(string)
		return filepath.Base(path)
	}
	// The next run meets a service that is down in the middle of its pages.
	b.fault("- match: {operation: activity-logs}\n  do: {status: 403, body: '{\"error\":\"Forbidden\"}'}")
	cut := b.finish(exitAuth, "state", "run", job)
	window := func(id any) string {
		rec, err := b.store("state").Run(t.Context(), id.(string))
		if err != nil {
			t.Fatal(err)
		}
		return string(rec.Settings)
	}
	settled := window(cut["run"])
	b.account.ClearFaults()
	done := b.finish(exitOK, "state", "resume")
	if done["run"] != cut["run"] || window(done["run"]) != settled {
		t.Errorf("the run has another window: %s, was %s", window(done["run"]), settled)
	}
	ids := b.keysOf(name(first), "id")
	for _, id := range b.keysOf(name(done), "id") {
		if slices.Contains(ids, id) {
			t.Errorf("%s is in both files", id)
		}
	}
	// --new in place of an unfinished run starts from the state of the last published one.
	b.fault("- match: {operation: activity-logs}\n  do: {status: 403, body: '{\"error\":\"Forbidden\"}'}")
	cut = b.finish(exitAuth, "state", "run", job)
	b.account.ClearFaults()
	before := b.memories("state")
	fresh := b.finish(exitOK, "state", "run", job, "--new")
	if fresh["run"] == cut["run"] || at(t, fresh, "incremental.first") != false {
		t.Errorf("%v", fresh)
	}
	if after := b.memories("state"); slices.Equal(before, after) {
		t.Error("the state has not moved")
	}
}

// Killed anywhere, an incremental run loses nothing: all files together hold every resolved alert, and none twice unless
// a file was published twice over.
func TestKillIncremental(t *testing.T) {
	t.Parallel()
	n, _ := kills(t, 6)
	b := newBench(t, "devices=150,page-max=40,latency=5ms,limits=600000/600000")
	job := b.write("resolved.yaml", strings.Replace(resolvedJob, "to: 'out-{run}.csv'", "to: 'out-{run}.csv'\n  second_walk: never", 1))
	open := b.openAlerts("other")
	killed := 0
	for i := range n {
		if err := b.account.ResolveAlert(open[i], time.Now()); err != nil {
			t.Fatal(err)
		}
		if b.kill(time.Second, "state", "run", job) {
			killed++
		}
	}
	// A list that changed at every start of one run may have used up its walks (exit 12); the
	// next run reads it in peace.
	_ = b.command("state", "run", job).Run()
	b.finish(exitOK, "state", "run", job)
	seen := map[string]int{}
	files, err := filepath.Glob(filepath.Join(b.dir, "out-*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		for _, key := range b.keysOf(filepath.Base(path), "alertUid") {
			seen[key]++
		}
	}
	b.write("all.yaml", "version: 1\nexport: {from: alerts-resolved, to: all.csv}\n")
	b.finish(exitOK, "other", "run", filepath.Join(b.dir, "all.yaml"))
	for _, key := range b.keysOf("all.csv", "alertUid") {
		if seen[key] != 1 {
			t.Errorf("alert %s is in %d files", key, seen[key])
		}
		delete(seen, key)
	}
	if len(seen) > 0 {
		t.Errorf("alerts that do not exist: %v", slices.Collect(maps.Keys(seen)))
	}
	t.Logf("%d of %d starts were killed, %d files", killed, n, len(files))
}

// store opens the checkpoint of a state folder while no program is at work.
func (b *bench) store(state string) *checkpoint.Store {
	b.t.Helper()
	store, err := checkpoint.Open(b.t.Context(), filepath.Join(b.dir, state, "rmmjob.db"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = store.Close() })
	return store
}

// memories tells what is remembered, enough to see whether it has moved.
func (b *bench) memories(state string) []string {
	b.t.Helper()
	list, err := b.store(state).Memories(b.t.Context(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	for _, m := range list {
		all = append(all, m.Selection+" "+m.Run+" "+string(m.Notes))
	}
	return all
}
