package jobs

import (
	"fmt"
	"iter"
)

// siteIndex finds sites by what a row says of them.
type siteIndex struct {
	name  map[string]string   // by uid
	byKey map[string][]string // uids by field and normalised value
}

// indexSites reads the list of sites. There are thousands at most.
func indexSites(list iter.Seq2[Element, error]) (*siteIndex, error) {
	s := &siteIndex{name: map[string]string{}, byKey: map[string][]string{}}
	for el, err := range list {
		if err != nil {
			return nil, err
		}
		uid := keyOf("uid", el.JSON)
		if uid == "" {
			continue
		}
		s.name[uid] = keyOf("name", el.JSON)
		for _, field := range subjects[aSite].match {
			if v := normalise(keyOf(field, el.JSON)); v != "" {
				key := joinKey([]string{field, v})
				s.byKey[key] = append(s.byKey[key], uid)
			}
		}
	}
	return s, nil
}

// all returns the uids of the sites that a field of a row names: siteUid, siteId
// and siteName, or the same without the first word.
func (s *siteIndex) all(field, value string) []string {
	return s.byKey[joinKey([]string{siteField(field), normalise(value)})]
}

// find returns the one site that a field of a row names, or why there is none.
func (s *siteIndex) find(field, value string) (uid, fault string) {
	switch found := s.all(field, value); len(found) {
	case 0:
		return "", fmt.Sprintf("no site has %s %q", siteField(field), clip(value, 60))
	case 1:
		return found[0], ""
	default:
		return "", fmt.Sprintf("%d sites have %s %q; siteUid tells them apart", len(found), siteField(field), clip(value, 60))
	}
}
