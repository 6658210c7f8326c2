package output

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Windows has no zone database of its own for time.LoadLocation
)

// Notations of dates, for [Style.Dates] and as a column's format. FormatDate
// is a column format only.
const (
	DatesRFC3339 = "rfc3339" // 2025-03-06T00:00:00Z, whole seconds; with an offset where a zone is set
	DatesExcel   = "excel"   // 2025-03-06 00:00:00 in the style's zone, which the header names
	DatesMS      = "ms"      // milliseconds since 1970, a number
	FormatDate   = "date"    // 2025-03-06, the day in the style's zone
)

// Numbers are told apart by size: seconds from 1973 to 5138 and milliseconds
// from 1973 to 5138 do not overlap. Anything smaller is no date, so that a
// stray number never turns into a day in 1970.
const (
	minSeconds = 1e8
	maxSeconds = 1e11
	maxMillis  = 1e14
)

// noDateBefore is just behind the year-1 date that .NET programs send for "no
// date", with room for any time zone.
var noDateBefore = time.Date(1, 1, 3, 0, 0, 0, 0, time.UTC)

// instant is a parsed date. A day has no zone: it is midnight UTC here and the
// same day everywhere.
type instant struct {
	t   time.Time
	day bool
}

// ParseDate reads a date in any form the API has been seen to use: epoch
// milliseconds or seconds, with or without decimals, as a number or as text of
// digits, and the ISO 8601 forms (UTC where no zone is given; a day alone is
// midnight UTC). Null, empty text, the number 0 and the year 1 mean "no date":
// ok is true and t is the zero time. ok is false for everything else; numbers
// too small or too large for a date in the years 1973 to 5138 are no dates.
func ParseDate(v any) (t time.Time, ok bool) {
	i, ok := parseDate(v)
	return i.t, ok
}

func parseDate(v any) (instant, bool) {
	var i instant
	var ok bool
	switch v := v.(type) {
	case nil:
		return instant{}, true
	case json.Number:
		i.t, ok = parseEpoch(v.String())
	case string:
		s := strings.TrimSpace(v)
		switch {
		case s == "":
			return instant{}, true
		case isNumber(s):
			i.t, ok = parseEpoch(s)
		default:
			i, ok = parseISO(s)
		}
	default:
		return instant{}, false
	}
	if !ok || i.t.Year() > 9999 {
		return instant{}, false
	}
	if i.t.Before(noDateBefore) || i.t.Unix() == 0 {
		return instant{}, true
	}
	return i, true
}

func parseEpoch(s string) (time.Time, bool) {
	s, negative := strings.CutPrefix(plainNumber(s), "-")
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	fraction = (fraction + "000000000")[:9]
	nanos, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if negative {
		n, nanos = -n, -nanos
	}
	switch size := max(n, -n); {
	case size == 0 && nanos == 0:
		return time.Time{}, true
	case size < minSeconds:
		return time.Time{}, false
	case size < maxSeconds:
		return time.Unix(n, nanos).UTC(), true
	case size < maxMillis:
		return time.UnixMilli(n).Add(time.Duration(nanos / 1000)).UTC(), true
	default:
		return time.Time{}, false
	}
}

var isoLayouts = []string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04",
}

func parseISO(s string) (instant, bool) {
	if len(s) < len(time.DateOnly) || s[4] != '-' {
		return instant{}, false
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return instant{t, true}, true
	}
	if i := strings.IndexByte(s, '['); i > 0 && strings.HasSuffix(s, "]") {
		s = s[:i] // Java adds the zone's name: 2025-03-06T00:00Z[UTC]
	}
	s = strings.ToUpper(s)
	if len(s) > len(time.DateOnly) && s[10] == ' ' {
		s = s[:10] + "T" + strings.Replace(s[11:], " ", "", 1)
	}
	for _, layout := range isoLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return instant{t.UTC(), false}, true
		}
	}
	return instant{}, false
}

// dateValue writes a date in one of the notations, "" meaning rfc3339. A value
// that is no date is given back as it is.
func dateValue(v any, notation string, zone *time.Location) Value {
	i, ok := parseDate(v)
	if !ok {
		return plain(v)
	}
	if i.t.IsZero() {
		return Value{}
	}
	t := i.t
	if zone != nil && !i.day {
		t = t.In(zone)
	}
	switch notation {
	case DatesExcel:
		return Value{KindDate, t.Format(time.DateTime)}
	case FormatDate:
		return Value{KindDate, t.Format(time.DateOnly)}
	case DatesMS:
		return Value{KindInt, strconv.FormatInt(t.UnixMilli(), 10)}
	default:
		return Value{KindDate, t.Format(time.RFC3339)}
	}
}
