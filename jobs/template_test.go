package jobs

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTemplate(t *testing.T) {
	row := map[string]string{"A": "1", "Asset Tag": " {A} ", "B": ""}
	for _, tt := range []struct {
		source, want string
		columns      []string
	}{
		{"", "", nil},
		{"text", "text", nil},
		{"{A}", "1", []string{"A"}},
		{"{ Asset Tag\u00a0}", " {A} ", []string{"Asset Tag"}},
		{"x{A}-{B}-{A}y", "x1--1y", []string{"A", "B"}},
		{"{{A}}", "{A}", nil},
		{"{{{A}}}", "{1}", []string{"A"}},
		{"{{}}", "{}", nil},
		{"ü{A}é", "ü1é", []string{"A"}},
	} {
		tpl, err := ParseTemplate(tt.source)
		if err != nil {
			t.Errorf("%q: %v", tt.source, err)
			continue
		}
		if got := tpl.Expand(func(c string) string { return row[c] }); got != tt.want || !reflect.DeepEqual(tpl.Columns(), tt.columns) || tpl.String() != tt.source {
			t.Errorf("%q gives %q from %q", tpl, got, tpl.Columns())
		}
	}
	for source, want := range map[string]string{
		"{A":        `the '{' before "A" is not closed: a brace of the text itself is written twice, '{{'`,
		"{A{B}}":    `the '{' before "A{B" is not closed: a brace of the text itself is written twice, '{{'`,
		"{":         `the '{' before "" is not closed: a brace of the text itself is written twice, '{{'`,
		"A}":        `a '}' without its '{': a brace of the text itself is written twice, '}}'`,
		"{{A}":      `a '}' without its '{': a brace of the text itself is written twice, '}}'`,
		"{}":        `'{}' names no column`,
		"{ \u200b}": `'{}' names no column`,
	} {
		if _, err := ParseTemplate(source); err == nil || err.Error() != want {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "{A}", "x{A}{{y}}{B}", "{", "}", "{{{A}}}", "{\xff}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tpl, err := ParseTemplate(source)
		if err != nil {
			if len(tpl.Columns()) > 0 || tpl.String() != "" {
				t.Fatalf("%q: a template beside the error %v", source, err)
			}
			return
		}
		columns := tpl.Columns()
		for _, c := range columns {
			if c == "" || strings.ContainsAny(c, "{}") {
				t.Fatalf("%q has the column %q", source, c)
			}
		}
		if !utf8.ValidString(source) {
			return // letters may form where a brace goes
		}
		// With each place filled by its own name, the text is the source without its braces.
		strip := strings.NewReplacer("{", "", "}", "").Replace
		got := tpl.Expand(func(c string) string { return "{" + c + "}" })
		blankless := func(s string) string {
			return strings.Map(func(r rune) rune {
				if isBlank(r) {
					return -1
				}
				return r
			}, s)
		}
		if blankless(strip(got)) != blankless(strip(source)) {
			t.Fatalf("%q expands to %q", source, got)
		}
		if strings.Count(got, "{")-strings.Count(got, "}") != strings.Count(source, "{")-strings.Count(source, "}") && !strings.Contains(source, "{{") && !strings.Contains(source, "}}") {
			t.Fatalf("%q expands to %q", source, got)
		}
	})
}
