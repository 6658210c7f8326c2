package rmmsim

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// object makes a JSON object of alternating keys and values, in that order.
// Bytes of the fleet must not depend on map order, and pages of 300 UDFs a
// device must be quick, so the common types are written directly.
func object(pairs ...any) json.RawMessage {
	b := make([]byte, 0, 64+len(pairs)*12)
	b = append(b, '{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, pairs[i].(string))
		b = append(b, ':')
		b = appendValue(b, pairs[i+1])
	}
	return append(b, '}')
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendText(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case json.RawMessage:
		if v == nil {
			return append(b, "null"...)
		}
		return append(b, v...)
	case []json.RawMessage:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, item...)
		}
		return append(b, ']')
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			panic("rmmsim: a value of the simulator itself is not JSON: " + err.Error())
		}
		return append(b, raw...)
	}
}

// appendText writes a JSON string without the HTML escapes of encoding/json,
// which the real service does not use either.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // a string always encodes
			return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// orNull is null for an empty text.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
