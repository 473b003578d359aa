package masked

import (
	"math"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// A maskedMoments is the spread of the kept elements, of the real and imaginary
// parts of complex ones together.
type maskedMoments struct {
	x, ones    *tensor.Tensor // ones: 1 where kept
	mask       *tensor.Tensor // nil to keep all
	dims       []int
	keepdim    bool
	correction float64
	dtype      tensor.DType // of the result
	parts      []*opdef.Folded[reduction.Moments]
}

// keeping is the fold for moments of the elements of a first tensor where the
// second is not 0.
var keeping = opdef.Fold[float64, reduction.Moments]{
	Add: func(acc *reduction.Moments, at int, v [][]float64) {
		kept := 0
		for i, m := range v[1] {
			if m != 0 {
				v[0][kept] = v[0][i]
				kept++
			}
		}
		if kept > 0 {
			reduction.MomentsFold.Add(acc, at, [][]float64{v[0][:kept]})
		}
	},
	Join: reduction.MomentsFold.Join,
}

func (a *maskedSpreadArgs) moments() (*maskedMoments, error) {
	dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
	if err != nil {
		return nil, err
	}
	_, wide, err := masked("mask", a.Input, a.Mask, zeroNeutral)
	if err != nil {
		return nil, err
	}
	m := &maskedMoments{x: a.Input, mask: wide, ones: maskOnes(wide, a.Input.Shape), dims: dims, keepdim: a.Keepdim,
		correction: reduction.CorrectionOf(a.Unbiased), dtype: a.Input.DType}
	switch {
	case a.Dtype != nil:
		m.dtype = *a.Dtype
	case m.dtype.Kind() < tensor.KindFloat:
		m.dtype = tensor.Float32
	}
	parts := []*tensor.Tensor{m.x}
	if m.x.DType.IsComplex() {
		re := opdef.Map(tensor.Float64, m.x, func(z complex128) float64 { return real(z) })
		im := opdef.Map(tensor.Float64, m.x, func(z complex128) float64 { return imag(z) })
		parts = []*tensor.Tensor{re, im}
	}
	for _, p := range parts {
		m.parts = append(m.parts, opdef.FoldDims(keeping, dims, a.Keepdim, p, m.ones))
	}
	return m, nil
}

// of is a function of count, sum of squared deviations and |mean|^2.
func (m *maskedMoments) of(f func(n, m2, mean2 float64) float64) *tensor.Tensor {
	get := func(g func(a *reduction.Moments) float64) *tensor.Tensor {
		t := opdef.Collect(m.parts[0], tensor.Float64, g)
		if len(m.parts) == 1 {
			return t
		}
		return opdef.Zip(tensor.Float64, t, opdef.Collect(m.parts[1], tensor.Float64, g),
			func(x, y float64) float64 { return x + y })
	}
	n := opdef.Collect(m.parts[0], tensor.Float64, func(a *reduction.Moments) float64 { return a.N })
	return opdef.ZipN(tensor.Float64, n.Shape, func(dst []float64, s [][]float64) {
		for i := range dst {
			dst[i] = f(s[0][i], s[1][i], s[2][i])
		}
	}, n, get(func(a *reduction.Moments) float64 { return a.M2 }),
		get(func(a *reduction.Moments) float64 { return a.Mean * a.Mean }))
}

func (m *maskedMoments) value(n, m2 float64, root bool) float64 {
	v := m2 / math.Max(n-m.correction, 0)
	if root {
		return math.Sqrt(v)
	}
	return v
}

// precision is how much coarser than float32 the intermediate results are,
// which torch keeps in the dtype of the result.
func (m *maskedMoments) precision() float64 {
	if m.dtype.IsFloat() {
		return math.Max(1, m.dtype.Eps()/tensor.Float32.Eps())
	}
	return 1
}

// scale: deviations are differences of elements and a mean.
func (m *maskedMoments) scale(root bool) *tensor.Tensor {
	k := m.precision()
	return m.of(func(n, m2, mean2 float64) float64 {
		rms := k * reduction.RootMeanSquare(n, mean2, m2) * math.Sqrt(n/math.Max(1, n-m.correction))
		if root {
			return rms
		}
		return 2 * rms * m.value(n, m2, true)
	})
}

// grad is 2*(x - mean)/(n - correction), over twice the root if there is one,
// times the real part of the result's gradient; with bounds its magnitude and
// that of what deviations cancel from.
func (m *maskedMoments) grad(up *tensor.Tensor, root, bounds bool) *tensor.Tensor {
	over := func(t *tensor.Tensor) *tensor.Tensor { return opdef.Unreduce(t, m.x.Shape, m.dims) }
	slope := over(m.of(func(n, m2, _ float64) float64 {
		s := 2 / math.Max(n-m.correction, 0)
		if root {
			s /= 2 * m.value(n, m2, true)
		}
		return s
	}))
	mean := func(k int) *tensor.Tensor { return over(opdef.Collect(m.parts[k], tensor.Float64, reduction.MeanOf)) }
	if bounds {
		k := m.precision()
		rms := over(m.of(func(n, m2, mean2 float64) float64 { return k * reduction.RootMeanSquare(n, mean2, m2) }))
		worse := over(m.of(func(n, m2, mean2 float64) float64 {
			if !root || m2 == 0 {
				return 1
			}
			return 1 + k*math.Sqrt(1+mean2*n/m2)
		}))
		return opdef.ZipN(tensor.Float64, m.x.Shape, func(dst []float64, v [][]float64) {
			for i := range dst {
				dst[i] = v[0][i] * (k*v[1][i] + v[2][i]) * v[3][i] * v[4][i] * v[5][i]
			}
		}, opdef.Abs(over(up)), opdef.Abs(m.x), rms, slope, m.ones, worse)
	}
	im := tensor.Full(tensor.Float64, m.x.Shape, 0.0)
	if len(m.parts) == 2 {
		im = mean(1)
	}
	return opdef.Must(elements.MapN(m.x.DType, func(v []complex128) complex128 {
		if v[5] == 0 {
			return 0
		}
		return complex(real(v[0])*real(v[2]), 0) * (v[1] - complex(real(v[3]), real(v[4])))
	}, func(v []float64) float64 {
		if v[5] == 0 {
			return 0
		}
		return v[0] * v[2] * (v[1] - v[3])
	}, over(up), m.x, slope, mean(0), im, m.ones))
}

func maskedSpread(name, summary string, root bool) *opdef.Entry {
	type A = maskedSpreadArgs
	return opdef.Planned[A, *maskedMoments]{
		Schema: "masked_" + name +
			"(Tensor input, int[1]? dim=None, bool unbiased=False, *, bool keepdim=False, dtype? dtype=None, " +
			"Tensor? mask=None) -> Tensor",
		Names: maskedNames(name),
		Doc: opdef.Doc{Summary: summary,
			Formula: "sum(|x - mean|^2) / (n - 1 if unbiased else n) over the kept elements",
			Notes: "nan where the mask keeps none. The result of complex input is complex. Masked elements get no " +
				"gradient.", Source: "torch.masked." + name},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 8}},
		Terms: func(m *maskedMoments) int { return elements.NumelOver(m.x.Shape, m.dims) },
		Plan:  (*A).moments,
		Kernel: func(m *maskedMoments) ([]*tensor.Tensor, error) {
			return elements.Single(opdef.Cast(m.of(func(n, m2, _ float64) float64 { return m.value(n, m2, root) }),
					m.dtype)),
				nil
		},
		Grad: func(m *maskedMoments, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", m.grad(g.Out[0], root, false)), nil
		},
		Scale: func(m *maskedMoments, outs []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(m.scale(root))
		},
		GradScale: func(m *maskedMoments, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return elements.GradOf("input", m.grad(g.Out[0], root, true)), nil
		},
		Cases: func(g opdef.Gen) []*A {
			return []*A{
				{Input: g.Normal(tensor.Float64, 3, 5), Dim: []int{1}, Mask: maskOfRows(3, 5)},
				{Input: g.Normal(tensor.Float64, 4, 3), Unbiased: true, Mask: maskOfRows(4, 3)},
				{Input: g.Normal(tensor.Float32, 3, 5), Dim: []int{-1}, Keepdim: true},
				{Input: g.Normal(tensor.BFloat16, 6), Dim: []int{0}, Unbiased: true},
				{Input: g.Normal(tensor.Complex128, 5), Unbiased: true, Mask: maskOfRows(5)},
			}
		},
	}.Entry()
}
