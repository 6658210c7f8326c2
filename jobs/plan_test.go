package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmmjob/internal/rmm"
)

const deviceD = "44444444-4444-4444-8444-4444444444d4"

// onCase copies the input of a case with the product's own word for clearing.
func onCase(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	return file(t, strings.ReplaceAll(string(b), "<clear>", ClearWord))
}

// udfs is an update section that sets the named fields from columns of the same
// names, matched by one column.
func udfs(match string, fields ...string) string {
	set := make([]string, len(fields))
	for i, f := range fields {
		set[i] = fmt.Sprintf("%s: '{%s}'", f, f)
	}
	op := "device-udf-set"
	if len(fields) > 0 && fields[0] == warrantyDate {
		op = "device-warranty-create"
	}
	return fmt.Sprintf("  operation: %s\n  rows: {csv: CSV}\n  match: {%s: '{%s}'}\n  set: {%s}\n", op, match, match, strings.Join(set, ", "))
}

// bodies are the writes that were sent, as uid and body, sorted.
func (d *driver) bodies() []string {
	var got []string
	for _, r := range d.writes() {
		got = append(got, r.Path["deviceUid"]+" "+string(r.Body))
	}
	slices.Sort(got)
	return got
}

// classes are the rows of the plan as line, class and reason.
func (d *driver) classes() []string {
	var got []string
	for _, r := range d.rows[1:] {
		s := fmt.Sprintf("%d %s", r.Detail.Line, r.Class)
		if r.Detail.Reason != "" {
			s += ": " + r.Detail.Reason
		}
		got = append(got, s)
	}
	return got
}

func (d *driver) mustRun() {
	d.t.Helper()
	if err := d.run(); err != nil {
		d.t.Fatal(err)
	}
}

