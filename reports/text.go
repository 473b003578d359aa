package reports

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
)

// Lengths of the longest texts from outside that are printed whole, in characters.
const (
	longestText = 1000
	longestName = 200
	longestCell = 32_767 // of a spreadsheet
)

// OneLine makes a text that came from outside (a file, a device, the environment) safe for one
// line of a terminal or a report. What does not print is written as Go writes it in a string:
// line breaks, escape sequences, and characters that change the direction of text. A text of more
// than 1,000 characters is shortened: "..." stands for its end.
func OneLine(s string) string { return truncate(escape(s), longestText) }

// Name is OneLine for a name that stands beside others, of 200 characters at most.
func Name(s string) string { return truncate(escape(s), longestName) }

// opName is Name for an operator, and says so of a file that does not tell its operator.
func opName(op string) string { return cmp.Or(Name(op), "unreadable file") }

// Cell is OneLine for a cell of a table in a file, which may hold as much as a spreadsheet takes, and lines.
func Cell(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return truncate(strings.Join(lines, "\n"), longestCell)
}

// Command is OneLine for a command line, which is of no use in part: it is never shortened.
func Command(s string) string { return escape(s) }

// truncate cuts s to n characters, of which "..." are the last three.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	characters, end := 0, 0
	for i := range s {
		if characters == n-3 {
			end = i
		}
		if characters++; characters > n {
			return s[:end] + "..."
		}
	}
	return s
}

func escape(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD") // a byte of its own may be a control character of an 8-bit terminal
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
