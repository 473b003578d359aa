package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var namedNormOps = []*opdef.Entry{
	opdef.Overload[normArgs, atenNormArgs]{
		Schema: "frobenius_norm(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", Names: "frobenius_norm",
		Of: elements.MustFind(vectorNormOps, "norm"),
		To: func(b *atenNormArgs) (*normArgs, error) {
			if b.Self.Dim() > 0 && len(b.Dim) > 2 {
				return nil, opdef.Refuse("dim", "want at most 2 dimensions, got %d", len(b.Dim))
			}
			return &normArgs{Self: b.Self, P: "fro", Dim: b.Dim, Keepdim: b.Keepdim}, nil
		},
		From: normFrom("fro"),
	}.Entry(),
	opdef.Overload[normArgs, atenNormArgs]{
		Schema: "nuclear_norm.dim(Tensor self, int[] dim, bool keepdim=False) -> Tensor", Names: "nuclear_norm",
		Of: elements.MustFind(vectorNormOps, "norm"),
		To: func(b *atenNormArgs) (*normArgs, error) {
			return &normArgs{Self: b.Self, P: "nuc", Dim: b.Dim, Keepdim: b.Keepdim}, nil
		},
		From: normFrom("nuc"),
	}.Entry(),
	opdef.Overload[normArgs, nuclearNormArgs]{
		Schema: "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", Names: "nuclear_norm",
		Of: elements.MustFind(vectorNormOps, "norm"),
		To: func(b *nuclearNormArgs) (*normArgs, error) {
			return &normArgs{Self: b.Self, P: "nuc", Keepdim: b.Keepdim}, nil
		},
		From: func(a *normArgs) *nuclearNormArgs {
			if a.P != value.Value("nuc") || a.Dim != nil || a.Dtype != nil {
				return nil
			}
			return &nuclearNormArgs{a.Self, a.Keepdim}
		},
	}.Entry(),
	opdef.Overload[normArgs, normExceptArgs]{
		Schema: "norm_except_dim(Tensor self, int pow=2, int dim=0) -> Tensor", Names: "norm_except_dim",
		Of: elements.MustFind(vectorNormOps, "norm"),
		To: func(b *normExceptArgs) (*normArgs, error) {
			if b.Dim == -1 {
				return &normArgs{Self: b.Self, P: int64(b.Pow)}, nil
			}
			d, err := opdef.Dim("dim", b.Dim, b.Self.Dim())
			if err != nil || b.Self.Dim() == 0 {
				return &normArgs{Self: b.Self, P: int64(b.Pow)}, err
			}
			return &normArgs{Self: b.Self, P: int64(b.Pow), Dim: slices.Delete(elements.AllDims(b.Self.Dim()), d, d+1),
				Keepdim: true}, nil
		},
		From: func(a *normArgs) *normExceptArgs {
			p, ok := a.P.(int64)
			if !ok || len(a.Dim) != 1 || a.Keepdim || a.Dtype != nil || a.Self.Dim() != 2 {
				return nil
			}
			return &normExceptArgs{a.Self, int(p), 1 - a.Dim[0]}
		},
	}.Entry(),
}

type atenNormArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

type nuclearNormArgs struct {
	Self    *tensor.Tensor
	Keepdim bool
}

type normExceptArgs struct {
	Self     *tensor.Tensor
	Pow, Dim int
}

// normFrom gives the calls of norm that a norm of that name says.
func normFrom(p string) func(a *normArgs) *atenNormArgs {
	return func(a *normArgs) *atenNormArgs {
		if a.P != value.Value(p) || a.Dim == nil || a.Dtype != nil {
			return nil
		}
		return &atenNormArgs{a.Self, a.Dim, a.Keepdim}
	}
}