// inputToRequests runs the cases with an id: what becomes of their rows, and what is
// sent.
func inputToRequests(t *testing.T, id string) {
	t.Helper()
	old := func(d dev) dev { d.udf = map[string]any{"udf7": "old", "udf8": "old"}; return d }
	month := strings.Replace(udfs("uid", warrantyDate), "csv: CSV", "csv: CSV, date_format: mm/dd/yyyy", 1)
	ws := []dev{
		{uid: "w1", hostname: "WS-1"},
		{uid: "w10", hostname: "WS-10"},
		{uid: deviceA, hostname: "WS-ALFA", site: "Depot North"},
		{uid: deviceD, hostname: "WS-ALFA", site: "Depot South"},
	}
	for _, tc := range []struct {
		name, file, update string
		devices            []dev
		bodies             []string
		classes            []string
	}{
		{
			name: "C12_RowsOfCommas", file: "C12", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"north"}`, deviceB + ` {"udf7":"south"}`},
			classes: []string{"2 change", "4 change"},
		},
		{
			name: "C15_CRLineEnds", file: "C15", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"north"}`, deviceB + ` {"udf7":"south"}`},
			classes: []string{"2 change", "3 change"},
		},
		{
			name: "C16_MixedLineEnds", file: "C16", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"north"}`, deviceB + ` {"udf7":"south"}`, deviceC + ` {"udf7":"east"}`},
			classes: []string{"2 change", "3 change", "4 change"},
		},
		{
			name: "C26_LeadingZeros", file: "C26", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"00042"}`, deviceB + ` {"udf7":"007"}`},
			classes: []string{"2 change", "3 change"},
		},
		{
			name: "C29_AmbiguousDates", file: "C29", update: udfs("uid", warrantyDate), devices: caseFleet(),
			bodies: []string{deviceA + ` {"warrantyDate":"2027-03-06"}`},
			classes: []string{
				"2 change",
				`3 invalid: warrantyDate: "12/01/2026" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
				`4 invalid: warrantyDate: "12/31/2026" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
			},
		},
		{
			name: "C29_DeclaredDates", file: "C29", update: month, devices: caseFleet(),
			bodies:  []string{deviceA + ` {"warrantyDate":"2027-03-06"}`, deviceB + ` {"warrantyDate":"2026-12-01"}`, deviceC + ` {"warrantyDate":"2026-12-31"}`},
			classes: []string{"2 change", "3 change", "4 change"},
		},
		{
			name: "C30_SignsInFront", file: "C30", update: udfs("uid", "udf7", "udf8"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"=A1+1","udf8":"-5"}`, deviceB + ` {"udf7":"+44 20 7946 0000","udf8":"@home"}`},
			classes: []string{"2 change", "3 change"},
		},
		{
			name: "C32_BlankKey", file: "C32", update: udfs("hostname", "udf7"), devices: append(caseFleet(), dev{uid: "nameless"}, dev{uid: "blank", hostname: " "}),
			bodies:  []string{deviceB + ` {"udf7":"three"}`, deviceC + ` {"udf7":"one"}`},
			classes: []string{"2 change", "3 invalid: empty key: hostname comes from {hostname}, which is blank", "4 change"},
		},
		{
			name: "C34_PartOfAHostName", file: "C34", update: udfs("hostname", "udf7"), devices: ws,
			bodies: []string{`w1 {"udf7":"a"}`},
			classes: []string{
				"2 change",
				`3 ambiguous: 2 devices have hostname "WS-ALFA": ` + deviceA + ` (Depot North), ` + deviceD + ` (Depot South)`,
				`4 not_found: no device has hostname "WS-2"`,
			},
		},
		{
			name: "C35_DisagreeingRows", file: "C35", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies: []string{deviceB + ` {"udf7":"same"}`},
			classes: []string{
				"2 conflict: lines 2 and 4 disagree on udf7 for device " + deviceA, "3 change",
				"4 conflict: lines 2 and 4 disagree on udf7 for device " + deviceA, "5 change",
			},
		},
		{
			name: "C37_EmptyCellKeeps", file: "C37", update: udfs("uid", "udf7", "udf8"),
			devices: []dev{old(caseFleet()[0]), old(caseFleet()[1]), old(caseFleet()[2])},
			bodies:  []string{deviceA + ` {"udf8":"new"}`, deviceB + ` {"udf7":"","udf8":"x"}`},
			classes: []string{"2 change", "3 clear", "4 unchanged"},
		},
		{
			name: "C37_EmptyCellClears", file: "C37", update: udfs("uid", "udf7", "udf8") + "  empty: clear\n",
			devices: []dev{old(caseFleet()[0]), old(caseFleet()[1]), old(caseFleet()[2])},
			bodies:  []string{deviceA + ` {"udf7":"","udf8":"new"}`, deviceB + ` {"udf7":"","udf8":"x"}`, deviceC + ` {"udf7":"","udf8":""}`},
			classes: []string{"2 clear", "3 clear", "4 clear"},
		},
		{
			name: "C38_ClearedWarrantyIsNull", file: "C38", update: udfs("uid", warrantyDate),
			devices: []dev{{uid: deviceA, warranty: "2026-01-31"}},
			bodies:  []string{deviceA + ` {"warrantyDate":null}`},
			classes: []string{"2 clear"},
		},
		{
			name: "C40_LengthOfAValue", file: "C40", update: udfs("uid", "udf7"), devices: caseFleet(),
			bodies:  []string{deviceA + ` {"udf7":"` + strings.Repeat("a", 255) + `"}`},
			classes: []string{"2 change", "3 invalid: udf7 has 256 characters, 255 fit"},
		},
		{
			name: "C52_OneRequestForARow", file: "C52",
			update:  udfs("uid", "udf1", "udf2", "udf3", "udf4", "udf5", "udf6", "udf7", "udf8", "udf9", "udf10", "udf11", "udf12", "udf13", "udf14", "udf15"),
			devices: caseFleet(),
			bodies: []string{deviceA + ` {"udf1":"v1","udf2":"v2","udf3":"v3","udf4":"v4","udf5":"v5","udf6":"v6","udf7":"v7","udf8":"v8",` +
				`"udf9":"v9","udf10":"v10","udf11":"v11","udf12":"v12","udf13":"v13","udf14":"v14","udf15":"v15"}`},
			classes: []string{"2 change"},
		},
	} {
		if tc.file != id {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			d := updater(t, onCase(t, tc.file), tc.update, writable(tc.devices), Settings{PageSize: 2})
			d.mustRun()
			if got := d.bodies(); !slices.Equal(got, tc.bodies) {
				t.Errorf("sent\n%q, want\n%q", got, tc.bodies)
			}
			if got := d.classes(); !slices.Equal(got, tc.classes) {
				t.Errorf("planned\n%q, want\n%q", got, tc.classes)
			}
			for _, r := range d.sent {
				if r.Op == "devices" && r.Query.Has("hostname") {
					t.Errorf("a device is looked up by %v", r.Query)
				}
			}
		})
	}
}

func TestCase_C12_Requests(t *testing.T) { inputToRequests(t, "C12") }

func TestCase_C15_Requests(t *testing.T) { inputToRequests(t, "C15") }

func TestCase_C16_Requests(t *testing.T) { inputToRequests(t, "C16") }

func TestCase_C26_Requests(t *testing.T) { inputToRequests(t, "C26") }

func TestCase_C29_Requests(t *testing.T) { inputToRequests(t, "C29") }

func TestCase_C30_Requests(t *testing.T) { inputToRequests(t, "C30") }

func TestCase_C32_Requests(t *testing.T) { inputToRequests(t, "C32") }

func TestCase_C34_Requests(t *testing.T) { inputToRequests(t, "C34") }

func TestCase_C35_Requests(t *testing.T) { inputToRequests(t, "C35") }

func TestCase_C37_Requests(t *testing.T) { inputToRequests(t, "C37") }

func TestCase_C38_Requests(t *testing.T) { inputToRequests(t, "C38") }

func TestCase_C40_Requests(t *testing.T) { inputToRequests(t, "C40") }

func TestCase_C52_Requests(t *testing.T) { inputToRequests(t, "C52") }

func TestCase_C12_BlankRowsAreCounted(t *testing.T) {
	d := updater(t, onCase(t, "C12"), udfs("uid", "udf7"), nil, Settings{})
	table, err := OpenInput(d.make().(*UpdateWork).job)
	if err != nil || table.Rows != 2 || table.Blank != 3 {
		t.Errorf("table %+v, %v", table, err)
	}
}

// inputFaults opens an input that must be refused, and gives its faults without
// the name of the file.
func inputFaults(t *testing.T, path, update string) []string {
	t.Helper()
	d := updater(t, path, update, func(rmm.Request) reply { t.Error("something was sent"); return reply{} }, Settings{})
	_, err := OpenInput(d.make().(*UpdateWork).job)
	var faults Errors
	if !errors.As(err, &faults) {
		t.Fatalf("%v, want Errors", err)
	}
	var got []string
	for _, f := range faults {
		if filepath.Base(f.Pos.File) != filepath.Base(path) {
			t.Errorf("fault of %s", f.Pos.File)
		}
		got = append(got, fmt.Sprintf("%d:%d: %s", f.Pos.Line, f.Pos.Column, f.Message))
	}
	return got
}

// A file that is refused is refused with all that is wrong in it.
func TestCase_C50_AllProblemsAtOnce(t *testing.T) {
	got := inputFaults(t, onCase(t, "C50"), udfs("uid", "udf7"))
	want := []string{
		"2:1: empty key: uid comes from {uid}, which is blank",
		`3:1: "not-a-uid" is not the uid of a device`,
		"5:38: udf7 has 300 characters, 255 fit",
		"6:1: the row has 3 cells, the header has 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults %q", got)
	}
	got = inputFaults(t, file(t, "hostname,udf7\nWS-1,x\n,x\nWS-2,x,y\n"), udfs("hostname", "udf7"))
	want = []string{"3:1: empty key: hostname comes from {hostname}, which is blank", "4:1: the row has 3 cells, the header has 2"}
	if !slices.Equal(got, want) {
		t.Errorf("faults %q", got)
	}
	got = inputFaults(t, file(t, "uid,Tag,day\n,"+strings.Repeat("x", 300)+",1.2.2026\n"+deviceA+",x,31.12.2026\n"+deviceB+",x\n"+deviceC+",1.5E+12,x\n"),
		"  operation: device-warranty-create\n  rows: {csv: CSV}\n  match: {uid: '{uid}'}\n  set: {warrantyDate: '{day}{Tag}'}\n")
	want = []string{
		"2:1: empty key: uid comes from {uid}, which is blank",
		`2:303: warrantyDate: "1.2.2026` + strings.Repeat("x", 22) + `…" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
		`3:40: warrantyDate: "31.12.2026x" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
		"4:1: the row has 2 cells, the header has 3",
		"5:38: 1 value looks like Excel scientific notation: line 5",
		`5:46: warrantyDate: "x1.5E+12" is not a day as yyyy-mm-dd; another order needs rows.date_format`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Without a fault of the file its faulty rows do not stop it, and a uid of another
// form is looked for like any.
func TestRowFaultsAloneDoNotRefuseTheFile(t *testing.T) {
	d := updater(t, file(t, "uid,udf7\n,x\nnot-a-uid,x\nodd-uid,x\n"), udfs("uid", "udf7"), writable([]dev{{uid: "odd-uid"}}), Settings{})
	d.mustRun()
	want := []string{"2 invalid: empty key: uid comes from {uid}, which is blank", `3 not_found: no device has uid "not-a-uid"`, "4 change"}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned %q", got)
	}
}

func TestManyRowFaultsAreCutShort(t *testing.T) {
	got := inputFaults(t, file(t, "uid,udf7\n"+strings.Repeat(",x\n", maxListed+500)+"a,b,c\n"), udfs("uid", "udf7"))
	if len(got) != maxListed+2 || !strings.HasSuffix(got[maxListed], "may have faults, too") || !strings.HasSuffix(got[maxListed+1], "the header has 2") {
		t.Errorf("%d faults, the last %q", len(got), got[len(got)-2:])
	}
}

// Every fault of a row is named, not only the first.
func TestRowWithSeveralFaults(t *testing.T) {
	long := strings.Repeat("ü", 250) + "🖥🖥🖥" // 256 units in UTF-16
	d := updater(t, file(t, "uid,udf1,udf2\n ,"+long+","+long+"\n"), udfs("uid", "udf1", "udf2"), writable(caseFleet()), Settings{})
	d.mustRun()
	want := "2 invalid: empty key: uid comes from {uid}, which is blank; udf1 has 256 characters, 255 fit; udf2 has 256 characters, 255 fit"
	if got := d.classes(); got[0] != want {
		t.Errorf("planned %q", got)
	}
}

func TestCase_D02_NoWriteOutsideTheTargets(t *testing.T) {
	// The targets are all devices of the account; a page link that points
	// elsewhere stops the job before it has a plan.
	d := updater(t, file(t, "hostname,udf7\nWS-BRAVO,x\n"), udfs("hostname", "udf7"), func(req rmm.Request) reply {
		return reply{body: strings.Replace(writable(caseFleet())(req).body, "/account/devices", "/site/x/devices", 1)}
	}, Settings{PageSize: 2})
	if err := d.run(); err == nil || !strings.Contains(err.Error(), "another path") || len(d.writes()) != 0 {
		t.Errorf("ended with %v after %d writes", err, len(d.writes()))
	}
}

func TestCase_D05_AllUDFNumbers(t *testing.T) {
	devices := caseFleet()[:1]
	devices[0].udf = map[string]any{"udf31": "b"}
	d := updater(t, file(t, "uid,udf30,udf31,udf300\n"+deviceA+",a,b,c\n"), udfs("uid", "udf30", "udf31", "udf300"), writable(devices), Settings{})
	d.mustRun()
	if got := d.bodies(); !slices.Equal(got, []string{deviceA + ` {"udf30":"a","udf300":"c"}`}) {
		t.Errorf("sent %q", got)
	}
}

// Rows that fill different fields of one device are one request.
func TestCase_D12_RowsOfOneDeviceAreOneRequest(t *testing.T) {
	csv := "uid,udf1,udf2\n" + deviceA + ",a1,\n" + deviceB + ",b1,\n" + deviceA + ",,a2\n" + deviceC + ",,c2\n"
	d := updater(t, file(t, csv), udfs("uid", "udf1", "udf2"), writable(caseFleet()), Settings{})
	d.mustRun()
	want := []string{deviceA + ` {"udf1":"a1","udf2":"a2"}`, deviceB + ` {"udf1":"b1"}`, deviceC + ` {"udf2":"c2"}`}
	if got := d.bodies(); !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
	reversed := "uid,udf1,udf2\n" + deviceC + ",,c2\n" + deviceA + ",,a2\n" + deviceB + ",b1,\n" + deviceA + ",a1,\n"
	other := updater(t, file(t, reversed), udfs("uid", "udf1", "udf2"), writable(caseFleet()), Settings{})
	other.mustRun()
	if got := other.bodies(); !slices.Equal(got, want) {
		t.Errorf("in another order it sends %q", got)
	}
	if d.plan[ClassChange] != 4 {
		t.Errorf("plan %v", d.plan)
	}
	if d.rows[1].ItemKey != d.rows[3].ItemKey {
		t.Errorf("the two rows of A have the items %q and %q", d.rows[1].ItemKey, d.rows[3].ItemKey)
	}
	for i, fields := range [][]string{1: {"udf1"}, 2: {"udf1"}, 3: {"udf2"}, 4: {"udf2"}} {
		var got []string
		for _, c := range d.rows[i].Detail.Changes {
			got = append(got, c.Field)
		}
		if !slices.Equal(got, fields) {
			t.Errorf("row %d changes %v, want %v", i, got, fields)
		}
	}
}

// The values that were before are in the plan, also where there was none, so
// that they can be restored. What the account did not tell is not made up.
func TestCase_Y05_OldValuesAreRecorded(t *testing.T) {
	devices := caseFleet()[:2]
	devices[0].udf = map[string]any{"udf7": "before"}
	csv := file(t, "uid,udf7\n"+deviceA+",after\n"+deviceB+",after\n")
	d := updater(t, csv, udfs("uid", "udf7"), writable(devices), Settings{PlanOnly: true})
	d.mustRun()
	if len(d.writes()) != 0 {
		t.Errorf("a plan writes %q", d.bodies())
	}
	detail, err := json.Marshal(d.rows[1].Detail)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"line":2,"cells":["` + deviceA + `","after"],"uid":"` + deviceA + `","hostname":"WS-ALFA","site":"Depot North",` +
		`"changes":[{"field":"udf7","old":"before","new":"after"}]}`
	if string(detail) != want {
		t.Errorf("stored\n%s, want\n%s", detail, want)
	}
	if c := d.rows[2].Detail.Changes[0]; c.Old != "" || c.Unknown {
		t.Errorf("an empty field is recorded as %+v", c)
	}
	if head := d.rows[0]; head.Number != 0 || head.Class != ClassHeading || !slices.Equal(head.Detail.Cells, []string{"uid", "udf7"}) {
		t.Errorf("heading %+v", head)
	}
}

