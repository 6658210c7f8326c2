package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"rmmjob/internal/spell"
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

// clip shortens a text for a message.
func clip(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}

// invalidRune stands for a byte that is not UTF-8, to tell it from a U+FFFD that is written in the file.
const invalidRune rune = -1

// decodeRune is utf8.DecodeRune with invalidRune for a bad byte.
func decodeRune(p []byte) (rune, int) {
	r, size := utf8.DecodeRune(p)
	if r == utf8.RuneError && size == 1 {
		return invalidRune, 1
	}
	return r, size
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// suggestion is the hint for a misspelt word: the nearest of those known, or all of them if they are few.
func suggestion(word string, known []string) string {
	if near := spell.Nearest(word, known); near != "" {
		return "did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) > 0 && len(known) <= 20 {
		return "known here: " + strings.Join(known, ", ")
	}
	return ""
}

// looksSecret tells keys that people would give a credential.
func looksSecret(key string) bool {
	k := spell.Fold(key)
	for _, s := range []string{"secret", "password", "token", "apikey", "accesskey"} {
		if strings.Contains(k, s) {
			return true
		}
	}
	return k == "key"
}

// resolvePath makes a path absolute that is written relative to a folder.
func resolvePath(dir, path string) (string, error) {
	path = filepath.FromSlash(path)
	volume := filepath.VolumeName(path)
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case volume != "": // C:file means the current folder of drive C:, which a scheduled task does not choose
		return "", fmt.Errorf("%q depends on the current folder of drive %s: write %s%c…", path, volume, volume, filepath.Separator)
	case os.IsPathSeparator(path[0]):
		return filepath.Clean(filepath.VolumeName(dir) + path), nil
	}
	return filepath.Join(dir, path), nil
}
