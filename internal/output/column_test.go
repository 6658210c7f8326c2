package output

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// specs reads "hostname", "lastSeen!rfc3339" and "Tag=udf.udf1!raw".
func specs(texts ...string) []ColumnSpec {
	var list []ColumnSpec
	for _, text := range texts {
		var s ColumnSpec
		text, s.Format, _ = strings.Cut(text, "!")
		if header, path, ok := strings.Cut(text, "="); ok {
			s.Header, text = header, path
		}
		s.Path = text
		list = append(list, s)
	}
	return list
}

func mustResolve(t testing.TB, element string, texts ...string) []Column {
	t.Helper()
	columns, err := Resolve(element, specs(texts...))
	if err != nil {
		t.Fatal(err)
	}
	return columns
}

// cells gives the row of a record as text.
func cells(columns []Column, rec Record, s Style) []string {
	var texts []string
	for _, v := range Row(nil, columns, rec, s) {
		texts = append(texts, v.Text)
	}
	return texts
}

func TestResolve(t *testing.T) {
	columns := mustResolve(t, "devices", "hostname", "lastSeen!rfc3339", "Tag=udf.udf1", "udf7", "udf.udf300", "udf1000",
		"Seen=lastSeen!excel", "newField!raw", "deviceType", "antivirus.antivirusStatus", "udf")
	want := []Column{
		{Header: "hostname", Path: "hostname", Kind: KindText},
		{Header: "lastSeen", Path: "lastSeen", Format: "rfc3339", Kind: KindDate},
		{Header: "Tag", Path: "udf.udf1", Kind: KindText, named: true},
		{Header: "udf7", Path: "udf.udf7", Kind: KindText},
		{Header: "udf.udf300", Path: "udf.udf300", Kind: KindText},
		{Header: "udf1000", Path: "udf.udf1000", Kind: KindText},
		{Header: "Seen", Path: "lastSeen", Format: "excel", Kind: KindDate, named: true},
		{Header: "newField", Path: "newField", Format: "raw"},
		{Header: "deviceType", Path: "deviceType", Kind: KindObject},
		{Header: "antivirus.antivirusStatus", Path: "antivirus.antivirusStatus", Kind: KindText},
		{Header: "udf", Path: "udf", Kind: KindObject},
	}
	if !slices.Equal(columns, want) {
		t.Errorf("Resolve =\n%+v, want\n%+v", columns, want)
	}
	for _, tt := range []struct {
		element, path string
		kind          Kind
	}{
		{"networkInterfaces", "nics.0.macAddress", KindText},
		{"networkInterfaces", "nics.macAddress", KindText},
		{"networkInterfaces", "nics.0", KindText},
		{"networkInterfaces", "nics", KindList},
		{"alerts", "alertContext.samples.x", KindText},
		{"alerts", "alertContext.@class", KindText},
		{"alerts", "responseActions.1.actionTime", KindDate},
		{"activities", "details.job.name", KindText},
		{"requestRate", "operationWriteStatus.device-udf-set.limit", KindText},
	} {
		columns := mustResolve(t, tt.element, tt.path)
		if columns[0].Kind != tt.kind {
			t.Errorf("%s %s is %v, want %v", tt.element, tt.path, columns[0].Kind, tt.kind)
		}
	}
}

func TestResolveFormatWordAsField(t *testing.T) {
	got := mustResolve(t, "activities", "When!date", "date!date")
	want := []Column{
		{Header: "When", Path: "date", Kind: KindDate, named: true},
		{Header: "date", Path: "date", Format: "date", Kind: KindDate},
	}
	if !slices.Equal(got, want) {
		t.Errorf("Resolve = %+v, want %+v", got, want)
	}
}

