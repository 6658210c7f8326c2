package output

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDates(t *testing.T) {
	const march6 = "2025-03-06T00:00:00Z"
	for _, tt := range []struct {
		in   any
		want string // "" for an empty cell
		ok   bool
	}{
		{json.Number("1741219200000"), march6, true},
		{json.Number("1741219200"), march6, true},
		{json.Number("1741219200.0"), march6, true},
		{json.Number("1741219200000.75"), march6, true},
		{json.Number("1741219200.999"), march6, true},
		{json.Number("1.7412192E9"), march6, true},
		{json.Number("1.7412192E12"), march6, true},
		{"1741219200000", march6, true},
		{" 1741219200 ", march6, true},
		{"2025-03-06T00:00:00Z", march6, true},
		{"2025-03-06t00:00:00.123z", march6, true},
		{"2025-03-06T00:00:00.000+0000", march6, true},
		{"2025-03-06T01:00:00+01:00", march6, true},
		{"2025-03-06T01:00:00+01", march6, true},
		{"2025-03-06T01:00+0100", march6, true},
		{"2025-03-06T00:00:00", march6, true},
		{"2025-03-06T00:00", march6, true},
		{"2025-03-06 00:00:00", march6, true},
		{"2025-03-06 01:00:00 +0100", march6, true},
		{"2025-03-06T00:00Z[UTC]", march6, true},
		{"2025-03-06", march6, true},
		{json.Number("915148800"), "1999-01-01T00:00:00Z", true},
		{json.Number("915148800000"), "1999-01-01T00:00:00Z", true},
		{json.Number("99999999999"), "5138-11-16T09:46:39Z", true},
		{json.Number("100000000000"), "1973-03-03T09:46:40Z", true},
		{json.Number("-915148800000"), "1941-01-01T00:00:00Z", true},
		// No date at all.
		{nil, "", true},
		{"", "", true},
		{"  ", "", true},
		{json.Number("0"), "", true},
		{json.Number("0.0"), "", true},
		{"0", "", true},
		{json.Number("-62135596800000"), "", true},
		{json.Number("-62135596800"), "", true},
		{json.Number("-62135553600000"), "", true},
		{"0001-01-01T00:00:00Z", "", true},
		{"0001-01-01", "", true},
		{"1970-01-01T00:00:00Z", "", true},
		// Not dates: given back as they are.
		{json.Number("12345"), "12345", false},
		{json.Number("-1"), "-1", false},
		{json.Number("1e30"), "1000000000000000000000000000000", false},
		{json.Number("100000000000000"), "100000000000000", false},
		{json.Number("9223372036854775808"), "9223372036854775808", false},
		{"20250306", "20250306", false},
		{"9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59-10:00", false},
		{"yesterday", "yesterday", false},
		{"2025-13-01", "2025-13-01", false},
		{"2025-03-06Tnoon", "2025-03-06Tnoon", false},
		{"06/03/2025", "06/03/2025", false},
		{true, "true", false},
		{map[string]any{"a": "b"}, `{"a":"b"}`, false},
	} {
		got := dateValue(tt.in, "", nil)
		if got.Text != tt.want {
			t.Errorf("date of %v = %q, want %q", tt.in, got.Text, tt.want)
		}
		at, ok := ParseDate(tt.in)
		if ok != tt.ok {
			t.Errorf("ParseDate(%v): ok = %v", tt.in, ok)
		}
		if isDate := tt.ok && tt.want != ""; at.IsZero() == isDate || (got.Kind == KindDate) != isDate {
			t.Errorf("ParseDate(%v) = %v, cell %v", tt.in, at, got.Kind)
		}
	}
}

func TestDateNotations(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	london, york := zone("Europe/London"), zone("America/New_York")
	july := json.Number("1751328000123") // 2025-07-01T00:00:00.123Z
	for _, tt := range []struct {
		in       any
		notation string
		zone     *time.Location
		want     Value
	}{
		{july, DatesRFC3339, nil, Value{KindDate, "2025-07-01T00:00:00Z"}},
		{july, DatesRFC3339, london, Value{KindDate, "2025-07-01T01:00:00+01:00"}},
		{july, DatesExcel, nil, Value{KindDate, "2025-07-01 00:00:00"}},
		{july, DatesExcel, york, Value{KindDate, "2025-06-30 20:00:00"}},
		{july, FormatDate, nil, Value{KindDate, "2025-07-01"}},
		{july, FormatDate, york, Value{KindDate, "2025-06-30"}},
		{july, DatesMS, york, Value{KindInt, "1751328000123"}},
		{json.Number("1751328000.1239"), DatesMS, nil, Value{KindInt, "1751328000123"}},
		// A day is the same day everywhere.
		{"2027-03-31", DatesExcel, york, Value{KindDate, "2027-03-31 00:00:00"}},
		{"2027-03-31", FormatDate, york, Value{KindDate, "2027-03-31"}},
		{"2027-03-31", DatesRFC3339, york, Value{KindDate, "2027-03-31T00:00:00Z"}},
	} {
		if got := dateValue(tt.in, tt.notation, tt.zone); got != tt.want {
			t.Errorf("%v as %s in %v = %v, want %v", tt.in, tt.notation, tt.zone, got, tt.want)
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, s := range []string{"1741219200000", "1741219200.44", "1.7412192E12", "-62135596800000", "2025-03-06T00:00:00Z", "2025-03-06 01:00:00 +0100", "2025-03-06", "0", "x", "9223372036854775807", "-9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		values := []any{s}
		if isNumber(s) {
			values = append(values, json.Number(s))
		}
		for _, v := range values {
			at, ok := ParseDate(v)
			cell := dateValue(v, "", nil)
			if !ok {
				if !at.IsZero() || cell != plain(v) {
					t.Fatalf("%q is no date but gave %v and %v", v, at, cell)
				}
				continue
			}
			if at.IsZero() {
				if cell != (Value{}) {
					t.Fatalf("%q says no date but the cell is %v", v, cell)
				}
				continue
			}
			if isNumber(s) && at.Year() == 1970 {
				t.Fatalf("the number %q became %v", v, at)
			}
			// What is written is read again as the same second.
			again, ok := ParseDate(cell.Text)
			if !ok || again.Unix() != at.Unix() {
				t.Fatalf("%q was written as %q, which reads as %v", v, cell.Text, again)
			}
			ms, ok := ParseDate(dateValue(v, DatesMS, nil).Text)
			if ok && ms.Unix() != at.Unix() && (at.Year() < 1967 || at.Year() > 1973) {
				t.Fatalf("%q in milliseconds reads as %v, not %v", v, ms, at)
			}
		}
	})
}
