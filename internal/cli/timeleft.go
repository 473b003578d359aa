package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
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

// leave tells that a call cannot be measured: what is not supported is listed in
// the end, anything else is a warning at once.
func (t *timer) leave(e *capture.Entry, op string, err error) error {
	v := verdict.Error
	var failed *replay.CallError
	switch {
	case errors.Is(err, opdef.ErrUnknownOp):
		v = verdict.Unsupported
	case errors.Is(err, pthformat.ErrNothingSaved):
		t.left.add(op, pthformat.ErrNothingSaved.Error())
		return t.unmeasured(e, op, "", verdict.Invalid, err)
	case errors.As(err, &failed):
		v = failed.Verdict
	}
	switch v {
	case verdict.Unsupported:
		t.left.add(op, err.Error())
	case verdict.Error:
		t.tally.refused++
		t.warn("%s: %v", e.Rel, err)
	default:
		t.left.failed = true
		t.warn("%s: %v", e.Rel, err)
	}
	return t.unmeasured(e, op, "", v, err)
}

// forwardOnly tells that the device has no backward pass for a call.
func (t *timer) forwardOnly(k *timed.Task) error {
	t.left.forward++
	return t.unmeasured(k.Entry, k.Op, "backward", verdict.Unsupported, k.NoBackward)
}

// unmeasured writes the JSON line of a phase that was not measured, of the whole
// call if phase is empty.
func (t *timer) unmeasured(e *capture.Entry, op, phase string, v verdict.Verdict, err error) error {
	return t.json.write(struct {
		Kind      string          `json:"kind"`
		Capture   string          `json:"capture"`
		Op        string          `json:"op"`
		ForwardID *int            `json:"forward_id"`
		Phase     string          `json:"phase"`
		Verdict   verdict.Verdict `json:"verdict"`
		Reason    string          `json:"reason"`
	}{"unmeasured", e.Rel, op, results.Known(e.ID), phase, v, err.Error()})
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
