package jobs

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// within is the place in the file of a character of a text, counted from 0. YAML writes a text in several ways; where
// the way is too involved (escapes by number, quotes over several lines), it is the place where the text begins.
func (d *decoder) within(n *yaml.Node, at int) Pos {
	start := d.pos(n.Line, n.Column)
	if n.Line < 1 || n.Line > len(d.lines) {
		return start
	}
	before := []rune(n.Value)[:min(at, len([]rune(n.Value)))]
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return d.withinBlock(n, string(before), start)
	case strings.ContainsRune(n.Value, '\n'):
		return start
	}
	line := []rune(d.lines[n.Line-1])
	i := n.Column - 1
	if i < 0 || i > len(line) {
		return start
	}
	quote := rune(0)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		quote = '\''
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			quote = '"'
		}
		i++
	}
	for _, r := range before {
		if i >= len(line) {
			return start
		}
		if quote == '\'' && r == quote || quote == '"' && line[i] == '\\' {
			i++ // two quotes, or a backslash and the character
		}
		if i >= len(line) || line[i] != r {
			return start
		}
		i++
	}
	return d.pos(n.Line, i+1)
}

// withinBlock is within for a text that is written below its key, after | or >.
func (d *decoder) withinBlock(n *yaml.Node, before string, start Pos) Pos {
	row := n.Line // of the first line of the text, from 0
	for row < len(d.lines) && strings.TrimSpace(d.lines[row]) == "" {
		row++
	}
	if row == len(d.lines) {
		return start
	}
	indent := len(indentation(d.lines[row]))
	row = n.Line
	left := before
	for ; row < len(d.lines); row++ {
		text := strings.TrimPrefix(d.lines[row], d.lines[row][:min(indent, len(d.lines[row]))])
		if len(left) <= len(text) {
			if !strings.HasPrefix(text, left) {
				return start
			}
			return d.pos(row+1, indent+len([]rune(left))+1)
		}
		if !strings.HasPrefix(left, text) {
			return start
		}
		left = left[len(text)+1:] // with the line break, or the blank that stands for it
	}
	return start
}