// vectorNormOps are norms of vectors and matrices and what is scaled by them.
var vectorNormOps = []*opdef.Entry{
	normOp(opdef.Planned[*normArgs, *normOf]{
		Schema: "norm(Tensor self, any p='fro', int[1]? dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor",
		Names:  "norm functional.norm Tensor.norm",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Vector norm over dimensions, or Frobenius norm", Formula: "sum(|self|^p)^(1/p)",
			Notes: "self is converted to dtype first. p may be inf, -inf and 0 (the number of non-zero elements)."},
		Cases: opdef.Calls[normArgs](`
			f64[3, 4]; f64[3, 4], p=2, dim=[1]; f64[2, 3, 4], p=3.0, dim=[0, -1], keepdim=True
			f64[3, 4]{apart 0}, p=1, dim=[0]; f64[3, 4]{distinct}, p=inf, dim=[1]; f64[5]{distinct}, p=-inf
			f64[3, 4], dim=[0, 1]; f64[3]{apart 0}, p=1.5; f64[3]{apart 0}, p=0.5; f64[3]{apart 0}, p=-1.0
			f32[6], p=2; bf16[2, 3], p=2, dtype=f32; f32[], p=2; f32[0, 3], p=2, dim=[0]; c128[3, 2], p=2, dim=[0]
			f64[3, 4], p=2.5, dim=[0]; f64[3, 4], p='nuc'; f64[3, 2, 4], p='nuc', dim=[2, 0], keepdim=True
			f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`),
	}, "self", (*normArgs).norm),
	normOp(opdef.Planned[*linalgNormArgs, *normOf]{
		Schema: "linalg_norm(Tensor A, any ord=None, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> " +
			"Tensor",
		Names:  "linalg.norm",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Vector or matrix norm",
			Formula: "the 2-norm of all elements without ord, else a vector norm over one dimension or a matrix " +
				"norm over two",
			Notes: "Of matrices: fro, nuc (sum of singular values), 2 and -2 (largest and smallest), 1 and -1 " +
				"(largest and smallest column sum of magnitudes), inf and -inf (row sums)."},
		Cases: opdef.Calls[linalgNormArgs](`
			f64[3, 4]; f64[2, 3, 4], dim=[-1]; f64[3, 4]{apart 0}, ord=1; f64[3, 4]{apart 0}, ord=inf, keepdim=True
			f64[3, 4]{apart 0}, ord=-1, dim=[1, 0]; f64[3, 4], ord='fro'; f32[5], ord=3.0
			bf16[2, 3], ord=2, dim=[0], dtype=f32; c64[3, 2], ord='fro'`),
	}, "A", (*linalgNormArgs).norm),
	normOp(opdef.Planned[*VectorNormArgs, *normOf]{
		Schema: "linalg_vector_norm(Tensor x, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, dtype? " +
			"dtype=None) -> Tensor",
		Names: "linalg.vector_norm",
		Doc: opdef.Doc{Summary: "Vector norm over dimensions", Formula: "sum(|x|^ord)^(1/ord)",
			Notes: "ord may be inf, -inf and 0 (the number of non-zero elements)."},
		Cases: opdef.Calls[VectorNormArgs](`
			f64[3, 4]; f64[3, 4]{apart 0}, ord=1, dim=[1]; f64[3, 4]{apart 0}, ord=3.5, dim=[0], keepdim=True
			f64[2, 3]{distinct}, ord=inf, dim=[1]; f32[5], ord=0; f16[5], dtype=f32; bf16[2, 5], dim=[-1]
			f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`),
	}, "x", func(a *VectorNormArgs) (*normOf, error) {
		return newNorm(a.X, "x", a.Ord.Float64(), a.Dim, a.Keepdim, a.Dtype)
	}),
	normOp(opdef.Planned[*linalgMatrixNormArgs, *normOf]{
		Schema: "linalg_matrix_norm(Tensor A, any ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, dtype? " +
			"dtype=None) -> Tensor",
		Names: "linalg.matrix_norm",
		Doc: opdef.Doc{Summary: "Matrix norm over two dimensions",
			Notes: "fro, nuc (sum of singular values), 2 and -2 (largest and smallest), 1 and -1 (largest and " +
				"smallest column sum of magnitudes), inf and -inf (row sums)."},
		Cases: opdef.Calls[linalgMatrixNormArgs](`
			f64[2, 3, 4]; f64[3, 4]{apart 0}, ord=1; f64[3, 4]{apart 0}, ord=-inf, dim=[0, 1], keepdim=True
			f32[2, 3], dim=[0, 1]; f64[3, 4], ord='nuc'; c128[2, 3, 3], ord=2
			f64[3, 2, 4], ord=-2.0, dim=[0, 2], keepdim=True`),
	}, "A", func(a *linalgMatrixNormArgs) (*normOf, error) {
		return newMatrixNorm(a.A, a.Ord, a.Dim, a.Keepdim, a.Dtype)
	}),
}

