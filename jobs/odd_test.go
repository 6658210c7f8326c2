package jobs

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
)

// oddValue is JSON that no schema promises: of the wrong kind, too long, with empty and repeated keys.
func oddValue() *rapid.Generator[string] {
	return rapid.Deferred(func() *rapid.Generator[string] {
		return rapid.OneOf(
			rapid.SampledFrom([]string{
				"null", "true", `""`, `"x"`, "0", "-1", "123456789012345678901234567890", "1e400", "1741219200000", `"2025-03-06T00:00:00Z"`, `"06.03.2025"`,
				"[]", "{}", `{"":1,"":2}`, `{"a.b":1,"a":{"b":2}}`, `["x",null,{"name":"y"}]`, `"{\"k\":1}"`, `"\u0000\ud800"`, `[[[[[]]]]]`, `{"name":{"name":[]}}`,
			}),
			rapid.Custom(func(t *rapid.T) string {
				return fmt.Sprintf("%q", rapid.StringMatching(`[a-zä=+@"\n,;]{0,9}`).Draw(t, "text"))
			}),
		)
	})
}

// Whatever the service sends of an element, every read gives its rows: with all columns, exploded, chosen and sorted.
func TestOddDataNeverFailsARow(t *testing.T) {
	type target struct {
		job  *Job
		work *ExportWork
		keys []string

		wanted func(output.Record) (bool, error)
	}
	var targets []target
	for _, op := range rmm.Operations() {
		if op.IsWrite() {
			continue
		}
		for _, extra := range []string{"columns: all", "columns: default"} {
			text := strings.Replace(ExampleExport(op), "columns: default", extra, 1)
			where := comment.ReplaceAllString(text, "$1$2")
			j := parse(t, strings.TrimPrefix(where, "version: 1\n"))
			tg := target{job: j, wanted: j.Export.Where.all(whereNow), work: NewExportWork(j, Settings{Now: whereNow})}
			for _, f := range output.Fields(j.Export.Element) {
				if name, _, _ := strings.Cut(f.Path, "."); len(tg.keys) == 0 || tg.keys[len(tg.keys)-1] != name {
					tg.keys = append(tg.keys, name)
				}
				if f.Kind == output.KindList && !f.InList && extra == "columns: all" {
					j.Export.Explode = Explode{Path: f.Path, KeepEmpty: true}
				}
			}
			if tg.wanted == nil {
				tg.wanted = func(output.Record) (bool, error) { return true, nil }
			}
			j.Export.Where = nil // so that no row is left out
			targets = append(targets, tg)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tg := rapid.SampledFrom(targets).Draw(t, "target")
		var parts []string
		for _, key := range append([]string{"", "unknown"}, tg.keys...) {
			if rapid.Bool().Draw(t, "has") {
				parts = append(parts, fmt.Sprintf("%q:%s", key, oddValue().Draw(t, key)))
			}
		}
		raw := "{" + strings.Join(parts, ",") + "}"
		rec, err := output.ParseRecord([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		columns, order := tg.job.Export.Columns, tg.job.Export.Order()
		rows := 0
		if _, err := tg.wanted(rec); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		for row, err := range tg.work.Rows()(rec) {
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if got := output.Row(nil, columns, row, output.Style{Formulas: "guard", Newlines: "space"}); len(got) != len(columns) {
				t.Fatalf("%d cells for %d columns", len(got), len(columns))
			}
			if len(output.SortKey(row, order)) == 0 {
				t.Fatal("a row without a place")
			}
			rows++
		}
		if rows == 0 {
			t.Fatalf("%s has vanished from %s", raw, tg.job.Export.From.Name)
		}
	})
}
