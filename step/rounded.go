package step

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// A recordedSum is what calls gave for a value, added up: their recorded gradients, where replay judged all of these.
// They were rounded already: one is read as it is, and a sum has the rounding of its additions.
type recordedSum struct {
	addition
	parts []*Value
	dtype tensor.DType // in which they were added
}

// sumRecorded adds up the recorded gradients of the parameter that readings read, as the gradient v of it; nil if one
// is not known.
func (v *Value) sumRecorded(readings []*Value, opt Options) (*recordedSum, error) {
	sum, steps := recordedSum{dtype: v.DType}, map[*Step]bool{}
	for _, r := range readings {
		g := r.Call.gradientOf(r)
		if g == nil || !g.like(v) || !g.passes() {
			return nil, nil
		}
		if !slices.Contains(sum.parts, g) {
			sum.parts = append(sum.parts, g)
			if steps[r.Call.Step] { // autograd adds them before it casts them to the dtype of the parameter
				sum.dtype = v.coarsest(readings)
			}
			steps[r.Call.Step] = true
		}
	}
	for _, g := range sum.parts {
		if err := g.with(opt, func(t *tensor.Tensor) { sum.addElements(tensor.Data[float64](t)) }); err != nil {
			return nil, err
		}
	}
	sum.n-- // one part is not rounded again
	return &sum, nil
}

// fits reports whether elements are the sum.
func (s *recordedSum) fits(x []float64) bool {
	_, ok := s.near(x, s.dtype)
	return ok
}

// settleRecorded links a gradient that an update reads if it is the sum of the recorded gradients of the parameter.
// Then the reference need not compute that again: replay compared each with it.
func (b *weightBridge) settleRecorded(v *Value, readings []*Value, opt Options) (done bool, err error) {
	if b.recorded == nil {
		if b.recorded, err = v.sumRecorded(readings, opt); b.recorded == nil || err != nil {
			return false, err
		}
	}
	sum := b.recorded
	err = v.with(opt, func(t *tensor.Tensor) {
		x := tensor.Data[float64](t)
		if !sameShape(t.Shape, sum.parts[0].Shape) || !sum.fits(x) {
			return
		}
		_, n, telling, ok := outliers(x, sum.sums, sum.sizes, int(sum.n), v.coarsest(readings), 0.75)
		done = ok && n == 0 && telling > 0
	})
	if done {
		v.explained()
	}
	return done, err
}

// explained links a gradient that is what the calls give which read its parameter.
func (v *Value) explained() {
	v.unlink()
	v.From = Link{How: ByContent, Role: "gradient", Parts: v.From.Parts}
}

// offRecorded says how a gradient that an update reads differs from the recorded gradients of the parameter, "" if it
// does not, or if these do not tell. x are its elements, which are near what the reference gives. In a path of 16 bits
// much is near.
func (v *Value) offRecorded(readings []*Value, x []float64, opt Options) (off string, err error) {
	if v.Kind != inputKind {
		return "", nil
	}
	sum, err := v.sumRecorded(readings, opt)
	if sum == nil || err != nil || len(sum.parts) == 0 || sum.fits(x) {
		return "", err
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
