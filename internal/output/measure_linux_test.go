package output

import (
	"fmt"
	"os"
	"strings"
)

// peak is the most memory this process has taken so far, in bytes. What
// getrusage says includes the parent before the program was started.
func peak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}
