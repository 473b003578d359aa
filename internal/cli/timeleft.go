package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/optool/optool/reports"
)

// leftOut are the calls that could not be measured.
type leftOut struct {
	unsupported []unsupportedOp
	failed      bool // a device's function failed, died or did not come back
	forward     int  // calls whose backward pass the device does not have
}

// An unsupportedOp is an op that the reference or the device does not have, with
// the reason of its first call.
type unsupportedOp struct {
	op     string
	calls  int
	reason string
}

func (l *leftOut) add(op, reason string) {
	for i := range l.unsupported {
		if u := &l.unsupported[i]; u.op == op {
			u.calls++
			return
		}
	}
	l.unsupported = append(l.unsupported, unsupportedOp{op, 1, reason})
}

// print lists what is not supported.
func (l *leftOut) print(w io.Writer, width int) error {
	if len(l.unsupported) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	list := reports.NewListing(w, width, "not supported", "calls", "why")
	list.Right(1)
	for _, u := range l.unsupported {
		if err := list.Add(u.op, strconv.Itoa(u.calls), u.reason); err != nil {
			return err
		}
	}
	return list.Flush()
}
