package replay

import (
	"cmp"
	"fmt"
	"math"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// notFinite looks for elements of recorded results, then gradients, that are not finite; nil if there are none. It also
// looks at calls of operators that nobody knows.
func (c *Call) notFinite() (n *NotFinite) {
	if n = c.NotFinite(); n == nil || quota.Stopped() {
		return n
	}
	_ = Guard(func() error { // of what cannot be computed nothing is known
		if _, want, ok := c.pairOf(&Result{Phase: n.Phase, Target: n.Target}); ok && want.Numel() > 0 {
			if at := tensor.Ravel(n.Index, want.Shape); at >= 0 {
				n.Exact, n.Known = tensor.At[float64](want, at), true
			}
		}
		return nil
	})
	return n
}

// NotFinite is the first element of recorded results, then gradients, that is not finite, as far as the recorded values
// tell: it computes nothing. It is nil if there is none.
func (c *Call) NotFinite() (n *NotFinite) {
	if c.pair || c.Record == nil || c.Record.Err(capture.Input) != nil {
		return nil
	}
	_ = Guard(func() error { // of what cannot be read nothing is known, nor of a call whose planning was stopped
		if c.bound != nil && c.bound.Random() == opdef.Uninitialised {
			return nil
		}
		had := c.arguments()
		if n = firstIn(c.Record.Output, Forward, "output"); n == nil {
			n = firstIn(c.Record.GradInputs, Backward, "grad")
			had = append(had, flatten(c.Record.GradOutputs)...)
		}
		n.madeOf(had)
		return nil
	})
	return n
}

// NotFiniteAfter is the first element that is not finite of what was recorded of the arguments that the call changed,
// after it. It is nil if there is none, and where it is not known what the call changes.
func (c *Call) NotFiniteAfter() (found *NotFinite) {
	if c.pair || c.fwd == nil || !c.Record.HasAfter {
		return nil
	}
	_ = Guard(func() error { // of what cannot be read nothing is known
		now := c.Changed()
		look := func(target string, before, after value.Value) {
			was, _ := before.(*tensor.Tensor)
			got, _ := after.(*tensor.Tensor)
			want := now[was]
			if want == nil || got == nil || c.Record.Unseen[got] {
				return
			}
			n := firstIn([]value.Value{got}, Input, "")
			if n == nil || found != nil && !(notOfMask(n.Value) && !notOfMask(found.Value)) {
				return
			}
			found, n.Target = n, target
			if at := tensor.Ravel(n.Index, want.Shape); at >= 0 && want.Numel() > 0 {
				n.Exact, n.Known = tensor.At[float64](want, at), true
			}
		}
		before, after := flatten(c.Record.Args), flatten(c.Record.After)
		for i := range min(len(before), len(after)) {
			look(fmt.Sprintf("input[%d]", i), before[i], after[i])
		}
		for _, it := range c.Record.Kwargs.Items {
			if key, ok := it.Key.(string); ok {
				v, _ := c.Record.AfterKwargs.Get(key)
				look(keyword(key).label, it.Value, v)
			}
		}
		found.madeOf(c.arguments())
		return nil
	})
	return found
}

// madeOf sets what the pass had; n may be nil.
func (n *NotFinite) madeOf(had []value.Value) {
	if n != nil {
		n.Made = firstOf(had, Forward, "", notFinite) == nil
		n.OfMask = !n.Made && !math.IsInf(n.Value, -1) && firstOf(had, Forward, "", notOfMask) == nil
	}
}

// firstIn is the first element that is not finite; one of -inf only if there is no other.
func firstIn(values []value.Value, phase Phase, name string) *NotFinite {
	flat := flatten(values)
	n := firstOf(flat, phase, name, notFinite)
	if n == nil || notOfMask(n.Value) {
		return n
	}
	return cmp.Or(firstOf(flat, phase, name, notOfMask), n)
}

func notFinite(x float64) bool { return x-x != 0 }

func notOfMask(x float64) bool { return notFinite(x) && !math.IsInf(x, -1) }

// arguments are all recorded arguments.
func (c *Call) arguments() []value.Value {
	args := flatten(c.Record.Args)
	if c.Record.Kwargs != nil {
		for _, it := range c.Record.Kwargs.Items {
			args = append(args, flatten([]value.Value{it.Value})...)
		}
	}
	return args
}

// firstOf is the first number, or element of floating tensors, that is as asked for; nil if there is none.
func firstOf(values []value.Value, phase Phase, name string, is func(float64) bool) *NotFinite {
	for i, v := range values {
		if x, ok := v.(float64); ok && is(x) {
			return &NotFinite{Phase: phase, Target: fmt.Sprintf("%s[%d]", name, i), Value: x, DType: tensor.Float64}
		}
		t, ok := v.(*tensor.Tensor)
		if !ok || !t.DType.IsFloat() {
			continue
		}
		short, _, err := tensor.Distinct(t)
		if err != nil {
			continue
		}
		t = short[0]
		if t.AllFinite() {
			continue
		}
		buf := make([]float64, min(t.Numel(), 1<<14))
		for lo := 0; lo < t.Numel(); lo += len(buf) {
			part := buf[:min(len(buf), t.Numel()-lo)]
			tensor.Load(t, lo, part)
			for k, x := range part {
				if is(x) {
					return &NotFinite{Phase: phase, Target: fmt.Sprintf("%s[%d]", name, i), Value: x, DType: t.DType,
						Index: tensor.Unravel(lo+k, t.Shape)}
				}
			}
		}
	}
	return nil
}
