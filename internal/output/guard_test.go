package output

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCase_O11_FormulaGuard(t *testing.T) {
	for in, guarded := range map[string]bool{
		"=cmd|'/c calc'!A1": true, "@SUM(1)": true, "\t=1+1": true, "-2+3": true, "+1-1": true, "\r=1": true, "\n=1": true,
		"＝1+1": true, "-A1": true, "+cmd|' /c calc'!A0": true, "+44-20-7946": true, "-(1+2)": true, "--1": true, "'=1+1": true, "''@x": true,
		"-5": false, "+5": false, "-5.25": false, "-1,234.5": false, "+1e5": false, "-1.5E-3": false, "-5%": false, "-.5": false,
		"+44 20 7946 0000": false, "+44 (0)20 7946": false, "+1.555.0100": false, "-": false, "+": false,
		"": false, "plain": false, "a=b": false, "1+1": false, " =1": false, "'quoted'": false, "'": false, "00042": false,
	} {
		want := in
		if guarded {
			want = "'" + in
		}
		if got := (Column{Path: "v"}).Cell(Record{"v": in}, Style{Formulas: "guard"}).Text; got != want {
			t.Errorf("guard of %q = %q, want %q", in, got, want)
		}
		for _, mode := range []string{"", "keep"} {
			if got := (Column{Path: "v"}).Cell(Record{"v": in}, Style{Formulas: mode}).Text; got != in {
				t.Errorf("formulas %q changed %q to %q", mode, in, got)
			}
		}
		if got := unguard(Guard(in)); got != in {
			t.Errorf("unguard(Guard(%q)) = %q", in, got)
		}
	}
	rec := parse(t, `{"n":-5,"f":-1.5E-3,"b":true,"l":["=1"]}`)
	for path, want := range map[string]string{"n": "-5", "f": "-0.0015", "b": "true", "l": `["=1"]`} {
		if got := (Column{Path: path}).Cell(rec, Style{Formulas: "guard"}).Text; got != want {
			t.Errorf("guard of the %s = %q, want %q", path, got, want)
		}
	}
	if got := (Column{Path: "l", Format: "join"}).Cell(rec, Style{Formulas: "guard"}).Text; got != "'=1" {
		t.Errorf("guard of a joined list = %q", got)
	}
}

// unguard undoes Guard: if it always can, no two texts are written alike.
func unguard(text string) string {
	if rest, ok := strings.CutPrefix(text, "'"); ok && evaluated(strings.TrimLeft(rest, "'")) {
		return rest
	}
	return text
}

func TestGuardIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`'{0,3}[=+\-@\t]?[0-9A(). ]{0,4}`)).Draw(t, "text")
		guarded := Guard(text)
		if unguard(guarded) != text {
			t.Fatalf("unguard(Guard(%q)) = %q", text, unguard(guarded))
		}
		if evaluated(guarded) || guarded != text && !strings.HasPrefix(guarded, "'") {
			t.Fatalf("Guard(%q) = %q", text, guarded)
		}
	})
}
