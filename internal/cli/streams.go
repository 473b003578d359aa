package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/optool/optool/reports"
)

// Streams are a command's standard streams. Data goes to Out, everything else
// to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// System returns the streams of the process.
func System() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// terminal returns the width of the terminal that w is, and whether it is one.
func terminal(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return width, true
}

// onTerminal reports whether data goes to a terminal.
func (s Streams) onTerminal() bool {
	_, ok := terminal(s.Out)
	return ok
}

// outputWidth is the width that tables for people keep to: COLUMNS if it is
// set, else that of the terminal, else 0 for no limit.
func (s Streams) outputWidth() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	width, _ := terminal(s.Out)
	return width
}

// tableWidth is the width that op_tools' tables keep to: that of the terminal,
// else 0 for no limit, since scripts read them.
func (s Streams) tableWidth() int {
	width, _ := terminal(s.Out)
	return width
}

// warn prints a message on standard error, on one line.
func (s Streams) warn(format string, args ...any) {
	fmt.Fprintf(s.Err, "optool: %s\n", reports.OneLine(fmt.Sprintf(format, args...)))
}
