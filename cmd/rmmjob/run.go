package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

// runVerb runs a job, or continues its unfinished run.
func runVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	fresh := f.Bool("new", false, "start a new run even if one is unfinished")
	full := f.Bool("full", false, "ignore what earlier runs of the job have left (since, reuse, changes) and remember this one")
	yes := f.Bool("yes", false, "agree to an operation that needs it: deletes, proxy changes, moves, quick jobs")
	partial := f.allowPartial()
	canary := f.canary()
	guards := f.guards()
	limit := f.maxDuration()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	return a.execute(ctx, rest[0], options{
		fresh: *fresh, full: *full, yes: *yes, guards: guards, maxDuration: limit.d, allowPartial: *partial, canary: canary.n, showValues: *canary.values,
	})
}

// resumeVerb continues an unfinished run: the only one, or the one named.
func resumeVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "grace", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	partial := f.allowPartial()
	guards := f.maxErrors()
	limit := f.maxDuration()
	rest, err := f.parse(args, 0, 1)
	if err != nil {
		return err
	}
	rec, err := a.resumable(ctx, rest)
	if err != nil {
		return err
	}
	if done, err := a.resumePaused(ctx, rec); done || err != nil {
		return err
	}
	about, err := settingsOfRun(rec)
	if err != nil {
		return err
	}
	if opt := (options{maxDuration: limit.d, guards: guards}); about.byPlan() {
		return a.executeStored(ctx, rec, opt, nil)
	}
	return a.execute(ctx, rec.JobPath, options{resume: rec.ID, maxDuration: limit.d, allowPartial: *partial, guards: guards})
}

// maxDuration adds the flag of a time limit. Zero is none.
func (f *flags) maxDuration() *limitFlag {
	limit := &limitFlag{}
	f.Var(limit, "max-duration", "stop as resumable after this time, such as 4h (default none)")
	return limit
}

// limitFlag is a duration that is not negative.
type limitFlag struct{ d time.Duration }

func (l *limitFlag) String() string {
	if l.d == 0 {
		return ""
	}
	return l.d.String()
}
func (l *limitFlag) Type() string { return "duration" }
func (l *limitFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time such as 90m or 4h", text)
	}
	l.d = d
	return nil
}

// planVerb makes the plan of an update and stops before the first write.
func planVerb(ctx context.Context, a *app, args []string) error {
	f := a.newFlags()
	f.setting("workers", "page_size", "throttle.profile", "throttle.max", "throttle.reserve", "throttle.max_pause")
	detailed := f.Bool("detailed-exitcode", false, "exit 20 when the plan has changes, 0 when it has none")
	values := f.Bool("show-values", false, "show field values, which may be secrets")
	paths := f.planPaths()
	guards := f.guards()
	rest, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	files, err := a.checkPlanPaths(*paths)
	if err != nil {
		return err
	}
	return a.execute(ctx, rest[0], options{planOnly: true, fresh: true, detailed: *detailed, showValues: *values, planFiles: files, guards: guards})
}

// options are what the verbs run, resume and plan differ in.
type options struct {
	fresh       bool   // never continue a run
	full        bool   // begin without what earlier runs have left
	resume      string // id of the run to continue
	planOnly    bool
	detailed    bool
	showValues  bool
	planFiles   []string // absolute paths that the plan is written to
	guards      *guardFlags
	yes         bool // agrees to what needs a confirmation
	overDrift   bool // writes over what was edited, in this session only
	canary      int  // writes to try out before the rest; 0 for none
	maxDuration time.Duration

	allowPartial bool // an incomplete export is published under another name
}