func TestOldValueThatTheAccountDoesNotTell(t *testing.T) {
	for _, tc := range []struct {
		name, field, device string
		old                 string
		unknown             bool
	}{
		{"null", "udf7", `{"udf":{"udf7":null}}`, "", false},
		{"text", "udf7", `{"udf":{"udf7":"a.b \u00fc"}}`, "a.b ü", false},
		{"typed", "udf7", `{"udf":{"udf7":42}}`, "42", false},
		{"field absent", "udf7", `{"udf":{"udf1":"x"}}`, "", true},
		{"no fields", "udf7", `{"udf":{}}`, "", true},
		{"udf null", "udf7", `{"udf":null}`, "", true},
		{"udf a text", "udf7", `{"udf":"x"}`, "", true},
		{"no udf", "udf7", `{}`, "", true},
		{"day", warrantyDate, `{"warrantyDate":"2026-01-31"}`, "2026-01-31", false},
		{"day with a time", warrantyDate, `{"warrantyDate":"2026-01-31T00:00:00Z"}`, "2026-01-31", false},
		{"no day", warrantyDate, `{"warrantyDate":null}`, "", false},
		{"empty day", warrantyDate, `{"warrantyDate":""}`, "", false},
		{"milliseconds", warrantyDate, `{"warrantyDate":1741219200000}`, "", true},
		{"nonsense", warrantyDate, `{"warrantyDate":"soon"}`, "", true},
		{"day absent", warrantyDate, `{}`, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := "device-udf-set"
			if tc.field == warrantyDate {
				op = "device-warranty-create"
			}
			got := oldValues(operationOf(op), []Setting{{Field: tc.field}}, json.RawMessage(tc.device))[0]
			if got.text != tc.old || got.known == tc.unknown {
				t.Errorf("got %+v", got)
			}
		})
	}
	// An unknown value is written, since nobody knows whether it must be.
	d := updater(t, file(t, "uid,udf7\n"+deviceA+","+ClearWord+"\n"), udfs("uid", "udf7"), func(req rmm.Request) reply {
		if req.Op == "devices" {
			return (&fleet{items: []string{`{"uid":"` + deviceA + `"}`}}).page(req)
		}
		return reply{}
	}, Settings{})
	d.mustRun()
	if got := d.bodies(); !slices.Equal(got, []string{deviceA + ` {"udf7":""}`}) || !d.rows[1].Detail.Changes[0].Unknown {
		t.Errorf("sent %q, row %+v", got, d.rows[1])
	}
}

