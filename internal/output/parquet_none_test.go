//go:build !parquet

package output

import (
	"io"
	"strings"
	"testing"
)

// TestParquetNeedsAnotherBuild has the error say how to get it.
func TestParquetNeedsAnotherBuild(t *testing.T) {
	f, ok := FileFormatNamed(FileParquet)
	if !ok || !strings.Contains(f.Unavailable, "go build -tags parquet ./cmd/rmmjob") {
		t.Errorf("unavailable: %q", f.Unavailable)
	}
	w, err := New(FileParquet, io.Discard, Spec{Columns: awkwardColumns})
	if w != nil || err == nil || !strings.Contains(err.Error(), f.Unavailable) {
		t.Errorf("New = %v, %v", w, err)
	}
}