// resumable finds the run that resume is about.
func (a *app) resumable(ctx context.Context, args []string) (checkpoint.Run, error) {
	st, err := a.openState(ctx)
	if err != nil {
		return checkpoint.Run{}, err
	}
	defer func() { _ = st.Close() }()
	if len(args) == 1 {
		rec, err := st.store.FindRun(ctx, args[0])
		if err != nil {
			return rec, err
		}
		if waits(rec) {
			return rec, a.refuseWaiting(rec)
		}
		if !unfinished(rec.State) {
			return rec, usagef("run %s is %s: there is nothing to resume", rec.ID, rec.State).withHint("%s", a.instead(rec))
		}
		return rec, nil
	}
	runs, err := st.store.Runs(ctx, 0, "")
	if err != nil {
		return checkpoint.Run{}, err
	}
	var found []checkpoint.Run
	var waiting []checkpoint.Run
	for _, rec := range runs {
		switch {
		case waits(rec):
			waiting = append(waiting, rec)
		case unfinished(rec.State):
			found = append(found, rec)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(waiting) > 0 {
			return checkpoint.Run{}, a.refuseWaiting(waiting[0])
		}
		return checkpoint.Run{}, usagef("no run is unfinished: there is nothing to resume").withHint("all runs: %s", a.nextCommand("runs"))
	}
	e := usagef("%d runs are unfinished: name one", len(found))
	for _, rec := range found {
		e = e.withHint("%s  (%s, %s)", a.nextCommand("resume", rec.ID), rec.JobName, rec.State)
	}
	return checkpoint.Run{}, e
}

// instead is what to do about a run that cannot be resumed.
func (a *app) instead(rec checkpoint.Run) string {
	about, err := settingsOfRun(rec)
	switch {
	case rec.State == checkpoint.RunPlanned && rec.Stage == jobs.StagePlan:
		return "to carry its plan out: " + a.nextCommand("apply", rec.ID)
	case err == nil && about.UndoOf != "":
		return "a new plan of what is left to take back: " + a.nextCommand("undo", about.UndoOf)
	}
	return "a new run: " + a.nextCommand("run", rec.JobPath)
}

// unfinished tells whether a run in this state can go on. A run that is running
// belongs to a process at work, or to one that died; the lock tells which.
func unfinished(s checkpoint.RunState) bool {
	switch s {
	case checkpoint.RunRunning, checkpoint.RunStopped, checkpoint.RunThrottled, checkpoint.RunAuth,
		checkpoint.RunUnreachable, checkpoint.RunLocalIO, checkpoint.RunAborted, checkpoint.RunInternal:
		return true
	}
	return false
}

// session is one call of run, resume or plan on one job.
type session struct {
	*app
	options
	job     *jobs.Job
	input   *jobs.Table // of an update
	conn    *connection
	st      *state
	rec     checkpoint.Run
	about   runSettings
	limiter *throttle.Limiter
	shared  *sharing // with other processes; nil on a simulated account
	work    runner.Work
	meter   *meter
	began   time.Time
	notes   []string // for people, beside those of the runner
	id      string   // of the run if it is a new one
	key     string   // identity of the job, where it is not that of a file

	undone   map[string]int  // what became of the rows of an undo
	checking *jobs.CheckWork // looks what became of writes in doubt, instead of the run's own work
}

// runSettings is what a run remembers of its start, so that a resume months
// later still writes the files it was about, and a plan is carried out as it was
// shown.
type runSettings struct {
	Targets  []string  `json:"targets,omitempty"`  // expanded paths, in the order of the job
	Manifest string    `json:"manifest,omitempty"` // expanded path of the one manifest for all outputs
	Changes  string    `json:"changes,omitempty"`  // expanded path of the change file
	Memory   memoryUse `json:"memory,omitzero"`    // what the run has taken over
	Source   []byte    `json:"source,omitempty"`   // the job file

	Applied     bool   `json:"applied,omitempty"` // its plan was handed over: job file and input do not matter any more
	Canary      int    `json:"canary,omitempty"`
	AcceptDrift bool   `json:"accept_drift,omitempty"`
	UndoOf      string `json:"undo_of,omitempty"` // id of the run that it takes back

	Guards map[string]string `json:"guards,omitempty"` // of command lines, by the names of their flags
}

// execute runs a job from its file to its result.
func (a *app) execute(ctx context.Context, path string, opt options) error {
	s := &session{app: a, options: opt, began: a.now()}
	if err := s.prepare(ctx, path); err != nil {
		return err
	}
	defer func() { _ = s.st.Close() }()

	unlock, err := s.st.lockJob(s.jobKey())
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.choose(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// finish carries the run through and tells how it ended.
func (s *session) finish(ctx context.Context) error {
	s.result.Run, s.result.Job = s.rec.ID, s.job.Name
	if s.maxDuration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.maxDuration, fmt.Errorf("the time limit of %s is reached", s.maxDuration))
		defer cancel()
	}
	return s.conclude(s.drainAll(ctx))
}

// prepare checks everything that can be wrong before anything is sent: job file,
// columns, input file, output folders, account, state folder.
func (s *session) prepare(ctx context.Context, path string) (err error) {
	if s.job, err = jobs.Load(path); err != nil {
		return err
	}
	for _, file := range s.planFiles {
		if err := s.mayWrite("--output", file, s.job); err != nil {
			return err
		}
	}
	if err := s.guards.apply(s.job); err != nil {
		return err
	}
	s.result.Job = s.job.Name
	for _, w := range s.job.Warnings {
		s.note(w.Error())
	}
	s.id = newRunID(s.began, s.job.Name)
	s.about.Source, s.about.Canary, s.about.Guards = s.job.Source, s.canary, s.guards.texts()
	if err := s.settings.setJob(s.job.Path, jobSettings(s.job)); err != nil {
		return err
	}
	if s.canary > 0 && s.job.Update == nil {
		return usagef("job %s is an export, which changes nothing: there is nothing to try out", s.job.Name)
	}
	switch {
	case s.job.Export != nil:
		if s.planOnly {
			return usagef("job %s is an export, which changes nothing: there is no plan to make", s.job.Name).
				withHint("check it: %s", s.nextCommand("validate", s.job.Path))
		}
		if s.full && !remembers(s.job) {
			return usagef("job %s reads everything in every run: --full is for jobs with since: last, reuse or changes", s.job.Name)
		}
		if err = s.expandTo(""); err != nil {
			return err
		}
		if err = s.standardOutput(s.job, s.allowPartial); err != nil {
			return err
		}
	case s.allowPartial:
		return usagef("--allow-partial is for exports, and job %s is none", s.job.Name)
	case s.job.Update != nil:
		if s.full {
			return usagef("job %s is an update: --full is for exports that remember", s.job.Name)
		}
		if s.input, err = jobs.OpenInput(s.job); err != nil {
			return s.withRejects(err)
		}
		if s.resume == "" { // a run that is unfinished was agreed to when it began
			if err := s.confirmed(); err != nil {
				return err
			}
		}
	}
	return s.connect(ctx)
}

// connect opens the account and the state, and makes what sends.
func (s *session) connect(ctx context.Context) error {
	cfg, err := s.throttleConfig(s.job)
	if err != nil {
		return err
	}
	if s.conn, err = s.openAccount(ctx); err != nil {
		return err
	}
	cfg.Probe, cfg.Event = s.conn.probe, s.event
	if s.conn.sim == nil { // a simulated account in this process is nobody else's
		s.shared = newSharing(s.conn.limits)
		cfg.Share = s.shared
	}
	if s.limiter, err = throttle.New(cfg); err != nil {
		return err
	}
	if s.st == nil {
		if s.st, err = s.openState(ctx); err != nil {
			return err
		}
	}
	s.meter = newMeter(s.app)
	return nil
}

// confirmed refuses an operation that needs a person's agreement and has none.
func (s *session) confirmed() error {
	if s.planOnly || !s.needsYes() {
		return nil
	}
	return usagef("job %s needs a confirmation: %s", s.job.Name, s.job.Update.Confirmation()).
		withHint("look first: %s", s.nextCommand("plan", s.job.Path)).
		withHint("then add --yes, or confirm: true in the job")
}

// needsYes tells whether the job lacks an agreement that it needs.
func (s *session) needsYes() bool {
	return s.job.Update != nil && s.job.Update.Confirmation() != "" && !s.yes && !s.job.Confirm
}

// repeats refuses to begin the quick jobs of a run anew that has made some: what
// is done cannot be told from what is wanted.
func (s *session) repeats(last checkpoint.Run, changed string) error {
	if s.fresh || s.job.Update == nil || s.job.Update.Operation.Class != rmm.ClassUnsafe || last.Writes == 0 {
		return nil
	}
	return usagef("run %s has sent %s, and %s: a new run would send them again", last.ID, count(last.Writes, s.job.Update.Operation.Name), changed).
		withHint("to go on with it, put the files back as they were: %s", s.nextCommand("resume", last.ID)).
		withHint("to send all of them: %s", s.nextCommand("run", "--new", s.job.Path))
}

// jobKey is the identity of the job: its file and its account.
func (s *session) jobKey() string {
	if s.key != "" {
		return s.key
	}
	return s.job.Path + "\n" + s.conn.id
}

// runStamp is the part of a run's id that sorts by time.
func runStamp(t time.Time) string { return t.UTC().Format("20060102-150405") }

// newRunID makes an id that sorts by time, says which job it is and can be typed.
func newRunID(t time.Time, name string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	if len(slug) > 24 {
		slug = slug[:24]
	}
	return runStamp(t) + "-" + strings.Trim(slug, "-") + "-" + strings.ToLower(rand.Text()[:3])
}

// runMark is the short name of a run that the names of its quick jobs carry: the
// time of its id and the random letters.
func runMark(id string) string {
	if len(id) < len("20060102-150405") {
		return id
	}
	return id[:len("20060102-150405")] + id[strings.LastIndexByte(id, '-'):]
}

// choose decides which run this call is about: an unfinished one of the job is
// continued unless the job or its input has changed meanwhile.
func (s *session) choose(ctx context.Context) error {
	inputHash := ""
	if s.input != nil {
		inputHash = s.input.Hash
	}
	last, ok, err := s.lastRun(ctx)
	if err != nil {
		return err
	}
	if ok && waits(last) && !s.fresh {
		return s.refuseWaiting(last)
	}
	if ok && unfinished(last.State) {
		changed := ""
		switch {
		case s.fresh:
			changed = "a new one was asked for"
		case last.JobHash != s.job.Hash:
			changed = "the job file has changed"
		case last.InputHash != inputHash:
			changed = "the input file has changed"
		case s.full && !isFull(last):
			changed = "a full run was asked for"
		}
		if changed == "" {
			s.rec = last
			if s.about, err = settingsOfRun(last); err != nil {
				return err
			}
			if err := errors.Join(s.takeGuards(), s.keepGuards(ctx)); err != nil {
				return err
			}
			s.say("continuing run %s, which was %s", last.ID, lastWord(last))
			return s.checkTargets()
		}
		if err := errors.Join(s.confirmed(), s.repeats(last, changed)); err != nil {
			return err
		}
		if !s.planOnly {
			s.say("run %s is closed as superseded: %s; what it has done is kept", last.ID, changed)
			if err := s.st.store.EndRun(ctx, last.ID, s.now(), checkpoint.RunSuperseded, 0, changed); err != nil {
				return err
			}
		}
	}
	if ok && last.State == checkpoint.RunInDoubt && !s.fresh {
		if err := s.refuseInDoubt(ctx, last); err != nil {
			return err
		}
	}
	if err := s.recollect(ctx); err != nil {
		return err
	}
	if err := s.checkTargets(); err != nil {
		return err
	}
	settings, err := json.Marshal(s.about)
	if err != nil {
		return fmt.Errorf("encode the settings of the run: %w", err)
	}
	kind := kindExport
	if s.job.Update != nil {
		kind = kindUpdate
	}
	s.rec = checkpoint.Run{
		ID: s.id, JobKey: s.jobKey(), JobName: s.job.Name, JobPath: s.job.Path, Kind: kind,
		Account: s.conn.name, JobHash: s.job.Hash, InputHash: inputHash, Settings: settings, Created: s.began,
	}
	return s.st.store.CreateRun(ctx, s.rec)
}

// lastRun is the newest run of the job that is more than a plan.
func (s *session) lastRun(ctx context.Context) (checkpoint.Run, bool, error) {
	if s.resume != "" {
		rec, err := s.st.store.Run(ctx, s.resume)
		if err == nil && rec.JobKey != s.jobKey() {
			err = usagef("run %s belongs to another account than the one chosen now", rec.ID).
				withHint("its account is %s", rec.Account)
		}
		return rec, true, err
	}
	runs, err := s.st.store.Runs(ctx, 0, s.jobKey())
	if err != nil {
		return checkpoint.Run{}, false, err
	}
	for _, rec := range runs {
		if rec.State != checkpoint.RunPlanned && rec.State != checkpoint.RunSuperseded {
			return rec, true, nil
		}
	}
	return checkpoint.Run{}, false, nil
}

// lastWord is how a run ended, for the sentence about continuing it.
func lastWord(rec checkpoint.Run) string {
	if rec.State == checkpoint.RunRunning {
		return "cut off"
	}
	return string(rec.State)
}

// refuseInDoubt refuses a new run while the last one has writes that nobody
// knows the fate of and that must not happen twice.
func (s *session) refuseInDoubt(ctx context.Context, last checkpoint.Run) error {
	n, err := s.unsafeInDoubt(ctx, last)
	if err != nil || n == 0 {
		return err
	}
	s.result.Run, s.result.State = last.ID, string(last.State)
	return fail(exitInDoubt, "run %s has %d writes whose fate is unknown and that must not be repeated blindly", last.ID, n).
		withHint("look at them: %s", s.nextCommand("resolve", last.ID)).
		withHint("look for them in the account: %s", s.nextCommand("resolve", last.ID, "--check")).
		withHint("start all the same: %s", s.nextCommand("run", "--new", s.job.Path))
}

// checkTargets makes sure that the output files can be written.
func (s *session) checkTargets() error {
	if s.job.Export == nil {
		return nil
	}
	return s.free(claims(s.job, s.about.places(), s.allowPartial), s.dead)
}

// places are the files of the run.
func (r runSettings) places() places { return places{r.Targets, r.Manifest, r.Changes} }

// expandTo settles the names of the files of a new run that begins at since.
func (s *session) expandTo(since string) error {
	p, err := expand(s.job, s.began, output.Vars{Job: s.job.Name, Account: s.settings.text("account"), Run: s.id, Since: since})
	if err != nil {
		return err
	}
	s.about.Targets, s.about.Manifest, s.about.Changes = p.outputs, p.manifest, p.changes
	return s.claimable(s.job, claims(s.job, p, s.allowPartial))
}

// dead tells whether a run can no longer be writing a file: it is another run of
// this job, whose lock this process holds.
func (s *session) dead(run string) bool {
	rec, err := s.st.store.Run(context.Background(), run)
	return err == nil && rec.JobKey == s.jobKey()
}

// drain sends what the run needs.
func (s *session) drain(ctx context.Context) (runner.Summary, error) {
	defer s.share(ctx)()
	set := s.workSettings()
	cfg := runner.Config{
		Store: s.st.store, RunID: s.rec.ID, Caller: s.conn.client, Login: s.conn.client.Login, Limiter: s.limiter,
		Abort: s.stop.hard, Workers: s.settings.number("workers"), Grace: s.settings.duration("grace"),
		PID: os.Getpid(), Observe: s.meter.observe, KeepGoing: s.allowPartial && s.job.Export != nil,
	}
	cfg.Host, _ = os.Hostname() //nolint:errcheck // for messages only
	switch {
	case s.checking != nil:
		s.work, cfg.ReadOnly = s.checking, true
	case s.about.UndoOf != "":
		s.work = jobs.NewUndoWork(runner.AnswersOf(s.st.store, s.about.UndoOf), set, s.job.Update.Verify)
		cfg.MaxErrors = s.job.MaxErrors
	case s.job.Export != nil:
		if err := s.st.recall(ctx, s.about.Memory, &set); err != nil {
			return runner.Summary{}, err
		}
		cfg.Memory = s.about.Memory.ID
		s.work = jobs.NewExportWork(s.job, set)
	default:
		s.work = jobs.NewUpdateWork(s.job, set)
		cfg.MaxErrors = s.job.MaxErrors
	}
	cfg.Work = s.work
	s.say("run %s: job %s on %s", s.rec.ID, s.job.Name, s.conn.name)
	defer s.meter.close()
	ctx, end, err := s.listen(ctx)
	if err != nil {
		return runner.Summary{}, err
	}
	defer end()
	heard := context.AfterFunc(ctx, func() {
		why, cut := "stopping", "a second Ctrl-C"
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			why, cut = cause.Error(), "Ctrl-C twice"
		}
		s.meter.stopping(fmt.Sprintf("%s: finishing what is in flight, for %s at most; %s cuts it off", why, cfg.Grace, cut))
	})
	defer heard()
	return runner.Run(ctx, cfg)
}

