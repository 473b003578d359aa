package linalg

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// spectralOps are functions of the singular values of matrices. They are no
// compositions: errors of singular values are relative to the largest of a matrix,
// whatever they were computed from.
var spectralOps = []*opdef.Entry{
	matrixOp(matrixDecl[condArgs]{
		Schema: "cond(Tensor A, any p=None) -> Tensor",
		Names:  "linalg.cond",
		Doc: opdef.Doc{Summary: "Condition of matrices with respect to a norm", Formula: "norm(A, p) * norm(A^-1, p)",
			Notes: "The ratio of the largest to the smallest singular value without p and for 2, its inverse for " +
				"-2; else p is fro, nuc, 1, -1, inf or -inf and A square."},
		Cases: opdef.Calls[condArgs](`
			f64[4, 3]; c128[2, 3, 3], p=2; f64[3, 3], p=-2; f64[3, 3]{regular}, p='fro'
			c128[2, 3, 3]{regular}, p='nuc'; f64[3, 3]{regular}, p=1; f64[3, 3]{regular}, p=-1
			f64[3, 3]{regular}, p=inf; f32[3, 3]{regular}`),
		Node: func(m *matrixOpCall[condArgs], g *opdef.Grad) (opdef.Node, error) {
			t := g.Out[0]
			if _, o, err := condOrder(m.given.P); err == nil && math.Abs(o) == 2 {
				t = t.Reshape(append(append([]int{}, t.Shape...), 1)...) // the node drops a dimension
			}
			return opdef.Node{Grads: elements.Single(t), Weak: "the incoming gradient reshaped"}, nil
		},
	}, condPlan),
}

type condArgs struct {
	A *tensor.Tensor
	P value.Value
}

// condOrder reads the order of the norm: a word or a number.
func condOrder(p value.Value) (word string, order float64, err error) {
	switch v := p.(type) {
	case nil:
		return "", 2, nil
	case string:
		if v != "fro" && v != "nuc" {
			return "", 0, opdef.Refuse("p", "want fro, nuc or a number, got %q", v)
		}
		return v, 0, nil
	}
	order, err = orderOf("p", p)
	if a := math.Abs(order); err == nil && a != 1 && a != 2 && !math.IsInf(a, 1) {
		return "", 0, opdef.Refuse("p", "no matrix norm has order %v", order)
	}
	return "", order, err
}

func condPlan(a *condArgs) (*matrixCall, error) {
	word, order, err := condOrder(a.P)
	if err != nil {
		return nil, err
	}
	if err := matrixArg("A", a.A, math.Abs(order) != 2); err != nil {
		return nil, err
	}
	if r, c := lastTwo(a.A); min(r, c) == 0 && a.A.Numel() == 0 && math.Abs(order) == 2 {
		return nil, opdef.Refuse("A", "matrices of shape %s have no singular values", tensor.ShapeString(a.A.Shape))
	}
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
		outs: []matrixOut{{a.A.DType.Real(), nil}}, cond: true,
		run:  algorithm{cond[float64](word, order), cond[complex128](word, order)},
		back: algorithm{condGrad[float64](word, order), condGrad[complex128](word, order)}}, nil
}

func cond[T kernel.Field](word string, order float64) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a := in[0]
		if math.Abs(order) == 2 {
			_, s, _ := kernel.SVD(a)
			return matrices[T]{column[T]([]float64{math.Pow(s[0]/s[len(s)-1], order/2)})}
		}
		x, zero := kernel.Solve(a, kernel.Eye[T](a.R, a.R))
		if zero > 0 {
			return matrices[T]{column[T]([]float64{math.Inf(1)})}
		}
		n, _ := kernel.MatrixNorm(a, word, order)
		k, _ := kernel.MatrixNorm(x, word, order)
		return matrices[T]{column[T]([]float64{n * k})}
	}
}

func condGrad[T kernel.Field](word string, order float64) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, g := in[0], in[2].D[0]
		if math.Abs(order) == 2 {
			big, slope := kernel.MatrixNorm(a, "", 2)
			small, slopeSmall := kernel.MatrixNorm(a, "", -2)
			if order < 0 {
				big, small, slope, slopeSmall = small, big, slopeSmall, slope
			}
			return matrices[T]{slope.Scale(g/kernel.From[T](small)).Add(-g*kernel.From[T](big/small/small),
				slopeSmall)}
		}
		x, _ := kernel.Solve(a, kernel.Eye[T](a.R, a.R))
		n, dn := kernel.MatrixNorm(a, word, order)
		k, dk := kernel.MatrixNorm(x, word, order)
		through := x.H().Mul(dk).Mul(x.H())
		return matrices[T]{dn.Scale(g*kernel.From[T](k)).Add(-g*kernel.From[T](n), through)}
	}
}

// A spectralNorm is a norm made of the singular values of matrices over two
// dimensions of x: their sum (nuc), the largest (2) or the smallest (-2).
type spectralNorm struct {
	word  string
	order float64
}

