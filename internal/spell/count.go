package spell

import "fmt"

// Count writes a number of things: "1 write", "2,000 writes". A plural that is not
// made with an s, or a verb that goes with the number, is given as a second text.
func Count[N int | int64](n N, thing string, plural ...string) string {
	switch {
	case n == 1:
	case len(plural) > 0:
		thing = plural[0]
	default:
		thing += "s"
	}
	return Number(n) + " " + thing
}

// Number writes a count with thousands apart.
func Number[N int | int64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
