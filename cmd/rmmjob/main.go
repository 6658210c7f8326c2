package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"rmmjob/internal/spell"
)

func main() { os.Exit(realMain()) }

// gcPercent trades a little processor time, of which a run that waits for an API
// has plenty, for memory: an export of 20,000 devices stays under 100 MiB.
const gcPercent = 50

// realMain runs the command in the surroundings of the process.
func realMain() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	stop, release := watchSignals()
	defer release()
	e := systemEnv()
	e.abort = stop.hard
	return run(stop.soft, os.Args[1:], e)
}

// stopSignals are the two ways of being asked to stop. soft ends at the first
// request: finish what is in flight, start nothing new. hard ends at the
// second: leave now.
type stopSignals struct {
	soft, hard context.Context
}

// watchSignals turns Ctrl-C, SIGTERM and a closing console (which Windows
// delivers as SIGTERM, other systems as SIGHUP) into stopSignals. A signal
// that the parent process had ignored stays ignored: nohup means it. release
// gives the signals back.
func watchSignals() (stop stopSignals, release func()) {
	soft, cancelSoft := context.WithCancel(context.Background())
	hard, cancelHard := context.WithCancel(context.Background())
	// With a listener, writing to a pipe that nobody reads is an error like
	// any other and no longer the end of the process.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)

	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	go func() {
		for _, cancel := range []context.CancelFunc{cancelSoft, cancelHard} {
			select {
			case <-signals:
				cancel()
			case <-done:
				return
			}
		}
	}()
	return stopSignals{soft: soft, hard: hard}, func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		cancelSoft()
		cancelHard()
	}
}

// app is one call of the command: its surroundings, its flags and its result.
type app struct {
	*env
	stdout *stream // hide the raw streams of env
	stderr *stream

	stop     stopSignals
	verb     verb
	settings settings

	json     bool
	quiet    bool
	verbose  int
	progress string // auto, bar, plain or none
	config   string // --config, "" when not given
	sim      simFlag

	// wrap, if set, is put before the transport of the account.
	wrap func(http.RoundTripper) http.RoundTripper

	typed *bufio.Reader // answers to questions; nil before the first

	// result is filled by the verb as it learns things; conclude and finish
	// turn it into output and exit code.
	result result
}

// run executes one command line and returns its exit code. ctx ends when the
// user asks for the first time to stop.
func run(ctx context.Context, args []string, e *env) int {
	a := &app{env: e, stdout: newStream(e.stdout), stderr: newStream(e.stderr), progress: "auto"}
	a.stop = stopSignals{soft: ctx, hard: e.abort}
	if a.stop.hard == nil {
		a.stop.hard = context.Background()
	}
	// Known before the flags are parsed, so that a fault in them is reported
	// in JSON too.
	a.json = wantsJSON(args, e.getenv)
	err := a.dispatch(ctx, args)
	return a.finish(a.conclude(err))
}

// dispatch finds the verb and runs it.
func (a *app) dispatch(ctx context.Context, args []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	before := a.newFlags()
	before.SetInterspersed(false)
	help := before.BoolP("help", "h", false, "")
	version := before.Bool("version", false, "")
	if err := before.Parse(args); err != nil {
		return a.flagError(err, before.FlagSet)
	}
	rest := before.Args()
	switch {
	case *help:
		return helpVerb(ctx, a, rest)
	case *version:
		a.verb, _ = lookupVerb("version")
		return versionVerb(ctx, a, rest)
	case len(rest) == 0:
		writeUsage(a.helpWriter())
		return &exitError{code: exitUsage, err: errors.New("which verb? none was given"), silent: true}
	}
	v, ok := lookupVerb(rest[0])
	if !ok {
		return unknownVerb(rest[0])
	}
	a.verb = v
	// Flags before the verb belong to it like those after it.
	given := args[:len(args)-len(before.Args())]
	err = v.run(ctx, a, append(given[:len(given):len(given)], rest[1:]...))
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return err
}

// unknownVerb is the fault of a verb that does not exist, with what was
// probably meant.
func unknownVerb(name string) error {
	err := usagef("unknown verb %q", name)
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	switch near := spell.Nearest(name, names); {
	case near != "":
		err = err.withHint("did you mean %q?", near)
	case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
		err = err.withHint("to run a job: %s", commandLine("rmmjob", "run", name))
	}
	return err.withHint("rmmjob help lists the verbs")
}

// flagError maps a fault of pflag to a usage error with a suggestion.
func (a *app) flagError(err error, fs *pflag.FlagSet) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	out := usagef("%s", strings.TrimPrefix(err.Error(), "pflag: "))
	var missing *pflag.NotExistError
	if errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "" {
		var names []string
		fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := spell.Nearest(missing.GetSpecifiedName(), names); near != "" {
			out = out.withHint("did you mean --%s?", near)
		}
	}
	if a.verb.name == "" {
		return out.withHint("rmmjob help lists the verbs")
	}
	return out.withHint("rmmjob %s --help lists the flags", a.verb.name)
}

// panicError reports a bug by type and place. The panic's own text may hold
// data of the account and is left out unless it is a runtime error's.
func panicError(p any) error {
	what := fmt.Sprintf("%T", p)
	var re runtime.Error
	if err, ok := p.(error); ok && errors.As(err, &re) {
		what = re.Error()
	}
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	where := ""
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "rmmjob/") || strings.HasPrefix(f.Function, "main.") {
			where = fmt.Sprintf(" in %s, line %d", f.Function, f.Line)
			break
		}
		if !more {
			break
		}
	}
	return fail(exitInternal, "bug in rmmjob: %s%s", what, where).
		withHint("nothing is lost: what was done is recorded, the run can be continued").
		withHint("please report this line together with the output of rmmjob version")
}

// message prints an error on standard error, one line for each fault.
func (a *app) message(err error) {
	for _, m := range messages(err) {
		fmt.Fprintf(a.stderr, "rmmjob: %s\n", cleanLines(m))
	}
}

// hint prints a next step.
func (a *app) hint(format string, args ...any) {
	fmt.Fprintf(a.stderr, "hint: %s\n", clean(fmt.Sprintf(format, args...)))
}

// warn prints something that the user should know and that stops nothing.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.stderr, "rmmjob: warning: %s\n", clean(fmt.Sprintf(format, args...)))
}

// say prints a line about the course of things, unless --quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, "%s\n", clean(fmt.Sprintf(format, args...)))
	}
}

// debug prints a line for --verbose only.
func (a *app) debug(format string, args ...any) {
	if a.verbose > 0 {
		fmt.Fprintf(a.stderr, "%s\n", clean(fmt.Sprintf(format, args...)))
	}
}