func TestResolveErrors(t *testing.T) {
	for _, tt := range []struct {
		element string
		specs   []string
		want    ColumnError
	}{
		{"devices", []string{"uid", "hostnme"}, ColumnError{1, "hostnme", reasonColumn, "hostname"}},
		{"devices", []string{"Hostname"}, ColumnError{0, "Hostname", reasonColumn, "hostname"}},
		{"devices", []string{"antivirusProduct"}, ColumnError{0, "antivirusProduct", reasonColumn, "antivirus.antivirusProduct"}},
		{"devices", []string{"UDF7"}, ColumnError{0, "UDF7", reasonColumn, "udf7"}},
		{"devices", []string{"udf07"}, ColumnError{0, "udf07", reasonColumn, "udf7"}},
		{"devices", []string{"udf.udf_7"}, ColumnError{0, "udf.udf_7", reasonColumn, "udf7"}},
		{"devices", []string{"udf0"}, ColumnError{0, "udf0", reasonColumn, "udf"}},
		{"devices", []string{"flux"}, ColumnError{0, "flux", reasonColumn, ""}},
		{"devices", []string{"nics.0"}, ColumnError{0, "nics.0", reasonColumn, ""}},
		{"devices", []string{"serialNumber"}, ColumnError{0, "serialNumber", reasonColumn, ""}},
		{"devices", []string{"audit.bios.serialNumber"}, ColumnError{0, "audit.bios.serialNumber", reasonDetail, ""}},
		{"devices", []string{"uid", "lastSeen!rfc339"}, ColumnError{1, "rfc339", reasonFormat, "rfc3339"}},
		{"devices", []string{"uid", "uid"}, ColumnError{1, "uid", reasonTwice, ""}},
		{"devices", []string{"all", "udf1"}, ColumnError{1, "udf1", reasonTwice, ""}},
		{"devices", []string{"x=uid", "x=hostname"}, ColumnError{1, "x", reasonTwice, ""}},
		{"devices", []string{""}, ColumnError{0, "", reasonEmpty, ""}},
		{"devices", []string{" =uid"}, ColumnError{0, "uid", reasonEmpty, ""}},
		{"sites", []string{"udf1"}, ColumnError{0, "udf1", reasonColumn, ""}},
	} {
		columns, err := Resolve(tt.element, specs(tt.specs...))
		var problem *ColumnError
		if !errors.As(err, &problem) || columns != nil {
			t.Errorf("Resolve(%q) = %v, %v, want a ColumnError", tt.specs, columns, err)
			continue
		}
		if *problem != tt.want {
			t.Errorf("Resolve(%q): %+v, want %+v", tt.specs, *problem, tt.want)
		}
		if !strings.Contains(err.Error(), "column "+strconv.Itoa(tt.want.Index+1)) || !strings.Contains(err.Error(), tt.want.Suggestion) {
			t.Errorf("Resolve(%q): message %q", tt.specs, err)
		}
	}
	for _, call := range []func() ([]Column, error){
		func() ([]Column, error) { return Resolve("nonsense", nil) },
		func() ([]Column, error) { return Resolve("devices", nil, "bogus") },
	} {
		if columns, err := call(); err == nil || columns != nil {
			t.Errorf("Resolve = %v, %v, want an error", columns, err)
		}
	}
}

func TestResolveDetails(t *testing.T) {
	columns, err := Resolve("devices", specs("hostname", "audit.bios.serialNumber", "software.name!join"), "audit", "software")
	if err != nil {
		t.Fatal(err)
	}
	rec := parse(t, `{"hostname":"A","audit":{"bios":{"serialNumber":"S1"}},"software":[{"name":"x"},{"name":"y"}]}`)
	if got, want := cells(columns, rec, Style{}), []string{"A", "S1", "x; y"}; !slices.Equal(got, want) {
		t.Errorf("cells = %q, want %q", got, want)
	}
	if _, err := Resolve("devices", specs("serialNumber"), "audit"); err == nil || !strings.Contains(err.Error(), "audit.bios.serialNumber") {
		t.Errorf("a misspelt detail column: %v", err)
	}
	plain, _ := Preset("devices", "default")
	with, err := Resolve("devices", nil, "audit", "software")
	if err != nil {
		t.Fatal(err)
	}
	audit, _ := Detail("devices", "audit")
	if len(with) != len(plain)+len(audit)+1 || with[len(with)-1].Path != "software" || !slices.Equal(with[:len(plain)], plain) {
		t.Errorf("details do not come after the default columns: %v", Headers(with, Style{}))
	}
	if _, ok := Detail("devices", "hostname"); ok {
		t.Error("a field is no detail")
	}
}

