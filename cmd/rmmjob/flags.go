package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"rmmjob/internal/rmmsim"
)

// flags are the flags of one verb: those common to all verbs, those that
// stand for settings, and the verb's own, which it adds before parse.
type flags struct {
	*pflag.FlagSet
	a *app
}

// newFlags returns the common flags. Defaults come from the app, so that the
// two passes over a command line (before and after the verb) agree.
func (a *app) newFlags() *flags {
	fs := pflag.NewFlagSet("rmmjob", pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // messages are printed by one place only
	fs.Usage = func() {}
	fs.SortFlags = false
	f := &flags{FlagSet: fs, a: a}
	fs.BoolVar(&a.json, "json", a.json, "print one JSON object at the end")
	fs.BoolVarP(&a.quiet, "quiet", "q", a.quiet, "no progress, only warnings and errors")
	fs.CountVarP(&a.verbose, "verbose", "v", "tell more; repeat for even more")
	fs.Var(&enumFlag{&a.progress, []string{"auto", "bar", "plain", "none"}}, "progress", "auto, bar, plain or none")
	fs.Var(&a.sim, "sim", "use a simulated account; settings as --sim=devices=5000,seed=7")
	fs.Lookup("sim").NoOptDefVal = "true"
	fs.StringVar(&a.config, "config", a.config, "config file instead of the usual one")
	// Defaults come from the first pass over the line; help shows the real ones.
	for _, name := range []string{"json", "quiet"} {
		fs.Lookup(name).DefValue = "false"
	}
	f.setting("account", "credentials_file", "state_dir", "ca_cert", "timeout")
	return f
}

// setting adds the flags of settings of the table.
func (f *flags) setting(keys ...string) {
	for _, key := range keys {
		s, ok := lookupSetting(key)
		if !ok || s.flag == "" {
			panic("no setting with a flag: " + key)
		}
		help := s.help
		if s.def != "" {
			help += " (default " + s.def + ")"
		}
		f.Var(&settingFlag{setting: s}, s.flag, help)
	}
}

// parse reads the command line after the verb, then the environment, then the
// config files. It returns the arguments, of which there must be least to
// most (most < 0: any number). A request for help ends in pflag.ErrHelp after
// the help was printed.
func (f *flags) parse(args []string, least, most int) ([]string, error) {
	a := f.a
	if err := f.parseOnly(args); err != nil {
		return nil, err
	}
	if err := a.loadSettings(f); err != nil {
		return nil, err
	}
	rest := f.Args()
	if n := len(rest); n < least || most >= 0 && n > most {
		var err *exitError
		switch {
		case n < least:
			err = usagef("%s needs %s", a.verb.name, a.verb.args)
		case a.sim.on && slices.ContainsFunc(rest, func(s string) bool { return strings.Contains(s, "=") }):
			err = usagef("unexpected argument %q", rest[most]).withHint("settings of the simulator follow an equals sign: --sim=devices=5000")
		default:
			err = usagef("unexpected argument %q", rest[most])
		}
		return nil, err.withHint("usage: %s", strings.TrimSpace("rmmjob "+a.verb.name+" "+a.verb.args))
	}
	return rest, nil
}

// parseOnly reads flags and environment and leaves the config files alone.
func (f *flags) parseOnly(args []string) error {
	a := f.a
	a.verbose = 0 // a count would count the flags before the verb twice
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			writeVerbHelp(a.helpWriter(), a.verb, f)
		}
		return a.flagError(err, f.FlagSet)
	}
	var err error
	f.VisitAll(func(fl *pflag.Flag) {
		if _, isSetting := fl.Value.(*settingFlag); isSetting || fl.Changed || err != nil {
			return // settings have their own layer for the environment
		}
		name := envName(fl.Name)
		text := a.getenv(name)
		if text == "" {
			return
		}
		if e := fl.Value.Set(text); e != nil {
			err = usagef("environment variable %s: %w", name, e)
		}
	})
	return err
}