// A conflict names the first two rows that disagree and holds back every row of
// the device. What is held back is neither a change nor a clear for the guards.
func TestConflictOfSeveralRows(t *testing.T) {
	csv := "uid,udf1,udf2\n" + deviceA + ",one,\n" + deviceB + ",x,\n" + deviceA + ",one,(clear)\n" + deviceA + ",two,\n" + deviceA + ",three,\n"
	devices := caseFleet()
	devices[0].udf = map[string]any{"udf1": "old", "udf2": "old"}
	d := updater(t, file(t, csv), udfs("uid", "udf1", "udf2")+"guard: {max_changes: 1, max_clears: 0}\n", writable(devices), Settings{})
	d.mustRun()
	reason := " conflict: lines 2 and 5 disagree on udf1 for device " + deviceA
	want := []string{"2" + reason, "3 change", "4" + reason, "5" + reason, "6" + reason}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned %q", got)
	}
	if got := d.bodies(); !slices.Equal(got, []string{deviceB + ` {"udf1":"x"}`}) {
		t.Errorf("sent %q", got)
	}
	if c := d.rows[5].Detail.Changes[0]; c.Old != "old" || c.New != "three" {
		t.Errorf("the last row is recorded as %+v", c)
	}
}

// Devices without what the key is made of are never met, and a key in several
// parts must fit in all.
func TestMatching(t *testing.T) {
	devices := append(caseFleet(), dev{uid: "nameless", site: "Depot North"}, dev{hostname: "NO-UID", site: "Depot North"})
	for _, tc := range []struct{ name, csv, match, want string }{
		{"site and name", "h,s\nws-alfa, DEPOT south \n", "hostname: '{h}', siteName: '{s}'", deviceD},
		{"fixed site", "h,s\nws-alfa,x\n", "hostname: '{h}', siteName: Depot North", deviceA},
		{"blanks around", "h,s\n\u00a0SRV-Charlie\u200b,x\n", "hostname: '{h}'", deviceC},
		{"made of parts", "h,s\nsrv,Charlie\n", "hostname: '{h}-{s}'", deviceC},
		{"part of a name", "h,s\nSRV,x\n", "hostname: '{h}'", ""},
		{"parts that only fit joined", "h,s\nSRV-CHARLIEDepot,North\n", "hostname: '{h}', siteName: '{s}'", ""},
		{"by uid in capitals", "h,s\n" + strings.ToUpper(deviceD) + ",x\n", "uid: '{h}'", deviceD},
		{"a device without uid", "h,s\nNO-UID,x\n", "hostname: '{h}'", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			update := "  operation: device-udf-set\n  rows: {csv: CSV}\n  match: {" + tc.match + "}\n  set: {udf1: new}\n"
			d := updater(t, file(t, tc.csv), update, writable(slices.Clone(devices)), Settings{})
			d.mustRun()
			want := []string{tc.want + ` {"udf1":"new"}`}
			if tc.want == "" {
				want = nil
			}
			if got := d.bodies(); !slices.Equal(got, want) {
				t.Errorf("sent %q, planned %q", got, d.classes())
			}
		})
	}
}