func TestPresets(t *testing.T) {
	for _, name := range Elements() {
		for _, preset := range []string{"default", "summary", "all"} {
			columns, ok := Preset(name, preset)
			if !ok || len(columns) == 0 {
				t.Errorf("%s has no preset %s", name, preset)
			}
			seen := map[string]bool{}
			for _, c := range columns {
				if seen[c.Header] || c.Header == "" || c.Kind == KindNull {
					t.Errorf("%s %s: column %+v is there twice or not known", name, preset, c)
				}
				seen[c.Header] = true
			}
		}
		for _, d := range details[name] {
			if columns, ok := Detail(name, d.name); !ok || len(columns) == 0 || slices.ContainsFunc(columns, func(c Column) bool { return c.Kind == KindNull }) {
				t.Errorf("%s: detail %s = %+v", name, d.name, columns)
			}
		}
	}
	if _, ok := Preset("devices", "everything"); ok {
		t.Error("an unknown preset was found")
	}
	if _, ok := Preset("nonsense", "all"); ok {
		t.Error("an unknown element was found")
	}
	count := func(preset string) (n int) {
		columns, _ := Preset("devices", preset)
		for _, c := range columns {
			if strings.HasPrefix(c.Header, "udf") {
				n++
			}
		}
		return n
	}
	if count("default") != 30 || count("all") != 300 || count("summary") != 0 {
		t.Errorf("custom fields: default %d, all %d, summary %d", count("default"), count("all"), count("summary"))
	}
}

func TestPresetInAList(t *testing.T) {
	summary, _ := Preset("devices", "summary")
	got := mustResolve(t, "devices", "summary", "udf40")
	if len(got) != len(summary)+1 || got[len(got)-1].Path != "udf.udf40" {
		t.Errorf("summary and udf40 = %v", Headers(got, Style{}))
	}
}

func TestCase_D05_UDFBeyond30(t *testing.T) {
	columns := mustResolve(t, "devices", "udf30", "udf31", "udf300", "udf301")
	rec := parse(t, `{"udf":{"udf30":"a","udf31":"b","udf300":"c","udf301":"d"}}`)
	if got := cells(columns, rec, Style{}); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("cells = %q", got)
	}
}

func TestCase_D06_OddDevice(t *testing.T) {
	columns, _ := Preset("devices", "default")
	class := slices.IndexFunc(columns, func(c Column) bool { return c.Path == "deviceClass" })
	status := slices.IndexFunc(columns, func(c Column) bool { return c.Path == "antivirus.antivirusStatus" })
	patch := slices.IndexFunc(columns, func(c Column) bool { return c.Path == "patchManagement.patchStatus" })
	unknown := NewUnknowns("devices")
	for _, tt := range []struct{ in, class, status string }{
		{`{"uid":"a1","deviceClass":"device","antivirus":{"antivirusStatus":"NotRunning"},"patchManagement":{"patchStatus":"NoData"}}`, "device", "NotRunning"},
		{`{"uid":"b2","deviceClass":"rmmnetworkdevice","patchManagement":null}`, "rmmnetworkdevice", ""},
		{`{"uid":"c3","deviceClass":"flyingtoaster","antivirus":{"antivirusStatus":"Sideways"}}`, "flyingtoaster", "Sideways"},
		{`{"uid":"d4","deviceClass":"flyingtoaster","antivirus":"none","udf":null}`, "flyingtoaster", ""},
	} {
		rec := parse(t, tt.in)
		unknown.Observe(rec)
		row := cells(columns, rec, Style{})
		if len(row) != len(columns) || row[class] != tt.class || row[status] != tt.status || tt.class != "device" && row[patch] != "" {
			t.Errorf("row of %s = %q", tt.in, row)
		}
	}
	want := []Unknown{{"deviceClass", "flyingtoaster", 2}, {"antivirus.antivirusStatus", "Sideways", 1}}
	if got := unknown.List(); !slices.Equal(got, want) {
		t.Errorf("unknown values = %v, want %v", got, want)
	}
	if got := unknown.String(); strings.Count(got, "flyingtoaster") != 1 || !strings.Contains(got, "Sideways") {
		t.Errorf("warning = %q", got)
	}
}

