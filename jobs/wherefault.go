package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	exprfile "github.com/expr-lang/expr/file"

	"rmmjob/internal/output"
)

// The operators of conditions, for hints.
const operatorHint = "operators: == != < <= > >= in contains startsWith endsWith matches, joined by and, or, not"

// instead is what people write in other languages, and what to write here.
var instead = map[string]string{
	"=": "for equal write ==", "===": "for equal write ==", "is": "for equal write ==", "<>": "for not equal write !=",
	"like": "write contains, startsWith, endsWith or matches", "ilike": "write contains, startsWith, endsWith or matches",
	"has": "write contains", "includes": "write contains", "=~": "write matches", "~": "write matches",
	"and": "write and in small letters", "or": "write or in small letters", "not": "write not in small letters, before what it denies",
	"in": "write in in small letters, before a list: in [\"a\", \"b\"]", "contains": "write contains in small letters",
	"between": "write two comparisons: a >= 1 and a <= 5",
}

var (
	// token is how the library writes what it did not expect.
	token        = regexp.MustCompile(`unexpected token (?:EOF|(\w+)\((.*)\))`)
	unknownSign  = regexp.MustCompile(`^unrecognized character: U\+[0-9A-F]+ '(.*)'$`)
	mismatch     = regexp.MustCompile(`^invalid operation: (\S+) \(mismatched types (.+) and (.+)\)$`)
	badOperation = regexp.MustCompile(`^invalid operation: (.+) \(mismatched type (.+)\)$`)
	badArgument  = regexp.MustCompile(`^cannot use (.+) as argument \(type (.+)\) to call (\w+) *$`)
)

// libraryFault takes the place out of an error of the library, and puts it into the words of the documentation.
func libraryFault(err error, text string) conditionFault {
	var e *exprfile.Error
	if !errors.As(err, &e) {
		return conditionFault{message: err.Error()}
	}
	f := conditionFault{at: e.From, message: typeNames.Replace(e.Message)}
	switch {
	case token.MatchString(e.Message):
		f.message, f.hint = unexpected(token.FindStringSubmatch(e.Message), []rune(text), e.From)
	case unknownSign.MatchString(e.Message):
		sign := unknownSign.FindStringSubmatch(e.Message)[1]
		f.message, f.hint = fmt.Sprintf("%q is not expected here", sign), operatorHint
		if strings.ContainsAny(sign, "“”„‘’«»") {
			f.hint = `write straight quotes: "`
		}
	case strings.Contains(e.Message, "literal not terminated"):
		f.message, f.hint = "a quote that opens here is never closed", ""
	case strings.Contains(e.Message, "unexpected end of expression"):
		f.message, f.hint = "the condition ends too early", "something has to follow"
	case strings.Contains(e.Message, "expected at least 2 arguments"):
		f.message, f.hint = "a list needs a condition on its elements", `for example any(software, .name == "Chrome")`
	case strings.Contains(e.Message, "exceeds maximum allowed nodes"):
		f.message, f.hint = "the condition is too long", "choose by a list: hostname in [\"a\", \"b\"]"
	case mismatch.MatchString(f.message):
		m := mismatch.FindStringSubmatch(f.message)
		f.message = fmt.Sprintf("%s cannot be compared with %s by %s", typeName(m[2]), typeName(m[3]), m[1])
		if slices.Contains(arithmetic, m[1]) {
			f.message = fmt.Sprintf("%s and %s cannot be put together by %s", typeName(m[2]), typeName(m[3]), m[1])
		}
		if m[1] == "in" {
			f.hint = `a list is written in square brackets: in ["a", "b"]`
		}
		if m[2] == "date" || m[3] == "date" {
			f.hint = `dates are written ago("30d"), ahead("30d") or date("2025-03-06")`
		}
	case badOperation.MatchString(f.message):
		m := badOperation.FindStringSubmatch(f.message)
		f.message = fmt.Sprintf("%s does nothing with %s", m[1], typeName(m[2]))
	case badArgument.MatchString(f.message):
		m := badArgument.FindStringSubmatch(f.message)
		f.message = fmt.Sprintf("%s takes %s, not %s", m[3], typeName(m[2]), typeName(m[1]))
	}
	return f
}