func TestGuards(t *testing.T) {
	// 40 rows; the first ones of each kind as many as said.
	input := func(missing, clears, changes int) string {
		var b strings.Builder
		b.WriteString("uid,udf1\n")
		for i := range 40 {
			value := "same"
			switch {
			case i < missing:
				fmt.Fprintf(&b, "gone%d,x\n", i)
				continue
			case i < missing+clears:
				value = ClearWord
			case i < missing+clears+changes:
				value = "new"
			}
			fmt.Fprintf(&b, "d%d,%s\n", i, value)
		}
		return b.String()
	}
	var devices []dev
	for i := range 40 {
		devices = append(devices, dev{uid: "d" + strconv.Itoa(i), udf: map[string]any{"udf1": "same"}})
	}
	for _, tc := range []struct {
		missing, clears, changes int
		guard, update            string
		want                     string // the guard that speaks
		message                  string
	}{
		{missing: 10},
		{missing: 11, want: "max_rejected", message: "11 of 40 rows cannot be applied, max_rejected is 10; nothing was written\n  line 2: not_found: no device has uid \"gone0\""},
		{missing: 11, guard: "max_rejected: 11"},
		{missing: 12, guard: "max_rejected: 11", want: "max_rejected", message: "12 of 40 rows cannot be applied, max_rejected is 11"},
		{missing: 2, guard: "max_rejected: '5%'"},
		{missing: 3, guard: "max_rejected: '5%'", want: "max_rejected", message: "max_rejected is 5%"},
		{missing: 1, guard: "max_rejected: 0", want: "max_rejected", message: "1 of 40 rows cannot be applied, max_rejected is 0"},
		{missing: 5, guard: "max_not_found: 5"},
		{missing: 6, guard: "max_not_found: 5", want: "max_not_found", message: "6 of 40 rows have no device, max_not_found is 5; nothing was written"},
		{missing: 4, guard: "max_not_found: '10%'"},
		{missing: 5, guard: "max_not_found: '10%'", want: "max_not_found", message: "max_not_found is 10%"},
		{changes: 40},
		{changes: 7, guard: "max_changes: 7"},
		{changes: 8, guard: "max_changes: 7", want: "max_changes", message: "the plan changes 8 devices, max_changes is 7; nothing was written"},
		{clears: 1, changes: 7, guard: "max_changes: 7", want: "max_changes", message: "the plan changes 8 devices"},
		{changes: 20, guard: "max_changes: '50%'"},
		{changes: 21, guard: "max_changes: '50%'", want: "max_changes", message: "max_changes is 50%"},
		{clears: 10},
		{clears: 11, want: "max_clears", message: "the plan clears 11 fields, max_clears is 10; nothing was written"},
		{clears: 12, guard: "max_clears: 12"},
		{clears: 1, guard: "max_clears: 0", want: "max_clears", message: "the plan clears 1 field, max_clears is 0"},
		{clears: 20, guard: "max_clears: '50%'"},
		{clears: 21, guard: "max_clears: '50%'", want: "max_clears", message: "max_clears is 50%"},
		{missing: 1, update: "on_row_fault: stop", want: "on_row_fault", message: "1 of 40 rows cannot be applied and on_row_fault is stop"},
		{changes: 3, update: "on_row_fault: stop"},
		{missing: 40, update: "on_not_found: skip"},
		{missing: 20, update: "on_not_found: skip\n  on_row_fault: stop"},
		{missing: 2, update: "on_not_found: skip", guard: "max_not_found: 1", want: "max_not_found", message: "2 of 40 rows have no device"},
	} {
		t.Run(fmt.Sprintf("%d %d %d %s %s", tc.missing, tc.clears, tc.changes, tc.guard, tc.update), func(t *testing.T) {
			text := udfs("uid", "udf1")
			if tc.update != "" {
				text += "  " + tc.update + "\n"
			}
			if tc.guard != "" {
				text += "guard: {" + tc.guard + "}\n"
			}
			d := updater(t, file(t, input(tc.missing, tc.clears, tc.changes)), text, writable(slices.Clone(devices)), Settings{})
			err := d.run()
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got := len(d.writes()); got != tc.clears+tc.changes {
					t.Errorf("%d writes, want %d", got, tc.clears+tc.changes)
				}
				return
			}
			var guard *GuardError
			if !errors.As(err, &guard) || guard.Guard != tc.want || !strings.Contains(guard.Message, tc.message) {
				t.Errorf("ended with %v, want %s: %s", err, tc.want, tc.message)
			}
			if len(d.writes()) != 0 {
				t.Errorf("%d writes before the guard spoke", len(d.writes()))
			}
		})
	}
}

