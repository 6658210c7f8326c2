package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"rmmjob/checkpoint"
	"rmmjob/internal/output"
	"rmmjob/jobs"
	"rmmjob/runner"
	"rmmjob/throttle"
)

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
	locked  string   // key of the job that is locked
	key     string   // identity of the job, where it is not that of a file
	heir    *heir    // sends for a run that is to be taken over; nil where none is

	failures *failureGroups  // of an update: the rows that did not end well
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

	Hold      hold     `json:"hold,omitempty"`       // why it stops before the first write
	PlanFiles []string `json:"plan_files,omitempty"` // absolute paths that its plan is written to
	Applied   bool     `json:"applied,omitempty"`    // its plan was handed over: job file and input do not matter any more
	Canary    int      `json:"canary,omitempty"`
	UndoOf    string   `json:"undo_of,omitempty"` // id of the run that it takes back

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
	s.locked = s.jobKey()
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

// drainAll sends what the run needs, the writes that wait for a person once there is
// an agreement.
func (s *session) drainAll(ctx context.Context) (runner.Summary, error) {
	sum, err := s.drain(ctx)
	for err == nil {
		goesOn, aerr := s.goesOn(ctx, sum)
		if aerr != nil || !goesOn {
			return sum, aerr
		}
		s.meter, s.overDrift = newMeter(s.app), false
		before := sum
		if sum, err = s.drain(ctx); err == nil {
			sum.Retries, sum.Held = sum.Retries+before.Retries, sum.Held+before.Held
			sum.Waited, sum.Down = sum.Waited+before.Waited, sum.Down+before.Down
		}
	}
	return sum, err
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
	s.about.Source, s.about.Canary, s.about.Guards, s.about.PlanFiles = s.job.Source, s.canary, s.guards.texts(), s.planFiles
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
		if err = s.claimable(s.job, resultClaims(s.job)); err != nil {
			return err
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

// confirmed refuses an operation that needs a person's agreement and has none, unless
// somebody can be asked once the plan is known.
func (s *session) confirmed() error {
	switch {
	case s.planOnly:
		s.about.Hold = holdPlan
		return nil
	case !s.needsYes():
		return nil
	case s.mayAsk():
		s.about.Hold = holdAsk
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

// jobKey is the identity of the job: its file and its account.
func (s *session) jobKey() string {
	if s.key != "" {
		return s.key
	}
	return s.job.Path + "\n" + s.conn.id
}

// checkTargets makes sure that the output files can be written.
func (s *session) checkTargets() error {
	if s.job.Export == nil {
		return s.checkResults()
	}
	return s.free(claims(s.job, s.about.places(), s.allowPartial), s.dead)
}

// checkResults makes sure that the result files of an update can be written where its job
// wants them, before anything is sent. A plan writes none there.
func (s *session) checkResults() error {
	if s.about.Hold == holdPlan {
		return nil
	}
	list := resultClaims(s.job)
	if err := s.claimable(s.job, list); err != nil {
		return err
	}
	for _, c := range list {
		if err := output.Check(c.path); err != nil {
			return fail(exitLocalIO, "results: %w", err)
		}
	}
	return nil
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
	if s.heir != nil {
		cfg.Caller, cfg.Login = s.heir, s.heir.Login
	}
	switch {
	case s.checking != nil:
		s.work, cfg.ReadOnly = s.checking, true
	case s.about.UndoOf != "":
		s.work = jobs.NewUndoWork(runner.AnswersOf(s.st.store, s.about.UndoOf), set, s.job)
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
