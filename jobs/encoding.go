package jobs

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"rmmjob/internal/spell"
)

// utf8Name is the one encoding that is read without conversion.
const utf8Name = "utf-8"

// codec is an encoding by the name that job files use. The decoder is nil for UTF-8.
type codec struct {
	name    string
	decoder encoding.Encoding
}

// codecs are the encodings of input files, in the order in which they are shown. They are found by exact name: the web's
// list of labels lacks the code pages of the Windows console and takes Latin-1 for Windows-1252.
var codecs = []codec{
	{utf8Name, nil},
	{"utf-16le", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{"utf-16be", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	{"windows-1250", charmap.Windows1250},
	{"windows-1251", charmap.Windows1251},
	{"windows-1252", charmap.Windows1252},
	{"windows-1253", charmap.Windows1253},
	{"windows-1254", charmap.Windows1254},
	{"windows-1257", charmap.Windows1257},
	{"iso-8859-1", charmap.ISO8859_1},
	{"iso-8859-2", charmap.ISO8859_2},
	{"iso-8859-15", charmap.ISO8859_15},
	{"cp437", charmap.CodePage437},
	{"cp850", charmap.CodePage850},
	{"cp852", charmap.CodePage852},
	{"cp858", charmap.CodePage858},
	{"cp866", charmap.CodePage866},
	{"macintosh", charmap.Macintosh},
}

// aliases are other names in use, without the signs that people vary.
var aliases = map[string]string{
	"latin1": "iso-8859-1", "latin9": "iso-8859-15", "ibm437": "cp437", "ibm850": "cp850", "ibm852": "cp852",
	"macroman": "macintosh", "utf16": "utf-16le", "unicode": "utf-16le",
}

// Encodings lists the names that a job may give for the encoding of its rows.
func Encodings() []string {
	names := make([]string, len(codecs))
	for i, c := range codecs {
		names[i] = c.name
	}
	return names
}

// encodingOf finds an encoding by its name. Case, hyphens, underscores and blanks do not count, and cp1252 is
// windows-1252.
func encodingOf(name string) (codec, bool) {
	folded := spell.Fold(name)
	if other, ok := aliases[folded]; ok {
		folded = spell.Fold(other)
	}
	if page, ok := strings.CutPrefix(folded, "cp125"); ok {
		folded = "windows125" + page
	}
	i := slices.IndexFunc(codecs, func(c codec) bool { return spell.Fold(c.name) == folded })
	if i < 0 {
		return codec{}, false
	}
	return codecs[i], true
}

// marks are the byte order marks, the longest first: that of UTF-32 begins like that of UTF-16.
var marks = []struct {
	mark, name string
}{
	{"\x00\x00\xfe\xff", "utf-32"},
	{"\xff\xfe\x00\x00", "utf-32"},
	{"\xef\xbb\xbf", utf8Name},
	{"\xff\xfe", "utf-16le"},
	{"\xfe\xff", "utf-16be"},
}

// detectUnicode tells which form of Unicode a file has by its first bytes, and how many of them are its byte order mark.
// What shows no sign of another form is UTF-8.
func detectUnicode(head []byte) (name string, mark int) {
	for _, m := range marks {
		if bytes.HasPrefix(head, []byte(m.mark)) {
			return m.name, len(m.mark)
		}
	}
	// Without a mark, UTF-16 of mostly western text has a zero in every other place and hardly one in the rest.
	var zeros [2]int
	pairs := min(len(head), 512) / 2
	for i, c := range head[:2*pairs] {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case pairs > 1 && zeros[1]*10 >= pairs*6 && zeros[0]*10 < pairs:
		return "utf-16le", 0
	case pairs > 1 && zeros[0]*10 >= pairs*6 && zeros[1]*10 < pairs:
		return "utf-16be", 0
	}
	return utf8Name, 0
}

// unicodeText gives text in UTF-8 without its byte order mark. It does not look for bytes that are no UTF-8.
func unicodeText(data []byte) ([]byte, error) {
	name, mark := detectUnicode(data)
	if name == utf8Name {
		return data[mark:], nil
	}
	c, ok := encodingOf(name)
	if !ok {
		return nil, errors.New("the file is " + strings.ToUpper(name))
	}
	return c.decoder.NewDecoder().Bytes(data[mark:])
}

// reader converts to UTF-8. What cannot be converted becomes U+FFFD, for the caller to find.
func (c codec) reader(r io.Reader) io.Reader {
	if c.decoder == nil {
		return r
	}
	return transform.NewReader(r, c.decoder.NewDecoder())
}
