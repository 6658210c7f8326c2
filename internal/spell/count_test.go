package spell

import "testing"

func TestCount(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Count(0, "write"), "0 writes"},
		{Count(1, "write"), "1 write"},
		{Count(int64(-1), "write"), "-1 writes"},
		{Count(999, "write"), "999 writes"},
		{Count(1000, "write"), "1,000 writes"},
		{Count(int64(-1234567), "write"), "-1,234,567 writes"},
		{Count(-100, "write"), "-100 writes"},
		{Count(1, "write was", "writes were"), "1 write was"},
		{Count(2, "write was", "writes were"), "2 writes were"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
