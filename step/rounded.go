package step

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// offRecorded says how a gradient that an update reads differs from the recorded gradients of the parameter, "" if it
// does not, or if these do not tell. x are its elements, which are near what the reference gives. In a path of 16 bits
// much is near. The recorded gradients were rounded already: one is read as it is, and a sum has the rounding of its
// additions.
func (v *Value) offRecorded(readings []*Value, x []float64, opt Options) (off string, err error) {
	if v.Kind != inputKind {
		return "", nil
	}
	var parts []*Value
	dt, steps := v.DType, map[*Step]bool{}
	for _, r := range readings {
		g := r.Call.gradientOf(r)
		if g == nil || !g.like(v) || !g.passes() {
			return "", nil
		}
		if !slices.Contains(parts, g) {
			parts = append(parts, g)
			if steps[r.Call.Step] { // autograd adds them before it casts them to the dtype of the parameter
				dt = v.coarsest(readings)
			}
			steps[r.Call.Step] = true
		}
	}
	var sum addition
	for _, g := range parts {
		if err := g.with(opt, func(t *tensor.Tensor) { sum.addElements(tensor.Data[float64](t)) }); err != nil {
			return "", err
		}
	}
	sum.n-- // one part is not rounded again
	if _, ok := sum.near(x, dt); ok || len(parts) == 0 {
		return "", nil
	}
	return departs(x, sum.sums, v.Shape), nil
}

// passes reports whether a recorded gradient was compared with the reference, which gives it.
func (v *Value) passes() bool {
	return v.Kind == capture.GradInputs && slices.ContainsFunc(v.Call.Checks, func(c Check) bool {
		ok := c.Verdict == verdict.Pass || c.Verdict == verdict.Warn
		return ok && c.Phase == replay.Backward && c.Target == v.Target
	})
}
