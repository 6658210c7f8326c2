package output

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rmmjob/internal/spell"
)

// Placeholders lists the words an output path may hold in braces.
func Placeholders() []string { return []string{"date", "time", "job", "account", "run", "since"} }

// Vars are the values of the placeholders that are not about time.
type Vars struct {
	Job     string // name of the job
	Account string // name of the account in the configuration
	Run     string // id of the run
	Since   string // where an incremental run begins; see SinceName
}

// SinceName is what {since} stands for: the instant in the local zone of this
// machine, as 2025-03-05-020000, or "beginning" for the zero time.
func SinceName(t time.Time) string {
	if t.IsZero() {
		return "beginning"
	}
	return t.Local().Format("2006-01-02-150405")
}

// Expand puts values into the path of an output: {date} is 2025-03-06 and
// {time} 020000, both at the instant at in the local zone of this machine, so
// that a file made at half past midnight bears the day of the wall clock;
// {job}, {account}, {run} and {since} come from vars. Doubled braces stand for
// themselves.
//
// A value cannot change the folder or make a name that Windows refuses: in it
// the characters : ? * < > | " \ / and control characters, and dots and blanks
// at its end, become underscores, on every system, and so does a name such as
// CON get an underscore in front. The text around the placeholders is kept.
// An unknown placeholder, one without a value, and a path with control
// characters are errors.
func Expand(template string, at time.Time, vars Vars) (string, error) {
	if err := checkPath(template); err != nil {
		return "", fmt.Errorf("output path %q: %w", template, err)
	}
	at = at.Local()
	var out strings.Builder
	component := 0 // where the current part of the path begins in out
	filled := false
	end := func() {
		if name := out.String()[component:]; filled && reserved(name) {
			head := out.String()[:component]
			out.Reset()
			out.WriteString(head + "_" + name)
		}
	}
	rest := template
	for rest != "" {
		i := strings.IndexAny(rest, `{}/\`)
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		c := rest[i]
		rest = rest[i+1:]
		switch {
		case c == '/' || c == '\\':
			end()
			out.WriteByte(c)
			component, filled = out.Len(), false
		case strings.HasPrefix(rest, string(c)):
			out.WriteByte(c)
			rest = rest[1:]
		case c == '}':
			return "", fmt.Errorf("output path %q: } without {; write }} for the character", template)
		default:
			name, after, closed := strings.Cut(rest, "}")
			if !closed {
				return "", fmt.Errorf("output path %q: { without }; write {{ for the character", template)
			}
			value, err := vars.value(name, at)
			if err != nil {
				return "", fmt.Errorf("output path %q: %w", template, err)
			}
			out.WriteString(safeName(value))
			filled, rest = true, after
		}
	}
	end()
	return out.String(), nil
}

// ValidPath reports what Expand would refuse in a template whatever the values
// are.
func ValidPath(template string) error {
	_, err := Expand(template, time.Unix(0, 0), Vars{"job", "account", "run", "since"})
	return err
}

func (v Vars) value(name string, at time.Time) (string, error) {
	var value string
	switch name {
	case "date":
		return at.Format(time.DateOnly), nil
	case "time":
		return at.Format("150405"), nil
	case "job":
		value = v.Job
	case "account":
		value = v.Account
	case "run":
		value = v.Run
	case "since":
		value = v.Since
	default:
		hint := "known are {" + strings.Join(Placeholders(), "} {") + "}"
		if near := spell.Nearest(name, Placeholders()); near != "" {
			hint = "did you mean {" + near + "}?"
		}
		return "", fmt.Errorf("unknown placeholder {%s}; %s", name, hint)
	}
	if value == "" {
		if name == "account" {
			return "", errors.New("the placeholder {account} has no value here: no account of the configuration is named; name one by account in the job or by --account, or leave the placeholder out")
		}
		return "", fmt.Errorf("the placeholder {%s} has no value here", name)
	}
	return value, nil
}

// safeName makes a value fit for a part of a file name under any system.
func safeName(value string) string {
	value = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`:?*<>|"\/`, r) || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, value)
	kept := strings.TrimRight(value, ". ")
	return kept + strings.Repeat("_", len(value)-len(kept))
}

// reserved reports whether Windows takes name for a device, whatever its
// extension.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, isPort := strings.CutPrefix(stem, "COM")
	if !isPort {
		port, isPort = strings.CutPrefix(stem, "LPT")
	}
	return isPort && utf8.RuneCountInString(port) == 1 && strings.Contains("0123456789¹²³", port)
}

// checkPath refuses a path that cannot be meant.
func checkPath(path string) error {
	if path == "" {
		return errors.New("no file name")
	}
	for _, r := range path {
		if unicode.IsControl(r) {
			return fmt.Errorf("there is %s in the path: in a job file write it in single quotes or with / in place of \\", controlName(r))
		}
	}
	if strings.HasSuffix(path, "/") || strings.HasSuffix(path, string(filepath.Separator)) {
		return errors.New("is a folder; name a file in it")
	}
	// Refused everywhere, so that a job runs on any system.
	if name := path[strings.LastIndexAny(path, `/\`)+1:]; reserved(name) {
		return fmt.Errorf("Windows takes the name %s for a device, whatever its ending: choose another", name) //nolint:staticcheck // a name
	}
	// On Windows a colon inside a name writes into a hidden part of another file.
	if runtime.GOOS == "windows" && strings.Contains(path[len(filepath.VolumeName(path)):], ":") {
		return errors.New("a file name cannot hold a colon")
	}
	return nil
}

func controlName(r rune) string {
	switch r {
	case '\t':
		return "a TAB"
	case '\n', '\r':
		return "a line break"
	case 0:
		return "a NUL"
	}
	return fmt.Sprintf("the control character %U", r)
}
