package reports

import (
	"strconv"
	"strings"
	"unicode"
)

// longestText is the length of the longest text from outside that is printed whole, in characters.
const longestText = 1000

// OneLine makes a text that came from outside (a file, a device, the environment) safe for one
// line of a terminal or a report. What does not print is written as Go writes it in a string:
// line breaks, escape sequences, and characters that change the direction of text. A text of more
// than 1,000 characters is shortened: "..." stands for its end.
func OneLine(s string) string { return truncate(escape(s), longestText) }

// Command is OneLine for a command line, which is of no use in part: it is never shortened.
func Command(s string) string { return escape(s) }

// Lines is OneLine for a text of several lines.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = OneLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

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
