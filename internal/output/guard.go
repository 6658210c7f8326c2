package output

import (
	"strings"
	"unicode/utf8"
)

// Guard makes text inert that a spreadsheet would evaluate, by an apostrophe in
// front: text that begins with = + - @, one of their full-width forms, a tab
// or a line break. Numbers with a sign and phone numbers (+44 20 7946 0000)
// stay as they are: nothing made of digits, blanks, points, commas and
// parentheses computes anything. Text that already looks guarded gets one more,
// so that no two texts are written alike.
func Guard(text string) string {
	if evaluated(strings.TrimLeft(text, "'")) {
		return "'" + text
	}
	return text
}

func evaluated(text string) bool {
	first, size := utf8.DecodeRuneInString(text)
	switch first {
	case '=', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠':
		return true
	case '+', '-':
		return !harmlessSigned(text[size:])
	}
	return false
}

// harmlessSigned reports whether what follows a sign is a plain number, with an
// exponent or a per cent sign perhaps, or a phone number.
func harmlessSigned(s string) bool {
	if s == "" {
		return true // a lone sign is no formula
	}
	if s[0] != '.' && s[0] != ',' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return isNumber(strings.TrimSuffix(s, "%")) || strings.Trim(s, "0123456789 .,()\u00a0\u202f") == ""
}
