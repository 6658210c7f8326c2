package output

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of a field of the API or of a cell.
type Kind uint8

// The kinds. Cells use all of them; fields all but KindNull. KindNull is the
// zero value.
const (
	KindNull   Kind = iota // nothing: missing, null, or a date that says "never"
	KindText               // text
	KindInt                // a number without fraction
	KindBool               // true or false
	KindDate               // an instant or a day, written in the chosen notation
	KindNumber             // a number with a fraction or an exponent
	KindObject             // a JSON object (or any value asked for as JSON)
	KindList               // a JSON list
)

var kindNames = [...]string{"null", "text", "int", "bool", "date", "number", "object", "list"}

// String gives the kind's name as the documentation uses it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

func kindOf(name string) (Kind, bool) {
	for i, n := range kindNames {
		if n == name && i > 0 {
			return Kind(i), true
		}
	}
	return KindNull, false
}

// Value is one cell. Text is what a text format writes: digits for numbers,
// true or false, the date in its notation, JSON text for objects and lists,
// and "" for KindNull. A writer of a typed format looks at Kind as well. The
// zero Value is an empty cell.
type Value struct {
	Kind Kind
	Text string
}

// plain gives the cell of a decoded value as it is, without regard to what the
// field should be.
func plain(v any) Value {
	switch v := v.(type) {
	case nil:
		return Value{}
	case string:
		return Value{KindText, v}
	case json.Number:
		return numberValue(plainNumber(v.String()))
	case bool:
		return Value{KindBool, strconv.FormatBool(v)}
	case []any:
		return Value{KindList, jsonText(v)}
	case map[string]any, Record:
		return Value{KindObject, jsonText(v)}
	default:
		// A caller may put its own Go values into a record.
		return Value{KindText, fmt.Sprint(v)}
	}
}

func numberValue(text string) Value {
	if strings.ContainsAny(text, ".eE") {
		return Value{KindNumber, text}
	}
	return Value{KindInt, text}
}