// event records and shows what the throttle does.
func (s *session) event(e throttle.Event) {
	s.meter.event(e)
	if s.rec.ID == "" || e.Kind == throttle.EventCalibrate {
		return
	}
	// Losing a line of history must not stop a run; a broken disk shows itself
	// at the next item.
	_ = s.st.store.AddEvent(context.Background(), s.rec.ID, e.At, e.Kind, e.Text)
}

// conclude publishes what is finished, ends the run in the checkpoint and fills
// in the result.
func (s *session) conclude(sum runner.Summary, err error) error {
	ctx := context.Background()
	if err != nil {
		// The checkpoint failed. What was recorded stays; the run can go on.
		code, hint := causeOf(err, s.stop)
		s.result.State = string(stateOf(code))
		s.result.Next = s.resumeCommand()
		_ = s.st.store.EndRun(ctx, s.rec.ID, s.now(), stateOf(code), int(code), err.Error())
		return &exitError{code: code, err: err, hint: hint}
	}
	state, cause := sum.State, sum.Err
	if s.job.Export != nil {
		state, cause = s.publish(ctx, &sum)
	}
	if s.checking != nil && unstopped(state) {
		state = settledState(s.rec, sum.Counts)
	}
	if s.job.Update != nil {
		if rerr := errors.Join(s.writeResults(ctx), s.writeAnswers(ctx)); rerr != nil && cause == nil {
			state, cause = checkpoint.RunLocalIO, rerr
		}
	}
	if guard, ok := errors.AsType[*jobs.GuardError](cause); ok && len(guard.Held) > 0 {
		if rerr := s.saveRejects(s.st, guard.Headings, slices.Values(guard.Held)); rerr != nil {
			state, cause = checkpoint.RunLocalIO, rerr
		}
	}
	code, hint := codeOf(state), ""
	text := ""
	waiting := state == checkpoint.RunPlanned && sum.Stage == jobs.StageWait
	if waiting {
		state, code, text = checkpoint.RunStopped, exitCanary, "the first writes are as wanted; the rest waits for a decision"
	}
	if cause != nil {
		text = cause.Error()
		if c, h := classify(cause, s.stop); c == exitUsage && (state == checkpoint.RunStopped || state == checkpoint.RunIncomplete) {
			code, hint = c, h
		} else {
			hint = h
		}
	}
	if code == exitIncomplete && s.job.Export != nil {
		hint = s.partialHint()
	}
	if err := s.st.store.EndRun(ctx, s.rec.ID, s.now(), state, int(code), text); err != nil {
		return err
	}
	rec, err := s.st.store.Run(ctx, s.rec.ID)
	if err != nil {
		return err
	}
	s.rec = rec
	s.result.State, s.result.Code = string(state), code
	switch {
	case waiting:
		s.result.State, s.result.Next = stateWaiting, s.nextCommand("apply", rec.ID)
	case unfinished(state):
		s.result.Next = s.resumeCommand()
	case state == checkpoint.RunPartial || state == checkpoint.RunInDoubt:
		if err := s.proposeNext(ctx, state); err != nil {
			return err
		}
	}
	if err := s.report(ctx, sum); err != nil {
		return err
	}
	if s.planOnly && state == checkpoint.RunPlanned {
		if s.detailed && sum.Plan[jobs.ClassChange]+sum.Plan[jobs.ClassClear] > 0 {
			s.result.Code = exitChanges
		}
		return nil
	}
	if cause != nil {
		return &exitError{code: code, err: cause, hint: hint}
	}
	return nil
}

