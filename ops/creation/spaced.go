package creation

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// arangeDType is the dtype of a range of the given numbers; nil if all are
// integers, which give int64.
func arangeDType(dt *tensor.DType, ns ...opdef.Scalar) *tensor.DType {
	if dt != nil {
		return dt
	}
	d := tensor.Int64
	for _, n := range ns {
		if n.Kind() >= tensor.KindFloat {
			d = tensor.DefaultDType
		}
	}
	return &d
}

func arange(a *arangeArgs) ([]*tensor.Tensor, error) {
	dt := *arangeDType(a.Dtype, a.Start, a.End, a.Step)
	start, end, step := a.Start.Float64(), a.End.Float64(), a.Step.Float64()
	switch {
	case dt == tensor.Bool || dt.IsComplex():
		return nil, opdef.Refuse("dtype", "not defined for dtype %s", dt)
	case step == 0 || step != step || dt.IsIntegral() && a.Step.Int64() == 0:
		return nil, opdef.Refuse("step", "must not be 0")
	case !elements.IsFinite(start) || !elements.IsFinite(end):
		return nil, opdef.Refuse("end", "no range from %v to %v", start, end)
	case step > 0 && end < start || step < 0 && end > start:
		return nil, opdef.Refuse("step", "%v leads from %v away from %v", step, start, end)
	}
	if dt.IsIntegral() {
		lo, by := a.Start.Int64(), a.Step.Int64()
		n := int(math.Ceil((end - start) / step))
		if dt.Bits() == 64 { // torch counts in double precision for all others
			n = rangeLen(lo, a.End.Int64(), by)
		}
		if err := elements.CheckSize([]int{n}); err != nil {
			return nil, err
		}
		return elements.Result(tensor.Lazy(dt, []int{n}, 1, func(at int, dst []int64) {
			for i := range dst {
				dst[i] = lo + int64(at+i)*by
			}
		}))
	}
	n := int(math.Ceil((end - start) / step))
	if err := elements.CheckSize([]int{n}); err != nil {
		return nil, err
	}
	return elements.Result(tensor.Lazy(dt, []int{n}, 1, func(at int, dst []float64) {
		for i := range dst {
			dst[i] = start + float64(at+i)*step
		}
	}))
}

// rangeLen is the number of elements of a range of integers.
func rangeLen(start, end, step int64) int {
	n := (end - start) / step
	if n*step != end-start {
		n++
	}
	return int(n)
}

// arangeScale: the product and the sum are rounded to float32 by some.
func arangeScale(a *arangeArgs, outs []*tensor.Tensor) []*tensor.Tensor {
	start, step := a.Start.Float64(), a.Step.Float64()
	return []*tensor.Tensor{tensor.Lazy(tensor.Float64, outs[0].Shape, 1, func(lo int, dst []float64) {
		for i := range dst {
			dst[i] = math.Abs(start) + math.Abs(float64(lo+i)*step)
		}
	})}
}

// spaced is element i of n numbers from start to end: the second half is
// counted back from the end, as torch does.
func spaced[T float64 | complex128](start, end, step T, i, n int, scale func(k int) T) T {
	if i < n/2 {
		return start + step*scale(i)
	}
	return end - step*scale(n-1-i)
}

func checkSteps(n int) error {
	if n < 0 {
		return opdef.Refuse("steps", "must not be negative, got %d", n)
	}
	return elements.CheckSize([]int{n})
}

// spacedTensor computes f of evenly spaced numbers.
func spacedTensor(start, end opdef.Scalar, n int, dt tensor.DType, f func(float64) float64,
	c func(complex128) complex128) (*tensor.Tensor, error) {
	if err := checkSteps(n); err != nil {
		return nil, err
	}
	gaps := math.Max(1, float64(n-1))
	if dt.IsComplex() {
		a, b := start.Complex128(), end.Complex128()
		v := tensor.Make[complex128](n)
		for i := range v {
			v[i] = c(spaced(a, b, (b-a)/complex(gaps, 0), i, n,
				func(k int) complex128 { return complex(float64(k), 0) }))
		}
		if n == 1 {
			v[0] = c(a)
		}
		return tensor.New(dt, []int{n}, v), nil
	}
	if start.Kind() == tensor.KindComplex || end.Kind() == tensor.KindComplex {
		return nil, opdef.Refuse("dtype", "complex ends need a complex dtype, got %s", dt)
	}
	a, b := start.Float64(), end.Float64()
	if dt.IsIntegral() {
		a, b = math.Trunc(a), math.Trunc(b)
	}
	step := (b - a) / gaps
	if dt.IsIntegral() {
		step = float64(float32(b-a) / float32(gaps))
	}
	v := tensor.Make[float64](n)
	for i := range v {
		v[i] = spaced(a, b, step, i, n, func(k int) float64 { return float64(k) })
		if dt.IsIntegral() {
			v[i] = float64(float32(v[i]))
		}
		v[i] = f(v[i])
	}
	if n == 1 {
		v[0] = f(a)
	}
	return opdef.Cast(tensor.New(tensor.Float64, []int{n}, v), dt), nil
}

func linspace(a *linspaceArgs) ([]*tensor.Tensor, error) {
	dt := tensor.DefaultDType
	if a.Start.Kind() == tensor.KindComplex || a.End.Kind() == tensor.KindComplex {
		dt = dt.Complex()
	}
	t, err := spacedTensor(a.Start, a.End, a.Steps, elements.OrElse(a.Dtype, dt), func(x float64) float64 { return x },
		func(x complex128) complex128 { return x })
	return []*tensor.Tensor{t}, err
}

func logspace(a *logspaceArgs) ([]*tensor.Tensor, error) {
	dt := tensor.DefaultDType
	if a.Start.Kind() == tensor.KindComplex || a.End.Kind() == tensor.KindComplex {
		dt = dt.Complex()
	}
	dt = elements.OrElse(a.Dtype, dt)
	t, err := spacedTensor(a.Start, a.End, a.Steps, dt, func(x float64) float64 {
		y := math.Pow(a.Base, x)
		if dt.IsIntegral() { // torch takes the power in float32
			y = float64(float32(y))
		}
		return y
	}, func(x complex128) complex128 { return kernel.PowC(complex(a.Base, 0), x) })
	return []*tensor.Tensor{t}, err
}
