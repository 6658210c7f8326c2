package jobs

import (
	"strings"
	"unicode"
)

// isBlank tells whether a character is one that people do not see: white space of any script, the zero-width characters,
// the byte order mark.
func isBlank(r rune) bool {
	switch r {
	case '\u180e', '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
		return true
	}
	return unicode.IsSpace(r)
}

// trimBlank removes blanks of every kind from both ends.
func trimBlank(s string) string { return strings.TrimFunc(s, isBlank) }
