package distance

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// scaledOps are distances, and elements divided by norms.
var scaledOps = []*opdef.Entry{
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
			return elements.Single(opdef.Collect(c.sums, c.dt, func(s *PairSums) float64 { return s.cos(a.Eps) })), nil
		},
		// The norms are known to their own size, so 3 times the magnitudes.
		Scale: func(a *cosineArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := a.products()
			if err != nil {
				return elements.Single(opdef.Abs(outs[0]))
			}
			return elements.Single(opdef.Collect(c.sums, tensor.Float64, func(s *PairSums) float64 {
				return 2*s.Axy/(s.n1(a.Eps)*s.n2(a.Eps)) + 2*math.Abs(s.cos(a.Eps))
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
			return opdef.Node{Grads: elements.Single(opdef.Unreduce(g.Out[0], c.shape, []int{c.dim})),
				Weak: elements.SpreadOnly}, nil
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
				{elements.DistinctOperand(g, f64, 3, 4), elements.DistinctOperand(g, f64, 3, 4), 1, 1e-6, true},
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
		return opdef.Node{Grads: elements.Single(reduction.NormGrad(d.x, y, up, d.p, d.dims))}
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
				{elements.DistinctOperand(g, f64, 3, 4), elements.DistinctOperand(g, f64, 4), opdef.Int(1)},
				{g.Normal(f64, 3), g.Normal(f64, 3),
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
		d.dims = elements.AllDims(d.x.Dim())
		return d, nil
	}, func(d *difference, y, up *tensor.Tensor) opdef.Node {
		if slices.Equal(d.a.Shape, d.b.Shape) {
			return opdef.Node{}
		}
		return opdef.Node{Skip: "gradients belong to another op"}
	}),
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

// A PairSums holds the sums over a pair of vectors: of x*y, |x*y|, x*x, y*y.
type PairSums struct{ Xy, Axy, Xx, Yy float64 }

func (s *PairSums) n1(eps float64) float64 { return max(math.Sqrt(s.Xx), eps) }

func (s *PairSums) n2(eps float64) float64 { return max(math.Sqrt(s.Yy), eps) }

func (s *PairSums) cos(eps float64) float64 { return s.Xy / (s.n1(eps) * s.n2(eps)) }

// A cosineCall is a cosine_similarity of broadcast operands.
type cosineCall struct {
	dt    tensor.DType
	x, y  *tensor.Tensor
	shape []int
	dim   int
	sums  *opdef.Folded[PairSums]
}

func (a *cosineArgs) terms() int {
	s, err := tensor.Broadcast(a.X1.Shape, a.X2.Shape)
	if err != nil {
		return 1
	}
	return elements.TermsOver(s, []int{a.Dim})
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
	return &cosineCall{dt, ts[0], ts[1], shape, dim, opdef.FoldDims(opdef.Fold[float64, PairSums]{
		Add: func(acc *PairSums, _ int, v [][]float64) {
			var s PairSums
			for i, x := range v[0] {
				y := v[1][i]
				s.Xy += x * y
				s.Axy += math.Abs(x * y)
				s.Xx += x * x
				s.Yy += y * y
			}
			acc.add(s)
		},
		Join: func(acc *PairSums, s PairSums) { acc.add(s) },
	}, dims, false, ts...)}, nil
}

func (s *PairSums) add(b PairSums) {
	s.Xy, s.Axy, s.Xx, s.Yy = s.Xy+b.Xy, s.Axy+b.Axy, s.Xx+b.Xx, s.Yy+b.Yy
}

// grads are up*(y/(n1*n2) - cos*x/n1^2) and the same of the other vector.
func (a *cosineArgs) grads(up *tensor.Tensor, magnitudes bool) (opdef.Grads, error) {
	c, err := a.products()
	if err != nil {
		return nil, err
	}
	over := func(get func(s *PairSums) float64) *tensor.Tensor {
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
	n1, n2 := over(func(s *PairSums) float64 { return s.n1(a.Eps) }),
		over(func(s *PairSums) float64 { return s.n2(a.Eps) })
	cos := over(func(s *PairSums) float64 {
		if magnitudes {
			return 2 * s.Axy / (s.n1(a.Eps) * s.n2(a.Eps))
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
		return max(1, elements.NumelOver(d.x.Shape, d.dims))
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		d, err := call(a)
		if err != nil {
			return nil, err
		}
		if err := reduction.CheckNorm(names[0], d.x, d.p, d.dims); err != nil {
			return nil, err
		}
		return elements.Single(reduction.VectorNorm(d.x, d.p, d.dims, d.keepdim)), nil
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		d, err := call(a)
		if err != nil || d.p < 1 {
			return elements.Single(elements.Scaled(opdef.Abs(outs[0]), 2))
		}
		return elements.Single(reduction.VectorNorm(d.scale, d.p, d.dims, d.keepdim))
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		d, err := call(a)
		if err != nil {
			return nil, err
		}
		t := reduction.NormGrad(d.x, g.Outs[0], g.Out[0], d.p, d.dims)
		gr := opdef.Grads{}
		gr.Set(names[0], opdef.SumTo(t, d.a.Shape))
		gr.Set(names[1], opdef.SumTo(elements.Scaled(t, -1), d.b.Shape))
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
