package normalization

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

var scalingOps = []*opdef.Entry{
	opdef.Op[normalizeArgs]{
		Schema: "normalize(Tensor input, float p=2.0, int[1] dim=1, float eps=1e-12) -> Tensor",
		Names:  "F.normalize",
		Doc: opdef.Doc{Summary: "Vectors scaled to norm 1", Formula: "input / max(norm(input, p, dim), eps)",
			Source: "torch.nn.functional.normalize"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 3,
			Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}},
		Autocast:  opdef.AutocastFloat32,
		Terms:     func(a *normalizeArgs) int { return elements.TermsOver(a.Input.Shape, a.Dim) },
		GradTerms: func(a *normalizeArgs) int { return elements.TermsOver(a.Input.Shape, a.Dim) },
		Kernel: func(a *normalizeArgs) ([]*tensor.Tensor, error) {
			y, _, err := a.norms()
			if err != nil {
				return nil, err
			}
			if dt := a.Input.DType; dt.IsComplex() {
				return elements.Single(opdef.Zip(dt, a.Input, y,
					func(x, n complex128) complex128 { return x * complex(1/max(real(n), a.Eps), 0) })), nil
			}
			return elements.Single(opdef.Zip(a.Input.DType, a.Input, y,
				func(x, n float64) float64 { return x / max(n, a.Eps) })), nil
		},
		Scale: func(a *normalizeArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(elements.Scaled(opdef.Abs(outs[0]), 2))
		},
		Grad: func(a *normalizeArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := a.grad(g.Out[0], false)
			return elements.GradOf("input", t), err
		},
		GradScale: func(a *normalizeArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			t, err := a.grad(g.Out[0], true)
			return elements.GradOf("input", t), err
		},
		// The node divides the input by the norms, expanded.
		Node: func(a *normalizeArgs, g *opdef.Grad) (opdef.Node, error) {
			y, _, err := a.norms()
			if err != nil {
				return opdef.Node{}, err
			}
			dt, up, x := a.Input.DType, g.Out[0], a.Input
			over := byFactors(dt, up,
				opdef.Map(tensor.Float64, y, func(n float64) float64 { return 1 / max(n, a.Eps) }))
			under := opdef.Zip(dt.Real(), alike(x, up), y, func(t, n float64) float64 {
				n = max(n, a.Eps)
				return -t / (n * n)
			})
			return opdef.Node{Grads: []*tensor.Tensor{over, under}}, nil
		},
		Cases: func(r *rand.Rand) []*normalizeArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*normalizeArgs{
				{g.Normal(f64, 3, 4), 2, []int{1}, 1e-12}, {g.Apart(f64, []float64{0}, 2, 3, 4), 3, []int{0}, 1e-12},
				{g.Apart(f64, []float64{0}, 3, 4), 1, []int{-1}, 1e-12},
				{g.Normal(f64, 3, 4), 2, []int{1}, 100}, {g.Normal(tensor.Float32, 5), 2, []int{0}, 1e-12},
				{g.Normal(tensor.BFloat16, 2, 3), 2, []int{1}, 1e-12}, {g.Normal(tensor.Float32, 0, 3), 2,
					[]int{1}, 1e-12},
				{opdef.NonContiguous(g.Normal(f64, 3, 4)), 2, []int{0}, 1e-12}, {g.Normal(tensor.Complex128, 3, 4), 2,
					[]int{1}, 1e-12}, {g.Normal(tensor.Complex128, 3, 2), 3, []int{0}, 1e-12},
			}
		},
	}.Entry(),
	opdef.Op[renormArgs]{
		Schema: "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", InPlace: true,
		Doc: opdef.Doc{Summary: "Slices scaled down to a largest norm",
			Formula: "slice * maxnorm/(norm + 1e-7) where the norm of order p exceeds maxnorm", Source: "torch.renorm"},
		Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 3, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Autocast: opdef.AutocastFloat32,
		Terms:    func(a *renormArgs) int { return max(1, a.Self.Numel()) },
		Kernel: func(a *renormArgs) ([]*tensor.Tensor, error) {
			y, _, err := a.norms()
			if err != nil {
				return nil, err
			}
			limit := a.Maxnorm.Float64()
			return elements.Single(byFactors(a.Self.DType, a.Self, opdef.Map(tensor.Float64, y,
				func(n float64) float64 {
					if n > limit {
						return limit / (n + 1e-7)
					}
					return 1
				}))), nil
		},
		Scale: func(a *renormArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(elements.Scaled(opdef.Abs(outs[0]), 2))
		},
		Grad: func(a *renormArgs, g *opdef.Grad) (opdef.Grads, error) {
			y, dims, err := a.norms()
			if err != nil {
				return nil, err
			}
			x, up, limit := a.Self, g.Out[0], a.Maxnorm.Float64()
			dot := opdef.Sum(tensor.Float64, alike(x, up), dims, false)
			nb := reduction.NormGrad(x, reduction.VectorNorm(x, a.P.Float64(), dims, false), dot, a.P.Float64(), dims)
			if x.DType.IsComplex() {
				return elements.GradOf("self", opdef.ZipN(x.DType, x.Shape, func(dst []complex128, s [][]complex128) {
					for i, g := range s[0] {
						dst[i] = g
						if n := real(s[1][i]); n > limit {
							k := complex(1/(n+1e-7), 0)
							dst[i] = complex(limit, 0) * k * (g - k*s[2][i])
						}
					}
				}, up, y, nb)), nil
			}
			return elements.GradOf("self", opdef.ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
				for i, g := range s[0] {
					dst[i] = g
					if n := s[1][i]; n > limit {
						k := 1 / (n + 1e-7)
						dst[i] = limit * k * (g - k*s[2][i])
					}
				}
			}, up, y, nb)), nil
		},
		Cases: func(r *rand.Rand) []*renormArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*renormArgs{
				{g.Normal(f64, 3, 4), opdef.Int(2), 0, opdef.Float(0.5)}, {g.Apart(f64, []float64{0}, 2, 3, 4),
					opdef.Float(1), -1, opdef.Int(1)}, {g.Normal(f64, 3, 4), opdef.Float(3), 1, opdef.Float(100)},
				{g.Normal(tensor.Float32, 2, 5), opdef.Float(2), 0, opdef.Float(1)}, {g.Normal(tensor.Complex128, 2, 5),
					opdef.Float(2), 0, opdef.Float(1)},
			}
		},
	}.Entry(),
	opdef.Op[lrnArgs]{
		Schema: "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> " +
			"Tensor",
		Names: "F.local_response_norm",
		Doc: opdef.Doc{Summary: "Elements divided by a power of the mean square of neighbouring channels",
			Formula: "input / (k + alpha*mean(input^2))^beta, the mean over size channels from size/2 before, with " +
				"zeros outside", Source: "torch.nn.functional.local_response_norm"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 6}},
		Terms: func(a *lrnArgs) int { return max(1, a.Size) },
		Kernel: func(a *lrnArgs) ([]*tensor.Tensor, error) {
			if err := a.check(); err != nil {
				return nil, err
			}
			return elements.Single(opdef.AlongDim(a.Input.DType, a.Input, 1, func(x, dst []float64) {
				a.divisors(x, dst)
				for i, d := range dst {
					dst[i] = x[i] * math.Pow(d, -a.Beta)
				}
			})), nil
		},
		Scale: func(a *lrnArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(elements.Scaled(opdef.Abs(outs[0]), 2+3*math.Abs(a.Beta)))
		},
		Grad: func(a *lrnArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", opdef.AlongDimN(a.Input.DType, 1, func(s [][]float64, dst []float64) {
				x, up := s[0], s[1]
				d := opdef.Scratch[float64](len(x))
				a.divisors(x, *d)
				for i, di := range *d {
					dst[i] = up[i] * math.Pow(di, -a.Beta)
				}
				for i, di := range *d {
					c := -up[i] * x[i] * a.Beta * math.Pow(di, -a.Beta-1) * a.Alpha / float64(a.Size) * 2
					for j := max(0, i-a.Size/2); j < min(len(x), i-a.Size/2+a.Size); j++ {
						dst[j] += c * x[j]
					}
				}
				opdef.Release(d)
			}, a.Input, g.Out[0])), nil
		},
		// The node divides by the power of the mean.
		Node: func(a *lrnArgs, g *opdef.Grad) (opdef.Node, error) {
			dt := a.Input.DType
			node := func(f func(up, x, power float64) float64) *tensor.Tensor {
				return opdef.AlongDimN(dt, 1, func(s [][]float64, dst []float64) {
					a.divisors(s[0], dst)
					for i, d := range dst {
						dst[i] = f(s[1][i], s[0][i], math.Pow(d, a.Beta))
					}
				}, a.Input, g.Out[0])
			}
			return opdef.Node{Grads: []*tensor.Tensor{
				node(func(up, _, p float64) float64 { return up / p }),
				node(func(up, x, p float64) float64 { return -up * x / (p * p) }),
			}}, nil
		},
		Cases: func(r *rand.Rand) []*lrnArgs {
			g := opdef.Gen{R: r}
			return []*lrnArgs{
				{g.Normal(tensor.Float64, 2, 5, 3), 3, 0.5, 0.75, 1}, {g.Normal(tensor.Float64, 1, 4, 2, 2), 2, 1, 0.5,
					2}, {g.Normal(tensor.Float32, 2, 6, 3), 5, 1e-4, 0.75, 1},
			}
		},
	}.Entry(),
}