type normArgs struct {
	Self    *tensor.Tensor
	P       value.Value
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

type linalgNormArgs struct {
	A       *tensor.Tensor
	Ord     value.Value
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

// VectorNormArgs are the arguments of linalg.vector_norm.
type VectorNormArgs struct {
	X       *tensor.Tensor
	Ord     opdef.Scalar
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

// powersum is the sum that a norm of a vector is a root of.
var powersum = compose.Declare(compose.Op[VectorNormArgs]{
	Schema: "linalg__powsum(Tensor x, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> " +
		"Tensor",
	Names: "linalg._powsum",
	Doc:   opdef.Doc{Summary: "Sum of powers of magnitudes", Formula: "sum(abs(x)^ord, dim)"},
	Cases: opdef.Calls[VectorNormArgs](`
		f64[3, 4]{apart 0}; f64[3, 4]{apart 0}, ord=3.0, dim=[1], keepdim=True; f64[3, 4]{apart 0}, ord=1, dim=[0]`),
}, compose.Fused, func(g *compose.Graph, a *VectorNormArgs) compose.Values {
	x := g.Arg("x", a.X)
	if !x.DType().IsFloat() || math.IsInf(a.Ord.Float64(), 0) {
		g.Unsupported("x", "powers %v of %s", a.Ord, x.DType())
	}
	if a.Dtype != nil {
		x = g.To(x, *a.Dtype)
	}
	dt := x.DType()
	x = g.AtLeast(x, tensor.Float32)
	dims := a.Dim
	if len(dims) == 0 {
		dims = elements.AllDims(x.Dim())
	}
	p := g.Square(x)
	if ord := a.Ord.Float64(); ord != 2 {
		p = g.Pow(g.Abs(x), ord)
	}
	return compose.Values{g.To(g.Sum(p, a.Keepdim, dims...), dt)}
})

type linalgMatrixNormArgs struct {
	A       *tensor.Tensor
	Ord     value.Value
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

// A normOf is a norm of x over dims: a vector norm of order p, or, if inner is
// set, the largest (p = inf) or smallest sum of magnitudes over dimension
// *inner, or, if spectral is set, made of singular values.
type normOf struct {
	arg     string // the name of x
	x       *tensor.Tensor
	p       float64
	dims    []int
	inner   *int
	keepdim bool
	// spectral makes it a norm of singular values of matrices over dims.
	spectral *spectralNorm
	// root tells that op_tools records the gradient of a sum of squares, of which
	// the norm is the root.
	root bool
}

// newNorm checks the arguments of a vector norm of x, which the caller names
// arg.
func newNorm(x *tensor.Tensor, arg string, p float64, dim []int, keepdim bool, dt *tensor.DType) (*normOf, error) {
	if dt != nil {
		if dt.Kind() < tensor.KindFloat || x.DType.IsComplex() && !dt.IsComplex() {
			return nil, opdef.Refuse("dtype", "no norm of dtype %s can be computed in %s", x.DType, *dt)
		}
		x = elements.Converted(x, *dt)
	}
	if x.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse(arg, "want a floating or complex dtype, got %s", x.DType)
	}
	dims, err := opdef.Dims("dim", dim, x.Dim())
	if err != nil {
		return nil, err
	}
	return &normOf{x: x, p: p, dims: dims, keepdim: keepdim}, reduction.CheckNorm(arg, x, p, dims)
}

// orderOf is the number behind an order that is no word.
func orderOf(arg string, v value.Value) (float64, error) {
	s, ok := opdef.ScalarOf(v)
	if !ok || s.Kind() == tensor.KindComplex {
		return 0, opdef.Refuse(arg, "want a number, \"fro\" or \"nuc\", got %s", opdef.TypeName(v))
	}
	return s.Float64(), nil
}

func (a *normArgs) norm() (*normOf, error) {
	p := 2.0
	switch v := a.P.(type) {
	case nil:
	case string:
		if v == "nuc" {
			dim := a.Dim
			if len(dim) == 0 && a.Self.Dim() == 2 {
				dim = []int{0, 1}
			}
			return newSpectralNorm(a.Self, "self", &spectralNorm{word: v}, dim, a.Keepdim, a.Dtype)
		}
		if v != "fro" {
			return nil, opdef.Unsupported("p", "norms of order %q are not known to this reference", v)
		}
	default:
		var err error
		if p, err = orderOf("p", v); err != nil {
			return nil, err
		}
	}
	n, err := newNorm(a.Self, "self", p, a.Dim, a.Keepdim, a.Dtype)
	if err != nil {
		return nil, err
	}
	n.root = a.P == value.Value("fro") && len(a.Dim) == 2
	return n, nil
}

func (a *linalgNormArgs) norm() (*normOf, error) {
	if a.Ord == nil {
		return newNorm(a.A, "A", 2, a.Dim, a.Keepdim, a.Dtype)
	}
	switch {
	case len(a.Dim) == 2 || len(a.Dim) == 0 && a.A.Dim() == 2:
		dim := a.Dim
		if len(dim) == 0 {
			dim = []int{0, 1}
		}
		return newMatrixNorm(a.A, a.Ord, dim, a.Keepdim, a.Dtype)
	case len(a.Dim) > 1 || len(a.Dim) == 0 && a.A.Dim() != 1:
		return nil, opdef.Refuse("dim", "a norm with ord is taken over one or two dimensions, not over %d",
			max(len(a.Dim), a.A.Dim()))
	}
	p, err := orderOf("ord", a.Ord)
	if err != nil {
		return nil, err
	}
	return newNorm(a.A, "A", p, a.Dim, a.Keepdim, a.Dtype)
}

func newMatrixNorm(x *tensor.Tensor, ord value.Value, dim []int, keepdim bool, dt *tensor.DType) (*normOf, error) {
	if x.Dim() < 2 || len(dim) != 2 {
		return nil, opdef.Refuse("A", "want a matrix over two dimensions, got shape %s and %d dimensions",
			tensor.ShapeString(x.Shape), len(dim))
	}
	if ord == value.Value("fro") {
		return newNorm(x, "A", 2, dim, keepdim, dt)
	}
	if s := spectralOrder(ord); s != nil {
		return newSpectralNorm(x, "A", s, dim, keepdim, dt)
	}
	p, err := orderOf("ord", ord)
	if err != nil {
		return nil, err
	}
	n, err := newNorm(x, "A", 1, dim, keepdim, dt)
	if err != nil {
		return nil, err
	}
	n.p = math.Copysign(math.Inf(1), p)
	outer := 0
	switch math.Abs(p) {
	case 1:
		n.inner, outer = &n.dims[0], n.dims[1]
	case math.Inf(1):
		n.inner, outer = &n.dims[1], n.dims[0]
	default:
		return nil, opdef.Unsupported("ord", "matrix norms of order %v are not known to this reference", ord)
	}
	if x.Shape[outer] == 0 {
		return nil, opdef.Refuse("A", "dimension %d has no elements, which have no largest or smallest sum", outer)
	}
	return n, nil
}

// normOp completes the declaration of a norm whose argument arg it is of.
func normOp[A any](o opdef.Planned[*A, *normOf], arg string, call func(*A) (*normOf, error)) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 2,
		Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true}}
	o.Plan = func(a *A) (*normOf, error) {
		n, err := call(a)
		if err == nil {
			n.arg = arg
		}
		return n, err
	}
	o.Terms = func(n *normOf) int { return elements.NumelOver(n.x.Shape, n.dims) }
	o.Scale = func(n *normOf, outs []*tensor.Tensor) []*tensor.Tensor {
		if n.spectral != nil { // errors of singular values are relative to the largest
			return elements.Single(tensor.Full(tensor.Float64, outs[0].Shape, n.largestSpectral()))
		}
		return elements.Single(n.scale(outs[0]))
	}
	o.Kernel = func(n *normOf) ([]*tensor.Tensor, error) { return elements.Single(n.value(n.keepdim)), nil }
	o.Grad = func(n *normOf, g *opdef.Grad) (opdef.Grads, error) {
		return elements.GradOf(arg, n.grad(g.Outs[0], g.Out[0])), nil
	}
	o.GradScale = func(n *normOf, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
		if n.spectral != nil {
			return elements.GradOf(arg, tensor.Full(tensor.Float64, gr[arg][0].Shape,
				n.spectralSensitivity()*opdef.MaxAbs(g.Out[0]))), nil
		}
		k := 3.0
		if !math.IsInf(n.p, 0) {
			k += 2 * math.Abs(n.p)
		}
		return elements.GradOf(arg, elements.Scaled(opdef.Abs(gr[arg][0]), k)), nil
	}
	o.Node = func(n *normOf, g *opdef.Grad) (opdef.Node, error) {
		switch {
		case n.spectral != nil:
			return n.spectralNode(g), nil
		case n.inner != nil: // the node takes the extremum of the sums
			s := n.sums()
			return opdef.Node{Grads: elements.Single(reduction.SplitAmongTies(s, g.Outs[0], g.Out[0], n.sumDims()))},
				nil
		case n.root:
			t := opdef.Zip(g.Outs[0].DType, g.Out[0], g.Outs[0], func(g, y float64) float64 { return g / (2 * y) })
			return opdef.Node{Grads: elements.Single(t)}, nil
		}
		return opdef.Node{}, nil
	}
	return o.Entry()
}

