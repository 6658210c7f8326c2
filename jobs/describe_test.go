package jobs

import (
	"regexp"
	"strings"
	"testing"

	"rmmjob/internal/rmm"
)

// comment is a line of an example that is there to be taken in, and what is said about it.
var comment = regexp.MustCompile(`(?m)^( *)# (.*?)( +# .*)?$`)

// Every example can be loaded as it is, and with all that it leaves to the reader.
func TestExampleExport(t *testing.T) {
	examples := 0
	for _, op := range rmm.Operations() {
		if op.IsWrite() {
			continue
		}
		text := ExampleExport(op)
		whole := comment.ReplaceAllString(text, "$1$2")
		if strings.Count(whole, "\n") != strings.Count(text, "\n") || strings.Contains(whole, "#") {
			t.Fatalf("%s", whole)
		}
		for _, job := range []string{text, whole} {
			j, err := Parse([]byte(job), "j.yaml")
			if err != nil {
				t.Errorf("%s: %v\n%s", op.Name, err, job)
				continue
			}
			if j.Export.From.Name != op.Name || len(j.Export.Columns) == 0 {
				t.Errorf("%s: the example exports %s", op.Name, j.Export.From.Name)
			}
		}
		examples++
	}
	if examples != 39 {
		t.Errorf("%d examples", examples)
	}
}

func TestDescribeReading(t *testing.T) {
	for name, want := range map[string]string{
		"devices": " ", "site-variables": "sites sites uids", "device-audit": "devices sites devices uids", "device-by-id": "devices sites devices ids",
		"job-results": " jobs", "alert": " uids", "device-by-mac": " macs", "account": " ",
	} {
		op, _ := rmm.Lookup(name)
		r := DescribeReading(op)
		if got := r.Per + " " + strings.Join(r.Takes, " "); got != want {
			t.Errorf("%s is read for %q, want %q", name, got, want)
		}
		if (r.Needs != "") != (r.Per == "" && len(r.Takes) > 0) {
			t.Errorf("%s needs %q", name, r.Needs)
		}
	}
	op, _ := rmm.Lookup("device-by-mac")
	r := DescribeReading(op)
	if len(r.Details) != 4 || r.Details[0].Name != "audit" || len(r.Details[0].Operations) != 3 {
		t.Errorf("details %+v", r.Details)
	}
	// Every detail that columns know of can be read.
	for _, op := range rmm.Operations() {
		if op.IsWrite() {
			continue
		}
		for _, d := range DescribeReading(op).Details {
			for _, name := range d.Operations {
				if of, ok := rmm.Lookup(name); !ok || of.IsWrite() || len(of.PathParams()) != 1 {
					t.Errorf("%s: the detail %s is read by %q", op.Name, d.Name, name)
				}
			}
			if len(d.Operations) == 0 {
				t.Errorf("%s: nothing reads the detail %s", op.Name, d.Name)
			}
		}
	}
}
