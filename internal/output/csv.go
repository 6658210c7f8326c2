package output

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CSVOptions are the options of a CSV file. The zero value is the default:
// UTF-8 without a byte order mark, comma, CRLF.
type CSVOptions struct {
	// BOM starts the file with EF BB BF, without which Excel reads it in the
	// local code page.
	BOM bool
	// Delimiter stands between cells. Defaults to a comma.
	Delimiter rune
	// EOL ends a line: "\r\n" (the default) or "\n", also as the words crlf
	// and lf. Line breaks inside cells are not touched.
	EOL string
}

// CSV writes RFC 4180.
type CSV struct {
	w         *bufio.Writer
	columns   int
	rows      int64
	delimiter rune
	special   [256]bool // bytes that make quotes necessary
	eol       string
	err       error
}

// NewCSV starts a CSV file with its header. Cells are quoted where a reader
// would otherwise misread them: around the delimiter, quotes and line breaks,
// and also around blanks at either end, a # in front, and a single empty cell,
// which some readers drop. Nothing else is done to a value.
//
// The error is for options that make no readable file and for a failed write.
func NewCSV(w io.Writer, headers []string, opts CSVOptions) (*CSV, error) {
	c := &CSV{w: bufio.NewWriterSize(w, bufferSize), columns: len(headers), delimiter: opts.Delimiter}
	if c.delimiter == 0 {
		c.delimiter = ','
	}
	switch d := c.delimiter; {
	case d == '"', d == '\r', d == '\n', d == '\ufeff', d == utf8.RuneError, !utf8.ValidRune(d):
		return nil, fmt.Errorf("the delimiter %q cannot separate cells: take a comma, a semicolon, a tab or |", d)
	}
	switch opts.EOL {
	case "", "\r\n", "crlf":
		c.eol = "\r\n"
	case "\n", "lf":
		c.eol = "\n"
	default:
		return nil, fmt.Errorf("the line end %q is neither crlf nor lf", opts.EOL)
	}
	if len(headers) == 0 {
		return nil, fmt.Errorf("a CSV file needs at least one column")
	}
	// Of a delimiter of several bytes the first one counts: some quotes may be
	// more than needed, none can be missing.
	for _, b := range []byte{string(c.delimiter)[0], '"', '\r', '\n'} {
		c.special[b] = true
	}
	if opts.BOM {
		c.write("\ufeff")
	}
	for i, h := range headers {
		// Excel takes a file that begins with ID for a SYLK file.
		c.cell(i, h, i == 0 && strings.HasPrefix(h, "ID"))
	}
	c.write(c.eol)
	return c, c.err
}

// Row writes one row.
func (c *CSV) Row(row []Value) error {
	if c.err != nil {
		return c.err
	}
	if err := checkWidth(row, c.columns); err != nil {
		c.err = err
		return err
	}
	for i := range row {
		c.cell(i, row[i].Text, false)
	}
	c.write(c.eol)
	if c.err == nil {
		c.rows++
	}
	return c.err
}

// Rows is the number of rows so far, without the header.
func (c *CSV) Rows() int64 { return c.rows }

// Warnings tells of a file that is too long for Excel, which would show its
// first part without a word.
func (c *CSV) Warnings() []string {
	if c.rows < ExcelMaxRows {
		return nil
	}
	return []string{fmt.Sprintf("the CSV file has %d rows; Excel shows the first %d", c.rows, ExcelMaxRows-1)}
}

// Close writes what is buffered.
func (c *CSV) Close() error {
	if err := c.w.Flush(); c.err == nil {
		c.err = err
	}
	return c.err
}

func (c *CSV) cell(i int, text string, quote bool) {
	if i > 0 {
		if _, err := c.w.WriteRune(c.delimiter); err != nil && c.err == nil {
			c.err = err
		}
	}
	if !quote && !c.needsQuotes(text) {
		c.write(text)
		return
	}
	c.write(`"`)
	for {
		before, after, found := strings.Cut(text, `"`)
		c.write(before)
		if !found {
			break
		}
		c.write(`""`)
		text = after
	}
	c.write(`"`)
}

func (c *CSV) needsQuotes(text string) bool {
	if text == "" {
		return c.columns == 1
	}
	for i := range len(text) {
		if c.special[text[i]] {
			return true
		}
	}
	if text[0] == '#' || text == `\.` {
		return true
	}
	if first := text[0]; first < utf8.RuneSelf && first > ' ' {
		if last := text[len(text)-1]; last < utf8.RuneSelf && last > ' ' {
			return false
		}
	}
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	return unicode.IsSpace(first) || unicode.IsSpace(last) || first == '\ufeff'
}

func (c *CSV) write(s string) {
	if _, err := c.w.WriteString(s); err != nil && c.err == nil {
		c.err = err
	}
}