func TestCase_D07_Timestamps(t *testing.T) {
	columns := mustResolve(t, "devices", "lastSeen")
	for in, want := range map[string]string{
		`1741219200000`: "2025-03-06T00:00:00Z", `1741219200`: "2025-03-06T00:00:00Z", `"1741219200000"`: "2025-03-06T00:00:00Z",
		`"2025-03-06T00:00:00Z"`: "2025-03-06T00:00:00Z", `null`: "", `-62135596800000`: "",
	} {
		if got := cells(columns, parse(t, `{"lastSeen":`+in+`}`), Style{}); got[0] != want {
			t.Errorf("lastSeen %s = %q, want %q", in, got[0], want)
		}
	}
}

func TestCase_D09_EmptyPropertyName(t *testing.T) {
	columns, _ := Preset("alerts", "default")
	for _, h := range Headers(columns, Style{}) {
		if h == "" {
			t.Error("a column has no header")
		}
	}
	rec := parse(t, `{"alertUid":"x1","alertContext":{"@class":"comp_script_ctx","samples":{"":"Status","a.b":"1","A.B":"2"}}}`)
	row := strings.Join(cells(columns, rec, Style{}), "|")
	for _, part := range []string{"x1", "|comp_script_ctx|", `"":"Status"`, `"a.b":"1"`, `"A.B":"2"`} {
		if !strings.Contains(row, part) {
			t.Errorf("the row %s lacks %s", row, part)
		}
	}
	got := cells(mustResolve(t, "alerts", "alertContext.samples.a.b", "alertContext.samples.A.B", "Empty=alertContext.samples."), rec, Style{})
	if !slices.Equal(got, []string{"1", "2", "Status"}) {
		t.Errorf("samples = %q", got)
	}
}

func TestCase_O01_ReadableDates(t *testing.T) {
	rec := parse(t, `{"lastSeen":1741219200000}`)
	got := cells(mustResolve(t, "devices", "lastSeen", "A=lastSeen!raw", "B=lastSeen!ms"), rec, Style{})
	if !slices.Equal(got, []string{"2025-03-06T00:00:00Z", "1741219200000", "1741219200000"}) {
		t.Errorf("cells = %q", got)
	}
	if got := cells(mustResolve(t, "devices", "lastSeen"), rec, Style{Dates: DatesMS}); got[0] != "1741219200000" {
		t.Errorf("dates: ms gives %q", got)
	}
}

func TestCase_O02_ExcelDatesInAZone(t *testing.T) {
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	s := Style{Dates: DatesExcel, Location: london}
	columns := mustResolve(t, "devices", "hostname", "lastSeen", "Seen=lastSeen", "lastReboot!rfc3339")
	for in, want := range map[string]string{
		`"2026-03-29T00:30:00Z"`: "2026-03-29 00:30:00",
		`"2026-03-29T01:30:00Z"`: "2026-03-29 02:30:00",
		`1774747800000`:          "2026-03-29 02:30:00",
	} {
		got := cells(columns, parse(t, `{"lastSeen":`+in+`,"lastReboot":`+in+`}`), s)
		if got[1] != want || got[2] != want || !strings.Contains(got[3], "T") {
			t.Errorf("%s = %q, want %q", in, got, want)
		}
	}
	for _, tt := range []struct {
		style Style
		want  string
	}{
		{s, "hostname|lastSeen (Europe/London)|Seen|lastReboot"},
		{Style{Dates: DatesExcel}, "hostname|lastSeen (UTC)|Seen|lastReboot"},
		{Style{Dates: DatesExcel, Location: time.Local}, "hostname|lastSeen (local time)|Seen|lastReboot"},
		{Style{}, "hostname|lastSeen|Seen|lastReboot"},
	} {
		if got := strings.Join(Headers(columns, tt.style), "|"); got != tt.want {
			t.Errorf("headers = %s, want %s", got, tt.want)
		}
	}
}