// Else are norms of kernels whose powers overflow, and those of values that are not finite.
func (n *normOf) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	others := []*tensor.Tensor{n.overflowing(outs[0])}
	if n.x.DType.IsFloat() && !elements.Finite(n.x) {
		others = append(others, elements.Undefined(outs[0], 1, func(int) bool { return n.spectral != nil })...)
	}
	return [][]*tensor.Tensor{others}
}

// GradElse: matrices that are not finite have no singular values, and sums of rows that are NaN no largest one.
func (n *normOf) GradElse(g *opdef.Grad) (out []opdef.Grads, _ error) {
	if !n.x.DType.IsFloat() || elements.Finite(n.x) || n.spectral == nil && n.inner == nil {
		return nil, nil
	}
	for _, t := range elements.Undefined(n.grad(g.Outs[0], g.Out[0]), 1, func(int) bool { return true }) {
		out = append(out, elements.GradOf(n.arg, t))
	}
	return out, nil
}

// accumulates reports whether powers of elements are added, and the dtype that a sound
// device does it in.
func (n *normOf) accumulates() (acc tensor.DType, ok bool) {
	if acc = tensor.Float64; n.x.DType.Real() != tensor.Float64 {
		acc = tensor.Float32
	}
	return acc, n.spectral == nil && n.inner == nil && n.p > 0 && n.p != 1 && !math.IsInf(n.p, 0)
}