// spectralOrder reads an order that needs singular values; nil for any other.
func spectralOrder(ord value.Value) *spectralNorm {
	if ord == value.Value("nuc") {
		return &spectralNorm{word: "nuc"}
	}
	if s, ok := opdef.ScalarOf(ord); ok && s.Kind() != tensor.KindComplex && math.Abs(s.Float64()) == 2 {
		return &spectralNorm{order: s.Float64()}
	}
	return nil
}

// newSpectralNorm checks a norm of the matrices over the two dimensions dim of
// x, which the caller names arg.
func newSpectralNorm(x *tensor.Tensor, arg string, s *spectralNorm, dim []int, keepdim bool, dt *tensor.DType) (*normOf,
	error) {
	if x.Dim() < 2 || len(dim) != 2 {
		return nil, opdef.Refuse(arg, "want a matrix over two dimensions, got shape %s and %d dimensions",
			tensor.ShapeString(x.Shape), len(dim))
	}
	n, err := newNorm(x, arg, 2, dim, keepdim, dt)
	if err != nil {
		return nil, err
	}
	if err := matrixDType(arg, n.x); err != nil {
		return nil, err
	}
	if s.word == "" && elements.NumelOver(n.x.Shape, n.dims) == 0 {
		return nil, opdef.Refuse(arg, "matrices of shape %s have no singular values", tensor.ShapeString(n.x.Shape))
	}
	n.spectral = s
	return n, nil
}

// last is x with the matrices in its last dimensions, and how to undo it.
func (n *normOf) last() (view *tensor.Tensor, undo []int) {
	var order []int
	for d := range n.x.Dim() {
		if d != n.dims[0] && d != n.dims[1] {
			order = append(order, d)
		}
	}
	order = append(order, n.dims...)
	undo = make([]int, len(order))
	for i, d := range order {
		undo[d] = i
	}
	return n.x.Permute(order...), undo
}

func (n *normOf) spectralCall() (*matrixCall, []int) {
	view, undo := n.last()
	s := n.spectral
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{view}, ranks: []int{2},
		outs: []matrixOut{{view.DType.Real(), nil}},
		run:  algorithm{spectral[float64](s), spectral[complex128](s)}, back: algorithm{spectralGrad[float64](s),
			spectralGrad[complex128](s)}}, undo
}

func spectral[T kernel.Field](s *spectralNorm) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		v, _ := kernel.MatrixNorm(in[0], s.word, s.order)
		return matrices[T]{column[T]([]float64{v})}
	}
}

func spectralGrad[T kernel.Field](s *spectralNorm) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		_, slope := kernel.MatrixNorm(in[0], s.word, s.order)
		return matrices[T]{slope.Scale(in[2].D[0])}
	}
}

// spectra calls f with the singular values of each matrix.
func (n *normOf) spectra(f func(s []float64)) {
	view, _ := n.last()
	r, c := lastTwo(view)
	data := tensor.Data[complex128](view)
	for i := 0; r*c > 0 && i < len(data); i += r * c {
		f(kernel.SingularValues(kernel.Mat[complex128]{R: r, C: c, D: data[i : i+r*c]}))
	}
}

func (n *normOf) largestSpectral() float64 {
	best := 0.0
	n.spectra(func(s []float64) { best = math.Max(best, s[0]*float64(len(s))) })
	return best
}

// spectralSensitivity is how far a unit of relative error of the matrices moves
// singular vectors: the largest singular value over the smallest gap that the
// gradient depends on.
func (n *normOf) spectralSensitivity() float64 {
	worst := 1.0
	n.spectra(func(s []float64) {
		k := len(s)
		gap := 2 * s[k-1] // of the sum: sums of singular values of the complement
		switch {
		case n.spectral.word == "" && k == 1:
			gap = s[0]
		case n.spectral.order == 2:
			gap = s[0] - s[1]
		case n.spectral.order == -2:
			gap = math.Min(s[k-2]-s[k-1], s[k-1])
		}
		worst = math.Max(worst, math.Min(s[0]/math.Max(gap, 1e-300), 1e6))
	})
	return worst
}

// spectralNode: the norm ends in a reduction of the singular values.
func (n *normOf) spectralNode(g *opdef.Grad) opdef.Node {
	view, _ := n.last()
	r, c := lastTwo(view)
	batch := view.Shape[:view.Dim()-2]
	k := min(r, c)
	up := g.Out[0].Reshape(append(append([]int{}, batch...), 1)...)
	s := n.spectral
	f := func(in matrices[complex128]) matrices[complex128] {
		_, sv, _ := kernel.SVD(in[0])
		w := kernel.Zeros[complex128](k, 1)
		for i, x := range sv {
			if s.word == "nuc" || s.order > 0 && x == sv[0] || s.order < 0 && x == sv[k-1] {
				w.D[i] = in[1].D[0]
			}
		}
		return matrices[complex128]{w}
	}
	return opdef.Node{Grads: opdef.Must(eachMatrix(batch, []*tensor.Tensor{view, up}, []int{2, 1},
		[]matrixOut{{up.DType, []int{k}}}, f))}
}
