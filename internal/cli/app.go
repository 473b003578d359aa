package cli

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
)

// An app is what every command has: streams and the flags of the root.
type app struct {
	Streams
	quiet bool
	read  string
	jobs  int
	blas  string
	color string   // auto, always or never
	args  []string // the command line, for reports

	helpAll bool  // --help-all: help describes all flags
	helpErr error // why help could not be written

	operators []string // --ops
	own       []ownOperators
	registry  *opdef.Registry // with them, nil if there are none: see known
	// config is the file of flags that were taken besides, and these; "" for none.
	config string
	cutOff *atomic.Int32 // the exit code of a command that an interruption cuts off
}

// traceVariable has the stack of each internal error printed, for a report of the bug.
const traceVariable = "OPTOOL_TRACE"

func traceHint() string {
	if os.Getenv(traceVariable) != "" {
		return ""
	}
	return " (" + traceVariable + "=1 prints where)"
}

func traceStack(s Streams, stack []byte) {
	if os.Getenv(traceVariable) != "" {
		fmt.Fprintf(s.Err, "%s\n", stack)
	}
}

func (a *app) readMode() (pthformat.ReadMode, error) {
	switch a.read {
	case "mmap":
		return pthformat.Mmap, nil
	case "plain":
		return pthformat.Plain, nil
	}
	return 0, usageError("--read: want mmap or plain, got %q", a.read)
}

// ownOperators are a file or a folder of operators of the user's.
type ownOperators struct{ kind, name, path string }

// say prints a line about what is done, for people.
func (a *app) say(line string) {
	if !a.quiet {
		fmt.Fprintln(a.Err, line)
	}
}
