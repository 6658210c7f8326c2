package jobs

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"rmmjob/internal/rmm"
)

// alertsPrefix begins the keys of the alerts that are read one by one: those that rows name and that are not open.
const alertsPrefix = "alerts/"

// alertsBeside are the alerts that the rows name, that are not among the open ones and that nobody has asked for yet. A file of
// nonsense must not pass for one whose alerts are all resolved.
func (u *UpdateWork) alertsBeside(ctx context.Context, a Answers) ([]Item, error) {
	known := map[string]bool{}
	for el, err := range elements(ctx, a, targetsPrefix) {
		if err != nil {
			return nil, err
		}
		known[normalise(keyOf(subjects[anAlert].uid, el.JSON))] = true
	}
	for ans, err := range a.Answers(ctx, alertsPrefix) {
		switch {
		case err != nil:
			return nil, err
		case !ans.OK && ans.HTTP != http.StatusNotFound && ans.HTTP != http.StatusBadRequest:
			return nil, &IncompleteError{Message: "an alert could not be read: " + ans.Reason}
		}
		known[ans.Request.Path["alertUid"]] = true
	}
	var items []Item
	err := u.eachKey(ctx, a, func(key string) {
		if known[key] || !uidForm.MatchString(key) {
			return
		}
		known[key] = true
		items = append(items, Item{Key: alertsPrefix + url.PathEscape(key), Request: rmm.Request{Op: "alert", Path: map[string]string{"alertUid": key}}})
	})
	return items, err
}

// alertsNote tells what the reads of single alerts are for.
func alertsNote(n int) string {
	if n == 1 {
		return "1 alert is not among the open ones: one more read tells whether it is resolved"
	}
	return fmt.Sprintf("%d alerts are not among the open ones: one more read for each tells whether it is resolved", n)
}

// withAlerts adds the alerts that were read one by one to the open ones.
func withAlerts(ctx context.Context, a Answers, open iter.Seq2[Element, error]) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for el, err := range open {
			if !yield(el, err) {
				return
			}
		}
		for ans, err := range a.Answers(ctx, alertsPrefix) {
			if err == nil && !ans.OK {
				continue // there is no such alert
			}
			if !yield(Element{JSON: ans.Body, Path: ans.Request.Path}, err) {
				return
			}
		}
	}
}
