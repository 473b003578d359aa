package reduction

import (
	"math"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// momentOps are variance and standard deviation, alone and with the mean. Each
// has torch's three signatures. They are no compositions: count, mean and squares
// are taken in one pass over the elements, a composition takes two.
var momentOps = []*opdef.Entry{
	moment("var", "", wholeMoment, wholeMomentCases), moment("var", ".dim", dimMoment, dimMomentCases),
	moment("var", ".correction", correctedMoment, correctedMomentCases),
	moment("std", "", wholeMoment, wholeMomentCases),
	moment("std", ".dim", dimMoment, dimMomentCases), moment("std", ".correction",
		correctedMoment, correctedMomentCases),
	moment("var_mean", "", wholeMoment, wholeMomentCases), moment("var_mean", ".dim", dimMoment, dimMomentCases),
	moment("var_mean", ".correction", correctedMoment, correctedMomentCases),
	moment("std_mean", "", wholeMoment, wholeMomentCases), moment("std_mean", ".dim", dimMoment, dimMomentCases),
	moment("std_mean", ".correction", correctedMoment, correctedMomentCases),
}

type wholeMomentArgs struct {
	Self     *tensor.Tensor
	Unbiased bool
}

type dimMomentArgs struct {
	Self     *tensor.Tensor
	Dim      []int
	Unbiased bool
	Keepdim  bool
}

type correctedMomentArgs struct {
	Self       *tensor.Tensor
	Dim        []int
	Correction *opdef.Scalar
	Keepdim    bool
}

// A spreadCall is what the three signatures come to: the sum of squared
// deviations is divided by the number of elements less correction.
type spreadCall struct {
	x          *tensor.Tensor
	dim        []int
	correction float64
	keepdim    bool
}

func wholeMoment(a *wholeMomentArgs) spreadCall {
	return spreadCall{x: a.Self, correction: CorrectionOf(a.Unbiased)}
}

func dimMoment(a *dimMomentArgs) spreadCall {
	return spreadCall{a.Self, a.Dim, CorrectionOf(a.Unbiased), a.Keepdim}
}

func correctedMoment(a *correctedMomentArgs) spreadCall {
	c := 1.0
	if a.Correction != nil {
		c = a.Correction.Float64()
	}
	return spreadCall{a.Self, a.Dim, c, a.Keepdim}
}

// CorrectionOf is what a variance takes off the number of elements.
func CorrectionOf(unbiased bool) float64 {
	if unbiased {
		return 1
	}
	return 0
}

var momentSignatures = map[string]string{
	"":            "(Tensor self, bool unbiased=True)",
	".dim":        "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)",
	".correction": "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
}

// moment declares one signature of var, std, var_mean or std_mean.
func moment[A any](name, overload string, call func(*A) spreadCall, cases func(opdef.Gen) []*A) *opdef.Entry {
	root := name[:3] == "std"
	mean := len(name) > 3
	summary, returns := "Variance over dimensions", "Tensor"
	if root {
		summary = "Standard deviation over dimensions"
	}
	names := name + " Tensor." + name
	if mean {
		summary, returns, names = summary+", and the mean", "(Tensor, Tensor)", name
	}
	return opdef.Op[A]{
		Schema: name + overload + momentSignatures[overload] + " -> " + returns,
		Names:  names,
		Doc: opdef.Doc{
			Summary: summary, Formula: "sum(|x - mean|^2) / (n - correction)",
			Notes: "correction is 1, or 0 if not unbiased. The result of complex input is real; the mean is complex.",
		},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2,
			Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}},
		Bounds: opdef.Bounds[*A]{
			Terms: func(a *A) int { s := call(a); return elements.TermsOver(s.x.Shape, s.dim) },
			Scale: func(a *A, outs []*tensor.Tensor) []*tensor.Tensor { return call(a).scale(root, mean) },
			GradScale: func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return call(a).grad(g, root, true)
			},
		},
		Kernel: func(a *A) ([]*tensor.Tensor, error) { return call(a).results(root, mean) },
		Grad:   func(a *A, g *opdef.Grad) (opdef.Grads, error) { return call(a).grad(g, root, false) },
		Cases:  cases,
	}.Entry()
}

// Moments are count, mean and sum of squared deviations.
type Moments struct{ N, Mean, M2 float64 }

// Join combines two sets of elements.
// Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for
// computing sample variances, 1979.
func (a *Moments) Join(b Moments) {
	if a.N == 0 {
		*a = b
		return
	}
	if b.N == 0 {
		return
	}
	d, n := b.Mean-a.Mean, a.N+b.N
	a.Mean += d * (b.N / n)
	a.M2 += b.M2 + d*d*(a.N*b.N/n)
	a.N = n
}