// The default of max_rejected grows with the file.
func TestGuardDefaultsOfLargeFiles(t *testing.T) {
	for _, tc := range []struct {
		rows, held int
		ok         bool
	}{
		{1000, 50, true}, {1000, 51, false}, {200, 10, true}, {200, 11, false}, {219, 10, true}, {219, 11, false}, {220, 11, true},
	} {
		p := &plan{job: &Job{Update: &UpdateSpec{}}, counts: map[RowClass]int{ClassInvalid: tc.held}}
		for range tc.rows {
			p.rows = append(p.rows, inputRow{verdict: plainVerdicts[ClassUnchanged]})
		}
		if err := p.guard(); (err == nil) != tc.ok {
			t.Errorf("%d of %d: %v", tc.held, tc.rows, err)
		}
	}
	job := &Job{}
	for _, tc := range []struct {
		limit Limit
		total int
		want  int
	}{
		{Limit{}, 10, 25},
		{Limit{}, 500, 25},
		{Limit{}, 1000, 50},
		{Limit{Set: true, Value: 3}, 1000, 3},
		{Limit{Set: true}, 1000, 0},
		{Limit{Set: true, Percent: true, Value: 2.5}, 1000, 25},
	} {
		job.Guard.MaxErrors = tc.limit
		if got := job.MaxErrors(tc.total); got != tc.want {
			t.Errorf("max_errors %v of %d: %d, want %d", tc.limit, tc.total, got, tc.want)
		}
	}
}

func TestNotFoundSkipped(t *testing.T) {
	d := updater(t, file(t, "uid,udf1\ngone,x\n"+deviceA+",x\n"), udfs("uid", "udf1")+"  on_not_found: skip\n", writable(caseFleet()), Settings{})
	d.mustRun()
	if it := d.memory[d.rows[1].ItemKey].item; it.Birth != Skipped || it.Reason != `no device has uid "gone"` {
		t.Errorf("item %+v", it)
	}
}