type normalizeArgs struct {
	Input *tensor.Tensor
	P     float64
	Dim   []int
	Eps   float64
}

type renormArgs struct {
	Self    *tensor.Tensor
	P       opdef.Scalar
	Dim     int
	Maxnorm opdef.Scalar
}

type lrnArgs struct {
	Input          *tensor.Tensor
	Size           int
	Alpha, Beta, K float64
}

// inexact refuses integers and bool.
func inexact(arg string, t *tensor.Tensor) error {
	if t.DType.Kind() < tensor.KindFloat {
		return opdef.Refuse(arg, "want a floating or complex dtype, got %s", t.DType)
	}
	return nil
}

// byFactors is x times real factors, element by element.
func byFactors(dt tensor.DType, x, factors *tensor.Tensor) *tensor.Tensor {
	if dt.IsComplex() {
		return opdef.Zip(dt, x, factors, func(x, k complex128) complex128 { return x * complex(real(k), 0) })
	}
	return opdef.Zip(dt, x, factors, func(x, k float64) float64 { return x * k })
}

// alike is the real part of conj(x)*y, element by element: what x and y have
// in common as vectors.
func alike(x, y *tensor.Tensor) *tensor.Tensor {
	if x.DType.IsComplex() {
		return opdef.Zip(tensor.Float64, x, y, func(x, y complex128) float64 {
			return real(x)*real(y) + imag(x)*imag(y)
		})
	}
	return opdef.Zip(tensor.Float64, x, y, func(x, y float64) float64 { return x * y })
}

