package cli

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// program is how to call this program again, for a shell: by the path it was
// called by, else by its name.
func program() string {
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		return quote(os.Args[0])
	}
	return "optool"
}

// quote quotes an argument for a POSIX shell where it has to be; what does not
// print, line breaks and escape sequences among it, as $'...', which bash, zsh
// and ksh know.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-/+=:@,", r))
	}) < 0 {
		return s
	}
	if !utf8.ValidString(s) || strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		var b strings.Builder
		for _, c := range []byte(s) {
			switch {
			case c == '\'' || c == '\\':
				b.Write([]byte{'\\', c})
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\%03o`, c)
			default:
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