func TestInputThatChangedIsNotPlanned(t *testing.T) {
	path := file(t, "uid,udf1\n"+deviceA+",x\n")
	d := updater(t, path, udfs("uid", "udf1"), writable(caseFleet()), Settings{})
	table, err := OpenInput(d.make().(*UpdateWork).job)
	if err != nil {
		t.Fatal(err)
	}
	job := d.make().(*UpdateWork).job
	d.make = func() work { return NewUpdateWork(job, Settings{InputHash: table.Hash}) }
	d.mustRun()
	if err := os.WriteFile(path, []byte("uid,udf1\n"+deviceB+",x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.sent = nil
	var faults Errors
	if err := d.run(); !errors.As(err, &faults) || !strings.Contains(err.Error(), "the file changed since the run was begun") || len(d.writes()) != 0 {
		t.Errorf("ended with %v after %d writes", err, len(d.writes()))
	}
}

// model is a random fleet and a random input for it.
type model struct {
	devices []dev
	rows    [][]string // key, udf1, udf2
	match   string
	empty   string
}

func drawModel(t *rapid.T) model {
	m := model{match: rapid.SampledFrom([]string{"uid", "hostname"}).Draw(t, "match"), empty: rapid.SampledFrom([]string{"keep", "clear"}).Draw(t, "empty")}
	values := rapid.SampledFrom([]string{"", "", "a", "b", "=1", " ", "\"q\", ü\r\n<&>", ClearWord, strings.Repeat("x", 256)})
	old := rapid.SampledFrom([]any{nil, "a", "b", " "})
	for i := range rapid.IntRange(0, 6).Draw(t, "devices") {
		m.devices = append(m.devices, dev{
			uid: "U" + strconv.Itoa(i), hostname: rapid.SampledFrom([]string{"", "h1", "h2", "h3", "h4"}).Draw(t, "hostname"),
			udf: map[string]any{"udf1": old.Draw(t, "udf1"), "udf2": old.Draw(t, "udf2"), "udf3": "untouched"},
		})
	}
	for range rapid.IntRange(1, 9).Draw(t, "rows") {
		key := rapid.SampledFrom([]string{"", " ", "u0", "U1", "u2", "u3", "h1", "H2", "h3", "h4", "h5"}).Draw(t, "key")
		m.rows = append(m.rows, []string{key, values.Draw(t, "1"), values.Draw(t, "2")})
	}
	return m
}

// drive plans and applies the model's rows to its devices, which change.
func (m model) drive(t testing.TB, path string) *driver {
	t.Helper()
	var b strings.Builder
	b.WriteString("key,udf1,udf2,note\n")
	for _, r := range m.rows {
		for _, cell := range r {
			b.WriteString(`"` + strings.ReplaceAll(cell, `"`, `""`) + `",`)
		}
		b.WriteString("n\n")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	d := updater(t, path, "  operation: device-udf-set\n  rows: {csv: CSV}\n  match: {"+m.match+": '{key}'}\n  set: {udf2: '{udf2}', udf1: '{udf1}'}\n"+
		"  empty: "+m.empty+"\nguard: {max_rejected: '100%', max_clears: 1000}\n", writable(m.devices), Settings{PageSize: 2})
	d.mustRun()
	return d
}

func TestLawsOfAPlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.csv")
	rapid.Check(t, func(rt *rapid.T) {
		m := drawModel(rt)
		before := slices.Clone(m.devices)
		d := m.drive(t, path)

		sum := 0
		for _, n := range d.plan {
			sum += n
		}
		if sum != len(m.rows) || len(d.rows) != len(m.rows)+1 {
			rt.Fatalf("classes %v of %d rows, %d rows stored", d.plan, len(m.rows), len(d.rows))
		}
		// Every row has its item; good rows share that of their target, others have their own.
		shared, targets := map[string]string{}, map[string]bool{}
		for i, row := range d.rows[1:] {
			rec := d.memory[row.ItemKey]
			if rec == nil {
				rt.Fatalf("row %d has no item %q", i, row.ItemKey)
			}
			if row.Class.Held() {
				if rec.item.Birth != Failed || rec.item.Class != string(row.Class) || rec.item.Reason == "" {
					rt.Fatalf("row %d is %s and its item is %+v", i, row.Class, rec.item)
				}
				continue
			}
			if other, ok := shared[row.Detail.UID]; ok && other != row.ItemKey {
				rt.Fatalf("device %s has the items %q and %q", row.Detail.UID, other, row.ItemKey)
			}
			shared[row.Detail.UID] = row.ItemKey
			if (row.Class == ClassChange || row.Class == ClassClear) && rec.item.Birth != Pending {
				rt.Fatalf("row %d is %s and nothing is sent: %+v", i, row.Class, rec.item)
			}
			targets[row.Detail.UID] = true
		}
		for _, row := range d.rows[1:] {
			if row.Class == ClassConflict && targets[row.Detail.UID] {
				rt.Fatalf("device %s has a conflict and a good row", row.Detail.UID)
			}
		}
		written := map[string]bool{}
		for _, req := range d.writes() {
			uid := req.Path["deviceUid"]
			if written[uid] || !targets[uid] {
				rt.Fatalf("device %s is written twice, or has no good row", uid)
			}
			written[uid] = true
			i := slices.IndexFunc(before, func(x dev) bool { return x.uid == uid })
			var body map[string]string
			if err := json.Unmarshal(req.Body, &body); err != nil || len(body) == 0 {
				rt.Fatalf("body %s: %v", req.Body, err)
			}
			for field, v := range body {
				was, _ := before[i].udf[field].(string)
				if v == was {
					rt.Fatalf("%s of %s is sent although it is %q already", field, uid, v)
				}
			}
		}
		for i, x := range m.devices {
			if x.udf["udf3"] != "untouched" {
				rt.Fatalf("a field that the job does not set changed on %s", x.uid)
			}
			if !written[x.uid] && fmt.Sprint(x.udf) != fmt.Sprint(before[i].udf) {
				rt.Fatalf("%s changed without a write", x.uid)
			}
		}

		// Over its own result a plan has nothing to do.
		again := m.drive(t, path)
		if n := len(again.writes()); n != 0 || again.plan[ClassChange]+again.plan[ClassClear] != 0 {
			rt.Fatalf("planned again it still is %v and sends %d requests", again.plan, n)
		}
		if again.plan[ClassConflict] != d.plan[ClassConflict] || again.plan[ClassInvalid] != d.plan[ClassInvalid] {
			rt.Fatalf("planned again the held rows are %v, were %v", again.plan, d.plan)
		}

		// The order of the rows does not matter.
		shuffled := m
		shuffled.devices, shuffled.rows = before, slices.Clone(m.rows)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 2))
		rng.Shuffle(len(shuffled.rows), func(i, j int) { shuffled.rows[i], shuffled.rows[j] = shuffled.rows[j], shuffled.rows[i] })
		if other := shuffled.drive(t, path); !slices.Equal(other.bodies(), d.bodies()) {
			rt.Fatalf("in another order it sends %q, not %q", other.bodies(), d.bodies())
		}
	})
}

