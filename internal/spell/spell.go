// Package spell gets words right. It finds what somebody probably meant who misspelt
// a word of a small vocabulary: a verb, a key, a column, and is the one place that
// says how near is near enough for a "did you mean". And it writes numbers of things.
package spell

import "strings"

// longest is the length beyond which a word is no misspelling but something
// else, in bytes.
const longest = 64

var folding = strings.NewReplacer("_", "", "-", "", " ", "")

// Fold returns a word without what people vary in its spelling: case, blanks,
// underscores and hyphens.
func Fold(word string) string { return strings.ToLower(folding.Replace(word)) }

// Nearest returns the known word that differs least from word, the first of
// several; "" when all differ in more than a third of their letters. Case,
// blanks, underscores and hyphens do not count.
func Nearest(word string, known []string) string {
	if len(word) > longest {
		return ""
	}
	folded := Fold(word)
	best, least := "", longest
	for _, k := range known {
		other := Fold(k)
		if n := Distance(folded, other); n < least && n <= max(len(folded), len(other))/3 {
			best, least = k, n
		}
	}
	return best
}

// Distance is the number of letters to insert, delete, replace or swap with
// their neighbour that turn a into b. Letters are bytes: the vocabularies are
// ASCII.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
