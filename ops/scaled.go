package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// scaledOps are distances, and elements divided by norms.
var scaledOps = []*opdef.Entry{
	opdef.Op[normalizeArgs]{
		Schema: "normalize(Tensor input, float p=2.0, int[1] dim=1, float eps=1e-12) -> Tensor",
		Names:  "F.normalize",
		Doc: opdef.Doc{Summary: "Vectors scaled to norm 1", Formula: "input / max(norm(input, p, dim), eps)",
			Source: "torch.nn.functional.normalize"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 3,
			Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}},
		Autocast:  opdef.AutocastFloat32,
		Terms:     func(a *normalizeArgs) int { return termsOver(a.Input.Shape, a.Dim) },
		GradTerms: func(a *normalizeArgs) int { return termsOver(a.Input.Shape, a.Dim) },
		Kernel: func(a *normalizeArgs) ([]*tensor.Tensor, error) {
			y, _, err := a.norms()
			if err != nil {
				return nil, err
			}
			if dt := a.Input.DType; dt.IsComplex() {
				return single(opdef.Zip(dt, a.Input, y,
					func(x, n complex128) complex128 { return x * complex(1/max(real(n), a.Eps), 0) })), nil
			}
			return single(opdef.Zip(a.Input.DType, a.Input, y,
				func(x, n float64) float64 { return x / max(n, a.Eps) })), nil
		},
		Scale: func(a *normalizeArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return single(times(opdef.Abs(outs[0]), 2))
		},
		Grad: func(a *normalizeArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := a.grad(g.Out[0], false)
			return gradOf("input", t), err
		},
		GradScale: func(a *normalizeArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			t, err := a.grad(g.Out[0], true)
			return gradOf("input", t), err
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
	opdef.Op[cosineArgs]{
		Schema: "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
		Names:  "F.cosine_similarity cosine_similarity",
		Doc: opdef.Doc{Summary: "Cosine of the angle between vectors",
			Formula: "sum(x1*x2) / (max(|x1|, eps) * max(|x2|, eps))", Notes: "The limit eps passes the gradient on.",
			Source: "torch.nn.functional.cosine_similarity"},
		Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}},
		Autocast: opdef.AutocastFloat32,
		Terms:    (*cosineArgs).terms,
		Kernel: func(a *cosineArgs) ([]*tensor.Tensor, error) {
			c, err := a.products()
			if err != nil {
				return nil, err
			}
			return single(opdef.Collect(c.sums, c.dt, func(s *crossSum) float64 { return s.cos(a.Eps) })), nil
		},
		// The norms are known to their own size, so 3 times the magnitudes.
		Scale: func(a *cosineArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := a.products()
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			return single(opdef.Collect(c.sums, tensor.Float64, func(s *crossSum) float64 {
				return 2*s.axy/(s.n1(a.Eps)*s.n2(a.Eps)) + 2*math.Abs(s.cos(a.Eps))
			}))
		},
		Grad: func(a *cosineArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grads(g.Out[0], false) },
		GradScale: func(a *cosineArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads,
			error) {
			return a.grads(g.Out[0], true)
		},
		Node: func(a *cosineArgs, g *opdef.Grad) (opdef.Node, error) {
			c, err := a.products()
			if err != nil {
				return opdef.Node{}, err
			}
			return opdef.Node{Grads: single(opdef.Unreduce(g.Out[0], c.shape, []int{c.dim})), Weak: weakSpread}, nil
		},
		Cases: func(r *rand.Rand) []*cosineArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*cosineArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), 1, 1e-8}, {g.Normal(f64, 3, 4), g.Normal(f64, 4), -1, 1e-8},
				{g.Normal(f64, 2, 3, 4), g.Normal(f64, 2, 1, 4), 0, 1e-8},
				{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), 0, 1e-8}, {g.Normal(tensor.BFloat16, 2, 3),
					g.Normal(tensor.BFloat16, 2, 3), 1, 1e-8},
				{opdef.NonContiguous(g.Normal(f64, 3, 4)), g.Normal(f64, 3, 4), 1, 1e-8},
			}
		},
	}.Entry(),
	differenceNorm(opdef.Op[pairwiseArgs]{
		Schema: "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
		Names:  "F.pairwise_distance pairwise_distance",
		Doc: opdef.Doc{Summary: "Norm of the difference of vectors",
			Formula: "norm(x1 - x2 + eps, p) over the last dimension", Source: "torch.nn.functional.pairwise_distance"},
		Cases: func(r *rand.Rand) []*pairwiseArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*pairwiseArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), 2, 1e-6, false},
				{farOperand(g, f64, 3, 4), farOperand(g, f64, 3, 4), 1, 1e-6, true},
				{g.Normal(f64, 3, 4), g.Normal(f64, 4), 3, 1e-6, false},
				{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), 2, 1e-6, false},
				{g.Normal(tensor.BFloat16, 2, 3), g.Normal(tensor.BFloat16, 2, 3), 2, 1e-6, false},
				{g.Normal(tensor.Complex128, 3, 4), g.Normal(tensor.Complex128, 3, 4), 3, 1e-6, false},
				{g.Int(tensor.Int64, -4, 4, 3, 2), g.Int(tensor.Int64, 5, 9, 3, 2), 2, 1e-6, false},
			}
		},
	}, [2]string{"x1", "x2"}, func(a *pairwiseArgs) (*difference, error) {
		d, err := newDifference(a.X1, a.X2, a.P, a.Eps, true)
		if err != nil {
			return nil, err
		}
		if d.x.Dim() == 0 {
			return nil, opdef.Refuse("x1", "want vectors, got a 0-d tensor")
		}
		d.dims, d.keepdim = []int{d.x.Dim() - 1}, a.Keepdim
		return d, nil
	}, func(d *difference, y, up *tensor.Tensor) opdef.Node {
		return opdef.Node{Grads: single(normGrad(d.x, y, up, d.p, d.dims))}
	}),
	differenceNorm(opdef.Op[distArgs]{
		Schema:   "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
		Autocast: opdef.AutocastFloat32,
		Doc:      opdef.Doc{Summary: "Norm of a difference", Formula: "norm(self - other, p)", Source: "torch.dist"},
		Cases: func(r *rand.Rand) []*distArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*distArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), opdef.Int(2)},
				{farOperand(g, f64, 3, 4), farOperand(g, f64, 4), opdef.Int(1)}, {g.Normal(f64, 3), g.Normal(f64, 3),
					opdef.Float(3)},
				{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 2, 3), opdef.Float(2)},
				{g.Distinct(f64, 5), tensor.Full(f64, []int{5}, 0.0), opdef.Float(math.Inf(1))},
				{g.Normal(tensor.Complex128, 3, 4), g.Normal(tensor.Complex128, 4), opdef.Float(2)},
			}
		},
	}, [2]string{"self", "other"}, func(a *distArgs) (*difference, error) {
		d, err := newDifference(a.Self, a.Other, a.P.Float64(), 0, false)
		if err != nil {
			return nil, err
		}
		d.dims = allDims(d.x.Dim())
		return d, nil
	}, func(d *difference, y, up *tensor.Tensor) opdef.Node {
		if slices.Equal(d.a.Shape, d.b.Shape) {
			return opdef.Node{}
		}
		return opdef.Node{Skip: "gradients belong to another op"}
	}),
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
			return single(byFactors(a.Self.DType, a.Self, opdef.Map(tensor.Float64, y, func(n float64) float64 {
				if n > limit {
					return limit / (n + 1e-7)
				}
				return 1
			}))), nil
		},
		Scale: func(a *renormArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return single(times(opdef.Abs(outs[0]), 2))
		},
		Grad: func(a *renormArgs, g *opdef.Grad) (opdef.Grads, error) {
			y, dims, err := a.norms()
			if err != nil {
				return nil, err
			}
			x, up, limit := a.Self, g.Out[0], a.Maxnorm.Float64()
			dot := opdef.Sum(tensor.Float64, alike(x, up), dims, false)
			nb := normGrad(x, vectorNorm(x, a.P.Float64(), dims, false), dot, a.P.Float64(), dims)
			if x.DType.IsComplex() {
				return gradOf("self", opdef.ZipN(x.DType, x.Shape, func(dst []complex128, s [][]complex128) {
					for i, g := range s[0] {
						dst[i] = g
						if n := real(s[1][i]); n > limit {
							k := complex(1/(n+1e-7), 0)
							dst[i] = complex(limit, 0) * k * (g - k*s[2][i])
						}
					}
				}, up, y, nb)), nil
			}
			return gradOf("self", opdef.ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
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
			return single(opdef.AlongDim(a.Input.DType, a.Input, 1, func(x, dst []float64) {
				a.divisors(x, dst)
				for i, d := range dst {
					dst[i] = x[i] * math.Pow(d, -a.Beta)
				}
			})), nil
		},
		Scale: func(a *lrnArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return single(times(opdef.Abs(outs[0]), 2+3*math.Abs(a.Beta)))
		},
		Grad: func(a *lrnArgs, g *opdef.Grad) (opdef.Grads, error) {
			return gradOf("input", opdef.AlongDimN(a.Input.DType, 1, func(s [][]float64, dst []float64) {
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

type cosineArgs struct {
	X1, X2 *tensor.Tensor
	Dim    int
	Eps    float64
}

type pairwiseArgs struct {
	X1, X2  *tensor.Tensor
	P, Eps  float64
	Keepdim bool
}

type distArgs struct {
	Self, Other *tensor.Tensor
	P           opdef.Scalar
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
		err = definedNorm("input", a.Input, a.P, dims)
	}
	if err != nil {
		return nil, nil, err
	}
	return opdef.Unreduce(vectorNorm(a.Input, a.P, dims, false), a.Input.Shape, dims), dims, nil
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
	slope := normGrad(x, vectorNorm(x, a.P, dims, false), dot, a.P, dims)
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

// A crossSum holds the sums over a pair of vectors: of x*y, |x*y|, x*x, y*y.
type crossSum struct{ xy, axy, xx, yy float64 }

func (s *crossSum) n1(eps float64) float64  { return max(math.Sqrt(s.xx), eps) }
func (s *crossSum) n2(eps float64) float64  { return max(math.Sqrt(s.yy), eps) }
func (s *crossSum) cos(eps float64) float64 { return s.xy / (s.n1(eps) * s.n2(eps)) }

// A cosineCall is a cosine_similarity of broadcast operands.
type cosineCall struct {
	dt    tensor.DType
	x, y  *tensor.Tensor
	shape []int
	dim   int
	sums  *opdef.Folded[crossSum]
}

func (a *cosineArgs) terms() int {
	s, err := tensor.Broadcast(a.X1.Shape, a.X2.Shape)
	if err != nil {
		return 1
	}
	return termsOver(s, []int{a.Dim})
}

func (a *cosineArgs) products() (*cosineCall, error) {
	dt, ts, err := opdef.Common(a.X1, a.X2)
	if err != nil {
		return nil, err
	}
	if !dt.IsFloat() {
		return nil, opdef.Refuse("x1", "want a floating dtype, got %s", dt)
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	if err != nil {
		return nil, err
	}
	dim, err := opdef.Dim("dim", a.Dim, len(shape))
	if err != nil {
		return nil, err
	}
	dims := []int{dim}
	if len(shape) == 0 {
		dims = nil
	}
	return &cosineCall{dt, ts[0], ts[1], shape, dim, opdef.FoldDims(opdef.Fold[float64, crossSum]{
		Add: func(acc *crossSum, _ int, v [][]float64) {
			var s crossSum
			for i, x := range v[0] {
				y := v[1][i]
				s.xy += x * y
				s.axy += math.Abs(x * y)
				s.xx += x * x
				s.yy += y * y
			}
			acc.add(s)
		},
		Join: func(acc *crossSum, s crossSum) { acc.add(s) },
	}, dims, false, ts...)}, nil
}

func (s *crossSum) add(b crossSum) {
	s.xy, s.axy, s.xx, s.yy = s.xy+b.xy, s.axy+b.axy, s.xx+b.xx, s.yy+b.yy
}

// grads are up*(y/(n1*n2) - cos*x/n1^2) and the same of the other vector.
func (a *cosineArgs) grads(up *tensor.Tensor, magnitudes bool) (opdef.Grads, error) {
	c, err := a.products()
	if err != nil {
		return nil, err
	}
	over := func(get func(s *crossSum) float64) *tensor.Tensor {
		t := opdef.Collect(c.sums, tensor.Float64, get)
		if len(c.shape) == 0 {
			return t
		}
		return opdef.Unreduce(t, c.shape, []int{c.dim})
	}
	g := up
	if len(c.shape) > 0 {
		g = opdef.Unreduce(up, c.shape, []int{c.dim})
	}
	n1, n2 := over(func(s *crossSum) float64 { return s.n1(a.Eps) }),
		over(func(s *crossSum) float64 { return s.n2(a.Eps) })
	cos := over(func(s *crossSum) float64 {
		if magnitudes {
			return 2 * s.axy / (s.n1(a.Eps) * s.n2(a.Eps))
		}
		return s.cos(a.Eps)
	})
	side := func(x, y, n, m *tensor.Tensor, shape []int) *tensor.Tensor {
		return opdef.SumTo(opdef.ZipN(c.dt, c.shape, func(dst []float64, s [][]float64) {
			for i, g := range s[0] {
				p, q := s[2][i]/(s[3][i]*s[4][i]), s[5][i]*s[1][i]/(s[3][i]*s[3][i])
				dst[i] = g * (p - q)
				if magnitudes {
					dst[i] = 3 * math.Abs(g) * (math.Abs(p) + math.Abs(q))
				}
			}
		}, g, x, y, n, m, cos), shape)
	}
	gr := opdef.Grads{}
	gr.Set("x1", side(c.x, c.y, n1, n2, a.X1.Shape))
	gr.Set("x2", side(c.y, c.x, n2, n1, a.X2.Shape))
	return gr, nil
}

// A difference of two tensors whose norm is taken over dims.
type difference struct {
	a, b, x *tensor.Tensor
	scale   *tensor.Tensor // |a| + |b|, the magnitudes behind x
	p       float64
	dims    []int
	keepdim bool
}

// newDifference is the difference a - b + eps; ints says that integers are
// taken as float32.
func newDifference(a, b *tensor.Tensor, p, eps float64, ints bool) (*difference, error) {
	dt, ts, err := opdef.Common(a, b)
	if err != nil {
		return nil, err
	}
	if ints && dt.Kind() < tensor.KindFloat && a.DType != tensor.Bool && b.DType != tensor.Bool {
		dt = tensor.DefaultDType
	}
	if dt.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("", "want a floating or complex dtype, got %s", dt)
	}
	ts, _, err = opdef.BroadcastAll(ts...)
	if err != nil {
		return nil, err
	}
	d := &difference{
		a: a, b: b, p: p,
		scale: opdef.Zip(tensor.Float64, opdef.Abs(ts[0]), opdef.Abs(ts[1]),
			func(x, y float64) float64 { return x + y }),
	}
	if dt.IsComplex() {
		d.x = opdef.Zip(dt, ts[0], ts[1], func(x, y complex128) complex128 { return x - y + complex(eps, 0) })
	} else {
		d.x = opdef.Zip(dt, ts[0], ts[1], func(x, y float64) float64 { return x - y + eps })
	}
	return d, nil
}

// differenceNorm completes the declaration of a norm of a difference.
func differenceNorm[A any](o opdef.Op[A], names [2]string, call func(*A) (*difference, error),
	node func(d *difference, y, up *tensor.Tensor) opdef.Node) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 3, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}}
	o.Terms = func(a *A) int {
		d, err := call(a)
		if err != nil {
			return 1
		}
		return max(1, count(d.x.Shape, d.dims))
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		d, err := call(a)
		if err != nil {
			return nil, err
		}
		if err := definedNorm(names[0], d.x, d.p, d.dims); err != nil {
			return nil, err
		}
		return single(vectorNorm(d.x, d.p, d.dims, d.keepdim)), nil
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		d, err := call(a)
		if err != nil || d.p < 1 {
			return single(times(opdef.Abs(outs[0]), 2))
		}
		return single(vectorNorm(d.scale, d.p, d.dims, d.keepdim))
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		d, err := call(a)
		if err != nil {
			return nil, err
		}
		t := normGrad(d.x, g.Outs[0], g.Out[0], d.p, d.dims)
		gr := opdef.Grads{}
		gr.Set(names[0], opdef.SumTo(t, d.a.Shape))
		gr.Set(names[1], opdef.SumTo(times(t, -1), d.b.Shape))
		return gr, nil
	}
	o.Node = func(a *A, g *opdef.Grad) (opdef.Node, error) {
		d, err := call(a)
		if err != nil {
			return opdef.Node{}, err
		}
		return node(d, g.Outs[0], g.Out[0]), nil
	}
	return o.Entry()
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
	dims := slices.Delete(allDims(x.Dim()), dim, dim+1)
	if err := definedNorm("self", x, a.P.Float64(), dims); err != nil {
		return nil, nil, err
	}
	return opdef.Unreduce(vectorNorm(x, a.P.Float64(), dims, false), x.Shape, dims), dims, nil
}

func (a *lrnArgs) check() error {
	if a.Input.Dim() < 3 {
		return opdef.Refuse("input", "want at least 3 dimensions, got %d", a.Input.Dim())
	}
	if a.Size < 1 {
		return opdef.Refuse("size", "want a positive number, got %d", a.Size)
	}
	return floating("input", a.Input)
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