// unexpected says of a token in the words of people that it cannot stand where it does, in a text.
func unexpected(m []string, text []rune, at int) (message, hint string) {
	kind, word := m[1], strings.Trim(m[2], `"`)
	before := ""
	if kind != "" {
		if words := strings.Fields(string(text[:min(at, len(text))])); len(words) > 0 {
			before = words[len(words)-1]
		}
	}
	if all := signs(text, at); kind == "Operator" && all != "" {
		word = all
	}
	switch known := instead[strings.ToLower(word)]; {
	case kind == "":
		return "the condition ends too early", "something has to follow"
	case kind != "String" && known != "" && (kind != "Operator" || !isWord(word)):
		hint = known
	case before != strings.ToLower(before) && instead[strings.ToLower(before)] != "":
		word, kind, hint = before, "Identifier", instead[strings.ToLower(before)]
	case word == "," && len(text) > at && strings.Contains(string(text[:at]), " in ("):
		hint = `a list is written in square brackets: in ["a", "b"]`
	case kind == "String" || kind == "Number" || kind == "Identifier":
		hint = "an operator is missing before it; " + operatorHint
	case kind == "Bracket":
		hint = "the brackets do not match"
	default:
		hint = operatorHint
	}
	if kind == "String" {
		return fmt.Sprintf("the text %q is not expected here", clip(word, 40)), hint
	}
	return fmt.Sprintf("%q is not expected here", clip(word, 40)), hint
}

// isWord tells a word from signs.
func isWord(s string) bool { return strings.ToLower(s) != strings.ToUpper(s) }

// signs are the signs of an operator around a place in a text.
func signs(text []rune, at int) string {
	part := func(i int) bool { return i >= 0 && i < len(text) && strings.ContainsRune("=<>~!&|", text[i]) }
	from, to := at, at
	for part(from - 1) {
		from--
	}
	for part(to) {
		to++
	}
	return string(text[from:to])
}

// typeNames puts the words of the documentation for the types of Go.
var typeNames = strings.NewReplacer("[]interface {}", "list", "[]string", "list", "map[string]interface {}", "object", "interface {}", "any",
	"time.Time", "date", "time.Duration", "duration", "float64", "number", "int", "number", "string", "text", "bool", "true or false", "nil", "nil")

func typeName(t string) string {
	switch t = typeNames.Replace(t); t {
	case "text", "true or false", "nil":
		return t
	case "object":
		return "an object"
	case "any":
		return "this"
	case "duration":
		return "a span of time"
	}
	return "a " + t
}

// comparisons are the operators that compare two values of one kind.
var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

// dated makes the comparison of a date with a text one of dates where the text is a field that holds a date, and says what
// to write for any other text.
func (r *resolver) dated(n *ast.BinaryNode) {
	if !slices.Contains(comparisons, n.Operator) {
		return
	}
	for _, side := range []struct{ date, text *ast.Node }{{&n.Left, &n.Right}, {&n.Right, &n.Left}} {
		if !r.isDate(*side.date) {
			continue
		}
		if text, ok := (*side.text).(*ast.StringNode); ok {
			hint := fmt.Sprintf("write date(%q)", clip(text.Value, 40))
			if _, err := timeSpan(text.Value); err == nil {
				hint = fmt.Sprintf("write ago(%q), or ahead(%[1]q) for the future", text.Value)
			} else if _, ok := output.ParseDate(text.Value); !ok {
				hint = `dates are written ago("30d"), ahead("30d") or date("2025-03-06")`
			}
			r.fault(*side.text, hint, "a date cannot be compared with the text %q", clip(text.Value, 40))
			return
		}
		f := r.fieldOf(*side.text)
		switch {
		case f == nil || f.kind != output.KindText || f.typ != typeOf(output.KindText):
		case strings.HasSuffix(f.path, "Date"):
			at := (*side.text).Location()
			read := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "date"}, Arguments: []ast.Node{*side.text}}
			read.SetLocation(at)
			*side.text = read
		default:
			r.fault(*side.text, fmt.Sprintf("date(%s) reads it as a date", strings.TrimPrefix(f.path, "udf.")), "%s is text and cannot be compared with a date", strings.TrimPrefix(f.path, "udf."))
		}
		return
	}
}

// isDate tells whether a resolved part of a condition is sure to be a date.
func (r *resolver) isDate(n ast.Node) bool {
	if call, ok := n.(*ast.CallNode); ok {
		callee, ok := call.Callee.(*ast.IdentifierNode)
		return ok && slices.Contains([]string{"ago", "ahead", "now", "date"}, callee.Value)
	}
	f := r.fieldOf(n)
	return f != nil && f.kind == output.KindDate && f.typ == typeOf(output.KindDate)
}

// fieldOf is the field that a resolved part of a condition is; nil if it is none.
func (r *resolver) fieldOf(n ast.Node) *conditionField {
	id, ok := n.(*ast.IdentifierNode)
	if !ok {
		return nil
	}
	for i := range r.fields {
		if r.fields[i].name == id.Value {
			return &r.fields[i]
		}
	}
	return nil
}
