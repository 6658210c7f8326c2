package output

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Units lists the units of the format bytes, the small ones first: those that
// count in thousands, and those that count in 1024.
func Units() []string {
	return []string{"B", "kB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB", "PiB"}
}

// unitSize is the number of bytes of one unit; 0 for an unknown one.
func unitSize(unit string) float64 {
	prefix, binary := strings.CutSuffix(unit, "iB")
	if binary {
		return math.Pow(1024, float64(strings.Index("KMGTP", prefix)+1))
	}
	prefix, ok := strings.CutSuffix(unit, "B")
	if !ok {
		return 0
	}
	if prefix == "" {
		return 1
	}
	return math.Pow(1000, float64(strings.Index("kMGTP", prefix)+1))
}

// bytes writes a number of bytes: in the column's unit as a number that can be
// calculated with, otherwise as text with the unit that fits (15.9 GiB). What is
// no number stays as it is; of a list each element is written.
func (c Column) bytes(v any) Value {
	var text string
	switch v := v.(type) {
	case []any:
		parts := make([]string, 0, len(v))
		for _, element := range v {
			if part := c.bytes(element).Text; part != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) == 0 {
			return Value{}
		}
		separator := c.Separator
		if separator == "" {
			separator = Separator
		}
		return Value{KindText, strings.Join(parts, separator)}
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	n, err := strconv.ParseFloat(text, 64)
	if !isNumber(text) || err != nil {
		return plain(v)
	}
	if size := unitSize(c.Unit); size > 0 {
		return numberValue(decimals(n / size))
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for ; math.Abs(n) >= 1024 && at < len(units)-1; at++ {
		n /= 1024
	}
	return Value{KindText, decimals(n) + " " + units[at]}
}

// decimals writes a number with at most two decimals.
func decimals(n float64) string {
	text := strings.TrimRight(strconv.FormatFloat(n, 'f', 2, 64), "0")
	if text = strings.TrimSuffix(text, "."); text == "-0" {
		return "0"
	}
	return text
}