// norms are the norms of the input, expanded to its shape.
func (a *normalizeArgs) norms() (*tensor.Tensor, []int, error) {
	if err := inexact("input", a.Input); err != nil {
		return nil, nil, err
	}
	dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
	if err == nil {
		err = reduction.CheckNorm("input", a.Input, a.P, dims)
	}
	if err != nil {
		return nil, nil, err
	}
	return opdef.Unreduce(reduction.VectorNorm(a.Input, a.P, dims, false), a.Input.Shape, dims), dims, nil
}

// grad is up/d - x/d * sum(up*x)/d * norm'(x), with d the limited norm.
func (a *normalizeArgs) grad(up *tensor.Tensor, magnitudes bool) (*tensor.Tensor, error) {
	y, dims, err := a.norms()
	if err != nil {
		return nil, err
	}
	x, term := a.Input, 1.0
	if magnitudes {
		x, up, term = opdef.Abs(x), opdef.Abs(up), -3.0-2*math.Abs(a.P)
	}
	dot := opdef.Sum(tensor.Float64, alike(x, up), dims, false)
	slope := reduction.NormGrad(x, reduction.VectorNorm(x, a.P, dims, false), dot, a.P, dims)
	if x.DType.IsComplex() {
		return opdef.ZipN(x.DType, x.Shape, func(dst []complex128, s [][]complex128) {
			for i, g := range s[0] {
				n := real(s[1][i])
				d := complex(1/max(n, a.Eps), 0)
				dst[i] = g * d
				if n >= a.Eps {
					dst[i] -= s[2][i] * d * d
				}
			}
		}, up, y, slope), nil
	}
	return opdef.ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
		for i, g := range s[0] {
			n := s[1][i]
			d := max(n, a.Eps)
			dst[i] = g / d
			if n >= a.Eps {
				dst[i] -= term * s[2][i] / (d * d)
			}
			if magnitudes {
				dst[i] *= 2
			}
		}
	}, up, y, slope), nil
}

// norms are the norms of the slices of dimension dim, expanded to self's shape,
// and the dimensions they are taken over.
func (a *renormArgs) norms() (*tensor.Tensor, []int, error) {
	x := a.Self
	if err := inexact("self", x); err != nil {
		return nil, nil, err
	}
	if x.Dim() < 2 {
		return nil, nil, opdef.Refuse("self", "want at least 2 dimensions, got %d", x.Dim())
	}
	if a.P.Kind() == tensor.KindComplex || a.P.Float64() <= 0 {
		return nil, nil, opdef.Refuse("p", "want a positive number, got %v", a.P)
	}
	if a.Maxnorm.Kind() == tensor.KindComplex || a.Maxnorm.Float64() < 0 {
		return nil, nil, opdef.Refuse("maxnorm", "want a number from 0, got %v", a.Maxnorm)
	}
	dim, err := opdef.Dim("dim", a.Dim, x.Dim())
	if err != nil {
		return nil, nil, err
	}
	dims := slices.Delete(elements.AllDims(x.Dim()), dim, dim+1)
	if err := reduction.CheckNorm("self", x, a.P.Float64(), dims); err != nil {
		return nil, nil, err
	}
	return opdef.Unreduce(reduction.VectorNorm(x, a.P.Float64(), dims, false), x.Shape, dims), dims, nil
}

func (a *lrnArgs) check() error {
	if a.Input.Dim() < 3 {
		return opdef.Refuse("input", "want at least 3 dimensions, got %d", a.Input.Dim())
	}
	if a.Size < 1 {
		return opdef.Refuse("size", "want a positive number, got %d", a.Size)
	}
	return elements.WantFloat("input", a.Input)
}

// divisors stores k + alpha*mean(x^2) of the channels around each.
func (a *lrnArgs) divisors(x, dst []float64) {
	for i := range x {
		s := 0.0
		for j := max(0, i-a.Size/2); j < min(len(x), i-a.Size/2+a.Size); j++ {
			s += x[j] * x[j]
		}
		dst[i] = a.K + a.Alpha*s/float64(a.Size)
	}
}
