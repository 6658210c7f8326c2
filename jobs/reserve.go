package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Reserve is the share of every limit of the account that is left to others, by the time of
// day. Nil leaves nothing.
type Reserve []ReserveSpan

// ReserveSpan is a share for a part of the day, in minutes after midnight, local time. It
// ends before To; a To that is not after From lies on the next day.
type ReserveSpan struct {
	From, To int
	Share    float64 // from 0 to MaxReserve
}

// MaxReserve is the largest share that can be left to others: with less than a twentieth of
// a limit no job comes to an end.
const MaxReserve = 0.95

const day = 24 * 60

// clockTimes is a part of the day such as 08:00-18:00; 24:00 is the end of a day.
var clockTimes = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])\s*-\s*(?:([01][0-9]|2[0-3]):([0-5][0-9])|(24):(00))$`)

// ParseReserve reads a share for the whole day, "40%", or shares by time of day,
// "08:00-18:00 40%, 18:00-22:00 10%": local time, over midnight where the end comes first.
// Parts that overlap are refused; between the parts nothing is reserved.
func ParseReserve(text string) (Reserve, error) {
	text = strings.TrimSpace(text)
	if text == "off" {
		return nil, nil
	}
	if !strings.Contains(text, ":") {
		share, err := parseShare(text)
		if err != nil {
			return nil, err
		}
		return Reserve{{0, day, share}}, nil
	}
	var r Reserve
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		i := strings.LastIndexAny(part, " \t=")
		if i < 0 {
			return nil, fmt.Errorf("%q lacks a share: write 08:00-18:00 40%%", part)
		}
		span, err := parseSpan(strings.TrimSpace(part[:i]), part[i+1:])
		if err != nil {
			return nil, err
		}
		r = append(r, span)
	}
	return r, r.overlap()
}

func parseSpan(times, share string) (ReserveSpan, error) {
	m := clockTimes.FindStringSubmatch(times)
	if m == nil {
		return ReserveSpan{}, fmt.Errorf("%q is no part of the day such as 08:00-18:00", times)
	}
	span := ReserveSpan{From: minutes(m[1], m[2]), To: minutes(m[3]+m[5], m[4]+m[6])}
	if span.From == span.To {
		return ReserveSpan{}, fmt.Errorf("%q is empty: for the whole day write the share alone, or 00:00-24:00", times)
	}
	var err error
	span.Share, err = parseShare(share)
	return span, err
}

// minutes turns two pairs of digits into minutes after midnight.
func minutes(h, m string) int {
	hours, _ := strconv.Atoi(h) //nolint:errcheck // digits, by clockTimes
	mins, _ := strconv.Atoi(m)  //nolint:errcheck // digits, by clockTimes
	return 60*hours + mins
}

func parseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !percent || err != nil || !decimal.MatchString(strings.TrimSpace(digits)) || v > 100*MaxReserve {
		return 0, fmt.Errorf("%q is no share from 0%% to %.0f%%", text, 100*MaxReserve)
	}
	return v / 100, nil
}

// pieces are the parts of one day that a span covers: two where it goes over midnight.
func (s ReserveSpan) pieces() [][2]int {
	if s.To > s.From {
		return [][2]int{{s.From, s.To}}
	}
	return [][2]int{{s.From, day}, {0, s.To}}
}

func (r Reserve) overlap() error {
	for i, a := range r {
		for _, b := range r[:i] {
			for _, x := range a.pieces() {
				for _, y := range b.pieces() {
					if x[0] < y[1] && y[0] < x[1] {
						return fmt.Errorf("%s and %s overlap", b.times(), a.times())
					}
				}
			}
		}
	}
	return nil
}

// At returns the share at a moment, by its own time zone.
func (r Reserve) At(t time.Time) float64 {
	now := 60*t.Hour() + t.Minute()
	for _, s := range r {
		for _, p := range s.pieces() {
			if now >= p[0] && now < p[1] {
				return s.Share
			}
		}
	}
	return 0
}

func (s ReserveSpan) times() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", s.From/60, s.From%60, s.To/60, s.To%60)
}

// String is the form that ParseReserve reads.
func (r Reserve) String() string {
	if len(r) == 0 {
		return "off"
	}
	share := func(s ReserveSpan) string { return strconv.FormatFloat(100*s.Share, 'f', -1, 64) + "%" }
	if len(r) == 1 && r[0].From == 0 && r[0].To == day {
		return share(r[0])
	}
	parts := make([]string, len(r))
	for i, s := range r {
		parts[i] = s.times() + " " + share(s)
	}
	return strings.Join(parts, ", ")
}

// ReserveOf reads what a file says about a reserve: a text for ParseReserve or a mapping of
// parts of the day to shares. Its error is that of the node which it returns.
func ReserveOf(n *yaml.Node) (Reserve, *yaml.Node, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		r, err := ParseReserve(n.Value)
		return r, n, err
	case yaml.MappingNode:
	default:
		return nil, n, errors.New("a share such as 40%, or a mapping such as {'08:00-18:00': 40%}, is needed")
	}
	var r Reserve
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, value, errors.New("a share such as 40% is needed")
		}
		span, err := parseSpan(strings.TrimSpace(key.Value), value.Value)
		if err != nil {
			at := key
			if clockTimes.MatchString(strings.TrimSpace(key.Value)) && span.From != span.To {
				at = value
			}
			return nil, at, err
		}
		r = append(r, span)
		if err := r.overlap(); err != nil {
			return nil, key, err
		}
	}
	if len(r) == 0 {
		return nil, n, errors.New("a share such as 40% is needed; for none leave it out")
	}
	return r, n, nil
}

// Rate is a number of requests in a stretch of time. The zero value is no bound.
type Rate struct {
	Requests int
	Per      time.Duration
}

// The bounds of a rate.
const (
	maxRateRequests = 1_000_000
	maxRatePer      = 24 * time.Hour
)

// ParseRate reads a rate such as 300/60s, 2/1s or 5000/1h; off is none.
func ParseRate(text string) (Rate, error) {
	text = strings.TrimSpace(text)
	if text == "off" {
		return Rate{}, nil
	}
	n, per, ok := strings.Cut(text, "/")
	units := []string{"s", "m", "h"}
	if slices.Contains(units, per) {
		per = "1" + per // 10/s
	}
	requests, err := strconv.Atoi(n)
	d, derr := time.ParseDuration(per)
	switch {
	case !ok || err != nil || derr != nil:
		return Rate{}, fmt.Errorf("%q is no rate such as 300/60s", text)
	case requests < 1 || requests > maxRateRequests || d < time.Second || d > maxRatePer:
		return Rate{}, fmt.Errorf("%q is out of bounds: 1 to %d requests in 1s to 24h", text, maxRateRequests)
	}
	return Rate{requests, d}, nil
}

// String is the form that ParseRate reads.
func (r Rate) String() string {
	if r.Requests == 0 {
		return "off"
	}
	if r.Per >= time.Hour || r.Per%time.Second != 0 {
		return fmt.Sprintf("%d/%s", r.Requests, r.Per)
	}
	return fmt.Sprintf("%d/%ds", r.Requests, int(r.Per/time.Second))
}
