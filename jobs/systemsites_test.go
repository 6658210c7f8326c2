package jobs

import (
	"slices"
	"testing"
)

// Moves to a site that every account has are told of, others are not.
func TestMovesToSystemSites(t *testing.T) {
	const update = "  operation: device-move\n  rows: CSV\n  match: {mac: '{mac}'}\n  set: {siteName: '{to}'}\n"
	d := updater(t, file(t, "mac,to\n00-1A-2B-00-00-01,deleted devices\n"), update, harbour(), Settings{PlanOnly: true})
	d.mustRun()
	want := `warning: the plan moves 1 device to "Deleted Devices", a site of the system: the service keeps devices there that were deleted`
	if !slices.Contains(d.notes, want) {
		t.Errorf("notes %q, want %q", d.notes, want)
	}
	d = updater(t, file(t, "mac,to\n00-1A-2B-00-00-01,South\n"), update, harbour(), Settings{PlanOnly: true})
	if d.mustRun(); slices.Contains(d.notes, want) {
		t.Errorf("notes %q", d.notes)
	}
}

func TestWarrantyDay(t *testing.T) {
	for day, ok := range map[string]bool{
		"1990-01-01": true, "2100-12-31": true, "2027-02-28T00:00:00": true, "1989-12-31": false, "2101-01-01": false, "0001-01-01": false, "9999-12-31": false, "soon": false,
	} {
		if _, err := warrantyDay(day, ""); (err == nil) != ok {
			t.Errorf("%s: %v", day, err)
		}
	}
}
