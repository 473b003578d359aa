package pointwise

import (
	"cmp"
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type clampArgs struct{ Self, Min, Max *tensor.Tensor }

type clampMinArgs struct{ Self, Min *tensor.Tensor }

type clampMaxArgs struct{ Self, Max *tensor.Tensor }

func (a *clampArgs) terms() []*tensor.Tensor {
	ts := []*tensor.Tensor{a.Self}
	for _, b := range []*tensor.Tensor{a.Min, a.Max} {
		if b != nil {
			ts = append(ts, b)
		}
	}
	return ts
}

func clamp(a *clampArgs) ([]*tensor.Tensor, error) {
	ts := a.terms()
	if len(ts) == 1 {
		return nil, opdef.Refuse("min", "at least one of min and max must not be None")
	}
	dt := tensor.ResultType(ts...)
	if dt == tensor.Invalid || dt.IsComplex() {
		return nil, opdef.Refuse("self", "not defined for dtype %s", a.Self.DType)
	}
	for i, t := range ts {
		ts[i] = convertTo(t, dt)
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	if err != nil {
		return nil, err
	}
	if dt.IsFloat() {
		return elements.Result(clampIn[float64](dt, shape, a, ts))
	}
	return elements.Result(clampIn[int64](dt, shape, a, ts))
}

// Else is the result where numbers beyond the range of an integer dtype are its limits,
// as torch 2 has it, where torch 1 wraps them.
func (a *clampArgs) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	dt, beyond := tensor.ResultType(a.terms()...), false
	if dt.Kind() != tensor.KindInt {
		return [][]*tensor.Tensor{nil}
	}
	limited := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil || !t.Wrapped {
			return t
		}
		x := tensor.At[int64](t, 0)
		if lo, hi := dt.IntRange(); x < lo || x > hi {
			beyond = true
			return tensor.Wrap(min(max(x, lo), hi))
		}
		return t
	}
	b := &clampArgs{a.Self, limited(a.Min), limited(a.Max)}
	if !beyond {
		return [][]*tensor.Tensor{nil}
	}
	return [][]*tensor.Tensor{opdef.Must(clamp(b))}
}

func clampIn[T float64 | int64](dt tensor.DType, shape []int, a *clampArgs, ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []T, src [][]T) {
		copy(dst, src[0])
		k := 1
		if a.Min != nil {
			for i, b := range src[k] {
				dst[i] = max(dst[i], b)
			}
			k++
		}
		if a.Max != nil {
			for i, b := range src[k] {
				dst[i] = min(dst[i], b)
			}
		}
	}, ts...)
}

// clampGrad gives self all of the gradient where it is equal to a bound, as torch does before 2.15.
func clampGrad(a *clampArgs, g *opdef.Grad) (opdef.Grads, error) { return clampGradTied(a, g, 1) }

// GradElse is what torch gives from 2.15 on where self is equal to a bound: nothing beside a
// number, half to each of two tensors.
func (a *clampArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	tied := 0.0
	for _, bound := range []*tensor.Tensor{a.Min, a.Max} {
		if bound != nil && !bound.Wrapped {
			tied = 0.5
		}
	}
	gr, err := clampGradTied(a, g, tied)
	return []opdef.Grads{gr}, err
}

// clampGradTied are the gradients if self has a part of that of an element equal to a bound.
func clampGradTied(a *clampArgs, g *opdef.Grad, tied float64) (opdef.Grads, error) {
	inf := math.Inf(1)
	lo, hi := tensor.Scalar(tensor.Float64, -inf), tensor.Scalar(tensor.Float64, inf)
	dt := g.Out[0].DType
	if a.Min != nil {
		lo = convertTo(a.Min, dt)
	}
	if a.Max != nil {
		hi = convertTo(a.Max, dt)
	}
	gr := opdef.Grads{}
	add := func(name string, arg *tensor.Tensor, share func(x, lo, hi float64) float64) error {
		if arg == nil || arg.Wrapped {
			return nil
		}
		t, err := elements.MapN(dt, nil, func(v []float64) float64 {
			if s := share(v[1], v[2], v[3]); s != 0 { // 0 of an infinite gradient is 0
				return s * v[0]
			}
			return 0
		}, g.Out[0], a.Self, lo, hi)
		if err == nil {
			gr.Set(name, opdef.SumTo(t, arg.Shape))
		}
		return err
	}
	return gr, cmp.Or(add("self", a.Self, func(x, lo, hi float64) float64 {
		switch {
		case x > lo && x < hi:
			return 1
		case x >= lo && x <= hi:
			return tied
		}
		return 0
	}), add("min", a.Min, func(x, lo, hi float64) float64 {
		switch {
		case a.Max != nil && lo >= hi:
			return 0
		case x < lo:
			return 1
		case x == lo:
			return 1 - tied
		}
		return 0
	}), add("max", a.Max, func(x, lo, hi float64) float64 {
		switch {
		case x > hi || a.Min != nil && hi < lo:
			return 1
		case x == hi:
			return 1 - tied
		}
		return 0
	}))
}

// clampedAt declares the cut at one bound.
func clampedAt[A any](schema, summary, formula string, plan func(a *A) (*clampArgs, error), cases string) *opdef.Entry {
	return opdef.Planned[*A, *clampArgs]{
		Schema: schema,
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: summary, Formula: formula},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Plan:   plan, Kernel: clamp, Grad: clampGrad,
		Cases: opdef.Calls[A](cases),
	}.Entry()
}

var clampCases = opdef.Calls[clampArgs](`
	f64[3, 4]{apart -0.5 0.5 0.75}, min=-0.5, max=0.75; f64[3, 4]{apart -0.5 0.5 0.75}, max=0.5
	f32[5]{apart -0.5 0.5 0.75}, min=-0.5; bf16[5]{apart -0.5 0.5 0.75}, min=0.75, max=-0.5
	f64[3, 4]{distinct}, min=f64[4]{-0.57..-0.55}, max=f64[3, 1]{0.43..0.45}; i32[5]{-4..4}, min=-2, max=1.5
	f32[0, 2], min=0.0; f32[3]{= NaN +Inf -Inf}, min=-1.0, max=1.0`)
