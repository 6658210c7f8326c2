package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A virus scanner or a preview has the file open for a moment, Excel for as long as it likes.
func TestCheckOfAHeldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices.csv")
	put(t, path, "uid\r\n")
	holder, err := os.Open(path) // lets others read and write, but not replace
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err == nil || !strings.Contains(err.Error(), "close it there") {
		t.Errorf("held for good: %v", err)
	}
	time.AfterFunc(checkFor/4, func() { holder.Close() })
	if err := Check(path); err != nil {
		t.Errorf("held for a moment: %v", err)
	}
}
