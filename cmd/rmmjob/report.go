package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/spell"
	"rmmjob/jobs"
	"rmmjob/runner"
)

// countsOf is what the final result says of the items of a run.
func countsOf(c checkpoint.Counts, rec checkpoint.Run) counts {
	return counts{
		Items: int64(c.Items), Done: int64(c.Done), Unchanged: int64(c.Unchanged), Skipped: int64(c.Skipped),
		Failed: int64(c.Failed), InDoubt: int64(c.InDoubt), Pending: int64(c.Pending + c.Running),
		Reads: rec.Reads, Writes: rec.Writes, Throttled429: rec.Throttled,
	}
}

// report tells the end of a run: on standard output for people, in the JSON
// object otherwise.
func (s *session) report(ctx context.Context, sum runner.Summary) error {
	rows, err := s.st.store.RowCounts(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	reused, err := s.st.store.Recalled(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	c := countsOf(sum.Counts, s.rec)
	c.Reused = int64(reused)
	if c.Found, err = s.st.found(ctx, s.rec); err != nil {
		return err
	}
	if c.Unanswered, err = s.st.unanswered(ctx, s.rec, sum.Counts); err != nil {
		return err
	}
	s.result.Counts = c
	planned := sum.State == checkpoint.RunPlanned && sum.Stage == jobs.StagePlan
	if planned {
		s.result.Counts = planCounts(rows)
	} else if len(rows) > 0 {
		s.result.set("rows", planCounts(rows))
	}
	if err := s.setUndo(ctx); err != nil {
		return err
	}
	tried := sum.Stage == jobs.StageWait || sum.Stage == jobs.StageTried
	if tried {
		if err := s.setTrials(ctx); err != nil {
			return err
		}
	}
	if s.failures != nil && !s.planOnly {
		s.result.set("failures", s.failures.sorted())
	}
	took := s.now().Sub(s.began)
	s.result.set("seconds", took.Seconds())
	s.result.set("throttle_held_seconds", sum.Held.Seconds())
	s.result.set("retries", sum.Retries)
	notes := append(append(s.inputNotes(), s.notes...), sum.Notes...)
	s.result.set("notes", notes)
	for _, note := range notes {
		s.say("note: %s", note)
	}
	w := io.Writer(s.stdout)
	if s.toStdout() {
		w = s.stderr // standard output is the data
	}
	if planned && s.about.Hold == holdAsk && s.mayAsk() {
		return nil // the question has shown it
	}
	if planned {
		return s.reportPlan(ctx, w, notes)
	}
	if s.json {
		return nil
	}
	if s.quiet && s.result.Code == exitOK {
		return nil
	}
	if tried {
		if err := s.printTrials(ctx, w); err != nil {
			return err
		}
	}
	for _, f := range s.result.Files {
		if s.job.Update != nil && f.Rows == 0 {
			continue // of the result files those count that hold something
		}
		fmt.Fprintln(w, f.line())
	}
	if len(rows) > 0 {
		fmt.Fprintf(w, "rows: %s\n", rowWords(rows))
	}
	if s.failures != nil && sum.Stage != jobs.StagePlan {
		s.failures.print(w)
	}
	fmt.Fprintf(w, "%s: %s\n", s.headline(sum), s.requestWords(sum, took))
	return nil
}

// headline is the state of the run in a word or two.
func (s *session) headline(sum runner.Summary) string {
	switch checkpoint.RunState(s.result.State) {
	case checkpoint.RunOK:
		return "done"
	case checkpoint.RunPartial:
		if sum.Counts.Failed == 0 && s.job.Export != nil {
			return "done, but cut by the limit of rows"
		}
		if s.about.UndoOf != "" {
			return s.undoHeadline(sum.Counts.Failed)
		}
		return fmt.Sprintf("done, but %s failed", number(int64(sum.Counts.Failed)))
	case checkpoint.RunInDoubt:
		return fmt.Sprintf("done, but %s in doubt", number(int64(sum.Counts.InDoubt)))
	case checkpoint.RunGuard:
		return "stopped by a guard"
	case checkpoint.RunIncomplete:
		if s.result.Code == exitUsage {
			return "ended by a fault of the job"
		}
		if len(s.result.Files) > 0 {
			return "incomplete"
		}
		return "incomplete, nothing published"
	}
	if s.result.State == stateWaiting {
		return "tried out, and waiting for a decision"
	}
	return fmt.Sprintf("not finished (%s)", stateWord(s.result.State))
}

// inputNotes is what the input file has that the run passes over.
func (s *session) inputNotes() []string {
	notes := []string{}
	if s.input == nil {
		return notes
	}
	if len(s.input.Ignored) > 0 {
		notes = append(notes, "columns not used: "+strings.Join(s.input.Ignored, ", "))
	}
	if s.input.Blank > 0 {
		notes = append(notes, count(int64(s.input.Blank), "blank row")+" skipped")
	}
	if s.input.Hidden > 0 {
		notes = append(notes, count(int64(s.input.Hidden), "row")+" that the workbook hides: used like the others")
	}
	return notes
}

// requestWords says what was asked of the API and where the time went.
func (s *session) requestWords(sum runner.Summary, took time.Duration) string {
	c := sum.Counts
	parts := []string{count(s.rec.Reads, "read") + " and " + count(s.rec.Writes, "write")}
	counted, _ := s.result.Counts.(counts) // of a plan they count its rows
	if counted.Found > 0 {
		parts = append(parts, number(counted.Found)+" found after a lost answer")
	}
	if counted.Reused > 0 {
		parts = append(parts, count(counted.Reused, "answer")+" reused")
	}
	if left := c.Pending + c.Running; left > 0 {
		parts = append(parts, count(int64(left), "request")+" left")
	}
	if counted.Unanswered > 0 {
		parts = append(parts, count(counted.Unanswered, "write")+" sent without an answer")
	}
	if s.rec.Throttled > 0 {
		parts = append(parts, count(s.rec.Throttled, "answer")+" 429 or blocked")
	}
	if sum.Retries > 0 {
		parts = append(parts, fmt.Sprintf("%d repeated after a fault", sum.Retries))
	}
	text := strings.Join(parts, ", ") + fmt.Sprintf("; %s, of which the throttle held it for %s", brief(took), brief(sum.Held))
	if sum.Down > 0 {
		text += fmt.Sprintf(" and a service that was down for %s", brief(sum.Down))
	}
	if refused := sum.Waited - sum.Down; refused > 0 {
		text += fmt.Sprintf(" and it waited %s to try again what was refused", brief(refused))
	}
	return text
}

// toStdout tells whether standard output carries the data of the export.
func (s *session) toStdout() bool {
	for _, path := range s.about.Targets {
		if path == "-" {
			return true
		}
	}
	return false
}

// planCounts are the rows of a plan by class.
func planCounts(rows map[string]int) map[string]int {
	out := map[string]int{"rows": 0}
	for _, class := range jobs.RowClasses() {
		if (class == jobs.ClassKept || class == jobs.ClassIrreversible) && rows[string(class)] == 0 {
			continue // of an undo only
		}
		out[string(class)] = rows[string(class)]
		out["rows"] += rows[string(class)]
	}
	return out
}

// rowWords lists the classes of rows that occur.
func rowWords(rows map[string]int) string {
	var parts []string
	for _, class := range jobs.RowClasses() {
		if n := rows[string(class)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", number(int64(n)), strings.ReplaceAll(string(class), "_", " ")))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// reportPlan shows the plan of an update, and writes it to the files asked for.
func (s *session) reportPlan(ctx context.Context, w io.Writer, notes []string) error {
	v, err := s.st.viewPlan(ctx, s.rec, s.showValues)
	if err != nil {
		return err
	}
	if v.Operation == "" {
		v.Operation, v.Thing = s.job.Update.Operation.Name, s.job.Update.Thing()
	}
	v.Notes = notes
	if err := v.expect(ctx, s.st, s.limiter); err != nil {
		return err
	}
	if err := s.mayWritePlan(s.rec, s.about.PlanFiles); err != nil {
		return err // the job may be another one by now
	}
	files, err := v.save(s.about.PlanFiles)
	s.result.Files = append(s.result.Files, files...)
	s.result.set("plan", v.sums())
	if err != nil {
		return err
	}
	if s.json {
		return s.hintApply(ctx, v.Requests)
	}
	most := planLines
	if s.verbose > 0 {
		most = 0
	}
	if err := v.print(w, most); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(w, "plan written to %s\n", clean(f.Path))
	}
	if !s.showValues && v.Requests > 0 {
		s.hint("values are hidden, since they may be secrets; --show-values shows them")
	}
	return s.hintApply(ctx, v.Requests)
}

// hintApply tells how the plan is carried out. One of an undo that takes nothing back
// is not worth it.
func (s *session) hintApply(ctx context.Context, requests int) error {
	if s.about.Hold == holdAsk {
		return nil // the end of the run says it
	}
	if requests == 0 && s.about.UndoOf != "" {
		s.hint("nothing was written, and nothing is to be done")
		return nil
	}
	again := []string{s.rec.ID}
	c, err := s.consent(ctx)
	if err != nil {
		return err
	}
	if c.Why != "" {
		again = append(again, "--yes")
	}
	if s.json {
		s.result.Next = s.nextCommand("apply", again...)
		return nil
	}
	s.hint("nothing was written; to do it: %s", s.nextCommand("apply", again...))
	return nil
}

// count writes a number of things; see [spell.Count].
func count[N int | int64](n N, thing string, plural ...string) string {
	return spell.Count(n, thing, plural...)
}

// number writes a count with thousands apart.
func number[N int | int64](n N) string { return spell.Number(n) }

// brief writes a duration as people read it, with tenths below a minute.
func brief(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
