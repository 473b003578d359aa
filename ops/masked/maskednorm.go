package masked

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/linalg"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

var maskedNorm = maskedEntry(opdef.Planned[maskedNormArgs, *maskedCall]{
	Schema: "masked_norm(Tensor input, Scalar ord=2.0, int[1]? dim=None, *, bool keepdim=False, dtype? dtype=None, " +
		"Tensor? mask=None) -> Tensor",
	Names: maskedNames("norm"), Doc: maskedDoc("norm", "Vector norm of the elements a mask keeps", "",
		"0, or inf for ord=-inf"),
	Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 6}},
	Autocast: opdef.AutocastFloat32,
	Cases: func(g opdef.Gen) []*maskedNormArgs {
		x := g.Apart(tensor.Float64, []float64{0}, 3, 4)
		return []*maskedNormArgs{
			{Input: x, Ord: opdef.Int(2), Mask: someOf(g, 3, 4)}, {Input: x, Ord: opdef.Int(1), Dim: []int{1},
				Mask: someOf(g, 4)}, {Input: x, Ord: opdef.Float(3), Dim: []int{0, 1}, Keepdim: true},
			{Input: g.Normal(tensor.Float32, 2, 3), Ord: opdef.Float(math.Inf(1)), Mask: someOf(g, 2, 3)},
			{Input: g.Normal(tensor.BFloat16, 4), Ord: opdef.Int(2), Mask: someOf(g, 4)},
		}
	},
}, func(a *maskedNormArgs) (*maskedCall, error) {
	p := a.Ord.Float64()
	return newMasked(elements.MustFind(linalg.Table(), "linalg_vector_norm"), "x", a.Input, a.Mask, normNeutral(p),
		func(x *tensor.Tensor) any {
			return &linalg.VectorNormArgs{X: x, Ord: a.Ord, Dim: a.Dim, Keepdim: a.Keepdim, Dtype: a.Dtype}
		})
}, func(a *maskedNormArgs) int { return elements.TermsOver(a.Input.Shape, a.Dim) })

// normNeutral is the element that does not change a norm of order p.
func normNeutral(p float64) neutral {
	if math.IsInf(p, -1) {
		return highestNeutral
	}
	return zeroNeutral
}

// norms are the elements divided, those of which the norm is, the norm and the
// divisor, the latter two of the input's shape.
func (a *maskedNormalizeArgs) norms() (x, of, norm, divisor, mask *tensor.Tensor, dims []int, err error) {
	fail := func(err error) (_, _, _, _, _ *tensor.Tensor, _ []int, _ error) {
		return nil, nil, nil, nil, nil, nil, err
	}
	d, err := opdef.Dim("dim", a.Dim, a.Input.Dim())
	if err != nil {
		return fail(err)
	}
	if dims, err = opdef.Dims("dim", []int{d}, a.Input.Dim()); err != nil {
		return fail(err)
	}
	in := a.Input
	if in.DType.Kind() < tensor.KindFloat {
		return fail(opdef.Refuse("input", "want a floating or complex dtype, got %s", in.DType))
	}
	if x, mask, err = masked("mask", in, a.Mask, zeroNeutral); err != nil {
		return fail(err)
	}
	if of, _, err = masked("mask", in, a.Mask, normNeutral(a.Ord)); err != nil {
		return fail(err)
	}
	if err = reduction.CheckNorm("input", in, a.Ord, dims); err != nil {
		return fail(err)
	}
	norm = reduction.VectorNorm(opdef.Abs(of), a.Ord, dims, false)
	divisor = opdef.Unreduce(opdef.Map(tensor.Float64, norm, func(n float64) float64 { return math.Max(n, a.Eps) }),
		in.Shape, dims)
	return x, of, norm, divisor, mask, dims, nil
}

