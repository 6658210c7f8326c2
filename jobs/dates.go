package jobs

import (
	"fmt"
	"regexp"
	"strings"
)

// DateLayout turns a date_format such as dd.mm.yyyy into the layout that time.Parse takes. The parts are yyyy, mm or m,
// dd or d, each once; between them stand signs or nothing. Where signs end it, a part may have its leading zero or not,
// however it is written: spreadsheets leave it out as they like. Two-digit years are refused: they would be a guess. The empty
// format is the API's own, yyyy-mm-dd.
func DateLayout(format string) (string, error) {
	if format == "" {
		format = "yyyy-mm-dd"
	}
	var b strings.Builder
	used := make(map[byte]bool)
	open := false  // the part before takes one digit or two
	after := false // a part stands directly before
	for rest := strings.ToLower(format); rest != ""; {
		c := rest[0]
		run := len(rest) - len(strings.TrimLeft(rest, string(rune(c))))
		part := rest[:run]
		rest = rest[run:]
		layout := map[string]string{"yyyy": "2006", "mm": "01", "m": "1", "dd": "02", "d": "2"}[part]
		switch {
		case strings.IndexByte("ymd", c) >= 0 && (layout == "" || used[c]),
			strings.IndexByte("ymd", c) < 0 && strings.IndexByte("./- ", c) < 0:
			return "", fmt.Errorf("%q is not made of one yyyy, one mm and one dd", clip(format, 40))
		case layout != "":
			if after && (open || run == 1) {
				return "", fmt.Errorf("%q does not tell where a part ends: write mm and dd, or put a sign between", clip(format, 40))
			}
			used[c], after, open = true, true, run == 1
			b.WriteString(layout)
		default:
			after = false
			b.WriteString(part)
		}
	}
	if len(used) != 3 {
		return "", fmt.Errorf("%q is not made of one yyyy, one mm and one dd", clip(format, 40))
	}
	return wholePart.ReplaceAllString(b.String(), "$1"), nil
}

// wholePart is a part of a layout with signs around it.
var wholePart = regexp.MustCompile(`\b0([12])\b`)
