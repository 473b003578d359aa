package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Due is a value that the call gives.
type Due struct {
	Name string         // "output[0]", "weight"
	Want *tensor.Tensor // of the reference, unrounded; nil for None
	// Allowed is how far each element may be off: see compare.Allowed. It is what the verdict goes by: strict if the
	// recorded value fails.
	Allowed *tensor.Tensor
	// Together bounds what the elements have in common, nil if the recorded value does not fail by that.
	Together *compare.Together
	// Worst is the element that the verdict names if the recorded value fails, nil if it does not.
	Worst []int
}

// due is a value of the call that has a precision, Invalid for that of its dtype, with what it may be off by; of is
// what comparing the recorded one found, nil if nothing.
func (c *Call) due(name string, l label, want *tensor.Tensor, precision tensor.DType, b opdef.Bound, of *Result) Due {
	r := &comparison{Call: c}
	_, asked := c.opt.Tolerances.For(c.Op, b.Class.String(), l.label, want.DType)
	d := Due{Name: name, Want: want}
	d.Allowed = compare.Allowed(want, r.model(l.phase, b, precision), asked, of.fails())
	d.failed(of)
	return d
}

// failed notes how the recorded value failed, if it did.
func (d *Due) failed(of *Result) {
	if of.fails() && of.Compared != nil {
		d.Together, d.Worst = of.Compared.Together, of.Compared.WorstIndex
	}
}

func (r *Result) fails() bool { return r != nil && r.Verdict == verdict.Fail }

// result is what was found of a value, nil if nothing was.
func (o *Outcome) result(phase Phase, target string) *Result {
	if o == nil {
		return nil
	}
	for i := range o.Results {
		if r := &o.Results[i]; r.Phase == phase && r.Target == target {
			return r
		}
	}
	return nil
}

// failingGradient is the first gradient of a shape that fails, nil if none does: recorded gradients have other numbers
// than those of the arguments.
func (o *Outcome) failingGradient(shape []int) *Result {
	if o == nil {
		return nil
	}
	for i := range o.Results {
		if r := &o.Results[i]; r.Phase == Backward && r.fails() && slices.Equal(r.Shape, shape) {
			return r
		}
	}
	return nil
}

// DueOutputs are the results. It needs Start, as do the others; o is what Compare found, nil if nothing.
func (c *Call) DueOutputs(o *Outcome) []Due {
	out := make([]Due, len(c.fwd.Outs))
	for i, t := range c.fwd.Outs {
		l := leaf(Forward, "output", i, len(out))
		of := o.result(Forward, l.target)
		if of != nil && of.DType.IsFloat() {
			t = opdef.Cast(t, (&comparison{Call: c}).mixedDType(of.DType, t.DType))
		}
		out[i] = c.due(l.target, l, t, c.mixed, c.bound.OutBound(c.fwd, i), of)
	}
	return out
}

// DueArguments are the tensors among the recorded arguments after the call, without a value where the call keeps them;
// nil if it changes none.
func (c *Call) DueArguments(o *Outcome) []Due {
	now := (&comparison{Call: c}).changedArguments()
	if len(now) == 0 {
		return nil
	}
	inputs := c.Record.Inputs()
	out := make([]Due, len(inputs))
	for i, t := range inputs {
		out[i].Name = fmt.Sprintf("input[%d]", i)
		if n, ok := now[t]; ok {
			out[i] = c.due(out[i].Name, leaf(Input, "input", i, len(inputs)), n.value, tensor.Invalid, n.bound,
				o.result(Input, out[i].Name))
		}
		for _, a := range c.bound.Tensors() {
			if (&comparison{Call: c}).recorded(a.Tensor) == t {
				out[i].Name = a.String()
			}
		}
	}
	return out
}

// DueGradients are those of the tensors that require one, in the order of the arguments, each tensor once; nil if the
// call has no backward pass.
func (c *Call) DueGradients(o *Outcome) ([]Due, error) {
	d := c.DeviceCall(true)
	if len(d.Need) == 0 {
		return nil, nil
	}
	need := map[string]bool{}
	for _, name := range d.Need {
		need[name] = true
	}
	grads, err := d.Call.Backward(d.Forward, d.GradOutputs, need)
	if err != nil {
		return nil, err
	}
	var wanted []opdef.Arg
	for _, a := range d.Call.Tensors() {
		again := slices.ContainsFunc(wanted, func(b opdef.Arg) bool { return a.Tensor == b.Tensor })
		if a.Tensor.RequiresGrad && !again {
			wanted = append(wanted, a)
		}
	}
	out := make([]Due, len(wanted))
	for i, a := range wanted {
		k := max(a.Index, 0)
		out[i].Name = a.String()
		if g := grads[a.Name]; k < len(g) && g[k] != nil {
			want, precision := c.leafGradient(g[k], c.recorded(a.Tensor).DType)
			out[i] = c.due(out[i].Name, leaf(Backward, "grad", i, len(wanted)), want, precision,
				d.Call.GradBound(d.Forward, d.GradOutputs, grads, a.Name, k), o.failingGradient(g[k].Shape))
			out[i].Worst = nil // an element of what was recorded
		}
	}
	return out, nil
}

// leafGradient is the gradient g of an argument that was recorded in dtype dt, as autograd gives it, and its precision,
// Invalid for that of its dtype: it passes through the cast of the argument.
func (c *Call) leafGradient(g *tensor.Tensor, dt tensor.DType) (*tensor.Tensor, tensor.DType) {
	if g.DType != dt && g.DType.IsFloat() && dt.IsFloat() {
		return opdef.Cast(g, dt), g.DType
	}
	return g, (&comparison{Call: c}).narrowed(dt)
}

// DueRecordedGradients are what the recorded gradients should be, in their order, after Compare without a device. There
// is no value for those that were not compared.
func (c *Call) DueRecordedGradients(o *Outcome) []Due {
	if c.opt.Device != nil || c.values.GradInputs == nil {
		return nil
	}
	out := make([]Due, len(flatten(c.values.RecordedGradInputs)))
	for i := range out {
		out[i].Name = gradTarget(i)
		for _, r := range o.Results {
			if r.Phase != Backward || r.Target != out[i].Name || r.Compared == nil || r.Verdict == verdict.Skipped ||
				r.Compared.Allowed == nil {
				continue
			}
			if got, want, ok := c.Pair(&r); ok {
				if got.DType.IsFloat() && want.DType.IsFloat() {
					want = opdef.Cast(want, got.DType)
				}
				out[i].Want, out[i].Allowed = want, r.Compared.Allowed(r.fails())
				out[i].failed(&r)
			}
		}
	}
	return out
}

// ByElement reports whether a value that failed has an element that is wrong by itself, as far as that is known. Others
// are wrong in all elements together, in the sign of zeros or in their dtype: who compares element by element does not
// see it.
func (c *Call) ByElement(r *Result) bool {
	if r.Compared == nil {
		return true
	}
	got, want, ok := c.Pair(r)
	if r.Phase == Input {
		_, got, want, ok = c.ArgumentPair(r.Target)
	}
	if !ok || r.Compared.Allowed == nil || !slices.Equal(got.Shape, want.Shape) {
		return r.Compared.Mismatched > 0 || len(r.Compared.WorstIndex) == 0
	}
	beyond := 0
	err := Guard(func() error {
		beyond = compare.Beyond(got, want, r.Compared.Allowed(r.fails()))
		return nil
	})
	return err != nil || beyond > 0
}
