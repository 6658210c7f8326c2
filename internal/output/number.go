package output

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// maxShift bounds the zeros that writing a number without its exponent may
// add; beyond it the number stays as the API wrote it.
const maxShift = 40

// isNumber reports whether s is a number in JSON's notation.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	digits := func() int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	n := digits()
	if n == 0 || n > 1 && s[0] == '0' {
		return false
	}
	s = s[n:]
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		if n = digits(); n == 0 {
			return false
		}
		s = s[n:]
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if n = digits(); n == 0 {
			return false
		}
		s = s[n:]
	}
	return s == ""
}

// plainNumber rewrites a JSON number without exponent, exactly: 1.72113126044E9
// (how Java writes a double) becomes 1721131260.44. A number without exponent
// is returned unchanged.
func plainNumber(s string) string {
	mantissa, exponent, found := strings.Cut(strings.ToLower(s), "e")
	if !found {
		return s
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil || shift > maxShift || shift < -maxShift {
		return s
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, point := whole+fraction, len(whole)+shift
	if point <= 0 {
		digits, point = strings.Repeat("0", 1-point)+digits, 1
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, fraction = strings.TrimLeft(digits[:point], "0"), strings.TrimRight(digits[point:], "0")
	if whole == "" {
		whole = "0"
	}
	out := whole
	if fraction != "" {
		out += "." + fraction
	}
	if negative && out != "0" {
		out = "-" + out
	}
	return out
}

// appendNumberKey appends bytes that sort like the number itself, for numbers
// of any length. ok is false if s cannot be written without an exponent.
func appendNumberKey(key []byte, s string) (_ []byte, ok bool) {
	s = plainNumber(s)
	if strings.ContainsAny(s, "eE") {
		return key, false
	}
	s, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(s, ".")
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" && fraction == "" {
		return append(key, 1), true
	}
	start := len(key)
	key = append(key, 2)
	key = binary.BigEndian.AppendUint32(key, uint32(len(whole)))
	key = append(key, whole...)
	key = append(key, fraction...)
	key = append(key, 0)
	if negative {
		key[start] = 0
		for i := start + 1; i < len(key); i++ {
			key[i] = ^key[i]
		}
	}
	return key, true
}
