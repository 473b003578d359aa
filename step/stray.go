package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// An errStray says why a program would have made other calls than it was recorded with.
type errStray string

func (e errStray) Error() string { return string(e) }

// handing are operators that give the program numbers, which it may decide by.
var handing = map[string]bool{"item": true, "tolist": true, "numpy": true, "__bool__": true, "__int__": true,
	"__index__": true}

// hands reports whether the call gives the program whole numbers.
func (c *Call) hands() bool {
	return handing[c.Op[strings.LastIndexByte(c.Op, '.')+1:]] && len(c.Inputs) == 1 && !c.Inputs[0].DType.IsFloat()
}

// handsFloat reports whether the call gives the program a floating number.
func (c *Call) handsFloat() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	return (handing[name] || name == "__float__") && len(c.Inputs) == 1 && c.Inputs[0].DType.IsFloat()
}

// escapes notes a call of an imagined run that gives the program another floating number than recorded: what the
// program does with it is in the recorded arguments of later calls, which stay as they are.
func (x *rerun) escapes(c *Call) {
	if x.whatIf == nil || x.escaped != nil || !c.handsFloat() {
		return
	}
	_ = c.Inputs[0].with(x.opt, func(got *tensor.Tensor) {
		now := x.input(c.Inputs[0], got)
		if now != nil && comparable(now, got) && distance(now, got, nil).square > 0 {
			x.escaped = c
		}
	})
}

// steered are the calls that results depend on, and, where floating numbers decide whole ones among them, those that
// give the program whole numbers.
func steered(of []*Value) []*Call {
	calls := Cone(of...)
	if !slices.ContainsFunc(calls, (*Call).Decides) {
		return calls
	}
	last := calls[len(calls)-1]
	for _, c := range last.Process.Calls {
		if c.Order < last.Order && c.hands() && c.Inputs[0].From.origin() != nil {
			calls = append(calls, c)
		}
	}
	return coneOf(calls)
}

// strays reports that a call of a rerun which is given other whole numbers than recorded makes the program take another
// way: it gives it more or fewer results, or elements where there were none, so that no calls with them were recorded
// (an expert without a token).
func (x *rerun) strays(c *Call, f *opdef.Forward) error {
	if f == nil || x.decisions || !c.decided() || !x.reads(c) {
		return nil
	}
	outs := tensorsIn(f.Value)
	if n, now := len(c.Outputs), len(outs); n > 0 && now != n {
		return errStray(fmt.Sprintf("it gives %d results, not the %d recorded", now, n))
	}
	for i, o := range c.Outputs {
		if o.Numel() == 0 && outs[i].Numel() > 0 && !c.Step.computesOnNone() {
			return errStray("it gives " + reports.Count(outs[i].Numel(), "element") + ", where there were none")
		}
	}
	return nil
}

// computesOnNone reports whether calls of the step read floating tensors without elements: the program does not look
// whether there are any.
func (s *Step) computesOnNone() bool {
	return s != nil && slices.ContainsFunc(s.Calls, func(c *Call) bool {
		return slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.Numel() == 0 && v.DType.IsFloat() })
	})
}

// tells reports that a call of a rerun gives the program other whole numbers than recorded.
func (x *rerun) tells(c *Call, rec *capture.Call) error {
	read := rec.Inputs()
	if x.decisions || len(read) != 1 {
		return nil
	}
	got := read[0]
	now := x.input(c.Inputs[0], got)
	if now == nil || sameShape(now.Shape, got.Shape) &&
		slices.Equal(tensor.Data[int64](now), tensor.Data[int64](got)) {
		return nil
	}
	return errStray("it gives the program other numbers than recorded")
}

// strayed adds a call to those where a run leaves the recorded way, if that is what err says.
func strayed(to *[]Break, c *Call, err error) bool {
	var stray errStray
	if !errors.As(err, &stray) {
		return false
	}
	*to = append(*to, Break{c, string(stray)})
	return true
}