func TestCase_O05_BigNumbers(t *testing.T) {
	columns := mustResolve(t, "devices", "id", "foo!raw", "siteId", "patchManagement!json")
	rec := parse(t, `{"id":502084122,"foo":1530822939367,"siteId":5.02084122E8,"patchManagement":{"patchesInstalled":1530822939367}}`)
	got := Row(nil, columns, rec, Style{})
	want := []Value{{KindInt, "502084122"}, {KindInt, "1530822939367"}, {KindInt, "502084122"}, {KindObject, `{"patchesInstalled":1530822939367}`}}
	if !slices.Equal(got, want) {
		t.Errorf("cells = %v, want %v", got, want)
	}
}

func TestCase_O07_NestedObjects(t *testing.T) {
	columns := mustResolve(t, "networkInterfaces", "hostname", "deviceType.category", "deviceType", "nics", "Mac=nics.macAddress!join", "First=nics.0.ipv4", "nics.type")
	full := parse(t, `{"hostname":"A","deviceType":{"type":"x","category":"Laptop"},
		"nics":[{"macAddress":"00:01","ipv4":"10.0.0.1","type":"eth"},{"macAddress":"00:02","ipv4":null}]}`)
	want := []string{
		"A", "Laptop", `{"category":"Laptop","type":"x"}`,
		`[{"ipv4":"10.0.0.1","macAddress":"00:01","type":"eth"},{"ipv4":null,"macAddress":"00:02"}]`,
		"00:01; 00:02", "10.0.0.1", `["eth"]`,
	}
	if got := cells(columns, full, Style{}); !slices.Equal(got, want) {
		t.Errorf("cells = %q, want %q", got, want)
	}
	if got := cells(columns, parse(t, `{"hostname":"B"}`), Style{}); !slices.Equal(got, []string{"B", "", "", "", "", "", ""}) {
		t.Errorf("cells without the objects = %q", got)
	}
}

func TestCase_O08_ColumnsComeFromTheJob(t *testing.T) {
	columns := mustResolve(t, "devices", "hostname", "udf7")
	for in, want := range map[string]string{`{"hostname":"A"}`: "", `{"hostname":"B","udf":{"udf7":"x"}}`: "x"} {
		if got := cells(columns, parse(t, in), Style{}); len(got) != 2 || got[1] != want {
			t.Errorf("%s = %q", in, got)
		}
	}
	if got := Headers(columns, Style{}); !slices.Equal(got, []string{"hostname", "udf7"}) {
		t.Errorf("headers = %q", got)
	}
}

func TestCase_O09_NewFieldMovesNothing(t *testing.T) {
	before := parse(t, `{"uid":"a","hostname":"A","udf":{"udf1":"x","udf2":"y"}}`)
	after := parse(t, `{"newField":{"z":1},"udf":{"udf2":"y","udf1":"x"},"hostname":"A","uid":"a"}`)
	for _, name := range []string{"default", "summary", "all"} {
		columns, _ := Preset("devices", name)
		if !slices.Equal(cells(columns, before, Style{}), cells(columns, after, Style{})) {
			t.Errorf("%s: the row depends on the order or number of the keys", name)
		}
	}
	// JSON text does not depend on the order of the keys either.
	whole := mustResolve(t, "devices", "udf")
	if a, b := cells(whole, before, Style{}), cells(whole, after, Style{}); !slices.Equal(a, b) {
		t.Errorf("udf = %q and %q", a, b)
	}
}

