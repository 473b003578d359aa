package opdef

import "github.com/optool/optool/tensor"

// A BinarySteps gives the gradients of both operands as torch composes them of operators (Step, FloatStep), from the
// gradient of the result, the operands as they were given and the result as autograd saved it. A gradient that is
// nil is not known.
type BinarySteps func(up, x, y, z *tensor.Tensor) (dx, dy *tensor.Tensor)

// Step is f of tensors as an operator of torch gives it: broadcast, and rounded to the dtype that the operands promote
// to. nil if an operand is nil, or complex, or if the operands do not go together.
func Step(f func(v []float64) float64, ts ...*tensor.Tensor) *tensor.Tensor {
	return step(false, f, ts)
}

// FloatStep is a Step of an operator that gives float32 of integers, as quotients and logarithms do.
func FloatStep(f func(v []float64) float64, ts ...*tensor.Tensor) *tensor.Tensor {
	return step(true, f, ts)
}

func step(toFloat bool, f func(v []float64) float64, ts []*tensor.Tensor) *tensor.Tensor {
	for _, t := range ts {
		if t == nil {
			return nil
		}
	}
	dt := tensor.ResultType(ts...)
	ts, shape, err := BroadcastAll(ts...)
	if err != nil || dt == tensor.Invalid || dt.IsComplex() {
		return nil
	}
	if toFloat && !dt.IsFloat() {
		dt = tensor.DefaultDType
	}
	if dt.IsFloat() {
		return ZipN(dt, shape, func(dst []float64, src [][]float64) {
			eachStep(src, func(i int, v []float64) { dst[i] = f(v) })
			tensor.RoundBlock(dt, dst)
		}, ts...)
	}
	return ZipN(dt, shape, func(dst []int64, src [][]float64) {
		eachStep(src, func(i int, v []float64) { dst[i] = tensor.WrapInt(dt, int64(f(v))) })
	}, ts...)
}

// eachStep calls f for each index with the elements of all operands there.
func eachStep(src [][]float64, f func(i int, v []float64)) {
	v := make([]float64, len(src))
	for i := range src[0] {
		for k := range src {
			v[k] = src[k][i]
		}
		f(i, v)
	}
}

// The operators that gradients are composed of.
var (
	sum        = func(v []float64) float64 { return v[0] + v[1] }
	difference = func(v []float64) float64 { return v[0] - v[1] }
	product    = func(v []float64) float64 { return v[0] * v[1] }
	ratio      = func(v []float64) float64 { return v[0] / v[1] }
	negative   = func(v []float64) float64 { return -v[0] }
)

// StepSum is x + y, a Step.
func StepSum(x, y *tensor.Tensor) *tensor.Tensor { return Step(sum, x, y) }

// StepDifference is x - y, a Step.
func StepDifference(x, y *tensor.Tensor) *tensor.Tensor { return Step(difference, x, y) }

// StepProduct is x * y, a Step.
func StepProduct(x, y *tensor.Tensor) *tensor.Tensor { return Step(product, x, y) }

// StepRatio is x / y, a FloatStep.
func StepRatio(x, y *tensor.Tensor) *tensor.Tensor { return FloatStep(ratio, x, y) }

// StepNegative is -x, a Step: of uint8 it wraps around.
func StepNegative(x *tensor.Tensor) *tensor.Tensor { return Step(negative, x) }

// Else are the gradients by steps of operands x and y with the names nx and ny. There are none where each step has the
// precision of the result, and numbers of more than 16 bits.
func (s BinarySteps) Else(x, y *tensor.Tensor, nx, ny string, g *Grad) []Grads {
	dt := g.Outs[0].DType
	coarse := dt.IsHalf()
	for _, t := range []*tensor.Tensor{x, y} {
		coarse = coarse || !t.Wrapped && t.DType != dt
	}
	if s == nil || g.Out[0] == nil || !dt.IsFloat() || !coarse && !x.Wrapped {
		return nil
	}
	saved := Step(func(v []float64) float64 { return v[0] }, g.Outs[0])
	dx, dy := s(g.Out[0], x, y, saved)
	gr := Grads{}
	for _, p := range []struct {
		name      string
		t, onward *tensor.Tensor
	}{{nx, x, dx}, {ny, y, dy}} {
		if p.onward != nil && !p.t.Wrapped && g.Need(p.name) {
			gr.Set(p.name, SumTo(p.onward, p.t.Shape))
		}
	}
	return []Grads{gr}
}