// MomentsFold is the fold for moments: two passes over each run, with the
// rounding error of the run's mean taken out again.
var MomentsFold = opdef.Fold[float64, Moments]{
	Add: func(acc *Moments, _ int, v [][]float64) {
		n := float64(len(v[0]))
		m := vmath.Sum(v[0]) / n
		r, squares := vmath.Deviations(v[0], m)
		acc.Join(Moments{n, m, squares - r*r/n})
	},
	Join: func(acc *Moments, next Moments) { acc.Join(next) },
}

// A measured tensor: its moments over some dimensions, by real parts, and by
// imaginary ones if it is complex.
type measured struct{ re, im *opdef.Folded[Moments] }

func measure(x *tensor.Tensor, dims []int, keepdim bool) measured {
	if !x.DType.IsComplex() {
		return measured{re: opdef.FoldDims(MomentsFold, dims, keepdim, x)}
	}
	part := func(f func(complex128) float64) *opdef.Folded[Moments] {
		return opdef.FoldDims(MomentsFold, dims, keepdim, opdef.Map(x.DType.Real(), x, f))
	}
	return measured{part(func(z complex128) float64 { return real(z) }),
		part(func(z complex128) float64 { return imag(z) })}
}

// MeanOf is the mean, nan of no elements.
func MeanOf(a *Moments) float64 {
	if a.N == 0 {
		return math.NaN()
	}
	return a.Mean
}

// mean is the mean, of dtype dt.
func (m measured) mean(dt tensor.DType) *tensor.Tensor {
	re := opdef.Collect(m.re, dt.Real(), MeanOf)
	if m.im == nil {
		return re
	}
	im := opdef.Collect(m.im, dt.Real(), MeanOf)
	return opdef.ZipN(dt, re.Shape, func(dst []complex128, s [][]complex128) {
		for i, x := range s[0] {
			dst[i] = complex(real(x), real(s[1][i]))
		}
	}, re, im)
}

// of is a function of count, |mean|^2 and the sum of squared deviations.
func (m measured) of(dt tensor.DType, f func(n, mean2, m2 float64) float64) *tensor.Tensor {
	if m.im == nil {
		return opdef.Collect(m.re, dt, func(a *Moments) float64 { return f(a.N, a.Mean*a.Mean, a.M2) })
	}
	mean2 := func(a *Moments) float64 { return a.Mean * a.Mean }
	m2 := func(a *Moments) float64 { return a.M2 }
	n := float64(m.re.N)
	c := func(f *opdef.Folded[Moments], get func(*Moments) float64) *tensor.Tensor {
		return opdef.Collect(f, tensor.Float64, get)
	}
	return opdef.ZipN(dt, m.re.Shape, func(dst []float64, s [][]float64) {
		for i := range dst {
			dst[i] = f(n, s[0][i]+s[1][i], s[2][i]+s[3][i])
		}
	}, c(m.re, mean2), c(m.im, mean2), c(m.re, m2), c(m.im, m2))
}

func (s spreadCall) results(root, mean bool) ([]*tensor.Tensor, error) {
	dt := s.x.DType
	if dt.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("self", "want a floating or complex dtype, got %s", dt)
	}
	dims, err := opdef.Dims("dim", s.dim, s.x.Dim())
	if err != nil {
		return nil, err
	}
	m := measure(s.x, dims, s.keepdim)
	out := elements.Single(m.of(dt.Real(), func(n, _, m2 float64) float64 { return s.value(n, m2, root) }))
	if mean {
		out = append(out, m.mean(dt))
	}
	return out, nil
}

// value is the variance, or its root.
func (s spreadCall) value(n, m2 float64, root bool) float64 {
	if n == 0 {
		return math.NaN()
	}
	v := m2 / math.Max(0, n-s.correction)
	if root {
		return math.Sqrt(v)
	}
	return v
}

// RootMeanSquare is the root of the mean of the squares of n elements of which
// mean2 is the square of the mean and m2 the sum of the squared deviations from
// it.
func RootMeanSquare(n, mean2, m2 float64) float64 { return math.Sqrt(mean2 + m2/math.Max(n, 1)) }

// slack is how far, in units of the root mean square, a sound device's mean may be off.
func (s spreadCall) slack() float64 {
	u := roundoff.U32
	if s.x.DType.Real() == tensor.Float64 {
		u = roundoff.U64
	}
	return u * roundoff.Growth(elements.TermsOver(s.x.Shape, s.dim))
}

// scale is the sum of magnitudes behind each result: deviations are differences
// of elements and a mean, so the variance is known to 2*std*rms, that of equal elements
// to the square of the mean's error, its root to the root mean square, and the mean too.
func (s spreadCall) scale(root, mean bool) []*tensor.Tensor {
	dims := opdef.Must(opdef.Dims("dim", s.dim, s.x.Dim()))
	m, slack := measure(s.x, dims, s.keepdim), s.slack()
	out := elements.Single(m.of(tensor.Float64, func(n, mean2, m2 float64) float64 {
		v := RootMeanSquare(n, mean2, m2) * math.Sqrt(n/math.Max(1, n-s.correction))
		if root {
			return v
		}
		return v * (2*s.value(n, m2, true) + slack*v)
	}))
	if mean {
		out = append(out, m.of(tensor.Float64, RootMeanSquare))
	}
	return out
}