// grad is up/d - norm'(x)*sum(up*x)/d^2 where elements are kept, with d the
// divisor; with bounds the magnitudes of both.
func (a *maskedNormalizeArgs) grad(up *tensor.Tensor, bounds bool) (opdef.Grads, error) {
	x, of, norm, d, mask, dims, err := a.norms()
	if err != nil {
		return nil, err
	}
	term := -1.0
	if bounds {
		x, of, up, term = opdef.Abs(x), opdef.Abs(of), opdef.Abs(up), 3
		if !math.IsInf(a.Ord, 0) {
			term += 2 * math.Abs(a.Ord)
		}
	}
	products, err := elements.MapN(x.DType,
		func(v []complex128) complex128 { return complex(real(cmplx.Conj(v[0])*v[1]), 0) },
		func(v []float64) float64 { return v[0] * v[1] }, up, x)
	if err != nil {
		return nil, err
	}
	dot := opdef.Sum(tensor.Float64, products, dims, false)
	through := reduction.NormGrad(of, norm, opdef.Zip(tensor.Float64, dot, norm, func(s, n float64) float64 {
		if n < a.Eps {
			return 0
		}
		return s / (n * n)
	}), a.Ord, dims)
	t, err := elements.MapN(x.DType, func(v []complex128) complex128 {
		if v[3] == 0 {
			return 0
		}
		return v[0]/v[1] + complex(term, 0)*v[2]
	}, func(v []float64) float64 {
		if v[3] == 0 {
			return 0
		}
		return v[0]/v[1] + term*v[2]
	}, up, d, through, maskOnes(mask, x.Shape))
	return elements.GradOf("input", t), err
}

var maskedNormalize = opdef.Op[maskedNormalizeArgs]{
	Schema: "masked_normalize(Tensor input, float ord, int dim, *, float eps=1e-12, dtype? dtype=None, Tensor? " +
		"mask=None) -> Tensor",
	Names: maskedNames("normalize"),
	Doc: opdef.Doc{Summary: "Kept elements scaled to norm 1 along a dimension",
		Formula: "where(mask, input, 0) / max(norm(kept, ord, dim), eps)",
		Notes:   "Masked elements get no gradient.", Source: "torch.masked.normalize"},
	Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 3, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 6}},
	Autocast: opdef.AutocastFloat32,
	Terms:    func(a *maskedNormalizeArgs) int { return elements.TermsOver(a.Input.Shape, []int{a.Dim}) },
	Kernel: func(a *maskedNormalizeArgs) ([]*tensor.Tensor, error) {
		x, _, _, d, _, _, err := a.norms()
		if err != nil {
			return nil, err
		}
		dt := x.DType
		if a.Dtype != nil {
			dt = tensor.Promote(dt, *a.Dtype)
		}
		y, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] / v[1] },
			func(v []float64) float64 { return v[0] / v[1] }, x, d)
		return elements.Single(y), err
	},
	Grad: func(a *maskedNormalizeArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0], false) },
	Scale: func(_ *maskedNormalizeArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		return elements.Single(elements.Scaled(opdef.Abs(outs[0]), 2))
	},
	GradScale: func(a *maskedNormalizeArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		return a.grad(g.Out[0], true)
	},
	Cases: func(g opdef.Gen) []*maskedNormalizeArgs {
		x := g.Apart(tensor.Float64, []float64{0}, 3, 4)
		return []*maskedNormalizeArgs{
			{Input: x, Ord: 2, Dim: 1, Eps: 1e-12, Mask: maskOfRows(3, 4)}, {Input: x, Ord: 1, Dim: 0, Eps: 1e-12,
				Mask: maskOfRows(4)}, {Input: g.Distinct(tensor.Float64, 3, 4), Ord: math.Inf(-1), Dim: 1, Eps: 1e-12,
				Mask: maskOfRows(3, 4)},
			{Input: g.Normal(tensor.Float32, 5), Ord: 2, Dim: 0, Eps: 1e-12}, {Input: g.Normal(tensor.BFloat16, 2, 3),
				Ord: 2, Dim: 1, Eps: 1e-12}, {Input: g.Normal(tensor.Complex128, 4), Ord: 3, Dim: 0, Eps: 1e-12,
				Mask: maskOfRows(4)},
		}
	},
}.Entry()
