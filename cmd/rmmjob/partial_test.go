package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"rmmjob/internal/output"
)

// manifestOf reads a manifest.
func (b *bench) manifestOf(name string) output.Manifest {
	b.t.Helper()
	var m output.Manifest
	if err := json.Unmarshal(b.read(name), &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// siteOf is the site of a device.
func (b *bench) siteOf(device string) string {
	b.t.Helper()
	object, ok := b.account.Device(device)
	var d struct{ SiteUID string }
	if err := json.Unmarshal(object, &d); err != nil || !ok || d.SiteUID == "" {
		b.t.Fatalf("no site of %s: %v", device, err)
	}
	return d.SiteUID
}

// With --allow-partial an export goes on without the sites, lists and details that cannot be
// read, and the manifest names all of them.
func TestAllowPartialReadsAllThatItCan(t *testing.T) {
	t.Parallel()
	const (
		page   = "  do: {body: '{\"nothing\":1}'}\n"
		detail = "- match: {operation: device-audit, uid: DEVICE}\n  do: {status: 403, body: '{\"errorMessage\":\"no right\"}'}\n"
	)
	for _, tt := range []struct {
		name, from, fault string
		gaps              []string
	}{
		{"a page of the parents", "site-devices", "- match: {operation: sites, query: {page: '1'}}\n" + page, []string{"sites is incomplete: page 2"}},
		{"the list of a parent", "site-devices", "- match: {operation: site-devices, uid: SITE}\n" + page, []string{"site-devices of ", "(SITE) is incomplete: it could not be read"}},
		{"a detail", "devices\n  with: [audit]", detail, []string{"device-audit of ", "(DEVICE) is incomplete: it could not be read: 403"}},
		{"a page and a detail", "devices\n  with: [audit]", "- match: {operation: devices, query: {page: '1'}}\n" + page + detail, []string{"devices is incomplete: page 2", "and so is 1 more", "audit of DEVICE: 403"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "devices=30,udfs=30,page-max=2,"+fast)
			job := b.write("job.yaml", "version: 1\nexport:\n  from: "+tt.from+"\n  columns: [uid]\n  to: out.csv\n")
			b.finish(exitOK, "state", "run", job)
			whole := rowsOf(t, b.read("out.csv"))
			first := b.account.DeviceUIDs()[0] // of page 0
			uids := strings.NewReplacer("DEVICE", first, "SITE", b.siteOf(first))
			b.fault(uids.Replace(tt.fault))
			res := b.finish(exitIncomplete, "state", "run", job, "--allow-partial")
			if res["state"] != "incomplete" || res["next_command"] != nil {
				t.Errorf("%v", res)
			}
			if n := rowsOf(t, b.read("out.csv")); n != whole {
				t.Errorf("the complete file has %d rows now", n)
			}
			n := rowsOf(t, b.read("out.partial.csv"))
			if isDetail := strings.Contains(tt.from, "with"); n == 0 || !isDetail && n >= whole || n > whole {
				t.Errorf("%d of %d rows came", n, whole)
			}
			m := b.manifestOf("out.partial.csv.manifest.json")
			if m.Complete || len(m.Files) != 1 || m.Files[0].Rows != int64(n) || m.Files[0].Path != "out.partial.csv" {
				t.Errorf("manifest %+v", m)
			}
			for _, gap := range tt.gaps {
				if !strings.Contains(strings.Join(m.Gaps, "\n"), uids.Replace(gap)) {
					t.Errorf("the gaps do not name %q: %q", gap, m.Gaps)
				}
			}
			if left, err := filepath.Glob(filepath.Join(b.dir, ".*.tmp")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q %v", left, err)
			}
		})
	}
}

func TestAllowPartialIsForExports(t *testing.T) {
	t.Parallel()
	b := newBench(t, "devices=2,udfs=30,"+fast)
	res := b.finish(exitUsage, "state", "run", b.tagJob("tags"), "--allow-partial")
	if text, _ := res["error"].(string); !strings.Contains(text, "--allow-partial is for exports") || len(b.writesTo()) != 0 {
		t.Errorf("%v", res)
	}
}