// grad is the gradient of self, or, if magnitudes is set, the magnitudes of the
// terms it is made of.
func (s spreadCall) grad(g *opdef.Grad, root, magnitudes bool) (opdef.Grads, error) {
	x, dt := s.x, s.x.DType
	dims, err := opdef.Dims("dim", s.dim, x.Dim())
	if err != nil {
		return nil, err
	}
	m := measure(x, dims, false)
	n := float64(m.re.N)
	zero := tensor.Full(tensor.Float64, x.Shape, 0.0)
	up := [2]*tensor.Tensor{zero, zero} // of the spread, of the mean
	for k, t := range g.Out {
		if t != nil {
			up[k] = opdef.Unreduce(t, x.Shape, dims)
		}
	}
	unit := 2 / math.Max(0, n-s.correction)
	// slope is d(result)/d(deviation) over the deviation.
	slope := opdef.Unreduce(m.of(tensor.Float64, func(n, _, m2 float64) float64 {
		if !root {
			return unit
		}
		std := s.value(n, m2, true)
		if std == 0 {
			return 0
		}
		return unit / (2 * std)
	}), x.Shape, dims)
	if magnitudes {
		rms := opdef.Unreduce(m.of(tensor.Float64, RootMeanSquare), x.Shape, dims)
		// A root divides by itself: its own relative error is rms/std.
		worse := opdef.Unreduce(m.of(tensor.Float64, func(n, mean2, m2 float64) float64 {
			if !root || m2 == 0 {
				return 0
			}
			return math.Sqrt(1 + mean2*n/m2)
		}), x.Shape, dims)
		// Deviations that may be rounding alone are divided by a root that is: at most as the root of n.
		slack := s.slack()
		alone := opdef.Unreduce(m.of(tensor.Float64, func(n, mean2, m2 float64) float64 {
			if !root || s.value(n, m2, true) > slack*RootMeanSquare(n, mean2, m2) {
				return 0
			}
			return unit / 2 * math.Sqrt(n) / slack
		}), x.Shape, dims)
		return elements.GradOf("self", opdef.ZipN(tensor.Float64, x.Shape, func(dst []float64, v [][]float64) {
			for i := range dst {
				dst[i] = v[2][i]*(v[3][i]*(v[0][i]+v[1][i])*(1+v[5][i])+v[6][i]) + v[4][i]/n
			}
		}, opdef.Abs(x), rms, opdef.Abs(up[0]), slope, opdef.Abs(up[1]), worse, alone)), nil
	}
	mean := opdef.Unreduce(m.mean(dt), x.Shape, dims)
	if dt.IsComplex() {
		return elements.GradOf("self", opdef.ZipN(dt, x.Shape, func(dst []complex128, v [][]complex128) {
			for i := range dst {
				dst[i] = v[2][i]*v[3][i]*(v[0][i]-v[1][i]) + v[4][i]/complex(n, 0)
			}
		}, x, mean, up[0], slope, up[1])), nil
	}
	return elements.GradOf("self", opdef.ZipN(dt, x.Shape, func(dst []float64, v [][]float64) {
		for i := range dst {
			dst[i] = v[2][i]*v[3][i]*(v[0][i]-v[1][i]) + v[4][i]/n
		}
	}, x, mean, up[0], slope, up[1])), nil
}

var wholeMomentCases = opdef.Calls[wholeMomentArgs](`
	f64[3, 4]; f32[5], unbiased=False; bf16[2, 3]; c128[4]; f32[133]{rows}; bf16[133]{rows}; f32[1030]{rows}`)

var dimMomentCases = opdef.Calls[dimMomentArgs](`
	f64[3, 4], [1]; f64[2, 3, 4], [0, -1], unbiased=False, keepdim=True; f32[4, 2], [0], keepdim=True
	f64[3, 4], None, unbiased=False; c64[3, 2], [0], unbiased=False
	f32[3, 133]{rows}, [1]; bf16[3, 133]{rows}, [1]; f32[3, 1030]{rows}, [1]`)

var correctedMomentCases = opdef.Calls[correctedMomentArgs](`
	f64[3, 5], dim=[1], correction=2; f64[3, 4], correction=0, keepdim=True; f32[3, 4], dim=[0]
	f64[2, 6], dim=[-1], correction=0.5, keepdim=True
	f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`)

// Rms is the root of the mean of the squares.
func (m *Moments) Rms() float64 { return RootMeanSquare(m.N, m.Mean*m.Mean, m.M2) }
