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
	config    string
	cutOff    *atomic.Int32 // the exit code of a command that an interruption cuts off
	reporting *reporting    // nil in tests
}

// A reporting is how far a command is with its reports, for an interruption.
type reporting struct {
	under   atomic.Bool            // they are being written, for which an interruption waits longer
	pending atomic.Pointer[string] // how they can be written later; nil where there are none
}

// owe notes that reports are to be written, and how they can be written later; nil: they are written.
func (r *reporting) owe(how *string) {
	if r != nil {
		r.pending.Store(how)
	}
}

// begin notes that reports are being written, until end is called.
func (r *reporting) begin() (end func()) {
	if r == nil {
		return func() {}
	}
	r.under.Store(true)
	return func() { r.under.Store(false) }
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
