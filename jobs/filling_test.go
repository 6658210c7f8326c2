package jobs

import (
	"slices"
	"strings"
	"testing"
)

// A blank cell, and the word that empties a field, within a text that has more: nothing
// that is there is overwritten by what remains of the text.
func TestPartsOfTexts(t *testing.T) {
	const csv = "uid,a,b\n" + deviceA + ",7,x\n" + deviceB + ",,x\n" + deviceC + ",,\n" + deviceD + ",(clear),x\n" + deviceA + "," + " \u00a0,(CLEAR)\n"
	word := func(line, field, column, value, text string) string {
		return line + " invalid: " + field + ": {" + column + `} is "` + value + `" within "` + text + `": the word empties a field only where it is the whole of it`
	}
	for _, tt := range []struct {
		name, empty     string
		classes, bodies []string
	}{
		{
			"keep", "keep",
			[]string{
				"2 change", "3 unchanged", "4 unchanged", word("5", "udf1", "a", "(clear)", "Rack {a}") + "; " + word("5", "udf2", "a", "(clear)", "{a}-{b}")[len("5 invalid: "):],
				word("6", "udf2", "b", "(CLEAR)", "{a}-{b}"),
			},
			[]string{deviceA + ` {"udf1":"Rack 7","udf2":"7-x"}`},
		},
		{
			"clear", "clear",
			[]string{
				"2 change", `3 invalid: udf2: {a} is blank and the rest of "{a}-{b}" is not: empty: clear does not tell whether the field is to be emptied`, "4 clear",
				word("5", "udf1", "a", "(clear)", "Rack {a}") + "; " + word("5", "udf2", "a", "(clear)", "{a}-{b}")[len("5 invalid: "):],
				word("6", "udf2", "b", "(CLEAR)", "{a}-{b}"),
			},
			[]string{deviceA + ` {"udf1":"Rack 7","udf2":"7-x"}`, deviceC + ` {"udf1":"","udf2":""}`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			devices := caseFleet()
			for i := range devices {
				devices[i].udf = map[string]any{"udf1": "old", "udf2": "old"}
			}
			update := "  operation: device-udf-set\n  rows: {csv: CSV}\n  match: {uid: '{uid}'}\n  set: {udf1: 'Rack {a}', udf2: '{a}-{b}'}\n  empty: " + tt.empty + "\n"
			d := updater(t, file(t, csv), update, writable(devices), Settings{})
			d.mustRun()
			if got := d.classes(); !slices.Equal(got, tt.classes) {
				t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.classes, "\n"))
			}
			if got := d.bodies(); !slices.Equal(got, tt.bodies) {
				t.Errorf("sent %q, want %q", got, tt.bodies)
			}
		})
	}
}

// The place of such a fault is the cell that it is about, not the first of the text.
func TestPlacesOfPartsOfTexts(t *testing.T) {
	got := inputFaults(t, file(t, "n,a,b,z\nx,1,(clear),y\n ,2,x,\n(Clear),2,,\nshort\n"), "  operation: device-udf-set\n  rows: {csv: CSV}\n  match: {hostname: 'PC-{n}'}\n  set: {udf1: '{a}{b}', udf2: '({z}r)'}\n")
	want := []string{
		`2:5: udf1: {b} is "(clear)" within "{a}{b}": the word empties a field only where it is the whole of it`,
		"3:1: incomplete key: hostname comes from PC-{n}, and {n} is blank",
		`4:1: hostname comes from PC-{n}, and {n} is "(Clear)": a key cannot be emptied`,
	}
	// Faults of rows alone are no faults of the file: a short last row brings them out.
	if !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A text that only together comes to the word does not empty a field either.
func TestTextThatComesToTheWord(t *testing.T) {
	d := updater(t, file(t, "uid,a\n"+deviceA+",clear\n"), "  operation: device-udf-set\n  rows: {csv: CSV}\n  match: {uid: '{uid}'}\n  set: {udf1: '({a})'}\n",
		writable(caseFleet()), Settings{})
	d.mustRun()
	if got, want := d.classes(), []string{`2 invalid: udf1: "({a})" comes to (clear), which would empty the field`}; !slices.Equal(got, want) {
		t.Errorf("planned %q, want %q", got, want)
	}
}

// Nothing in a request can be left alone, so a blank cell is a fault of the row there.
func TestPartsOfCalls(t *testing.T) {
	text := "  method: POST\n  path: '/v2/device/{a}/labels'\n  class: idempotent\n  rows: CSV\n  query: {q: '{q}'}\n  body: {label: '{b}', text: 'L-{c}', word: '(clear)'}\n"
	d := caller(t, file(t, "a,q,b,c\n1,(clear),(clear),x\n2,,x,x\n3,x,,x\n4,x,x,\n5,x,x,(clear)\n(clear),x,x,x\n7,x,[clear],x\n"), text)
	d.mustRun()
	want := []string{
		"2 change", "3 invalid: {q} is blank: for an empty text write (clear)", "4 invalid: {b} is blank: for an empty text write (clear)",
		`5 invalid: {c} is blank within "L-{c}"`, `6 invalid: {c} is "(clear)" within "L-{c}": the word empties a field only where it is the whole of it`,
		`7 invalid: {a} is "(clear)" within "/v2/device/{a}/labels": the word empties a field only where it is the whole of it`,
		`8 invalid: {b} is "[clear]": for an empty text write (clear), for something else remove the brackets`,
	}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := d.calls(), []string{`POST /v2/device/1/labels?q= {"label":"","text":"L-x","word":"(clear)"} idempotent`}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// A variable of a quick job is treated like a field, and its name must be whole.
func TestPartsOfJobVariables(t *testing.T) {
	update := "  operation: device-job-create\n  rows: CSV\n  match: {hostname: '{h}'}\n  set: {jobName: 'Restart {s}', componentUid: c1, variables: {Service: '{s}-{m}'}}\n"
	all := office()
	all["components"] = []string{`{"uid":"c1","name":"Restart a service","variables":[{"name":"Service"}]}`}
	d := updater(t, file(t, "h,s,m\nA,x,\nB,,y\nC,x,(clear)\n"), update, lists(all), Settings{})
	d.mustRun()
	want := []string{
		"2 change", "3 invalid: jobName comes from Restart {s}, which is blank",
		`4 invalid: variables.Service: {m} is "(clear)" within "{s}-{m}": the word empties a field only where it is the whole of it`,
	}
	if got := d.classes(); !slices.Equal(got, want) {
		t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := d.bodies(), []string{`d1 {"jobName":"Restart x","jobComponent":{"componentUid":"c1","variables":[]}}`}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}
