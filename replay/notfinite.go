package replay

import (
	"fmt"
	"math"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A NotFinite is the first element of a call's results, or gradients, that is infinite or NaN.
type NotFinite struct {
	Phase  Phase
	Target string // "output[0]"
	Index  []int
	Value  float64
	DType  tensor.DType
	// Made says that all that the pass had, arguments and incoming gradients, is finite.
	Made bool
	// Exact is what the element is without rounding, if that is known: see Known.
	Exact float64
	Known bool
}

// String says which value it is, and Reason.
func (n *NotFinite) String() string { return n.Target + " " + n.Reason() }

// Mask reports whether the element is -inf and due to be, or not known not to be: masks of attention have such
// elements.
func (n *NotFinite) Mask() bool {
	return math.IsInf(n.Value, -1) && (!n.Known || math.IsInf(n.Exact, -1))
}

// Reason says where the element is, what it came from, and what it is without rounding.
func (n *NotFinite) Reason() string {
	s := fmt.Sprintf("at %s is %s", tensor.ShapeString(n.Index), infinite(n.Value))
	if n.Made {
		s += ", all inputs are finite"
		if n.Phase == Backward {
			s += " and so is the incoming gradient"
		}
	}
	switch {
	case !n.Known:
	case math.IsNaN(n.Exact) || math.IsInf(n.Exact, 0):
		s += "; the exact value is " + infinite(n.Exact) + ", too"
	case math.Abs(n.Exact) > n.DType.Max():
		s += fmt.Sprintf("; the exact value is %.6g, and %s ends at %.6g", n.Exact, n.DType, n.DType.Max())
	default:
		s += fmt.Sprintf("; the exact value is %.6g", n.Exact)
	}
	return s
}

func infinite(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case x > 0:
		return "inf"
	}
	return "-inf"
}

// notFinite looks for elements of recorded results, then gradients, that are not finite; nil if there are none. It also
// looks at calls of operators that nobody knows.
func (c *Call) notFinite() (n *NotFinite) {
	if c.pair || c.Record == nil || c.Record.Err(capture.Input) != nil {
		return nil
	}
	if c.bound != nil && c.bound.Random() == opdef.Uninitialised {
		return nil
	}
	_ = Guard(func() error { // of what cannot be read nothing is known
		outs := flatten(c.Record.Output)
		if n = firstOf(outs, Forward, "output"); n != nil {
			n.Made = c.finiteArguments()
		} else if n = firstOf(flatten(c.Record.GradInputs), Backward, "grad"); n != nil {
			n.Made = c.finiteArguments() && firstOf(flatten(c.Record.GradOutputs), Backward, "") == nil
		}
		if n == nil || quota.Stopped() {
			return nil
		}
		if _, want, ok := c.Pair(&Result{Phase: n.Phase, Target: n.Target}); ok && want.Numel() > 0 {
			if at := tensor.Ravel(n.Index, want.Shape); at >= 0 {
				n.Exact, n.Known = tensor.At[float64](want, at), true
			}
		}
		return nil
	})
	return n
}

// finiteArguments reports whether all numbers and tensors among the recorded arguments are finite.
func (c *Call) finiteArguments() bool {
	args := flatten(c.Record.Args)
	if c.Record.Kwargs != nil {
		for _, it := range c.Record.Kwargs.Items {
			args = append(args, flatten([]value.Value{it.Value})...)
		}
	}
	for _, v := range args {
		if x, ok := v.(float64); ok && x-x != 0 {
			return false
		}
	}
	return firstOf(args, Forward, "input") == nil
}

// firstOf is the first element of floating tensors that is not finite, nil if there is none.
func firstOf(values []value.Value, phase Phase, name string) *NotFinite {
	for i, v := range values {
		t, ok := v.(*tensor.Tensor)
		if !ok || !t.DType.IsFloat() {
			continue
		}
		buf := make([]float64, min(t.Numel(), 1<<14))
		for lo := 0; lo < t.Numel(); lo += len(buf) {
			part := buf[:min(len(buf), t.Numel()-lo)]
			tensor.Load(t, lo, part)
			for k, x := range part {
				if x-x != 0 {
					return &NotFinite{Phase: phase, Target: fmt.Sprintf("%s[%d]", name, i), Value: x, DType: t.DType,
						Index: tensor.Unravel(lo+k, t.Shape)}
				}
			}
		}
	}
	return nil
}
