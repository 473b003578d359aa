package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/lazyregexp"
)

// program is how to call this program again, for a shell: by the path it was
// called by, else by its name.
func program() string {
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		return quotePath(os.Args[0])
	}
	return "optool"
}

// quotePath quotes a path for a command that is run from another directory.
func quotePath(path string) string { return quote(absolute(path)) }

// pathOf is the path that names one capture.
func pathOf(e *capture.Entry) string {
	if e.Layout == capture.File {
		return e.Path(capture.Device, e.All()[0].Kind)
	}
	return e.Dir
}

// absolute is a path from the root, or as it was given where that is not known.
func absolute(path string) string {
	if abs, err := files.Abs(path); err == nil {
		return abs
	}
	return path
}

// quoteDevice quotes the name of a device: a word such as host, or the path of a
// library.
func quoteDevice(name string) string {
	if name == noDevice || name == devicebridge.Host || isTorch(name) {
		return name
	}
	return quotePath(name)
}

// variables are the environment variables of op_tools that decide what a comparison
// finds, those that select ops for a tool among them, as assignments to put before a
// command.
func variables(environ []string, tool string) []string {
	var out []string
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		decides := strings.Contains(name, "AUTOCOMPARE_ERROR_TOLERANCE") || strings.Contains(name, "OP_DTYPE_CAST_") ||
			strings.HasPrefix(name, "OP_FALLBACK_") || name == selects(tool) || name == deselects(tool)
		if decides && v != "" && variableName().MatchString(name) {
			out = append(out, name+"="+quote(v))
		}
	}
	slices.Sort(out)
	return out
}

// variableName is what a shell takes as the name of a variable.
var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

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
