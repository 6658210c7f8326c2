package jobs

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPackedCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.StringN(120, 300, -1))).Draw(t, "cells")
		if got := pack(cells).cells(nil); !slices.Equal(got, cells) {
			t.Fatalf("%q, want %q", got, cells)
		}
	})
}