func FuzzPlanRow(f *testing.F) {
	f.Add("ws-1", "value", "2026-01-31", `{"uid":"a","hostname":"WS-1","udf":{"udf1":"old"},"warrantyDate":null}`, false)
	f.Add(" ", ClearWord, "31.12.2026", `{"uid":"a","hostname":" "}`, true)
	f.Add("x\x00y", "\"\\\u2028<&>", "", `{"uid":7,"hostname":["x"],"udf":[1]}`, false)
	f.Add("", strings.Repeat("🖥", 128), "0000-00-00", `null`, true)
	f.Fuzz(func(t *testing.T, key, value, day, element string, empty bool) {
		for i, field := range []string{"udf1", warrantyDate} {
			spec := &UpdateSpec{
				Match: []Match{{Field: "hostname", Value: mustTemplate(t, "{Key}")}},
				Set:   []Setting{{Field: field, Value: mustTemplate(t, "{Value}")}},
			}
			if empty {
				spec.Empty = "clear"
			}
			spec.Operation, _ = rmm.Lookup([]string{"device-udf-set", "device-warranty-create"}[i])
			cell := []string{value, day}[i]
			reader := newRowReader(spec, &Table{Headers: []string{"Key", "Value"}})
			row, faults := reader.read(Record{Number: 1, Line: 2, Cells: []string{key, cell}})
			if (row.class() == ClassInvalid) != (len(faults) > 0) || row.class() == ClassInvalid && row.reason() == "" {
				t.Fatalf("row %+v with faults %v", row, faults)
			}
			p := &plan{job: &Job{Update: spec}, op: operationOf(spec.Operation.Name), reader: reader, counts: map[RowClass]int{}}
			p.add(row, []string{key, cell})
			wanted := map[string][]*object{}
			if row.verdict == nil {
				wanted[row.key] = nil
			}
			one := func(yield func(Element, error) bool) { yield(Element{JSON: json.RawMessage(element)}, nil) }
			if _, err := collect(p.job, sources{targets: one}, wanted, newSelectorFit(p.job.Guard)); err != nil {
				t.Fatal(err)
			}
			p.resolve(wanted)
			for _, target := range p.targets {
				p.merge(target, make([]*inputRow, 1), "")
			}
			for it := range p.items() {
				if it.Birth != Pending {
					continue
				}
				var body map[string]*string
				if err := json.Unmarshal(it.Request.Body, &body); err != nil || len(body) != 1 {
					t.Fatalf("body %q: %v", it.Request.Body, err)
				}
				if field == "udf1" && cell != ClearWord && *body[field] != strings.ToValidUTF8(cell, "\ufffd") {
					t.Fatalf("cell %q is sent as %q", cell, *body[field])
				}
			}
			for range p.planRows() {
			}
		}
	})
}

func mustTemplate(t testing.TB, s string) Template {
	t.Helper()
	tpl, err := ParseTemplate(s)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

// manyDevices yields devices with all their fields, made as they are read.
func manyDevices(n int, sample func()) iter.Seq2[Element, error] {
	udf := map[string]any{}
	for i := range 30 {
		udf["udf"+strconv.Itoa(i+1)] = "some value that a technician has written here"
	}
	one := dev{uid: "UID-1111-4111-8111-1111111111a1", hostname: "NAME", site: "Depot North", udf: udf}.json()
	return func(yield func(Element, error) bool) {
		for i := range n {
			text := strings.NewReplacer("UID", fmt.Sprintf("%08x", i), "NAME", fmt.Sprintf("WS-%06d", i)).Replace(one)
			if !yield(Element{JSON: json.RawMessage(text)}, nil) {
				return
			}
			if (i+1)%(n/4) == 0 {
				sample()
			}
		}
	}
}

// A plan of 200,000 rows over 50,000 devices: what it holds at its largest, and
// what the process has taken from the system by then. Beside it stands a plain read
// of the same file.
func BenchmarkPlan(b *testing.B) {
	const rows, devices = 200_000, 50_000
	var csv strings.Builder
	csv.WriteString("uid,hostname,udf1,udf2,udf3,Comment\r\n")
	for i := range rows {
		one, two := strconv.Itoa(i%devices), ""
		if i >= devices {
			one, two = two, one
		}
		fmt.Fprintf(&csv, "%08x-1111-4111-8111-1111111111a1,WS-%06d,%s,%s,\"Büro, 3. Stock\",some remark about it\r\n", i%devices, i%devices, one, two)
	}
	d := updater(b, file(b, csv.String()), udfs("uid", "udf1", "udf2", "udf3"), nil, Settings{})
	csv.Reset()
	job := d.make().(*UpdateWork).job
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(job.Update.Rows.CSV); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plan", func(b *testing.B) { benchmarkPlan(b, job, devices) })
}

func benchmarkPlan(b *testing.B, job *Job, devices int) {
	b.ReportAllocs()
	for b.Loop() {
		var sent int
		top := peak(func(sample func()) {
			p, err := NewUpdateWork(job, Settings{}).makePlan(context.Background(), memory{}, sources{targets: manyDevices(devices, sample)})
			if err != nil {
				b.Fatal(err)
			}
			sample()
			for it := range p.items() {
				if it.Birth == Pending {
					sent++
				}
			}
			for range p.planRows() {
			}
			sample()
			if err := p.guard(); err != nil {
				b.Fatal(err)
			}
		})
		if sent != devices {
			b.Fatal(sent)
		}
		b.ReportMetric(float64(top)/(1<<20), "peak-MiB")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys-m.HeapReleased)/(1<<20), "process-MiB")
}