// stateCodes ties the states of runs to exit codes.
var stateCodes = map[checkpoint.RunState]exitCode{
	checkpoint.RunOK: exitOK, checkpoint.RunPlanned: exitOK, checkpoint.RunSuperseded: exitOK,
	checkpoint.RunPartial: exitPartial, checkpoint.RunInDoubt: exitInDoubt, checkpoint.RunGuard: exitGuard,
	checkpoint.RunThrottled: exitThrottled, checkpoint.RunAuth: exitAuth, checkpoint.RunStopped: exitStopped,
	checkpoint.RunUnreachable: exitUnreachable, checkpoint.RunLocalIO: exitLocalIO,
	checkpoint.RunIncomplete: exitIncomplete, checkpoint.RunAborted: exitAborted,
	checkpoint.RunInternal: exitInternal, checkpoint.RunRunning: exitInternal,
}

// codeOf is the exit code of a run in this state.
func codeOf(s checkpoint.RunState) exitCode { return stateCodes[s] }

// stateOf is the state of a run that ended with this code for a reason outside
// the run itself.
func stateOf(code exitCode) checkpoint.RunState {
	for s, c := range stateCodes {
		if c == code && unfinished(s) && s != checkpoint.RunRunning {
			return s
		}
	}
	return checkpoint.RunInternal
}

// jobSettings is what a job file says about settings that other places may set
// too; its throttle is a layer of its own.
func jobSettings(job *jobs.Job) map[string]string {
	set := map[string]string{"account": job.Account}
	if job.Timeout > 0 {
		set["timeout"] = job.Timeout.String()
	}
	if job.Grace > 0 {
		set["grace"] = job.Grace.String()
	}
	if job.Workers > 0 {
		set["workers"] = fmt.Sprint(job.Workers)
	}
	return set
}