// scale is S of the norm y: a norm of magnitudes is the norm, but powers below the
// accumulator's smallest normal number may be lost.
func (n *normOf) scale(y *tensor.Tensor) *tensor.Tensor {
	acc, ok := n.accumulates()
	terms := elements.NumelOver(n.x.Shape, n.dims)
	if !ok || terms == 0 {
		return opdef.Abs(y)
	}
	u := roundoff.U32
	if acc == tensor.Float64 {
		u = roundoff.U64
	}
	lost := float64(terms) * acc.SmallestNormal()
	root := func(s float64) float64 { return math.Pow(math.Max(s, 0), 1/n.p) }
	return opdef.Map(tensor.Float64, y, func(y float64) float64 {
		power := math.Pow(y, n.p)
		if !(power < lost/u) || y != y { // nothing that is seen is lost
			return y
		}
		return y + math.Max(root(power+lost)-y, y-root(power-lost))/(roundoff.Growth(terms)*u)
	})
}

// overflowing is the norm y as an accumulator of powers that overflows gives it.
func (n *normOf) overflowing(y *tensor.Tensor) *tensor.Tensor {
	acc, ok := n.accumulates()
	return opdef.Map(y.DType, y, func(y float64) float64 {
		if ok && math.Pow(y, n.p) > acc.Max() {
			return math.Inf(1)
		}
		return y
	})
}

// sums are the sums of magnitudes that a matrix norm is an extremum of, and
// sumDims the dimension of sums it is taken over.
func (n *normOf) sums() *tensor.Tensor {
	ax := opdef.Abs(n.x)
	return opdef.Sum(ax.DType, ax, []int{*n.inner}, false)
}

func (n *normOf) sumDims() []int {
	outer := n.dims[0] + n.dims[1] - *n.inner
	if outer > *n.inner {
		outer--
	}
	return []int{outer}
}

// value is the norm, of the real dtype of x.
func (n *normOf) value(keepdim bool) *tensor.Tensor {
	if n.spectral != nil {
		m, _ := n.spectralCall()
		outs := opdef.Must(m.forward())
		if keepdim {
			return outs[0].Reshape(reduction.KeptShape(n.x.Shape, n.dims)...)
		}
		return outs[0]
	}
	if n.inner != nil {
		y := opdef.Must(reduction.Extreme(n.sums(), n.sumDims(), false, n.p < 0))
		if keepdim {
			return y.Reshape(reduction.KeptShape(n.x.Shape, n.dims)...)
		}
		return y
	}
	ax := n.x
	if ax.DType.IsComplex() {
		ax = opdef.Abs(ax)
	}
	return reduction.VectorNorm(ax, n.p, n.dims, keepdim)
}

// grad is the gradient of x, with y the norm and up its gradient.
func (n *normOf) grad(y, up *tensor.Tensor) *tensor.Tensor {
	if n.spectral != nil {
		m, undo := n.spectralCall()
		batch := m.ins[0].Shape[:n.x.Dim()-2]
		gr := opdef.Must(m.grads(opdef.NewGrad(elements.Single(y.Reshape(batch...)),
			elements.Single(up.Reshape(batch...)), nil)))
		return gr["A"][0].Permute(undo...)
	}
	if n.inner != nil {
		s := n.sums()
		share := opdef.Unreduce(reduction.SplitAmongTies(s, y, up, n.sumDims()), n.x.Shape, []int{*n.inner})
		return reduction.WithSign(n.x, share)
	}
	return reduction.NormGrad(n.x, y, up, n.p, n.dims)
}