// writeUsages lists the flags for people, in the order in which they were added.
func (f *flags) writeUsages(w io.Writer) {
	t := newTable()
	f.VisitAll(func(fl *pflag.Flag) {
		name := "    --" + fl.Name
		if fl.Shorthand != "" {
			name = "-" + fl.Shorthand + ", --" + fl.Name
		}
		switch kind := fl.Value.Type(); {
		case kind == "bool" || kind == "count":
		case fl.NoOptDefVal != "":
			name += "[=" + kind + "]"
		default:
			name += " " + kind
		}
		help := fl.Usage
		if !slices.Contains([]string{"", "0", "0s", "false"}, fl.DefValue) {
			help += " (default " + fl.DefValue + ")"
		}
		t.add(name, help)
	})
	t.writeIndented(w, "  ")
}

// helpWriter is where help goes: standard output, unless that is kept for the
// one JSON object.
func (a *app) helpWriter() io.Writer {
	if a.json {
		return a.stderr
	}
	return a.stdout
}

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "RMMJOB_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// wantsJSON looks for --json before flags are parsed, and in the environment.
func wantsJSON(args []string, getenv func(string) string) bool {
	want, err := strconv.ParseBool(getenv(envName("json")))
	want = want && err == nil
	for _, arg := range args {
		switch text, hasValue := strings.CutPrefix(arg, "--json="); {
		case arg == "--":
			return want
		case arg == "--json":
			want = true
		case hasValue:
			if v, err := strconv.ParseBool(text); err == nil {
				want = v
			}
		}
	}
	return want
}

// enumFlag is a flag with a few allowed words.
type enumFlag struct {
	value *string
	words []string
}

func (e *enumFlag) String() string {
	if e.value == nil {
		return ""
	}
	return *e.value
}
func (e *enumFlag) Type() string { return "word" }
func (e *enumFlag) Set(s string) error {
	if !slices.Contains(e.words, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(e.words, ", "))
	}
	*e.value = s
	return nil
}

// simFlag is --sim[=settings]: on without a value, off by false.
type simFlag struct {
	on       bool
	settings string // for rmmsim.ParseSettings
}

func (s *simFlag) String() string {
	switch {
	case !s.on:
		return ""
	case s.settings == "":
		return "true"
	}
	return s.settings
}
func (s *simFlag) Type() string { return "settings" }
func (s *simFlag) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		*s = simFlag{on: on}
		return nil
	}
	if _, err := rmmsim.ParseSettings(text); err != nil {
		return err
	}
	*s = simFlag{on: true, settings: text}
	return nil
}

// settingFlag is the flag of a setting: its text is checked as it is read.
type settingFlag struct {
	setting setting
	text    string
}

func (s *settingFlag) String() string { return s.text }
func (s *settingFlag) Type() string   { return s.setting.kind.String() }
func (s *settingFlag) Set(text string) error {
	if err := s.setting.check(text); err != nil {
		return err
	}
	s.text = text
	return nil
}

// nextCommand is a command line that goes on from here when pasted into the
// same kind of shell: it repeats the flags that decide which state and which
// account are meant, with absolute paths, and quotes what needs it. The state
// folder is repeated too when the environment names it, because the line may
// be pasted elsewhere.
func (a *app) nextCommand(verb string, args ...string) string {
	words := append([]string{"rmmjob", verb}, args...)
	for _, key := range []string{"state_dir", "account", "credentials_file", "ca_cert"} {
		v := a.settings.find(key)
		if fromEnv := key == "state_dir" && v.origin.kind == originEnv; v.origin.kind != originFlag && !fromEnv {
			continue
		}
		s, _ := lookupSetting(key)
		text := v.text
		if s.kind == kindPath {
			text = absolute(text)
		}
		words = append(words, "--"+s.flag, text)
	}
	if a.config != "" {
		words = append(words, "--config", absolute(a.config))
	}
	if a.sim.on {
		sim := "--sim"
		if a.sim.settings != "" {
			sim += "=" + a.sim.settings
		}
		words = append(words, sim)
	}
	return commandLine(words...)
}

// commandLine joins words to a line for the shell of this system: POSIX
// quoting, or double quotes on Windows, which cmd and PowerShell both take.
func commandLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w, runtime.GOOS == "windows")
	}
	return strings.Join(quoted, " ")
}

func quote(word string, windows bool) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:=+", r) || windows && r == '\\' || !windows && strings.ContainsRune(",@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	if windows {
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// absolute makes a path absolute; without a current folder it stays as it is.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
