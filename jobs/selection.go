package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Selection tells which rows an export is about, for people and as a short hash. What a job remembers from one run to the
// next belongs to it: a run over a part of the sites must not take the rest for removed, nor the rest's bookmark for its
// own. Columns, outputs and the pace are no part of it.
func (e *ExportSpec) Selection() (hash, text string) {
	parts := []string{"from " + e.From.Name}
	for _, name := range slices.Sorted(maps.Keys(e.Filter)) {
		parts = append(parts, fmt.Sprintf("%s=%s", name, strings.Join(e.Filter[name], ",")))
	}
	for _, words := range []struct {
		name string
		list []Word
	}{{"sites", e.Sites}, {"devices", e.Devices}} {
		if len(words.list) == 0 {
			continue
		}
		var texts []string
		for _, w := range words.list {
			texts = append(texts, w.Text)
		}
		slices.Sort(texts)
		parts = append(parts, words.name+" "+strings.Join(texts, ", "))
	}
	for _, path := range e.Given {
		for _, name := range slices.Sorted(maps.Keys(path)) {
			parts = append(parts, name+" "+path[name])
		}
	}
	if e.Where != nil {
		parts = append(parts, "where "+e.Where.Text)
	}
	if e.Explode.Path != "" {
		parts = append(parts, fmt.Sprintf("explode %s, empty %t", e.Explode.Path, e.Explode.KeepEmpty))
	}
	if e.Changes != nil {
		var key []string
		for _, c := range e.Changes.Key {
			key = append(key, c.Path)
		}
		parts = append(parts, "by "+strings.Join(key, ", "))
	}
	text = strings.Join(parts, "; ")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6]), text
}
