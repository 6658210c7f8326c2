package rmmsim

import (
	"os"
	"strings"
	"testing"
)

// The page on the simulator names every setting and every key of a fault, and its example can be played.
func TestSimulatorPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(data), "\r\n", "\n")
	var names []string
	for name := range settings {
		if name != "key" && name != "secret" { // a served account tells its own
			names = append(names, name)
		}
	}
	for _, s := range faultSections {
		names = append(names, keysOf(s.of)...)
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+":") {
			t.Errorf("the page does not name %s", name)
		}
	}
	_, example, ok := strings.Cut(page, "```yaml\n")
	example, _, ok2 := strings.Cut(example, "```")
	if faults, err := ParseFaults([]byte(example), "simulator.md"); !ok || !ok2 || err != nil || len(faults) != 4 {
		t.Errorf("the example has %d faults: %v", len(faults), err)
	}
}
