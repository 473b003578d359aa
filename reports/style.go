package reports

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/optool/optool/compare/verdict"
)

// A Style is how text for people is laid out.
type Style struct {
	Width      int  // columns that lines keep to, 0 for no limit; commands and paths are never broken
	TableWidth int  // columns of op_tools' tables, 0 for no limit
	Color      bool // verdicts are coloured
	Tables     bool // also what passed, and op_tools' tables
	Quiet      bool // findings and the last line alone
}

// colors are those of verdicts; what is not listed is plain.
var colors = map[verdict.Verdict]text.Colors{
	verdict.Pass: {text.FgGreen}, verdict.Warn: {text.FgYellow}, verdict.Fail: {text.Bold, text.FgRed},
	verdict.Mistrusted: {text.FgYellow}, verdict.Unsupported: {text.FgCyan}, verdict.Known: {text.FgMagenta},
	verdict.StillWrong: {text.FgRed}, verdict.Repaired: {text.FgGreen},
	verdict.Invalid: {text.FgMagenta},
	verdict.Error:   {text.FgMagenta}, verdict.Timeout: {text.Bold, text.FgRed},
	verdict.Crash: {text.Bold, text.FgRed},
}

// Paint colours s as what v says.
func (st Style) Paint(v verdict.Verdict, s string) string { return st.in(colors[v], s) }

// Bold is for what is read first.
func (st Style) Bold(s string) string { return st.in(text.Colors{text.Bold}, s) }

func (st Style) in(c text.Colors, s string) string {
	if !st.Color || len(c) == 0 {
		return s
	}
	return c.EscapeSeq() + s + text.Reset.EscapeSeq()
}

// Wrap breaks s between words at the width; what follows the first line is indented.
func (st Style) Wrap(s string, indent int) string {
	if st.Width <= 0 {
		return s
	}
	lines := wrapped(s, max(st.Width-indent, leastText))
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// WrapCommand is Wrap of a text that ends with a command. Where they need several lines, the command has one of its
// own, whole, so that it can be copied.
func (st Style) WrapCommand(s, command string, indent int) string {
	text, ends := strings.CutSuffix(s, command)
	if whole := st.Wrap(s, indent); !ends || command == "" || !strings.Contains(whole, "\n") {
		return whole
	}
	return st.Wrap(strings.TrimRight(text, " "), indent) + "\n" + strings.Repeat(" ", indent) + Command(command)
}

// Hang is s wrapped behind a head, further lines indented.
func (st Style) Hang(head, s string, indent int) string {
	if st.Width <= 0 {
		return s
	}
	lines := wrapped(s, max(st.Width-max(indent, text.StringWidthWithoutEscSequences(head)), leastText))
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// leastText is the narrowest column of text, in columns.
const leastText = 24

// wrapped breaks s between words into lines of at most width columns; longer words
// are broken too.
func wrapped(s string, width int) []string {
	lines := strings.Split(text.WrapSoft(s, width), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// shortenLeft cuts s to a width by leaving out its beginning, at a dot if it can.
func shortenLeft(s string, width int) string {
	if text.StringWidthWithoutEscSequences(s) <= width {
		return s
	}
	for rest := s; ; {
		_, after, found := strings.Cut(rest, ".")
		if !found {
			break
		}
		if rest = after; text.StringWidthWithoutEscSequences(rest) < width {
			return "…" + rest
		}
	}
	r := []rune(s)
	at := len(r)
	for left := width - 1; at > 0; at-- {
		if left -= text.RuneWidth(r[at-1]); left < 0 {
			break
		}
	}
	return "…" + string(r[at:])
}
