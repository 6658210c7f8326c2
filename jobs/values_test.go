package jobs

import "testing"

func TestClearWordNearMisses(t *testing.T) {
	for _, value := range []string{"(CLEAR)", " (clear) ", "( clear )", "[clear]", "(clear", "{Clear}", "(cleared)", "（clear）"} {
		if !nearlyClears(value) {
			t.Errorf("%q is written", value)
		}
	}
	for _, value := range []string{ClearWord, "", "clear", "Clear", "(clear) it", "all (clear)", "()", "nuclear"} {
		if nearlyClears(value) {
			t.Errorf("%q is refused", value)
		}
	}
}

// A cell of nothing but blanks is an empty one.
func TestBlankCells(t *testing.T) {
	devices := caseFleet()
	devices[0].udf = map[string]any{"udf7": "old"}
	for empty, want := range map[string]string{"keep": "2 unchanged", "clear": "2 clear"} {
		for _, blank := range []string{" ", "\u00a0 ", "\t"} {
			d := updater(t, file(t, "uid,udf7\n"+deviceA+",\""+blank+"\"\n"), udfs("uid", "udf7")+"  empty: "+empty+"\n", writable(devices), Settings{PlanOnly: true})
			d.mustRun()
			if got := d.classes(); len(got) != 1 || got[0] != want {
				t.Errorf("empty: %s, %q: planned %q, want %q", empty, blank, got, want)
			}
		}
	}
}

func TestParseDay(t *testing.T) {
	for _, c := range []struct{ text, format, want string }{
		{"2/1/2028", "mm/dd/yyyy", "2028-02-01"},
		{"02/01/2028", "m/d/yyyy", "2028-02-01"},
		{"1.2.2028", "dd.mm.yyyy", "2028-02-01"},
		{"01.02.2028 00:00:00", "dd.mm.yyyy", "2028-02-01"},
		{"2/1/2028 0:00", "mm/dd/yyyy", "2028-02-01"},
		{"2/1/2028 12:00:00 AM", "mm/dd/yyyy", "2028-02-01"},
		{"2028-02-01T00:00:00Z", "", "2028-02-01"},
		{"2028-02-01 00:00:00.000", "", "2028-02-01"},
		{"20280201", "yyyymmdd", "2028-02-01"},
		{"01.02.2028 08:30:00", "dd.mm.yyyy", ""},
		{"2028-02-01T00:00:01", "", ""},
		{"13/1/2028", "mm/dd/yyyy", ""},
		{"1.2.28", "dd.mm.yyyy", ""},
		{"2028021", "yyyymmdd", ""},
	} {
		if got, err := parseDay(c.text, c.format); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q as %s: %q, %v", c.text, c.format, got, err)
		}
	}
}

func TestConceals(t *testing.T) {
	for _, c := range []struct {
		op, field    string
		masked, want bool
	}{
		{"site-proxy-create", "password", false, true},
		{"site-proxy-create", "host", false, false},
		{"site-variable-set", "value", true, true},
		{"site-variable-set", "value", false, false},
		{"site-variable-set", "name", true, false},
		{"account-variable-update", "value", true, true},
		{"device-udf-set", "udf1", true, false},
	} {
		if got := operationOf(c.op).conceals(c.field, c.masked); got != c.want {
			t.Errorf("%s of %s, masked %v: %v", c.field, c.op, c.masked, got)
		}
	}
}