func TestFormatsOfAnyValue(t *testing.T) {
	rec := parse(t, `{"text":"x<y","num":1.5E3,"yes":true,"null":null,"list":[1,"two",null,{"k":[3]},[4,[5]]],"empty":[],"obj":{"b":1,"a":"<"},"when":[1741219200000,"2025-03-06"]}`)
	for _, tt := range []struct {
		path, format string
		want         Value
	}{
		{"text", "", Value{KindText, "x<y"}},
		{"text", "json", Value{KindObject, `"x<y"`}},
		{"text", "join", Value{KindText, "x<y"}},
		{"text", "rfc3339", Value{KindText, "x<y"}},
		{"num", "", Value{KindInt, "1500"}},
		{"num", "raw", Value{KindNumber, "1.5E3"}},
		{"num", "json", Value{KindObject, "1.5E3"}},
		{"num", "excel", Value{KindInt, "1500"}},
		{"yes", "", Value{KindBool, "true"}},
		{"yes", "date", Value{KindBool, "true"}},
		{"null", "", Value{}},
		{"null", "json", Value{}},
		{"gone", "raw", Value{}},
		{"list", "", Value{KindList, `[1,"two",null,{"k":[3]},[4,[5]]]`}},
		{"list", "raw", Value{KindList, `[1,"two",null,{"k":[3]},[4,[5]]]`}},
		{"list", "join", Value{KindText, `1; two; {"k":[3]}; 4; 5`}},
		{"list", "ms", Value{KindList, `[1,"two",null,{"k":[3]},[4,[5]]]`}},
		{"empty", "", Value{KindList, `[]`}},
		{"empty", "join", Value{}},
		{"obj", "", Value{KindObject, `{"a":"<","b":1}`}},
		{"obj", "join", Value{KindObject, `{"a":"<","b":1}`}},
	} {
		if got := (Column{Path: tt.path, Format: tt.format}).Cell(rec, Style{}); got != tt.want {
			t.Errorf("%s as %q = %v, want %v", tt.path, tt.format, got, tt.want)
		}
	}
	dates := Column{Path: "when", Format: "join", Kind: KindDate}
	if got := dates.Cell(rec, Style{Dates: DatesExcel}).Text; got != "2025-03-06 00:00:00; 2025-03-06 00:00:00" {
		t.Errorf("joined dates = %q", got)
	}
	if got := (Column{Path: "go"}).Cell(Record{"go": 7}, Style{}); got.Text != "7" {
		t.Errorf("a value of the caller's own = %v", got)
	}
}

func TestNewlines(t *testing.T) {
	rec := Record{"d": "a\r\nb\nc\rd\\n", "l": []any{"a\nb"}}
	for mode, want := range map[string]string{"": "a\r\nb\nc\rd\\n", "keep": "a\r\nb\nc\rd\\n", "space": "a b c d\\n", "escape": `a\r\nb\nc\rd\n`} {
		if got := (Column{Path: "d"}).Cell(rec, Style{Newlines: mode}).Text; got != want {
			t.Errorf("newlines %q: %q, want %q", mode, got, want)
		}
	}
	if got := (Column{Path: "l"}).Cell(rec, Style{Newlines: "space"}).Text; got != `["a\nb"]` {
		t.Errorf("JSON text was altered: %s", got)
	}
	if got := (Column{Path: "l", Format: "join"}).Cell(rec, Style{Newlines: "space"}).Text; got != "a b" {
		t.Errorf("joined text = %q", got)
	}
}

func TestStyleValidate(t *testing.T) {
	for _, s := range []Style{{}, {Dates: "excel", Formulas: "guard", Newlines: "escape"}, {Dates: "ms"}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Style{{Dates: "date"}, {Formulas: "on"}, {Newlines: "drop"}} {
		if err := s.Validate(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestUnknownsAreBounded(t *testing.T) {
	u := NewUnknowns("devices")
	if u.String() != "" || u.List() != nil {
		t.Errorf("a warning about nothing: %q", u)
	}
	for i := range 1000 {
		u.Observe(Record{"deviceClass": "class" + strconv.Itoa(i)})
	}
	if n := len(u.List()); n != maxUnknowns {
		t.Errorf("%d values are kept", n)
	}
	u = NewUnknowns("alerts")
	u.Observe(Record{"priority": "\x1b[31m" + strings.Repeat("ü", 100)})
	u.Observe(Record{"priority": "High", "alertContext": "x"})
	if got := u.List()[0].Value; strings.Contains(got, "\x1b") || len([]rune(got)) != 61 || len(u.List()) != 1 {
		t.Errorf("unknown value = %q", got)
	}
	NewUnknowns("nonsense").Observe(Record{"a": 1})
}
